"""UMLS: what becomes of the rows of a release."""

import pytest

from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.sources import open_source
from medcoder.kg.sources.umls import UmlsSource
from medcoder.types import ReadOptions, SemanticType, Tally, Vocabulary
from support.releases import read as read_release
from support.releases.umls import (
    CHILD,
    CONSO,
    OTHER,
    PARENT,
    REL,
    STY,
    conso,
    rank,
    rel,
    sab,
    sty,
    write_umls,
)


def read(folder, **options):
    return read_release(UmlsSource(folder, ReadOptions(**options)))


def texts(rows):
    return [row[1] for row in rows["terms"]]


def graph(folder, **options):
    out = folder / "kg"
    source = UmlsSource(folder, ReadOptions(**options))
    build_kg([source], out, any_names=["all"], overwrite=True)
    return KG.open(out)


def test_a_release_becomes_terms_types_and_edges(tmp_path):
    rows, tally = read(write_umls(tmp_path))
    assert rows == {
        "terms": [
            (PARENT, "Amyloidosis", "en", "SNOMEDCT_US", "17602002", "PT", 0),
            (PARENT, "Amyloid disease", "en", "SNOMEDCT_US", "17602002", "SY", 5),
            (PARENT, "Amiloidosis", "es", "SCTSPA", "17602002", "PT", 0),
            (CHILD, "Wild-type amyloidosis", "en", "SNOMEDCT_US", "716655004", "PT", 0),
            (OTHER, "Dementia", "en", "MSH", "D003704", "MH", 0),
        ],
        "types": [
            (PARENT, "T047", "Disease or Syndrome"),
            (OTHER, "T048", "Mental or Behavioral Dysfunction"),
        ],
        "xrefs": [],
        "flags": [],
        "edges": [
            (CHILD, "CHD|isa", PARENT),
            (PARENT, "PAR|inverse_isa", CHILD),
            (PARENT, "RO", OTHER),
        ],
    }
    assert {name: (count.read, count.kept) for name, count in tally.items()} == {
        CONSO: (5, 5),
        STY: (2, 2),
        REL: (3, 3),
    }


def test_the_second_concept_of_a_row_has_the_relation_to_the_first(tmp_path):
    kg = graph(write_umls(tmp_path, rel=[rel("C0002502", "CHD", "C5190625", "isa")]))
    assert kg.contains("C5190625", "CHD|isa", "C0002502")
    assert not kg.contains("C0002502", "CHD|isa", "C5190625")


def test_labels_of_relations(tmp_path):
    labels = [("CHD", "isa"), ("RO", ""), ("", "isa"), ("", "")]
    folder = write_umls(tmp_path, rel=[rel(PARENT, one, CHILD, two) for one, two in labels])
    rows, _ = read(folder)
    assert [row[1] for row in rows["edges"]] == ["CHD|isa", "RO", "|isa", ""]


@pytest.mark.parametrize(
    "term",
    [
        "NA",
        "null",
        "None",
        "nan",
        "\\N",
        '"Quoted" at the start only',
        'one " alone',
        '""',
        "'",
        "line\u2028separator",
        "next\u0085line",
        "para\u2029graph",
        "form\x0cfeed\x0bvertical\x1cfile",
        "a lone\rreturn",
        "nul\x00character",
        " spaces kept ",
        "\ttab\t",
        "back\\slash\\",
        "# no comment",
        "a,b;c",
        "1e5",
        "真性红细胞增多症",
        "\U0001f9e0 brain",
        "\ufeffmark",
    ],
)
def test_evil_terms_survive(tmp_path, term):
    rows = [conso("C1", "before"), conso("C2", term, code=term), conso("C3", "after")]
    folder = write_umls(tmp_path, conso=rows, rel=[rel("C1", "RO", "C2", term)])
    found, _ = read(folder)
    assert texts(found) == ["before", term, "after"]
    assert found["terms"][1][4] == term  # the code too
    assert found["edges"] == [("C2", f"RO|{term}", "C1")]
    kg = graph(folder)
    assert kg.preferred("C2") == term


def test_empty_fields_and_an_ambiguous_term(tmp_path):
    rows = [
        conso("C1", "cold", code="", tty="", sab=""),
        conso("C2", "cold"),
        conso("C3", "Cold", lat=""),
    ]
    found, _ = read(write_umls(tmp_path, conso=rows, rel=[rel("C1", "RO", "C2")]))
    assert found["terms"][0] == ("C1", "cold", "en", "", "", "", 0)
    assert found["terms"][2][2] == ""
    assert graph(tmp_path).find("COLD") == ["C1", "C2", "C3"]


def test_empty_terms_are_counted(tmp_path):
    rows = [conso("C1", "x"), conso("C1", ""), conso("C1", " \u3000")]
    found, tally = read(write_umls(tmp_path, conso=rows))
    assert texts(found) == ["x"]
    assert tally[CONSO].left_out == {"empty term": 2}


# Where the files are


@pytest.mark.parametrize("inside", ["", "META"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_folders_and_compression(tmp_path, inside, suffix):
    plain, _ = read(write_umls(tmp_path / "plain"))
    write_umls(tmp_path / "other" / inside, suffix=suffix)
    source = open_source(f"umls={tmp_path / 'other'}")
    files = (tmp_path / "other" / inside).iterdir()
    assert source.size() == sum(path.stat().st_size for path in files)
    rows, tally = read_release(source)
    assert rows == plain
    assert set(tally) == {name + suffix for name in (CONSO, REL, STY)}


def test_plain_files_come_before_compressed_ones_and_the_folder_before_meta(tmp_path):
    write_umls(tmp_path, conso=[conso("C1", "the one")])
    write_umls(tmp_path, conso=[conso("C1", "compressed")], suffix=".gz")
    write_umls(tmp_path / "META", conso=[conso("C1", "in META")])
    assert texts(read(tmp_path)[0]) == ["the one"]


def test_windows_line_ends_a_byte_order_mark_and_no_last_line_end(tmp_path):
    plain, _ = read(write_umls(tmp_path))
    for path in tmp_path.iterdir():
        data = path.read_bytes().replace(b"\n", b"\r\n").removesuffix(b"\r\n")
        path.write_bytes(b"\xef\xbb\xbf" + data)
    assert read(tmp_path)[0] == plain


# Filters


ROWS = [
    conso("C1", "kept"),
    conso("C1", "obsolete", suppress="O"),
    conso("C1", "by an editor", suppress="E"),
    conso("C1", "by its type", suppress="Y"),
]
RELS = [
    rel("C1", "RO", "C2"),
    rel("C1", "RO", "C3", suppress="O"),
    rel("C1", "RO", "C4", suppress="E"),
    rel("C1", "RO", "C5", suppress="Y"),
]


@pytest.mark.parametrize(
    ("options", "kept", "left_out"),
    [
        ({}, [0], {"obsolete": 1, "suppressed": 2}),
        ({"obsolete": True}, [0, 1], {"suppressed": 2}),
        ({"suppressed": True}, [0, 2, 3], {"obsolete": 1}),
        ({"obsolete": True, "suppressed": True}, [0, 1, 2, 3], {}),
    ],
)
def test_obsolete_and_suppressed_rows(tmp_path, options, kept, left_out):
    rows, tally = read(write_umls(tmp_path, conso=ROWS, rel=RELS), **options)
    names = ["kept", "obsolete", "by an editor", "by its type"]
    assert texts(rows) == [names[place] for place in kept]
    assert [row[0] for row in rows["edges"]] == [f"C{place + 2}" for place in kept]
    assert tally[CONSO].left_out == tally[REL].left_out == left_out


def test_languages(tmp_path):
    codes = ["ENG", "SPA", "FRE", "CHI", "JPN", "SCR", "XYZ"]
    folder = write_umls(tmp_path, conso=[conso("C1", code, lat=code) for code in codes])
    rows, _ = read(folder)
    assert [row[2] for row in rows["terms"]] == ["en", "es", "fr", "zh", "ja", "hr", "xyz"]
    rows, tally = read(folder, languages=frozenset({"es", "xyz"}))
    assert texts(rows) == ["SPA", "XYZ"]
    assert tally[CONSO].left_out == {"language": 5}
    assert tally[REL].left_out == {}


def test_vocabularies_are_filtered_among_terms_and_relations(tmp_path):
    folder = write_umls(
        tmp_path,
        conso=[conso("C1", "a", sab="MSH"), conso("C2", "b", sab="MSH"), conso("C1", "c", sab="X")],
        rel=[rel("C1", "RO", "C2", sab="MSH"), rel("C1", "RN", "C2", sab="X")],
    )
    rows, tally = read(folder, vocabularies=frozenset({"MSH"}))
    assert texts(rows) == ["a", "b"]
    assert rows["edges"] == [("C2", "RO", "C1")]
    assert tally[CONSO].left_out == tally[REL].left_out == {"vocabulary": 1}


def test_a_row_is_counted_once_under_the_first_reason(tmp_path):
    bad = conso("C1", "", lat="SPA", sab="X", suppress="O")
    rows, tally = read(
        write_umls(tmp_path, conso=[bad, conso("C1", "x")]),
        languages=frozenset({"en"}),
        vocabularies=frozenset({"SNOMEDCT_US"}),
    )
    assert texts(rows) == ["x"]
    assert tally[CONSO].left_out == {"obsolete": 1}


# Preferred names


NAMES = [
    conso("C1", "worst", ts="S", stt="VO", ispref="N", tty="SY"),
    conso("C1", "atom", ts="P", stt="PF", ispref="N", tty="SY"),
    conso("C1", "string", ts="P", stt="VO", ispref="Y", tty="SY"),
    conso("C1", "form", ts="S", stt="PF", ispref="Y", tty="SY"),
    conso("C1", "best", ts="P", stt="PF", ispref="Y", tty="SY"),
    conso("C1", "meilleur", ts="P", stt="PF", ispref="Y", tty="PT", lat="FRE"),
    conso("C1", "ranked", ts="S", stt="VO", ispref="N", tty="PT"),
]


def test_without_mrrank_the_lexical_form_the_string_and_the_atom_decide(tmp_path):
    rows, _ = read(write_umls(tmp_path, conso=NAMES))
    assert [row[6] for row in rows["terms"]] == [7, 1, 2, 4, 0, 0, 7]
    kg = graph(tmp_path)
    assert kg.preferred("C1") == "best"
    assert [term.text for term in kg.terms_of("C1")] == [
        "best", "atom", "string", "form", "ranked", "worst", "meilleur",
    ]  # fmt: skip


def test_with_mrrank_the_rank_decides_and_the_rest_breaks_ties(tmp_path):
    ranks = [rank(500, "SNOMEDCT_US", "PT"), rank(400, "SNOMEDCT_US", "SY")]
    kg = graph(write_umls(tmp_path, conso=NAMES, rank=ranks))
    assert [term.text for term in kg.terms_of("C1")] == [
        "ranked", "best", "atom", "string", "form", "worst", "meilleur",
    ]  # fmt: skip


def test_a_term_type_that_mrrank_does_not_know_comes_last(tmp_path):
    names = [
        conso("C1", "unknown", tty="ZZ"),
        conso("C1", "zero", tty="SY", ts="S", stt="VO", ispref="N"),
        conso("C1", "other suppression", tty="SY", suppress="E"),
    ]
    ranks = [rank(0, "SNOMEDCT_US", "SY"), rank(700, "MSH", "ZZ")]
    kg = graph(write_umls(tmp_path, conso=names, rank=ranks), suppressed=True)
    assert [term.text for term in kg.terms_of("C1")] == ["zero", "other suppression", "unknown"]


# Types and vocabularies


def test_a_concept_without_types_keeps_its_place_and_one_with_several_has_all(tmp_path):
    types = [
        sty(PARENT, "T047", "Disease or Syndrome"),
        sty(PARENT, "T191", "Neoplastic Process"),
        sty("C9999999", "T033", "Finding"),
    ]
    kg = graph(write_umls(tmp_path, sty=types))
    assert list(kg) == sorted([PARENT, CHILD, OTHER])
    assert kg.types_of(PARENT) == [
        SemanticType("T047", "Disease or Syndrome"),
        SemanticType("T191", "Neoplastic Process"),
    ]
    assert kg.types_of(CHILD) == kg.types_of(OTHER) == []
    assert kg.report()["graph"]["types"]["left_out"] == {"absent concept": 1}


def test_versions_of_vocabularies(tmp_path):
    folder = write_umls(
        tmp_path,
        sab=[
            sab("MSH", "2025", "Medical Subject Headings"),
            sab("MSH", "2024", "Medical Subject Headings", current="N"),
            sab("SNOMEDCT_US", "2025_03_01", "SNOMED CT"),
        ],
    )
    assert list(UmlsSource(folder, ReadOptions()).vocabularies()) == [
        Vocabulary("MSH", "2025", "Medical Subject Headings"),
        Vocabulary("SNOMEDCT_US", "2025_03_01", "SNOMED CT"),
    ]
    kg = graph(folder)
    assert kg.vocabularies == (
        Vocabulary("SNOMEDCT_US", "2025_03_01", "SNOMED CT"),
        Vocabulary("SCTSPA"),
        Vocabulary("MSH", "2025", "Medical Subject Headings"),
    )


def test_without_mrsab_there_are_no_versions(tmp_path):
    assert list(UmlsSource(write_umls(tmp_path), ReadOptions()).vocabularies()) == []


def test_codes_are_kept_and_found(tmp_path):
    kg = graph(write_umls(tmp_path))
    assert kg.find_code("SNOMED", "716655004") == [CHILD]
    assert kg.find_code("MeSH", "D003704") == [OTHER]
    assert kg.find_code("UMLS", CHILD) == [CHILD]
    assert kg.meta["namespaces"] == ["UMLS"]


def test_relations_to_absent_concepts_and_to_oneself_are_counted(tmp_path):
    rows = [rel(PARENT, "RO", "C9999999"), rel(PARENT, "RO", PARENT), rel(PARENT, "RO", CHILD)]
    kg = graph(write_umls(tmp_path, rel=rows))
    assert kg.report()["graph"]["edges"] == {
        "read": 3,
        "kept": 1,
        "left_out": {"absent concept": 1, "concept to itself": 1},
    }


# Blocks


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("block", [1, 7, 100, 1000])
def test_blocks_of_any_size_give_the_same(tmp_path, monkeypatch, block, suffix):
    many = [conso(f"C{n}", f"t\u2028érm {n}" * (n % 7), tty="SY") for n in range(60)]
    links = [rel(f"C{n}", "RO", f"C{n * 7 % 60}", "x" * (n % 50)) for n in range(60)]
    folder = write_umls(tmp_path, conso=many, rel=links, suffix=suffix, rank=[rank(5, "X", "SY")])
    whole, tally = read(folder)
    assert len(whole["terms"]) == 51
    monkeypatch.setattr("medcoder.tables.unquoted.BLOCK", block)
    assert read(folder) == (whole, tally)


def test_reading_can_stop_half_way(tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.tables.unquoted.BLOCK", 100)
    folder = write_umls(tmp_path, conso=[conso(f"C{n}", "x") for n in range(100)])
    tables = UmlsSource(folder, ReadOptions()).concepts(Tally())
    assert next(tables)[0] == "terms"
    tables.close()
