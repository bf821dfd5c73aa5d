"""The Normalizer next to its encoder alone and to TF-IDF alone, on sets that people made.

    python benchmarks/systems.py WORK --bench BENCH_DIR
    python benchmarks/systems.py WORK --bench BENCH_DIR --sets cadec psytar --markdown table.md

A set is a folder in BENCH_DIR, as `medcoder bench list` says what each needs. All are read and
measured as `medcoder bench run` does: test rows alone, the mean of the folds where there are some,
the dictionary of the set as the terminology. Shown is the share of queries with a right concept in
the first place, and how far the Normalizer is from the better of the other two: 95% interval and p
of a paired bootstrap over the queries, within each fold. What was asked is kept in WORK, so that
the same command goes on where it was, and asks again only what other data, another model, other
weights or other code make different.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import medcoder
from medcoder import Normalizer, load_encoder
from medcoder.bundled.models import MODEL
from medcoder.evaluate import BENCHES, embeddings
from medcoder.evaluate.benches.linking import Query, ids_of
from medcoder.evaluate.benches.task import Bench
from medcoder.evaluate.results import Context, Embedding, Linker, Prediction
from medcoder.evaluate.systems import CACHE, NormalizerLinker
from medcoder.files import write_text
from medcoder.normalize.build import build
from medcoder.normalize.stages import STAGES

SETS = ("cadec", "psytar", "mantra", "mantra_open", "bc5cdr_d_biosyn", "hpo_gsc", "misspelling")
APART = "misspelling"  # in no mean: its dictionary is of words, not of names
KEPT = "systems.jsonl"
DRAWS, SEED, LEVEL = 10_000, 0, 0.95
SIGNIFICANT = 0.05
METRIC = "acc@1"
OURS = "Normalizer"

Array = npt.NDArray[Any]


class Asked(NamedTuple):
    """Of each query of a set whether its first concept is right, the fold and the language."""

    hits: Array
    folds: Array
    languages: Array

    def of(self, rows: Array) -> Asked:
        return Asked(*(column[rows] for column in self))

    @property
    def accuracy(self) -> float:
        """The unweighted mean of the folds; without folds, all are one."""
        return float(np.mean([self.hits[self.folds == fold].mean() for fold in set(self.folds)]))


class Difference(NamedTuple):
    value: float
    low: float
    high: float
    p: float  # two-sided


def compared(first: Asked, second: Asked, *, draws: int = DRAWS, seed: int = SEED) -> Difference:
    """First less second, by a paired bootstrap over the queries of each fold.

    A difference is -1, 0 or 1, so a resample is how often each of the three was drawn.
    """
    rng = np.random.default_rng(seed)
    means = []
    for fold in sorted(set(first.folds)):
        inside = first.folds == fold
        less = first.hits[inside].astype(int) - second.hits[inside]
        share = np.bincount(less + 1, minlength=3) / len(less)
        counts = rng.multinomial(len(less), share, size=draws)  # (draws, 3)
        means.append((counts[:, 2] - counts[:, 0]) / len(less))
    drawn = np.mean(means, axis=0)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    beyond = min((drawn <= 0).sum(), (drawn >= 0).sum())
    p = min(1.0, float(2 * (beyond + 1) / (draws + 1)))
    return Difference(first.accuracy - second.accuracy, float(low), float(high), p)


# Asking


def normalizer(work: Path) -> NormalizerLinker:
    encoder: Any = load_encoder(MODEL)
    return NormalizerLinker(
        encoder,
        name=OURS,
        build=build,
        load=Normalizer.load,
        stages=STAGES,
        cache=work / CACHE,
        progress=progress,
    )


SYSTEMS: dict[str, Callable[[Path], Embedding | Linker]] = {
    "encoder": lambda work: embeddings.load(MODEL),
    "TF-IDF": lambda work: embeddings.load("lexical:tfidf"),
    OURS: normalizer,
}


def progress(what: str, done: int, total: int) -> None:
    end = "\r" if done < total else "\n"
    sys.stderr.write(f"  {what} {done:,} of {total:,}{end}")


@cache
def code() -> str:
    """Of the source of what normalises strings: its figures are of that too."""
    digest = hashlib.sha256()
    root = Path(medcoder.__file__).parent
    for file in sorted([*(root / "normalize").rglob("*.py"), root / "text.py"]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def key_of(
    bench: Bench, system: str, opened: Embedding | Linker, data: Path, context: Context
) -> dict[str, Any]:
    """What a result depends on, as JSON has it."""
    key = {
        "set": bench.card.folder or bench.card.name,
        "system": system,
        "data": bench.fingerprint(data, context),
        "model": opened.fingerprint,
        "settings": opened.settings,
        "code": code() if system == OURS else "",
    }
    stored: dict[str, Any] = json.loads(json.dumps(key))
    return stored


def ask(
    bench: Bench, system: str, opened: Embedding | Linker, data: Path, context: Context, file: Path
) -> Asked:
    """The hits of a system on a set: those that are kept, or else it is asked."""
    key = key_of(bench, system, opened, data, context)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for kept in map(json.loads, lines):
        if {name: kept[name] for name in key} == key:
            sys.stderr.write(f"{key['set']}, {system}: kept\n")
            return unpacked(kept)
    sys.stderr.write(f"{key['set']}, {system}\n")
    start = time.perf_counter()
    result = bench.run(opened, data, context)
    entry = key | packed(result.predictions)
    entry["seconds"] = round(time.perf_counter() - start, 1)
    asked = unpacked(entry)
    [figure] = [one for one in result.figures if (one.split, one.metric) == ("all", METRIC)]
    assert np.isclose(figure.value, asked.accuracy), (key["set"], figure.value, asked.accuracy)
    write_text(file, "".join(f"{line}\n" for line in [*lines, json.dumps(entry)]))  # whole, or not
    return asked


def packed(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """A sign for each query, and its fold and language by number."""
    folds = [Query(one.query, one.language, one.gold, one.split).fold for one in predictions]
    languages = [one.language for one in predictions]
    return {
        "hits": "".join("01"[is_hit(one)] for one in predictions),
        "folds": numbered(folds),
        "languages": numbered(languages),
    }


def is_hit(one: Prediction) -> bool:
    return bool(one.concepts) and bool(ids_of(one.concepts[0]) & ids_of(one.gold))


def numbered(names: Sequence[str]) -> dict[str, Any]:
    known = sorted(set(names))
    return {"names": known, "of": [known.index(name) for name in names]}


def unpacked(entry: dict[str, Any]) -> Asked:
    folds, languages = (
        np.array(entry[name]["names"])[entry[name]["of"]] for name in ("folds", "languages")
    )
    return Asked(np.array(list(entry["hits"])) == "1", folds, languages)


# Showing


def parts(asked: Asked) -> Iterator[tuple[str, Array]]:
    """All queries, and of several languages each."""
    yield "", np.arange(len(asked.hits))
    languages = sorted(set(asked.languages))
    if len(languages) > 1:
        for language in languages:
            yield language, np.flatnonzero(asked.languages == language)


def row(name: str, asked: dict[str, Asked]) -> dict[str, Any]:
    ours, others = asked[OURS], {key: some for key, some in asked.items() if key != OURS}
    better = max(others, key=lambda key: others[key].accuracy)
    less = compared(ours, others[better])
    return {
        "set": name,
        "queries": len(ours.hits),
        "folds": len(set(ours.folds)),
        **{key: some.accuracy for key, some in asked.items()},
        "better": better,
        **less._asdict(),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        f"| set | queries | {' | '.join(SYSTEMS)} | less the better | 95% interval | p |",
        "|---|---|" + "---|" * (len(SYSTEMS) + 3),
    ]
    for one in rows:
        shares = " | ".join(f"{100 * one[name]:.1f}" for name in SYSTEMS)
        lines.append(
            f"| {one['set']} | {one['queries']:,} | {shares} | {points(one['value'])} "
            f"| {points(one['low'])} to {points(one['high'])} | {p_value(one['p'])} |"
        )
    return "\n".join(lines)


def points(value: float) -> str:
    return f"{100 * value:+.1f}"


def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    whole = [one for one in rows if one["set"] in SETS and one["set"] != APART]
    lines = []
    if whole:
        shares = ", ".join(
            f"{name} {100 * np.mean([one[name] for one in whole]):.1f}" for name in SYSTEMS
        )
        mean = float(np.mean([one["value"] for one in whole]))
        lines.append(
            f"Mean of {len(whole)} sets ({', '.join(one['set'] for one in whole)}): {shares}; "
            f"{OURS} less the better of each: {points(mean)} points."
        )
    below = [
        f"{one['set']} ({points(one['value'])})"
        for one in rows
        if one["set"] in SETS and one["value"] < 0 and one["p"] < SIGNIFICANT
    ]
    lines.append(f"Significantly below (p < {SIGNIFICANT}): {', '.join(below) or 'none'}.")
    return lines


# The command


def benches(names: Sequence[str]) -> dict[str, Bench]:
    """By the names of their folders."""
    loaded = [BENCHES.load(name) for name in BENCHES]
    folders = {bench.card.folder or bench.card.name: bench for bench in loaded}
    return {name: folders[name] for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="results and indexes, used again by later runs")
    parser.add_argument("--bench", type=Path, required=True, help="a folder with one for each set")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--other-data", action="store_true", help="take files that no card pins")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    context = Context(resamples=0, pinned=not options.other_data, progress=progress)
    chosen = benches(options.sets)
    for bench in chosen.values():
        bench.fingerprint(options.bench, context)  # what is missing is said before anything is run
    opened = {name: SYSTEMS[name](options.work) for name in options.systems}
    asked: defaultdict[str, dict[str, Asked]] = defaultdict(dict)
    for name, bench in chosen.items():
        for system, it in opened.items():
            file = options.work / KEPT
            asked[name][system] = ask(bench, system, it, options.bench, context, file)
    if set(options.systems) != set(SYSTEMS):
        return
    rows = [
        row(f"{name}: {part}" if part else name, {key: one.of(some) for key, one in of.items()})
        for name, of in asked.items()
        for part, some in parts(of[OURS])
    ]
    text = "\n".join([table(rows), "", *summary(rows)]) + "\n"
    sys.stdout.write(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
