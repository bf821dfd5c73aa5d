"""Readers of terminology releases. One file a format, one line in the table."""

from __future__ import annotations

from pathlib import Path

from medcoder.errors import InputError, UsageError
from medcoder.registry import Registry
from medcoder.types import ReadOptions, Source

SOURCES = Registry(
    "source",
    {
        "obo": "medcoder.kg.sources.obo:OboSource",
        "omop": "medcoder.kg.sources.omop:OmopSource",
        "open": "medcoder.kg.sources.open:OpenSource",
        "rf2": "medcoder.kg.sources.rf2:Rf2Source",
        "table": "medcoder.kg.sources.table:TableSource",
        "umls": "medcoder.kg.sources.umls:UmlsSource",
    },
)

# Sources that come with the package and take no path.
EMBEDDED = frozenset({"open"})


def open_source(spec: str, options: ReadOptions | None = None) -> Source:
    """Open "NAME=PATH", or just "NAME" for the bundled terminology."""
    name, equals, path = spec.partition("=")
    make = SOURCES.load(name)
    if name in EMBEDDED:
        if equals:
            raise UsageError("a bundled source takes no path", where=name, remedy=f"Write {name}")
        source: Source = make(options or ReadOptions())
        return source
    if not path:
        raise UsageError("this source needs a path", where=name, remedy=f"Write {name}=PATH")
    source = make(_found(path), options or ReadOptions())
    return source


def _found(text: str) -> Path:
    """The path of something that is there."""
    try:
        text.encode()  # its name may go into the report
        path = Path(text).expanduser()
    except UnicodeEncodeError as error:
        raise UsageError("the path is not UTF-8", values=repr(text), remedy="Rename it") from error
    except RuntimeError as error:
        raise UsageError("there is no such home directory", where=text) from error
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError("does not exist", file=path, remedy="Check the path") from error
    except OSError as error:
        raise InputError(
            "cannot be read",
            file=path,
            values=error.strerror or error,
            remedy="Check the path, and who may read it",
        ) from error
    return path


__all__ = ["EMBEDDED", "SOURCES", "open_source"]
