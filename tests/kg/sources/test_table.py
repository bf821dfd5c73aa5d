"""The table source: CSV, TSV and Parquet, on good and on evil input."""

import gzip

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.errors import InputError, UnknownName
from medcoder.kg.sources import open_source
from medcoder.kg.sources.table import TableSource
from medcoder.tables import frames
from medcoder.types import ReadOptions, Tally, Vocabulary
from support.releases import read as read_release

EVIL = [
    "NA",
    "null",
    "None",
    "nan",
    "",
    'a 5" catheter',
    '"quoted"',
    '"',
    "one\u2028line",
    "next\u0085line",
    " spaced ",
    "back\\slash",
    "bar|bar",
    "# no comment",
    "1e5",
    "真性红细胞增多症",
    "'single'",
    "a,b",
]


def read(path, **options):
    """All rows by part, as lists of tuples, and the tally."""
    return read_release(TableSource(path, ReadOptions(**options)))


def terms_of(path, **options):
    return [row[1] for row in read(path, **options)[0]["terms"]]


def error_of(path, **options):
    with pytest.raises(InputError) as caught:
        read(path, **options)
    return caught.value


def write(path, text, encoding="utf-8"):
    data = text if isinstance(text, bytes) else text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def quote(text):
    return '"' + text.replace('"', '""') + '"'


def write_table(path, columns):
    """The same table in the format that the name asks for."""
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
        return path
    if ".csv" in path.name:
        return write(path, "".join(",".join(map(quote, row)) + "\n" for row in rows))
    return write(path, "".join("\t".join(row) + "\n" for row in rows))


@pytest.fixture(params=["terms.csv", "terms.csv.gz", "terms.tsv", "terms.tsv.gz", "terms.parquet"])
def name(request):
    return request.param


# One table, five formats.


def test_full_row(tmp_path, name):
    columns = {
        "concept": ["C1", "C1", "C2"],
        "term": ["Heart attack", "Herzinfarkt", "Cold"],
        "language": ["ENG", "ger", "en_US"],
        "source": ["HP", "", "MSH"],
        "code": ["HP:1", "", "D1"],
        "kind": ["PT", "", "SY"],
        "rank": ["3", "", "-2"],
        "preferred": ["", "Yes", "1"],
        "type": ["Disease|Finding", "Finding | Disease", ""],
    }
    rows, tally = read(write_table(tmp_path / name, columns))
    assert rows["terms"] == [
        ("C1", "Heart attack", "en", "HP", "HP:1", "PT", 3),
        ("C1", "Herzinfarkt", "de", "TERMS", "C1", "", 0),
        ("C2", "Cold", "en-us", "MSH", "D1", "SY", -2),
    ]
    assert rows["types"] == [("C1", "Disease", "Disease"), ("C1", "Finding", "Finding")]
    assert (tally[name].read, tally[name].kept) == (3, 3)


def test_evil_terms_survive(tmp_path, name):
    columns = {"concept": ["C1"] * len(EVIL), "term": EVIL}
    rows, tally = read(write_table(tmp_path / name, columns))
    assert [row[1] for row in rows["terms"]] == [term for term in EVIL if term]
    assert tally[name].read == len(EVIL)
    assert tally[name].left_out == {"empty term": 1}


def test_blank_and_null_terms_are_counted(tmp_path, name):
    columns = {"concept": ["C1", "C1", "C1"], "term": ["a", " \u3000", ""]}
    if name == "terms.parquet":
        columns["term"][2] = None
    rows, tally = read(write_table(tmp_path / name, columns))
    assert rows["terms"] == [("C1", "a", "en", "TERMS", "C1", "", 1)]
    assert tally[name].left_out == {"empty term": 2}


def test_empty_concept_is_an_error_with_its_row(tmp_path, name):
    columns = {"concept": ["C1", "C2", " "], "term": ["a", "b", "c"]}
    error = error_of(write_table(tmp_path / name, columns))
    # The header of a text file is its first row.
    assert error.row == (3 if name == "terms.parquet" else 4)
    assert error.what == "the concept is empty"


def test_rows_are_counted_across_frames(tmp_path, name, monkeypatch):
    monkeypatch.setattr(frames, "CHUNK", 2)
    monkeypatch.setattr(frames, "BATCH", 2)
    monkeypatch.setattr("medcoder.tables.unquoted.BLOCK", 16)
    many = {"concept": [f"C{n}" for n in range(9)], "term": [f"term {n}" for n in range(9)]}
    many["type"] = ["A", "A|B"] * 4 + ["A"]
    rows, tally = read(write_table(tmp_path / name, many))
    assert [row[1] for row in rows["terms"]] == many["term"]
    assert tally[name].read == 9
    many["concept"] = ["C1"] * 8 + [""]
    error = error_of(write_table(tmp_path / name, many))
    assert error.row == (9 if name == "terms.parquet" else 10)
    many["concept"] = ["C1"] * 9
    rows, _ = read(write_table(tmp_path / name, many))
    assert rows["types"] == [("C1", "A", "A"), ("C1", "B", "B")]


def test_filters_add_up(tmp_path, name):
    columns = {
        "concept": ["C1", "C1", "C2", "C3", "C4"],
        "term": ["a", "b", "c", "", "e"],
        "lang": ["en", "fre", "en", "en", "de"],
        "sab": ["MSH", "MSH", "HP", "MSH", "HP"],
        "sty": ["T1", "T2", "T3", "T4", ""],
    }
    path = write_table(tmp_path / name, columns)
    rows, tally = read(path, languages=frozenset({"en"}), vocabularies=frozenset({"MSH"}))
    assert [row[:4] for row in rows["terms"]] == [("C1", "a", "en", "MSH")]
    assert tally[name].left_out == {"vocabulary": 2, "language": 1, "empty term": 1}
    # The type of a concept may stand beside a term that was left out.
    assert ("C1", "T2", "T2") in rows["types"]


def test_bad_rank(tmp_path, name):
    columns = {"concept": ["C1", "C1"], "term": ["a", "b"], "rank": ["1", "first"]}
    error = error_of(write_table(tmp_path / name, columns))
    assert error.row == (2 if name == "terms.parquet" else 3)
    assert "rank" in error.what


def test_no_rows(tmp_path, name):
    path = write_table(tmp_path / name, {"concept": [], "term": []})
    assert error_of(path).what == "has no rows"


def test_missing_column(tmp_path, name):
    path = write_table(tmp_path / name, {"concept": ["C1"], "wording": ["a"]})
    error = error_of(path)
    assert "no column for term: there are concept, wording" in str(error)
    assert error.remedy == "Name it: --column term=NAME"
    assert terms_of(path, columns=(("term", "Wording"),)) == ["a"]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "tsv.gz", "parquet"])
def test_empty_file(tmp_path, suffix):
    path = tmp_path / f"terms.{suffix}"
    path.write_bytes(b"")
    assert error_of(path).what == "is empty"


@pytest.mark.parametrize("suffix", ["csv.gz", "tsv.gz"])
def test_truncated_gzip(tmp_path, suffix):
    separator = "," if suffix.startswith("csv") else "\t"
    text = f"concept{separator}term\n" + "".join(
        f"C{n}{separator}{n * 7919 % 10007}\n" for n in range(20_000)
    )
    path = write(tmp_path / f"terms.{suffix}", text)
    path.write_bytes(path.read_bytes()[:-100])
    assert "gzip data is cut off or damaged" in error_of(path).what
    path.write_bytes(b"concept,term\nC1,a\n")
    assert "gzip data is cut off or damaged" in error_of(path).what


# CSV and TSV.


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["", "newline"])
@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_line_ends_and_byte_order_mark(tmp_path, newline, bom, end, suffix, separator):
    lines = [separator.join(row) for row in [("concept", "term"), ("C1", "a"), ("C2", "b")]]
    text = bom + newline.join(lines) + (newline if end else "")
    rows, _ = read(write(tmp_path / f"t.{suffix}", text))
    assert rows["terms"] == [
        ("C1", "a", "en", "T", "C1", "", 1),
        ("C2", "b", "en", "T", "C2", "", 1),
    ]


def test_quoted_line_ends_do_not_end_rows(tmp_path):
    text = 'concept,term\nC1,"two\nlines"\nC2,"two\r\nlines, ""quoted"""\nC3,5" nail\nC4,\n'
    rows, tally = read(write(tmp_path / "terms.csv", text))
    assert [row[1] for row in rows["terms"]] == ["two\nlines", 'two\r\nlines, "quoted"', '5" nail']
    assert tally["terms.csv"].read == 4


def test_csv_row_after_a_quoted_line_end(tmp_path):
    path = write(tmp_path / "terms.csv", 'concept,term\nC1,"two\nlines"\nC2,a,b\n')
    error = error_of(path)
    assert (error.what, error.row) == ("3 fields where 2 were expected", 3)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"C2", "1 fields where 2 were expected"),
        (b'C2,"open', "broken quotes"),
        (b'C2,"a"b', "broken quotes"),
        (b"", "an empty row"),
        (b"C2,caf\xe9", "byte 0xe9 is not UTF-8"),
        (b"C2,\xed\xa0\x80", "byte 0xed is not UTF-8"),
    ],
)
def test_bad_csv_row(tmp_path, line, what):
    path = write(tmp_path / "terms.csv", b"concept,term\nC1,a\n" + line + b"\nC3,c\n")
    error = error_of(path)
    assert error.what.startswith(what)
    assert error.row == 3
    assert error.file == str(path)


def test_bad_byte_far_into_a_csv(tmp_path):
    lines = [b"concept,term,note"] + [f"C{n},term {n},".encode() for n in range(9000)]
    lines[5000] = b"C5,a,\xff"  # in a column that is not read
    error = error_of(write(tmp_path / "terms.csv", b"\n".join(lines)))
    assert (error.what, error.row) == ("byte 0xff is not UTF-8", 5001)


def test_blank_lines_at_the_end_of_a_csv(tmp_path):
    assert terms_of(write(tmp_path / "terms.csv", "concept,term\nC1,a\n\n\r\n")) == ["a"]


def test_unclosed_quote_names_the_row_that_opens_it(tmp_path):
    text = 'concept,term\nC1,a\nC2,"b\n' + "C3,c\n" * 60_000
    error = error_of(write(tmp_path / "terms.csv", text))
    assert error.what.startswith("broken quotes")
    assert error.row == 3


@pytest.mark.parametrize(
    ("text", "what"), [("\n", "the header is empty"), ("\nconcept,term\nC1,a\n", "an empty row")]
)
def test_csv_without_header(tmp_path, text, what):
    error = error_of(write(tmp_path / "terms.csv", text))
    assert (error.what, error.row) == (what, 1)


def test_utf_16_is_named(tmp_path):
    path = write(tmp_path / "terms.csv", "concept,term\nC1,a\n", "utf-16")
    assert error_of(path).what == "byte 0xff is not UTF-8"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"C2", "1 fields where 2 were expected"),
        (b"C2\ta\tb", "3 fields where 2 were expected"),
        (b"C2\tcaf\xe9", "byte 0xe9 is not UTF-8"),
    ],
)
def test_bad_tsv_row(tmp_path, line, what):
    path = write(tmp_path / "terms.tsv", b"concept\tterm\nC1\ta\n" + line + b"\nC3\tc\n")
    error = error_of(path)
    assert (error.what, error.row) == (what, 3)


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


@settings(deadline=None, max_examples=50)
@given(st.lists(TEXT, max_size=20))
def test_csv_round_trip(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("csv") / "terms.csv"
    terms = ["x", *texts]
    lines = ["concept,term", *(f"C1,{quote(term)}" for term in terms)]
    write(path, "\r\n".join(lines) + "\r\n")
    assert terms_of(path) == [term for term in terms if pl.Series([term]).str.strip_chars()[0]]


# Parquet.


def test_parquet_types(tmp_path):
    table = pa.table(
        {
            "concept": pa.array([22298006, 9007199254740993]),
            "term": pa.array([b"NA", "é".encode()]),
            "lang": pa.array(["en", None]).dictionary_encode(),
            "is_preferred": pa.array([True, None]),
            "rank": pa.array([None, 5.0]),
            "kind": pa.nulls(2),
            "source": pa.array(["A", "B"], pa.string_view()),
        }
    )
    pq.write_table(table, tmp_path / "terms.parquet")
    assert read(tmp_path / "terms.parquet")[0]["terms"] == [
        ("22298006", "NA", "en", "A", "22298006", "", 0),
        ("9007199254740993", "é", "en", "B", "9007199254740993", "", 5),
    ]


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([1.5]),
        pa.array([1e17]),  # beyond what a float keeps of a SNOMED CT id
        pa.array([float("nan")]),
        pa.array([["C1"]]),
        pa.array([{"id": "C1"}]),
    ],
)
def test_parquet_ids_that_are_not_text(tmp_path, ids):
    pq.write_table(pa.table({"concept": ids, "term": ["a"]}), tmp_path / "terms.parquet")
    error = error_of(tmp_path / "terms.parquet")
    assert str(error.values).startswith("'concept' is of type")
    assert "as text" in error.remedy


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_parquet_with_bad_utf8(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(frames, "BATCH", 2)
    data = pa.array([b"a", None, b"b", b"caf\xe9"])
    if kind != pa.binary():
        wide = kind == pa.large_string()
        data = data.cast(pa.large_binary()) if wide else data
        data = pa.Array.from_buffers(kind, 4, data.buffers())
    table = pa.table({"concept": ["C1"] * 4, "term": data})
    pq.write_table(table, tmp_path / "terms.parquet")
    error = error_of(tmp_path / "terms.parquet")
    assert (error.what, error.row) == ("byte 0xe9 is not UTF-8", 4)


@pytest.mark.parametrize("damage", ["head", "tail", "page", "text"])
def test_damaged_parquet(tmp_path, damage):
    path = tmp_path / "terms.parquet"
    table = pa.table({"concept": [f"C{n}" for n in range(5000)], "term": ["a"] * 5000})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    if damage == "head":
        data = data[1000:]
    elif damage == "tail":
        data = data[:-1000]
    elif damage == "page":
        data[data.index(b"C4321")] = ord("D")  # well-formed, but not what was written
    else:
        data = b"concept,term\nC1,a\n"
    path.write_bytes(data)
    error = error_of(path)
    assert error.what.startswith("cannot be read as Parquet")
    assert "\n" not in str(error)


# Columns.


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("CUI,STR,LAT,SAB,CODE,TTY,ISPREF", "C1,a,ENG,MSH,D1,PT,Y"),
        ("concept_id,name,lang,vocabulary,source_id,syn_type,is_preferred", "C1,a,en,MSH,D1,PT,t"),
        (" Id , Label ,Language,Source,Code,Kind,Preferred", "C1,a,eng,MSH,D1,PT,TRUE"),
    ],
)
def test_other_names(tmp_path, header, row):
    rows, _ = read(write(tmp_path / "terms.csv", f"{header}\n{row}\n"))
    assert rows["terms"] == [("C1", "a", "en", "MSH", "D1", "PT", 0)]


def test_a_list_of_codes_and_names(tmp_path):
    rows, _ = read(write(tmp_path / "icd10.csv", "code,description\nA00,Cholera\n"))
    assert rows["terms"] == [("A00", "Cholera", "en", "ICD10", "A00", "", 1)]


def test_the_most_telling_name_wins(tmp_path):
    rows, _ = read(write(tmp_path / "terms.csv", "cui,concept_id,str,term\nU,C,s,t\n"))
    assert rows["terms"][0][:2] == ("C", "t")


def test_named_columns_win(tmp_path):
    path = write(tmp_path / "terms.csv", "concept,term,^a$,cui\nC,t,x,U\n")
    rows, _ = read(path, columns=(("concept", "CUI"), ("term", "^a$")))
    assert rows["terms"][0][:2] == ("U", "x")


def test_named_columns_must_be_there(tmp_path):
    path = write(tmp_path / "terms.csv", "concept,term\nC,t\n")
    error = error_of(path, columns=(("term", "nmae"),))
    assert error.what == "no such column for term"
    assert error.values == "'nmae'; terms.csv has concept, term"
    assert "no file has a use for it" in error_of(path, columns=(("head", "h"),)).values
    with pytest.raises(UnknownName, match="did you mean 'term'"):
        TableSource(path, ReadOptions(columns=(("trem", "term"),)))


def test_a_named_column_may_be_in_one_file_only(tmp_path):
    write(tmp_path / "terms.csv", "sctid,term\nC1,t\n")
    write(tmp_path / "xrefs.csv", "concept,xref\nC1,UMLS:C0001\n")
    rows, _ = read(tmp_path, columns=(("concept", "sctid"),))
    assert rows["terms"][0][0] == rows["xrefs"][0][0] == "C1"


@pytest.mark.parametrize("header", ["concept,term,term", "concept,term,TERM", "concept,term,,"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_two_columns_of_one_name(tmp_path, header, suffix):
    text = header + "\n" + "a," * header.count(",") + "a\n"
    if suffix == "tsv":
        text = text.replace(",", "\t")
    path = write(tmp_path / f"terms.{suffix}", text)
    assert error_of(path).what == "two columns have the same name"


@pytest.mark.parametrize(
    ("value", "rank"),
    [("true", 0), ("TRUE", 0), ("1", 0), ("yes", 0), ("Y", 0), ("t", 0), ("0", 1), ("no", 1)],
)
def test_preferred(tmp_path, value, rank):
    path = write(tmp_path / "terms.csv", f"concept,term,preferred\nC1,a, {value} \n")
    assert read(path)[0]["terms"][0][-1] == rank


# Folders.


def test_folder(tmp_path):
    folder = tmp_path / "my_terms"
    folder.mkdir()
    write(folder / "Core_Concepts_Terms.tsv", "concept\tterm\nC1\ta\nC2\tb\n")
    write(folder / "core_edges.csv.gz", "subject,predicate,object\nC1,is_a,C2\nC1,is_a,C9\n")
    write(folder / "xrefs.csv", "concept,xref\nC1,UMLS:C0001\n")
    write(folder / "semantic_types.csv", "cui,tui,sty\nC1,T047,Disease\nC2,,\n")
    write(folder / "vocabularies.csv", "name,version\nMSH,2024\nHP,\n")
    write(folder / "._terms.csv", b"\x00\x05\x16\x07")
    write(folder / "notes.txt", "not a table")
    write(folder / "xrefs_rel.csv", "not,a\nrole\n")
    (folder / "old_terms.csv").mkdir()
    rows, tally = read_with_vocabularies(folder)
    assert rows == {
        "terms": [
            ("C1", "a", "en", "MY_TERMS", "C1", "", 1),
            ("C2", "b", "en", "MY_TERMS", "C2", "", 1),
        ],
        "types": [("C1", "T047", "Disease")],
        "xrefs": [("C1", "UMLS", "C0001", "xref")],
        "flags": [],
        "edges": [("C1", "is_a", "C2"), ("C1", "is_a", "C9")],
        "vocabularies": [Vocabulary("MSH", "2024"), Vocabulary("HP")],
    }
    assert tally["semantic_types.csv"].left_out == {"empty type": 1}
    assert set(tally) == {
        "Core_Concepts_Terms.tsv",
        "core_edges.csv.gz",
        "xrefs.csv",
        "semantic_types.csv",
    }


def read_with_vocabularies(folder):
    source = TableSource(folder, ReadOptions())
    vocabularies = list(source.vocabularies())
    rows, tally = read(folder)
    return {**rows, "vocabularies": vocabularies}, tally


def test_types_without_names_take_their_ids(tmp_path):
    write(tmp_path / "terms.csv", "concept,term\nC1,a\n")
    write(tmp_path / "types.csv", "concept,type\nC1,Disease\n")
    assert read(tmp_path)[0]["types"] == [("C1", "Disease", "Disease")]


def test_terms_alone_have_no_vocabularies_and_no_edges(tmp_path):
    source = open_source(f"table={write(tmp_path / 'terms.csv', 'concept,term')}")
    assert list(source.vocabularies()) == list(source.edges(Tally())) == []


def test_xrefs(tmp_path):
    write(tmp_path / "terms.csv", "concept,term\nC1,a\n")
    xrefs = ["UMLS:C0001", "ALT:CHEBI:18484", " GO:a:b ", "11788", "ALT:0021", "MSH:", ":x", ""]
    xrefs += ["https://example.org/1", "ALT:://example.org", "HTTP://example.org"]
    write_table(tmp_path / "xrefs.parquet", {"concept": ["C1"] * len(xrefs), "xref": xrefs})
    rows, tally = read(tmp_path)
    assert rows["xrefs"] == [
        ("C1", "UMLS", "C0001", "xref"),
        ("C1", "CHEBI", "18484", "alt"),
        ("C1", "GO", "a:b", "xref"),
    ]
    assert tally["xrefs.parquet"].left_out == {"no vocabulary": 6, "web address": 2}


def test_xrefs_in_two_columns(tmp_path):
    write(tmp_path / "terms.csv", "concept,term\nC1,a\n")
    path = write(tmp_path / "xrefs.csv", "concept,source,code\nC1,UMLS,C0001\nC1,,x\nC1,HP, \n")
    rows, tally = read(tmp_path)
    assert rows["xrefs"] == [("C1", "UMLS", "C0001", "xref")]
    assert tally["xrefs.csv"].left_out == {"no vocabulary": 2}
    write(path, "concept,code\nC1,x\n")
    assert "no column for xref: there are concept, code" in str(error_of(tmp_path))


def test_relations_that_are_incomplete(tmp_path):
    write(tmp_path / "terms.csv", "concept,term\nC1,a\n")
    path = write(tmp_path / "relations.csv", "head,tail\nC1,C1\n")
    assert "no column for relation: there are head, tail" in str(error_of(tmp_path))
    for cells, what in [(",is_a,C1", "head"), ("C1,,C1", "relation"), ("C1,is_a,", "tail")]:
        write(path, f"head,relation,tail\nC1,is_a,C1\n{cells}\n")
        error = error_of(tmp_path)
        assert (error.what, error.row) == (f"the {what} is empty", 3)


def test_empty_relations_of_null_type(tmp_path):
    write(tmp_path / "terms.csv", "concept,term\nC1,a\n")
    nulls = dict.fromkeys(("head", "relation", "tail"), pa.nulls(0))
    pq.write_table(pa.table(nulls), tmp_path / "relations.parquet")
    rows, tally = read(tmp_path)
    assert rows.get("edges", []) == []
    assert tally["relations.parquet"].read == 0


def test_swapped_files(tmp_path):
    write(tmp_path / "terms.csv", "head,relation,tail\nC1,is_a,C2\n")
    write(tmp_path / "relations.csv", "concept,term\nC1,a\n")
    error = error_of(tmp_path)
    assert "no column for concept and term: there are head, relation, tail" in str(error)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["terms.csv", "terms.csv.gz"], "terms.csv and terms.csv.gz"),
        (["a_terms.csv", "b_terms.tsv"], "a_terms.csv and b_terms.tsv"),
        (["terms.csv", "edges.csv", "relations.csv"], "edges.csv and relations.csv"),
        (["relations.csv"], "no file of terms here"),
    ],
)
def test_roles_must_be_clear(tmp_path, names, what):
    for file in names:
        write(tmp_path / file, "concept,term\nC1,a\n")
    assert what in str(error_of(tmp_path))


def test_files_that_are_not_there_or_no_tables(tmp_path):
    assert error_of(tmp_path / "absent.csv").what == "does not exist"
    path = write(tmp_path / "terms.xlsx", "PK")
    assert error_of(path).what == "is no table that can be read"
    assert error_of(tmp_path / "absent").what == "does not exist"
