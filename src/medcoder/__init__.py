"""Turn messy medical words, in any language, into standard concepts."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from medcoder.default import default_kg as default_kg
    from medcoder.ingest import ingest as ingest
    from medcoder.kg import KG as KG
    from medcoder.mapping import map_table as map_table
    from medcoder.normalize import Normalizer as Normalizer
    from medcoder.runtime import load_encoder as load_encoder
    from medcoder.sources import open_source as open_source

# Imported when first used, so that each part needs only its own dependencies.
_HOMES = {
    "KG": "medcoder.kg",
    "Normalizer": "medcoder.normalize",
    "load_encoder": "medcoder.runtime",
    "default_kg": "medcoder.default",
    "ingest": "medcoder.ingest",
    "map_table": "medcoder.mapping",
    "open_source": "medcoder.sources",
}
__all__ = [
    "KG",
    "Normalizer",
    "__version__",
    "default_kg",
    "ingest",
    "load_encoder",
    "map_table",
    "open_source",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'medcoder' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """This module, in which `ingest` is the function and never the package of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The first import of a package below, from wherever, binds it to its name here.
        if isinstance(value, ModuleType) and _HOMES.get(name) == value.__name__:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
