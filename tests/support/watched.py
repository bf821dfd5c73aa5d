"""What a process sends and writes, with its children and its native code: strace tells.

words = watching(trace) + [program, ...]
... run them to the end ...
seen = read(trace, allowed=[folder])
"""

import contextlib
import functools
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

_OPEN = ("open", "openat", "openat2", "creat")
_NAMES = (
    "mkdir mkdirat mknod mknodat rename renameat renameat2 link linkat symlink symlinkat truncate"
)
_CALLS = ",".join(["%network", *(f"?{name}" for name in (*_OPEN, *_NAMES.split()))])
# Where names are looked up: the resolver's settings, and the sockets of services that do it.
_LOOKUP = re.compile(r'"/etc/resolv\.conf"|sun_path="[^"]*(?:nscd|resolve)[^"]*"')
_ADDRESS = re.compile(r'(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"')
_CALL = re.compile(r"^(\w+)\((.*)\) = (-?\d+)(?:<([^>]*)>)?")
_NAME = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"')
_NO_FILES = ("/dev/", "/proc/", "pipe:", "socket:", "anon_inode:", "/memfd:")


@dataclass
class Seen:
    """Calls that look up names or address other machines, and what was written elsewhere."""

    sent: list[str]
    written: list[str]


def watching(trace: Path) -> list[str]:
    """Words before a command: it has the process id that it would have without them."""
    return ["strace", "-D", "-ff", "-y", "-q", "--seccomp-bpf", "-e", _CALLS, "-o", str(trace)]


def read(trace: Path, *, allowed: list[Path], pid: int, cwd: Path) -> Seen:
    """What the process `pid`, which has ended, and those that it started have done."""
    _wait(trace.with_name(f"{trace.name}.{pid}"))
    seen = Seen([], [])
    for file in sorted(trace.parent.glob(f"{trace.name}.*")):
        for line in file.read_text(errors="replace").splitlines():
            if _leaves(line):
                seen.sent.append(line)
            path = _written(line, cwd)
            if path is not None and not any(path.is_relative_to(folder) for folder in allowed):
                seen.written.append(str(path))
    return seen


@functools.cache
def reason() -> str | None:
    """Why nothing can be watched here; None if it can."""
    if shutil.which("strace") is None:
        return "there is no strace here"
    with tempfile.TemporaryDirectory() as folder:
        words = [*watching(Path(folder) / "t"), "true"]
        done = subprocess.run(words, capture_output=True, check=False)
        traced = list(Path(folder).iterdir())
    return None if done.returncode == 0 and traced else "strace may not be used here"


def _wait(file: Path, seconds: float = 60) -> None:
    """strace writes the last line a moment after the process is gone."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError):
            if file.read_text(errors="replace").rstrip().endswith("+++"):
                return
        time.sleep(0.01)
    raise AssertionError(f"strace did not finish {file}")


def _leaves(line: str) -> bool:
    if _LOOKUP.search(line):
        return True
    if not line.startswith(("connect(", "sendto(", "sendmsg(", "sendmmsg(")):
        return False
    return any(not ip_address(found).is_loopback for found in _ADDRESS.findall(line))


def _written(line: str, cwd: Path) -> Path | None:
    """The file or name that a call made or opened for writing."""
    if (call := _CALL.match(line)) is None or call[3] == "-1":
        return None
    name, words, _, opened = call.groups()
    if name in _OPEN:
        if opened is None or not re.search(
            r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", words + name.upper()
        ):
            return None
        path = Path(opened)
    elif name in _NAMES.split():
        folder, last = _NAME.findall(words)[-1]  # of two names, the new one
        path = Path(folder or cwd) / last
    else:
        return None
    return None if str(path).startswith(_NO_FILES) else path
