"""Find the code of a string in ICD-10-CM, next to other tools, in the same run.

    pip install scikit-learn rapidfuzz text2term
    python benchmarks/peers.py --work WORK_DIR
    python benchmarks/peers.py --work WORK_DIR --model MODEL --tools medcoder tfidf --errors 20

Every tool gets the same dictionary, the titles of all codes but chapters, and the same strings:
inclusion terms of the tabular list, which are not in the dictionary, and titles with one slip of
the fingers. A code is right if its title is that of the code meant: some titles stand for two or
three codes, and who sees titles alone cannot tell those apart. Each tool runs in a process of its
own and is asked all strings of a kind in one call. Since some do part of their work again in every
call, speed is that of calls with one string and with a hundred, too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from peer_tools import OURS, TOOLS, TOP, Clock, Job, index

SEED = 0
DRAWS = 2000  # of the bootstrap
FIRST = "medcoder"  # the row that others are compared with
KINDS = ("held-out", "typos")
# Calls that are timed, least and most, by the strings in each: enough for a second of work.
CALLS = {1: (10, 300), 100: (1, 5)}
SIZES = " / ".join([*map(str, CALLS), "all"])

Array = npt.NDArray[Any]
Asked = dict[str, list[tuple[str, str]]]  # strings and the code that is meant, by kind


def dictionary() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Titles by code, and inclusion terms with their code."""
    from medcoder.kg.sources.open import Icd10cmSource
    from medcoder.types import ReadOptions, Tally

    spec = find_spec("simple_icd_10_cm")
    assert spec is not None and spec.origin is not None
    data = Path(spec.origin).parent / "data"
    [tabular], [codes] = data.glob("*tabular*.xml"), data.glob("code-list*.txt")
    titles: dict[str, str] = {}
    inclusions = []
    for part, table in Icd10cmSource(tabular, codes, ReadOptions()).concepts(Tally()):
        for row in table.to_pylist() if part == "terms" else ():
            if row["code"].isdigit():  # a chapter
                continue
            if row["kind"] == "inclusion":
                inclusions.append((row["term"], row["code"]))
            else:
                titles[row["code"]] = row["term"]
    return titles, inclusions


def draw(titles: dict[str, str], inclusions: Sequence[tuple[str, str]], count: int) -> Asked:
    """Strings of each kind, drawn by a seed: asking for fewer gives the first of them."""
    from medcoder.normalize.calibration_queries import misspell
    from medcoder.text import fold

    known = {fold(title) for title in titles.values()}
    codes_of: defaultdict[str, set[str]] = defaultdict(set)
    for text, code in inclusions:
        codes_of[fold(text)].add(code)
    held_out = [
        (text, code)
        for text, code in dict(inclusions).items()
        if fold(text) not in known and len(codes_of[fold(text)]) == 1
    ]
    rng = np.random.default_rng(SEED)
    places = rng.permutation(len(held_out))[:count].tolist()
    asked = {"held-out": [held_out[place] for place in places]}
    codes = list(titles)
    typos: dict[str, str] = {}
    for place in rng.permutation(len(codes)).tolist():
        if len(typos) == count:
            break
        wrong = misspell(titles[codes[place]], rng)
        if fold(wrong) not in known:  # else it is no slip, or it names another code
            typos.setdefault(wrong, codes[place])
    return asked | {"typos": list(typos.items())}


def work_off(name: str, job: Job) -> dict[str, Any]:
    """Build one tool and ask it."""
    if name == "index":
        return index(job)
    building, asking = Clock(), Clock()
    with building.running():
        ask = TOOLS[name].build(job)
    rates = {}
    texts = job.ask[KINDS[0]]
    for size, (least, most) in CALLS.items():
        asked, clock = 0, Clock()
        for call in range(most):
            some = texts[call * size : (call + 1) * size]
            if not some or (call >= least and clock.cpu > 1):
                break
            with clock.running():
                ask(some)
            asked += len(some)
        rates[size] = asked / clock.cpu
    answers = {}
    for kind, texts in job.ask.items():
        with asking.running():
            answers[kind] = ask(texts)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "build": vars(building),
        "asking": vars(asking),
        "rates": rates,
        "answers": answers,
        "memory": memory,
    }


def in_process(name: str, job: Job) -> dict[str, Any]:
    given, done = (job.work / f"{name}.{part}.json" for part in ("asked", "answered"))
    given.write_text(json.dumps(job._asdict() | {"work": str(job.work)}), encoding="utf-8")
    subprocess.run([sys.executable, __file__, "--job", name, given, done], check=True)
    result: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
    given.unlink()
    return result


def ranks(answers: Sequence[Sequence[int]], meant: Sequence[str], titles: Sequence[str]) -> Array:
    """The place of the first right title, from 0 on; `TOP` if there is none."""
    found = []
    for numbers, title in zip(answers, meant, strict=True):
        named = [titles[number] for number in numbers]
        found.append(named.index(title) if title in named else TOP)
    return np.array(found)


def interval(values: Array) -> tuple[float, float]:
    """What 95% of the means of bootstrap samples lie between."""
    rng = np.random.default_rng(SEED)
    drawn = rng.integers(len(values), size=(DRAWS, len(values)))
    low, high = np.percentile(values[drawn].mean(1), (2.5, 97.5))
    return float(low), float(high)


def hits(rank: dict[str, Array]) -> dict[str, Array]:
    """Whether each string was answered right, by kind and by how many answers may be looked at."""
    return {f"{kind} @{k}": rank[kind] < k for kind in KINDS for k in (1, TOP)}


def figures(result: dict[str, Any], rank: dict[str, Array]) -> dict[str, Any]:
    """The row of one tool."""
    asked = sum(map(len, rank.values()))
    found: dict[str, Any] = {"strings": asked}
    for name, right in hits(rank).items():
        found[name] = {"mean": float(right.mean()), "interval": interval(right)}
    return found | {
        "per_cpu_second": result["rates"] | {"all": asked / result["asking"]["cpu"]},
        "per_second": asked / result["asking"]["wall"],
        "build_seconds": result["build"]["wall"],
        "build_cpu_seconds": result["build"]["cpu"],
        "memory_gb": result["memory"],
    }


def show(name: str, row: dict[str, Any]) -> None:
    shares = [
        f"{row[f'{kind} @{k}']['mean']:.3f} "
        + "[{:.3f}-{:.3f}]".format(*row[f"{kind} @{k}"]["interval"])
        for kind in KINDS
        for k in (1, TOP)
    ]
    rates = [f"{rate:.1f}" for rate in row["per_cpu_second"].values()]
    print(
        f"| {name} | {row['strings']:,} | {' | '.join(shares)} | {' / '.join(rates)} "
        f"| {row['per_second']:.1f} | {row['build_seconds']:.1f} | {row['build_cpu_seconds']:.1f} "
        f"| {row['memory_gb']:.2f} |",
        flush=True,
    )


def compare(rank: dict[str, dict[str, Array]], rows: dict[str, Any]) -> None:
    """Differences to each other tool, string by string, on the strings that both were asked."""
    print(f"\n{FIRST} less the other, on the strings that both were asked (95% interval)\n")
    names = list(hits(rank[FIRST]))
    print(f"| tool | strings | {' | '.join(names)} | times as fast, {SIZES} a call |")
    print("|---|" + "---|" * (len(names) + 2))
    for other in rank:
        if other == FIRST:
            continue
        shared = {kind: len(rank[other][kind]) for kind in KINDS}
        mine = hits({kind: rank[FIRST][kind][:count] for kind, count in shared.items()})
        theirs = hits(rank[other])
        cells = []
        for name in names:
            less = mine[name].astype(int) - theirs[name]
            cells.append(f"{less.mean():+.3f} " + "[{:+.3f} {:+.3f}]".format(*interval(less)))
            rows[other][f"{name} behind {FIRST}"] = float(less.mean())
        rates = (rows[name]["per_cpu_second"].values() for name in (FIRST, other))
        times = " / ".join(f"{mine / its:.1f}" for mine, its in zip(*rates, strict=True))
        print(f"| {other} | {sum(shared.values()):,} | {' | '.join(cells)} | {times} |")


def errors(
    count: int, asked: Asked, titles: dict[str, str], found: dict[str, Any], rank: dict[str, Any]
) -> None:
    """Strings that the first tool got wrong and another right."""
    names = list(titles.values())
    for kind in KINDS:
        others = [rank[name][kind] for name in rank if name not in OURS]
        wrong = np.flatnonzero(rank[FIRST][kind] > 0).tolist()
        lost = [place for place in wrong if any(place < len(r) and r[place] == 0 for r in others)]
        print(f"\n{kind}: {len(wrong)} wrong, {len(lost)} of them right in another tool")
        for place in lost[:count]:
            text, code = asked[kind][place]
            best = found[FIRST]["answers"][kind][place][:1]
            where = rank[FIRST][kind][place]
            print(f"  {text!r}\n    meant  {code} {titles[code]!r}, at {where + 1}")
            print(f"    found  {[names[number] for number in best]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, help="folder for the index, used again by later runs")
    parser.add_argument("--model", help="a shipped model or an exported directory")
    parser.add_argument("--queries", type=int, default=1000, help="strings of each kind")
    parser.add_argument("--slow", type=int, default=300, help="as many for very slow tools")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--errors", type=int, default=0, help="show as many that others had right")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        name, given, done = options.job
        read = json.loads(Path(given).read_text(encoding="utf-8"))
        job = Job(**read | {"work": Path(read["work"])})
        Path(done).write_text(json.dumps(work_off(name, job)), encoding="utf-8")
        return
    if options.work is None or options.queries < 1 or options.slow < 1:
        parser.error("give a --work folder, and at least one string for --queries and --slow")
    run(options)


def run(options: argparse.Namespace) -> None:
    from medcoder.bundled.models import MODEL
    from medcoder.text import fold

    options.work.mkdir(parents=True, exist_ok=True)
    titles, inclusions = dictionary()
    asked = draw(titles, inclusions, options.queries)
    names = list(titles.values())
    keys = [fold(title) for title in names]
    model = options.model or MODEL
    print(f"{len(titles):,} codes, {len(set(keys)):,} titles; {os.cpu_count()} cores; {model}\n")
    columns = [f"{kind} @{k}" for kind in KINDS for k in (1, TOP)]
    columns += [f"per CPU-second, {SIZES} a call", "per second", "build s", "build CPU-s", "GB"]
    print(f"| tool | strings | {' | '.join(columns)} |\n|---|" + "---|" * (len(columns) + 1))
    made: dict[str, Any] = {}
    found: dict[str, Any] = {}
    rank: dict[str, dict[str, Array]] = {}
    rows: dict[str, Any] = {}
    for name in options.tools:
        tool = TOOLS[name]
        if tool.needs and not any(distributions(name=tool.needs)):
            print(f"| {name} | not installed: pip install {tool.needs} |", flush=True)
            continue
        count = min(options.slow, options.queries) if tool.slow else options.queries
        some = {kind: [text for text, _ in asked[kind][:count]] for kind in KINDS}
        job = Job(names, some, options.work, model)
        if name in OURS:
            made = made or in_process("index", job)
            found[name] = in_process(name, job._replace(made=made["path"]))
            found[name]["build"] = made["build"]
        else:
            found[name] = in_process(name, job)
        rank[name] = {
            kind: ranks(
                found[name]["answers"][kind],
                [fold(titles[code]) for _, code in asked[kind][:count]],
                keys,
            )
            for kind in KINDS
        }
        rows[name] = figures(found[name], rank[name])
        show(name, rows[name])
    if FIRST in rank:
        compare(rank, rows)
        errors(options.errors, asked, titles, found, rank)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
