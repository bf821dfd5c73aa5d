"""Strings whose meaning is known, asked and judged: what `calibration.py` measures by."""

from __future__ import annotations

import csv
import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from map_precision import is_right
from medcoder import KG, Normalizer, build_kg, load_encoder, open_source
from medcoder.bundled.models import MODEL, bundled_calibration
from medcoder.evaluate.benches.linking import ids_of, read_queries
from medcoder.mapping.lookup import _shared  # what `medcoder map` does with namesakes
from medcoder.normalize.build import VERSION, build
from medcoder.types import Answer, Match, ReadOptions
from medcoder.vectors import Vectors
from medcoder.vectors.embed import embed
from ward import LANGUAGES, VOCABULARY, judged, read

Array = npt.NDArray[Any]
SETS = {"bc5cdr_d_biosyn": "BC5CDR", "hpo_gsc": "hpo_gsc", "cadec": "Cadec"}
NAMES = {"en": "English", "de": "German", "es": "Spanish", "fr": "French", "nl": "Dutch"}
ROOT = Path(__file__).resolve().parent.parent
CATEGORY = 3  # characters of a code


class Judged(NamedTuple):
    """Strings of a set: of each the confidence of its best candidate, and what became of it."""

    confidence: Array
    right: Array
    answered: Array
    said: Array  # refused, and not for its confidence
    trusted: Array  # may be mapped unseen
    mapped: Array  # confidence as a project has it

    def of(self, rows: Array) -> Judged:
        return Judged(*(column[rows] for column in self))


class Set(NamedTuple):
    name: str
    judged: Judged
    part: bool = False  # of the set before


# Asking


def ask(
    normalizer: Normalizer, texts: Sequence[str], *, split: bool, **options: Any
) -> list[Answer]:
    if split and "split" in Normalizer.normalize_many.__annotations__:  # no version before had it
        options["split"] = True
    return list(normalizer.normalize_many(texts, **options))


def parts_of(answer: Answer) -> Sequence[Answer]:
    return getattr(answer, "parts", ()) or (answer,)


def each_right(answer: Answer, right: Callable[[Match], bool]) -> bool:
    """Whether the best candidate of each part is right."""
    return all(bool(part.candidates) and right(part.candidates[0]) for part in parts_of(answer))


def collected(answers: Iterable[Answer], right: Iterable[bool]) -> Judged:
    rows = []
    for answer, is_so in zip(answers, right, strict=True):
        bests = [part.candidates[0] for part in parts_of(answer) if part.candidates]
        confidence = min((best.confidence for best in bests), default=0.0)
        answered = bool(answer.matches)
        said = not answered and bool(bests) and confidence >= answer.threshold
        rows.append((confidence, is_so, answered, said, *as_mapped(answer)))
    kinds = (float, bool, bool, bool, bool, float)
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return Judged(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def as_mapped(answer: Answer) -> tuple[bool, float]:
    """Whether a project may map a string unseen, and with what confidence."""
    shared = _shared(answer, answer.confidence)
    if not getattr(shared, "parts", ()):
        trusted = bool(shared.matches) and not getattr(shared, "review", "")
        return trusted, shared.confidence
    from medcoder.mapping.kept import kept

    some = kept(shared)
    return some.answered and not some.review, some.confidence


# Sets


def ward(normalizer: Normalizer, part: str) -> Iterator[Set]:
    found = {}
    for language in LANGUAGES:
        wards = read(ROOT / "data/eval" / part / "ward" / f"{language}.tsv")
        answers = ask(
            normalizer, [one.text for one in wards], split=True, vocabularies=[VOCABULARY]
        )
        verdicts = (judged(one, answer) for one, answer in zip(wards, answers, strict=True))
        found[language] = collected(answers, [verdict.first for verdict in verdicts])
    both = [np.concatenate(columns) for columns in zip(*found.values(), strict=True)]
    yield Set("ward strings", Judged(*both))
    for language, some in found.items():
        yield Set(NAMES[language], some, part=True)


def phrases(normalizer: Normalizer, part: str, codes: Path) -> Iterator[Set]:
    meant = ids_of_concepts(normalizer.kg, codes)
    for kind in ("lay", "chart"):
        asked: list[tuple[str, set[str]]] = []
        out = 0
        for file in sorted((ROOT / "data/eval" / part / "phrases").glob("*.tsv")):
            for one in table_of(file):
                if one.get(kind):
                    ids = meant(one["concept"])
                    asked += [(one[kind], ids)] if ids else []
                    out += not ids
        sys.stderr.write(f"{kind} phrases: {out:,} of concepts that the graph lacks are out\n")
        yield Set(f"{kind} phrases", of_concepts(normalizer, asked))


def of_concepts(normalizer: Normalizer, asked: Sequence[tuple[str, set[str]]]) -> Judged:
    """Strings that stand for one concept each, by any of its ids: asked whole."""
    answers = ask(normalizer, [text for text, _ in asked], split=False)
    right = [
        each_right(answer, lambda best, ids=ids: bool(ids & all_ids(best)))  # type: ignore[misc]
        for answer, (_, ids) in zip(answers, asked, strict=True)
    ]
    return collected(answers, right)


def all_ids(match: Match) -> set[str]:
    """Of a match and of the same thing in other vocabularies; a concept may have several."""
    concepts = (match.concept, *getattr(match, "twins", ()))
    return {some for concept in concepts for some in (concept, *ids_of(concept))}


def ids_of_concepts(kg: KG, codes: Path) -> Callable[[str], set[str]]:
    """The ids in a graph of what a concept is, by its own id and what else it is called."""
    others: defaultdict[str, list[str]] = defaultdict(list)
    for line in codes.read_text(encoding="utf-8").split("\n")[1:]:
        concept, *called = line.split("\t")
        others[concept] += filter(None, called)

    def ids(concept: str) -> set[str]:
        found = set()
        for some in (concept, *others[concept]):
            found |= {some} if some in kg else set()
            vocabulary, _, code = some.partition(":")
            found |= set(kg.find_code(vocabulary, code)) if code else set()
        return found

    return ids


def table_of(file: Path) -> Iterator[dict[str, str]]:
    header, *lines = file.read_text(encoding="utf-8").split("\n")
    for line in filter(None, lines):
        yield dict(zip(header.split("\t"), line.split("\t"), strict=False))


def dictionary(folder: Path, work: Path) -> Set:
    queries = read_queries(folder / "queries.tsv")
    asked = dict.fromkeys((query.text, query.ids) for query in queries)
    normalizer = dictionary_index(folder, work)
    return Set(SETS[folder.name], of_concepts(normalizer, [(text, {*ids}) for text, ids in asked]))


def dictionary_index(folder: Path, work: Path) -> Normalizer:
    """An index of the dictionary of a set with the bundled weights; its vectors are made once."""
    encoder: Any = load_encoder(MODEL)
    weights = bundled_calibration(encoder.fingerprint)
    assert weights is not None
    content = (folder / "dictionary.tsv").read_bytes()
    stem = f"{folder.name}-{digest(content, encoder.fingerprint.encode())}"
    graph, vectors = work / f"{stem}.kg", work / f"{stem}.vectors"
    made_of = digest(weights.read_bytes(), str(VERSION).encode())
    path = work / f"{stem}-{made_of}.index"
    if not path.exists():
        table = work / f"{stem}.tsv"
        table.write_bytes(content)
        if not graph.exists():
            columns = ReadOptions(columns=(("concept", "concept_id"), ("language", "lang")))
            build_kg([open_source(f"table={table}", columns)], graph, any_names=["all"])
        kg = KG.open(graph)
        if not vectors.exists():
            embed(kg, encoder, vectors)
        build(kg, encoder, path, vectors=Vectors.open(vectors), calibration=weights)
        table.unlink()
    return Normalizer.load(path)


def digest(*contents: bytes) -> str:
    whole = hashlib.sha256()
    for content in contents:
        whole.update(content)
    return whole.hexdigest()[:8]


def titles(normalizer: Normalizer, file: Path) -> Set:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    answers = ask(normalizer, [one["title"] for one in rows], split=True, vocabularies=[VOCABULARY])
    right = [
        each_right(
            answer,
            lambda best, code=one["code"]: is_right(best.codes, code, VOCABULARY, CATEGORY),  # type: ignore[misc]
        )
        for answer, one in zip(answers, rows, strict=True)
    ]
    return Set("German titles", collected(answers, right))
