"""What attacks share: their table, and commands of the tree that is under attack.

An attack is a file here with `run(attack: Attack) -> Tally`, and a line in `ATTACKS`. It knows the
product from outside alone (commands, REST, files), so that it runs against an older tree as well.
"""

from __future__ import annotations

import importlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Of the command line (see `medcoder --help`) and of shells; nothing else is an answer.
EXIT_CODES = frozenset({*range(8), 130, 143})
_TRACEBACK = "Traceback (most recent call last)"
_PATIENCE = 600.0  # seconds; a command that takes longer hangs


@dataclass(frozen=True)
class Entry:
    """An attack: how many trials it has, how many in CI's form of five seconds, what it does."""

    trials: int
    small: int
    about: str
    bundled: bool = False  # uses the bundled index, which CI builds once for all of them


ATTACKS: dict[str, Entry] = {
    "bombs": Entry(
        60, 3, "small files that unpack to huge ones, and damaged ones, at every door", bundled=True
    ),
    "garbage": Entry(5000, 200, "strings that mean nothing, of ten kinds, accepted as a concept"),
    "strangers": Entry(700, 12, "directories and project files that a stranger made or changed"),
    "cells": Entry(40, 1, "hostile cells through every reader and writer of tables"),
    "leaves": Entry(60, 5, "packets, and files outside the home, of every command (strace)"),
    "kills": Entry(1000, 8, "commands killed at any moment: nothing is lost, nothing left behind"),
    "inject": Entry(
        1, 1, "ten kinds of script in all that the page and the report show (browser)", bundled=True
    ),
    "load": Entry(
        1, 1, "mixed load on the service: --minutes 60 --callers 32; times, memory", bundled=True
    ),
    "slow": Entry(20, 1, "half-sent requests and readers that do not read; then SIGTERM"),
    "volumes": Entry(60, 1, "containers that share a volume: builds and first uses, and kills"),
    "disk": Entry(200, 1, "disks that are nearly full: it is said, and nothing stays damaged"),
    "fuzz": Entry(2000, 24, "damaged files of every source, upload, import and setting"),
}


class Skipped(Exception):
    """The attack cannot be made here; says why."""


@dataclass
class Tally:
    """How many trials were made, and what went wrong in which."""

    trials: int = 0
    failures: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)
    skipped: str | None = None

    def fail(self, text: str) -> None:
        self.failures.append(text)

    def count(self, note: str, number: int = 1) -> None:
        """Count something that is worth a note."""
        before = self.notes.get(note, 0)
        assert isinstance(before, int)
        self.notes[note] = before + number


@dataclass(frozen=True)
class Result:
    """What became of a command."""

    args: tuple[str, ...]
    rc: int  # minus the signal, if one ended it
    out: str
    err: str
    seconds: float

    @property
    def wrong(self) -> str | None:
        """What no command may do whatever it is given: None if it did nothing of the sort."""
        command = " ".join(("medcoder", *self.args))
        text = self.err if _TRACEBACK in self.err else self.out
        if _TRACEBACK in text:
            return f"{command}: a traceback: {text.strip().splitlines()[-1]}"
        if self.rc < 0:
            return f"{command}: died of signal {-self.rc}: {self.err[-500:]}"
        if self.rc not in EXIT_CODES:
            return f"{command}: exit code {self.rc}: {self.err[-500:]}"
        return None


@dataclass
class Attack:
    """What an attack is given. Each has a temporary home of its own, and no network to ask."""

    name: str
    trials: int
    seed: int
    folder: Path  # empty; removed afterwards
    python: Path = Path(sys.executable)  # interpreter of the tree under attack
    callers: int | None = None
    minutes: float | None = None
    jobs: int | None = None
    small: bool = False  # CI's form
    tally: Tally = field(default_factory=Tally)  # fill this one, and an interrupt shows it

    def __post_init__(self) -> None:
        # The name of a link must stay: an environment is found by it.
        self.python = Path(os.path.abspath(self.python))  # noqa: PTH100
        self.rng = random.Random(f"{self.seed}/{self.name}")
        self._began = time.monotonic()
        self._started: list[subprocess.Popen[str]] = []

    @property
    def home(self) -> Path:
        """HOME of the commands; MEDCODER_HOME is the folder `medcoder` in it."""
        return self.folder / "home"

    @property
    def over(self) -> bool:
        """Whether the time of --minutes has passed."""
        return self.minutes is not None and time.monotonic() - self._began > 60 * self.minutes

    def say(self, text: str) -> None:
        """Tell whoever is watching."""
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def environment(self, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """That of the commands; None takes a variable away."""
        kept = {"PATH", "LANG", "LC_ALL", "TMPDIR", "OMP_NUM_THREADS"}
        env: dict[str, str | None] = {k: v for k, v in os.environ.items() if k in kept}
        env |= {"HOME": str(self.home), "MEDCODER_HOME": str(self.home / "medcoder")}
        env |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **(changes or {})}
        return {name: value for name, value in env.items() if value is not None}

    def medcoder(self, *args: object, timeout: float = _PATIENCE, **options: Any) -> Result:
        """Run a command to its end. See `run` for the options."""
        return self.run(["-m", "medcoder"], args, timeout=timeout, **options)

    def code(self, source: str, *args: object, **options: Any) -> Result:
        """Run Python code in the tree under attack."""
        return self.run(["-c", source], args, **options)

    def run(
        self,
        program: Sequence[str],
        args: Sequence[object] = (),
        *,
        input: str | None = None,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        timeout: float = _PATIENCE,
        before: Callable[[], None] | None = None,
    ) -> Result:
        """Run the interpreter of the tree. `before` is called in the child, as for `Popen`."""
        self.home.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        words = tuple(map(str, args))
        try:
            done = subprocess.run(
                [self.python, *program, *words],
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                check=False,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                env=self.environment(env),
                cwd=cwd or self.folder,
                timeout=timeout,
                preexec_fn=before,
            )
        except subprocess.TimeoutExpired as error:
            what = f"{timeout:.0f} s were not enough\n{_text(error.stderr)}"
            return Result(words, 124, _text(error.stdout), what, time.monotonic() - start)
        seconds = time.monotonic() - start
        return Result(words, done.returncode, done.stdout, done.stderr, seconds)

    def start(
        self,
        *args: object,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start a command; it is killed when the attack ends, if it runs until then."""
        self.home.mkdir(parents=True, exist_ok=True)
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process: subprocess.Popen[str] = subprocess.Popen(
            [self.python, "-m", "medcoder", *map(str, args)],
            encoding="utf-8",
            errors="replace",
            env=self.environment(env),
            cwd=cwd or self.folder,
            **given | options,
        )
        self._started.append(process)
        return process

    def stop(self) -> None:
        """End what was started."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        self._started.clear()


def load(name: str) -> Callable[[Attack], Tally]:
    """The function of an attack."""
    run: Callable[[Attack], Tally] = importlib.import_module(f"attack.{name}").run
    return run


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
