"""Tables to projects: every row once, and going on after an interrupt."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import medcoder
from attack import bomb_files
from medcoder.errors import ArtefactError, InputError, TooLarge, UsageError
from medcoder.mapping import Project, batch, lookup, map_table
from medcoder.tables.limits import Limits
from support.maps import TEXTS, FakeMapper, Stops, mapped, read_rows, write_rows


def test_the_public_name():
    assert medcoder.map_table is map_table


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(st.sampled_from([*TEXTS, "  MI", "Fever", "'x", 'q"\n,']), max_size=30))
def test_against_mapping_row_by_row(tmp_path_factory, texts):
    """The same as asking for each row alone."""
    folder = tmp_path_factory.mktemp("naive")
    source = pa.table({"text": pa.array(texts, pa.string())})
    found = mapped(source, folder / "out", precision=0.9).to_arrow().to_pylist()
    assert [row["text"] for row in found] == texts
    for row in found:
        [answer] = FakeMapper().normalize_many(
            [" ".join(row["text"].split())], top=5, types=None, vocabularies=None, languages=None
        )
        if not answer.matches:
            assert (row["status"], row["concept"]) == ("none", "")
            continue
        assert row["concept"] == answer[0].concept
        assert row["confidence"] == round(answer.confidence, 4)
        assert row["status"] in ("auto", "review")


def test_bad_rows_are_kept_unmapped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,text\n1,fever\n2,fever,x\nfever\n3,cold\n")
    with pytest.raises(InputError, match="row 3: 3 fields, not 2"):
        mapped(path, tmp_path / "out")
    made = mapped(path, tmp_path / "kept", keep_bad_rows=True)
    rows = read_rows(made.file)[1:]
    assert [row[:2] + row[6:7] for row in rows] == [
        ["1", "fever", "auto"], ["2", "fever,x", "none"], ["fever", "", "none"],
        ["3", "cold", "review"],
    ]  # fmt: skip
    with made.project() as project:
        assert project.meta["bad_rows"] == 2


def long_texts(path):
    """A text of 1,000 characters in 12,000 rows."""
    pq.write_table(pa.table({"text": ["x" * 1000] * 12_000}), path, compression="zstd")


def long_shared_text(path):
    strings = (
        f'<sst xmlns="{bomb_files.SHEET}"><si><t>text</t></si><si><t>{"x" * 1000}</t></si></sst>'
    )
    rows = [
        f'<row r="{row}"><c r="A{row}" t="s"><v>{int(row > 1)}</v></c></row>'
        for row in range(1, 12_001)
    ]
    bomb_files.workbook(path, "".join(rows), sharedStrings_xml=strings)


def rows_far_apart(path):
    """A workbook of a thousand columns and two rows, the second far below."""
    names = ["text", *map(str, range(999))]
    cells = "".join(f'<c t="inlineStr"><is><t>{name}</t></is></c>' for name in names)
    bomb_files.workbook(path, f'<row r="1">{cells}</row>' + bomb_files.inline("a", 12_000))


def short_rows(path):
    """Text with a thousand columns, of which its rows have the first alone."""
    path.write_text(",".join(["text", *map(str, range(999))]) + "\n" + "a\n" * 12_000)


@pytest.mark.parametrize(("name", "make"), [
    ("t.parquet", long_texts), ("t.xlsx", long_shared_text), ("far.xlsx", rows_far_apart),
    ("t.csv", short_rows),
])  # fmt: skip
def test_what_unpacks_to_too_much_is_refused_before_a_row_is_kept(
    tmp_path, monkeypatch, name, make
):
    monkeypatch.setattr(batch, "_BATCH", 100)
    make(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 100_000
    with pytest.raises(TooLarge, match=f"{name}, row .*: it unpacks to more than is allowed"):
        mapped(tmp_path / name, tmp_path / "out", keep_bad_rows=True, limits=Limits(unpacked=10**7))
    assert not (tmp_path / "out").exists()


def test_counts(tmp_path):
    source = pa.table({"text": ["fever", "cold", "MI"], "n": ["1,200", "", "3.0"]})
    made = mapped(source, tmp_path / "out", count="n")
    with made.project() as project:
        assert [one.row.count for one in project.mappings()] == [1200, 1, 3]
    for wrong in ("many", "-1", "1.5", "inf", "1_0"):
        source = pa.table({"text": ["fever"], "n": [wrong]})
        with pytest.raises(InputError, match=f"the count of data row 1 is .*: '{wrong}'"):
            mapped(source, tmp_path / wrong, count="n")


def test_an_interrupt_loses_the_batch_in_flight_only(tmp_path, monkeypatch):
    monkeypatch.setattr(lookup, "_BATCH", 2)
    monkeypatch.setattr(batch, "_BATCH", 3)
    rows = [(number, TEXTS[number % 9]) for number in range(40)]
    path = write_rows(tmp_path / "t.csv", ["id", "text"], rows)
    with pytest.raises(KeyboardInterrupt):
        mapped(path, tmp_path / "out", Stops(5))
    with Project.open(tmp_path / "out") as project:
        assert len(project) == 40
        assert not project.meta["complete"]
        assert project.counts()["auto"]["terms"] == 0  # nothing is trusted before the end
        project.decide(1, "C5", who="ann")  # review may begin
    again = FakeMapper()
    made = mapped(path, tmp_path / "out", again)
    assert len(again.asked) == 8 - 4
    whole = mapped(path, tmp_path / "whole")
    assert read_rows(made.file)[2:9] == read_rows(whole.file)[2:9]
    assert read_rows(made.file)[1][2:7:4] == ["C5", "approved"]


def test_reading_is_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "_BATCH", 3)
    rows = [(number, TEXTS[number % 9], number) for number in range(20)]
    path = write_rows(tmp_path / "t.csv", ["id", "text", "n"], rows)

    def stop(what, done, total):
        if done == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mapped(path, tmp_path / "out", count="n", progress=stop)
    with Project.open(tmp_path / "out") as project:
        assert len(project) == 9
    made = mapped(path, tmp_path / "out", count="n")
    whole = mapped(path, tmp_path / "whole", count="n")
    assert made.file.read_bytes() == whole.file.read_bytes()
    with made.project() as project, whole.project() as other:
        assert list(project.terms()) == list(other.terms())
        assert sum(one.row.count for one in project.terms()) == sum(range(20))


def test_what_is_done_is_not_done_again(ward, tmp_path):
    mapped(ward, tmp_path / "out")
    with Project.open(tmp_path / "out") as project:
        project.decide("puzzle", None, who="ann")
    again = FakeMapper()
    made = mapped(ward, tmp_path / "out", again)
    assert again.asked == []
    assert read_rows(made.file)[5][6] == "approved"


def test_another_project_is_left_alone(ward, tmp_path):
    mapped(ward, tmp_path / "out", code="id")
    for options, why in (
        ({"column": "id", "code": "id"}, "it maps the column 'text', not 'id'"),
        ({}, "its column of codes is 'id', not ''"),
        ({"code": "id", "top": 2}, "it keeps 5 candidates a row, not 2"),
        ({"code": "id", "vocabularies": ["MSH"]}, "restricted to the vocabularies"),
    ):
        with pytest.raises(UsageError, match=f"cannot be gone on with: .*{why}.*--out"):
            mapped(ward, tmp_path / "out", **options)
    with pytest.raises(UsageError, match=r"terminology .* changed.*medcoder map refresh"):
        mapped(ward, tmp_path / "out", FakeMapper(version="2"), code="id")
    ward.write_text("id,text\n1,fever\n")
    with pytest.raises(UsageError, match="the input has changed"):
        mapped(ward, tmp_path / "out", code="id")


def test_two_runs_at_once_do_not_mix(ward, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "_BATCH", 2)

    def other(what, done, total):
        if done == 2:
            mapped(ward, tmp_path / "out")

    with pytest.raises(ArtefactError, match="another process is mapping into"):
        mapped(ward, tmp_path / "out", progress=other)
    with Project.open(tmp_path / "out") as project:
        assert [one.row.number for one in project.mappings()] == list(range(1, 10))


def test_meta_is_json(ward, tmp_path):
    with mapped(ward, tmp_path / "out", source_vocabulary={"name": "WARD"}).project() as project:
        meta = json.loads(json.dumps(project.meta))
    assert meta["source_vocabulary"] == {"name": "WARD", "uri": "", "version": ""}
    assert (meta["file"], meta["format"], meta["rows"]) == ("ward.csv", "csv", 9)
