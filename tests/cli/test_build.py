"""`kg build`: options, the report, what is refused, and what is left on disk."""

import json

import pytest

from medcoder.artefact import verify
from medcoder.kg import KG, KIND
from support.terminal import as_json, conso, left_in, medcoder, rel, write, write_umls

OBO = """format-version: 1.2
data-version: toy/releases/2026-01-01
ontology: toy

[Term]
id: TOY:1
name: [X]root
xref: UMLS:C0000001

[Term]
id: TOY:2
name: leaf
synonym: "Leaf [D]" EXACT []
alt_id: TOY:9
is_a: TOY:1
"""


@pytest.fixture
def release(tmp_path):
    return write_umls(tmp_path / "in" / "release")


@pytest.fixture
def out(tmp_path):
    """Where to build; all there is in its folder when nothing was left behind."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "new.kg"


def build(*arguments):
    return medcoder("kg", "build", *arguments)


def refused(result, code, *parts):
    """Whether it was refused with one line that has all these parts."""
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert str(part) in result.stderr
    return True


# The report


def test_umls(release, out):
    report = as_json("kg", "build", f"umls={release}", "--out", out)
    assert report["files"] == {
        "MRCONSO.RRF": {"read": 9, "kept": 8, "left_out": {"obsolete": 1}},
        "MRSTY.RRF": {"read": 2, "kept": 2, "left_out": {}},
        "MRREL.RRF": {"read": 4, "kept": 4, "left_out": {}},
    }
    lost = {"absent concept": 1, "concept to itself": 1}
    assert report["graph"]["edges"] == {"read": 4, "kept": 2, "left_out": lost}
    assert report == KG.open(out).report()
    verify(out, kind=KIND)
    assert left_in(out.parent) == ["new.kg"]


def test_the_report_adds_up(release, out):
    more = ("--obsolete", "--suppressed", "--memory", "64MB")
    report = as_json("kg", "build", f"umls={release}", "--out", out, *more)
    for part in ("files", "graph"):
        for name, count in report[part].items():
            assert count["read"] == count["kept"] + sum(count["left_out"].values()), name
    assert report["files"]["MRCONSO.RRF"]["kept"] == 9


def test_the_report_for_people(release, out):
    result = build(f"umls={release}", "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert rows[0] == "read from rows kept left out"
    assert "MRCONSO.RRF 9 8 obsolete 1" in rows
    assert "graph: edges 4 2 absent concept 1, concept to itself 1" in rows
    assert f"KG({str(out)!r}: 7 concepts, 8 terms, 2 edges)" in rows
    assert " MB in " in rows[-1]


def test_table(tmp_path, out):
    source = write(tmp_path / "own.csv", 'code,label\n1,"[D]a, b"\n2,c\n3,\n')
    report = as_json("kg", "build", f"table={source}", "--column", "term=label", "--out", out)
    assert report["files"] == {"own.csv": {"read": 3, "kept": 2, "left_out": {"empty term": 1}}}
    assert KG.open(out).preferred("1") == "[D]a, b"


def test_obo(tmp_path, out):
    source = write(tmp_path / "toy.obo", OBO)
    report = as_json("kg", "build", f"obo={source}", "--out", out)
    assert report["files"]["toy.obo terms"] == {"read": 3, "kept": 3, "left_out": {}}
    kg = KG.open(out)
    assert kg.preferred("TOY:1") == "[X]root"
    assert kg.find_code("TOY", "9") == ["TOY:2"]
    assert next(v for v in kg.vocabularies if v.name == "TOY").version == "2026-01-01"


def test_languages_and_vocabularies(release, out):
    more = [conso("C0000002", "Ausschlag", language="GER", sab="DMDICD10")]
    write_umls(release, terms=more)
    report = as_json("kg", "build", f"umls={release}", "--languages", "SPA, de", "--out", out)
    assert report["files"]["MRCONSO.RRF"]["left_out"] == {"obsolete": 1, "language": 7}
    assert KG.open(out).languages == ("es", "de")
    arguments = ("--vocabularies", "DMDICD10", "--overwrite")
    report = as_json("kg", "build", f"umls={release}", "--out", out, *arguments)
    assert report["files"]["MRCONSO.RRF"]["left_out"] == {"obsolete": 1, "vocabulary": 8}
    assert list(KG.open(out)) == ["C0000002"]


def test_merge_by(release, tmp_path, out):
    obo = write(tmp_path / "toy.obo", OBO)
    arguments = (f"umls={release}", f"obo={obo}", "--merge-by", "xrefs, UMLS", "--out", out)
    report = as_json("kg", "build", *arguments)
    assert (report["merged"], report["refused"]) == (1, 0)
    assert (out / "merges.tsv").read_text(encoding="utf-8").splitlines()[1:] == [
        "merged\tC0000001\tTOY:1\tUMLS:C0000001\t"
    ]
    entry = as_json("kg", "show", "TOY:1", "--kg", out)
    assert entry["id"] == "C0000001"
    assert [term["text"] for term in entry["terms"] if term["source"] == "TOY"] == ["[X]root"]
    text = build(*arguments, "--overwrite").stdout
    assert "1 merged, 0 refused: see merges.tsv" in text


def test_merging_nothing_is_said(release, out):
    text = build(f"umls={release}", "--merge-by", "xrefs", "--out", out).stdout
    assert "0 merged, 0 refused: see merges.tsv" in text


# What is there already


def test_a_graph_is_not_overwritten_unasked(release, out):
    assert build(f"umls={release}", "--out", out).exit_code == 0
    before = (out / "meta.json").read_bytes()
    assert refused(build(f"umls={release}", "--out", out), 2, out, "exists")
    assert (out / "meta.json").read_bytes() == before
    write_umls(release, terms=[conso("C0000100", "new")])
    assert build(f"umls={release}", "--out", out, "--overwrite").exit_code == 0
    assert "C0000100" in KG.open(out)
    assert left_in(out.parent) == ["new.kg"]


def test_a_failed_build_leaves_the_old_graph(release, out):
    assert build(f"umls={release}", "--out", out).exit_code == 0
    before = (out / "meta.json").read_bytes()
    write(release / "MRREL.RRF", "C1|bad\n")
    assert refused(build(f"umls={release}", "--out", out, "--overwrite"), 3, "MRREL.RRF, row 1")
    assert (out / "meta.json").read_bytes() == before
    assert left_in(out.parent) == ["new.kg"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_not_a_graph_is_never_overwritten(release, out, kind):
    kept = write(out if kind == "file" else out / "thesis.txt", "years of work")
    assert refused(build(f"umls={release}", "--out", out), 2, "exists")
    assert refused(build(f"umls={release}", "--out", out, "--overwrite"), 4, "no meta.json")
    assert kept.read_text() == "years of work"


def test_the_folder_of_the_graph_is_made(release, tmp_path):
    place = tmp_path / "a" / "b" / "c.kg"
    assert build(f"umls={release}", "--out", place).exit_code == 0
    assert left_in(tmp_path / "a" / "b") == ["c.kg"]


def test_a_folder_that_cannot_be_made(release, tmp_path):
    file = write(tmp_path / "file", "x")
    assert refused(build(f"umls={release}", "--out", file / "c.kg"), 2, file)
    assert file.read_text() == "x"


# Wrong usage


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["umsl=x"], ["no source is called 'umsl'", "did you mean 'umls'?", "obo, omop, open"]),
        (["x.csv"], ["no source is called 'x.csv'", "There are:"]),
        (["umls"], ["umls: this source needs a path. Write umls=PATH"]),
        (["umls="], ["umls: this source needs a path. Write umls=PATH"]),
        (["open=x"], ["open: a bundled source takes no path. Write open"]),
        (["[/red]=x"], ["no source is called '[/red]'"]),
        (["open", "--memory", "much"], ["--memory 'much' is not a size"]),
        (["open", "--memory", "1MB"], ["too little memory: 1,048,576 bytes. Allow 64 MB or more"]),
        (["open", "--languages", ","], ["--languages ',' names none"]),
        (["open", "--vocabularies", " "], ["--vocabularies ' ' names none"]),
        (["open", "--column", "term=x"], ["--column is for the source 'table'"]),
        (["open", "--standard-only"], ["--standard-only is for the source 'omop'"]),
        (["table=x.csv", "--column", "term"], ["--column 'term': write OURS=THEIRS"]),
        (["table=x.csv", "--column", "=x"], ["--column '=x': write OURS=THEIRS"]),
        (["umls=~nobody-of-that-name/x"], ["no such home directory"]),
        (["umls=bad\udcff"], ["not UTF-8"]),
    ],
)
def test_wrong_usage(arguments, parts, out):
    assert refused(build(*arguments, "--out", out), 2, *parts)
    assert left_in(out.parent) == []


def test_unknown_columns(tmp_path, out):
    source = write(tmp_path / "own.csv", "concept,label[b]\n1,a\n")
    result = build(f"table={source}", "--column", "trem=label[b]", "--out", out)
    assert refused(result, 2, "no column is called 'trem'; did you mean 'term'?")
    result = build(f"table={source}", "--column", "term=x[/b]", "--out", out)
    assert refused(result, 3, "own.csv: no column for term", "concept, label[b]")


def test_strict(release, out):
    result = build(f"umls={release}", "--strict", "--out", out)
    assert refused(result, 3, "left out (absent concept)", "C9999999 RO|isa C0000001", "--strict")
    assert left_in(out.parent) == []


def test_filters_that_leave_nothing(release, out):
    result = build(f"umls={release}", "--languages", "xx", "--out", out)
    assert refused(result, 3, "no terms were left", "MRCONSO.RRF: 9 rows, 0 kept")
    assert left_in(out.parent) == []


# Bad input


@pytest.mark.parametrize("source", ["umls", "table", "obo", "rf2", "omop"])
def test_a_path_that_is_not_there(source, tmp_path, out):
    place = tmp_path / "[/red] none"
    assert refused(build(f"{source}={place}", "--out", out), 3, f"{place}: does not exist")


def test_a_bad_row_is_named_and_nothing_is_left(release, out):
    with (release / "MRREL.RRF").open("a") as file:
        file.write(rel("C0000001", "isa", "C0000003") + "\nC0000001|A1|CUI\n")
    result = build(f"umls={release}", "--out", out)
    assert refused(result, 3, f"{release / 'MRREL.RRF'}, row 6: 2 fields where 16 were expected")
    assert left_in(out.parent) == []


def test_errors_do_not_reach_json(release, out):
    write(release / "MRSTY.RRF", b"C1|T1|\xff|x|||\n")
    result = medcoder("kg", "build", f"umls={release}", "--out", out, "--json")
    assert refused(result, 3, "MRSTY.RRF, row 1: byte 0xff is not UTF-8")


def test_a_source_given_twice(release, out):
    report = as_json("kg", "build", f"umls={release}", f"umls={release}", "--out", out)
    assert report["graph"]["terms"] == {"read": 16, "kept": 8, "left_out": {"duplicate": 8}}
    assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report
