"""Packets, questions for names, and files outside MEDCODER_HOME and what was asked for.

A trial is a command, watched with its children and its native code (strace). The environment says
in turns that onnxruntime may send, may not, or nothing. In the full form the service lives longer
than its library takes to ask for a name, and more commands are watched.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from attack.frame import Attack, Skipped, Tally
from support.watched import Seen, read, reason, watching

_SWITCHES = ("0", None, "", "1", "false")
_HELD = 12.0  # seconds: onnxruntime 1.31 asks for the name of its maker's host after nine
_TABLE = "concept,term\nC1,heart attack\nC1,myocardial infarction\nC2,back pain\n"
_WARD = b"diagnosis\nhart atack\npain in the back\n"
_SERVE = ("serve", "--index", "t.index", "--project", "ward", "--port", "0")
_NEEDED = [
    ("kg", "build", "table=terms.csv", "--out", "t.kg"),
    ("index", "build", "--kg", "t.kg", "--out", "t.index"),
    ("normalize", "trouble with the heart", "--index", "t.index"),
    ("map", "ward.csv", "--column", "diagnosis", "--index", "t.index", "--out", "ward"),
    _SERVE,
]
_MORE = [
    ("normalize", "trouble with the heart"),  # prepares the bundled index on first use
    ("embed", "heart attack"),
    ("embed", "--kg", "t.kg", "--out", "t.vectors"),
    ("kg", "stats", "--kg", "t.kg", "--plot", "t.png"),
    ("map", "report", "ward"),
    ("map", "export", "ward", "sssom", "--out", "ward.tsv"),
]


def run(attack: Attack) -> Tally:
    if (why := reason()) is not None:
        raise Skipped(why)
    for number, (words, switch) in zip(range(attack.trials), _ways(attack), strict=False):
        seen = _watched(attack, number, words, switch)
        attack.tally.trials += 1
        attack.tally.count("calls to elsewhere", len(seen.sent))
        attack.tally.count("files elsewhere", len(seen.written))
        if seen.sent or seen.written:
            told = [*seen.sent, *seen.written]
            attack.tally.fail(f"{' '.join(words)} with {switch!r}: {len(told)}, {told[0]}")
    return attack.tally


def _ways(attack: Attack) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Commands without end, each round in a folder of its own and with the next switch."""
    turn = 0
    while True:
        work = _work(attack)
        work.mkdir(parents=True)
        (work / "terms.csv").write_text(_TABLE)
        (work / "ward.csv").write_bytes(_WARD)
        for words in _NEEDED if attack.small else _NEEDED + _MORE:
            yield words, _SWITCHES[turn % len(_SWITCHES)]
        work.rename(work.with_name(f"work-{turn}"))
        turn += 1


def _work(attack: Attack) -> Path:
    return attack.folder / "work"


def _watched(attack: Attack, number: int, words: tuple[str, ...], switch: str | None) -> Seen:
    work, trace = _work(attack), attack.folder / f"trace-{number}"
    attack.home.mkdir(exist_ok=True)
    changes = {
        "MEDCODER_HOME": str(work / "medcoder"), "PYTHONDONTWRITEBYTECODE": "1",
        "ORT_DISABLE_TELEMETRY": switch, "HF_HUB_OFFLINE": None, "TMPDIR": str(attack.home),
    }  # fmt: skip
    with subprocess.Popen(
        [*watching(trace), attack.python, "-m", "medcoder", *words],
        cwd=work, env=attack.environment(changes), encoding="utf-8", errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        try:
            if words == _SERVE:
                _ask(child, 0 if attack.small else _HELD)
            _, said = child.communicate(timeout=600)
        finally:
            if child.poll() is None:
                child.kill()
    if child.returncode not in (0, 1, -signal.SIGTERM):  # 1: nothing was found
        attack.tally.fail(f"{' '.join(words)}: exit code {child.returncode}: {said[-300:]}")
    return read(trace, allowed=[work], pid=child.pid, cwd=work)


def _ask(child: subprocess.Popen[str], seconds: float) -> None:
    """Look something up and send a table, as callers do."""
    assert child.stderr is not None
    address = child.stderr.readline().split()[-1]
    end = time.monotonic() + 120
    while _sent(f"{address}/readyz") != 200:
        assert time.monotonic() < end, "the service does not get ready"
        time.sleep(0.05)
    texts = json.dumps({"texts": ["a weak heart"]}).encode()
    assert _sent(f"{address}/v1/normalize", texts, "application/json") == 200
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="w.csv"\r\n\r\n'
    form += _WARD * 100_000 + b"\r\n--x--\r\n"  # more than is kept in memory
    assert _sent(f"{address}/v1/uploads", form, "multipart/form-data; boundary=x") in (200, 201)
    threading.Event().wait(seconds)
    child.send_signal(signal.SIGTERM)


def _sent(address: str, body: bytes | None = None, kind: str = "text/plain") -> int:
    request = urllib.request.Request(address, body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
