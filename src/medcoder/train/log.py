"""What a run reports: a line of JSON every so many steps, and TensorBoard if wanted."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from medcoder.errors import MissingExtra, NonFiniteLoss
from medcoder.files import write_text
from medcoder.train.config import TrainConfig
from medcoder.train.state import State
from medcoder.train.step import Prepared

Report = Callable[[dict[str, float]], None]  # each line of metrics


class Log:
    """Means of what steps report, a line of JSON every `log_every` steps."""

    def __init__(
        self,
        path: Path,
        config: TrainConfig,
        state: State,
        progress: Report | None,
        names: Sequence[str],
        *,
        enabled: bool,
        tensorboard: bool = False,
    ) -> None:
        self._path, self._config, self._state = path, config, state
        self._progress, self._enabled = progress, enabled
        self._columns = (*names, "gradient_norm")
        self._sum = torch.tensor(state.window or [0.0] * len(self._columns), dtype=torch.float64)
        self._steps = state.window_steps
        self._pending: list[torch.Tensor] = []
        self._bad: int | None = None  # step by which something was no number
        self._slots = 0
        self._clock, self._done = time.perf_counter(), state.step
        self._board = _board(path.parent, state.step) if tensorboard and enabled else None

    def add(self, report: torch.Tensor, norm: torch.Tensor, ready: Prepared) -> None:
        """The sum of what the steps of an update report, and the norm of its gradient."""
        self._pending.append(torch.cat([report, norm.view(1) * len(ready.inputs)]))
        self._slots = len(ready.inputs[0].concepts)
        if not math.isnan(ready.missed):
            self._state.missed = ready.missed

    def write(self, rate: float) -> None:
        """After an update: a line, if one is due. Reading the reports waits for the device."""
        step = self._state.step
        if not crosses(step, self._config.log_every, self._config):
            return
        self.check()
        now = time.perf_counter()
        speed = (step - self._done) * self._slots / max(now - self._clock, 1e-9)
        means = (self._sum / self._steps).tolist()
        line = {"step": step, **dict(zip(self._columns, means, strict=True)), "learning_rate": rate}
        if self._state.missed is not None:
            line["missed_positives"] = self._state.missed
        self._sum.zero_()
        self._steps = 0
        self._clock, self._done = now, step
        self.line(line | {"terms_per_second": speed})

    def line(self, line: dict[str, float]) -> None:
        if self._enabled:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            if self._board is not None:
                for name, value in line.items():
                    self._board.add_scalar(name, value, int(line["step"]))
            if self._progress:
                self._progress(line)

    def check(self) -> None:
        """An error if any loss or gradient so far was no number."""
        self._collect()
        if self._bad is not None:
            raise NonFiniteLoss(
                f"the loss or its gradient is not finite at step {self._bad:,}",
                remedy="The last checkpoint is from before. Train to another directory with a "
                "lower optimiser.learning_rate",
            )

    def keep(self) -> None:
        self._collect()
        self._state.window, self._state.window_steps = self._sum.tolist(), self._steps

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def _collect(self) -> None:
        if not self._pending:
            return
        each = self._config.optimiser.accumulation
        first = self._state.step - len(self._pending) * each
        # One after the other, so that the sum does not depend on when it is asked for.
        for number, row in enumerate(torch.stack(self._pending).double().cpu(), 1):
            if self._bad is None and not bool(torch.isfinite(row).all()):
                self._bad = first + number * each
            self._sum += row
        self._steps += len(self._pending) * each
        self._pending = []


def crosses(step: int, every: int, config: TrainConfig) -> bool:
    """Whether the update that ended at `step` passed a multiple of `every`."""
    return step // every > (step - config.optimiser.accumulation) // every


def all_steps(config: TrainConfig) -> int:
    """Steps of the whole run, which ends with an update."""
    accumulation = config.optimiser.accumulation
    if config.schedule.unit == "updates":
        return config.schedule.total * accumulation
    return whole_updates(config.schedule.total, config)


def whole_updates(steps: int, config: TrainConfig) -> int:
    return -(-steps // config.optimiser.accumulation) * config.optimiser.accumulation


def cut(metrics: Path, step: int) -> None:
    """Drop the lines that came after the checkpoint, and one that was cut short."""
    if metrics.exists():
        lines = metrics.read_bytes().split(b"\n")
        kept = [line for line in lines if _step(line) <= step]
        write_text(metrics, "".join(line.decode() + "\n" for line in kept))


def _step(line: bytes) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf


def _board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "TensorBoard is not installed", remedy="Install it with: pip install tensorboard"
        ) from error
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
