"""Load on the REST service: many callers with one string each, with and without micro-batching.

    python benchmarks/serve.py WORK_DIR                       # 1, 16 and 64 callers, 20 s each
    python benchmarks/serve.py WORK_DIR --seconds 2 --index DIR
    python benchmarks/serve.py WORK_DIR --minutes 10          # memory over time, 16 callers

The server is a process of its own on loopback; the callers share another, each asks for the next
string as soon as it has the answer to the last. Strings are terms of the graph of the index, a
third of them with a slip of the pen, and no two requests ask for the same one until all were asked
for. Answers that are no success count as failures. Figures go to WORK_DIR/serve.jsonl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from medcoder import Normalizer
from medcoder.text import clean

CALLERS = (1, 16, 64)
SLIPS = 1 / 3  # of the strings
STRINGS = 20_000
WARM = 3.0  # seconds before times count
SERVER = """
import socket, sys, uvicorn
from medcoder import Normalizer
from medcoder.serve import make_app
from medcoder.serve.settings import Settings

index, folder, alone = sys.argv[1:]
settings = Settings(window=None) if alone == "alone" else Settings()
app = make_app(Normalizer.load(index or None), folder=folder, settings=settings)
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listening])
"""


@contextmanager
def server(index: str, *, alone: bool) -> Iterator[tuple[str, int]]:
    """The address and the process id of a server."""
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen(
            [sys.executable, "-c", SERVER, index, folder, "alone" if alone else "together"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert child.stdout is not None
            base = f"http://127.0.0.1:{int(child.stdout.readline())}"
            while not ready(base):
                time.sleep(0.05)
            yield base, child.pid
        finally:
            child.terminate()
            child.wait(60)


def ready(base: str) -> bool:
    try:
        return httpx.get(f"{base}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def strings_of(normalizer: Normalizer, count: int) -> list[str]:
    """Terms of the graph in no order, some with two letters swapped."""
    draw, kg = random.Random(7), normalizer.kg
    numbers = draw.sample(range(len(kg)), min(count, len(kg)))
    found = [clean(kg.terms.preferred(number)) for number in numbers]
    for place, text in enumerate(found):
        if len(text) > 5 and draw.random() < SLIPS:
            at = draw.randrange(1, len(text) - 2)
            found[place] = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    return found


async def load(
    base: str, strings: Iterator[str], callers: int, seconds: float
) -> tuple[list[float], int]:
    """Times of the answers, and failures."""
    times: list[float] = []
    failures = 0
    begin = time.perf_counter() + WARM
    end = begin + seconds
    limits = httpx.Limits(max_connections=callers, max_keepalive_connections=callers)

    async def call(client: httpx.AsyncClient) -> None:
        nonlocal failures
        while (start := time.perf_counter()) < end:
            answer = await client.post("/v1/normalize", json={"texts": [next(strings)]})
            if not begin <= (now := time.perf_counter()) < end:
                continue  # only answers of the time that is measured count
            if answer.status_code == 200:
                times.append(now - start)
            else:
                failures += 1

    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=60) as client:
        await asyncio.gather(*(call(client) for _ in range(callers)))
    return times, failures


def figures(callers: int, times: list[float], failures: int, seconds: float) -> dict[str, Any]:
    p50, p95, p99 = np.percentile(times, [50, 95, 99]) * 1000
    return {
        "callers": callers,
        "requests_per_second": round(len(times) / seconds, 1),
        "p50_ms": round(p50, 2),
        "p95_ms": round(p95, 2),
        "p99_ms": round(p99, 2),
        "failures": failures,
    }


def memory(process: int) -> float:
    """Resident memory in MB without mapped files, which the system may take back."""
    status = Path(f"/proc/{process}/status").read_text().split()
    return int(status[status.index("RssAnon:") + 1]) / 1024


def speed(args: argparse.Namespace, strings: list[str]) -> Iterator[dict[str, Any]]:
    stream = cycle(strings)
    rates: dict[tuple[bool, int], float] = {}
    for alone in (True, False):
        with server(args.index, alone=alone) as (base, _):
            for callers in args.callers:
                found = asyncio.run(load(base, stream, callers, args.seconds))
                row = {"batching": not alone} | figures(callers, *found, args.seconds)
                rates[alone, callers] = row["requests_per_second"]
                yield row
    for callers in args.callers:
        ratio = rates[False, callers] / rates[True, callers]
        yield {"callers": callers, "with_to_without_batching": round(ratio, 2)}


def over_time(args: argparse.Namespace, strings: list[str]) -> Iterator[dict[str, Any]]:
    stream = cycle(strings)
    seen = []
    with server(args.index, alone=False) as (base, process):
        begin = time.perf_counter()
        step = min(30.0, args.minutes * 6)  # ten looks at least
        while time.perf_counter() - begin < args.minutes * 60:
            times, failures = asyncio.run(load(base, stream, 16, step))
            seen.append(memory(process))
            yield {
                "seconds": round(time.perf_counter() - begin),
                "memory_mb": round(seen[-1], 1),
                "requests": len(times),
                "failures": failures,
            }
    # The first look is left out: what is loaded when first used is not growth.
    settled = seen[1:] or seen
    slope = np.polyfit(range(len(settled)), settled, 1)[0] if len(settled) > 1 else 0.0
    growth = slope * len(settled) / settled[0]
    yield {"growth": round(float(growth), 4), "flat": bool(growth < args.flat)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--index", default="", help="directory; by default the embedded one")
    parser.add_argument("--callers", type=int, nargs="+", default=CALLERS)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--minutes", type=float, help="watch memory for so long instead")
    parser.add_argument("--flat", type=float, default=0.05, help="growth that still counts as flat")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    strings = strings_of(Normalizer.load(args.index or None), STRINGS)
    grown = False
    with (args.work / "serve.jsonl").open("a", encoding="utf-8") as out:
        for row in over_time(args, strings) if args.minutes else speed(args, strings):
            print(json.dumps(row), flush=True)
            out.write(json.dumps(row) + "\n")
            grown = grown or row.get("flat") is False
    sys.exit(grown)


if __name__ == "__main__":
    main()
