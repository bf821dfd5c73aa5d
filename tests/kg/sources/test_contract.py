"""What every source must keep to: the table of sources is the list of tests."""

import pytest

from medcoder.errors import InputError, UnknownName, UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.sources import EMBEDDED, SOURCES, open_source
from medcoder.types import Count, ReadOptions, Tally, Vocabulary
from support.releases import RELEASES, read, write_release


@pytest.fixture(scope="module", params=sorted(SOURCES))
def name(request):
    if request.param not in RELEASES:
        pytest.fail(f"no release to test the source {request.param!r}: add one to tests/releases")
    return request.param


@pytest.fixture(scope="module")
def spec(name, tmp_path_factory):
    return write_release(name, tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module")
def rows_and_tally(spec, request):
    if spec in EMBEDDED:
        return request.getfixturevalue(f"{spec}_rows")
    return read(open_source(spec))


@pytest.fixture(scope="module")
def graph(spec, name, tmp_path_factory):
    path = tmp_path_factory.mktemp(name) / "kg"
    return build_kg([open_source(spec)], path), KG.open(path)


def test_no_release_is_of_a_source_that_is_gone():
    assert set(RELEASES) == set(SOURCES)


def test_it_says_who_it_is(spec, name):
    source = open_source(spec)
    assert source.name == name
    assert isinstance(source.namespace, str)
    assert 0 <= source.done() < source.size()
    found = list(source.vocabularies())
    assert all(type(vocabulary) is Vocabulary for vocabulary in found)
    assert len({vocabulary.name for vocabulary in found}) == len(found)


def test_columns_counts_and_progress(rows_and_tally):
    rows, tally = rows_and_tally  # read with its own checks
    assert rows["terms"]
    assert rows["edges"]
    assert all(type(count) is Count for count in tally.values())
    assert sum(count.read for count in tally.values()) > 0


def test_values(rows_and_tally):
    rows, _ = rows_and_tally
    for concept, term, language, source, _code, _kind, _rank in rows["terms"]:
        assert concept.strip() == concept != ""
        assert term.strip()
        assert language == language.lower() != ""
        assert source
    assert all(kind and name for _, kind, name in rows["types"])
    assert all(source and code for _, source, code, _ in rows["xrefs"])
    assert {kind for *_, kind in rows["xrefs"]} <= {"alt", "xref"}
    assert all(head and relation and tail for head, relation, tail in rows["edges"])


def test_reading_twice_gives_the_same(spec, rows_and_tally):
    if spec in EMBEDDED:
        pytest.skip("takes seconds")
    source = open_source(spec)
    assert read(source) == rows_and_tally
    assert read(source) == rows_and_tally


def test_it_becomes_a_graph_whose_report_adds_up(graph, rows_and_tally):
    report, kg = graph
    rows, tally = rows_and_tally
    assert report["files"] == {name: count.as_dict() for name, count in tally.items()}
    for part, count in report["graph"].items():
        if part in rows:
            derived = report["graph"].get("derived names", {"kept": 0})["kept"]
            assert count["read"] == len(rows[part]) + (derived if part == "terms" else 0)
        assert count["read"] == count["kept"] + sum(count["left_out"].values())
    assert set(report["graph"]) >= {part for part, found in rows.items() if found}
    assert list(kg) == sorted({row[0] for row in rows["terms"]})
    assert len(kg.terms) == report["graph"]["terms"]["kept"]
    assert len(kg.edges) == report["graph"]["edges"]["kept"] > 0
    assert kg.stats()["concepts"] == len(kg)


def test_every_term_and_code_is_found(graph, rows_and_tally):
    _, kg = graph
    rows, _ = rows_and_tally
    some = rows["terms"][:: max(1, len(rows["terms"]) // 200)]
    for concept, term, _, source, code, *_ in some:
        assert concept in kg.find(term)
        assert concept in kg.find_code(source, code)
        assert (term, source, code) in [
            (t.text, t.vocabulary, t.code) for t in kg.terms_of(concept)
        ]


def test_languages_can_be_left_out(spec):
    if spec in EMBEDDED:
        pytest.skip("takes seconds, and has a test of its own")
    source = open_source(spec, ReadOptions(languages=frozenset({"xx"})))
    tally = Tally()
    assert not any(table.num_rows for part, table in source.concepts(tally) if part == "terms")
    assert all(count.adds_up for count in tally.values())
    assert sum(count.left_out["language"] for count in tally.values()) > 0


def test_a_path_that_leads_nowhere(name, tmp_path):
    if name in EMBEDDED:
        with pytest.raises(UsageError, match=f"{name}: a bundled source takes no path"):
            open_source(f"{name}={tmp_path}")
        return
    with pytest.raises(InputError):
        read(open_source(f"{name}={tmp_path / 'nowhere'}"))
    with pytest.raises(UsageError, match=f"{name}: this source needs a path. Write {name}=PATH"):
        open_source(name)
    with pytest.raises(UsageError, match="needs a path"):
        open_source(f"{name}=")


def test_an_unknown_source():
    with pytest.raises(UnknownName, match="no source is called 'ulms'; did you mean 'umls'"):
        open_source("ulms=x")
