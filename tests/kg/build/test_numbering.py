"""Numbers for hashes, labels and concept ids, against dictionaries."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.errors import InputError, MedcoderError
from medcoder.kg.build import numbering as module
from medcoder.kg.build.numbering import ABSENT, ConceptIds, HashTable, Names

# Hashes that share their high bits crowd into one slot of the first level, those that share the
# next bits too into one of the second, and so on: each level must pass them on.
crowded = st.builds(
    lambda high, low: high << 40 | low, st.integers(0, 3), st.integers(0, 300)
) | st.integers(0, 300)
hashes = crowded | st.integers(0, 2**64 - 1)


def check(known, wanted):
    table = HashTable(np.array(known, np.uint64))
    expected = {hashed: number for number, hashed in enumerate(known)}
    found = table.find(np.array(wanted, np.uint64))
    assert found.tolist() == [expected.get(hashed, ABSENT) for hashed in wanted]


@given(st.lists(hashes, unique=True), st.lists(hashes))
def test_every_hash_has_its_number_and_no_other_has_one(known, others):
    check(known, [*others, *known, *reversed(known)])


@pytest.mark.parametrize("shift", [0, 1, 20, 40, 54])
def test_a_thousand_hashes_in_a_few_bits(shift):
    known = [number << shift for number in range(1000)]
    check(known, [*known, *(hashed + 1 for hashed in known), 2**64 - 1])


def test_in_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 3)
    check([10, 20, 30], [10, 11, 20, 30, 0, 30, 10])


def test_none_at_all():
    check([], [0, 1, 2**64 - 1])
    check([5], [])
    check([0], [0, 1])


@given(st.lists(st.lists(st.text(max_size=3))))
def test_labels_are_numbered_as_they_appear(columns):
    names = Names("labels")
    expected = {}
    for column in columns:
        found = names.encode(pl.Series("label", column, dtype=pl.String))
        assert found.dtype == pl.UInt16
        assert found.name == "label"
        assert found.to_list() == [expected.setdefault(label, len(expected)) for label in column]
    assert names.labels == list(expected)
    for label in ["", "new label"]:
        assert names.number(label) == expected.setdefault(label, len(expected))
    assert names.labels == list(expected)


def test_labels_named_one_by_one_are_known_to_columns():
    names = Names("labels")
    assert names.number("b") == 0
    assert names.encode(pl.Series(["a", "b", "a"])).to_list() == [1, 0, 1]
    assert names.labels == ["b", "a"]


def test_too_many_labels():
    names = Names("colours", limit=2)
    assert names.encode(pl.Series(["red", "blue", "red"])).to_list() == [0, 1, 0]
    with pytest.raises(MedcoderError, match="more than 2 colours"):
        names.encode(pl.Series(["green"]))


ids = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=3)


@given(st.lists(st.lists(ids)), st.lists(ids))
def test_ids_are_numbered_in_order(columns, others):
    concepts = ConceptIds()
    ordinal = {}
    for source, column in enumerate(columns):
        concepts.add(pl.Series("concept", column, dtype=pl.String), source)
        ordinal |= {id: source for id in column if id not in ordinal}
    concepts.finish()
    known = sorted(ordinal)
    assert concepts.ids.to_list() == known
    assert concepts.ordinal.tolist() == [ordinal[id] for id in known]
    wanted = [*others, *known]
    expected = {id: number for number, id in enumerate(known)}
    found = concepts.lookup(pl.Series(wanted, dtype=pl.String))
    assert found.tolist() == [expected.get(id, ABSENT) for id in wanted]


def test_ids_are_made_distinct_now_and_then(monkeypatch):
    monkeypatch.setattr(module, "_WAITING", 3)
    concepts = ConceptIds()
    held = []
    for source, column in enumerate([["b", "a"], ["c", "b"], ["a", "d"], ["b"], ["b"]]):
        concepts.add(pl.Series(column), source)
        held.append(len(concepts._seen))
    assert held == [1, 1, 2, 3, 1]
    concepts.finish()
    assert concepts.ids.to_list() == ["a", "b", "c", "d"]
    assert concepts.ordinal.tolist() == [0, 0, 1, 2]


def test_an_id_with_a_line_break():
    concepts = ConceptIds()
    concepts.add(pl.Series(["fine", "not\nfine"]), 0)
    with pytest.raises(InputError, match=r"concept id has a line break: 'not\\nfine'"):
        concepts.finish()


def test_two_ids_with_one_hash_lead_to_another_hash(monkeypatch):
    real = pl.Series.hash

    def colliding(self, seed=0, *rest):
        hashed = real(self, seed, *rest)
        return hashed * 0 if seed == 0 else hashed

    monkeypatch.setattr(pl.Series, "hash", colliding)
    concepts = ConceptIds()
    concepts.add(pl.Series(["a", "b"]), 0)
    concepts.finish()
    assert concepts.lookup(pl.Series(["b", "x", "a"])).tolist() == [1, ABSENT, 0]
    monkeypatch.setattr(pl.Series, "hash", lambda self, *seed: real(self) * 0)
    again = ConceptIds()
    again.add(pl.Series(["a", "b"]), 0)
    with pytest.raises(MedcoderError, match="sixteen seeds"):
        again.finish()
