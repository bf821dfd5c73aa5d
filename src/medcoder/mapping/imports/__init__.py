"""Files whose decisions a mapping project takes over: one file a format, and one line in the table.

An import is a function `load(project, path, *, kg=None, overwrite=False, who="", ...)`, which gives
an account of what it took (`Taken`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from medcoder.mapping.exports import check_options
from medcoder.mapping.imports.base import Taken
from medcoder.registry import Registry

if TYPE_CHECKING:
    from medcoder.mapping.store import Project

IMPORTS = Registry(
    "import",
    {
        "sssom": "medcoder.mapping.imports.sssom:load",
        "usagi": "medcoder.mapping.imports.usagi:load",
    },
    extras={"sssom": "tables"},
)

__all__ = ["IMPORTS", "Taken", "load"]


def load(project: Project, name: str, path: Path, **options: Any) -> Taken:
    """Take decisions over from a file of that format; options that are None count as not given."""
    read = IMPORTS.load(name)
    options = {key: value for key, value in options.items() if value is not None}
    check_options(f"the import {name!r}", read, options)
    taken: Taken = read(project, Path(path), **options)
    return taken
