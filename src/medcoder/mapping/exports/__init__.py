"""Formats that a mapping project is written in: one file each, and one line in the table.

An export is a function `export(project, path, *, progress=None, ...)` that writes one file, whole
or not at all, and gives notes: sentences on what the file does not hold.
"""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medcoder.errors import UsageError
from medcoder.registry import Registry

if TYPE_CHECKING:
    from medcoder.mapping.store import Project

EXPORTS = Registry(
    "export",
    {
        "csv": "medcoder.mapping.exports.csv:export",
        "fhir": "medcoder.mapping.exports.fhir:export",
        "omop": "medcoder.mapping.exports.omop:export",
        "parquet": "medcoder.mapping.exports.parquet:export",
        "sssom": "medcoder.mapping.exports.sssom:export",
        "usagi": "medcoder.mapping.exports.usagi:export",
        "xlsx": "medcoder.mapping.exports.xlsx:export",
    },
    extras={"xlsx": "tables"},
)
# How the names of their files end, for those who choose one.
ENDINGS = {
    "csv": ".csv",
    "fhir": ".json",
    "omop": ".source_to_concept_map.csv",
    "parquet": ".parquet",
    "sssom": ".sssom.tsv",
    "usagi": ".usagi.csv",
    "xlsx": ".xlsx",
}


def export(project: Project, name: str, path: Path, **options: Any) -> list[str]:
    """Write a project in the format of that name; gives notes on what the file does not hold.

    Options that are None count as not given.
    """
    write = EXPORTS.load(name)
    options = {key: value for key, value in options.items() if value is not None}
    check_options(f"the export {name!r}", write, options)
    if not project.meta:
        raise UsageError(
            f"{project.path.parent} holds no table yet. Map one with: medcoder map FILE --out DIR"
        )
    notes: list[str] = write(project, Path(path), **options)
    return notes


def check_options(what: str, function: Any, options: dict[str, Any]) -> None:
    """Whether a function takes these options."""
    takes = list(signature(function).parameters)[2:]
    for option in options:
        if option not in takes:
            known = ", ".join(name for name in takes if name != "progress") or "none"
            raise UsageError(f"{what} has no option {option!r}. It has: {known}")
