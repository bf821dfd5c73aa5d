"""Evil files through the command line: a clear error with its place, or a right result."""

import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medcoder.kg import KG
from medcoder.tables import unquoted
from support.terminal import conso, left_in, medcoder, rel, write, write_umls

CONCEPT = "sct2_Concept_Snapshot_INT_20240101.txt"
DESCRIPTION = "sct2_Description_Snapshot-en_INT_20240101.txt"
RELATIONSHIP = "sct2_Relationship_Snapshot_INT_20240101.txt"
LANGUAGE = "der2_cRefset_LanguageSnapshot-en_INT_20240101.txt"
RF2 = {
    CONCEPT: "id effectiveTime active moduleId definitionStatusId|1001 2024 1 9 9",
    DESCRIPTION: "id effectiveTime active moduleId conceptId languageCode typeId term "
    "caseSignificanceId|11 2024 1 9 1001 en 900000000000013009 Pain 9",
    RELATIONSHIP: "id effectiveTime active moduleId sourceId destinationId relationshipGroup "
    "typeId characteristicTypeId modifierId|21 2024 1 9 1001 1001 0 116680003 9 9",
    LANGUAGE: "id effectiveTime active moduleId refsetId referencedComponentId acceptabilityId|"
    "x 2024 1 9 900000000000509007 11 900000000000548007",
}
OMOP = {
    "CONCEPT.csv": "concept_id concept_name domain_id vocabulary_id standard_concept concept_code "
    "invalid_reason|1 Pain Condition SNOMED S 22 -",
    "CONCEPT_SYNONYM.csv": "concept_id concept_synonym_name language_concept_id|1 Dolor 4182511",
    "CONCEPT_RELATIONSHIP.csv": "concept_id_1 concept_id_2 relationship_id invalid_reason|1 1 x -",
}
OBO = "format-version: 1.2\nontology: toy\n\n[Term]\nid: T:1\nname: pain\n"
# A file of each kind of release.
FILES = [
    ("umls", "MRCONSO.RRF"),
    ("umls", "MRREL.RRF"),
    ("rf2", CONCEPT),
    ("rf2", RELATIONSHIP),
    ("omop", "CONCEPT.csv"),
    ("omop", "CONCEPT_RELATIONSHIP.csv"),
    ("obo", "toy.obo"),
    ("table", "terms.csv"),
    ("table", "relations.tsv"),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    return tmp_path / "in"


def write_release(source, folder):
    if source == "umls":
        return write_umls(folder)
    tables = {"rf2": RF2, "omop": OMOP}.get(source, {})
    for name, text in tables.items():
        lines = text.replace(" ", "\t").replace("-", "").split("|")
        write(folder / name, "\n".join(lines) + "\n")
    if source == "obo":
        write(folder / "toy.obo", OBO)
    if source == "table":
        write(folder / "terms.csv", "concept,term\nA,aa\nB,bb\n")
        write(folder / "relations.tsv", "head\trelation\ttail\nA\tr\tB\n")
    return folder


def build(source, folder, *options):
    place = folder.parent / "out" / "new.kg" if folder.is_dir() else None
    place = place or folder.parent.parent / "out" / "new.kg"
    return medcoder("kg", "build", f"{source}={folder}", "--out", place, *options), place


def fails(source, folder, *parts):
    """Whether the build fails with one line that has all the parts, and leaves nothing."""
    result, place = build(source, folder)
    assert (result.exit_code, result.stdout) == (3, ""), result.output
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 1200
    for part in parts:
        assert str(part) in result.stderr, result.stderr
    assert left_in(place.parent) == []
    return True


def builds(source, folder, *options):
    result, place = build(source, folder, *options)
    assert result.exit_code == 0, result.output
    return KG.open(place)


# All sources


@pytest.mark.parametrize("source", ["umls", "rf2", "omop", "obo", "table"])
def test_the_releases_here_are_good(folder, source):
    assert len(builds(source, write_release(source, folder))) > 0


@pytest.mark.parametrize(("source", "name"), FILES)
def test_a_folder_in_place_of_a_file(folder, source, name):
    write_release(source, folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    assert fails(source, folder, f"{folder / name}: is a folder")


@pytest.mark.parametrize(("source", "name"), FILES)
def test_a_link_that_leads_nowhere(folder, source, name):
    """A link of relations to a disk that is not there once gave a graph without relations."""
    write_release(source, folder)
    (folder / name).unlink()
    (folder / name).symlink_to(folder / "gone")
    assert fails(source, folder, folder)


@pytest.mark.parametrize(("source", "name"), FILES)
def test_a_link_to_itself(folder, source, name):
    write_release(source, folder)
    (folder / name).unlink()
    (folder / name).symlink_to(folder / name)
    assert fails(source, folder, folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize(("source", "name"), FILES)
def test_a_pipe_in_place_of_a_file(folder, source, name):
    write_release(source, folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert fails(source, folder, f"{folder / name}: is not a regular file")


@pytest.mark.parametrize(("source", "name"), FILES)
def test_an_empty_file(folder, source, name):
    write_release(source, folder)
    write(folder / name, "")
    assert fails(source, folder, f"{folder / name}: is empty. Copy or download it again")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(("source", "name"), FILES)
def test_utf16(folder, source, name, encoding):
    """Without a mark of order, UTF-16 of English is UTF-8 with a NUL after each letter."""
    write_release(source, folder)
    text = (folder / name).read_text(encoding="utf-8")
    write(folder / name, text.encode(encoding))
    if source == "obo" and encoding != "utf-16":
        assert fails(source, folder, f"{folder / name}, row", "not OBO syntax")
    else:
        assert fails(source, folder, f"{folder / name}, row 1: ", "not UTF-8", "UTF-8")


@pytest.mark.parametrize(("source", "name"), FILES)
def test_gzip_that_is_not(folder, source, name):
    write_release(source, folder)
    (folder / name).rename(folder / f"{name}.gz")
    assert fails(source, folder, f"{name}.gz", "the gzip data is cut off or damaged")


@pytest.mark.parametrize(("source", "name"), FILES)
def test_gzip_that_is_cut_off(folder, source, name):
    write_release(source, folder)
    packed = gzip.compress((folder / name).read_bytes())
    (folder / name).unlink()
    write(folder / f"{name}.gz", packed[:-9])
    assert fails(source, folder, f"{name}.gz", "the gzip data is cut off or damaged")


@pytest.mark.parametrize("letter", ["x", "\0"])
@pytest.mark.parametrize("source", ["umls", "rf2", "omop", "obo"])
def test_a_name_of_a_megabyte(folder, source, letter):
    term = "pain" + letter * (1 << 20)
    write_release(source, folder)
    file, old = {
        "umls": ("MRCONSO.RRF", ":smile: face"),
        "rf2": (DESCRIPTION, "Pain"),
        "omop": ("CONCEPT.csv", "Pain"),
        "obo": ("toy.obo", "pain"),
    }[source]
    text = (folder / file).read_text(encoding="utf-8")
    write(folder / file, text.replace(old, term))
    kg = builds(source, folder)
    (concept,) = kg.find(term)
    assert kg.preferred(concept) == term


# Rows of RRF, RF2 and OMOP


def test_two_wrong_rows_that_make_up_for_each_other(folder):
    """A field too many here and one too few there once passed, with columns shifted."""
    long = conso("C0000001", "a|shift").replace("|PT|", "||PT|")
    write_umls(folder, terms=[long, conso("C0000001", "b").replace("|P|L1|PF|S1|", "|P|L1|")])
    assert fails("umls", folder, "MRCONSO.RRF, row 10: 20 fields where 18 were expected")
    for source, name in (("rf2", DESCRIPTION), ("omop", "CONCEPT_SYNONYM.csv")):
        release = write_release(source, folder / source)
        row = (release / name).read_bytes().splitlines()[1]
        write(
            release / name, (release / name).read_bytes() + row + b"\tx\n" + row[: row.rfind(b"\t")]
        )
        assert fails(source, release, f"{name}, row 3: ")


def test_a_concept_id_that_is_empty(folder):
    write_umls(folder, terms=[conso("", "nameless", code="D1")])
    assert fails(
        "umls", folder, "MRCONSO.RRF, row 10: CUI is not a concept id such as C0002502: ''"
    )
    write_umls(folder, relations=[rel("C0000001", "isa", "")])
    assert fails("umls", folder, "MRREL.RRF, row 5: CUI2 is not a concept id such as C0002502: ''")


def test_an_empty_concept_id_in_a_later_block(folder, monkeypatch):
    monkeypatch.setattr(unquoted, "BLOCK", 100)
    many = [conso(f"C1{n:06d}", "x") for n in range(200)]
    write_umls(folder, terms=[*many, conso("", "nameless", code="D1")])
    assert fails("umls", folder, "MRCONSO.RRF, row 210: CUI is not a concept id")


def test_ids_are_not_printed_whole(folder):
    write_release("omop", folder)
    with (folder / "CONCEPT.csv").open("a") as file:
        file.write("1" * 4000 + "\tx\tC\tSNOMED\tS\t1\t\n")
    assert fails(
        "omop", folder, "CONCEPT.csv, row 3: concept_id is not an id of 1 to 18 digits: '1111"
    )


def test_a_row_without_end(folder, monkeypatch):
    monkeypatch.setattr(unquoted, "BLOCK", 1 << 10)
    monkeypatch.setattr(unquoted, "LONGEST", 1 << 20)
    write_umls(folder)
    write(folder / "MRREL.RRF", b"x" * (2 << 20))
    assert fails("umls", folder, f"{folder / 'MRREL.RRF'}: a row of more than 1 MB")


@pytest.mark.parametrize("rank", ["", "x", "1.5", "-1", "100000", "99999999999"])
def test_ranks_of_umls(folder, rank):
    write_umls(folder)
    write(folder / "MRRANK.RRF", f"300|MSH|PT|N|\n{rank}|MSH|SY|N|\n")
    assert fails(
        "umls", folder, f"MRRANK.RRF, row 2: RANK is not a number from 0 to 99,999: {rank!r}"
    )


# More labels than a graph can hold


def test_too_many_relations(folder):
    links = [rel("C0000001", f"r{n}", "C0000002") for n in range(1 << 16)]
    write_umls(folder, relations=links)
    assert fails("umls", folder, "more than 65,536 relation labels", "the last is 'RO|r65534'")


def test_as_many_relations_as_there_may_be(folder):
    lines = "".join(f"A\tr{n}\tB\n" for n in range(1 << 16))
    write_release("table", folder)
    write(folder / "relations.tsv", "head\trelation\ttail\n" + lines)
    kg = builds("table", folder)
    assert len(kg.relations) == len(kg.edges) == 1 << 16
    assert kg.contains("A", "r65535", "B")


@pytest.mark.parametrize(("more", "good"), [(0, True), (1, False)])
def test_many_languages(folder, more, good):
    lines = "".join(f"A,a{n},l{n}\n" for n in range(1024 + more))
    file = write(folder / "terms.csv", "concept,term,language\n" + lines)
    if good:
        assert len(builds("table", file).languages) == 1024
    else:
        assert fails("table", file, "more than 1,024 languages", "the last is 'l1024'")


@pytest.mark.parametrize(
    ("column", "what"),
    [("type", "semantic types"), ("source", "vocabularies"), ("kind", "kinds of terms")],
)
def test_too_many_labels(folder, column, what):
    lines = "".join(f"A,aa,l{n}\n" for n in range((1 << 16) + 1))
    file = write(folder / "terms.csv", f"concept,term,{column}\n{lines}")
    assert fails("table", file, f"more than 65,536 {what}, which is all that a graph can hold")


# Tables


def test_a_field_of_a_megabyte(folder):
    text = "xy" * (1 << 19)
    file = write(folder / "terms.csv", f"concept,term\nA,{text}\n")
    assert builds("table", file).preferred("A") == text
    file = write(folder / "more_terms.tsv", f"concept\tterm\nA\t{text}\n")
    assert builds("table", file, "--overwrite").preferred("A") == text
    file = write(folder / "long_terms.csv", f"concept,term\nA,{text * 10}\n")
    (folder.parent / "out" / "new.kg").rename(folder / "old.kg")
    assert fails("table", file, "long_terms.csv, row 2: a cell is too long", "MEDCODER_LIMITS=")


def test_many_columns(folder):
    names = ",".join(f"c{n}" for n in range(200_000))
    file = write(folder / "terms.csv", f"{names}\n{',' * 199_999}\n")
    assert fails("table", file, "no column for concept and term", "(200,000 columns)")
    cells = "," * 200_000
    file = write(folder / "more_terms.csv", f"concept,term,{names[3:]},z\n" + f"A,aa{cells}\n" * 3)
    assert builds("table", file).preferred("A") == "aa"


def test_a_header_without_end(folder):
    file = write(folder / "terms.tsv", "x" * (2 << 20))
    assert fails("table", file, "terms.tsv, row 1: a header of more than 1 MB")


@pytest.mark.parametrize("name", ["terms.csv", "terms.tsv", "terms.parquet"])
def test_a_header_alone(folder, name):
    file = folder / name
    if name.endswith("parquet"):
        pq.write_table(
            pa.table({"concept": pa.array([], "str"), "term": pa.array([], "str")}), file
        )
    else:
        write(file, "concept,term\n".replace(",", "," if name.endswith("csv") else "\t"))
    assert fails("table", file, f"{file}: has no rows")


@pytest.mark.parametrize("name", ["terms.csv", "terms.tsv", "terms.parquet"])
def test_a_column_twice(folder, name):
    file = folder / name
    if name.endswith("parquet"):
        names = ["concept", "term", "x", "x"]
        pq.write_table(pa.Table.from_arrays([pa.array(["A"])] * 4, names=names), file)
    else:
        mark = "," if name.endswith("csv") else "\t"
        write(file, f"concept{mark}term{mark}x{mark}x\nA{mark}a{mark}b{mark}c\n")
    assert fails("table", file, f"{file}: two columns have the same name: 'x' and 'x'")


def test_a_parquet_file_that_is_cut_off(folder):
    file = folder / "terms.parquet"
    pq.write_table(pa.table({"concept": ["A"] * 99, "term": [f"t{n}" for n in range(99)]}), file)
    write(file, file.read_bytes()[:-30])
    assert fails("table", file, f"{file}: cannot be read as Parquet", "Copy or download it again")


@pytest.mark.parametrize("cell", ['"A\nB"', '"A\r\nB"'])
def test_an_id_with_a_line_break_has_its_place(folder, cell):
    file = write(folder / "terms.csv", f"concept,term\nC,c\n{cell},x\n")
    assert fails("table", file, f"{file}, row 3: the concept has a line break in its id")


def test_ids_of_any_other_shape(folder):
    ids = ["A B", " A B", "x" * 4000, "[/b]", "a\tb", "a\u2028b", "\U0001f912", "NA", "null", '"q"']
    lines = "".join(f'"{name.replace(chr(34), chr(34) * 2)}",t{n}\n' for n, name in enumerate(ids))
    kg = builds("table", write(folder / "terms.csv", "concept,term\n" + lines))
    for place, name in enumerate(ids):
        assert kg.preferred(name) == f"t{place}"
    assert len(kg) == len(ids)


@pytest.mark.parametrize("rank", ["2097152", "-2097152", "4000000000", "1e3", "x"])
def test_ranks_that_would_be_taken_for_equal(folder, rank):
    file = write(folder / "terms.csv", f"concept,term,rank\nA,a,2097151\nA,b,{rank}\n")
    assert fails("table", file, f"{file}, row 3: the rank is not a whole number")
