"""The table of stages, and a stage that somebody else adds to it."""

import sys
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest

from medcoder import Normalizer
from medcoder.errors import UsageError
from medcoder.normalize.batch import Pairs, united
from medcoder.normalize.build import build
from medcoder.normalize.stages import (
    STAGES,
    Hits,
    calibration_name,
    load_stage,
    stage_sets,
)

SHORT = {"qq cold": "cold"}  # a query, and the term that it stands for


class Shorthand:
    """A stage from outside: what it finds is settled."""

    name: ClassVar = "shorthand"
    label: ClassVar = "as shorthand"
    justification: ClassVar = "semapv:LexicalMatching"
    measure: ClassVar = None
    similarity: ClassVar = None

    def __init__(self, searched):
        self._kg = searched.kg

    def find(self, batch):
        terms = [dict(self._kg.find_terms(SHORT.get(text, ""))) for text in batch.texts]
        return Hits(terms, [place for place, some in enumerate(terms) if some])


class Sounds:
    """A second stage that measures letters: it knows the sound of a single query."""

    name: ClassVar = "sound"
    label: ClassVar = "by its sound"
    justification: ClassVar = "semapv:LexicalSimilarityThresholdMatching"
    measure: ClassVar = "similarity"

    def __init__(self, searched):
        [(_, term), *_] = searched.kg.find_terms("cold")
        self._row = int(searched.vectors.term_row[term])

    def find(self, batch):
        queries = [position for position, text in enumerate(batch.texts) if text == "qoeldt"]
        rows = np.full(len(queries), self._row, np.int64)
        return Pairs(np.array(queries, np.int64), rows, np.full(len(queries), 0.99))


@pytest.fixture
def added(monkeypatch, entered):
    """One file and one line in the table."""
    file = ModuleType("somebodys_stage")
    file.Shorthand, file.Sounds = Shorthand, Sounds
    monkeypatch.setitem(sys.modules, "somebodys_stage", file)
    entered(STAGES, "shorthand", "somebodys_stage:Shorthand")


class Counting:
    """An encoder that remembers what it was asked."""

    def __init__(self, encoder):
        self._encoder, self.asked = encoder, []
        self.width, self.fingerprint = encoder.width, encoder.fingerprint

    def encode(self, texts):
        self.asked += texts
        return self._encoder.encode(texts)


@pytest.fixture
def normalizer(many_index):
    found = Normalizer.load(many_index)
    found._encoder = Counting(found.encoder)
    return found


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_says_what_it_is(name):
    stage = load_stage(name)
    assert stage.name == name
    assert stage.label and stage.justification.startswith("semapv:")
    assert stage.measure in (None, "cosine", "similarity")


def test_calibrations_are_named_by_what_is_measured():
    assert list(STAGES) == ["code", "exact", "abbreviation", "slip", "dense", "ngram"]
    assert calibration_name(STAGES) == calibration_name(["ngram", "dense"]) == "dense+ngram"
    assert calibration_name(["exact"]) == "exact"
    assert calibration_name(["exact", "ngram"]) == "ngram"


def test_every_set_of_stages_that_measure_has_a_calibration():
    certain = ("code", "exact", "abbreviation", "slip")
    assert stage_sets() == [
        (*certain, "dense", "ngram"), (*certain, "dense"), (*certain, "ngram"), certain,
    ]  # fmt: skip


def test_pairs_of_several_stages_count_once_by_their_best_value():
    def pairs(*rows):
        query, row, value = zip(*rows, strict=True)
        return Pairs(np.array(query), np.array(row), np.array(value))

    first = pairs((0, 5, 0.9), (0, 7, 0.5), (2, 7, 0.5))
    second = pairs((0, 7, 0.8), (0, 5, 0.9), (1, 5, 0.4))
    together, stage = united([first, second])
    assert together.query.tolist() == [0, 0, 1, 2]
    assert together.row.tolist() == [5, 7, 5, 7]
    assert together.value.tolist() == [0.9, 0.8, 0.4, 0.5]
    assert stage.tolist() == [0, 1, 1, 0]


def test_two_stages_of_one_measure_both_count(added, monkeypatch, many_kg, bag, tmp_path):
    monkeypatch.setitem(STAGES._entries, "sound", "somebodys_stage:Sounds")
    build(many_kg, bag, tmp_path / "sound.index")
    normalizer = Normalizer.load(tmp_path / "sound.index")
    heard = normalizer.normalize("qoeldt", stages=["ngram", "sound"], threshold=0)[0]
    assert (heard.stage, heard.term.lower(), heard.similarity) == ("sound", "cold", 0.99)
    read = normalizer.normalize("colld", stages=["ngram", "sound"], threshold=0)[0]
    assert (read.stage, read.term.lower()) == ("ngram", "cold")
    assert normalizer.normalize("qoeldt", threshold=0)
    assert set(normalizer._calibrations) == {calibration_name(some) for some in stage_sets()}


def test_a_query_that_only_asks_for_its_exact_hit_is_not_encoded(normalizer):
    [match] = normalizer.normalize("cold", stages=["exact"], threshold=0)[:1]
    assert (match.stage, match.cosine) == ("exact", None)
    assert normalizer.encoder.asked == []


def test_a_query_is_settled_whichever_stage_hit_first(added, normalizer, monkeypatch):
    monkeypatch.setitem(SHORT, "cold", "cold")  # which is also an exact hit
    [match, *_] = answer = normalizer.normalize("cold", threshold=0)
    assert (match.stage, match.cosine) == ("exact", None)
    assert "cold" not in normalizer.encoder.asked
    sure = normalizer.calibration(["exact"])
    assert normalizer.normalize("cold").threshold == sure.threshold
    assert answer.confidence == match.confidence


def test_a_stage_from_outside_settles_queries(added, normalizer):
    settled, other = normalizer.normalize_many(["qq cold", "qq colds"], threshold=0)
    assert {match.stage for match in settled} == {"shorthand"}
    assert settled[0].term.lower() == "cold"
    assert (settled[0].score, settled[0].cosine, settled[0].similarity) == (1.0, None, None)
    assert "shorthand" not in {match.stage for match in other}
    assert "qq cold" not in normalizer.encoder.asked
    calibration = normalizer.calibration(["exact"])
    assert normalizer.normalize("qq cold").threshold == calibration.threshold


def test_a_stage_from_outside_leaves_the_other_queries_alone(normalizer, request):
    queries = ["cold", "hart atack", "fever", "colld", "zzz"]
    before = list(normalizer.normalize_many(queries))
    request.getfixturevalue("added")
    assert list(normalizer.normalize_many(["qq cold", *queries]))[1:] == before


def test_a_stage_from_outside_is_asked_for_by_name(added, normalizer):
    assert normalizer.normalize("qq cold", stages=["shorthand"], threshold=0)
    assert not normalizer.normalize("qq cold", stages=["exact"], threshold=0)
    with pytest.raises(
        UsageError, match="code, exact, abbreviation, slip, dense, ngram, shorthand"
    ):
        normalizer.normalize("qq cold", stages=["short"])
