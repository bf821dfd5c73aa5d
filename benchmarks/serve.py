"""Load on the REST service: many callers with one string each, with and without micro-batching.

    python benchmarks/serve.py WORK_DIR                       # 1, 16 and 64 callers, 20 s each
    python benchmarks/serve.py WORK_DIR --seconds 4 --index DIR
    python benchmarks/serve.py WORK_DIR --minutes 10          # memory over time, 16 callers

Servers are processes of their own on loopback; the callers share another, each with a connection of
its own, and each asks for the next string as soon as it has the answer to the last. The two servers
take turns, so that what else the machine does falls on both. Strings are terms of the graph of the
index, a third of them with a slip of the pen, and no two requests ask for the same one until all
were asked for. Answers that are no success count as failures. `server_cores` and `callers_cores`
say how many cores each side kept busy. Figures go to WORK_DIR/serve.jsonl.

Memory counts in the second half of the time: in the first, the cache of the words of 65,536 rows
fills up, which takes some 25,000 requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import numpy as np

from medcoder import Normalizer
from medcoder.text import clean

CALLERS = (1, 16, 64)
TURNS = 4  # of each server with each number of callers
SLIPS = 1 / 3  # of the strings
STRINGS = 100_000
WARM = 2.0  # seconds of a turn before times count
LOOKS = 20  # at the memory, while it is watched
SETTLED = 0.5  # of the looks go before: until then, caches that have a bound fill up
SERVER = """
import socket, sys, uvicorn
from medcoder import Normalizer
from medcoder.serve import make_app
from medcoder.serve.settings import Settings

index, folder, kind = sys.argv[1:]
settings = Settings(together=False) if kind == "alone" else Settings()
app = make_app(Normalizer.load(index or None), folder=folder, settings=settings)
# Said to be TCP, as by uvicorn itself: only then do replies go out without waiting for 40 ms.
listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listening.bind(("127.0.0.1", 0))
listening.listen(1024)
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listening])
"""


class Server(NamedTuple):
    """A process that serves."""

    port: int
    process: int

    def cpu(self) -> float:
        """Seconds of work so far."""
        words = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident memory in MB without mapped files, which the system may take back."""
        status = Path(f"/proc/{self.process}/status").read_text().split()
        return int(status[status.index("RssAnon:") + 1]) / 1024


@contextmanager
def server(index: str, kind: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen(
            [sys.executable, "-c", SERVER, index, folder, kind], stdout=subprocess.PIPE, text=True
        )
        try:
            assert child.stdout is not None
            found = Server(int(child.stdout.readline()), child.pid)
            while not ready(found.port):
                time.sleep(0.05)
            yield found
        finally:
            gone = child.poll()
            child.terminate()
            child.wait(60)
            if gone is not None:
                print(f"the server ended by itself, with {gone}", file=sys.stderr)


def ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz") as reply:
            return bool(reply.status == 200)
    except OSError:
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


@dataclass
class Seen:
    """What callers saw."""

    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    failures: int = 0
    server_cpu: float = 0.0
    callers_cpu: float = 0.0

    def figures(self) -> dict[str, Any]:
        p50, p95, p99 = np.percentile(self.times or [float("nan")], [50, 95, 99]) * 1000
        return {
            "requests_per_second": round(len(self.times) / self.seconds, 1),
            "p50_ms": round(p50, 1),
            "p95_ms": round(p95, 1),
            "p99_ms": round(p99, 1),
            "failures": self.failures,
            "server_cores": round(self.server_cpu / self.seconds, 2),
            "callers_cores": round(self.callers_cpu / self.seconds, 2),
        }


async def load(
    to: Server, strings: Iterator[str], callers: int, seconds: float, seen: Seen
) -> None:
    """Ask for so long, and add to what was seen."""
    begin = time.perf_counter() + WARM
    end = begin + seconds

    async def call() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", to.port)
        while (start := time.perf_counter()) < end:
            status = await post(reader, writer, {"texts": [next(strings)]})
            if not begin <= (now := time.perf_counter()) < end:
                continue  # only answers of the time that is measured count
            if status == 200:
                seen.times.append(now - start)
            else:
                seen.failures += 1
        writer.close()

    async def watch() -> None:
        await asyncio.sleep(begin - time.perf_counter())
        before = to.cpu(), time.process_time()
        await asyncio.sleep(end - time.perf_counter())
        seen.server_cpu += to.cpu() - before[0]
        seen.callers_cpu += time.process_time() - before[1]

    await asyncio.gather(watch(), *(call() for _ in range(callers)))
    seen.seconds += seconds


async def post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[str, Any]
) -> int:
    """The status of the reply. Sixty-four of a full client would keep a core busy by themselves."""
    body = json.dumps(asked).encode()
    head = (
        "POST /v1/normalize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in rest if line)
    await reader.readexactly(int(headers["content-length"]))
    return int(first.split()[1])


def speed(args: argparse.Namespace, strings: list[str]) -> Iterator[dict[str, Any]]:
    stream = cycle(strings)
    found: dict[int, dict[str, Seen]] = defaultdict(lambda: defaultdict(Seen))
    with ExitStack() as stack:
        servers = {
            kind: stack.enter_context(server(args.index, kind)) for kind in ("alone", "together")
        }
        for callers in args.callers:
            for turn in range(TURNS):
                for kind in sorted(servers, reverse=turn % 2 == 1):
                    seen = found[callers][kind]
                    asyncio.run(load(servers[kind], stream, callers, args.seconds / TURNS, seen))
            for kind in servers:
                row = {"batching": kind == "together", "callers": callers}
                yield row | found[callers][kind].figures()
    for callers, each in found.items():
        alone, together = each["alone"].figures(), each["together"].figures()
        times = {
            f"{name}_with_to_without_batching": round(together[name] / alone[name], 2)
            for name in ("requests_per_second", "p50_ms", "p95_ms")
        }
        yield {"callers": callers} | times


def over_time(args: argparse.Namespace, strings: list[str]) -> Iterator[dict[str, Any]]:
    stream = cycle(strings)
    looks: list[float] = []
    requests = failures = 0
    step = max(args.minutes * 60 / LOOKS - WARM, 1.0)
    with server(args.index, "together") as to:
        begin = time.perf_counter()
        for _ in range(LOOKS):
            seen = Seen()
            asyncio.run(load(to, stream, 16, step, seen))
            looks.append(to.memory())
            requests, failures = requests + len(seen.times), failures + seen.failures
            yield {
                "seconds": round(time.perf_counter() - begin),
                "memory_mb": round(looks[-1], 1),
                "requests": len(seen.times),
                "failures": seen.failures,
            }
    yield verdict(looks, requests, failures, args)


def verdict(
    looks: list[float], requests: int, failures: int, args: argparse.Namespace
) -> dict[str, Any]:
    """Flat: the line through the looks of the second half rises by less than `--flat`."""
    settled = looks[int(len(looks) * SETTLED) :]
    slope = float(np.polyfit(range(len(settled)), settled, 1)[0])
    grown = slope * (len(settled) - 1)
    return {
        "minutes": args.minutes,
        "requests": requests,
        "failures": failures,
        "memory_mb": round(settled[0], 1),
        "grown_mb": round(grown, 1),
        "grown": round(grown / settled[0], 4),
        "ok": grown / settled[0] < args.flat and not failures and requests > 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--index", default="", help="directory; by default the embedded one")
    parser.add_argument("--callers", type=int, nargs="+", default=CALLERS)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--minutes", type=float, help="watch memory for so long instead")
    parser.add_argument("--flat", type=float, default=0.03, help="growth that still counts as flat")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    strings = strings_of(Normalizer.load(args.index or None), STRINGS)
    row: dict[str, Any] = {}
    with (args.work / "serve.jsonl").open("a", encoding="utf-8") as out:
        for row in over_time(args, strings) if args.minutes else speed(args, strings):
            print(json.dumps(row), flush=True)
            out.write(json.dumps(row) + "\n")
            out.flush()
    if args.minutes:
        said = "flat" if row["ok"] else "NOT flat, or requests failed"
        print(
            f"memory over {args.minutes:g} minutes: {said}: {row['memory_mb']} MB, "
            f"{row['grown_mb']:+} MB ({row['grown']:+.2%}), {row['requests']:,} requests, "
            f"{row['failures']} failures"
        )
        sys.exit(not row["ok"])


if __name__ == "__main__":
    main()
