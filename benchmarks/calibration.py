"""How far confidences can be trusted: what docs/calibration.md says, and its picture.

    python benchmarks/calibration.py WORK --bench BENCH_DIR --titles titles.csv --part test \\
        --draw docs/pictures/calibration.svg --markdown tables.md --json figures.json

- concepts kept out: strings of concepts that the weights were not fitted on, as they were measured
  when they were fitted;
- ward: data/eval/PART/ward, judged by category as ward.py does; each language apart, too;
- phrases: data/eval/PART/phrases, lay and chart, in all languages, against all that is bundled. A
  concept goes by its own id and by what --codes says; those that the bundled graph lacks are out;
- BC5CDR, hpo_gsc, Cadec: the test rows of folders in --bench, each query once, with the
  dictionary of the set as the terminology and the bundled weights. Indexes are kept in WORK;
- German titles: a CSV with the columns code and title, mapped to ICD-10-CM by category.

Ward strings and titles are asked as `medcoder map` asks, several things in a string one by one:
such a string is right if each is. Phrases and queries of sets stand for one concept each, and are
asked whole, as with --no-split. ECE is the expected calibration error of the best candidate over
ten bins. It leaves out strings that are refused for what they say (that a thing is not there, or
past): their confidence is of the thing. Automatic is what `medcoder map` would accept unseen for a
promise of 98%, if each row of the table were a project of its own. Intervals are exact (Clopper and
Pearson).
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from calibration_picture import Panel, draw
from calibration_sets import (
    ROOT,
    SETS,
    Array,
    Judged,
    Set,
    dictionary,
    digest,
    phrases,
    titles,
    ward,
)
from medcoder import Normalizer
from medcoder.bundled.models import bundled_calibration
from medcoder.mapping.auto_threshold import auto_threshold, floor
from medcoder.normalize.calibrate import calibration_error, reliability, risk_coverage
from ward import SURE

PROMISE = 0.98
LEAST_SHOWN = 0.965  # lower end of the interval of a promise that is kept
ENOUGH = 500  # automatic answers that show a promise by themselves; fewer are pooled
OWN_ERROR = 300  # strings of a part that show an error of its own
CODES = ROOT / "recipes" / "ranker" / "codes.tsv"
NONE = "–"


class Row(NamedTuple):
    name: str
    figures: dict[str, Any]
    part: bool = False  # of the row above
    panel: Panel | None = None


# Figures


def row(one: Set) -> Row:
    some = one.judged
    decides = ~some.said
    confidence, right = some.confidence[decides], some.right[decides]
    automatic, expected = chosen(some)
    sure = some.answered & (some.confidence >= SURE)
    figures = {
        "n": len(some.right),
        "accuracy": share(some.right),
        "confidence": share(some.confidence),
        "error": calibration_error(confidence, right) if decides.any() else None,
        "said": int(some.said.sum()),
        "error with these": calibration_error(some.confidence, some.right),
        "answered": share(some.answered),
        "right of answered": share(some.right[some.answered]),
        "sure": share(sure),
        "right of sure": share(some.right[sure]),
        **promise(len(some.right), int(automatic.sum()), int(some.right[automatic].sum())),
        "expected": expected,
        "bins": reliability(confidence, right),
    }
    if one.part and len(some.right) < OWN_ERROR:
        figures["error"] = None
    curve = risk_coverage(confidence, right)
    panel = Panel(one.name, reliability(confidence, right), curve, figures["error"])
    return Row(one.name, figures, one.part, None if one.part else panel)


def chosen(some: Judged) -> tuple[Array, float | None]:
    """What a project of these strings would map unseen, and the share that it expects right."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE strings (id, confidence, answered, review)")
    base.execute("CREATE TABLE terms (string, rows, count)")
    strings = [
        (number, confidence, trusted, "")
        for number, (confidence, trusted) in enumerate(
            zip(some.mapped.tolist(), some.trusted.tolist(), strict=True)
        )
    ]
    base.executemany("INSERT INTO strings VALUES (?, ?, ?, ?)", strings)
    base.executemany("INSERT INTO terms VALUES (?, 1, 1)", [(string[0],) for string in strings])
    project: Any = SimpleNamespace(path=Path(), base=base)
    made = auto_threshold(project, PROMISE)
    least = 2.0 if made["threshold"] is None else made["threshold"]
    return some.trusted & (some.mapped >= least), made["expected"]["terms"]


def promise(n: int, automatic: int, right: int) -> dict[str, Any]:
    from scipy.stats import binomtest

    found: dict[str, Any] = {"automatic": automatic, "share": automatic / max(n, 1), "right": right}
    if not automatic:
        return found | {"precision": None, "low": None, "high": None}
    interval = binomtest(right, automatic).proportion_ci(0.95, method="exact")
    low, high = float(interval.low), float(interval.high)
    return found | {"precision": right / automatic, "low": low, "high": high}


def kept_out(calibration: Any) -> Row:
    """The same of what is stored beside the weights: a curve of confidences, not each."""
    bins, curve = calibration.reliability, calibration.curve
    n = sum(count for *_, count in bins)
    at = [(confidence, answered, precision) for confidence, answered, precision in curve]
    figures = {
        "n": n,
        "accuracy": sum(right * count for _, right, count in bins) / n,
        "confidence": sum(mean * count for mean, _, count in bins) / n,
        "error": calibration.error,
        "said": 0,
        "error with these": calibration.error,
    }
    for name, least in (("answered", calibration.threshold), ("sure", SURE)):
        last = max((one for one in at if one[0] >= least), key=lambda one: one[1], default=None)
        figures |= {name: last[1] if last else 0.0, f"right of {name}": last[2] if last else None}
    total, before, automatic = 0.0, (1.0, 0.0, 1.0), (0.0, 1.0, None)
    for confidence, answered, precision in at:
        total += (answered - before[1]) * (confidence + before[0]) / 2
        before = confidence, answered, precision
        if confidence >= floor(PROMISE) and total / answered >= PROMISE:
            automatic = answered, precision, total / answered
    count = round(automatic[0] * n)
    figures |= promise(n, count, round(automatic[1] * count))
    figures |= {"expected": automatic[2], "bins": bins}
    name = "concepts kept out"
    return Row(name, figures, panel=Panel(name, bins, curve, calibration.error))


def pooled(rows: Sequence[Row]) -> Row | None:
    """The sets that are too small to show the promise by themselves, as one."""
    small = [one for one in rows if not one.part and 0 < one.figures["automatic"] < ENOUGH]
    if not small:
        return None
    n, automatic, right = (
        sum(one.figures[key] for one in small) for key in ("n", "automatic", "right")
    )
    expected = sum(one.figures["expected"] * one.figures["automatic"] for one in small) / automatic
    names = ", ".join(one.name for one in small)
    figures = {"n": n, **promise(n, automatic, right), "expected": expected}
    return Row(f"fewer than {ENOUGH}, pooled ({names})", figures)


def share(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None


# Tables


def markdown(rows: Sequence[Row], calibration: Any, about: str) -> str:
    lines = [about, "", *reliability_table(rows), "", *promise_table(rows), ""]
    if calibration.queries:
        lines += ["| kept out, by kind | strings | right first |", "|---|---|---|"]
        for kind, count in calibration.queries.items():
            lines.append(f"| {kind} | {count:,} | {percent(calibration.accuracy.get(kind))} |")
    return "\n".join(lines).rstrip() + "\n"


def reliability_table(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "| strings | n | right first | mean confidence | ECE | answered | right of these "
        f"| sure ({SURE}) | right of these |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in rows:
        found = one.figures
        cells = [percent(found["accuracy"]), percent(found["confidence"]), decimals(found["error"])]
        cells += [percent(found["answered"]), percent(found["right of answered"])]
        cells += [percent(found["sure"]), percent(found["right of sure"])]
        yield f"| {label(one)} | {found['n']:,} | {' | '.join(cells)} |"
    said = [
        f"{one.name} {one.figures['said']} (with them {decimals(one.figures['error with these'])})"
        for one in rows
        if one.figures["said"] and not one.part
    ]
    if said:
        yield f"\nRefused for what they say, and in no ECE: {', '.join(said)}."


def promise_table(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        f"| strings | n | automatic at {PROMISE:.0%} | expected | right | reached | 95% interval "
        f"| {100 * LEAST_SHOWN:.1f}% shown |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    whole = pooled(rows)
    for one in [*rows, *([whole] if whole else [])]:
        found = one.figures
        cells = [f"{found['automatic']:,} ({percent(found['share'])})", percent(found["expected"])]
        cells += [f"{found['right']:,}", percent(found["precision"])]
        ends = (found["low"], found["high"])
        cells.append(NONE if None in ends else f"{percent(ends[0])} to {percent(ends[1])}")
        counts = found["automatic"] >= ENOUGH or one is whole
        cells.append(("yes" if found["low"] >= LEAST_SHOWN else "no") if counts else NONE)
        yield f"| {label(one)} | {found['n']:,} | {' | '.join(cells)} |"


def label(one: Row) -> str:
    return f"- {one.name}" if one.part else one.name


def percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f}%"


def decimals(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


# The command


def rows_of(options: argparse.Namespace, normalizer: Normalizer) -> Iterator[Row]:
    if normalizer.calibration().reliability:  # else nothing was kept out of the fit
        yield kept_out(normalizer.calibration())
    yield from map(row, ward(normalizer, options.part))
    yield from map(row, phrases(normalizer, options.part, options.codes))
    for name in SETS if options.bench else ():
        yield row(dictionary(options.bench / name, options.work))
    if options.titles:
        yield row(titles(normalizer, options.titles))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="indexes of dictionaries, used again by later runs")
    parser.add_argument("--bench", type=Path, help=f"folder with {', '.join(SETS)}")
    parser.add_argument("--titles", type=Path, help="a CSV with the columns code and title")
    parser.add_argument("--part", choices=("dev", "test"), default="dev")
    parser.add_argument("--codes", type=Path, default=CODES, help="other ids of concepts")
    parser.add_argument("--draw", type=Path, help="the picture, a .svg or .png file")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    normalizer = Normalizer.load()
    rows = []
    start = time.perf_counter()
    for one in rows_of(options, normalizer):
        rows.append(one)
        sys.stderr.write(f"{one.name}: {one.figures['n']:,}, {time.perf_counter() - start:.0f} s\n")
    for left_out in ("bench", "titles"):
        if getattr(options, left_out) is None:
            sys.stderr.write(f"what needs --{left_out} is left out\n")
    weights = bundled_calibration(normalizer.encoder.fingerprint)
    made = digest(weights.read_bytes()) if weights else NONE
    about = f"Weights {made}, model {normalizer.encoder.fingerprint[:8]}, part {options.part}"
    about += ", on which the weights were fitted." if options.part == "dev" else "."
    text = markdown(rows, normalizer.calibration(), about)
    sys.stdout.write(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    if options.json:
        entries = [{"strings": one.name, "part": one.part, **one.figures} for one in rows]
        whole = pooled(rows)
        entries += [{"strings": whole.name, **whole.figures}] if whole else []
        content = json.dumps({"about": about, "sets": entries}, indent=1)
        options.json.write_text(content + "\n", encoding="utf-8")
    if options.draw:
        draw([one.panel for one in rows if one.panel], options.draw, promise=PROMISE)


if __name__ == "__main__":
    main()
