"""What is killed: commands that make something, and those that acknowledge decisions."""

import hashlib
import http.client
import json
import random
import re
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from attack.forks import Forked, Forks, Kill, Undisturbed
from attack.frame import Result

SETTINGS = (
    *("sampler.k=8", "sampler.m=2", "optimiser.accumulation=2", "schedule.total=24"),
    *("optimiser.learning_rate=0.002", "schedule.warmup=4", "log_every=2", "checkpoint_every=3"),
)
_STOPPED = {0, 130, 143, -2, -15}  # after SIGTERM or SIGINT: done before, or stopped


def listing(folder: Path) -> set[str]:
    """All files and folders below, hidden ones too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def stopped(result: Result, kill: Kill) -> str | None:
    """What a command did wrong when it was stopped."""
    if kill.signal == 9:
        wrong = result.rc not in (0, -9) and result.wrong
        return wrong or None
    if result.rc == 2 and "it exists" in result.err:  # an earlier kill came after the work was done
        return None
    if result.rc == 0 and result.err.startswith("Exception ignored in"):
        return None  # a compiled library was being loaded, and kept the interrupt to itself
    if "Traceback (most" in result.err or result.rc not in _STOPPED:
        last = result.err.strip().splitlines()[-1:]
        return f"{kill}: exit code {result.rc}, a traceback or other words: {last}"
    return None


class Target(ABC):
    """Something to kill. `share` of all kills are its; a series has `longest` of them at most."""

    undisturbed: Undisturbed
    torch = False  # whether it needs torch

    def __init__(self, name: str, share: float, longest: int) -> None:
        self.name, self.share, self.longest = name, share, longest

    @abstractmethod
    def measure(self, given: Path, folder: Path, forks: Forks) -> None:
        """Run it undisturbed."""

    @abstractmethod
    def series(
        self, given: Path, folder: Path, forks: Forks, rng: random.Random, kills: int
    ) -> list[str]:
        """Kill it so often, then let it finish. What went wrong."""


class Making(Target):
    """A command that makes something: whole or not at all, and the same after any kills.

    command: its words, from what is given and the folder to write to
    result: what must be the same
    start: makes what is there before the first run
    reads: a command that must work after every kill, since there is something to read
    """

    def __init__(
        self,
        name: str,
        share: float,
        longest: int,
        *,
        command: Callable[[Path, Path], Sequence[object]],
        result: Callable[[Path, Result], object],
        start: Callable[[Path, Path, Forks], None] | None = None,
        reads: Callable[[Path], Sequence[object]] | None = None,
        home: bool = False,
        torch: bool = False,
    ) -> None:
        super().__init__(name, share, longest)
        self.torch = torch
        self._command, self._result, self._start, self._reads = command, result, start, reads
        self._home = home

    def _env(self, folder: Path) -> dict[str, str]:
        return {"MEDCODER_HOME": str(folder / "home")} if self._home else {}

    def measure(self, given: Path, folder: Path, forks: Forks) -> None:
        folder.mkdir()
        if self._start:
            self._start(given, folder, forks)
        words = self._command(given, folder)
        result, self.undisturbed = forks.measure(*words, **self._env(folder))
        assert result.rc == 0, result
        self._made = self._result(folder, result)
        self._left = listing(folder)

    def series(
        self, given: Path, folder: Path, forks: Forks, rng: random.Random, kills: int
    ) -> list[str]:
        wrong: list[str | None] = []
        if self._start:
            self._start(given, folder, forks)
        words, env = self._command(given, folder), self._env(folder)
        done = []
        for _ in range(kills):
            kill = self.undisturbed.draw(rng)
            done.append(str(kill))
            wrong.append(stopped(forks.run(*words, kill=kill, **env), kill))
            if self._reads:
                result = forks.run(*self._reads(folder), **env)
                wrong.append(result.wrong)
                if result.rc:
                    wrong.append(f"what was there cannot be read: {result.err.strip()}")
        result = forks.run(*words, **env)
        wrong.append(result.wrong)
        if result.rc and "it exists" in result.err:  # the kill came after the work was done
            result = Result(result.args, 0, result.out, result.err, result.seconds)
        if result.rc:
            wrong.append(f"the next run fails with {result.rc}: {result.err.strip()}")
        elif (made := self._result(folder, result)) != self._made:
            wrong.append(f"the result is another: {made} instead of {self._made}")
        if not result.rc and (left := listing(folder)) != self._left:
            more, less = sorted(left - self._left), sorted(self._left - left)
            wrong.append(f"left behind: {more[:5]}, missing: {less[:5]}")
        return [f"{text} [{', '.join(done)}]" for text in wrong if text]


class Deciding(Target):
    """Decisions by the command line. One is acknowledged when the command has returned 0."""

    def _words(self, folder: Path, row: int, note: str) -> tuple[object, ...]:
        words = ("map", "decide", folder / "project", row, "--no-match", "--who", "ann")
        return (*words, "--note", note)

    def measure(self, given: Path, folder: Path, forks: Forks) -> None:
        shutil.copytree(given / "project", folder / "project")
        result, self.undisturbed = forks.measure(*self._words(folder, 1, "x"))
        assert result.rc == 0, result
        self._left = listing(folder)

    def series(
        self, given: Path, folder: Path, forks: Forks, rng: random.Random, kills: int
    ) -> list[str]:
        shutil.copytree(given / "project", folder / "project")
        wrong: list[str | None] = []
        sure, done = set(), []
        for number in range(kills):
            kill = self.undisturbed.draw(rng)
            done.append(str(kill))
            note = f"note {number}"
            result = forks.run(*self._words(folder, rng.randint(1, 200), note), kill=kill)
            wrong.append(stopped(result, kill))
            if result.rc == 0:
                sure.add(note)
        result = forks.run(*self._words(folder, 200, "last"))
        wrong.append(result.wrong)
        if result.rc:
            wrong.append(f"the next decision fails with {result.rc}: {result.err.strip()}")
        result = forks.run("map", "history", folder / "project", "--json")
        wrong.append(result.wrong)
        if result.rc:
            wrong.append(f"the history fails with {result.rc}: {result.err.strip()}")
        else:
            notes = [json.loads(line)["note"] for line in result.out.splitlines()]
            wrong.append(lost(notes, sure | {"last"}))
        if (left := listing(folder)) != self._left:
            wrong.append(f"left behind: {sorted(left ^ self._left)}")
        return [f"{text} [{', '.join(done)}]" for text in wrong if text]


def lost(notes: list[str], sure: set[str]) -> str | None:
    """Whether a decision that was acknowledged is missing, or one is there twice."""
    if missing := sure - set(notes):
        return f"acknowledged decisions are lost: {sorted(missing)[:5]}"
    if len(set(notes)) != len(notes):
        return "a decision is there twice"
    return None


class Serving(Target):
    """Decisions over REST of four callers. One is acknowledged when the service answers 200."""

    _CALLERS = 4

    def _start(self, given: Path, folder: Path, forks: Forks) -> Forked:
        words = ("serve", "--index", given / "small.index", "--project", folder / "project")
        return forks.start(*words, "--port", 0, "--folder", folder / "uploads")

    def measure(self, given: Path, folder: Path, forks: Forks) -> None:
        shutil.copytree(given / "project", folder / "project")
        began = time.monotonic()
        process = self._start(given, folder, forks)
        _port(process)
        self.undisturbed = Undisturbed(time.monotonic() - began, 0)
        process.send(15)
        assert process.result().rc in _STOPPED

    def series(
        self, given: Path, folder: Path, forks: Forks, rng: random.Random, kills: int
    ) -> list[str]:
        shutil.copytree(given / "project", folder / "project")
        wrong: list[str | None] = []
        sure: set[str] = set()
        done = []
        for number in range(kills):
            kill = self.undisturbed.draw(rng)
            process = self._start(given, folder, forks)
            if rng.random() < 0.2:  # while it starts
                done.append(str(kill))
                process.wait_until(time.monotonic() + kill.seconds)
            else:
                many = rng.randint(1, 60)
                done.append(f"signal {kill.signal} after {many} decisions")
                port = _port(process)
                if port is None:
                    wrong.append(f"it does not start: {process.result()}")
                    break
                self._decide(port, f"round {number}", sure, many, process)
            process.send(kill.signal)
            wrong.append(stopped(process.result(), kill))
        process = self._start(given, folder, forks)
        port = _port(process)
        if port is None:
            return [f"it does not start: {process.result()} [{', '.join(done)}]"]
        wrong.append(lost(_notes(port), sure))
        process.send(15)
        wrong.append(stopped(process.result(), Kill(15)))
        return [f"{text} [{', '.join(done)}]" for text in wrong if text]

    def _decide(self, port: int, prefix: str, sure: set[str], many: int, process: Forked) -> None:
        """Return once so many are acknowledged, while callers go on until the service is gone."""
        enough = threading.Event()

        def call(caller: int) -> None:
            number = 0
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                while process.running:
                    note = f"{prefix} {caller} {number}"
                    number += 1
                    body = json.dumps({"concept": None, "who": "ann", "note": note})
                    key = caller * 40 + number % 40 + 1
                    path = f"/v1/projects/project/terms/{key}/decision"
                    connection.request("POST", path, body, {"Content-Type": "application/json"})
                    reply = connection.getresponse()
                    reply.read()
                    if reply.status == 200:
                        sure.add(note)
                    if len(sure) >= goal:
                        enough.set()
            except (OSError, http.client.HTTPException):
                return

        goal = len(sure) + many
        for caller in range(self._CALLERS):
            threading.Thread(target=call, args=(caller,), daemon=True).start()
        enough.wait(60)


def _port(process: Forked) -> int | None:
    """Where a service listens, once it does; None if it has ended."""
    while process.running:
        if found := re.search(r"http://127.0.0.1:(\d+)", process.err):
            return int(found[1])
        process.wait_until(time.monotonic() + 0.01)
    return None


def _notes(port: int) -> list[str]:
    """Of all events, oldest first."""
    notes: list[str] = []
    since = 0
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while True:
        connection.request("GET", f"/v1/projects/project/changes?since={since}")
        reply = connection.getresponse()
        found = json.loads(reply.read())
        assert reply.status == 200, found
        if not found["events"]:
            return notes
        notes += [event["note"] for event in found["events"]]
        since = found["events"][-1]["id"]


def _meta(name: str) -> Callable[[Path, Result], object]:
    def fingerprint(folder: Path, _: Result) -> object:
        return json.loads((folder / name / "meta.json").read_text())["fingerprint"]

    return fingerprint


def _trained(folder: Path, _: Result) -> object:
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [{**json.loads(line), "terms_per_second": 0} for line in lines]
    weights = (folder / "run" / "model" / "model.safetensors").read_bytes()
    return hashlib.sha256(repr(losses).encode() + weights).hexdigest()


def _older(given: Path, folder: Path, forks: Forks) -> None:
    result = forks.run("kg", "build", f"table={given / 'older'}", "--out", folder / "new.kg")
    assert result.rc == 0, result


def _build(given: Path, folder: Path) -> tuple[object, ...]:
    return ("kg", "build", f"table={given / 'release'}", "--out", folder / "new.kg")


def _train(given: Path, folder: Path) -> tuple[object, ...]:
    words = ("train", "--kg", given / "small.kg", "--init", given / "tiny", "--resume")
    changes = [word for setting in SETTINGS for word in ("--set", setting)]
    return (*words, "--out", folder / "run", *changes)


TARGETS: list[Target] = [
    Making("build", 0.25, 5, command=_build, result=_meta("new.kg")),
    Making(
        "overwrite",
        0.12,
        4,
        command=lambda given, folder: (*_build(given, folder), "--overwrite"),
        result=_meta("new.kg"),
        start=_older,
        reads=lambda folder: ("kg", "stats", "--kg", folder / "new.kg", "--json"),
    ),
    Making(
        "embed",
        0.13,
        5,
        command=lambda given, folder: (
            *("embed", "--kg", given / "large.kg", "--model", given / "bag.onnx"),
            *("--out", folder / "new.vectors"),
        ),
        result=_meta("new.vectors"),
    ),
    Making(
        "index",
        0.05,
        5,
        command=lambda given, folder: (
            *("index", "build", "--kg", given / "small.kg", "--model", given / "bag.onnx"),
            *("--out", folder / "new.index"),
        ),
        result=_meta("new.index"),
    ),
    Making(
        "first use",
        0.012,
        5,
        command=lambda given, folder: ("normalize", "heart attack", "--json"),
        result=lambda folder, result: result.out,
        home=True,
    ),
    Making(
        "map",
        0.12,
        5,
        command=lambda given, folder: (
            *("map", given / "ward.csv", "--column", "text", "--code", "id", "--count", "n"),
            *("--index", given / "small.index", "--out", folder / "ward"),
        ),
        result=lambda folder, result: hashlib.sha256(
            (folder / "ward" / "mapped.csv").read_bytes()
        ).hexdigest(),
    ),
    Deciding("decide", 0.17, 10),
    Serving("serve", 0.078, 5),
    Making("train", 0.07, 4, command=_train, result=_trained, torch=True),
]
