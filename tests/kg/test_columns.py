"""The graph as arrays: triples, membership, numbers, counts, blocks; and damaged directories."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.arrays import ArrayWriter
from medcoder.artefact import verify
from medcoder.errors import ArtefactError, NotFound
from medcoder.kg import KG, KIND
from medcoder.kg.build import build_kg
from medcoder.kg.columns import Edges
from medcoder.text import FOLD_VERSION
from medcoder.types import CONCEPT_FLAGS
from support.memory import MemorySource
from support.toy import EDGES, TERMS

TRIPLES = {
    (head, relation, tail)
    for head, relation, tail in EDGES
    if head != tail and "C7777777" not in (head, tail)
}


def named(kg, triples):
    return list(
        zip(
            kg.ids(triples.head),
            [kg.relations[number] for number in triples.relation],
            kg.ids(triples.tail),
            strict=True,
        )
    )


# Triples


def test_all_triples_in_order(toy_kg):
    triples = toy_kg.triples()
    assert [column.dtype for column in triples] == [np.int32] * 3
    assert set(named(toy_kg, triples)) == TRIPLES
    rows = list(zip(*(column.tolist() for column in triples), strict=True))
    assert rows == sorted(set(rows))
    assert len(rows) == len(toy_kg.edges) == 14


def test_some_triples(toy_kg):
    rows = named(toy_kg, toy_kg.triples())
    assert named(toy_kg, toy_kg.triples(slice(3, 6))) == rows[3:6]
    assert named(toy_kg, toy_kg.triples(np.array([5, 0, 5]))) == [rows[5], rows[0], rows[5]]
    assert named(toy_kg, toy_kg.triples(slice(0, 0))) == []


# Membership


def test_contains_one(toy_kg):
    found = toy_kg.contains("C0027051", "CHD|isa", "C0018799")
    assert found.shape == ()
    assert found.dtype == bool
    assert found
    assert not toy_kg.contains("C0018799", "CHD|isa", "C0027051")  # the other way round
    assert not toy_kg.contains("C0012634", "RO", "C0012634")


def test_contains_arrays_of_ids_and_numbers(toy_kg):
    heads = ["C0027051", "C0018799", "C0009443"]
    tails = ["C0018799", "C0012634", "C0018799"]
    expected = [True, True, False]
    assert toy_kg.contains(heads, "CHD|isa", tails).tolist() == expected
    assert toy_kg.contains(heads, ["CHD|isa"] * 3, np.array(tails)).tolist() == expected
    numbers = toy_kg.indices(heads), np.array([0, 0, 0]), toy_kg.indices(tails)
    assert toy_kg.contains(*numbers).tolist() == expected
    assert toy_kg.contains(heads, np.uint8(0), numbers[2].astype(np.int32)).tolist() == expected


def test_contains_broadcasts(toy_kg):
    heads = np.array(["C0027051", "C0018799"])[:, None]
    tails = np.array(["C0018787", "C0018799", "C0012634"])
    found = toy_kg.contains(heads, "CHD|isa", tails)
    assert found.tolist() == [[False, True, False], [False, False, True]]
    by_relation = toy_kg.contains("C0027051", np.array(toy_kg.relations), "C0018799")
    assert by_relation.tolist() == [True, False, True, False]
    assert toy_kg.contains(np.empty((0, 1), int), 0, np.arange(3)).shape == (0, 3)
    assert toy_kg.contains([], "RO", []).tolist() == []


def test_contains_what_is_not_there(toy_kg):
    with pytest.raises(NotFound, match="no such concept: 'C7777777'"):
        toy_kg.contains("C7777777", "RO", "C0012634")
    with pytest.raises(NotFound, match="no such relation: 'RB"):
        toy_kg.contains("C0012634", "RB|inverse_isa", "C0018787")


@pytest.mark.parametrize(
    ("head", "relation", "tail", "message"),
    [
        (30, 0, 0, "no concept has this number: 30; there are 30"),
        (0, 0, np.array([[3, 1 << 5]]), "no concept has this number: 32"),
        (np.array([1, -1]), 0, 0, "no concept has this number: -1"),
        (0, 4, 0, "no relation has this number: 4; there are 4"),
        (0, -2, 0, "no relation has this number: -2"),
    ],
)
def test_a_number_out_of_range_does_not_pass_for_another_edge(
    toy_kg, head, relation, tail, message
):
    with pytest.raises(NotFound, match=message):
        toy_kg.contains(head, relation, tail)


concepts = st.integers(0, 29)
questions = st.lists(st.tuples(concepts, st.integers(0, 3), concepts))


@given(questions=questions, known=st.lists(st.integers(0, 13)))
def test_contains_equals_a_set(toy_kg, questions, known):
    rows = list(zip(*(column.tolist() for column in toy_kg.triples()), strict=True))
    questions = questions + [rows[place] for place in known]
    columns = np.array(questions, np.int64).reshape(-1, 3).T
    assert toy_kg.contains(*columns).tolist() == [row in set(rows) for row in questions]
    assert toy_kg.contains(*columns.reshape(3, -1, 1)).shape == (len(questions), 1)
    ids = [toy_kg.ids(columns[0]), np.array(toy_kg.relations)[columns[1]], toy_kg.ids(columns[2])]
    assert toy_kg.contains(*ids).tolist() == [row in set(rows) for row in questions]


def test_edges_that_use_all_64_bits(tmp_path):
    """A power of two of concepts, so that the last one's keys end where the numbers do."""
    last = (1 << 24) - 1
    rows = [(0, 0, 0), (5, 7, last), (last, 0, 3), (last, (1 << 16) - 1, last)]
    keys = np.array([head << 40 | label << 24 | tail for head, label, tail in rows], np.uint64)
    for name, dtype, block in [
        ("edge", "uint64", keys),
        ("edge.in", "uint32", np.array([0, 2, 1, 3])),
        ("concept.in", "int64", np.array([0, 1, 1, 1, 2])),
    ]:
        with ArrayWriter(tmp_path, name, dtype) as file:
            file.append(block)
    edges = Edges(tmp_path, concept_bits=24, relation_bits=16)
    assert edges.outgoing(last).tolist() == keys[2:].tolist()
    assert edges.outgoing(5).tolist() == keys[1:2].tolist()
    assert edges.outgoing(6).tolist() == []
    assert edges.incoming(3).tolist() == keys[2:3].tolist()
    assert edges.contains(*np.array(rows, np.int64).T).all()
    assert [column.tolist() for column in edges.triples(keys)] == np.array(rows).T.tolist()


# Numbers


def test_ids_and_numbers_go_both_ways(toy_kg):
    ids = list(toy_kg)
    numbers = toy_kg.indices(ids)
    assert numbers.tolist() == list(range(30))
    assert toy_kg.ids(numbers) == ids
    assert toy_kg.indices(["C0027051", "C0000001", "C0027051"]).tolist() == [17, 0, 17]
    assert toy_kg.ids([[1, 0], [2, 2]]) == ["C0000002", "C0000001", "C0000003", "C0000003"]
    assert toy_kg.indices([]).tolist() == toy_kg.ids([]) == []
    assert [toy_kg.index(concept) for concept in ids] == numbers.tolist()


def test_an_unknown_id_among_known_ones(toy_kg):
    for other in ("C7777777", "", "\udcff"):
        with pytest.raises(NotFound, match="no such concept"):
            toy_kg.indices(["C0027051", other])


# Counts


def test_stats_equal_a_recount(toy_kg):
    stats = toy_kg.stats()
    terms = [term for concept in toy_kg for term in toy_kg.terms_of(concept)]
    types = Counter(f"{t.id} {t.name}" for c in toy_kg for t in toy_kg.types_of(c))
    assert stats == {
        "concepts": 30,
        "terms": 51,
        "edges": 14,
        "languages": Counter(term.language for term in terms),
        "vocabularies": Counter(term.vocabulary for term in terms),
        "kinds": Counter(term.kind for term in terms),
        "types": types,
        "relations": Counter(relation for _, relation, _ in TRIPLES),
        "flags": dict.fromkeys(CONCEPT_FLAGS, 0)
        | Counter(flag for concept in toy_kg for flag in toy_kg.flags_of(concept)),
    }
    assert stats["languages"] == {
        "en": 35, "fr": 6, "es": 4, "de": 2, "el": 1, "ja": 1, "ko": 1, "zh": 1
    }  # fmt: skip
    assert list(stats["vocabularies"]) == ["MSH", "SNOMEDCT_US", "HP", "ICD10CM"]  # most first


# Terms as arrays


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_blocks_give_all_texts(toy_kg, size):
    found = []
    for numbers, texts in toy_kg.terms.blocks(size):
        assert len(numbers) == len(texts) > 0
        found += zip(toy_kg.ids(numbers), texts.to_pylist(), strict=True)
    assert found == [(c, term.text) for c in toy_kg for term in toy_kg.terms_of(c)]
    assert sorted(found) == sorted((row[0], row[1]) for row in TERMS)


def test_places_of_terms(toy_kg):
    terms = toy_kg.terms
    assert len(terms) == terms.first[-1] == len(terms.info) == 51
    for number, concept in enumerate(toy_kg):
        rows = list(terms.of(number))
        first = int(terms.first[number])
        assert int(terms.first[number + 1]) - first == len(rows)
        assert [terms.text(first + place) for place in range(len(rows))] == [r[0] for r in rows]
        assert terms.info[first : first + len(rows)].tolist() == [list(r[2:]) for r in rows]
        assert terms.preferred(number) == rows[0][0] == toy_kg.preferred(concept)


def test_a_graph_of_one_concept_without_edges(tmp_path):
    terms = [("X", "", "en", "S", "", "", 0)]
    build_kg([MemorySource(terms=terms)], tmp_path / "kg", any_names=["all"])
    kg = KG.open(tmp_path / "kg")
    assert (list(kg), len(kg.edges), kg.relations) == (["X"], 0, ())
    assert kg.preferred("X") == ""
    assert kg.neighbours("X") == []
    assert kg.triples().head.tolist() == []
    assert kg.find("") == ["X"]
    assert kg.contains([], [], []).tolist() == []
    assert [texts.to_pylist() for _, texts in kg.terms.blocks()] == [[""]]
    assert kg.stats()["relations"] == {}


# Damage


@pytest.fixture
def copy(toy_path, tmp_path):
    return shutil.copytree(toy_path, tmp_path / "copy")


def test_a_copy_is_as_good(copy, toy_kg):
    kg = KG.open(copy)
    assert kg.fingerprint == toy_kg.fingerprint
    assert list(kg) == list(toy_kg)
    verify(copy, kind=KIND)


def test_every_file_is_missed_and_every_cut_seen(copy):
    files = sorted(path for path in copy.iterdir() if path.name != "meta.json")
    assert len(files) > 15
    for path in files:
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(
            ArtefactError, match=f"{path.name}: the knowledge graph is damaged: it is missing"
        ):
            KG.open(copy)
        path.write_bytes(data + b"x")
        with pytest.raises(ArtefactError, match=f"{path.name}: .* bytes, not"):
            KG.open(copy)
        path.write_bytes(data)
    KG.open(copy)


def test_a_later_format(copy):
    meta = json.loads((copy / "meta.json").read_text())
    (copy / "meta.json").write_text(json.dumps(meta | {"version": 999}))
    with pytest.raises(ArtefactError, match="has format 999, this medcoder reads format 1"):
        KG.open(copy)


def test_a_graph_of_another_fold(copy, toy_kg):
    assert toy_kg.meta["fold"] == FOLD_VERSION
    meta = json.loads((copy / "meta.json").read_text())
    del meta["fold"], meta["seal"]  # as the first format was written
    (copy / "meta.json").write_text(json.dumps(meta))
    assert KG.open(copy).find("fever") == toy_kg.find("fever")
    (copy / "meta.json").write_text(json.dumps(meta | {"fold": FOLD_VERSION + 1}))
    with pytest.raises(ArtefactError, match=r"look-up keys .* Build it again with: medcoder kg"):
        KG.open(copy)


def test_a_flipped_byte_is_found_by_verify(copy):
    path = copy / "term.data"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtefactError, match=r"term\.data: it was changed or damaged"):
        verify(copy, kind=KIND)
