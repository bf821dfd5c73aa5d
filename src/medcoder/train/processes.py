"""Several processes that train one model, as torchrun starts them."""

from __future__ import annotations

import os
from datetime import timedelta

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


def leave() -> None:
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
