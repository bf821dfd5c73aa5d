"""Tables to projects: every row once, every string once, promises, contexts, resuming, refresh."""

import csv
import json
from collections import Counter
from dataclasses import replace

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import medcoder
from medcoder import Normalizer
from medcoder.errors import ArtefactError, InputError, UnknownName, UsageError
from medcoder.mapping import Project, batch, lookup, map_table, refresh, write_results
from medcoder.mapping.auto_threshold import auto_threshold, floor
from medcoder.mapping.columns import unique_names
from medcoder.mapping.project import rows as project_rows
from medcoder.mapping.project.decisions import UNCHECKED
from medcoder.mapping.project_table import ProjectTable, is_old, write
from medcoder.mapping.refresh import learn
from medcoder.mapping.report import summarise
from support.maps import ANSWERS, NAMES, FakeMapper

TEXTS = ["heart attack", "MI", "fever", "cold", "puzzle", "=cmd()", "", "cefalea", "heart attack"]


def write_rows(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def read_rows(path):
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


@pytest.fixture
def ward(tmp_path):
    rows = [(number, text) for number, text in enumerate(TEXTS, 1)]
    return write_rows(tmp_path / "ward.csv", ["id", "text"], rows)


def mapped(source, out, mapper=None, **options):
    options = {"column": "text"} | options
    return map_table(source, out=out, normalizer=mapper or FakeMapper(), **options)


def test_the_public_name():
    assert medcoder.map_table is map_table


# What comes out


def test_every_row_comes_out_once_in_order(ward, tmp_path):
    made = mapped(ward, tmp_path / "out", top=3)
    assert made.file == tmp_path / "out" / "mapped.csv"
    header, *rows = read_rows(made.file)
    assert header == ["id", "text", "concept", "name", "code", "confidence", "status", "other_1",
                      "other_2"]  # fmt: skip
    assert [row[0] for row in rows] == [str(number) for number in range(1, 10)]
    assert [row[1] for row in rows] == [*TEXTS[:5], "'=cmd()", *TEXTS[6:]]
    assert [row[6] for row in rows] == [
        "auto", "review", "auto", "review", "none", "none", "none", "auto", "auto"
    ]  # fmt: skip
    assert rows[0][2:] == ["C1", "Heart attack", "MSH:D1|ICD10CM:I1", "0.999", "auto",
                           "C2 Fever (0.01)", ""]  # fmt: skip
    assert rows[4][2:] == ["", "", "", "", "none", "C5 Headache (0.05)", ""]
    assert rows[8][2:] == rows[0][2:]


def test_each_string_is_looked_up_once(tmp_path):
    rows = [(number, TEXTS[number % 5] + " " * (number % 3)) for number in range(1000)]
    path = write_rows(tmp_path / "t.csv", ["id", "text"], rows)
    mapper = FakeMapper()
    mapped(path, tmp_path / "out", mapper, code="id")
    assert sorted(mapper.asked) == sorted(TEXTS[:5])


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


def test_the_format_of_the_input_is_that_of_the_results(tmp_path):
    table = pa.table({"n": pa.array([1, None], pa.int32()), "text": ["fever", "=x"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    made = mapped(tmp_path / "t.parquet", tmp_path / "p")
    found = parquet.read_table(made.file)
    assert found.schema.field("n").type == pa.int32()
    assert found.column("n").to_pylist() == [1, None]
    assert found.column("text").to_pylist() == ["fever", "=x"]  # Parquet runs no formulas
    assert found.column("confidence").to_pylist() == [0.99, None]
    assert made.to_arrow() == found

    book = openpyxl.Workbook()
    for row in (["text", "n"], ["fever", 1.5], ["cold", None], ["+1 x", True]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    made = mapped(tmp_path / "t.xlsx", tmp_path / "x", top=1)
    sheet = openpyxl.load_workbook(made.file).active
    assert [[cell.value for cell in row] for row in sheet.iter_rows()] == [
        ["text", "n", "concept", "name", "code", "confidence", "status"],
        ["fever", 1.5, "C2", "Fever", "MSH:D2|ICD10CM:I2", 0.99, "auto"],
        ["cold", None, "C3", "Common cold", "MSH:D3|ICD10CM:I3", 0.55, "review"],
        ["'+1 x", True, None, None, None, None, "none"],
    ]
    assert {cell.data_type for row in sheet.iter_rows() for cell in row} <= {
        "s",
        "n",
        "b",
        "inlineStr",
    }

    path = tmp_path / "t.tsv"
    path.write_bytes("text\tn\nfever\t1\n".encode("utf-16"))
    made = mapped(path, tmp_path / "t", top=1)
    assert made.file.name == "mapped.tsv"
    assert made.file.read_text("utf-8-sig").splitlines()[1].split("\t")[:3] == ["fever", "1", "C2"]


def test_frames_come_back_as_they_were(tmp_path):
    data = {"n": [1, 2], "text": ["fever", "puzzle"]}
    made = mapped(pd.DataFrame(data, index=["a", "b"]), tmp_path / "pandas")
    frame = made.to_pandas()
    assert list(frame.index) == ["a", "b"]
    assert frame["n"].tolist() == [1, 2]
    assert frame["status"].tolist() == ["auto", "none"]
    made = mapped(pl.DataFrame(data), tmp_path / "polars")
    assert made.to_polars()["concept"].to_list() == ["C2", ""]
    assert made.to_polars()["n"].dtype == pl.Int64
    with made.project() as project:
        project.decide(2, "C5", who="ann")
    assert made.to_polars()["status"].to_list() == ["auto", "approved"]  # as it stands now


def test_names_that_are_taken():
    taken = ["status", "mapped_name"]
    assert unique_names(["concept", "name", "status"], taken)[0] == "mapped_mapped_concept"


def test_no_rows(tmp_path):
    path = write_rows(tmp_path / "t.csv", ["id", "text"], [])
    made = mapped(path, tmp_path / "out")
    assert len(read_rows(made.file)) == 1
    assert made.to_arrow().num_rows == 0
    with made.project() as project:
        assert project.meta["complete"]
        assert project.meta["threshold"] is None


# The promise


def naive_threshold(entries, precision):
    """The lowest confidence with which all weighted means reach the promise."""
    best = None
    for least in sorted({sure for sure, *_ in entries if sure >= floor(precision)}):
        kept = [entry for entry in entries if entry[0] >= least]
        means = [
            sum(entry[0] * entry[part] for entry in kept) / sum(entry[part] for entry in kept)
            for part in (1, 2)
        ]
        if min(means) >= precision:
            return least
    return best


CONFIDENCES = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 50)), min_size=1, max_size=12,
    unique_by=lambda pair: pair[0],
)  # fmt: skip


@given(drawn=CONFIDENCES, precision=st.sampled_from([0.6, 0.9, 0.98]))
def test_the_threshold_is_the_lowest_that_keeps_the_promise(tmp_path_factory, drawn, precision):
    answers = {f"t{sure}": [("C1", sure / 1000)] for sure, _ in drawn}
    source = pa.table({"text": [f"t{sure}" for sure, _ in drawn], "n": [n for _, n in drawn]})
    out = tmp_path_factory.mktemp("promise")
    made = mapped(source, out, FakeMapper(answers=answers), count="n", precision=precision)
    entries = [(sure / 1000, 1, n) for sure, n in drawn if sure >= 100]
    with made.project() as project:
        meta = project.meta
        auto = {mapping.confidence for mapping in project.mappings("auto")}
    wanted = naive_threshold(entries, precision)
    if meta["threshold"] != wanted:  # but for rounding at the very edge
        kept = [entry for entry in entries if entry[0] >= min(meta["threshold"] or 2, wanted or 2)]
        mean = min(
            sum(entry[0] * entry[part] for entry in kept) / sum(entry[part] for entry in kept)
            for part in (1, 2)
        )
        assert mean == pytest.approx(precision)
        return
    assert auto == {sure for sure, *_ in entries if wanted is not None and sure >= wanted}
    if wanted is not None:
        assert meta["expected"]["terms"] == pytest.approx(sum(auto) / len(auto))
        assert min(meta["expected"].values()) >= precision


def test_another_precision_moves_the_threshold_only(ward, tmp_path):
    made = mapped(ward, tmp_path / "out", precision=0.999)
    mapper = FakeMapper()
    with made.project() as project:
        assert project.counts()["auto"]["terms"] == 1
        assert auto_threshold(project, 0.9)["threshold"] == 0.93
    made = mapped(ward, tmp_path / "out", mapper, precision=0.9)
    assert mapper.asked == []
    with made.project() as project:
        assert project.counts()["auto"]["terms"] == 4


@pytest.mark.parametrize("precision", [0.4, 1.0, 1.2])
def test_promises_that_make_no_sense(ward, tmp_path, precision):
    with pytest.raises(UsageError, match=f"below 1: {precision}"):
        mapped(ward, tmp_path / "out", precision=precision)
    assert not (tmp_path / "out").exists()


# Context


def test_context_restricts_row_by_row(tmp_path):
    rows = [("cold", ""), ("cold", "symptom"), ("cold", "disease|symptom"), ("cold", "specimen"),
            ("cold", "symptom"), ("MI", "specimen"), ("cold", "specimen;symptom")]  # fmt: skip
    path = write_rows(tmp_path / "t.csv", ["text", "kind"], rows)
    mapper = FakeMapper()
    made = mapped(path, tmp_path / "out", mapper, context={"kind": "type"})
    assert made.to_polars()["concept"].to_list() == ["C3", "C4", "C3", "C3", "C4", "C1", "C4"]
    with made.project() as project:
        assert project.meta["unknown_context"] == {"kind": {"specimen": 2}}
    assert Counter(mapper.asked) == {"cold": 3, "MI": 1}  # once for each restriction


def test_unknown_values_are_counted_and_not_all_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(project_rows, "_VALUES", 2)
    source = pa.table({"text": ["cold"] * 5, "v": ["A", "B", "C", "A", "D"]})
    made = mapped(source, tmp_path / "out", context={"v": "vocabulary"})
    with made.project() as project:
        assert project.meta["unknown_context"] == {"v": {"A": 2, "B": 1, "(others)": 2}}


def test_vocabularies_restrict_the_codes_and_a_row_may_say_otherwise(tmp_path):
    source = pa.table({"text": ["fever", "fever"], "v": ["", "MSH"]})
    made = mapped(source, tmp_path / "out", context={"v": "vocabulary"}, vocabularies=["ICD10CM"])
    assert made.to_polars()["code"].to_list() == ["ICD10CM:I2", "MSH:D2"]
    with pytest.raises(UnknownName, match="no vocabulary 'X'"):
        mapped(source, tmp_path / "other", vocabularies=["X"])
    assert not (tmp_path / "other").exists()


def test_a_hint_ranks_anew_and_is_never_automatic_alone(tmp_path):
    answers = ANSWERS | {"mi feeling": [("C3", 0.99)], "fever feeling": [("C2", 0.7)]}
    source = pa.table({"text": ["cold", "cold", "fever", "MI"], "how": ["", "feeling"] + [
        "feeling"] * 2})  # fmt: skip
    made = mapped(
        source, tmp_path / "out", FakeMapper(answers=answers), context={"how": "hint"},
        precision=0.95,
    )  # fmt: skip
    found = made.to_polars()
    assert found["concept"].to_list() == ["C3", "C4", "C2", "C3"]
    assert found["status"].to_list() == ["review", "review", "auto", "review"]
    assert found["confidence"].to_list() == [0.55, 0.45, 0.99, 0.2]  # those of the string alone


class Namesakes(FakeMapper):
    """The first two candidates of each string bear the same name."""

    def normalize_many(self, texts, **options):
        for answer in super().normalize_many(texts, **options):
            yield replace(answer, namesakes=2)


def test_concepts_of_one_name_share_its_confidence(tmp_path):
    answers = {"flu": [("C3", 0.98), ("C4", 0.98), ("C2", 0.1)], "flu feeling": [("C4", 0.5)]}
    source = pa.table({"text": ["flu", "flu"], "how": ["", "feeling"]})
    made = mapped(
        source, tmp_path / "out", Namesakes(answers=answers), context={"how": "hint"}, precision=0.9
    )
    found = made.to_polars()
    assert found["concept"].to_list() == ["C3", "C4"]
    assert found["status"].to_list() == ["review", "review"]  # though the name is all but certain
    assert found["confidence"].to_list() == [0.49, 0.49]
    with made.project() as project:
        shares = [[one.confidence for one in mapping.candidates] for mapping in project.terms()]
        assert shares == [[0.49, 0.49, 0.1]] * 2
        expected = summarise(project)["threshold"]  # the report has them on the same side
        assert (expected["above"]["terms"], expected["below"]["terms"]) == (0, 2)


def test_roles_that_there_are_not(ward, tmp_path):
    with pytest.raises(
        UsageError, match=r"context column: id=unit\. A column can be type, vocabulary"
    ):
        mapped(ward, tmp_path / "out", context={"id": "unit"})


# Bad rows and counts


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


def test_counts(tmp_path):
    source = pa.table({"text": ["fever", "cold", "MI"], "n": ["1,200", "", "3.0"]})
    made = mapped(source, tmp_path / "out", count="n")
    with made.project() as project:
        assert [one.row.count for one in project.mappings()] == [1200, 1, 3]
    for wrong in ("many", "-1", "1.5", "inf", "1_0"):
        source = pa.table({"text": ["fever"], "n": [wrong]})
        with pytest.raises(InputError, match=f"the count of data row 1 is '{wrong}'"):
            mapped(source, tmp_path / wrong, count="n")


# Going on


class Stops(FakeMapper):
    """Is interrupted after some strings."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def _answers(self, texts, *rest):
        for answer in super()._answers(texts, *rest):
            if len(self.asked) > self.after:
                raise KeyboardInterrupt
            yield answer


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


# Refresh


@pytest.fixture
def reviewed(ward, tmp_path):
    mapped(ward, tmp_path / "out")
    with Project.open(tmp_path / "out") as project:
        project.decide("heart attack", "C1", who="ann")
        project.decide("MI", "C1", who="ann", equivalence="broader")
        project.decide("fever", "C2", who="bob")
        project.decide("cold", "C4", who="bob")  # never was the first
        project.decide("cefalea", None, who="bob")
        project.decide("puzzle", None, who="bob")
        yield project


CHANGED = {
    "heart attack": [("C1", 0.99)],
    "mi": [("C3", 0.8), ("C1", 0.2)],
    "cold": [("C3", 0.9)],
    "cefalea": [("C6", 0.999)],
    "puzzle": [("C5", 0.07)],
}


def test_refresh_keeps_decisions_and_flags_them(reviewed):
    before = {one.row.text: one.decision for one in reviewed.terms() if one.decision}
    names = {key: name for key, name in NAMES.items() if key != "C2"} | {"C6": "Cephalalgia"}
    names["C4"] = "Chill"
    found = refresh(reviewed, FakeMapper(answers=CHANGED, names=names, version="2"))
    assert found["decisions"] == 6
    assert found["flagged"] == {"gone": 1, "renamed": 1, "no longer first": 1, "new": 1}
    flags = {one.row.text: one.flag for one in reviewed.terms("flagged")}
    assert flags == {
        "fever": "gone: C2 (Fever) is not in the terminology any more",
        "cold": "renamed: C4 was 'Cold sensation' and is 'Chill' now",
        "MI": "no longer first: C3 (Common cold) is before C1 (Heart attack)",
        "cefalea": "new: C6 (Cephalalgia) is found now with a confidence of 1.00",
    }
    after = {one.row.text: one.decision for one in reviewed.terms() if one.decision}
    for text, made in before.items():
        same = {name: value for name, value in vars(made).items() if name != "version"}
        assert {name: vars(after[text])[name] for name in same} == same
    assert reviewed.meta["terminology"]["vocabularies"]["MSH"] == "2"
    assert [one.action for one in reviewed.history("MI")] == ["decide", "flag"]
    # Once more changes nothing.
    again = refresh(reviewed, FakeMapper(answers=CHANGED, names=names, version="2"))
    assert len(list(reviewed.history("MI"))) == 2
    assert again["flagged"]["gone"] == 1


def test_a_flag_is_lifted_by_a_decision_and_comes_back_by_undoing_it(reviewed):
    refresh(reviewed, FakeMapper(answers=CHANGED | {"fever": [("C2", 1.0)]}, names=NAMES | {
        "C6": "x"}, version="2"))  # fmt: skip
    assert reviewed.mapping("MI").status == "flagged"
    reviewed.decide("MI", "C3", who="cat", expected_version=2)
    assert (reviewed.mapping("MI").status, reviewed.mapping("MI").flag) == ("approved", "")
    reviewed.undo("MI", who="cat")
    assert reviewed.mapping("MI").status == "flagged"
    assert reviewed.mapping("MI").decision.concept == "C1"
    reviewed.undo("MI", who="cat")
    assert reviewed.mapping("MI").status == "review"


def test_what_undo_brings_back_from_before_a_refresh_is_flagged(reviewed):
    reviewed.decide("MI", "C5", who="cat")
    refresh(reviewed, FakeMapper(version="2"))
    assert reviewed.mapping("MI").status == "approved"
    reviewed.undo("MI", who="cat")
    assert (reviewed.mapping("MI").status, reviewed.mapping("MI").flag) == ("flagged", UNCHECKED)


def test_a_refresh_that_was_broken_off_goes_on(reviewed, ward, tmp_path, monkeypatch):
    monkeypatch.setattr(lookup, "_BATCH", 2)
    stops = Stops(4)
    stops.version = "2"
    with pytest.raises(KeyboardInterrupt):
        refresh(reviewed, stops)
    assert not reviewed.meta["complete"]
    with pytest.raises(UsageError, match="Go on with it first: medcoder map refresh"):
        mapped(ward, tmp_path / "out")
    again = FakeMapper(version="2")
    refresh(reviewed, again)
    assert len(again.asked) == 8 - 4
    assert reviewed.meta["complete"]
    # One broken off with a third index: compared with the last that came to its end.
    stops = Stops(4)
    stops.version, stops.answers = "3", ANSWERS | {"mi": [("C3", 0.8)], "heart attack": []}
    with pytest.raises(KeyboardInterrupt):
        refresh(reviewed, stops)
    answers = ANSWERS | {"mi": [("C5", 0.8)], "heart attack": [("C3", 0.8)]}
    found = refresh(reviewed, FakeMapper(answers=answers, version="4"))
    assert found["flagged"]["no longer first"] == 2


def test_refresh_before_the_end_of_reading(ward, tmp_path):
    def stop(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mapped(ward, tmp_path / "out", progress=stop)
    with (
        Project.open(tmp_path / "out") as project,
        pytest.raises(UsageError, match="not read to its end"),
    ):
        project.put(read=False)
        refresh(project, FakeMapper())


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_results_without_the_input(tmp_path, ending):
    table = pl.DataFrame({"text": ["fever", "=x", None], "n": ["1", "2", ""]})
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        table.write_csv(path)
    elif ending == "parquet":
        table.write_parquet(path)
    else:
        book = openpyxl.Workbook()
        for row in (["text", "n"], ["fever", "1"], ["cold", "2"]):
            book.active.append(row)
        book.save(path)
    made = mapped(path, tmp_path / "out")
    before = made.to_arrow().to_pylist()
    path.unlink()
    with made.project() as project:
        file = write(project, ProjectTable(project))
    if ending == "parquet":
        empty = [{k: "" if v is None and k in ("text", "n") else v for k, v in row.items()}
                 for row in before]  # fmt: skip
        assert parquet.read_table(file).to_pylist() == empty
    elif ending == "xlsx":
        sheets = [openpyxl.load_workbook(one).active for one in (made.file, file)]
        cells = [[[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in sheets]
        assert cells[0] == cells[1]
    else:
        assert file.read_bytes() == made.file.read_bytes()


def test_results_are_written_again_after_a_decision(ward, tmp_path):
    made = mapped(ward, tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    with made.project() as project:
        assert not is_old(project)
        project.decide("cold", "C4", who="ann")
        assert is_old(project)
        project.undo("cold", who="ann")
        assert is_old(project)
        project.decide("cold", "C4", who="ann")
        assert write_results(project) == made.file
        assert not is_old(project)
    row = dict(zip(*(read_rows(made.file)[place] for place in (0, 4)), strict=True))
    assert (row["text"], row["concept"], row["status"]) == ("cold", "C4", "approved")
    again = json.loads((tmp_path / "out" / "report.json").read_text())
    assert again["status"]["approved"]["terms"] == 1
    assert again["timing"] == report["timing"]
    assert (again["timing"]["rows"], again["timing"]["strings"]) == (9, 8)


def test_the_speed_of_a_run_that_had_nothing_to_do_is_not_told(ward, tmp_path):
    mapped(ward, tmp_path / "out")
    before = json.loads((tmp_path / "out" / "report.json").read_text())["timing"]
    mapped(ward, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "report.json").read_text())["timing"] == before


def test_types_of_cells_outlive_a_refresh(tmp_path):
    frame = pa.table({"n": pa.array([1, None], pa.int32()), "text": ["fever", "cold"]})
    made = mapped(frame, tmp_path / "a")
    with made.project() as project:
        refresh(project, FakeMapper(version="2"))
        assert is_old(project)
        found = parquet.read_table(write_results(project))
    assert found.column("n").type == pa.int32()
    assert found.column("n").to_pylist() == [1, None]
    book = openpyxl.Workbook()
    for cells in (["n", "text"], [1.5, "fever"], [None, "=1+1"], [True, "cold"]):
        book.active.append(cells)
    book.active["B3"].data_type = "s"
    book.save(tmp_path / "t.xlsx")
    made = mapped(tmp_path / "t.xlsx", tmp_path / "b")
    before = [[cell.value for cell in row] for row in openpyxl.load_workbook(made.file).active]
    assert [row[0] for row in before] == ["n", 1.5, None, True]
    with made.project() as project:
        write_results(project)
    after = [[cell.value for cell in row] for row in openpyxl.load_workbook(made.file).active]
    assert after == before


def test_results_that_somebody_sorted_are_no_source(tmp_path):
    made = mapped(pa.table({"n": [1, 2], "text": ["fever", "cold"]}), tmp_path / "a")
    stored = parquet.read_table(made.file)
    parquet.write_table(stored.take([1, 0]), made.file)
    with made.project() as project:
        found = parquet.read_table(write_results(project))
    assert found.column("text").to_pylist() == ["fever", "cold"]
    assert found.column("n").to_pylist() == ["1", "2"]
    assert found.column("name").to_pylist() == stored.column("name").to_pylist()


# With an index


def test_an_index_and_learned_synonyms(many_index, tmp_path):
    normalizer = Normalizer.load(many_index, terms=tmp_path / "own.tsv")
    texts = ["heart attack", "Cold", "ticker trouble", "zzz qqq", "cold"]
    source = pa.table({"text": texts, "v": ["", "ICD-10-CM", "", "", "NOPE"]})
    made = map_table(
        source, column="text", context={"v": "vocabulary"}, out=tmp_path / "out",
        normalizer=normalizer,
    )  # fmt: skip
    with made.project() as project:
        found = list(project.mappings())
        for mapping, only in zip(found, [None, ["ICD10CM"], None, None, None], strict=True):
            answer = normalizer.normalize(mapping.row.text, vocabularies=only)
            assert [one.concept for one in mapping.candidates] == [
                one.concept for one in answer.candidates
            ]
            share = answer.confidence / answer.namesakes
            assert mapping.confidence == pytest.approx(share)
            assert (mapping.status == "none") == (not answer.matches)
        assert project.meta["unknown_context"] == {"v": {"NOPE": 1}}
        assert project.meta["terminology"]["fingerprint"] == normalizer.kg.fingerprint
        project.decide("ticker trouble", "C003", who="ann")
        project.decide("zzz qqq", "C004", who="ann", equivalence="broader")
        project.decide(1, found[0].candidates[0].concept, who="ann")
        project.decide(2, "C900", who="ann")
        project.decide(5, "C901", who="ann")
        counts = learn(project, normalizer.kg, tmp_path / "own.tsv")
        assert counts == {"added": 1, "known": 1, "ambiguous": 1, "lost": 0}
        assert learn(project, normalizer.kg, tmp_path / "own.tsv")["added"] == 0
        learned = Normalizer.load(many_index, terms=tmp_path / "own.tsv")
        best = learned.normalize("Ticker trouble!").candidates[0]
        assert (best.concept, best.vocabulary) == ("C003", "local")
        with pytest.raises(UsageError, match="terminology or your own terms have changed"):
            map_table(
                source, column="text", context={"v": "vocabulary"}, out=tmp_path / "out",
                normalizer=learned,
            )  # fmt: skip
        refresh(project, learned)
        assert project.mapping("ticker trouble").candidates[0].concept == "C003"


def test_meta_is_json(ward, tmp_path):
    with mapped(ward, tmp_path / "out", source_vocabulary={"name": "WARD"}).project() as project:
        meta = json.loads(json.dumps(project.meta))
    assert meta["source_vocabulary"] == {"name": "WARD", "uri": "", "version": ""}
    assert (meta["file"], meta["format"], meta["rows"]) == ("ward.csv", "csv", 9)
