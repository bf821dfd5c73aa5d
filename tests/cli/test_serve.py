"""`medcoder serve`: after a kill -9 under load, the project has every acknowledged decision."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx

from medcoder.mapping import Project
from support.mapped import make

REVIEWERS = 3
PER_KILL = (25, 40)  # decisions before each kill


def start(index, project, folder):
    bare = {name: value for name, value in os.environ.items() if not name.startswith("MEDCODER_")}
    child = subprocess.Popen(
        [sys.executable, "-m", "medcoder", "serve", "--index", str(index), "--project",
         str(project), "--port", "0", "--folder", str(folder)],
        stderr=subprocess.PIPE, text=True, env=bare | {"MEDCODER_HOME": str(folder)},
    )  # fmt: skip
    line = child.stderr.readline()
    assert "http://127.0.0.1:" in line, line + child.stderr.read()
    return child, line.split()[-1]


def review(base, who, acknowledged, stopped):
    """Decide until the server is gone; keep what it said yes to."""
    number = 0
    with httpx.Client(base_url=base, timeout=30) as rest:
        while not stopped.is_set():
            number += 1
            key = (1, 2, 3, 5)[number % 4]
            note = f"{who} {number}"
            try:
                answer = rest.post(
                    f"/v1/projects/out/terms/{key}/decision",
                    json={"concept": None, "who": who, "note": note},
                )
            except httpx.HTTPError:
                return
            assert answer.status_code == 200, answer.text
            acknowledged.append((key, answer.json()["version"], who, note))


def test_no_acknowledged_decision_is_lost(many_index, tmp_path):
    make(tmp_path).close()
    project = tmp_path / "out"
    acknowledged = []
    for wanted in PER_KILL:
        child, base = start(many_index, project, tmp_path / "serve")
        stopped, before = threading.Event(), len(acknowledged)
        people = [
            threading.Thread(target=review, args=(base, f"r{number}", acknowledged, stopped))
            for number in range(REVIEWERS)
        ]
        for one in people:
            one.start()
        while len(acknowledged) < before + wanted and any(one.is_alive() for one in people):
            threading.Event().wait(0.002)
        child.send_signal(signal.SIGKILL)
        assert child.wait(30) == -signal.SIGKILL
        stopped.set()
        for one in people:
            one.join(30)
        child.stderr.close()
        assert len(acknowledged) >= before + wanted
        with Project.open(project) as opened:
            opened.verify()
            found = {(one.row, one.version): one for one in opened.history()}
            for key, version, who, note in acknowledged:
                event = found[key, version]
                assert (event.who, event.note) == (who, note)
    assert len({(key, version) for key, version, *_ in acknowledged}) == len(acknowledged)


def test_a_signal_ends_it_in_peace(many_index, tmp_path):
    make(tmp_path).close()
    child, base = start(many_index, tmp_path / "out", tmp_path / "serve")
    assert httpx.get(f"{base}/healthz").json() == {"ok": True}
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 0
    assert child.stderr.read() == ""
    child.stderr.close()


def test_the_command_refuses_to_listen_elsewhere_without_a_token(tmp_path):
    from typer.testing import CliRunner

    from medcoder.cli import app

    def invoke(*rest, token=None):
        place = ["--folder", str(tmp_path / "serve"), "--index", str(tmp_path / "none")]
        return CliRunner().invoke(app, ["serve", *place, *rest], env={"MEDCODER_TOKEN": token})

    before = tempfile.tempdir
    found = invoke("--host", "0.0.0.0")
    assert found.exit_code == 2
    assert "--token-file" in found.output
    short = tmp_path / "token"
    short.write_text("abc\n")
    found = invoke("--host", "0.0.0.0", "--token-file", str(short))
    assert (found.exit_code, "at least 16" in found.output) == (2, True)
    found = invoke("--project", str(tmp_path / "nothing"))
    assert (found.exit_code, "no such project" in found.output) == (4, True)
    assert not Path(tmp_path / "serve").exists()
    assert tempfile.tempdir == before  # whoever calls it goes on in the same process


def test_an_index_that_cannot_be_loaded_ends_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "medcoder", "serve", "--index", str(tmp_path), "--port", "0",
         "--folder", str(tmp_path / "serve")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr
