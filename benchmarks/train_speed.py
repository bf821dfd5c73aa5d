"""Time a training step, next to plain loops over the same batches, in the same run.

    python benchmarks/train_speed.py                 # what the machine can: GPU rows need CUDA
    python benchmarks/train_speed.py --json out.json

Terms have gamma-like lengths of 11 tokens. "padded fp32" is a loop like that of the published
reference code: padded to 32, no half precision. "trimmed bf16" pads to the longest term of the
batch under autocast. Both update the encoder and all relation matrices with torch's AdamW, after
every step as their published timings do, and after every 8 as CODER does; medcoder after every 8.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertModel

from medcoder.model.encoder import TransformerEncoder
from medcoder.model.losses.multi_similarity import multi_similarity
from medcoder.train.config import load
from medcoder.train.objective import Objective, Sources
from medcoder.train.sampler import Batch
from medcoder.train.state import new_state
from medcoder.train.step import Inputs, Prepared, Step, update

SIZES = {
    "base": {},
    "mini": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
}
M = 8


class Graph:
    """As much of a knowledge graph as the optimiser asks for."""

    def __init__(self, relations: int) -> None:
        self.relations = [str(number) for number in range(relations)]


def batches(k: int, relations: int, count: int) -> list[tuple[Batch, np.ndarray, np.ndarray]]:
    """Random triplets, and token ids of random terms, end to end, with their lengths."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(count):
        heads, tails = (np.repeat(rng.integers(0, 1_000_000, k // M), M) for _ in range(2))
        concepts = np.concatenate([heads, tails])
        lengths = np.clip(rng.gamma(4.0, 11 / 4, 2 * k).round(), 3, 32).astype(np.int64)
        tokens = rng.integers(1000, 30_000, lengths.sum())
        label = rng.integers(0, relations, k // M)
        made.append((Batch(concepts, np.arange(2 * k), label, k), tokens, lengths))
    return made


def encoder(size: str, device: str) -> TransformerEncoder:
    torch.manual_seed(0)
    model = BertModel(BertConfig(**SIZES[size]))
    return TransformerEncoder(model, None, pooling="cls").to(device).train()


def ours(size: str, k: int, relations: int, device: str, steps: int) -> dict[str, float]:
    config = load(None, [f"sampler.k={k}", f"sampler.m={M}", "schedule.warmup=100"])
    model = encoder(size, device)
    state = new_state(Graph(relations), model, config)  # type: ignore[arg-type]
    on_gpu = device == "cuda"
    step = Step(
        model,
        state.table,
        Objective(Sources(config)),
        accumulation=8,
        at_once=8 if on_gpu else 1,
        bf16=on_gpu,
    )
    prepared = []
    made = batches(k, relations, 64 if on_gpu else 8)
    for start in range(0, len(made), 8):
        slots: dict[int, int] = {}
        inputs = []
        for batch, tokens, lengths in made[start : start + 8]:
            places = [slots.setdefault(label, len(slots)) for label in batch.relations.tolist()]
            related = batch.tails[:, None] == batch.tails
            labels = batch.relations, np.array(places), related
            inputs.append(Inputs(tokens, lengths, batch.concepts, *labels))
        prepared.append(Prepared(start, start + 8, inputs, np.array(list(slots)), float("nan")))

    def run(number: int) -> None:
        if (number + 1) % 8 == 0:  # the steps of an update run together, at its end
            ready = prepared[number // 8 % len(prepared)]
            step.run(ready.inputs)
            update(state, ready, config, 1)

    return measure(run, steps, warm=24 if on_gpu else 8, device=device)


def plain(
    size: str, k: int, relations: int, device: str, steps: int, *, half: bool, every: int
) -> dict[str, float]:
    model = encoder(size, device).model
    width = model.config.hidden_size
    table = torch.nn.Parameter(torch.eye(width, device=device).repeat(relations, 1, 1))
    optimiser = torch.optim.AdamW([*model.parameters(), table], lr=2e-5)
    made = batches(k, relations, 16)

    def run(number: int) -> None:
        batch, tokens, lengths = made[number % len(made)]
        longest = int(lengths.max()) if half else 32
        ids = np.zeros((2 * k, longest), np.int64)
        mask = np.arange(longest) < lengths[:, None]
        ids[mask] = tokens
        inputs, seen = torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
        concepts = torch.from_numpy(batch.concepts).to(device)
        labels = torch.from_numpy(batch.relations).to(device)
        with torch.autocast(device, torch.bfloat16, enabled=half):
            vectors = model(input_ids=inputs, attention_mask=seen.long()).last_hidden_state[:, 0]
            moved = torch.bmm(vectors[:k].view(k // M, M, width), table[labels]).flatten(0, 1)
        units = torch.nn.functional.normalize(vectors.float(), dim=1)
        same = concepts[:, None] == concepts
        itself = torch.eye(2 * k, dtype=torch.bool, device=device)
        loss = multi_similarity(units @ units.T, same & ~itself, ~same)
        related = same[k:, k:]
        scores = torch.nn.functional.normalize(moved.float(), dim=1) @ units[k:].T
        loss = loss + multi_similarity(scores, related, ~related)
        loss.backward()
        if (number + 1) % every == 0:
            optimiser.step()
            optimiser.zero_grad()

    return measure(run, steps, warm=8, device=device)


def measure(run: Any, steps: int, *, warm: int, device: str) -> dict[str, float]:
    """Median milliseconds a step, over stretches of eight steps."""
    for number in range(warm):
        run(number)
    if device == "cuda":
        torch.cuda.synchronize()
    times = []
    for first in range(0, steps, 8):
        begin = time.perf_counter()
        for number in range(first, first + 8):
            run(number)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / 8 * 1e3)
    memory = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else float("nan")
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.empty_cache()
    return {"ms": float(np.median(times)), "memory_gb": memory}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--only", choices=["gpu", "cpu"], help="leave the other out")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def add(name: str, k: int, result: dict[str, float]) -> None:
        row = {"loop": name, "k": k, "terms_per_second": 2 * k / result["ms"] * 1e3, **result}
        rows.append(row)
        print(
            f"{name:58} {row['ms']:9.2f} ms {row['terms_per_second']:10,.0f} terms/s "
            f"{row['memory_gb']:6.1f} GB",
            flush=True,
        )
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")

    print(f"torch {torch.__version__}, {sys.version.split()[0]}")
    if torch.cuda.is_available() and options.only != "cpu":
        print(torch.cuda.get_device_name())
        for every in (1, 8):
            add(
                f"base, padded fp32, update every {every}",
                128,
                plain("base", 128, 200, "cuda", 40, half=False, every=every),
            )
            add(
                f"base, trimmed bf16, update every {every}",
                128,
                plain("base", 128, 200, "cuda", 80, half=True, every=every),
            )
        # In turns, three times: the host that launches the kernels has slower and faster moments.
        sizes = (50, 200, 1000)
        found = [ours("base", 128, size, "cuda", 240) for _ in range(3) for size in sizes]
        for place, size in enumerate(sizes):
            middle = sorted(found[place::3], key=lambda result: result["ms"])[1]
            add(f"base, medcoder, {size} matrices", 128, middle)
        add(
            "mini, trimmed bf16, update every 8, 200 matrices",
            1024,
            plain("mini", 1024, 200, "cuda", 80, half=True, every=8),
        )
        add("mini, medcoder, 200 matrices", 1024, ours("mini", 1024, 200, "cuda", 400))
    if options.only != "gpu":
        torch.set_num_threads(torch.get_num_threads())
        add(
            "cpu mini, padded fp32, update every 8",
            128,
            plain("mini", 128, 50, "cpu", 8, half=False, every=8),
        )
        add("cpu mini, medcoder", 128, ours("mini", 128, 50, "cpu", 16))


if __name__ == "__main__":
    main()
