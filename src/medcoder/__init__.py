"""Turn messy medical words, in any language, into standard concepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from medcoder.bundled.graph import bundled_kg as bundled_kg
    from medcoder.kg import KG as KG
    from medcoder.kg.build import build_kg as build_kg
    from medcoder.kg.sources import open_source as open_source
    from medcoder.mapping import map_table as map_table
    from medcoder.model import load_encoder as load_encoder
    from medcoder.normalize import Normalizer as Normalizer

# Imported when first used, so that each part needs only its own dependencies.
_HOMES = {
    "KG": "medcoder.kg",
    "Normalizer": "medcoder.normalize",
    "build_kg": "medcoder.kg.build",
    "bundled_kg": "medcoder.bundled.graph",
    "load_encoder": "medcoder.model",
    "map_table": "medcoder.mapping",
    "open_source": "medcoder.kg.sources",
}
_RENAMED = {"default_kg": "bundled_kg", "ingest": "build_kg"}  # gone in 0.3
__all__ = [
    "KG",
    "Normalizer",
    "__version__",
    "build_kg",
    "bundled_kg",
    "load_encoder",
    "map_table",
    "open_source",
]


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        from warnings import warn

        new = _RENAMED[name]
        warn(f"medcoder.{name} is now medcoder.{new}", DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    if name not in _HOMES:
        raise AttributeError(f"module 'medcoder' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
