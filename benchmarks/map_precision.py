"""Promised against reached precision of a mapping project whose local codes are the truth.

    medcoder map titles.csv --column title --code code --vocabularies ICD10CM --out titles
    python benchmarks/map_precision.py titles --vocabulary ICD10CM --characters 3

A mapping is right if one of the codes of its concept begins like the local code of its row. For
each promise it says what would be mapped automatically, what the project expects of that, and what
share of it is right, with the 95% interval of Wilson. Figures go to PROJECT/precision.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

from medcoder.mapping import Project
from medcoder.mapping.auto_threshold import auto_threshold
from medcoder.mapping.project.records import TermMapping
from medcoder.types import Code

PROMISES = (0.99, 0.98, 0.95, 0.9, 0.8)
BINS = 5


def key(code: str, characters: int) -> str:
    return code.replace(".", "").upper()[:characters]


def is_right(codes: Sequence[Code], truth: str, vocabulary: str, characters: int) -> bool:
    """Whether one of the codes agrees with the truth in its first characters."""
    return any(
        code.vocabulary == vocabulary and key(code.code, characters) == key(truth, characters)
        for code in codes
    )


def interval(right: int, total: int) -> tuple[float, float]:
    """The 95% interval of Wilson."""
    z, share = 1.96, right / total
    middle = share + z * z / (2 * total)
    width = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return (middle - width) / (1 + z * z / total), (middle + width) / (1 + z * z / total)


def judged(right: Sequence[bool]) -> dict[str, Any]:
    """How many, how many right, and how sure that share is."""
    if not right:
        return {"terms": 0}
    low, high = interval(sum(right), len(right))
    return {
        "terms": len(right), "right": sum(right), "precision": sum(right) / len(right),
        "low": low, "high": high,
    }  # fmt: skip


def measure(project: Project, vocabulary: str, characters: int) -> dict[str, Any]:
    found: list[tuple[TermMapping, bool]] = [
        (one, is_right(one.candidates[0].codes, one.row.code, vocabulary, characters))
        for one in project.terms()
        if one.status != "none"
    ]
    total = sum(count["terms"] for count in project.counts().values())
    listed = [
        one for one in project.terms()
        if any(is_right(c.codes, one.row.code, vocabulary, characters) for c in one.candidates)
    ]  # fmt: skip
    promises = []
    for promised in PROMISES:
        made = auto_threshold(project, promised)
        threshold = made["threshold"]
        some = [ok for one, ok in found if threshold is not None and one.confidence >= threshold]
        promises.append(
            {
                "promised": promised, "threshold": threshold,
                "expected": made["expected"]["terms"], **judged(some),
            }
        )  # fmt: skip
    bins = []
    for place in range(BINS):
        low, high = place / BINS, (place + 1) / BINS
        some_ = [(one, ok) for one, ok in found if low < one.confidence <= high]
        mean = sum(one.confidence for one, _ in some_) / len(some_) if some_ else None
        bins.append({"from": low, "to": high, "mean": mean, **judged([ok for _, ok in some_])})
    return {
        "vocabulary": vocabulary, "characters": characters, "terms": total,
        "answered": judged([ok for _, ok in found]), "none": total - len(found),
        "right_among_candidates": len(listed), "promises": promises, "confidence": bins,
        "wrong": [
            {
                "code": one.row.code, "text": one.row.text, "name": one.candidates[0].name,
                "codes": [code.code for code in one.candidates[0].codes],
                "confidence": one.confidence,
            }
            for one, ok in found
            if one.status == "auto" and not ok
        ],
    }  # fmt: skip


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--characters", type=int, default=100, help="of a code that must agree")
    options = parser.parse_args()
    with Project.open(options.project) as project:
        figures = measure(project, options.vocabulary, options.characters)
    out = Path(options.project) / "precision.json"
    out.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    answered = figures["answered"]
    print(
        f"{figures['terms']:,} terms, {answered['terms']:,} answered, {answered['right']:,} of "
        f"them right; right among the candidates: {figures['right_among_candidates']:,}"
    )
    print("| promised | automatic | expected | reached | 95% interval |\n|---|---|---|---|---|")
    for one in figures["promises"]:
        if not one["terms"]:
            print(f"| {one['promised']:.0%} | 0 | | | |")
            continue
        share = one["terms"] / figures["terms"]
        print(
            f"| {one['promised']:.0%} | {one['terms']:,} ({percent(share)}) | "
            f"{percent(one['expected'])} | {percent(one['precision'])} | "
            f"{percent(one['low'])} to {percent(one['high'])} |"
        )
    print("| confidence | terms | mean | right |\n|---|---|---|---|")
    for one in figures["confidence"]:
        print(
            f"| {one['from']:g} to {one['to']:g} | {one['terms']:,} | {percent(one['mean'])} | "
            f"{percent(one.get('precision'))} |"
        )


if __name__ == "__main__":
    main()
