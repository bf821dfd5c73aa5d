"""Time the indexes as vectors grow from a hundred thousand to the size of UMLS.

    python benchmarks/search.py WORK_DIR --vectors DIR                     # up to 1M rows
    python benchmarks/search.py WORK_DIR --vectors DIR --sizes 4M 15.5M

The rows are made from real ones: a row moved along the difference of two others, by distances
from near-duplicates to distant relatives. Queries are 1,000 rows moved again; the truth is all
rows compared. Every step runs in a process of its own, and its peak memory counts mapped pages.
Figures go to WORK_DIR/search.jsonl line by line; a run that was interrupted goes on from there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from medcoder.index import INDEXES, build_index, open_index
from medcoder.index.exact import Filtered, Mask, Neighbours, scan
from medcoder.index.stored import Stored
from medcoder.vectors import Vectors

Floats = npt.NDArray[np.float32]

HERE = Path(__file__)
QUERIES, K = 1000, 10
SHARE = 0.01  # of the rows that the filter keeps
MOST = {"exact": 1_000_000, "hnsw": 1_000_000}  # rows up to which a kind is measured
PATIENCE = 30  # seconds for queries one by one
STYLES = {"exact": ("#777777", "s:"), "hnsw": ("#b8860b", "^--"), "ivf": ("#1b4f8a", "o-")}


def peak() -> float:
    """Peak memory of this process, mapped pages included, GB."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1]) * 1024 / 1e9


def unit(rows: Floats) -> Floats:
    rows /= np.sqrt(np.einsum("rd,rd->r", rows, rows))[:, None]
    return rows


class Mover:
    """Moves rows along differences of real ones, with a little noise."""

    def __init__(self, real: Floats, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.real = real
        noise = self.rng.standard_normal((8192, real.shape[1]), dtype=np.float32)
        self._noise = unit(noise)

    def some(self, rows: Floats, count: int) -> Floats:
        return rows[self.rng.integers(0, len(rows), count)]

    def between(self, low: float, high: float, count: int) -> Floats:
        return self.rng.uniform(low, high, (count, 1)).astype(np.float32)

    def moved(self, rows: Floats, by: Floats, noise: Floats) -> Floats:
        made = self.some(self.real, len(rows))
        made -= self.some(self.real, len(rows))
        made *= by
        made += rows
        made += noise * self.some(self._noise, len(rows))
        return unit(made)

    def blocks(self, size: int) -> Iterator[Floats]:
        """Cosines to the row moved go from 0.99 down to 0.6; one row in seven is nearly another."""
        for start in range(0, size, 1 << 16):
            count = min(1 << 16, size - start)
            by, noise = self.between(0.05, 0.9, count), self.between(0, 0.1, count)
            rows = self.moved(self.some(self.real, count), by, noise)
            near = np.flatnonzero(self.rng.random(count) < 0.15)
            by, noise = np.zeros((len(near), 1), np.float32), self.between(0.02, 0.2, len(near))
            rows[near] = self.moved(self.some(rows, len(near)), by, noise)
            yield rows


def make(folder: Path, size: str, source: str) -> dict[str, Any]:
    """Rows as a directory of vectors that knows no terms, and queries."""
    real = Vectors.open(source)
    mover = Mover(real.take(np.arange(len(real))), seed=1)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("row.hash.uint64", "term.row.int32", "row.terms.int32", "row.first.int64"):
        (folder / name).touch()
    with (folder / "row.vector.float16").open("wb") as file:
        for rows in mover.blocks(int(size)):
            file.write(rows.astype(np.float16).tobytes())
    vectors = opened(folder)
    chosen = np.sort(mover.rng.choice(len(vectors), QUERIES, replace=False))
    by, noise = mover.between(0.05, 0.5, QUERIES), mover.between(0, 0.1, QUERIES)
    np.save(folder / "queries.npy", mover.moved(vectors.take(chosen), by, noise))
    return {"disk": vectors.rows.nbytes / 1e9}


def opened(folder: Path) -> Vectors:
    return Vectors(folder, {"width": 384})


def mask(rows: int) -> Mask:
    return np.random.default_rng(2).random(rows) < SHARE


def truth(folder: Path) -> dict[str, Any]:
    rows, queries = Stored(opened(folder)), np.load(folder / "queries.npy")
    found = scan(rows, queries, K)
    filtered = Filtered(rows).search(queries, K, mask(len(rows)))
    np.savez(folder / "truth.npz", all=found.rows, filtered=filtered.rows)
    return {
        "best": float(np.median(found.scores[:, 0])),
        "tenth": float(np.median(found.scores[:, -1])),
    }


def build(folder: Path, kind: str) -> dict[str, Any]:
    out = folder / kind
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    build_index(kind, opened(folder), out)
    return {"disk": sum(file.stat().st_size for file in out.iterdir()) / 1e9}


def search(folder: Path, kind: str) -> dict[str, Any]:
    """Open time; queries one by one, then together; then with a filter."""
    queries, right = np.load(folder / "queries.npy"), np.load(folder / "truth.npz")
    vectors = opened(folder)
    begin = time.perf_counter()
    index = open_index(kind, vectors, folder / kind)
    figures: dict[str, Any] = {"open_s": time.perf_counter() - begin}
    figures |= ask(index, queries, right["all"], None)
    figures["memory_unfiltered"] = peak()
    filtered = ask(index, queries, right["filtered"], mask(len(vectors)))
    return figures | {f"filtered_{name}": value for name, value in filtered.items()}


def ask(index: Any, queries: Floats, right: Any, allowed: Mask | None) -> dict[str, float]:
    times, cpu = [], []
    begin = time.perf_counter()
    for query in queries:
        start, used = time.perf_counter(), time.process_time()
        index.search(query[None], K, allowed=allowed)
        times.append(1e3 * (time.perf_counter() - start))
        cpu.append(1e3 * (time.process_time() - used))
        if time.perf_counter() - begin > PATIENCE:
            break
    begin = time.perf_counter()
    found = index.search(queries, K, allowed=allowed)
    seconds = time.perf_counter() - begin
    return {
        "first_ms": times[0],
        "median_ms": float(np.median(times[1:])),
        "p95_ms": float(np.quantile(times[1:], 0.95)),
        "cpu_ms": float(np.median(cpu[1:])),
        "per_s": len(queries) / seconds,
        **recall(found, right),
    }


def recall(found: Neighbours, right: npt.NDArray[np.int64]) -> dict[str, float]:
    shared = [len(np.intersect1d(*pair)) for pair in zip(found.rows, right, strict=True)]
    return {
        "recall_1": float((found.rows[:, 0] == right[:, 0]).mean()),
        f"recall_{K}": sum(shared) / right.size,
    }


JOBS = {"make": make, "truth": truth, "build": build, "search": search}


def run_job(name: str, folder: str, *rest: str) -> None:
    begin, used = time.perf_counter(), time.process_time()
    figures = JOBS[name](Path(folder), *rest)
    spent = {"seconds": time.perf_counter() - begin, "cpu_s": time.process_time() - used}
    spent |= {"memory": peak(), "threads": faiss.omp_get_max_threads()}
    print(json.dumps(spent | figures))


class Log:
    """Figures by size, step and kind, one line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def get(self, size: int, step: str, kind: str | None = None) -> dict[str, Any] | None:
        for line in self.lines:
            if (line["size"], line["step"], line["kind"]) == (size, step, kind):
                return line
        return None

    def run(self, size: int, step: str, kind: str | None, *job: str) -> None:
        done = subprocess.run(
            [sys.executable, str(HERE), "--job", step, *job], check=True, stdout=subprocess.PIPE
        )
        line = {
            "size": size,
            "step": step,
            "kind": kind,
            **json.loads(done.stdout.splitlines()[-1]),
        }
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def measure(log: Log, work: Path, size: int, source: str, kinds: list[str], keep: bool) -> None:
    folder = work / f"rows-{size}"
    kinds = [kind for kind in kinds if size <= MOST.get(kind, size)]
    if all(log.get(size, "search", kind) for kind in kinds):
        return
    if not (folder / "queries.npy").exists():
        log.run(size, "make", None, str(folder), str(size), source)
    if not (folder / "truth.npz").exists():
        log.run(size, "truth", None, str(folder))
    for kind in kinds:
        if log.get(size, "search", kind) is None:
            log.run(size, "build", kind, str(folder), kind)
            log.run(size, "search", kind, str(folder), kind)
            show(log, size, kind)
        if not keep:
            shutil.rmtree(folder / kind, ignore_errors=True)
    if not keep:
        shutil.rmtree(folder)


HEAD = """\
      rows kind   build s     GB  disk GB | open s     GB   ms median/p95    q/s  recall@1/@10 \
| 1% filter: first ms, median/p95    q/s  recall@1/@10"""


def show(log: Log, size: int, kind: str) -> None:
    built, found = log.get(size, "build", kind), log.get(size, "search", kind)
    if not (built and found):
        return
    print(
        f"{size:10,} {kind:5} "
        f"{built['seconds']:8.1f} {built['memory']:6.2f} {built['disk']:8.2f} | "
        f"{found['open_s']:6.3f} {found['memory']:6.2f} "
        f"{found['median_ms']:7.2f}/{found['p95_ms']:7.2f} {found['per_s']:6.0f}  "
        f"{found['recall_1']:.3f}/{found[f'recall_{K}']:.3f} | "
        f"{found['filtered_first_ms']:19.1f}, "
        f"{found['filtered_median_ms']:7.2f}/{found['filtered_p95_ms']:7.2f} "
        f"{found['filtered_per_s']:6.0f}  "
        f"{found['filtered_recall_1']:.3f}/{found[f'filtered_recall_{K}']:.3f}",
        flush=True,
    )


def draw(log: Log, path: Path) -> None:
    from matplotlib.figure import Figure

    panels = [
        ("build", "seconds", "building, seconds", "log"),
        ("search", "memory", "peak memory of searching, GB", "log"),
        ("search", "median_ms", "one query, milliseconds (median)", "log"),
        ("search", f"recall_{K}", f"recall@{K} against all rows compared", "linear"),
    ]
    figure = Figure(figsize=(10, 7), layout="constrained")
    for axes, (step, name, title, scale) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        for kind, (colour, style) in STYLES.items():
            lines = [line for line in log.lines if (line["step"], line["kind"]) == (step, kind)]
            points = {line["size"]: line[name] for line in lines}
            if points and not (kind == "exact" and step == "build"):
                sizes = sorted(points)
                values = [points[size] for size in sizes]
                axes.plot(sizes, values, style, color=colour, label=kind, markersize=6)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xscale("log")
        axes.set_yscale(scale)
        if scale == "linear":
            axes.set_ylim(0.9, 1.005)
        axes.set_xlabel("rows")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def number(text: str) -> int:
    """15.5M as a number."""
    factor = {"k": 1_000, "M": 1_000_000}.get(text[-1:], 1)
    return round(float(text.rstrip("kM")) * factor)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, nargs="?", help="folder for rows, indexes and figures")
    parser.add_argument("--vectors", help="directory of real vectors of 384")
    parser.add_argument("--sizes", type=number, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", choices=list(INDEXES), default=list(INDEXES))
    parser.add_argument("--keep", action="store_true", help="keep rows and indexes")
    parser.add_argument("--picture", type=Path, help="draw all figures of WORK_DIR")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        run_job(*options.job)
        return
    if options.work is None or options.vectors is None:
        parser.error("give a WORK_DIR, and --vectors")
    options.work.mkdir(parents=True, exist_ok=True)
    log = Log(options.work / "search.jsonl")
    print(HEAD)
    for size in sorted({line["size"] for line in log.lines}):
        for kind in INDEXES:
            show(log, size, kind)
    for size in options.sizes:
        measure(log, options.work, size, options.vectors, options.kinds, options.keep)
    if options.picture:
        draw(log, options.picture)


if __name__ == "__main__":
    main()
