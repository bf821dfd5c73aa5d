"""Accuracy of an encoder alone on sets of queries, zero-shot.

python recipes/medcoder-all/measure.py BENCH/cadec BENCH/mantra --model MODEL --trained-on work

A set is a folder with queries.tsv (query, language, concepts that are meant, split) and
dictionary.tsv (concepts, term, language), without quoting; several ids are joined by "|". Each
query is compared with all terms by cosine; a hit is any common id. Of splits only those that end
in "test" count, if there are such; if those are folds, the figure is the mean over them. Brackets
hold 95% intervals by bootstrap over queries. With `--trained-on`, the folder that prepare.py wrote
to, figures are also given for queries that equal no term of it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from medcoder.encode import exported
from medcoder.model import load_encoder
from medcoder.text import fold
from medcoder.train.processes import device
from tables import read

TOP = 100  # terms among which three concepts are looked for
RESAMPLES = 1000


class Asked(NamedTuple):
    """One query: what it counts to, and whether the first and one of the first three are right."""

    language: str
    split: str
    seen: bool
    first: bool
    three: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", type=Path, nargs="+", metavar="SET")
    parser.add_argument("--model", required=True, help="folder of a model, exported or not")
    parser.add_argument("--trained-on", type=Path, metavar="WORK")
    options = parser.parse_args()
    encoder: Any = load_encoder(options.model)
    if not exported(options.model):
        encoder.to(device())
    encode = encoder.encode
    seen = training_terms(options.trained_on) if options.trained_on else set()
    for folder in options.sets:
        asked = ask(folder, encode, seen)
        report(folder.name, asked)
        languages = sorted({one.language for one in asked})
        for language in languages if len(languages) > 1 else ():
            report(f"{folder.name} {language}", [one for one in asked if one.language == language])
        if options.trained_on:
            report(f"{folder.name}, unseen", [one for one in asked if not one.seen])


def training_terms(work: Path) -> set[str]:
    terms = pl.read_parquet(work / "terms.parquet", columns=["term"])["term"].unique().to_list()
    return {fold(term) for term in terms + [row[0] for row in read(work / "extra.tsv")[1]]}


def ask(folder: Path, encode: Any, seen: set[str]) -> list[Asked]:
    queries, terms = read(folder / "queries.tsv")[1], read(folder / "dictionary.tsv")[1]
    queries = [row for row in queries if row[3].endswith("test")] or queries
    texts = list(dict.fromkeys(row[0] for row in queries))
    found = dict(zip(texts, _best(encode(texts), encode([row[1] for row in terms])), strict=True))
    asked = []
    for text, language, meant, split, *_ in queries:
        ranked = list(dict.fromkeys(terms[place][0] for place in found[text]))[:3]
        hits = [bool({*meant.split("|")} & {*concept.split("|")}) for concept in ranked]
        folds = split if split != "test" and split.endswith("test") else ""
        asked.append(Asked(language, folds, fold(text) in seen, hits[0], any(hits)))
    return asked


def _best(queries: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Places of the nearest terms, the nearest first; of equal ones, the first in the table."""
    best = []
    for start in range(0, len(queries), 256):
        scores = queries[start : start + 256] @ terms.T
        best.append(np.argsort(-scores, axis=1, kind="stable")[:, :TOP])
    return np.concatenate(best)


def report(name: str, asked: list[Asked]) -> None:
    if not asked:
        print(f"{name}: none")
        return
    hits = np.array([[one.first, one.three] for one in asked], float)
    groups = defaultdict(list)
    for place, one in enumerate(asked):
        groups[one.split].append(place)
    folds = [np.array(places) for places in groups.values()]
    rng = np.random.default_rng(0)
    drawn = [_mean(hits, [rng.choice(some, len(some)) for some in folds]) for _ in range(RESAMPLES)]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    figures = [
        f"@{at} {100 * value:.1f} [{100 * below:.1f}, {100 * above:.1f}]"
        for at, value, below, above in zip((1, 3), _mean(hits, folds), low, high, strict=True)
    ]
    print(f"{name}: {len(asked):,} queries, {'  '.join(figures)}", flush=True)


def _mean(hits: np.ndarray, folds: list[np.ndarray]) -> np.ndarray:
    return np.mean([hits[places].mean(0) for places in folds], axis=0)


if __name__ == "__main__":
    main()
