"""Build a graph from a UMLS-shaped release, next to a plain-Python loader of sets and dicts.

    python benchmarks/ingest.py WORK_DIR                    # sizes 1/20 and 1/10
    python benchmarks/ingest.py WORK_DIR --full             # and once the size of UMLS

Each loader runs in a process of its own. The plain loader keeps what the published reference code
keeps (names by concept, concepts by name, codes, a set of joined relation strings, types) and
cleans names as it does; its memory at full size is drawn as a line through its two largest sizes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from make_umls import make

HERE = Path(__file__)


def peak() -> float:
    """Peak memory of this process, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def plain(release: Path) -> dict[str, Any]:
    """Sets and dicts, one row at a time."""
    brackets = re.compile(r"\(.*?\)")

    def clean(term: str) -> str:
        term = brackets.sub("", f" {term.lower()} ".replace(" nos ", " ")).replace("-", " ")
        return " ".join(word for word in term.split() if word)

    def add(table: dict[str, set[str]], key: str, value: str) -> None:
        if key in table:
            table[key].update([value])
        else:
            table[key] = {value}

    def rows(name: str) -> Any:
        with (release / name).open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.strip().split("|")

    begin, count = time.perf_counter(), 0
    names: dict[str, set[str]] = {}
    concepts: dict[str, set[str]] = {}
    codes: dict[str, set[str]] = {}
    types: dict[str, set[str]] = {}
    lexical: set[str] = set()
    for row in rows("MRCONSO.RRF"):
        count += 1
        if row[3] not in lexical:
            name = clean(row[14])
            add(names, row[0], name)
            add(concepts, name, row[0])
            add(codes, row[13], row[0])
            lexical.update([row[3]])
    for row in rows("MRSTY.RRF"):
        count += 1
        add(types, row[0], row[3])
    relations: set[str] = set()
    for row in rows("MRREL.RRF"):
        count += 1
        if row[0] in names and row[4] in names:
            label = "\t".join([row[0], row[4], row[3], row[7]])
            if label not in relations and row[0] != row[4]:
                relations.update([label])
    listed = list(relations)
    return {
        "rows": count,
        "seconds": time.perf_counter() - begin,
        "memory": peak(),
        "edges": len(listed),
    }


def ours(release: Path, out: Path) -> dict[str, Any]:
    from medcoder.kg.build import build_kg
    from medcoder.kg.sources import open_source

    begin = time.perf_counter()
    report = build_kg([open_source(f"umls={release}")], out, overwrite=True)
    seconds = time.perf_counter() - begin
    return {
        "rows": sum(count["read"] for count in report["files"].values()),
        "seconds": seconds,
        "memory": peak(),
        "edges": report["graph"]["edges"]["kept"],
        "disk": sum(file.stat().st_size for file in out.iterdir()) / 1e9,
    }


def use(path: Path) -> dict[str, Any]:
    """Open time, and the time of look-ups, in a fresh process."""
    from medcoder.kg import KG

    begin = time.perf_counter()
    kg = KG.open(path)
    found: dict[str, Any] = {"open": time.perf_counter() - begin}
    rng = np.random.default_rng(0)
    concepts = kg.ids(random.Random(0).sample(range(len(kg)), 1000))
    begin = time.perf_counter()
    terms = sum(len(kg.terms_of(concept)) for concept in concepts)
    found["terms_of_ms"] = 1e3 * (time.perf_counter() - begin)
    found["terms"] = terms

    size = 1_000_000
    real = kg.triples(np.sort(rng.integers(0, len(kg.edges), size // 2)))
    head = np.concatenate([real.head, rng.integers(0, len(kg), size // 2)])
    label = np.concatenate([real.relation, rng.integers(0, len(kg.relations), size // 2)])
    tail = np.concatenate([real.tail, rng.integers(0, len(kg), size // 2)])
    order = np.lexsort((tail, label, head))
    begin = time.perf_counter()
    hits = kg.contains(head[order], label[order], tail[order])
    found["contains_us"] = 1e6 * (time.perf_counter() - begin) / size
    assert hits.sum() >= size // 2

    batch = kg.triples(rng.integers(0, len(kg.edges), 16))
    head, label, tail = (np.repeat(column, 8) for column in batch)
    begin = time.perf_counter()
    kg.contains(head[:, None], label[:, None], tail[None, :])
    found["batch_ms"] = 1e3 * (time.perf_counter() - begin)
    return found


def in_process(*job: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE), "--job", *job], check=True, stdout=subprocess.PIPE
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def show(name: str, scale: float, result: dict[str, Any]) -> None:
    print(
        f"{name:8} {scale:6.2f} {result['rows']:12,} {result['seconds']:8.1f} "
        f"{result['rows'] / result['seconds'] / 1e6:8.2f} {result['memory']:8.2f} "
        f"{result['edges']:12,}",
        flush=True,
    )


def line(scales: list[float], values: list[float], at: float) -> float:
    """The value at `at` of the straight line through the last two points."""
    slope = (values[-1] - values[-2]) / (scales[-1] - scales[-2])
    return values[-1] + slope * (at - scales[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, nargs="?", help="folder for releases and graphs")
    parser.add_argument("--scales", type=float, nargs="+", default=[0.05, 0.1])
    parser.add_argument("--full", action="store_true", help="also the size of UMLS, once")
    parser.add_argument("--keep", action="store_true", help="keep releases and graphs")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        name, *paths = options.job
        job = {"plain": plain, "ours": ours, "use": use}[name]
        print(json.dumps(job(*map(Path, paths))))
        return
    if options.work is None or len(options.scales) < 2:
        parser.error("give a WORK_DIR and at least two --scales")

    print("loader    scale         rows  seconds  Mrows/s      GB        edges")
    plains, ourss = [], []
    for scale in options.scales:
        release, graph = options.work / f"umls-{scale}", options.work / f"umls-{scale}.kg"
        if not (release / "MRSAB.RRF").exists():
            make(release, scale)
        plains.append(in_process("plain", str(release)))
        show("plain", scale, plains[-1])
        ourss.append(in_process("ours", str(release), str(graph)))
        show("medcoder", scale, ourss[-1])
        if not options.keep:
            shutil.rmtree(release)
    last = ourss[-1]
    if options.full:
        release, graph = options.work / "umls-1", options.work / "umls-1.kg"
        if not (release / "MRSAB.RRF").exists():
            make(release, 1.0)
        last = in_process("ours", str(release), str(graph))
        show("medcoder", 1.0, last)
        if not options.keep:
            shutil.rmtree(release)
    found = in_process("use", str(graph))

    speeds = [
        (mine["rows"] / mine["seconds"]) / (other["rows"] / other["seconds"])
        for mine, other in zip(ourss, plains, strict=True)
    ]
    print(f"\nfaster per row at the same size: {', '.join(f'{ratio:.1f}x' for ratio in speeds)}")
    memory = line(options.scales, [result["memory"] for result in plains], 1.0)
    print(f"plain loader at the size of UMLS, by the line: {memory:.1f} GB")
    if options.full:
        print(f"less memory at the size of UMLS: {memory / last['memory']:.1f}x")
    print(
        f"on disk {last['disk']:.2f} GB; opens in {1e3 * found['open']:.1f} ms; "
        f"1,000 terms_of {found['terms_of_ms']:.1f} ms ({found['terms']:,} terms); "
        f"contains {found['contains_us']:.3f} us each of 1M sorted, "
        f"128 x 128 in {found['batch_ms']:.1f} ms"
    )


if __name__ == "__main__":
    main()
