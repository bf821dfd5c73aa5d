"""Terminologies to fit the ranking on, beside the bundled one, made of an open graph.

python recipes/ranker/terminologies.py GRAPH WORK [--leave-out FOLDER ...]

GRAPH is a folder with `merged/concepts_terms.parquet`-like tables: see README.md. Each terminology
becomes WORK/NAME.index, and WORK/NAME.tsv has what is asked of it: the string, its kind, its
language, and the concepts that are right, joined by |; none where it has no such thing.
Strings that equal a query of a folder that is left out are not asked.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from medcoder import KG, build_kg, load_encoder, open_source
from medcoder.bundled.models import bundled_model
from medcoder.normalize.build import CALIBRATION, build, bundled_index
from medcoder.normalize.calibration_queries import misspell, scramble
from medcoder.text import fold, not_a_term
from medcoder.types import ReadOptions

LANGUAGES = ("de", "es", "fr", "nl", "pt", "ru", "cs", "ja", "zh")
_COLUMNS = (("concept", "concept"), ("language", "language"))
_LOOKED_AT = 3000  # concepts that a list lacks, of which the nearest are asked for
_SHARED = 4  # concepts of one name at most; a name of more says nothing


class Asked(NamedTuple):
    text: str
    kind: str
    language: str
    right: str


class Names(NamedTuple):
    """Terms of concepts by language, the preferred one first."""

    of: dict[str, dict[str, list[str]]]  # concept, language
    bearers: dict[str, set[str]]  # of each folded name


def names(tables: Iterable[Path]) -> Names:
    of: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    bearers: dict[str, set[str]] = defaultdict(set)
    for table in tables:
        rows = pq.read_table(table, columns=["concept_id", "term", "lang", "is_preferred"])
        rows = rows.sort_by([("is_preferred", "descending")])
        for concept, term, language in zip(*(rows[i].to_pylist() for i in range(3)), strict=True):
            if term and len(term) <= 100 and not_a_term(term) is None:
                of[concept][language].append(term)
                bearers[fold(term)].add(concept)
    return Names(of, bearers)


class Maker:
    def __init__(self, work: Path, left_out: Collection[str]) -> None:
        self.work, self.left_out = work, left_out
        self.rng = np.random.default_rng(7)
        self.encoder = load_encoder(bundled_model())

    def shuffled(self, some: Collection[str]) -> list[str]:
        ordered = sorted(some)
        return [ordered[place] for place in self.rng.permutation(len(ordered)).tolist()]

    def write(
        self, name: str, terms: Sequence[tuple[str, str, str]], asked: Iterable[Asked]
    ) -> None:
        """terms: concept, term, language"""
        table = self.work / f"{name}.terms.tsv"
        lines = ["concept\tterm\tlanguage", *("\t".join(row) for row in terms)]
        table.write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = ReadOptions(columns=_COLUMNS)
        build_kg([open_source(f"table={table}", options)], self.work / f"{name}.kg", overwrite=True)
        kg = KG.open(self.work / f"{name}.kg")
        build(
            kg,
            self.encoder,
            self.work / f"{name}.index",
            calibration=bundled_index() / CALIBRATION,  # it is not used
            overwrite=True,
        )
        kept = [one for one in asked if fold(one.text) not in self.left_out]
        rows = ["text\tkind\tlanguage\tright", *("\t".join(one) for one in kept)]
        (self.work / f"{name}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        sys.stderr.write(f"{name}: {len(kg):,} concepts, {len(kept):,} strings\n")

    def wrong(self, text: str, concept: str, language: str, known: Collection[str]) -> Asked | None:
        some = misspell(text, self.rng)
        if self.rng.random() < 0.3:
            some = misspell(some, self.rng)
        return Asked(some, "misspelt", language, concept) if fold(some) not in known else None

    def nonsense(self, texts: Sequence[str], language: str) -> Iterator[Asked]:
        for text in texts:
            yield Asked(scramble(text, self.rng), "nonsense", language, "")

    def single_names(
        self, name: str, found: Names, concepts: int, absent: int, language: str = "en"
    ) -> None:
        """A list of names, one a concept: asked for other names of them, and for what it lacks.

        What it lacks is what is nearest to what it has: rosuvastatin, where it has atorvastatin.
        """
        known = [some for some in self.shuffled(found.of) if found.of[some][language]]
        inside, outside = known[:concepts], known[concepts : concepts + _LOOKED_AT]
        if len(outside) > absent:
            here, there = (
                self.encoder.encode([found.of[some][language][0] for some in part])
                for part in (inside, outside)
            )
            near = (there @ here.T).max(axis=1)
            outside = [outside[place] for place in np.argsort(-near)[:absent].tolist()]
        terms = [(some, found.of[some][language][0], language) for some in inside]
        folded = {fold(term): some for some, term, _ in terms}
        asked: list[Asked] = []
        for some in inside:
            term, *others = found.of[some][language]
            fate = self.rng.random()
            if fate < 0.1 or concepts < 400:
                asked.append(Asked(term, "verbatim", language, some))
            if fate >= 0.75 or not others or concepts < 400:
                one = self.wrong(term, some, language, folded)
                asked += [one] if one else []
            asked += [
                Asked(other, "synonym", language, some)
                for other in self.shuffled(set(others))[:1]
                if fold(other) not in folded and found.bearers[fold(other)] == {some}
            ]
        for some in outside:
            term = self.shuffled(set(found.of[some][language]))[0]
            if not found.bearers[fold(term)] & set(inside):
                asked.append(Asked(term, "absent", language, ""))
        asked += self.nonsense([term for _, term, _ in terms[:: max(concepts // 40, 1)]], language)
        self.write(name, terms, asked)

    def synonyms(
        self, name: str, found: Names, language: str, concepts: int, foreign: Sequence[str] = ()
    ) -> None:
        """All names in a language but one of each, which is asked for; and foreign ones."""
        known = [some for some in self.shuffled(found.of) if len(found.of[some][language]) > 1]
        inside, outside = known[:concepts], known[concepts : concepts + concepts // 4]
        terms: list[tuple[str, str, str]] = []
        asked: list[Asked] = []
        within = set(inside)
        for some in inside:
            every = list(dict.fromkeys(found.of[some][language]))
            hidden = self.shuffled(set(every))[0]
            left = [term for term in every if fold(term) != fold(hidden)]
            if not left or found.bearers[fold(hidden)] != {some}:
                hidden, left = "", every
            left = self.shuffled(set(left)) if len(left) < 5 else left  # the first is any of them
            terms += [(some, term, language) for term in left]
            fate = self.rng.random()
            if hidden and fate < 0.7:
                asked.append(Asked(hidden, "synonym", language, some))
            elif fate < 0.8:
                asked.append(Asked(left[-1], "verbatim", language, some))
            else:
                one = self.wrong(left[0], some, language, found.bearers)
                asked += [one] if one else []
            for other in foreign:
                if found.of[some][other] and self.rng.random() < 0.15:
                    term = self.shuffled(set(found.of[some][other]))[0]
                    if found.bearers[fold(term)] & within == {some}:
                        asked.append(Asked(term, "foreign", other, some))
        for some in outside:
            term = found.of[some][language][0]
            if len(found.bearers[fold(term)]) < _SHARED and not found.bearers[fold(term)] & within:
                asked.append(Asked(term, "absent", language, ""))
        asked += self.nonsense([term for _, term, _ in terms[:: len(terms) // 60]], language)
        self.write(name, terms, asked)


def queries(folders: Iterable[Path]) -> set[str]:
    """What benches ask, folded."""
    found: set[str] = set()
    for folder in folders:
        for file in folder.rglob("queries.tsv"):
            lines = file.read_text(encoding="utf-8").split("\n")[1:]
            found |= {fold(line.split("\t")[0]) for line in lines if line}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--leave-out", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    maker = Maker(options.work, queries(options.leave_out))
    graph = options.graph
    mondo = names([graph / "mondo" / "concepts_terms.parquet"])
    maker.single_names("single", mondo, 3000, 600)
    drugs = names([graph / "drugcentral" / "concepts_terms.parquet"])
    for size in (12, 34, 100, 300):
        maker.single_names(f"formulary_{size}", drugs, size, max(size, 60))
    for size in (40, 200):
        maker.single_names(f"list_{size}", mondo, size, max(size, 60))
    merged = names([graph / "merged_all" / "core_concepts_terms.parquet"])
    for language in LANGUAGES:
        maker.synonyms(language, merged, language, 1500)
    maker.synonyms("any_language", merged, "en", 5000, LANGUAGES)


if __name__ == "__main__":
    main()
