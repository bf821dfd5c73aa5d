"""Small files that unpack to huge ones, and damaged ones: sent to every door that reads files.

Each is read by a process that may take no more than MEMORY: refused with an error that names the
file, or read within that. A traceback, an exit code of another kind, or more memory is a failure.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import resource
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from attack.bomb_files import RELEASES, TABLES, long_line
from attack.frame import Attack, Skipped, Tally
from attack.inputs import make_index

MEMORY = 1500 << 20  # bytes of resident memory that reading any file may take
PATIENCE = 300  # seconds
# The quickest
_SMALL = ("row_three_billion.xlsx", "column_far_away.xlsx", "bad_deflate.xlsx")

_CAP = 6 << 30  # bytes of address space, so that an attack on an older tree spares the machine
_MEASURED = f"""
import atexit, resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, ({_CAP}, {_CAP}))
def tell():
    with open("/proc/self/status") as file:
        print([line for line in file if line.startswith("VmHWM")][0], file=sys.stderr)
atexit.register(tell)
sys.argv = ["medcoder", *sys.argv[1:]]
runpy.run_module("medcoder", run_name="__main__", alter_sys=True)
"""
_PEAK = re.compile(r"VmHWM:\s+([0-9]+) kB")


def run(attack: Attack) -> Tally:
    tally = attack.tally
    trials = list(_trials(attack))
    if attack.small:
        trials = [trial for trial in trials if trial[1] in _SMALL and trial[0] != "upload"]
    files = attack.folder / "files"
    files.mkdir()
    make_index(attack, attack.folder)
    service = None
    try:
        for door, name, make in trials[: attack.trials]:
            if attack.over:
                break
            path = files / name
            if not path.exists():
                make(path)
            tally.trials += 1
            tally.count(door)
            attack.say(f"{door} {name} ({path.stat().st_size:,} bytes)")
            if door == "upload":
                service = service or Service(attack)
                wrong = service.send(path)
                if wrong:
                    service.stop()
                    service = None
            else:
                wrong = _command(attack, door, path)
            if wrong:
                tally.fail(f"{door} {name}: {wrong}")
    finally:
        if service:
            service.stop()
    tally.notes["most memory allowed, MB"] = MEMORY >> 20
    return tally


def _trials(attack: Attack) -> Iterator[tuple[str, str, Callable[[Path], None]]]:
    """Doors take turns: a run that is cut short has been at each of them."""
    yield "normalize --file", "long_line.csv", long_line
    releases = iter(RELEASES.items())
    for name, make in TABLES.items():
        yield "map", name, make
        yield "upload", name, make
        for release, make_release in islice(releases, 1):
            yield "kg build", release, make_release


def _command(attack: Attack, door: str, path: Path) -> str | None:
    """What is wrong with how a command takes a file; None: nothing."""
    out, index = attack.folder / "out", ("--index", attack.folder / "small.index")
    shutil.rmtree(out, ignore_errors=True)
    if door == "map":
        args = ["map", path, "--column", "term", *index, "--out", out]
    elif door == "kg build":
        source = "obo" if ".obo" in path.name else "table"
        args = ["kg", "build", f"{source}={path}", "--out", out]
    else:
        args = ["normalize", "--file", path, *index]
    done = attack.code(_MEASURED, *args, timeout=PATIENCE)
    if done.wrong:
        return done.wrong[-300:]
    if done.rc not in (0, 3):
        return f"exit code {done.rc}: {done.err[-300:]}"
    if done.rc == 3 and path.name not in done.err:
        return f"the error does not name the file: {done.err[-300:]}"
    if path.name == "formulas.xlsx" and "1 formula without a value" not in done.err:
        return "nothing is said of formulas without a value"
    peak = int(_PEAK.findall(done.err)[-1]) << 10
    return _too_much(peak)


def _too_much(peak: int) -> str | None:
    return f"{peak >> 20:,} MB of memory" if peak > MEMORY else None


def _capped() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_CAP, _CAP))


class Service:
    """A service that files are sent to."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        words = ("serve", "--index", attack.folder / "small.index", "--port", self._port)
        self._process = attack.start(*words, stdout=DEVNULL, stderr=DEVNULL, preexec_fn=_capped)
        for _ in range(600):
            with contextlib.suppress(OSError):
                if self._ask("GET", "/readyz")[0] == 200:
                    return
            time.sleep(0.2)
        raise Skipped("the service does not start")

    def send(self, path: Path) -> str | None:
        """What is wrong with how it takes a file."""
        if path.stat().st_size > 70 << 20:  # more than the service takes at all
            self._attack.tally.count("not sent: larger than any upload")
            return None
        name = path.name.encode()
        head = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="' + name + b'"\r\n\r\n'
        )
        body = head + path.read_bytes() + b"\r\n--x--\r\n"
        try:
            status, reply = self._ask(
                "POST", "/v1/uploads", body, {"Content-Type": "multipart/form-data; boundary=x"}
            )
            if status == 201 and (wrong := self._map(json.loads(reply)["upload"])):
                return wrong
            peak = _PEAK.search(Path(f"/proc/{self._process.pid}/status").read_text())
        except OSError as error:
            return f"the service is gone: {error}"
        if status not in (201, 413, 422):
            return f"status {status}"
        return _too_much(int(peak[1]) << 10) if peak else "the service is gone"

    def _map(self, upload: str) -> str | None:
        """An upload reads the first rows alone: a job reads them all."""
        asked = json.dumps({"upload": upload, "column": "term"}).encode()
        status, reply = self._ask("POST", "/v1/map", asked, {"Content-Type": "application/json"})
        if status != 202:
            return None if status in (413, 422) else f"status {status} of a job"
        job = json.loads(reply)
        end = time.monotonic() + PATIENCE
        while job["state"] in ("waiting", "running"):
            if time.monotonic() > end:
                return f"a job takes more than {PATIENCE} s"
            time.sleep(0.05)
            job = json.loads(self._ask("GET", f"/v1/jobs/{job['id']}")[1])
        return "a job fails by itself" if "see the log" in (job["error"] or "") else None

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: Any = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()
