"""Fit the weights that order candidates and the confidences that come with the package.

python recipes/ranker/fit.py WORK OUT [--codes FILE] [--report FILE]

WORK has the terminologies of terminologies.py. OUT is the file of confidences. Strings:
data/train/ward, data/train/ward_common and data/eval/dev against the bundled terminology, queries
drawn from it, names of drugs, which it lacks, and what is asked of the terminologies in WORK.
Concepts are in two halves: what a fit on one half reaches on the other is reported, and kept beside
the weights; the weights are fitted on all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from medcoder import Normalizer
from medcoder.files import write_json
from medcoder.normalize.asking import Heard
from medcoder.normalize.batch import Fusion
from medcoder.normalize.calibrate import Calibration, calibration_error, judge
from medcoder.normalize.fitting import Example, fit
from medcoder.normalize.stages import STAGES, calibration_name, stage_sets
from medcoder.normalize.weights import Weights

ROOT = Path(__file__).resolve().parent.parent.parent / "data"
VOCABULARY = "ICD10CM"
# What a string counts, for the order and for the confidence. Strings that the encoder learnt from
# look better than others do, and so do strings of wards that the dictionary of abbreviations was
# extended by: they count less. Those of `ward_common` came after the dictionary.
COUNTS = {
    "ward": (1.0, 0.4),
    "ward common": (0.5, 2.0),
    "ward dev": (1.5, 2.0),
    "phrases": (0.4, 0.4),
    "drawn": (0.8, 0.3),
    "drugs": (0.3, 0.3),
    "terminology": (0.8, 0.15),
}
# Parts of a string are looked up by themselves, and judged in the light of the whole: anaemia in
# pregnancy is no D64. Their names are what they say, so they teach the confidence little.
_OF_PARTS = 0.3
_MOST = 1000  # strings of a terminology
_DRAWN = 4000
_SEEN = ("synonym", "foreign")


class Labelled(NamedTuple):
    example: Example
    source: str
    language: str
    half: int  # of the concepts
    text: str


def half_of(concepts: str) -> int:
    return crc32(concepts.encode()) % 2


def rows(file: Path) -> list[list[str]]:
    lines = file.read_text(encoding="utf-8").split("\n")
    return [line.split("\t") for line in lines[1:] if line]


class Collector:
    """Examples of the bundled terminology and of others."""

    def __init__(self, work: Path, stages: Sequence[str]) -> None:
        self.work, self.stages = work, stages
        self.bundled = Normalizer.load()
        self._categories: dict[int, set[str]] = {}

    def ward(self, folder: Path) -> Iterator[Labelled]:
        """Strings with categories; of those that are several, the parts."""
        for file in sorted(folder.glob("*.tsv")):
            some = rows(file)
            texts = [row[0] for row in some]
            heard = self.bundled.heard(
                texts, vocabularies=[VOCABULARY], stages=self.stages, split=True
            )
            for (_, kind, categories, *_), whole in zip(some, heard, strict=True):
                parts = [set(part.strip().split("|")) for part in categories.split(";") if part]
                for one, right in self._parts(whole, parts):
                    decides = one.understood.decides
                    if decides == "negated" or (kind == "qualifier" and not right):
                        continue
                    if decides in ("history", "family"):
                        if not right:
                            continue
                        kind = "said"
                    found = self._example(one, kind, right, self.categories)
                    if found is not None:
                        key = min(right) if right else one.text
                        yield Labelled(
                            found, "ward", file.stem.split("_")[0], half_of(key), one.text
                        )

    def _parts(self, whole: Heard, parts: Sequence[set[str]]) -> list[tuple[Heard, set[str]]]:
        if len(parts) < 2:
            return [(whole, parts[0] if parts else set())]
        for way in whole.ways:
            if len(way) == len(parts):
                return list(zip(way, parts, strict=True))
        return []

    def _example(
        self, heard: Heard, kind: str, right: set[str], of: Callable[[int], set[str]]
    ) -> Example | None:
        if heard.choices is None:
            return None
        is_right = [bool(of(some.concept) & right) for some in heard.choices.candidates]
        return Example(heard.choices, np.array(is_right, np.bool_), kind, answerable=bool(right))

    def categories(self, concept: int) -> set[str]:
        if concept not in self._categories:
            kg = self.bundled.kg
            codes = kg.codes_of(kg.terms.id(concept), [VOCABULARY])
            self._categories[concept] = {code.code[:3] for code in codes}
        return self._categories[concept]

    def phrases(self, folder: Path, codes: Path) -> Iterator[Labelled]:
        """Phrases of concepts that the bundled terminology has, under their own id or another."""
        kg = self.bundled.kg
        ids: dict[str, set[str]] = defaultdict(set)
        for concept, *others in rows(codes):
            for some in (concept, *others):
                if some in kg:
                    ids[concept].add(some)
                vocabulary, _, code = some.partition(":")
                ids[concept] |= set(kg.find_code(vocabulary, code)) if code else set()
                if vocabulary == VOCABULARY:
                    ids[concept].add(code[:3])

        def own(concept: int) -> set[str]:
            return {kg.terms.id(concept), *self.categories(concept)}

        for file in sorted(folder.glob("*.tsv")):
            for column, kind in ((2, "lay"), (3, "chart")):
                some = [row for row in rows(file) if len(row) > column and row[column]]
                some = [row for row in some if ids[row[0]]]
                heard = self.bundled.heard([row[column] for row in some], stages=self.stages)
                for row, one in zip(some, heard, strict=True):
                    if one.understood.decides in ("history", "family", "negated"):
                        continue
                    found = self._example(one, kind, ids[row[0]], own)
                    if found is not None:
                        yield Labelled(found, "phrases", file.stem, half_of(row[0]), one.text)

    def drugs(self, file: Path) -> Iterator[Labelled]:
        """Names of drugs, which mean nothing that the bundled terminology has."""
        texts = sorted({row[0] for row in rows(file)}, key=lambda text: crc32(text.encode()))[:700]
        for vocabularies in (None, [VOCABULARY]):
            heard = self.bundled.heard(texts, vocabularies=vocabularies, stages=self.stages)
            for text, one in zip(texts, heard, strict=True):
                if (found := self._example(one, "absent", set(), self.categories)) is not None:
                    yield Labelled(found, "drugs", "en", half_of(text), text)

    def drawn(self) -> Iterator[Labelled]:
        """Queries drawn from the bundled terminology."""
        kg = self.bundled.kg
        for query, found in self.bundled.drawn(_DRAWN, self.stages):
            if found is not None:
                concept = kg.terms.id(query.concept)
                yield Labelled(found, "drawn", "en", half_of(concept), query.text)

    def terminology(self, name: str) -> Iterator[Labelled]:
        normalizer = Normalizer.load(self.work / f"{name}.index", terms=self.work / "none.tsv")
        some = rows(self.work / f"{name}.tsv")
        some = sorted(some, key=lambda row: crc32("\t".join(row).encode()))[:_MOST]

        def own(concept: int) -> set[str]:
            return {normalizer.kg.terms.id(concept)}

        heard = normalizer.heard([row[0] for row in some], stages=self.stages)
        for (text, kind, language, right), one in zip(some, heard, strict=True):
            found = self._example(one, kind, {right} if right else set(), own)
            if found is not None:
                yield Labelled(
                    found, f"terminology: {name}", language, half_of(right or text), text
                )


def collected(work: Path, stages: Sequence[str], codes: Path | None) -> list[Labelled]:
    """Examples; for a choice of stages, which few people make, of the bundled terminology alone."""
    collector = Collector(work, stages)
    found: list[Labelled] = []
    sources = [
        collector.ward(ROOT / "train" / "ward"),
        (
            some._replace(source=source)
            for source, folder in (
                ("ward common", ROOT / "train/ward_common"),
                ("ward dev", ROOT / "eval/dev/ward"),
            )
            for some in collector.ward(folder)
        ),
        collector.drawn(),
    ]
    if tuple(stages) == tuple(STAGES):
        sources += [
            collector.phrases(ROOT / "eval/dev/phrases", codes) if codes else iter(()),
            collector.drugs(ROOT / "train" / "related" / "drugs.tsv"),
            *(collector.terminology(file.name[:-6]) for file in sorted(work.glob("*.index"))),
        ]
    for source in sources:
        before = len(found)
        found += source
        sys.stderr.write(f"{len(found) - before:,} more, the last of {found[-1].source}\n")
    return found


def fitted_to(found: Sequence[Labelled]) -> Weights:
    """The weights that suit examples."""

    def counted(place: int) -> list[Example]:
        counts = [COUNTS[some.source.partition(":")[0]][place] for some in found]
        if place:
            kinds = [some.example.kind for some in found]
            pairs = zip(counts, kinds, strict=True)
            counts = [n * (_OF_PARTS if kind == "several" else 1.0) for n, kind in pairs]
        pairs = zip(found, counts, strict=True)
        return [replace(some.example, counts=count) for some, count in pairs if count]

    return fit(counted(0), sure=counted(1))


def line(name: str, examples: Sequence[Example], confidence: Any, right: Any) -> str:
    sure, answered = confidence >= 0.9, confidence >= 0.5
    able = np.array([some.answerable for some in examples])
    order = np.argsort(-confidence, kind="stable")
    precision = np.cumsum(right[order]) / np.arange(1, len(right) + 1)
    enough = np.flatnonzero(precision >= 0.98)
    share = (enough[-1] + 1) / len(right) if len(enough) else 0.0
    cells = [
        name,
        f"{len(right):,}",
        f"{100 * right[able].mean():.1f}" if able.any() else "–",
        f"{confidence.mean():.3f}",
        f"{right.mean():.3f}",
        f"{calibration_error(confidence, right):.3f}",
        f"{100 * answered.mean():.1f} / {100 * right[answered].mean():.1f}"
        if answered.any()
        else "0",
        f"{100 * sure.mean():.1f} / {100 * right[sure].mean():.1f}" if sure.any() else "0",
        f"{100 * share:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def report(found: Sequence[Labelled], confidence: Any, right: Any) -> str:
    """A table of what was kept out, by source, kind and language."""
    groups: dict[str, list[int]] = defaultdict(list)
    for position, some in enumerate(found):
        for name in (
            some.source,
            f"{some.source}, {some.example.kind}" if some.source != "drugs" else "",
            f"{some.source}, {some.language}" if some.source.startswith(("ward", "phr")) else "",
        ):
            if name:
                groups[name].append(position)
    lines = [
        "| kept out | strings | right first, % | mean confidence | share right | error |"
        " answered at 0.5 / right, % | sure / right, % | answered at 98%, % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, positions in groups.items():
        if len(positions) >= 100:
            some = [found[position].example for position in positions]
            lines.append(line(name, some, confidence[positions], right[positions]))
    return "\n".join(lines)


def wrong(found: Sequence[Labelled], confidence: Any, right: Any) -> str:
    order = [place for place in np.argsort(-confidence).tolist() if not right[place]]
    lines = []
    for place in order[:2000]:
        some = found[place]
        best = max(some.example.choices.candidates, key=lambda one: one.score)
        lines.append(
            f"{confidence[place]:.3f}\t{some.source}\t{some.language}\t{some.example.kind}"
            f"\t{some.text}\t{best.name}"
        )
    return "\n".join(lines) + "\n"


def crossed(found: Sequence[Labelled]) -> tuple[Any, Any]:
    """Confidence and rightness of each, by weights that were fitted on the other concepts."""
    confidence, right = np.zeros(len(found)), np.zeros(len(found), np.bool_)
    for half in (0, 1):
        weights = fitted_to([some for some in found if some.half != half])
        inside = [position for position, some in enumerate(found) if some.half == half]
        judged = judge(weights, [found[position].example for position in inside])
        confidence[inside], right[inside] = judged
    return confidence, right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--codes", type=Path, help="what else the concepts of phrases are called")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--wrong", type=Path, help="a table of the surest that are wrong")
    parser.add_argument("--main", action="store_true", help="only the weights of all stages")
    options = parser.parse_args()
    stages: dict[str, Any] = {}
    fusion = Fusion(2.0, 0.4)
    for some in stage_sets()[: 1 if options.main else None]:
        name = calibration_name(some)
        found = collected(options.work, some, options.codes)
        confidence, right = crossed(found)
        table = report(found, confidence, right)
        print(f"{name}\n\n{table}\n", flush=True)
        if options.report and name == calibration_name(STAGES):
            options.report.write_text(table + "\n", encoding="utf-8")
        if options.wrong:
            options.wrong.write_text(wrong(found, confidence, right), encoding="utf-8")
        examples = [one.example for one in found]
        fitted = Calibration.measured(fitted_to(found), examples, confidence, right)
        stages[name] = fitted.as_dict()
    write_json(options.out, {"fusion": fusion._asdict(), "stages": stages})
    print(f"{options.out}: {len(json.dumps(stages)):,} bytes")


if __name__ == "__main__":
    main()
