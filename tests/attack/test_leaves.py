"""What would leave is seen: `leaves`, which finds that nothing does, is not blind.

It watches from outside (strace), because a library in C++ asks no hook of Python.
"""

import os
import subprocess
import sys

import pytest

from support.watched import read, reason, watching

FAKES = {
    # UDP: naming another machine sends it nothing.
    "sent": "import socket; socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 53))",
    "written": "import pathlib; (pathlib.Path.home() / 'x').mkdir()",
}


@pytest.fixture
def watched(tmp_path):
    """Run code with an empty home; gives what was seen of it."""
    if reason():
        pytest.skip(reason())
    home, work = tmp_path / "home", tmp_path / "work"

    def run(code, **env):
        home.mkdir()
        work.mkdir()
        env |= {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        words = [*watching(tmp_path / "trace"), sys.executable, "-c", code]
        with subprocess.Popen(words, cwd=work, env=env) as child:
            assert child.wait(120) == 0
        return read(tmp_path / "trace", allowed=[work], pid=child.pid, cwd=work)

    return run


@pytest.mark.parametrize("kind", FAKES)
def test_what_a_grandchild_does_is_seen(watched, kind):
    seen = watched(
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FAKES[kind]!r}])"
    )
    assert (len(seen.sent), len(seen.written)) == {"sent": (1, 0), "written": (0, 1)}[kind]


def test_what_may_be_is_not_told(watched):
    code = "import socket, pathlib; pathlib.Path('x').write_text('y')\n"
    code += "socket.socket(type=socket.SOCK_DGRAM).connect(('127.0.0.1', 53))"
    seen = watched(code)
    assert (seen.sent, seen.written) == ([], [])


def test_a_name_that_is_looked_up_is_seen(watched):
    """In a namespace without a network, so that no question gets out of it."""
    alone = ["unshare", "-rn"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespaces of users here")
    lookup = "import socket\ntry: socket.getaddrinfo('name.invalid', 443)\nexcept OSError: pass"
    words = [*alone, sys.executable, "-c", lookup]
    assert watched(f"import os; os.execvp('unshare', {words!r})").sent


def test_the_library_writes_unless_told(watched):
    """If it does not, the installed one has no telemetry, and the proof rests on the fakes."""
    seen = watched("import onnxruntime", ORT_DISABLE_TELEMETRY="0")
    if not seen.written:
        pytest.skip("this onnxruntime has no telemetry")
    assert any(path.endswith("onnxruntime.db") for path in seen.written)
