"""Several processes that train one model, as torchrun starts them, and interrupts that wait."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy.typing as npt
import torch
import torch.distributed as dist

# Others wait while the first process tokenises a graph or evaluates; torchrun ends all of them
# when one fails.
_PATIENCE = timedelta(hours=6)


def device() -> torch.device:
    """Where this process computes."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def join() -> tuple[int, int]:
    """Rank and number of processes; joins the group that torchrun asks for."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes == 1:
        return 0, 1
    if not dist.is_initialized():
        on_gpu = device().type == "cuda"
        if on_gpu:
            torch.cuda.set_device(device())
        dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    return dist.get_rank(), processes


def wait() -> None:
    """Until all processes are here."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def share(numbers: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Whole numbers (n, h) that the first process has; the others have None and get them."""
    if not (dist.is_available() and dist.is_initialized()):
        assert numbers is not None
        return numbers
    shape = torch.tensor((0, 0) if numbers is None else numbers.shape, device=device())
    dist.broadcast(shape, 0)
    sent = torch.zeros(shape.tolist(), dtype=torch.int32, device=device())
    if numbers is not None:
        sent.copy_(torch.from_numpy(numbers))
    dist.broadcast(sent, 0)
    received: npt.NDArray[Any] = sent.cpu().numpy()
    return received


def leave() -> None:
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """SIGINT and SIGTERM that arrive within take effect at the end.

    So a checkpoint is never made while what it keeps does not fit together.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread alone
        return
    came: list[signal.Signals] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if handler is not None:  # one that was not set from Python cannot be put back
                before[number] = handler
                signal.signal(number, lambda sent, _: came.append(signal.Signals(sent)))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
