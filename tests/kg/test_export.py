"""`kg export`, and that the `table` source reads all of it back."""

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.kg import KG, export
from medcoder.kg.build import build_kg
from medcoder.kg.export import export_parquet
from medcoder.kg.sources import open_source
from medcoder.types import CONCEPT_FLAGS, EDGES, FLAGS, TERMS, TYPES, XREFS, Vocabulary
from support.memory import MemorySource
from support.terminal import NAMES, as_json, conso, left_in, medcoder, write, write_umls

EVIL = ["NA", "null", '"quoted', "a\u2028b\u0085c", "  spaced ", "tab\there", "\x00nul", "[/bb]"]
OBO = """format-version: 1.2
data-version: toy/releases/2026-01-01
ontology: toy

[Term]
id: TOY:1
name: root
xref: UMLS:C0000001
alt_id: TOY:8
is_obsolete: true

[Term]
id: TOY:2
name: leaf
namespace: kind_of_leaf
alt_id: TOY:9
xref: MSH:D0000003
relationship: part_of TOY:1
"""


def content(kg):
    """All that calls on a graph can tell."""
    return {
        concept: (
            kg.terms_of(concept),
            sorted(kg.types_of(concept)),
            sorted(kg.codes_of(concept)),
            sorted(kg.alternatives_of(concept)),
            sorted(kg.xrefs_of(concept)),
            kg.flags_of(concept),
            sorted(kg.neighbours(concept)),
        )
        for concept in kg
    }


def round_trip(kg, folder):
    export_parquet(kg, folder / "tables")
    source = open_source(f"table={folder / 'tables'}")
    build_kg([source], folder / "again.kg", any_names=["all"])
    return KG.open(folder / "again.kg")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    more = [conso(f"C20000{n:02d}", text, sab="EVIL") for n, text in enumerate(EVIL)]
    release = write_umls(folder / "release", terms=more)
    obo = write(folder / "toy.obo", OBO)
    sources = (f"umls={release}", f"obo={obo}", "--obsolete", "--out", folder / "all.kg")
    assert medcoder("kg", "build", *sources).exit_code == 0
    return folder / "all.kg"


def test_the_command(graph, tmp_path):
    result = medcoder("kg", "export", "--kg", graph, "--out", tmp_path / "new" / "tables")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == f"{tmp_path / 'new' / 'tables' / 'terms.parquet'}  19 rows"
    assert len(lines) == 6
    assert left_in(tmp_path / "new") == ["tables"]


def test_the_command_for_programs(graph, tmp_path):
    rows = as_json("kg", "export", "--kg", graph, "--out", tmp_path / "tables")
    assert rows == {
        "terms.parquet": 19,
        "types.parquet": 3,
        "xrefs.parquet": 4,
        "flags.parquet": 1,
        "relations.parquet": 3,
        "vocabularies.parquet": 4,
    }
    for name, count in rows.items():
        assert pq.read_table(tmp_path / "tables" / name).num_rows == count
    assert left_in(tmp_path / "tables") == sorted([*rows, "meta.json"])


def test_the_schemas(graph, tmp_path):
    export_parquet(KG.open(graph), tmp_path / "tables")
    schemas = {"terms": TERMS, "types": TYPES, "xrefs": XREFS, "flags": FLAGS, "relations": EDGES}
    for name, schema in schemas.items():
        assert pq.read_schema(tmp_path / "tables" / f"{name}.parquet").equals(schema), name


def test_the_values(graph, tmp_path):
    export_parquet(KG.open(graph), tmp_path / "tables")
    terms = pq.read_table(tmp_path / "tables" / "terms.parquet").to_pylist()
    assert terms[:2] == [
        {
            "concept": "C0000001",
            "term": text,
            "language": language,
            "source": "MSH",
            "code": "D0000001",
            "kind": kind,
            "rank": rank,
        }
        for text, language, kind, rank in [
            ("[D]Headache", "en", "PT", 0),
            ("old headache", "en", "PT", 1),
        ]
    ]
    assert {row["term"] for row in terms} >= {*EVIL, *NAMES.values()}


def test_a_table_build_of_it_is_the_same_graph(graph, tmp_path):
    before = KG.open(graph)
    again = round_trip(before, tmp_path)
    assert content(again) == content(before)
    assert again.stats() == before.stats()
    assert set(again.vocabularies) == set(before.vocabularies)
    assert Vocabulary("TOY", "2026-01-01", "") in again.vocabularies
    for count in (*again.report()["files"].values(), *again.report()["graph"].values()):
        assert count["left_out"] == {}


def test_the_command_line_round_trip(graph, tmp_path):
    tables = tmp_path / "tables"
    assert medcoder("kg", "export", "--kg", graph, "--out", tables).exit_code == 0
    built = medcoder("kg", "build", f"table={tables}", "--out", tmp_path / "again.kg")
    assert built.exit_code == 0
    shown = [medcoder("kg", "show", "TOY:1", "--kg", kg) for kg in (graph, tmp_path / "again.kg")]
    assert shown[0].stdout == shown[1].stdout
    assert "codes  TOY:1, TOY:8" in shown[0].stdout
    assert "flags  invalid" in shown[0].stdout


def test_a_merged_graph(graph, tmp_path):
    """Vocabularies of merged ids have no name, which the table source would refuse."""
    release, obo = graph.parent / "release", graph.parent / "toy.obo"
    sources = (f"umls={release}", f"obo={obo}", "--obsolete", "--merge-by", "xrefs")
    assert medcoder("kg", "build", *sources, "--out", tmp_path / "m.kg").exit_code == 0
    merged = KG.open(tmp_path / "m.kg")
    assert merged.terms_of("TOY:1")[0].text == "[D]Headache"
    assert content(round_trip(merged, tmp_path)) == content(merged)


def test_a_graph_without_relations_or_types(tmp_path):
    build_kg([MemorySource(terms=[("A", "aa", "en", "V", "1", "", 0)])], tmp_path / "a.kg")
    kg = KG.open(tmp_path / "a.kg")
    assert content(round_trip(kg, tmp_path)) == content(kg)


def test_blocks_are_joined(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_CONCEPTS", 2)
    monkeypatch.setattr(export, "_EDGES", 1)
    kg = KG.open(graph)
    seen = []
    rows = export_parquet(kg, tmp_path / "t", progress=lambda *step: seen.append(step))
    assert (rows["terms.parquet"], rows["relations.parquet"]) == (19, 3)
    assert seen[0] == ("writing concepts", 2, len(kg))
    assert seen[-1] == ("writing relations", 3, 3)
    build_kg([open_source(f"table={tmp_path / 't'}")], tmp_path / "again.kg")
    assert content(KG.open(tmp_path / "again.kg")) == content(kg)


@pytest.mark.parametrize("kind", ["file", "folder", "export"])
def test_what_is_there_stays(graph, tmp_path, kind):
    place = tmp_path / "tables"
    if kind == "export":
        export_parquet(KG.open(graph), place)
    else:
        write(place if kind == "file" else place / "thesis.txt", "years of work")
    before = left_in(tmp_path)
    result = medcoder("kg", "export", "--kg", graph, "--out", place)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{place}: it exists" in result.stderr
    again = medcoder("kg", "export", "--kg", graph, "--out", place, "--overwrite")
    assert again.exit_code == (0 if kind == "export" else 4)
    assert left_in(tmp_path) == before


def test_nothing_is_left_of_an_export_that_fails(graph, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "_write_edges", fail)
    result = medcoder("kg", "export", "--kg", graph, "--out", tmp_path / "tables")
    assert result.exit_code == 5
    assert "no room left to write" in result.stderr
    assert left_in(tmp_path) == []


def test_an_unknown_flag(graph, tmp_path):
    export_parquet(KG.open(graph), tmp_path / "t")
    (tmp_path / "t" / "flags.parquet").unlink()
    write(tmp_path / "t" / "flags.csv", "concept,flag\nTOY:1,invalid\nTOY:2,odd\n")
    result = medcoder("kg", "build", f"table={tmp_path / 't'}", "--out", tmp_path / "a.kg")
    assert result.exit_code == 3
    assert "flags.csv, row 3: an unknown flag. A flag is one of: standard" in result.stderr


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=8)
FILLED = TEXT.filter(lambda text: text.strip())
IDS = st.sampled_from(["A", "B:1", " c ", "d\u2028", "\U0001f912", "E" * 300])
CODES = FILLED.map(str.strip)


@settings(max_examples=10)
@given(
    terms=st.lists(
        st.tuples(
            IDS,
            FILLED,
            st.sampled_from(["en", "es", "pt-br", "und"]),
            st.sampled_from(["V", "HP", "UMLS"]),
            FILLED,
            TEXT,
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=12,
    ),
    types=st.lists(st.tuples(IDS, FILLED, TEXT), max_size=6),
    xrefs=st.lists(
        st.tuples(IDS, st.sampled_from(["HP", "MSH"]), CODES, st.sampled_from(["alt", "xref"])),
        max_size=6,
    ),
    flags=st.lists(st.tuples(IDS, st.sampled_from(CONCEPT_FLAGS)), max_size=4),
    edges=st.lists(st.tuples(IDS, FILLED, IDS), max_size=6),
)
def test_any_graph_comes_back(tmp_path_factory, terms, types, xrefs, flags, edges):
    folder = tmp_path_factory.mktemp("any")
    source = MemorySource(terms=terms, types=types, xrefs=xrefs, flags=flags, edges=edges)
    build_kg([source], folder / "a.kg", any_names=["all"])
    kg = KG.open(folder / "a.kg")
    again = round_trip(kg, folder)
    assert content(again) == content(kg)
