"""Tables in, reviewed mappings out."""

from __future__ import annotations

from typing import Any

from medcoder.mapping.batch import map_table
from medcoder.mapping.formats import FORMATS, export
from medcoder.mapping.project import Project
from medcoder.mapping.project_table import Mapped, write_results
from medcoder.mapping.refresh import refresh

__all__ = ["FORMATS", "Mapped", "Project", "export", "map_table", "refresh", "write_results"]


def __getattr__(name: str) -> Any:
    """Names of version 0.1, which go in 0.3."""
    if name not in ("EXPORTS", "IMPORTS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import warnings

    message = f"medcoder.mapping.{name} is now medcoder.mapping.FORMATS, and goes in 0.3"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return FORMATS
