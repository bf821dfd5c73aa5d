"""Readers of terminology releases. One file a format, one line in the table."""

from __future__ import annotations

from pathlib import Path

from medcoder.errors import UsageError
from medcoder.registry import Registry
from medcoder.types import ReadOptions, Source

SOURCES = Registry(
    "source",
    {
        "obo": "medcoder.sources.obo:OboSource",
        "omop": "medcoder.sources.omop:OmopSource",
        "open": "medcoder.sources.open:OpenSource",
        "rf2": "medcoder.sources.rf2:Rf2Source",
        "table": "medcoder.sources.table:TableSource",
        "umls": "medcoder.sources.umls:UmlsSource",
    },
)

# Sources that come with the package and take no path.
EMBEDDED = frozenset({"open"})


def open_source(spec: str, options: ReadOptions | None = None) -> Source:
    """Open "NAME=PATH", or just "NAME" for the embedded terminology."""
    name, equals, path = spec.partition("=")
    make = SOURCES.load(name)
    if name in EMBEDDED:
        if equals:
            raise UsageError(f"the source {name!r} is embedded and takes no path: write {name}")
        source: Source = make(options or ReadOptions())
        return source
    if not path:
        raise UsageError(f"the source {name!r} needs a path: {name}=PATH")
    source = make(Path(path).expanduser(), options or ReadOptions())
    return source


__all__ = ["EMBEDDED", "SOURCES", "open_source"]
