"""From rows to a graph and back: any rows, any memory, any order."""

import contextlib
import re
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder import artefact
from medcoder.kg import KG
from medcoder.kg.build import build_kg as build_graph
from medcoder.kg.keys import code_key
from medcoder.text import fold
from medcoder.types import CONCEPT_FLAGS, Code, Edge, SemanticType, Term
from support.memory import MemorySource
from support.scarcity import scarcity
from support.toy import toy_source

# Few distinct values, so that rows meet: the same term under several concepts, in other cases and
# vocabularies, twice; and now and then anything at all.
concepts = st.sampled_from(["C1", "C10", "é", ""])
texts = st.sampled_from(["cold", "Cold", "côld", "NA", "", "a\nb", "a b", "x\u2028y\u0085z", "が"])
texts |= st.text(max_size=4)
languages = st.sampled_from(["en", "fr", "en-gb", ""])
sources = st.sampled_from(["HP", "HPO", "ICD10CM", "SNOMEDCT_US", ""])
codes = st.sampled_from(["1", "HP:1", "R51.9", "R519", "", "a\nb", " 1", "ß"]) | st.text(max_size=3)
kinds = st.sampled_from(["PT", "SY", ""])
ranks = st.sampled_from([0, 1, -1, 2**21 - 1, 2**21, -(2**31), 2**31 - 1])
relations = st.sampled_from(["isa", "RO|x", "", "é"])
anyone = concepts | st.just("absent")


@st.composite
def rows(draw):
    def some(*columns, least=0):
        return draw(st.lists(st.tuples(*columns), min_size=least, max_size=12))

    return {
        "terms": some(concepts, texts, languages, sources, codes, kinds, ranks, least=1),
        "types": some(anyone, st.sampled_from(["T1", "T2", "T3"]), st.sampled_from(["a", "b"])),
        "xrefs": some(anyone, sources, codes, st.sampled_from(["alt", "xref"])),
        "flags": some(anyone, st.sampled_from(CONCEPT_FLAGS)),
        "edges": some(anyone, relations, anyone),
    }


class Expected:
    """What the graph of these rows must hold, worked out the plain way."""

    def __init__(self, rows):
        self.concepts = sorted({row[0] for row in rows["terms"]})
        self.source_order = first_seen(r[3] for r in rows["terms"])
        self.source_order = first_seen([*self.source_order, *(r[1] for r in rows["xrefs"])])
        self.kind_order = first_seen(row[5] for row in rows["terms"])
        self.type_order = first_seen(row[1] for row in rows["types"])
        names = {kind: name for _, kind, name in reversed(rows["types"])}
        self.terms = {concept: self._terms(concept, rows["terms"]) for concept in self.concepts}
        self.types = {
            concept: [
                SemanticType(kind, names[kind])
                for kind in self.type_order
                if any(row[:2] == (concept, kind) for row in rows["types"])
            ]
            for concept in self.concepts
        }
        self.flags = {
            concept: [
                flag
                for flag in CONCEPT_FLAGS
                if (concept, flag) in rows["flags"]
                or (flag == "heading" and self._heads(concept, rows["terms"]))
            ]
            for concept in self.concepts
        }
        self.alts = {concept: self._xrefs(concept, "alt", rows) for concept in self.concepts}
        self.xrefs = {concept: self._xrefs(concept, "xref", rows) for concept in self.concepts}
        self.edges = {
            Edge(*row)
            for row in rows["edges"]
            if row[0] != row[2] and {row[0], row[2]} <= set(self.concepts)
        }

    def _heads(self, concept, rows):
        """Whether all its codes are blocks or chapters of an ICD."""
        codes = [
            code_key(row[3], one_line(row[4])).split("\x1f", 1) for row in rows if row[0] == concept
        ]
        return all("ICD" in name and heads(code) for name, code in codes)

    def _terms(self, concept, rows):
        def order(row):
            _, text, language, source, code, kind, rank = row
            foreign = language.partition("-")[0] != "en"
            rank = min(max(rank, -(2**21)), 2**21 - 1)
            place, last = self.source_order.index(source), self.kind_order.index(kind)
            return foreign, language, rank, text, place, code, last

        own = [
            (concept, one_line(text), language, source, one_line(code), kind, rank)
            for id, text, language, source, code, kind, rank in rows
            if id == concept
        ]
        kept = {}
        for row in sorted(own, key=order):
            kept.setdefault(row[1:5], Term(*row[1:6]))
        return list(kept.values())

    def _xrefs(self, concept, kind, rows):
        found = {Code(*row[1:3]) for row in rows["xrefs"] if row[::3] == (concept, kind)}
        return sorted(found, key=lambda code: (self.source_order.index(code[0]), code[1]))

    def find(self, text):
        key = fold(text)
        places = {
            concept: [fold(term.text) for term in terms].index(key)
            for concept, terms in self.terms.items()
            if key in [fold(term.text) for term in terms]
        }
        return sorted(places, key=lambda concept: (places[concept] > 0, concept))

    def codes(self, concept):
        return first_seen([*(Code(*t[2:4]) for t in self.terms[concept]), *self.alts[concept]])


def heads(code):
    return 0 < len(code) < 3 or re.search(r"^[A-Z0-9]+-[A-Z0-9]+$", code) is not None


def first_seen(items):
    return list(dict.fromkeys(items))


def one_line(text):
    return text.replace("\n", " ")


@contextlib.contextmanager
def plenty():
    yield {}


def build(path, rows, *, memory=plenty, chunk=1000, **options):
    source = MemorySource(**rows, chunk=chunk)
    with memory() as setting, pytest.MonkeyPatch.context() as patch:
        patch.setattr(artefact, "sync", lambda _: None)  # a hundred builds: spare the disk
        report = build_graph([source], path, any_names=["all"], **setting, **options)
    return KG.open(path), report


def check(kg, expected):
    assert list(kg) == expected.concepts
    for concept in expected.concepts:
        assert kg.terms_of(concept) == expected.terms[concept]
        assert kg.preferred(concept) == expected.terms[concept][0].text
        assert kg.types_of(concept) == expected.types[concept]
        assert kg.flags_of(concept) == expected.flags[concept]
        assert kg.xrefs_of(concept) == expected.xrefs[concept]
        assert kg.codes_of(concept) == expected.codes(concept)
    assert {edge for concept in kg for edge in kg.neighbours(concept)} == expected.edges
    assert {e for c in kg for e in kg.neighbours(c, direction="in")} == expected.edges
    assert len(kg.edges) == len(expected.edges)
    for text in {term.text for terms in expected.terms.values() for term in terms}:
        assert kg.find(text) == expected.find(text)
    codes = {concept: expected.codes(concept) for concept in expected.concepts}
    for code in {code for own in codes.values() for code in own}:
        key = code_key(*code)
        bearers = [c for c, own in codes.items() if key in {code_key(*other) for other in own}]
        assert kg.find_code(*code) == bearers


def check_report(report, rows, expected):
    graph = report["graph"]
    for part, given_rows in rows.items():
        count = graph.get(part, {"read": 0, "kept": 0, "left_out": {}})
        assert count["read"] == len(given_rows)
        assert count["read"] == count["kept"] + sum(count["left_out"].values())
    known = set(expected.concepts)
    assert graph["terms"]["kept"] == sum(map(len, expected.terms.values()))
    absent = sum(not {row[0], row[2]} <= known for row in rows["edges"])
    loops = sum(row[0] == row[2] and row[0] in known for row in rows["edges"])
    repeats = len(rows["edges"]) - absent - loops - len(expected.edges)
    left_out = {"absent concept": absent, "concept to itself": loops, "duplicate": repeats}
    assert graph["edges"]["left_out"] == {k: n for k, n in left_out.items() if n}


@settings(max_examples=40)
@given(rows=rows(), chunk=st.sampled_from([1, 3, 1000]), in_order=st.booleans())
def test_any_rows_come_back(tmp_path_factory, rows, chunk, in_order):
    if in_order:
        rows["terms"].sort(key=lambda row: row[0])
        rows["xrefs"].sort(key=lambda row: row[0])
    folder = tmp_path_factory.mktemp("any")
    expected = Expected(rows)
    large, report = build(folder / "large", rows, chunk=chunk)
    check(large, expected)
    check_report(report, rows, expected)
    # However little memory there is, the graph is the same to the last byte.
    small, _ = build(folder / "small", rows, chunk=chunk, memory=scarcity)
    assert small.fingerprint == large.fingerprint


@settings(max_examples=12)
@given(rows=rows(), random=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_labels_at_most(tmp_path_factory, rows, random):
    folder = tmp_path_factory.mktemp("order")
    one, report = build(folder / "one", rows)
    shuffled = {part: random.sample(some, len(some)) for part, some in rows.items()}
    two, again = build(folder / "two", shuffled, chunk=2, memory=scarcity)
    assert again == report | {"files": again["files"]}
    assert list(two) == list(one)
    for concept in one:
        assert {t[:4] for t in two.terms_of(concept)} == {t[:4] for t in one.terms_of(concept)}
        for method in ("types_of", "codes_of", "xrefs_of", "neighbours"):
            same = [set(ids_only(getattr(kg, method)(concept))) for kg in (one, two)]
            assert same[0] == same[1]
        assert two.flags_of(concept) == one.flags_of(concept)


def ids_only(found):
    """Types without their names: of several names, the first to come stays."""
    return [entry.id if isinstance(entry, SemanticType) else entry for entry in found]


def test_the_same_build_twice_has_the_same_fingerprint(tmp_path, toy_kg):
    build_graph([toy_source()], tmp_path / "again")
    assert KG.open(tmp_path / "again").fingerprint == toy_kg.fingerprint
    build_graph([toy_source(edges=[])], tmp_path / "other")
    assert KG.open(tmp_path / "other").fingerprint != toy_kg.fingerprint


@pytest.mark.parametrize("chunk", [1, 4, 50])
def test_the_toy_in_little_memory(tmp_path, toy_kg, chunk):
    with scarcity() as setting:
        build_graph([toy_source(chunk=chunk)], tmp_path / "kg", **setting)
    assert KG.open(tmp_path / "kg").fingerprint == toy_kg.fingerprint


def test_thousands_of_rows_in_little_memory(tmp_path, monkeypatch):
    """Large enough for many ranges and runs without help: 64 MB becomes a thousand bytes."""
    monkeypatch.setattr(import_module("medcoder.kg.build"), "LEAST_MEMORY", 0)
    count = 800
    spread = [7919 * number % count for number in range(count)]  # each once, far from in order
    rows = {
        "terms": [(f"C{n % 100:04}", f"term {n}", "en", "S", str(n), "PT", n) for n in spread],
        "xrefs": [(f"C{n % 100:04}", "X", str(n), "xref") for n in spread],
        "edges": [(f"C{n % 100:04}", f"r{n % 7}", f"C{n * 3 % 99:04}") for n in spread],
    }
    graphs = []
    for name, part in (("mixed", rows), ("sorted", {k: sorted(v) for k, v in rows.items()})):
        for memory in (1 << 10, 1 << 30):
            source = MemorySource(**part, chunk=100)
            build_graph([source], tmp_path / f"{name}{memory}", memory=memory)
            graphs.append(KG.open(tmp_path / f"{name}{memory}"))
    assert graphs[0].fingerprint == graphs[1].fingerprint
    assert graphs[2].fingerprint == graphs[3].fingerprint
    for kg in graphs:
        assert len(kg) == 100
        assert [term.text for term in kg.terms_of("C0007")] == [
            f"term {n}" for n in range(7, count, 100)
        ]
        assert [code.code for code in kg.xrefs_of("C0007")] == sorted(
            str(n) for n in range(7, count, 100)
        )
        assert kg.find("TERM 799") == ["C0099"]
