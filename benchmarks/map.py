"""Time the mapping of tables with strings that repeat, as those of a hospital do.

    python benchmarks/map.py WORK_DIR                        # 100k and 1M rows
    python benchmarks/map.py WORK_DIR --rows 10k 50k --strings 2000

Strings are terms of the graph of the index, a third of them with a slip of the pen. Row r of the
table is drawn so that the string of rank k comes in proportion to 1/k. Each size runs in a process
of its own; its peak memory counts mapped pages. Mapping row by row asks for each row of a sample
alone, as a loop over the table would. Figures go to WORK_DIR/map.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from medcoder import Normalizer
from medcoder.mapping import map_table
from medcoder.text import clean

HERE = Path(__file__)
SAMPLE = 300  # rows of the sample that is mapped row by row
SLIPS = 1 / 3  # of the strings


def peak() -> float:
    """Peak memory of this process, mapped pages included, GB."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1]) * 1024 / 1e9


def number(text: str) -> int:
    units = {"k": 1_000, "M": 1_000_000}
    return int(float(text.rstrip("kM")) * units.get(text[-1], 1))


def strings_of(normalizer: Normalizer, count: int) -> list[str]:
    """Distinct terms of the graph, some with two letters swapped."""
    draw, kg = random.Random(7), normalizer.kg
    found: dict[str, None] = {}
    numbers = list(range(len(kg)))
    draw.shuffle(numbers)
    for concept in kg.ids(numbers):
        for term in kg.terms_of(concept):
            text = clean(term.text)
            if len(text) > 5 and draw.random() < SLIPS:
                place = draw.randrange(1, len(text) - 2)
                text = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
            found[text] = None
        if len(found) >= count:
            break
    return list(found)[:count]


def write_table(path: Path, strings: list[str], rows: int) -> None:
    """A CSV with a row number, the string, and a ward."""
    rng = np.random.default_rng(11)
    weights = 1 / np.arange(1, len(strings) + 1)
    edges = np.cumsum(weights / weights.sum())
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "text", "ward"])
        for start in range(0, rows, 100_000):
            drawn = np.searchsorted(edges, rng.random(min(100_000, rows - start)), side="right")
            places = np.minimum(drawn, len(strings) - 1).tolist()
            writer.writerows(
                (start + place, strings[k], f"ward {place % 40}") for place, k in enumerate(places)
            )


def measure(work: Path, index: Path | None, rows: int) -> dict[str, Any]:
    """Map the table of this size."""
    out = work / f"{rows}.mapped"
    shutil.rmtree(out, ignore_errors=True)
    normalizer = Normalizer.load(index)
    normalizer.normalize("heart attack")  # the model is loaded before the clock starts
    before = peak()
    ends: dict[str, float] = {}  # when each stage was last heard of
    start = time.perf_counter()

    def progress(what: str, done: int, total: int) -> None:
        ends[what] = time.perf_counter()

    made = map_table(
        work / f"{rows}.csv", column="text", out=out, normalizer=normalizer, progress=progress
    )
    seconds = time.perf_counter() - start
    starts = [start, *ends.values()]
    stages = {name: end - starts[place] for place, (name, end) in enumerate(ends.items())}
    with made.project() as project:
        [[strings]] = project.base.execute("SELECT count(*) FROM strings")
        written = len(project)
    assert written == rows
    return {
        "rows": rows,
        "strings": strings,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "stages": {name: round(spent, 2) for name, spent in stages.items()},
        "memory": peak(),
        "memory_before": before,
        "project_mb": made.path.stat().st_size / 1e6,
    }


def row_by_row(work: Path, index: Path | None, rows: int) -> dict[str, Any]:
    """Ask for each row of a sample alone."""
    with (work / f"{rows}.csv").open(encoding="utf-8", newline="") as stream:
        texts = [row["text"] for row in csv.DictReader(stream)]
    sample = random.Random(5).sample(texts, min(SAMPLE, len(texts)))
    normalizer = Normalizer.load(index)
    normalizer.normalize("heart attack")
    start = time.perf_counter()
    for text in sample:
        normalizer.normalize(text)
    seconds = time.perf_counter() - start
    return {"rows_alone": len(sample), "rows_per_second": len(sample) / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--rows", nargs="+", type=number, default=[100_000, 1_000_000])
    parser.add_argument("--strings", type=number, default=30_000)
    parser.add_argument("--only", choices=["map", "alone"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    work: Path = options.work
    if options.only:
        step = measure if options.only == "map" else row_by_row
        print(json.dumps(step(work, options.index, options.rows[0])))
        return
    work.mkdir(parents=True, exist_ok=True)
    strings = strings_of(Normalizer.load(options.index), options.strings)
    index = ["--index", str(options.index)] if options.index else []
    found = []
    for rows in options.rows:
        write_table(work / f"{rows}.csv", strings, rows)
        words = [sys.executable, str(HERE), str(work), *index, "--rows", str(rows)]
        done = subprocess.run([*words, "--only", "map"], stdout=subprocess.PIPE, check=True)
        found.append(json.loads(done.stdout))
        one = found[-1]
        print(
            f"{rows:>9,} rows, {one['strings']:,} strings: {one['seconds']:.1f} s, "
            f"{one['rows_per_second']:,.0f} rows/s, {one['memory']:.2f} GB at the peak "
            f"({one['memory_before']:.2f} before), {one['stages']}"
        )
    done = subprocess.run([*words, "--only", "alone"], stdout=subprocess.PIPE, check=True)
    alone = json.loads(done.stdout)
    ratio = found[-1]["rows_per_second"] / alone["rows_per_second"]
    print(f"row by row: {alone['rows_per_second']:,.1f} rows/s on {alone['rows_alone']} rows")
    print(f"ratio: {ratio:,.0f} times as fast")
    if len(found) > 1:
        print(f"memory: {found[-1]['memory'] / found[0]['memory']:.2f} times that of the smallest")
    with (work / "map.jsonl").open("a", encoding="utf-8") as stream:
        for one in (*found, alone | {"ratio": ratio}):
            stream.write(json.dumps(one) + "\n")


if __name__ == "__main__":
    main()
