"""RF2: SNOMED CT snapshot files, on small releases written here."""

import gzip

import pytest

from medcoder.errors import InputError
from medcoder.kg.sources import open_source
from medcoder.kg.sources.rf2 import (
    ACCEPTABLE,
    DEFINITION,
    FSN,
    GB_ENGLISH,
    IS_A,
    PREFERRED,
    SYNONYM,
    US_ENGLISH,
    Rf2Source,
)
from medcoder.types import ReadOptions, Vocabulary
from support.releases import read as read_release
from support.releases.rf2 import (
    CONCEPT,
    DESCRIPTION,
    HEART,
    LANGUAGE,
    MI,
    OLD,
    RELATIONSHIP,
    SITE,
    concept,
    description,
    listed,
    relationship,
    release,
    write,
)


def read(folder, **options):
    """Rows of each part as tuples, and the tally."""
    return read_release(Rf2Source(folder, ReadOptions(**options)))


def names(parts):
    """(concept, term, language, kind, rank) of the terms."""
    return [(row[0], row[1], row[2], row[5], row[6]) for row in parts["terms"]]


def test_a_release_becomes_terms_types_and_edges(tmp_path):
    parts, tally = read(release(tmp_path))
    assert parts["terms"] == [
        (MI, "Myocardial infarction (disorder)", "en", "SNOMEDCT", MI, "FSN", 6),
        (MI, "Myocardial infarction", "en", "SNOMEDCT", MI, "preferred", 0),
        (MI, "Heart attack", "en", "SNOMEDCT", MI, "acceptable", 3),
        (MI, "Cardiac infarction", "en", "SNOMEDCT", MI, "synonym", 7),
        (HEART, "Heart structure (body structure)", "en", "SNOMEDCT", HEART, "FSN", 6),
        (HEART, "Heart", "en", "SNOMEDCT", HEART, "preferred", 0),
        (SITE, "Finding site (attribute)", "en", "SNOMEDCT", SITE, "FSN", 6),
    ]
    assert sorted(parts["types"]) == [
        (MI, "disorder", "disorder"),
        (SITE, "attribute", "attribute"),
        (HEART, "body structure", "body structure"),
    ]
    assert parts["edges"] == [
        (MI, "is_a", HEART),
        (MI, "finding_site", HEART),
        (MI, "246075003", HEART),
    ]
    assert parts["flags"] == parts["xrefs"] == []
    assert tally[CONCEPT].left_out == {"inactive": 1}
    assert tally[LANGUAGE].kept == 4


def test_open_source_knows_it_and_the_file_names_tell_the_version(tmp_path):
    source = open_source(f"rf2={release(tmp_path)}")
    assert source.name == "rf2"
    assert list(source.vocabularies()) == [Vocabulary("SNOMEDCT", "20200731", "SNOMED CT")]
    assert source.size() == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert source.done() == 0


def test_inactive_rows_are_left_out_and_counted(tmp_path):
    folder = release(
        tmp_path,
        descriptions=[
            description("1013", MI, "Infarct of heart", active="0"),
            description("2010", OLD, "Old infarct"),
            description("3017", "999001", "Of a concept that is not here"),
            description("4014", MI, "Myocardial infarction"),
        ],
        languages=[listed("4014"), listed("4014", active="0"), listed("1013")],
        relationships=[relationship("1", MI, IS_A, HEART, active="0")],
    )
    parts, tally = read(folder)
    assert names(parts) == [(MI, "Myocardial infarction", "en", "preferred", 0)]
    assert tally[DESCRIPTION].left_out == {
        "inactive": 1,
        "inactive concept": 1,
        "absent concept": 1,
    }
    assert tally[LANGUAGE].left_out == {"inactive": 1}
    assert tally[RELATIONSHIP].left_out == {"inactive": 1}
    assert parts["edges"] == []

    parts, tally = read(folder, obsolete=True)
    assert names(parts) == [
        (MI, "Infarct of heart", "en", "preferred", 8),
        (OLD, "Old infarct", "en", "synonym", 7),
        (MI, "Myocardial infarction", "en", "preferred", 0),
    ]
    assert parts["flags"] == [(OLD, "invalid")]
    assert parts["edges"] == [(MI, "is_a", HEART)]
    assert tally[DESCRIPTION].left_out == {"absent concept": 1}


def test_an_inactive_fully_specified_name_gives_no_type(tmp_path):
    folder = release(
        tmp_path,
        descriptions=[
            description("1", MI, "Infarct (finding)", FSN, active="0"),
            description("2", MI, "Infarct (disorder)", FSN),
        ],
    )
    parts, _ = read(folder, obsolete=True)
    assert parts["types"] == [(MI, "disorder", "disorder")]
    assert [row[4] for row in names(parts)] == [8, 6]


def test_us_english_comes_before_gb_before_other_reference_sets(tmp_path):
    other = "32570271000036106"
    folder = release(
        tmp_path,
        descriptions=[description(str(number), MI, f"term {number}") for number in range(1, 8)],
        languages=[
            listed("1", ACCEPTABLE, other),
            listed("2", ACCEPTABLE, GB_ENGLISH),
            listed("3", ACCEPTABLE, US_ENGLISH),
            listed("4", PREFERRED, other),
            listed("5", PREFERRED, GB_ENGLISH),
            listed("6", PREFERRED, US_ENGLISH),
            # The best of a description's places counts, whatever their order.
            listed("7", PREFERRED, GB_ENGLISH),
            listed("7", ACCEPTABLE, US_ENGLISH),
        ],
    )
    parts, _ = read(folder)
    assert [(kind, rank) for *_, kind, rank in names(parts)] == [
        ("acceptable", 5),
        ("acceptable", 4),
        ("acceptable", 3),
        ("preferred", 2),
        ("preferred", 1),
        ("preferred", 0),
        ("preferred", 1),
    ]


def test_an_unknown_acceptability_is_counted(tmp_path):
    parts, tally = read(
        release(
            tmp_path,
            descriptions=[description("1", MI, "Infarct")],
            languages=[listed("1", "900000000000000000")],
        )
    )
    assert names(parts) == [(MI, "Infarct", "en", "synonym", 7)]
    assert tally[LANGUAGE].left_out == {"unknown acceptability": 1}


@pytest.mark.parametrize(
    "term",
    [
        '"Quoted" at the start only',
        'one " alone',
        "NA",
        "null",
        "None",
        "line\u2028separator",
        "next\u0085line",
        "  spaces kept  ",
        "梗死",
        "a|b,c;d",
        "#1 fracture",
    ],
)
def test_evil_terms_survive(tmp_path, term):
    folder = release(
        tmp_path, descriptions=[description("1", MI, term), description("2", HEART, "Heart")]
    )
    parts, _ = read(folder)
    assert [row[1] for row in parts["terms"]] == [term, "Heart"]


def test_definitions_other_types_and_empty_terms_are_counted(tmp_path):
    folder = release(
        tmp_path,
        descriptions=[
            description("1", MI, "Death of heart muscle.", DEFINITION),
            description("2", MI, "?", "900000000000000000"),
            description("3", MI, ""),
            description("4", MI, " "),
            description("5", MI, "Infarct"),
        ],
    )
    parts, tally = read(folder)
    assert [row[1] for row in parts["terms"]] == ["Infarct"]
    assert tally[DESCRIPTION].left_out == {"definition": 1, "unknown type": 1, "empty term": 2}


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("Infarct (disorder)", ["disorder"]),
        ("Fracture(s) of bone (disorder)", ["disorder"]),
        ("Counselling (regime/therapy)", ["regime/therapy"]),
        ("Infarct (disorder) ", ["disorder"]),
        ("(disorder)", ["disorder"]),
        ("No tag at all", []),
        ("Tag (not) at the end", []),
        ("Empty ()", []),
    ],
)
def test_the_tag_is_the_semantic_type(tmp_path, text, tags):
    parts, _ = read(release(tmp_path, descriptions=[description("1", MI, text, FSN)]))
    assert parts["types"] == [(MI, tag, tag) for tag in tags]
    assert names(parts) == [(MI, text, "en", "FSN", 6)]


def test_relations_are_named_after_their_type(tmp_path):
    types = {
        "1": "Finding site (attribute)",
        "2": "Procedure site - Direct (attribute)",
        "3": "Due to (attribute)",
        "4": "--- (attribute)",
    }
    folder = release(
        tmp_path,
        concepts=[concept(id) for id in [*types, MI, HEART]],
        descriptions=[
            *(description(f"{id}1", id, text, FSN) for id, text in types.items()),
            description("5", "6", "absent (attribute)", FSN),
        ],
        relationships=[relationship(id, MI, id, HEART) for id in [*types, "6"]],
    )
    parts, _ = read(folder, languages=frozenset({"es"}))
    assert [relation for _, relation, _ in parts["edges"]] == [
        "finding_site",
        "procedure_site_direct",
        "due_to",
        "4",
        "6",
    ]
    assert parts["terms"] == []


def test_several_languages_and_reference_sets_are_read(tmp_path):
    folder = release(tmp_path / "Snapshot" / "Terminology")
    spanish = "448879004"
    extension = tmp_path / "SpanishRelease" / "Snapshot"
    write(
        extension,
        "sct2_Description_SpanishExtensionSnapshot-es_INT_20200430.txt",
        [
            description("11", MI, "infarto de miocardio (trastorno)", FSN, "es"),
            description("12", MI, "infarto de miocardio", language="es"),
            description("13", OLD, "infarto antiguo", language="es"),
        ],
    )
    write(
        extension,
        "der2_cRefset_LanguageSpanishExtensionSnapshot-es_INT_20200430.txt",
        [listed("12", PREFERRED, spanish)],
    )
    parts, tally = read(tmp_path)
    assert (MI, "infarto de miocardio", "es", "preferred", 2) in names(parts)
    assert (MI, "infarto de miocardio (trastorno)", "es", "FSN", 6) in names(parts)
    # The English name has the tag.
    assert [row for row in parts["types"] if row[0] == MI] == [(MI, "disorder", "disorder")]
    assert len(tally) == 6

    parts, tally = read(tmp_path, languages=frozenset({"es"}))
    assert {row[2] for row in parts["terms"]} == {"es"}
    assert len(parts["terms"]) == 2
    assert (MI, "disorder", "disorder") in parts["types"]
    assert tally[DESCRIPTION].left_out == {"language": 7}
    assert (MI, "finding_site", HEART) in parts["edges"]
    assert folder.exists()


def test_a_concept_named_in_another_language_only_has_its_tag(tmp_path):
    folder = release(
        tmp_path,
        descriptions=[
            description("1", MI, "infarto (trastorno)", FSN, "ES"),
            description("2", HEART, "hjarta (kroppsstruktur)", FSN, "swe"),
            description("3", HEART, "Heart (body structure)", FSN),
            description("4", HEART, "?", language=""),
        ],
    )
    parts, _ = read(folder)
    assert sorted(parts["types"]) == [
        (MI, "trastorno", "trastorno"),
        (HEART, "body structure", "body structure"),
    ]
    assert [row[2] for row in names(parts)] == ["es", "sv", "en", "und"]


def test_the_file_of_the_later_date_counts(tmp_path):
    release(tmp_path)
    write(tmp_path, "sct2_Concept_Snapshot_US1000124_20200901.txt", [concept(HEART, "0")])
    write(
        tmp_path,
        "sct2_Description_Snapshot-en_US1000124_20200901.txt",
        [description("37442013", MI, "Heart attack", active="0")],
    )
    write(
        tmp_path,
        "sct2_Relationship_Snapshot_US1000124_20200901.txt",
        [relationship("1002021", MI, SITE, HEART, active="0")],
    )
    parts, tally = read(tmp_path)
    assert {row[0] for row in parts["terms"]} == {MI, SITE}
    assert "Heart attack" not in [row[1] for row in parts["terms"]]
    assert [row[1] for row in parts["edges"]] == ["is_a", "246075003"]
    assert tally[CONCEPT].left_out == {"stated again": 1, "inactive": 1}
    assert tally[DESCRIPTION].left_out == {"stated again": 1, "inactive concept": 2}
    assert tally[RELATIONSHIP].left_out == {"stated again": 1}
    source = Rf2Source(tmp_path, ReadOptions())
    assert list(source.vocabularies()) == [Vocabulary("SNOMEDCT", "20200901", "SNOMED CT")]


def test_other_files_of_a_release_are_not_read(tmp_path):
    release(tmp_path)
    for name in (
        "sct2_StatedRelationship_Snapshot_INT_20200731.txt",
        "sct2_RelationshipConcreteValues_Snapshot_INT_20200731.txt",
        "sct2_TextDefinition_Snapshot-en_INT_20200731.txt",
        "der2_cRefset_AssociationSnapshot_INT_20200731.txt",
        "sct2_Concept_Full_INT_20200731.txt",
        "sct2_Description_Delta-en_INT_20200731.txt",
        f"._{CONCEPT}",
        "readme.txt",
    ):
        (tmp_path / name).write_bytes(b"\xff not to be read")
    _, tally = read(tmp_path)
    assert set(tally) == {CONCEPT, DESCRIPTION, LANGUAGE, RELATIONSHIP}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (CONCEPT, "sct2_Concept_UKCLSnapshot_GB1000000_20240101.txt"),
        (DESCRIPTION, "xsct2_Description_UKCLSnapshot-en_GB1000000_20240101.txt"),
        (DESCRIPTION, "sct2_Description_Snapshot_INT_20020131.txt"),
        (LANGUAGE, "der2_cRefset_LanguageUKCLSnapshot-en_GB1000000_20240101.txt"),
        (RELATIONSHIP, "sct2_Relationship_MONOSnapshot_GB_20251219T120000Z.txt"),
        (RELATIONSHIP, "sct2_Relationship_Snapshot.txt"),
    ],
)
def test_names_that_extensions_give_their_files(tmp_path, kind, name):
    release(tmp_path)
    (tmp_path / kind).rename(tmp_path / name)
    parts, _ = read(tmp_path)
    assert len(parts["terms"]) == 7


def test_gzipped_files_read_the_same_and_a_plain_twin_is_taken(tmp_path):
    plain, _ = read(release(tmp_path))
    for path in list(tmp_path.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    _, tally = read(tmp_path)
    assert CONCEPT in tally and f"{CONCEPT}.gz" not in tally
    for path in list(tmp_path.glob("*.txt")):
        path.unlink()
    packed, tally = read(tmp_path)
    assert packed == plain
    assert f"{CONCEPT}.gz" in tally


def test_another_vocabulary_is_wanted(tmp_path):
    parts, tally = read(release(tmp_path), vocabularies=frozenset({"ICD10CM"}))
    assert parts["terms"] == parts["edges"] == parts["types"] == []
    assert tally[DESCRIPTION].left_out == {"vocabulary": 7}
    assert tally[RELATIONSHIP].left_out == {"vocabulary": 3}
    parts, _ = read(tmp_path, vocabularies=frozenset({"SNOMEDCT"}))
    assert len(parts["terms"]) == 7


def test_columns_may_stand_in_any_order_after_a_byte_order_mark(tmp_path):
    release(tmp_path, descriptions=[])
    text = (
        "\ufeffterm\tid\tactive\textra\ttypeId\tlanguageCode\tconceptId\n"
        f"Infarct\t1\t1\t\t{SYNONYM}\ten\t{MI}"
    )
    (tmp_path / DESCRIPTION).write_text(text, encoding="utf-8")
    parts, _ = read(tmp_path)
    assert names(parts) == [(MI, "Infarct", "en", "synonym", 7)]


def test_files_with_a_header_only_are_an_empty_release(tmp_path):
    folder = release(tmp_path, concepts=[], descriptions=[], languages=[], relationships=[])
    parts, _ = read(folder)
    assert not any(parts.values())


def test_without_concepts_descriptions_have_none(tmp_path):
    parts, tally = read(release(tmp_path, concepts=[], languages=[]))
    assert parts["terms"] == []
    assert tally[DESCRIPTION].left_out == {"absent concept": 7}


@pytest.mark.parametrize("missing", [CONCEPT, DESCRIPTION, LANGUAGE, RELATIONSHIP])
def test_a_missing_file_is_named(tmp_path, missing):
    release(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(InputError, match=missing.split("Snapshot")[0] + "Snapshot") as caught:
        Rf2Source(tmp_path, ReadOptions())
    assert caught.value.file == str(tmp_path)


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(InputError, match="unpacked RF2 release"):
        Rf2Source(tmp_path / "nowhere", ReadOptions())


def test_full_and_delta_alone_are_not_enough(tmp_path):
    for kind in ("Full", "Delta"):
        write(tmp_path / kind, f"sct2_Concept_{kind}_INT_20200731.txt", [concept(MI)])
    with pytest.raises(InputError, match="only Delta and Full") as caught:
        Rf2Source(tmp_path, ReadOptions())
    assert "Snapshot folder" in caught.value.remedy


def test_two_releases_in_one_folder(tmp_path):
    release(tmp_path / "new")
    write(tmp_path / "old", "sct2_Concept_Snapshot_INT_20200131.txt", [concept(MI)])
    with pytest.raises(InputError, match=r"two releases of one file: new.*20200731.*20200131"):
        Rf2Source(tmp_path, ReadOptions())


def test_two_swapped_files(tmp_path):
    release(tmp_path)
    (tmp_path / CONCEPT).rename(tmp_path / "aside")
    (tmp_path / LANGUAGE).rename(tmp_path / CONCEPT)
    (tmp_path / "aside").rename(tmp_path / LANGUAGE)
    with pytest.raises(InputError, match=r": definitionStatusId; .*are: id, .*refsetId"):
        Rf2Source(tmp_path, ReadOptions())


def test_a_relationship_file_under_the_name_of_the_concept_file(tmp_path):
    release(tmp_path)
    (tmp_path / CONCEPT).write_bytes((tmp_path / RELATIONSHIP).read_bytes())
    with pytest.raises(InputError, match="no such column: definitionStatusId"):
        Rf2Source(tmp_path, ReadOptions())


def test_a_column_that_appears_twice(tmp_path):
    release(tmp_path)
    (tmp_path / CONCEPT).write_text("id\tactive\tdefinitionStatusId\tactive\n1\t1\t1\t1\n")
    with pytest.raises(InputError, match="a column appears twice"):
        Rf2Source(tmp_path, ReadOptions())


@pytest.mark.parametrize(
    ("name", "row", "what"),
    [
        (CONCEPT, concept("22298O06"), "id is not an id .*: '22298O06'"),
        (CONCEPT, concept(""), "id is not an id .*: ''"),
        (CONCEPT, concept("1234567890123456789"), "not an id of 1 to 18 digits"),
        (DESCRIPTION, description("1", "", "x"), "conceptId is not an id .*: ''"),
        (
            DESCRIPTION,
            description("1", "007", "x"),
            "conceptId is not an id .*: '007'",
        ),
        (LANGUAGE, listed("C1"), "referencedComponentId is not an id .*: 'C1'"),
        (
            RELATIONSHIP,
            relationship("1", MI, "is-a", HEART),
            "typeId is not an id .*: 'is-a'",
        ),
        (
            RELATIONSHIP,
            relationship("1", MI, IS_A, "-1"),
            "destinationId is not an id .*: '-1'",
        ),
        (CONCEPT, "1\t20020131\t1", "3 fields where 5 were expected"),
        (DESCRIPTION, description("1", MI, "one\ttab more"), "10 fields where 9 were expected"),
        (DESCRIPTION, "", "an empty row"),
    ],
)
def test_a_bad_row_is_named(tmp_path, name, row, what):
    release(tmp_path)
    good = (tmp_path / name).read_bytes().split(b"\r\n")[:-1]
    (tmp_path / name).write_bytes(b"\r\n".join([*good, row.encode(), good[-1], b""]))
    with pytest.raises(InputError, match=what) as caught:
        read(tmp_path)
    assert caught.value.file == str(tmp_path / name)
    assert caught.value.row == len(good) + 1
    assert caught.value.remedy


def test_bytes_that_are_not_utf8(tmp_path):
    release(tmp_path)
    path = tmp_path / DESCRIPTION
    path.write_bytes(path.read_bytes().replace(b"Heart attack", b"Heart \xe9attack"))
    with pytest.raises(InputError, match="byte 0xe9 is not UTF-8") as caught:
        read(tmp_path)
    assert caught.value.row == 4


def test_a_gzip_that_is_cut_off(tmp_path):
    release(tmp_path, concepts=[concept(str(number * 7919 + 1)) for number in range(5000)])
    path = tmp_path / CONCEPT
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    (tmp_path / f"{CONCEPT}.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match="gzip data is cut off"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_empty_file(tmp_path, suffix):
    release(tmp_path)
    (tmp_path / CONCEPT).unlink()
    (tmp_path / (CONCEPT + suffix)).write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        Rf2Source(tmp_path, ReadOptions())


def test_rows_are_numbered_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.tables.unquoted.BLOCK", 500)
    plain, _ = read(release(tmp_path))
    monkeypatch.undo()
    assert read(tmp_path)[0] == plain
    monkeypatch.setattr("medcoder.tables.unquoted.BLOCK", 500)
    many = [concept(str(number)) for number in range(1, 200)]
    write(tmp_path, CONCEPT, [*many, concept("x")])
    with pytest.raises(InputError, match=r"id is not an id .*: 'x'") as caught:
        read(tmp_path)
    assert caught.value.row == 201
