"""Tables in, reviewed mappings out."""

from __future__ import annotations

from medcoder.mapping.batch import map_table
from medcoder.mapping.exports import EXPORTS
from medcoder.mapping.imports import IMPORTS
from medcoder.mapping.refreshing import refresh
from medcoder.mapping.results import Mapped
from medcoder.mapping.store import Project
from medcoder.mapping.writing import write_results

__all__ = ["EXPORTS", "IMPORTS", "Mapped", "Project", "map_table", "refresh", "write_results"]
