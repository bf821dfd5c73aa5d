"""A small disk, or a read-only one, that is seen by chosen processes alone.

It lies in memory, in a mount namespace that a process holds. Others enter it before they begin.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

_NAMESPACES = ("user", "mnt")


class NoNamespaces(Exception):
    """They cannot be made here; says why."""


class SmallDisk:
    """Mounted at `folder`, for those who call `enter` between fork and exec."""

    def __init__(self, folder: Path, shell: "subprocess.Popen[str]") -> None:
        self.folder, self._shell = folder, shell

    def do(self, command: str) -> str:
        """Have a shell command run in there, as its root; gives what it printed."""
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"( {command} ) 2>&1 </dev/null; echo; echo done $?\n")
        self._shell.stdin.flush()
        lines = []
        while not (line := self._shell.stdout.readline()).startswith("done "):
            if not line:
                raise NoNamespaces("the shell in the namespace has ended")
            lines.append(line)
        if line != "done 0\n":
            raise NoNamespaces(f"{command}: {''.join(lines).strip()}")
        return "".join(lines).strip()

    def resize(self, size: int) -> None:
        self.do(f"mount -o remount,size={size} {self.folder}")

    def make_read_only(self) -> None:
        self.do(f"mount -o remount,ro {self.folder}")

    def empty(self) -> None:
        self.do(f"find {self.folder} -mindepth 1 -delete")

    @property
    def inside(self) -> Path:
        """The same folder, as it is seen from outside."""
        return Path(f"/proc/{self._shell.pid}/root{self.folder}")

    def enter(self, cwd: Path | None = None) -> Callable[[], None]:
        """What a child calls before it begins, as `preexec_fn`."""
        handles = [f"/proc/{self._shell.pid}/ns/{name}" for name in _NAMESPACES]

        def enter() -> None:
            for handle in [os.open(path, os.O_RDONLY) for path in handles]:
                if ctypes.CDLL(None, use_errno=True).setns(handle, 0):
                    raise OSError(ctypes.get_errno(), "setns")
            os.chdir(cwd or self.folder)

        return enter


@contextlib.contextmanager
def small_disk(folder: Path, *, size: int) -> Iterator[SmallDisk]:
    """A disk of so many bytes at a folder; NoNamespaces where it cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        shell = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except OSError as error:
        raise NoNamespaces(f"unshare: {error.strerror}") from error
    with shell:
        try:
            disk = SmallDisk(folder, shell)
            try:
                disk.do(f"mount -t tmpfs -o size={size} tmpfs {folder}")
            except BrokenPipeError as error:
                raise NoNamespaces("unshare: not permitted") from error
            yield disk
        finally:
            with contextlib.suppress(BrokenPipeError):
                assert shell.stdin is not None
                shell.stdin.close()
