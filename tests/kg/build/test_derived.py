"""Names without what they leave open, and notes: which there are, and which concept has each."""

import pytest

from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.build.derived import forms
from medcoder.kg.export import export_parquet
from medcoder.kg.sources import open_source
from medcoder.types import DERIVED, INCLUDES
from support.memory import MemorySource
from support.scarcity import scarcity


def icd(code, *names, vocabulary="ICD10CM", kind="description"):
    """Terms of a code whose concept is called like it."""
    return [(code, name, "en", vocabulary, code, kind, rank) for rank, name in enumerate(names)]


def made(path, *terms, **parts):
    source = MemorySource(terms=[row for rows in terms for row in rows], **parts)
    report = build_kg([source], path)
    return KG.open(path), report


def kinds_of(kg, *kinds):
    """Concept and text of each term of these kinds."""
    return {(c, term.text) for c in kg for term in kg.terms_of(c) if term.kind in kinds}


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("Leukemia, unspecified", ["Leukemia"]),
        ("Leukemia of unspecified cell type", ["Leukemia"]),
        ("Pneumonia, unspecified organism", ["Pneumonia"]),
        ("Unspecified fracture of skull", ["Fracture of skull"]),
        ("Alcohol use, unspecified with intoxication", ["Alcohol use with intoxication"]),
        ("Gastric ulcer, unspecified as acute or chronic, bare", ["Gastric ulcer, bare"]),
        ("Malignant neoplasm of unspecified ovary", ["Malignant neoplasm of ovary"]),
        ("Neoplasm of unspecified part of lung", ["Neoplasm of lung"]),
        ("Carcinoma, NOS", ["Carcinoma"]),
        ("Carcinoma (NOS)", ["Carcinoma"]),
        ("Carcinoma [NOS]", ["Carcinoma"]),
        ("Sinusitis (chronic) NOS", ["Sinusitis", "Sinusitis (chronic)"]),
        ("Hepatitis B (acute) (viral) NOS", ["Hepatitis B", "Hepatitis B (acute) (viral)"]),
        ("Obstructive disease [COPD]", ["Obstructive disease"]),
        ("Abuse of alcohol, uncomplicated", ["Abuse of alcohol"]),
        ("Type 2 diabetes mellitus without complications", ["Type 2 diabetes mellitus"]),
        (
            "Migraine, unspecified, not intractable, without status migrainosus",
            ["Migraine", "Migraine, not intractable, without status migrainosus"],
        ),
        # What says another thing stays.
        ("Lesion of lip, not elsewhere classified", []),
        ("Delivery without mention of complication", []),
        ("Other and unspecified cirrhosis", []),
        ("Other disorders of lung", []),
        # Nothing is left, or hardly anything.
        ("Unspecified", []),
        ("K (NOS)", []),
    ],
)
def test_forms(name, texts):
    assert [form.text for form in forms(name)] == texts


def test_a_name_is_derived_and_found_and_never_preferred(tmp_path):
    kg, report = made(tmp_path / "kg", icd("C95.9", "Leukemia, unspecified"))
    assert kg.find("leukemia") == ["C95.9"]
    assert [(t.text, t.kind) for t in kg.terms_of("C95.9")] == [
        ("Leukemia, unspecified", "description"),
        ("Leukemia", DERIVED),
    ]
    assert kg.stats()["kinds"] == {DERIVED: 1, "description": 1}
    assert report["graph"]["derived names"] == {"read": 1, "kept": 1, "left_out": {}}
    assert report["graph"]["terms"] == {"read": 2, "kept": 2, "left_out": {}}


@pytest.mark.parametrize("vocabulary", ["ICD10", "ICD9CM", "ICD-10-CM", "ICDO3"])
def test_of_any_icd(tmp_path, vocabulary):
    kg, _ = made(tmp_path / "kg", icd("C95.9", "Leukemia, unspecified", vocabulary=vocabulary))
    assert kg.find("leukemia") == ["C95.9"]


def test_of_no_other_vocabulary_and_no_other_language(tmp_path):
    kg, _ = made(
        tmp_path / "kg",
        icd("1", "Leukemia, unspecified", vocabulary="MSH"),
        [("C95.9", "Leukemia NOS", "fr", "ICD10CM", "C95.9", "description", 0)],
    )
    assert kinds_of(kg, DERIVED) == set()
    assert DERIVED not in kg.kinds


def test_of_snomed_a_name_without_its_tag_where_nothing_else_gives_it(tmp_path):
    kg, _ = made(
        tmp_path / "kg",
        icd("1", "Leukemia (disorder)", vocabulary="SNOMEDCT_US"),
        icd("2", "Fever (finding)", "Fever", vocabulary="SNOMEDCT_US"),
        icd("3", "Burn (second degree)", "Pneumonia, unspecified", vocabulary="SNOMED"),
    )
    assert kinds_of(kg, DERIVED) == {("1", "Leukemia")}


# Collisions


def test_it_never_beats_a_real_name(tmp_path):
    kg, report = made(
        tmp_path / "kg", icd("G43", "Migraine"), icd("G43.9", "Migraine, unspecified")
    )
    assert kg.find("migraine") == ["G43"]
    assert report["graph"]["derived names"]["left_out"] == {"a name of another concept": 1}


def test_a_name_of_another_vocabulary_does_not_count(tmp_path):
    kg, _ = made(
        tmp_path / "kg",
        icd("1", "Migraine", vocabulary="HP"),
        icd("G43.9", "Migraine, unspecified"),
    )
    assert kg.find("migraine") == ["1", "G43.9"]


def test_its_own_names_are_not_derived_again(tmp_path):
    kg, report = made(
        tmp_path / "kg",
        icd("C95.9", "Leukemia, unspecified", "LEUKEMIA", "Leukemia NOS"),
        icd("J18.9", "Pneumonia NOS", "Pneumonia, unspecified"),
    )
    assert kinds_of(kg, DERIVED) == {("J18.9", "Pneumonia")}
    left_out = {"a name of the concept": 1, "said twice": 2}
    assert report["graph"]["derived names"] == {"read": 4, "kept": 1, "left_out": left_out}


def test_what_two_would_share_nobody_has(tmp_path):
    kg, report = made(
        tmp_path / "kg",
        icd("F52.9", "Sexual dysfunction NOS"),
        icd("R37", "Sexual dysfunction, unspecified"),
    )
    assert kinds_of(kg, DERIVED) == set()
    assert report["graph"]["derived names"]["left_out"] == {"shared by concepts": 2}


def test_of_parent_and_children_the_unspecified_child_has_it(tmp_path):
    kg, report = made(
        tmp_path / "kg",
        icd("J18", "Pneumonia, unspecified organism"),
        icd("J18.8", "Pneumonia (bacterial)"),
        icd("J18.9", "Pneumonia, unspecified"),
    )
    assert kinds_of(kg, DERIVED) == {("J18.9", "Pneumonia")}
    assert report["graph"]["derived names"]["left_out"] == {"another code has it": 2}


def test_of_several_unspecified_children_the_shortest_that_ends_in_nine(tmp_path):
    kg, _ = made(
        tmp_path / "kg",
        icd("C95", "Leukemia of unspecified cell type"),
        icd("C95.9", "Leukemia, unspecified"),
        icd("C95.90", "Leukemia NOS"),
    )
    assert kinds_of(kg, DERIVED) == {("C95.9", "Leukemia")}


def test_without_any_the_parent_has_it(tmp_path):
    kg, _ = made(tmp_path / "kg", icd("A01", "Fever (high)"), icd("A01.1", "Fever (low)"))
    assert kinds_of(kg, DERIVED) == {("A01", "Fever")}


def test_extensions_and_headings_have_none(tmp_path):
    kg, _ = made(
        tmp_path / "kg",
        icd("S00", "Injury, unspecified"),
        icd("S00XXXA", "Burn, unspecified, initial encounter"),
        icd("S00-S09", "Wounds, unspecified"),
        icd("I", "Diseases NOS"),
        flags=[("S00XXXA", "extension")],
    )
    assert kinds_of(kg, DERIVED) == {("S00", "Injury")}
    assert kg.flags_of("S00-S09") == kg.flags_of("I") == ["heading"]
    assert kg.flags_of("S00") == []


def test_a_concept_with_other_codes_is_no_heading(tmp_path):
    both = ("C1", "Neoplasms", "en", "ICD10", "C00-C96", "PT", 0)
    kg, _ = made(
        tmp_path / "kg",
        [both, ("C1", "Neoplasm", "en", "MSH", "D009369", "MH", 0)],
        icd("A1", "not of an ICD", vocabulary="HP"),
    )
    assert kg.flags_of("C1") == kg.flags_of("A1") == []


# Notes


def test_notes_give_way_to_names_and_to_each_other(tmp_path):
    notes = [
        ("A01", "typhoid", "en", "ICD10CM", "A01", INCLUDES, 2),
        ("A01", "Fever", "en", "ICD10CM", "A01", INCLUDES, 2),  # a name of A02
        ("A01", "cough", "en", "ICD10CM", "A01", INCLUDES, 2),  # derived for A03
        ("A01", "rash (itchy) NOS", "en", "ICD10CM", "A01", INCLUDES, 2),
        ("A02", "chills", "en", "ICD10CM", "A02", INCLUDES, 2),
        ("A03", "Chills", "en", "ICD10CM", "A03", INCLUDES, 2),
    ]
    names = (icd("A01", "Typhus"), icd("A02", "Fever"), icd("A03", "Cough, unspecified"))
    kg, report = made(tmp_path / "kg", *names, notes)
    assert kinds_of(kg, INCLUDES) == {("A01", "typhoid"), ("A01", "rash (itchy) NOS")}
    assert kinds_of(kg, DERIVED) == {("A03", "Cough")}  # none of a note
    assert kg.find("typhoid") == ["A01"]
    left_out = {"a name of another concept": 2, "shared by concepts": 2}
    assert report["graph"]["notes"] == {"read": 6, "kept": 2, "left_out": left_out}
    terms = report["graph"]["terms"]
    assert terms == {"read": 10, "kept": 6, "left_out": {"note": 4}}
    assert len(kg.terms) == 6


# The whole


def some_terms():
    for number in range(60):
        code = f"A{7 * number % 60:02}"
        yield (code, f"thing {code} (early), unspecified", "en", "ICD10CM", code, "PT", 0)
        yield (code, f"remark {code}", "en", "ICD10CM", code, INCLUDES, 2)


def test_the_graph_is_the_same_in_little_memory_and_in_any_order(tmp_path):
    for name, rows in (("mixed", list(some_terms())), ("sorted", sorted(some_terms()))):
        build_kg([MemorySource(terms=rows, chunk=50)], tmp_path / name)
        with scarcity() as setting:
            build_kg([MemorySource(terms=rows, chunk=7)], tmp_path / f"{name} small", **setting)
        kg, small = KG.open(tmp_path / name), KG.open(tmp_path / f"{name} small")
        assert kg.fingerprint == small.fingerprint
        derived = kinds_of(kg, DERIVED)
        assert derived == {
            (f"A{n:02}", text)
            for n in range(60)
            for text in (f"thing A{n:02}", f"thing A{n:02} (early)")
        }
        assert len(kinds_of(kg, INCLUDES)) == 60


def test_an_export_is_read_back_and_nothing_is_derived_twice(tmp_path):
    kg, _ = made(
        tmp_path / "kg",
        icd("C95.9", "Leukemia, unspecified"),
        icd("J18.9", "Pneumonia (lobar), unspecified"),
        [("J18.9", "lung fever", "en", "ICD10CM", "J18.9", INCLUDES, 2)],
    )
    export_parquet(kg, tmp_path / "export")
    report = build_kg([open_source(f"table={tmp_path / 'export'}")], tmp_path / "again")
    again = KG.open(tmp_path / "again")
    assert "derived names" not in report["graph"]
    assert all(again.terms_of(concept) == kg.terms_of(concept) for concept in kg)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundled") / "open.kg"
    report = build_kg([open_source("open")], path)
    return KG.open(path), report


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("leukemia", "C95.9"),
        ("gastroenteritis", "K52.9"),
        ("hepatitis B", "B16.9"),
        ("sinusitis", "J32.9"),
        ("arthritis", "M19.90"),
        ("prostatitis", "N41.9"),
        ("rickets", "E55.0"),
        ("encephalitis", "G04.9"),
        ("osteoarthritis", "M19.90"),  # a block is called so too, and is no answer
        ("syphilis", "A53.9"),
        ("pyelonephritis", "N12"),  # not N16, which is that "in diseases classified elsewhere"
        ("nonsense", None),
    ],
)
def test_names_of_icd_10_cm(bundled, name, code):
    kg, _ = bundled
    found = {concept for concept in kg.find(name) if concept.startswith("ICD10CM:")}
    answers = {concept for concept in found if "heading" not in kg.flags_of(concept)}
    assert answers == ({f"ICD10CM:{code}"} if code else set())


def test_the_bundled_graph(bundled):
    kg, report = bundled
    count = report["graph"]["derived names"]
    assert count["kept"] == kg.stats()["kinds"][DERIVED] > 10_000
    assert count["read"] == count["kept"] + sum(count["left_out"].values())
    assert report["graph"]["notes"]["kept"] == kg.stats()["kinds"][INCLUDES] > 500
    assert all(kg.terms_of(concept)[0].kind not in (DERIVED, INCLUDES) for concept in kg)
    flags = kg.stats()["flags"]
    assert (flags["heading"], flags["billable"]) == (321, 74_719)
