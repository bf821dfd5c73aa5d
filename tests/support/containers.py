"""Processes that are each number 1 of a process namespace of their own, as in containers."""

import functools
import shutil
import subprocess
import sys

import pytest

_CONTAINER = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]


@functools.cache
def _can() -> bool:
    if shutil.which("unshare") is None:
        return False
    made = subprocess.run([*_CONTAINER, "true"], check=False, capture_output=True)
    return made.returncode == 0


def in_container(code, *args, **options):
    """Start Python code in a container; killing the process kills what runs in it."""
    if not _can():
        pytest.skip("process namespaces cannot be made here")
    options = {"stdin": -1, "stdout": -1, "stderr": -1, "text": True} | options
    return subprocess.Popen([*_CONTAINER, sys.executable, "-c", code, *map(str, args)], **options)


def kill(process):
    """Kill a process, and go on when it and what runs in it is dead."""
    process.kill()
    process.wait()  # before its input ends, which it might take for an answer
    process.communicate()
