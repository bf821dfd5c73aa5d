"""One service a folder: two would delete what the other is writing, and map its tables twice."""

from __future__ import annotations

import os
import sys
import weakref
from pathlib import Path

from medcoder.errors import UsageError

FILE = "lock"


class FolderLock:
    """Held until it is released, or until the process ends in whatever way."""

    def __init__(self, folder: Path) -> None:
        handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600)
        self.release = weakref.finalize(self, os.close, handle)
        if not _taken(handle):
            self.release()
            raise UsageError(
                f"{folder} is in use by another medcoder serve. Stop that one, or give this one "
                "another folder with --folder"
            )


def _taken(handle: int) -> bool:
    """Whether it is ours now; where there are no such locks, it is."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks
        return True
    return True
