"""Renames in one step: to a name that must be free, and of two names for each other.

Linux has both. Elsewhere, and on file systems without them (NFS is one), each is made of plain
renames, which leave a moment between the two.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

_HERE = -100  # AT_FDCWD
_NO_REPLACE, _EXCHANGE = 1, 2
# EXDEV: parts of a layered file system may be moved in no such way.
_UNKNOWN = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV}


def rename_new(source: Path, target: Path) -> None:
    """Rename to a name that nothing has; FileExistsError if something does."""
    if _renamed(source, target, _NO_REPLACE):
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error


def exchange(one: Path, other: Path) -> bool:
    """Let two names change places; False where that cannot be done in one step."""
    return _renamed(one, other, _EXCHANGE)


def _renamed(source: Path, target: Path, how: int) -> bool:
    call = _renameat2()
    if call is None:
        return False
    if call(_HERE, os.fsencode(source), _HERE, os.fsencode(target), how) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))


@functools.cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = [
            ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint
        ]  # fmt: skip
    return call
