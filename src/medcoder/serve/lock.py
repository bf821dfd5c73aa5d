"""One service a folder: two would delete what the other is writing, and map its tables twice."""

from __future__ import annotations

import contextlib
import weakref
from pathlib import Path

from medcoder.errors import UsageError
from medcoder.files import locked


class FolderLock:
    """Held until it is released, or until the process ends in whatever way."""

    def __init__(self, folder: Path) -> None:
        busy = UsageError(
            "it is in use by another medcoder serve",
            where=folder,
            remedy="Stop that one, or give this one another folder with --folder",
        )
        held = contextlib.ExitStack()
        held.enter_context(locked(folder, busy=busy))
        self.release = weakref.finalize(self, held.close)
