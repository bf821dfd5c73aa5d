"""How far confidences can be trusted: reliability and risk-coverage, on the graph and on real sets.

python benchmarks/calibration.py WORK [--index DIR] [--sets DIR NAME...] [--seen KG] [--draw FILE]

Every index carries what its calibration reached on concepts that were kept out of the fit. A set is
a folder with queries.tsv (query, lang, gold_concept_ids, split) and dictionary.tsv (concept_id,
term, lang), tab-separated, no quoting. Its dictionary becomes an index under WORK, with a
calibration of its own and, beside it, with that of --index. Printed for each: queries, accuracy,
expected calibration error, and the precision and share answered at a promised 98% and 90%; once
for all queries, once for those that are no term of the graph given as --seen.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder import KG, Normalizer, build_kg, load_encoder, open_source
from medcoder.errors import ArtefactError
from medcoder.normalize.build import CALIBRATION, ENCODER, build
from medcoder.normalize.calibrate import calibration_error, reliability, risk_coverage
from medcoder.types import Encoder, ReadOptions

Array = npt.NDArray[Any]
PROMISES = (0.98, 0.90)
COLUMNS = (("concept", "concept_id"), ("language", "lang"))


class Judged(NamedTuple):
    confidence: Array
    correct: Array
    seen: Array


def rows(file: Path) -> list[list[str]]:
    lines = file.read_text(encoding="utf-8").split("\n")
    return [line.split("\t") for line in lines[1:] if line]


def queries_of(folder: Path) -> list[tuple[str, frozenset[str]]]:
    """Distinct queries with their gold ids; of a set with splits, those to test by."""
    found = rows(folder / "queries.tsv")
    test = [row for row in found if row[3].endswith("test")] or found
    return list(dict.fromkeys((row[0], frozenset(row[2].split("|"))) for row in test))


def dictionary_index(
    folder: Path, work: Path, encoder: Encoder, calibration: Path | None
) -> Normalizer:
    """An index of the set's dictionary, made once."""
    kind = "own" if calibration is None else "given"
    path = work / f"{folder.name}-{encoder.fingerprint[:8]}-{kind}.index"
    if not path.exists():
        graph = work / f"{folder.name}.kg"
        if not graph.exists():
            table = work / f"{folder.name}.tsv"
            text = (folder / "dictionary.tsv").read_text(encoding="utf-8")
            table.write_text(text, encoding="utf-8")
            build_kg([open_source(f"table={table}", ReadOptions(columns=COLUMNS))], graph)
        build(KG.open(graph), encoder, path, calibration=calibration)
    return Normalizer.load(path)


def judge(normalizer: Normalizer, folder: Path, seen: KG | None) -> Judged:
    queries = queries_of(folder)
    answers = normalizer.normalize_many([text for text, _ in queries], top=1, threshold=0)
    confidence, correct = [], []
    for answer, (_, gold) in zip(answers, queries, strict=True):
        confidence.append(answer.confidence)
        found = answer[0].concept.split("|") if len(answer) else []
        correct.append(bool(gold & set(found)))
    known = [seen is not None and bool(seen.find(text)) for text, _ in queries]
    return Judged(np.array(confidence), np.array(correct), np.array(known))


def line(
    name: str, confidence: Array, correct: Array, thresholds: dict[float, float | None]
) -> None:
    parts = [f"| {name} | {len(correct):,} | {correct.mean():.1%} "]
    parts.append(f"| {calibration_error(confidence, correct):.3f} ")
    for promise in PROMISES:
        least = thresholds[promise]
        answered = confidence >= (2 if least is None else least)
        reached = f"{correct[answered].mean():.1%}" if answered.any() else "none answered"
        parts.append(f"| {reached} ({answered.mean():.0%}) ")
    print("".join(parts) + "|", flush=True)


def draw(panels: list[tuple[str, list, list]], file: Path) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    styles = ["o-", "s--", "^:", "D-.", "v-"]
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for (name, bins, curve), style in zip(panels, styles, strict=False):
        left.plot([row[0] for row in bins], [row[1] for row in bins], style, label=name, ms=4)
        right.plot([row[1] for row in curve], [row[2] for row in curve], style[1:], label=name)
    left.set(xlabel="confidence", ylabel="share that is right", title="Reliability")
    right.set(xlabel="share answered", ylabel="precision", title="Risk and coverage")
    left.legend(frameon=False, fontsize=8)
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--index", type=Path, help="the embedded one if not given")
    parser.add_argument("--sets", type=Path, nargs="*", default=[], help="folders of sets")
    parser.add_argument("--seen", type=Path, help="graph that the model was trained on")
    parser.add_argument("--draw", type=Path, help="a .svg or .png file")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    main_index = Normalizer.load(options.index)
    own = main_index.calibration()
    thresholds = {promise: own.threshold_for(promise) for promise in PROMISES}
    print("| set | queries | accuracy | ECE | at 98% promised (answered) | at 90% |")
    print("|---|---|---|---|---|---|")
    total = sum(row[2] for row in own.reliability)
    right = sum(row[1] * row[2] for row in own.reliability) / total
    reached = []
    for promise in PROMISES:
        row = next((row for row in reversed(own.curve) if row[2] >= promise), None)
        reached.append("none answered" if row is None else f"{row[2]:.1%} ({row[1]:.0%})")
    kept = f"{total:,} | {right:.1%} | {own.error:.3f} | {' | '.join(reached)}"
    print(f"| graph, kept out | {kept} |")
    panels = [("graph, kept out", own.reliability, own.curve)]
    encoder = load_encoder(main_index.path / ENCODER)
    seen = KG.open(options.seen) if options.seen else None
    for folder in options.sets:
        for kind, file in (("own", None), ("given", main_index.path / CALIBRATION)):
            try:
                normalizer = dictionary_index(folder, options.work, encoder, file)
            except ArtefactError as error:
                print(f"{folder.name}: {error}")
                continue
            calibration = normalizer.calibration()
            least = (
                {promise: calibration.threshold_for(promise) for promise in PROMISES}
                if kind == "own"
                else thresholds
            )
            judged = judge(normalizer, folder, seen)
            line(f"{folder.name}, {kind} calibration", judged.confidence, judged.correct, least)
            if seen is not None:
                new = ~judged.seen
                line("  - not seen", judged.confidence[new], judged.correct[new], least)
            if kind == "given":
                bins = reliability(judged.confidence, judged.correct)
                curve = risk_coverage(judged.confidence, judged.correct)
                panels.append((folder.name, bins, curve))
    if options.draw:
        draw(panels, options.draw)


if __name__ == "__main__":
    main()
