"""Tables in, reviewed mappings out."""

from __future__ import annotations

from medcoder.mapping.store import Project
from medcoder.registry import Registry

# Name -> function (project, path, **options) that writes a file. One file a format.
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
# Name -> function (project, path, **options) that takes decisions over from a file.
IMPORTS = Registry(
    "import",
    {
        "sssom": "medcoder.mapping.imports.sssom:load",
        "usagi": "medcoder.mapping.imports.usagi:load",
    },
)

__all__ = ["EXPORTS", "IMPORTS", "Project"]
