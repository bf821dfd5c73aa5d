"""Mixed load on the service: every kind of request, all callers at once, each without a pause.

    scripts/attack load --minutes 60 --callers 32
    scripts/attack load --minutes 2 --callers 32 --python OLD/.venv/bin/python

Programs ask for single strings, new and known ones; people at the page search, and look at concepts
and their neighbours; reviewers go through several projects; some send batches, one maps tables and
exports them. Failures are replies that are no success,
answers that differ from those to the same string alone, and memory that grows: by more than 5% in
the second half of the time, if that is long enough to tell. The notes have times by kind.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attack.frame import Attack, Tally

CALLERS = 32
MINUTES = 2.0
PROJECTS, ROWS = 3, 150
BATCH = 50
KNOWN = 200  # strings that are asked for again and again
FLAT = 0.05  # growth of memory that still counts as flat
LONG = 600.0  # seconds from which on growth is judged: before, caches fill up
PATIENCE = 60.0  # seconds for a reply
WARM = 5.0  # seconds before times count
# What each kind of caller asks for, and how often; of 32, so many are of each kind.
ROLES: dict[str, tuple[int, dict[str, float]]] = {
    "program": (14, {"new string": 7, "known string": 3}),
    "page": (8, {"search": 6, "concept": 3, "neighbours": 1}),
    "reviewer": (6, {"queue": 8, "decision": 6, "changes": 2, "projects": 1, "search": 3}),
    "bulk": (3, {"batch": 1}),
    "mapper": (1, {"map": 1, "export": 3}),
}
_STRINGS = """
import json, random, sys
from medcoder import Normalizer
kg, draw = Normalizer.load().kg, random.Random(int(sys.argv[1]))
numbers = draw.sample(range(len(kg)), min(60_000, len(kg)))
terms = [kg.terms.preferred(number) for number in numbers]
for place, text in enumerate(terms):
    if len(text) > 5 and draw.random() < 1 / 3:
        at = draw.randrange(1, len(text) - 2)
        terms[place] = text[:at] + text[at + 1] + text[at] + text[at + 2:]
ids = [kg.terms.id(number) for number in numbers[:5000]]
json.dump({"terms": terms, "ids": ids}, open(sys.argv[2], "w"))
"""


@dataclass
class Seen:
    """What callers saw."""

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wrong: Counter[str] = field(default_factory=Counter)
    refused: int = 0  # with 429: too much at a time, which is an answer
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds, MB


@dataclass
class World:
    """The service, and what can be asked of it."""

    port: int
    process: int
    terms: list[str]
    ids: list[str]
    projects: list[str]
    seen: Seen
    draw: random.Random
    asked: int = 0

    def new_string(self) -> str:
        self.asked += 1
        return self.terms[KNOWN + self.asked % (len(self.terms) - KNOWN)]

    def known_string(self) -> str:
        return self.terms[self.draw.randrange(KNOWN)]


def run(attack: Attack) -> Tally:
    tally = attack.tally
    minutes = attack.minutes or (1 / 20 if attack.small else MINUTES)
    callers = attack.callers or (5 if attack.small else CALLERS)
    strings = attack.folder / "strings.json"
    made = attack.code(_STRINGS, attack.seed, strings)
    if made.rc:
        tally.fail(f"no strings: {made.err[-300:]}")
        return tally
    said = json.loads(strings.read_text(encoding="utf-8"))
    folder = tempfile.mkdtemp(prefix="serve-", dir=attack.folder)  # no jobs of a run before
    service = attack.start("serve", "--port", 0, "--folder", folder, stdout=subprocess.DEVNULL)
    assert service.stderr is not None
    line = ""
    while "http://" not in line:
        if not (line := service.stderr.readline()):
            tally.fail("the service did not start")
            return tally
    port = int(line.rpartition(":")[2])
    world = World(port, service.pid, said["terms"], said["ids"], [], Seen(), attack.rng)
    asyncio.run(_load(attack, world, callers, 60 * minutes))
    service.terminate()
    try:
        if service.wait(30) != 0:
            tally.fail(f"the service ended with {service.returncode}")
    except subprocess.TimeoutExpired:
        tally.fail("the service did not end in 30 s")
    if "Traceback" in (text := service.stderr.read()):
        tally.fail(f"a traceback: {text.strip().splitlines()[-1]}")
    _judge(tally, world.seen, 60 * minutes)
    return tally


def _judge(tally: Tally, seen: Seen, seconds: float) -> None:
    every = [one for times in seen.times.values() for one in times]
    tally.trials = len(every)
    for what, count in seen.wrong.items():
        tally.fail(f"{what} ({count} times)")
    tally.notes["seconds"] = round(seconds)
    tally.notes["requests a second"] = round(len(every) / seconds, 1)
    tally.notes["refused with 429"] = seen.refused
    if len(every) < 2:
        tally.fail("nothing was answered")
        return
    tally.notes["all (p50, p95, p99 in s)"] = _quantiles(every)
    for kind, times in sorted(seen.times.items()):
        if len(times) > 1:
            tally.notes[kind] = f"{len(times)}: {_quantiles(times)}"
    half = [(at, mb) for at, mb in seen.memory if at > seconds / 2]
    if len(half) > 1:
        slope = statistics.linear_regression(*zip(*half, strict=True)).slope
        grown = slope * (half[-1][0] - half[0][0])
        tally.notes["memory"] = (
            f"{seen.memory[0][1]:.0f} MB at first, {half[0][1]:.0f} MB half-way, "
            f"{grown:+.1f} MB ({grown / half[0][1]:+.1%}) in the second half"
        )
        if seconds >= LONG and grown > FLAT * half[0][1]:
            tally.fail(f"memory grows: {tally.notes['memory']}")


def _quantiles(times: list[float]) -> str:
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return ", ".join(f"{cuts[at]:.3f}" for at in (49, 94, 98))


async def _load(attack: Attack, world: World, callers: int, seconds: float) -> None:
    async with _connection(world) as ask:
        while (await ask("GET", "/readyz"))[0] != 200:
            await asyncio.sleep(0.1)
        sizes = (3, 10) if attack.small else (PROJECTS, ROWS)
        for _ in range(sizes[0]):
            world.projects.append(await _mapped(world, ask, sizes[1]))
        alone = [(await _answer(ask, [text])) for text in world.terms[:5]]
    attack.say(f"{callers} callers for {seconds:.0f} s")
    start = time.perf_counter()
    end = start + WARM * (not attack.small) + seconds
    begin = end - seconds
    try:
        await asyncio.gather(
            *(_call(world, begin, end, role) for role in _roles(callers)),
            _watch(attack, world, begin, end, alone),
        )
    except OSError as error:
        world.seen.wrong[f"the service does not answer: {type(error).__name__}"] += 1


async def _watch(attack: Attack, world: World, begin: float, end: float, alone: list[Any]) -> None:
    """Look at the memory, and whether answers are what they were."""
    told = begin
    async with _connection(world) as ask:
        while (now := time.perf_counter()) < end:
            world.seen.memory.append((now - begin, _memory(world.process)))
            together = await _answer(ask, world.terms[:5])
            if not _same(together, [answer for answers in alone for answer in answers]):
                world.seen.wrong["an answer under load differs from that before"] += 1
            if now - told > 60:
                told = now
                every = [one for times in world.seen.times.values() for one in times]
                attack.say(
                    f"{now - begin:.0f} s, {len(every)} requests, p50, p95, p99: "
                    f"{_quantiles(every)} s, {world.seen.memory[-1][1]:.0f} MB"
                )
            await asyncio.sleep(min(5.0, (end - begin) / 20))


def _same(found: list[Any], expected: list[Any]) -> bool:
    """Whether answers name the same concepts, with confidences that differ by rounding."""
    for mine, other in zip(found, expected, strict=True):
        pairs = list(zip(mine["matches"], other["matches"], strict=False))
        if len(mine["matches"]) != len(other["matches"]):
            return False
        if any(abs(a["confidence"] - b["confidence"]) > 0.01 for a, b in pairs):
            return False
        if pairs and pairs[0][0]["concept"] != pairs[0][1]["concept"]:
            return False
    return True


def _roles(callers: int) -> list[str]:
    """Of each role its share; of few callers, one each."""
    every = [role for role, (share, _) in ROLES.items() for _ in range(share)]
    return [*every * (callers // len(every)), *(list(ROLES) * callers)[: callers % len(every)]]


async def _call(world: World, begin: float, end: float, role: str) -> None:
    """One caller: the next request as soon as the last is answered."""
    draw, seen = random.Random(world.draw.random()), world.seen
    mix = ROLES[role][1]
    kinds, weights = list(mix), list(mix.values())
    async with _connection(world) as ask:
        while (start := time.perf_counter()) < end:
            [kind] = draw.choices(kinds, weights)
            status, body = await _ask(world, ask, kind, draw)
            now = time.perf_counter()
            if status == 429:
                seen.refused += 1
                await asyncio.sleep(1)  # as Retry-After says, at least
            elif not 200 <= status < 300:
                seen.wrong[f"{kind}: {status} {body[:200].decode(errors='replace')}"] += 1
            elif begin <= now < end:
                seen.times[kind].append(now - start)


async def _ask(world: World, ask: Any, kind: str, draw: random.Random) -> tuple[int, bytes]:
    reply: tuple[int, bytes]
    project = draw.choice(world.projects)
    match kind:
        case "new string":
            reply = await ask("POST", "/v1/normalize", {"texts": [world.new_string()]})
        case "known string":
            reply = await ask("POST", "/v1/normalize", {"texts": [world.known_string()]})
        case "search":
            text = "".join(one for one in world.new_string() if one.isalpha() or one == " ")
            reply = await ask("GET", f"/v1/search?q={_quoted(text[: draw.randrange(3, 20)])}")
        case "batch":
            texts = [world.new_string() for _ in range(BATCH)]
            reply = await ask("POST", "/v1/normalize", {"texts": texts})
        case "concept":
            reply = await ask("GET", f"/v1/concepts/{_quoted(draw.choice(world.ids))}")
        case "neighbours":
            concept = _quoted(draw.choice(world.ids))
            reply = await ask("GET", f"/v1/concepts/{concept}/neighbours")
        case "queue":
            offset = draw.randrange(0, 100, 20)
            reply = await ask("GET", f"/v1/projects/{project}/terms?limit=20&offset={offset}")
        case "decision":
            decided = {"concept": None, "who": f"r{draw.randrange(5)}", "note": "load"}
            key = draw.randrange(1, 10)
            reply = await ask("POST", f"/v1/projects/{project}/terms/{key}/decision", decided)
        case "changes":
            reply = await ask("GET", f"/v1/projects/{project}/changes?since=0&limit=50")
        case "projects":
            reply = await ask("GET", "/v1/projects")
        case "export":
            reply = await ask("GET", f"/v1/projects/{project}/exports/csv")
        case "map":
            reply = await _begin_map(world, ask, 100)
    return reply


async def _begin_map(world: World, ask: Any, rows: int) -> tuple[int, bytes]:
    lines = "".join(f'{n},"{_cell(world.new_string())}"\n' for n in range(rows))
    border = "----attack"
    form = (
        f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="t.csv"\r\n\r\n'
        f"id,text\n{lines}\r\n--{border}--\r\n"
    )
    kind = f"multipart/form-data; boundary={border}"
    status, body = await ask("POST", "/v1/uploads", form.encode(), kind)
    if status != 201:
        return status, body
    asked = {"upload": json.loads(body)["upload"], "column": "text", "code": "id"}
    reply: tuple[int, bytes] = await ask("POST", "/v1/map", asked)
    return reply


async def _mapped(world: World, ask: Any, rows: int) -> str:
    """A project of a table."""
    status, body = await _begin_map(world, ask, rows)
    assert status == 202, body
    job = json.loads(body)["id"]
    while True:
        state = json.loads((await ask("GET", f"/v1/jobs/{job}"))[1])["state"]
        if state not in ("waiting", "running"):
            assert state == "done", state
            return str(job)
        await asyncio.sleep(0.05)


async def _answer(ask: Any, texts: list[str]) -> list[Any]:
    status, body = await ask("POST", "/v1/normalize", {"texts": texts})
    return list(json.loads(body)["answers"]) if status == 200 else []


@asynccontextmanager
async def _connection(world: World) -> AsyncIterator[Any]:
    """A function that asks, over one connection, opened again if the service closed it.

    A full client for each caller would need a core by itself.
    """
    streams: list[Any] = []

    async def ask(
        method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        content = body if isinstance(body, bytes) else b"" if body is None else _json(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        if content:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        for attempt in range(2):
            if not streams:
                streams.extend(await asyncio.open_connection("127.0.0.1", world.port))
            try:
                streams[1].write(head.encode() + b"\r\n" + content)
                return await asyncio.wait_for(_reply(streams[0]), PATIENCE)
            except (ConnectionError, asyncio.IncompleteReadError):
                streams.clear()
                if attempt:
                    raise
        raise AssertionError

    try:
        yield ask
    finally:
        for writer in streams[1:]:
            writer.close()


async def _reply(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in rest if line)
    return int(first.split()[1]), await reader.readexactly(int(headers["content-length"]))


def _memory(process: int) -> float:
    """Resident memory in MB without mapped files, which the system may take back."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8").split()
    except OSError:
        return float("nan")
    return int(status[status.index("RssAnon:") + 1]) / 1024


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _cell(text: str) -> str:
    return text.replace('"', '""')


def _quoted(text: str) -> str:
    return quote(text, safe="")
