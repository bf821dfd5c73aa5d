"""Commands as processes that start in milliseconds, and the moments to kill them at."""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from attack.frame import Attack, Result

_SERVER = Path(__file__).with_name("fork_server.py")
# Imported by many commands; none of these does anything until it is called.
_PRELOAD = ("typer", "rich.progress", "rich.table", "numpy", "pyarrow.parquet", "polars", "faiss")
_PRELOAD += ("tokenizers", "filelock", "jinja2", "sqlite3", "rapidfuzz", "medcoder.cli")
_PRELOAD += ("medcoder.kg.build", "medcoder.kg.sources.table", "medcoder.vectors.embed")
_PRELOAD += ("medcoder.normalize", "medcoder.normalize.build", "medcoder.cli.open")
_PRELOAD += ("medcoder.mapping", "medcoder.mapping.report", "medcoder.mapping.project.queue")
TORCH = ("torch", "transformers.models.bert.modeling_bert", "medcoder.train.session")
SERVE = ("fastapi", "uvicorn", "prometheus_client", "medcoder.serve")
_HANGS = 300.0  # seconds
_SIGNALS = (signal.SIGKILL,) * 8 + (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Kill:
    """A signal after some seconds, or just before the nth change of files."""

    signal: int
    seconds: float = 0.0
    change: int = 0

    def __str__(self) -> str:
        when = f"before change {self.change}" if self.change else f"after {self.seconds:.3f} s"
        return f"{signal.Signals(self.signal).name} {when}"


@dataclass(frozen=True)
class Undisturbed:
    """How long a command takes, and how often it changes files."""

    seconds: float
    changes: int

    def draw(self, rng: random.Random) -> Kill:
        """A moment of it."""
        chosen = rng.choice(_SIGNALS)
        if self.changes and rng.random() < 0.5:
            return Kill(chosen, change=rng.randint(1, self.changes))
        return Kill(chosen, seconds=rng.uniform(0, 1.05) * self.seconds)


class Forks:
    """A process that forks one command at a time."""

    def __init__(
        self, attack: Attack, folder: Path, *preload: str, patience: float = _HANGS
    ) -> None:
        """patience: seconds after which a command hangs."""
        folder.mkdir(parents=True, exist_ok=True)
        self._attack, self._folder = attack, folder
        self._number = 0
        self.patience = patience
        self.lock = threading.Lock()  # for those who share it
        attack.home.mkdir(parents=True, exist_ok=True)
        self._server = subprocess.Popen(
            [attack.python, "-P", _SERVER, *_PRELOAD, *preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=attack.environment({"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}),
        )

    def start(self, *args: object, kill: Kill | None = None, **env: str) -> "Forked":
        """Start a command; wait for it before the next."""
        self._number += 1
        names = {name: str(self._folder / f"{self._number}.{name}") for name in ("out", "err")}
        count = self._folder / f"{self._number}.count"
        for name in names.values():  # it may die before it has opened them
            Path(name).touch()
        job = {
            **names,
            "args": [str(arg) for arg in args],
            "env": self._attack.environment({"OMP_NUM_THREADS": "1", **env}),
            "cwd": str(self._folder),
            "at": kill.change if kill else 0,
            "signal": kill.signal if kill else 0,
            "count": str(count),
        }
        assert self._server.stdin is not None
        print(json.dumps(job), file=self._server.stdin, flush=True)
        return Forked(self._reply()["pid"], self, tuple(job["args"]), names, count)

    def run(self, *args: object, kill: Kill | None = None, **env: str) -> Result:
        """Run a command to its end, or until it is killed."""
        started = self.start(*args, kill=kill, **env)
        if kill is not None and not kill.change:
            started.wait_until(time.monotonic() + kill.seconds)
            started.send(kill.signal)
        return started.result()

    def measure(self, *args: object, **env: str) -> tuple[Result, Undisturbed]:
        """Run a command undisturbed."""
        started = self.start(*args, **env)
        result = started.result()
        changes = int(started.count.read_text()) if started.count.exists() else 0
        return result, Undisturbed(result.seconds, changes)

    def close(self) -> None:
        for stream in (self._server.stdin, self._server.stdout):
            if stream is not None:
                stream.close()
        self._server.wait(timeout=_HANGS)

    def _reply(self) -> dict[str, int]:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise RuntimeError("the process that forks commands has ended")
        reply: dict[str, int] = json.loads(line)
        return reply


class Forked:
    """A command that was started."""

    def __init__(
        self, pid: int, forks: Forks, args: tuple[str, ...], names: dict[str, str], count: Path
    ) -> None:
        self._forks, self._args, self._names, self.count = forks, args, names, count
        self._began = time.monotonic()
        self._rc: int | None = None
        self.memory = 0  # bytes at most, once it has ended
        self.pid = pid
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    def _wait(self) -> None:
        reply = self._forks._reply()
        self._rc, self.memory = reply["rc"], reply["memory"]
        self._ended = time.monotonic()

    @property
    def err(self) -> str:
        """What it has written to standard error so far."""
        return Path(self._names["err"]).read_text(encoding="utf-8", errors="replace")

    @property
    def running(self) -> bool:
        return self._waiter.is_alive()

    def wait_until(self, moment: float) -> None:
        """Until that time, or its end."""
        self._waiter.join(max(0.0, moment - time.monotonic()))

    def send(self, number: int) -> None:
        if self.running:
            # Its parent waits for it here, and so does nothing that could take its number.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def result(self) -> Result:
        self._waiter.join(self._forks.patience)
        if self.running:
            self.send(signal.SIGKILL)
            self._waiter.join()
            return Result(self._args, 124, self._out, f"it hung\n{self.err}", self._forks.patience)
        assert self._rc is not None
        return Result(self._args, self._rc, self._out, self.err, self._ended - self._began)

    @property
    def _out(self) -> str:
        return Path(self._names["out"]).read_text(encoding="utf-8", errors="replace")
