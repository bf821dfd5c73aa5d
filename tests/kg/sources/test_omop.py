"""OMOP: the tables of an Athena download, on small ones written here."""

import gzip

import pytest

from medcoder.errors import InputError
from medcoder.kg.sources import open_source
from medcoder.kg.sources.omop import LANGUAGES, OmopSource
from medcoder.types import ReadOptions, Vocabulary
from support.releases import read as read_release
from support.releases.omop import (
    HEADERS,
    NAMES,
    SYNONYMS,
    concept,
    download,
    relationship,
    synonym,
    write,
)


def read(folder, **options):
    """Rows of each part as tuples, and the tally."""
    return read_release(OmopSource(folder, ReadOptions(**options)))


def texts(parts):
    return [row[1] for row in parts["terms"]]


def test_a_download_becomes_terms_types_codes_flags_and_edges(tmp_path):
    parts, tally = read(download(tmp_path))
    assert parts["terms"] == [
        ("4329847", "Myocardial infarction", "en", "SNOMED", "22298006", "name", 0),
        ("35207684", "Heart attack NOS", "en", "ICD10CM", "I21.9", "name", 0),
        ("441840", "Clinical finding", "en", "SNOMED", "404684003", "name", 0),
        ("4329847", "Heart attack", "en", "SNOMED", "22298006", "synonym", 1),
        ("4329847", "Infarto de miocardio", "es", "SNOMED", "22298006", "synonym", 1),
        ("35207684", "AMI", "und", "ICD10CM", "I21.9", "synonym", 1),
    ]
    assert parts["xrefs"] == [(id, "OMOP", id, "alt") for id in ("4329847", "35207684", "441840")]
    assert parts["types"] == [
        (id, "Condition", "Condition") for id in ("4329847", "35207684", "441840")
    ]
    assert parts["flags"] == [("4329847", "standard")]
    assert parts["edges"] == [
        ("35207684", "Maps to", "4329847"),
        ("4329847", "Is a", "441840"),
    ]
    assert tally["CONCEPT.csv"].left_out == {"obsolete": 2}
    assert tally["CONCEPT_SYNONYM.csv"].left_out == {"absent concept": 1}
    assert tally["CONCEPT_RELATIONSHIP.csv"].left_out == {"obsolete": 1}


def test_obsolete_concepts_are_taken_and_flagged_when_asked_for(tmp_path):
    parts, tally = read(download(tmp_path), obsolete=True)
    assert ("44820001", "Older", "en", "ICD9CM", "410", "synonym", 1) in parts["terms"]
    assert parts["flags"] == [
        ("4329847", "standard"),
        ("44820001", "invalid"),
        ("44820002", "invalid"),
    ]
    assert len(parts["edges"]) == 3
    assert not any(count.left_out for count in tally.values())


def test_standard_only(tmp_path):
    parts, tally = read(download(tmp_path), standard_only=True)
    assert texts(parts) == ["Myocardial infarction", "Heart attack", "Infarto de miocardio"]
    assert tally["CONCEPT.csv"].left_out == {"obsolete": 2, "not standard": 2}
    assert tally["CONCEPT_SYNONYM.csv"].left_out == {"absent concept": 2}


def test_vocabularies_are_filtered(tmp_path):
    parts, tally = read(download(tmp_path), vocabularies=frozenset({"ICD10CM"}))
    assert texts(parts) == ["Heart attack NOS", "AMI"]
    assert parts["xrefs"] == [("35207684", "OMOP", "35207684", "alt")]
    assert tally["CONCEPT.csv"].left_out == {"obsolete": 2, "vocabulary": 2}
    assert tally["CONCEPT_SYNONYM.csv"].left_out == {"absent concept": 3}


def test_languages_filter_terms_and_not_concepts(tmp_path):
    parts, tally = read(download(tmp_path), languages=frozenset({"es"}))
    assert texts(parts) == ["Infarto de miocardio"]
    assert ("4329847", "Condition", "Condition") in parts["types"]
    assert ("4329847", "OMOP", "4329847", "alt") in parts["xrefs"]
    assert tally["CONCEPT.csv"].left_out == {"obsolete": 2, "language": 3}
    assert tally["CONCEPT_SYNONYM.csv"].left_out == {"absent concept": 1, "language": 2}


def test_languages_of_synonyms(tmp_path):
    codes = [*LANGUAGES, "4182512", ""]
    folder = download(tmp_path, synonyms=[synonym("441840", f"in {code}", code) for code in codes])
    parts, _ = read(folder)
    found = [row[2] for row in parts["terms"] if row[5] == "synonym"]
    assert found == ["en", "es", "fr", "de", "it", "nl", "pt", "zh", "ko", "und", "und"]


@pytest.mark.parametrize(
    "term",
    [
        '"Quoted" at the start only',
        'one " alone',
        "NA",
        "null",
        "None",
        "\\N",
        "line\u2028separator",
        "next\u0085line",
        "  spaces kept  ",
        "梗死",
        "a|b,c;d",
    ],
)
def test_evil_terms_survive(tmp_path, term):
    folder = download(
        tmp_path,
        concepts=[concept("1", term, "a"), concept("2", "next", "b")],
        synonyms=[synonym("1", term), synonym("2", "last")],
    )
    parts, _ = read(folder)
    assert texts(parts) == [term, "next", term, "last"]


def test_a_code_or_vocabulary_called_na_survives(tmp_path):
    folder = download(
        tmp_path,
        concepts=[concept("0", "No matching concept", "NA", vocabulary="None", domain="")],
        synonyms=[synonym("0", "nothing")],
    )
    parts, _ = read(folder)
    assert [row[3:5] for row in parts["terms"]] == [("None", "NA"), ("None", "NA")]
    assert parts["types"] == []


def test_empty_names_are_counted_and_synonyms_of_their_concepts_kept(tmp_path):
    folder = download(
        tmp_path,
        concepts=[concept("1", "", "a"), concept("2", "kept", "b")],
        synonyms=[synonym("1", "a name after all"), synonym("2", ""), synonym("2", " ")],
        relationships=[relationship("1", "", "2")],
    )
    parts, tally = read(folder)
    assert texts(parts) == ["kept", "a name after all"]
    assert tally["CONCEPT.csv"].left_out == {"empty term": 1}
    assert tally["CONCEPT_SYNONYM.csv"].left_out == {"empty term": 2}
    assert tally["CONCEPT_RELATIONSHIP.csv"].left_out == {"empty relation": 1}


def test_vocabularies_have_versions_and_the_release_has_one(tmp_path):
    download(tmp_path)
    assert list(OmopSource(tmp_path, ReadOptions()).vocabularies()) == []
    write(
        tmp_path,
        "VOCABULARY",
        [
            "SNOMED\tSystematic Nomenclature\thttp://x\t2023-04-01 SNOMED CT\t44819097",
            "None\tOMOP Standardized Vocabularies\tOMOP generated\tv5.0 31-AUG-23\t44819096",
            "Gender\tOMOP Gender\tOMOP generated\t\t44819108",
        ],
    )
    assert list(OmopSource(tmp_path, ReadOptions()).vocabularies()) == [
        Vocabulary("SNOMED", "2023-04-01 SNOMED CT", "Systematic Nomenclature"),
        Vocabulary("None", "v5.0 31-AUG-23", "OMOP Standardized Vocabularies"),
        Vocabulary("OMOP", "v5.0 31-AUG-23", "OMOP Standardized Vocabularies"),
        Vocabulary("Gender", "", "OMOP Gender"),
    ]


def test_columns_may_stand_in_any_order_with_crlf_after_a_byte_order_mark(tmp_path):
    download(tmp_path, synonyms=[])
    text = (
        "\ufeffvocabulary_id\tconcept_code\tinvalid_reason\textra\tconcept_name\tconcept_id"
        "\tstandard_concept\tdomain_id\r\nSNOMED\t22298006\t\t?\tInfarct\t4329847\tS\tCondition\r\n"
    )
    (tmp_path / "CONCEPT.csv").write_bytes(text.encode())
    (tmp_path / "VOCABULARY.csv").write_text(
        "vocabulary_version\tvocabulary_name\tvocabulary_id\n1\tTitle\tX\n"
    )
    parts, _ = read(tmp_path)
    assert parts["terms"] == [("4329847", "Infarct", "en", "SNOMED", "22298006", "name", 0)]
    assert parts["flags"] == [("4329847", "standard")]
    source = OmopSource(tmp_path, ReadOptions())
    assert list(source.vocabularies()) == [Vocabulary("X", "1", "Title")]


def test_lower_case_and_gzipped_files(tmp_path):
    plain, _ = read(download(tmp_path))
    for path in list(tmp_path.iterdir()):
        packed = tmp_path / f"{path.name.lower()}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
    _, tally = read(tmp_path)
    assert set(tally) == {f"{name}.csv" for name in NAMES}
    for path in list(tmp_path.glob("*.csv")):
        path.unlink()
    packed, tally = read(tmp_path)
    assert packed == plain
    assert set(tally) == {f"{name.lower()}.csv.gz" for name in NAMES}


def test_open_source_knows_it(tmp_path):
    source = open_source(f"omop={download(tmp_path)}")
    assert source.name == "omop"
    assert source.size() == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert source.done() == 0


def test_files_with_a_header_only_are_an_empty_download(tmp_path):
    parts, _ = read(download(tmp_path, concepts=[], relationships=[], synonyms=[]))
    assert not any(parts.values())
    parts, tally = read(download(tmp_path, concepts=[], relationships=[]))
    assert tally["CONCEPT_SYNONYM.csv"].left_out == {"absent concept": 4}


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named(tmp_path, name):
    download(tmp_path)
    (tmp_path / f"{name}.csv").unlink()
    with pytest.raises(InputError, match=f"no {name}.csv or {name}.csv.gz here") as caught:
        OmopSource(tmp_path, ReadOptions())
    assert caught.value.file == str(tmp_path)
    with pytest.raises(InputError, match=r"no CONCEPT\.csv"):
        OmopSource(tmp_path / "nowhere", ReadOptions())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_empty_file(tmp_path, name, suffix):
    download(tmp_path)
    (tmp_path / f"{name}.csv").unlink()
    (tmp_path / f"{name}.csv{suffix}").write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        OmopSource(tmp_path, ReadOptions())


def test_a_missing_column_names_those_there_are(tmp_path):
    download(tmp_path)
    (tmp_path / "CONCEPT.csv").write_text("concept_id\tconcept_name\n1\tx\n")
    with pytest.raises(
        InputError, match=r"no such column: domain_id, .* there are: concept_id, concept_name"
    ):
        OmopSource(tmp_path, ReadOptions())


def test_two_swapped_files(tmp_path):
    download(tmp_path)
    (tmp_path / "CONCEPT.csv").rename(tmp_path / "aside")
    (tmp_path / "CONCEPT_SYNONYM.csv").rename(tmp_path / "CONCEPT.csv")
    (tmp_path / "aside").rename(tmp_path / "CONCEPT_SYNONYM.csv")
    with pytest.raises(InputError, match="no such column: concept_name"):
        OmopSource(tmp_path, ReadOptions())


def test_commas_instead_of_tabs(tmp_path):
    download(tmp_path)
    (tmp_path / "CONCEPT.csv").write_text(",".join(HEADERS["CONCEPT"].split()) + "\n")
    with pytest.raises(InputError, match=r": concept_id, .*are: concept_id,concept_name,"):
        OmopSource(tmp_path, ReadOptions())


@pytest.mark.parametrize(
    ("name", "row", "what"),
    [
        ("CONCEPT", concept("C12", "x", "y"), "concept_id is not an id .*: 'C12'"),
        ("CONCEPT", concept("", "x", "y"), "concept_id is not an id .*: ''"),
        ("CONCEPT", concept(" 1", "x", "y"), "concept_id is not an id .*: ' 1'"),
        ("CONCEPT", concept("-1", "x", "y"), "concept_id is not an id .*: '-1'"),
        (
            "CONCEPT_SYNONYM",
            synonym("1.0", "x"),
            "concept_id is not an id .*: '1.0'",
        ),
        (
            "CONCEPT_RELATIONSHIP",
            relationship("1", "Is a", "?"),
            "concept_id_2 is not an id .*: '\\?'",
        ),
        (
            "CONCEPT_RELATIONSHIP",
            relationship("one", "Is a", "1"),
            "concept_id_1 is not an id .*: 'one'",
        ),
        ("CONCEPT", concept("1", "one\ttab more", "y"), "11 fields where 10 were expected"),
        ("CONCEPT_SYNONYM", "1\tcut off", "2 fields where 3 were expected"),
        ("CONCEPT_RELATIONSHIP", "", "an empty row"),
    ],
)
def test_a_bad_row_is_named(tmp_path, name, row, what):
    download(tmp_path)
    path = tmp_path / f"{name}.csv"
    good = path.read_bytes().split(b"\n")[:-1]
    path.write_bytes(b"\n".join([*good, row.encode(), good[-1], b""]))
    with pytest.raises(InputError, match=what) as caught:
        read(tmp_path)
    assert caught.value.file == str(path)
    assert caught.value.row == len(good) + 1
    assert caught.value.remedy


def test_bytes_that_are_not_utf8(tmp_path):
    download(tmp_path)
    path = tmp_path / "CONCEPT_SYNONYM.csv"
    path.write_bytes(path.read_bytes().replace(b"Infarto", b"Infart\xf3"))
    with pytest.raises(InputError, match="byte 0xf3 is not UTF-8") as caught:
        read(tmp_path)
    assert caught.value.row == 3


def test_a_gzip_that_is_cut_off(tmp_path):
    many = [concept(str(number), f"name {number * 7919}", "x") for number in range(5000)]
    download(tmp_path, concepts=many)
    path = tmp_path / "CONCEPT.csv"
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    (tmp_path / "CONCEPT.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match="gzip data is cut off"):
        read(tmp_path)


def test_blocks_give_the_same_as_one(tmp_path, monkeypatch):
    whole, tally = read(download(tmp_path))
    monkeypatch.setattr("medcoder.tables.unquoted.BLOCK", 150)
    parts, again = read(tmp_path)
    assert tally == again
    assert {part: sorted(rows) for part, rows in parts.items()} == {
        part: sorted(rows) for part, rows in whole.items()
    }
    write(tmp_path, "CONCEPT_SYNONYM", [*SYNONYMS, synonym("x", "y")])
    with pytest.raises(InputError, match=r"concept_id is not an id .*: 'x'") as caught:
        read(tmp_path)
    assert caught.value.row == len(SYNONYMS) + 2
