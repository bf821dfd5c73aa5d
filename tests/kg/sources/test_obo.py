"""The OBO source and its Babelon translations, on good and on evil input."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.errors import InputError
from medcoder.kg.sources import obo, open_source
from medcoder.kg.sources.obo import OboSource
from medcoder.types import ReadOptions, Tally, Vocabulary
from support.releases import read as read_release
from support.releases.obo import HEADER, OLD, PARENT, SEIZURE, TYPEDEF

COLUMNS = "source_language translation_language subject_id predicate_id source_value "
COLUMNS = (COLUMNS + "translation_value translation_status").split()


def write(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path, **options):
    """All rows by part, as lists of tuples, and the tally."""
    return read_release(OboSource(path, ReadOptions(**options)))


def read_text(tmp_path, text, **options):
    return read(write(tmp_path / "hp.obo", text), **options)


def error_of(path, **options):
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert str(path.parent) in str(caught.value)
    return caught.value


def table(rows, columns=COLUMNS):
    """A Babelon table; what a row does not give is a plain French label of Seizure."""
    plain = dict.fromkeys(columns, "") | {
        "source_language": "en",
        "translation_language": "fr",
        "subject_id": "HP:0001250",
        "predicate_id": "rdfs:label",
        "translation_value": "Crise",
        "translation_status": "OFFICIAL",
    }
    lines = ["\t".join(columns)]
    lines += ["\t".join((plain | row)[name] for name in columns) for row in rows]
    return "\n".join(lines) + "\n"


def folder(tmp_path, *rows, name="hp-fr.babelon.tsv", **kw):
    write(tmp_path / "hp.obo", HEADER + SEIZURE + PARENT)
    write(tmp_path / name, table(rows, **kw))
    return tmp_path


def test_every_part(tmp_path):
    rows, tally = read_text(tmp_path, HEADER + SEIZURE + PARENT + OLD + TYPEDEF)
    seizure, parent = "HP:0001250", "HP:0012638"
    assert rows["terms"] == [
        (seizure, "Seizure", "en", "HP", seizure, "name", 0),
        (seizure, "Epilepsy", "en", "HP", seizure, "RELATED:layperson", 4),
        (seizure, "Epileptic seizure", "en", "HP", seizure, "EXACT", 1),
        (seizure, "SZ", "en", "HP", seizure, "EXACT:abbreviation", 2),
        (seizure, "Sz.", "en", "HP", seizure, "RELATED:abbreviation", 4),
        (seizure, "Fit", "en", "HP", seizure, "BROAD", 3),
        (seizure, "Grand mal", "en", "HP", seizure, "NARROW", 3),
        (parent, "Abnormal nervous system physiology", "en", "HP", parent, "name", 0),
    ]
    assert rows["xrefs"] == [
        (seizure, "HP", "HP:0002279", "alt"),
        (seizure, "SNOMEDCT_US", "128613002", "xref"),
        (seizure, "UMLS", "C0036572", "xref"),
    ]
    assert rows["edges"] == [(seizure, "is_a", parent), (seizure, "part_of", "HP:0000707")]
    assert rows["types"] == [
        (name, "human_phenotype", "human_phenotype") for name in (seizure, parent)
    ]
    assert rows["flags"] == []
    assert tally["hp.obo frames"].left_out == {"obsolete": 1, "typedef": 1}
    assert tally["hp.obo terms"].left_out == {"obsolete": 2}
    assert tally["hp.obo xrefs"].left_out == {"obsolete": 2}
    assert tally["hp.obo edges"].left_out == {"obsolete": 1}
    assert [tally[f"hp.obo {unit}"].kept for unit in ("frames", "terms", "xrefs", "edges")] == [
        2, 8, 3, 2
    ]  # fmt: skip


def test_obsolete_terms_on_request(tmp_path):
    rows, tally = read_text(tmp_path, HEADER + PARENT + OLD, obsolete=True)
    assert rows["flags"] == [("HP:0000057", "invalid")]
    assert rows["edges"] == [("HP:0000057", "is_a", "HP:0012638")]
    assert tally["hp.obo terms"].kept == 3
    assert not tally["hp.obo frames"].left_out


def test_is_obsolete_false_is_a_concept_like_others(tmp_path):
    text = HEADER + "[Term]\nid: HP:1\nname: a\nis_obsolete: false\n"
    rows, _ = read_text(tmp_path, text)
    assert [row[1] for row in rows["terms"]] == ["a"]
    assert rows["flags"] == []


def test_vocabulary_filter_takes_whole_frames(tmp_path):
    text = HEADER + PARENT + "[Term]\nid: GO:1\nname: g\nalt_id: GO:2\nis_a: GO:3\n"
    rows, tally = read_text(tmp_path, text, vocabularies=frozenset({"GO"}))
    assert [row[:2] for row in rows["terms"]] == [("GO:1", "g")]
    assert rows["terms"][0][3] == "GO"
    assert tally["hp.obo frames"].left_out == {"vocabulary": 1}
    rows, tally = read_text(tmp_path, text, vocabularies=frozenset({"HP"}))
    assert tally["hp.obo edges"].left_out == tally["hp.obo xrefs"].left_out == {"vocabulary": 1}


def test_language_filter_leaves_the_concept(tmp_path):
    rows, tally = read_text(tmp_path, HEADER + SEIZURE, languages=frozenset({"fr"}))
    assert rows["terms"] == []
    assert len(rows["edges"]) == 2
    assert tally["hp.obo terms"].left_out == {"language": 7}
    assert tally["hp.obo frames"].kept == 1


def test_evil_text_survives(tmp_path):
    text = (
        HEADER + '[Term]\nid: HP:1\nname: a 5" \u2028cath\u0085eter\nsynonym: "NA" EXACT []\n'
        'synonym: "say \\"null\\"" EXACT []\nsynonym: "真性" EXACT []\nsynonym: "" EXACT []\n'
        'synonym: "  " EXACT []\nsynonym: "back\\\\slash" EXACT []\n'
    )
    rows, tally = read_text(tmp_path, text)
    expected = ['a 5" \u2028cath\u0085eter', "NA", 'say "null"', "真性", "back\\slash"]
    assert [row[1] for row in rows["terms"]] == expected
    assert tally["hp.obo terms"].left_out == {"empty term": 2}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        # The parser refuses a quoted string that ends in a backslash, see the test below.
        st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\n\\")),
        min_size=1,
        max_size=5,
    )
)
def test_any_synonym_round_trips(tmp_path_factory, texts):
    escaped = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    lines = "".join(f'synonym: "{text}" EXACT []\n' for text in escaped)
    path = write(tmp_path_factory.mktemp("any") / "x.obo", "[Term]\nid: X:1\nname: x\n" + lines)
    rows, _ = read(path)
    kept = [text.strip(" \t") for text in texts if text.strip()]
    assert [row[1] for row in rows["terms"]] == ["x", *kept]


def test_final_backslash_is_an_error_and_not_lost(tmp_path):
    text = HEADER + '[Term]\nid: HP:1\nname: x\nsynonym: "back\\\\" EXACT []\n'
    with pytest.raises(InputError, match="not OBO syntax"):
        read_text(tmp_path, text)


@pytest.mark.parametrize("change", ["crlf", "bom", "no newline", "gzip"])
def test_the_same_from_other_bytes(tmp_path, change):
    text = (HEADER + SEIZURE + PARENT).rstrip("\n") + "\n"
    plain, _ = read_text(tmp_path, text)
    data = {
        "crlf": text.replace("\n", "\r\n").encode(),
        "bom": b"\xef\xbb\xbf" + text.encode(),
        "no newline": text.rstrip("\n").encode(),
        "gzip": text.encode(),
    }[change]
    name = "other.obo.gz" if change == "gzip" else "other.obo"
    assert read(write(tmp_path / name, data))[0] == plain


def test_batches_give_what_one_table_gives(tmp_path, monkeypatch):
    text = HEADER + SEIZURE + PARENT + OLD
    whole, tally = read_text(tmp_path, text)
    monkeypatch.setattr(obo, "BATCH", 1)
    assert read_text(tmp_path, text) == (whole, tally)


def test_cross_references(tmp_path):
    text = (
        HEADER
        + "[Term]\nid: MONDO:1\nname: x\n"
        + "".join(
            f"{line}\n"
            for line in (
                "xref: MONDO:0005027",
                "xref: ICD-10:R40.2",
                "xref: http://a.b/c",
                "xref: url:http\\://a.b/c",
                "xref: plain",
                "xref: HP:1\\:2",
                "property_value: skos:exactMatch MESH:D012640",
                'property_value: exactMatch "DOID:1826" xsd:string',
                'property_value: exactMatch "no code" xsd:string',
                "property_value: http://www.w3.org/2004/02/skos/core#exactMatch http://x.y/z",
                "property_value: skos:closeMatch MESH:D1",
                "property_value: terms:creator ORCID:1",
            )
        )
    )
    rows, tally = read_text(tmp_path, text)
    assert [row[1:] for row in rows["xrefs"]] == [
        ("MONDO", "0005027", "xref"),
        ("ICD-10", "R40.2", "xref"),
        ("HP", "1:2", "xref"),
        ("MESH", "D012640", "xref"),
        ("DOID", "1826", "xref"),
    ]
    assert tally["hp.obo xrefs"].left_out == {"not a code": 5, "not an exact match": 1}


def test_ids_without_prefix_belong_to_the_ontology(tmp_path):
    text = HEADER + "[Term]\nid: fever\nname: Fever\n\n[Term]\nid: http://x.y/HP_1\nname: u\n"
    rows, _ = read_text(tmp_path, text)
    assert [(row[0], row[3], row[4]) for row in rows["terms"]] == [
        ("fever", "HP", "fever"),
        ("http://x.y/HP_1", "HP", "http://x.y/HP_1"),
    ]


def test_namespace_and_none(tmp_path):
    text = "[Term]\nid: X:1\nname: a\nnamespace: process\n\n[Term]\nid: X:2\nname: b\n"
    assert read_text(tmp_path, text)[0]["types"] == [("X:1", "process", "process")]


def test_instances_are_counted(tmp_path):
    text = HEADER + PARENT + "[Instance]\nid: john\nname: John\n"
    assert read_text(tmp_path, text)[1]["hp.obo frames"].left_out == {"instance": 1}


def test_versions(tmp_path):
    path = write(tmp_path / "hp.obo", HEADER + "[Term]\nid: GO:1\nname: g\n\n" + SEIZURE)
    expected = Vocabulary("HP", "2025-01-16", "Human Phenotype Ontology")
    source = open_source(f"obo={path}")
    assert source.name == "obo"
    assert list(source.vocabularies()) == [expected]
    assert source.done() == 0
    wanted = ReadOptions(vocabularies=frozenset({"GO"}))
    assert list(OboSource(path, wanted).vocabularies()) == []
    bare = write(tmp_path / "bare.obo", "data-version: 2.1\n\n[Term]\nid: FBbt:1\nname: f\n")
    assert list(OboSource(bare, ReadOptions()).vocabularies()) == [Vocabulary("FBbt", "2.1")]


def test_edges_alone_are_read_without_concepts(tmp_path):
    source = OboSource(write(tmp_path / "hp.obo", HEADER + SEIZURE + OLD), ReadOptions())
    tally = Tally()
    assert sum(found.num_rows for found in source.edges(tally)) == 2
    assert list(tally) == ["hp.obo edges"]
    assert (tally["hp.obo edges"].read, tally["hp.obo edges"].kept) == (3, 2)


def test_folder_of_ontologies(tmp_path):
    write(tmp_path / "hp.obo", HEADER + SEIZURE)
    write(tmp_path / "go.obo.gz", "ontology: go\n\n[Term]\nid: GO:1\nname: g\nis_a: HP:0001250\n")
    write(tmp_path / "notes.txt", "not read")
    rows, tally = read(tmp_path)
    assert {row[0] for row in rows["terms"]} == {"GO:1", "HP:0001250"}
    assert ("GO:1", "is_a", "HP:0001250") in rows["edges"]
    assert tally["go.obo.gz terms"].kept == 1
    assert tally["hp.obo terms"].kept == 7


def test_an_id_in_two_ontologies_is_one_concept(tmp_path):
    write(tmp_path / "hp.obo", HEADER + PARENT)
    write(tmp_path / "mp.obo", "ontology: mp\n\n[Term]\nid: HP:0012638\nname: imported\n")
    rows, tally = read(tmp_path)
    assert [row[:2] for row in rows["terms"]] == [
        ("HP:0012638", "Abnormal nervous system physiology"),
        ("HP:0012638", "imported"),
    ]
    assert tally["mp.obo frames"].kept == 1


def test_one_ontology_twice_in_a_folder(tmp_path):
    write(tmp_path / "hp-2024.obo", HEADER + SEIZURE)
    path = write(tmp_path / "hp.obo", HEADER + SEIZURE)
    with pytest.raises(InputError, match=r"in another file too: 'hp' in hp-2024\.obo") as caught:
        read(tmp_path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    ("text", "row", "what"),
    [
        (HEADER + SEIZURE + "[Term]\nname: no id\n", 28, "not OBO syntax"),
        (HEADER + "[Term]\nid: HP:1\nnonsense\n", 13, "found 'nonsense'"),
        (HEADER + '[Term]\nid: HP:1\nname: a\nsynonym: "open EXACT []\n', 14, "not OBO syntax"),
        (HEADER + PARENT + SEIZURE + PARENT, 32, "a second [Term] with the same id: HP:0012638"),
        (HEADER, None, "no [Term]"),
        ("term,id\nfever,1\n", 1, "not OBO syntax"),
        (HEADER.encode() + b"[Term]\nid: HP:1\nname: caf\xe9\n", 13, "byte 0xe9 is not UTF-8"),
        (HEADER.encode() + b"[Term]\nid: HP:1\nname: caf\xc3", 13, "byte 0xc3 is not UTF-8"),
        (b"", None, "is empty"),
        (gzip.compress(HEADER.encode()), 1, "is not UTF-8"),
    ],
)
def test_bad_files(tmp_path, text, row, what):
    error = error_of(write(tmp_path / "bad.obo", text))
    assert (error.row, error.file) == (row, str(tmp_path / "bad.obo"))
    assert what in str(error)
    assert error.remedy


def test_truncated_and_false_gzip(tmp_path):
    data = gzip.compress(
        (HEADER + "".join(SEIZURE.replace("1250", f"{i}") for i in range(9))).encode()
    )
    path = tmp_path / "hp.obo.gz"
    path.write_bytes(data[: len(data) // 2])
    assert error_of(path).what == "the gzip data is cut off or damaged"
    path.write_bytes(HEADER.encode())
    assert error_of(path).what == "the gzip data is cut off or damaged"
    path.write_bytes(gzip.compress(b""))
    assert "no [Term]" in error_of(path).what


def test_missing_path_and_empty_folder(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        OboSource(tmp_path / "no.obo", ReadOptions())
    with pytest.raises(InputError, match=r"no \.obo or \.obo\.gz file here"):
        OboSource(tmp_path, ReadOptions())


def translated(rows):
    return [row for row in rows["terms"] if row[2] != "en"]


def test_translations(tmp_path):
    path = folder(
        tmp_path,
        {},
        {"predicate_id": "oboInOwl:hasExactSynonym", "translation_value": "NA"},
        {"predicate_id": "oio:exactSynonym", "translation_value": "a\u2028b\u0085"},
        {"predicate_id": "oboInOwl:hasRelatedSynonym", "translation_language": "pt-BR"},
        {"predicate_id": "IAO:0000115"},
        {"predicate_id": "rdfs:comment"},
        {"translation_status": "NOT_TRANSLATED"},
        {"translation_status": "CANDIDATE", "translation_language": "deu"},
        {"translation_value": " "},
        {"subject_id": "HP:9999999"},
    )
    rows, tally = read(path)
    seizure = "HP:0001250"
    assert translated(rows) == [
        (seizure, "Crise", "fr", "HP", seizure, "name", 0),
        (seizure, "NA", "fr", "HP", seizure, "EXACT", 1),
        (seizure, "a\u2028b\u0085", "fr", "HP", seizure, "EXACT", 1),
        (seizure, "Crise", "pt-br", "HP", seizure, "RELATED", 4),
        (seizure, "Crise", "de", "HP", seizure, "name", 0),
    ]
    count = tally["hp-fr.babelon.tsv"]
    assert (count.read, count.kept) == (10, 5)
    assert count.left_out == {
        "definition": 1,
        "not a name": 1,
        "not translated": 1,
        "empty term": 1,
        "absent concept": 1,
    }


def test_translations_beside_a_single_file_are_not_read(tmp_path):
    rows, _ = read(folder(tmp_path, {}) / "hp.obo")
    assert translated(rows) == []


def test_translations_obey_the_filters(tmp_path):
    path = folder(tmp_path, {}, {"translation_language": "de"})
    rows, tally = read(path, languages=frozenset({"de"}))
    assert [row[2] for row in rows["terms"]] == ["de"]
    assert tally["hp-fr.babelon.tsv"].left_out == {"language": 1}
    rows, tally = read(path, vocabularies=frozenset({"GO"}))
    assert tally["hp-fr.babelon.tsv"].left_out == {"absent concept": 2}


def test_wrapped_fields_are_unwrapped(tmp_path):
    values = ['"crise, grande"', '"dite ""grande"""', '"grande" crise', 'crise "grande"', '"']
    rows, _ = read(folder(tmp_path, *({"translation_value": value} for value in values)))
    assert [row[1] for row in translated(rows)] == [
        "crise, grande",
        'dite "grande"',
        '"grande" crise',
        'crise "grande"',
        '"',
    ]
    quoted = {name: f'"{value}"' for name, value in [("translation_language", "fr")]}
    rows, _ = read(folder(tmp_path, quoted | {"predicate_id": '"rdfs:label"'}))
    assert [row[2] for row in translated(rows)] == ["fr"]


def test_translations_with_columns_in_any_order_and_gzipped(tmp_path):
    columns = ["comment", "translation_value", "predicate_id", "subject_id", "translation_language"]
    path = folder(tmp_path, {}, name="hp.babelon.tsv.gz", columns=columns)
    assert [row[1] for row in translated(read(path)[0])] == ["Crise"]


def test_translations_with_bom_and_crlf(tmp_path):
    path = folder(tmp_path, {})
    data = (path / "hp-fr.babelon.tsv").read_text().replace("\n", "\r\n")
    write(path / "hp-fr.babelon.tsv", b"\xef\xbb\xbf" + data.encode())
    assert [row[1] for row in translated(read(path)[0])] == ["Crise"]


def test_a_table_of_a_header_alone(tmp_path):
    rows, tally = read(folder(tmp_path))
    assert translated(rows) == []
    assert tally["hp-fr.babelon.tsv"].read == 0


@pytest.mark.parametrize(
    ("data", "row", "what"),
    [
        (table([{}], columns=COLUMNS[:-2]), 1, "no such column"),
        (table([{}], columns=[*COLUMNS, "subject_id"]), 1, "a column appears twice"),
        (table([{}]) + "one\ttwo\n", 3, "2 fields where 7 were expected"),
        (table([{}]) + "\n" + table([{}]), 3, "an empty row"),
        (table([{}]).encode().replace(b"Crise", b"Cris\xe9"), 2, "byte 0xe9 is not UTF-8"),
        (b"", None, "is empty"),
    ],
)
def test_bad_tables(tmp_path, data, row, what):
    path = write(folder(tmp_path) / "hp-fr.babelon.tsv", data)
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert (caught.value.file, caught.value.row) == (str(path), row)
    assert what in caught.value.what


def test_truncated_table(tmp_path):
    path = folder(tmp_path, *({"translation_value": f"crise {i}"} for i in range(500)))
    whole = gzip.compress((path / "hp-fr.babelon.tsv").read_bytes())
    (path / "hp-fr.babelon.tsv").unlink()
    (path / "hp-fr.babelon.tsv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cut off"):
        read(path)
