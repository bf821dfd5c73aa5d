"""A mapping project: one SQLite file with source rows, candidates, decisions and their history."""

from __future__ import annotations

from medcoder.mapping.project.store import Project

__all__ = ["Project"]
