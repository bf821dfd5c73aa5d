"""Tables in, reviewed mappings out."""

from __future__ import annotations

from medcoder.mapping.batch import map_table
from medcoder.mapping.formats import FORMATS, export
from medcoder.mapping.project import Project
from medcoder.mapping.project_calibration import calibrate, undo_calibration
from medcoder.mapping.project_table import Mapped, write_results
from medcoder.mapping.refresh import refresh

__all__ = [
    "FORMATS", "Mapped", "Project", "calibrate", "export", "map_table", "refresh",
    "undo_calibration", "write_results",
]  # fmt: skip
