"""Callers that send half of a request or read no reply: the service lives on, and ends in time."""

from __future__ import annotations

import contextlib
import http.client
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial

from attack.frame import Attack, Skipped, Tally

FILES, MANY = 1024, 1100  # files that the service may open, as is usual; more callers than that
FEW_FILES, FEWER = 200, 250  # the same for CI
SECONDS = 5.0  # for /healthz to answer
END = 15.0  # seconds between SIGTERM and the end
_HEAD = b"POST /v1/normalize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def run(attack: Attack) -> Tally:
    tally = attack.tally
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY + 200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Skipped(f"this process may open {hard} files, and {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        for number in range(attack.trials):
            if attack.over:
                break
            kinds = list(_KINDS) if attack.small else [list(_KINDS)[number % len(_KINDS)]]
            for failure in _trial(attack, kinds):
                tally.fail(f"{', '.join(kinds)}: {failure}")
            tally.trials += 1
            tally.count(", ".join(kinds))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return tally


def _trial(attack: Attack, kinds: list[str]) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        service = attack.start(
            "serve", "--port", 0, "--folder", attack.folder / "serve",
            *(("--grace-seconds", 2) if attack.small else ()),
            stdout=subprocess.DEVNULL,
            preexec_fn=partial(_limit_files, FEW_FILES if attack.small else FILES),
        )  # fmt: skip
        assert service.stderr is not None
        said = ""
        while "http://" not in said:
            if not (said := service.stderr.readline()):
                yield f"it did not start: {service.wait()}"
                return
        port = int(said.rpartition(":")[2])
        if not attack.small:  # else it must end while it loads
            while _status(port, "/readyz", 60) != 200:
                time.sleep(0.1)
        for kind in kinds:
            _KINDS[kind](attack, port, stack)
            status = _status(port, "/healthz", SECONDS)
            if status != 200:
                yield f"/healthz answers {status or 'nothing'} with {kind} at work"
        service.send_signal(signal.SIGTERM)
        try:
            service.wait(END)
        except subprocess.TimeoutExpired:
            service.kill()
            yield f"SIGTERM does not end it in {END:.0f} s"
        else:
            text = service.stderr.read()
            if service.returncode != 0:
                yield f"SIGTERM: exit code {service.returncode}: {text[-300:]}"
            if "Traceback" in text:
                yield f"a traceback: {text.strip().splitlines()[-1]}"


def _heads(attack: Attack, port: int, stack: contextlib.ExitStack) -> None:
    for _ in range(FEWER if attack.small else MANY):
        if (caller := _caller(port, stack)) is not None:
            _send(caller, _HEAD[: attack.rng.randrange(1, len(_HEAD))])


def _bodies(attack: Attack, port: int, stack: contextlib.ExitStack) -> None:
    for _ in range(attack.rng.choice([5, 50, 200])):
        if (caller := _caller(port, stack)) is not None:
            length = attack.rng.choice([b"Content-Length: 999", b"Transfer-Encoding: chunked"])
            _send(caller, _HEAD + length + b"\r\n\r\n5\r\n{")


def _readers(attack: Attack, port: int, stack: contextlib.ExitStack) -> None:
    """They ask until nothing more goes, and read nothing."""
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for _ in range(5):
        if (caller := _caller(port, stack)) is not None:
            caller.setblocking(False)
            with contextlib.suppress(OSError):
                for _ in range(100_000):
                    caller.send(asked)


def _unsent(attack: Attack, port: int, stack: contextlib.ExitStack) -> None:
    """They connect and say nothing."""
    for _ in range(FEWER if attack.small else MANY):
        _caller(port, stack)


_KINDS: dict[str, Callable[[Attack, int, contextlib.ExitStack], None]] = {
    "half-sent heads": _heads,
    "half-sent bodies": _bodies,
    "readers that do not read": _readers,
    "connections without a request": _unsent,
}


def _caller(port: int, stack: contextlib.ExitStack) -> socket.socket | None:
    try:
        caller = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    except OSError:
        return None
    return stack.enter_context(caller)


def _send(caller: socket.socket, content: bytes) -> None:
    with contextlib.suppress(OSError):  # it may be dropped already
        caller.sendall(content)


def _status(port: int, path: str, seconds: float) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _limit_files(wanted: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
