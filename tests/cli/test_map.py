"""`medcoder map` on the command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import typer.main

from medcoder.cli import app
from medcoder.mapping import Project
from support.judged import RECALIBRATION
from support.mapped import make
from support.saying import ROWS, Sayer
from support.terminal import as_json, command, medcoder, process

TABLE = "id,text,n,kind\n1,heart attack,5,\n2,fever cold,1,\n3,zzz qqq,2,\n4,heart attack,1,x\n"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    for name in ("MEDCODER_KG", "MEDCODER_INDEX", "MEDCODER_WHO", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEDCODER_HOME", str(tmp_path / "home"))


@pytest.fixture
def index(many_index, tmp_path):
    """A copy that may have a table of terms beside it."""
    path = tmp_path / "many.index"
    shutil.copytree(many_index, path, copy_function=os.link)
    return path


@pytest.fixture
def ward(tmp_path):
    path = tmp_path / "ward.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def made(ward, index, tmp_path):
    result = medcoder(
        "map", ward, "--column", "text", "--code", "id", "--count", "n", "--out", tmp_path / "out",
        "--index", index,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return tmp_path / "out"


def test_a_file_stands_for_the_command_table(ward, index, tmp_path):
    options = ["--column", "text", "--index", index, "--context", "kind=type", "--top", 3]
    first = as_json("map", ward, *options, "--out", tmp_path / "a")
    second = as_json("map", "table", ward, *options, "--out", tmp_path / "b")
    third = as_json("map", *options, "--out", tmp_path / "c", ward)
    assert first["counts"] == second["counts"] == third["counts"]
    assert first["meta"]["unknown_context"] == {"kind": {"x": 1}}
    assert first["meta"]["context"] == {"kind": "type"}
    rows = (tmp_path / "a" / "mapped.csv").read_text().splitlines()
    assert len(rows) == 5
    assert rows[0].endswith(",concept,name,code,confidence,status,said,review,other_1,other_2")
    assert [row.split(",")[:2] for row in rows[1:]] == [
        ["1", "heart attack"], ["2", "fever cold"], ["3", "zzz qqq"], ["4", "heart attack"],
    ]  # fmt: skip


def test_what_is_shown(made, ward, index):
    result = medcoder("map", "status", made)
    shown = [line.split() for line in result.stdout.splitlines()]
    assert shown[0] == ["status", "terms", "rows", "count"]
    assert [row[0] for row in shown[1:6]] == ["auto", "review", "none", "approved", "flagged"]
    assert sum(int(row[3]) for row in shown[1:6]) == 9
    assert medcoder("map", "status", made, "--check").exit_code == 0
    assert {"mapped.csv", "project.sqlite", "report.html", "report.json"} <= {
        path.name for path in made.iterdir()
    }


def test_decisions(made):
    assert medcoder("map", "history", made).exit_code == 1
    seen = as_json("map", "show", made, "fever cold")
    assert (seen["version"], seen["row"]["number"]) == (0, 2)
    concept = seen["candidates"][1]["concept"]
    said = as_json("map", "decide", made, "fever cold", concept, "--who", "ann", "--version", 0,
                   "--equivalence", "broader", "--note", "n")  # fmt: skip
    assert (said["concept"], said["equivalence"], said["version"]) == (concept, "broader", 1)
    stale = medcoder("map", "decide", made, "2", "--no-match", "--who", "bob", "--version", "0")
    assert stale.exit_code == 7
    assert "you saw version 0 of 'fever cold', it has version 1, by ann" in stale.stderr
    assert medcoder("map", "decide", made, "2", "--no-match", "--who", "bob").exit_code == 0
    assert "equivalence" in json.dumps(as_json("map", "show", made, "2")["decision"])
    undone = as_json("map", "undo", made, "2", "--who", "bob")
    assert undone["decision"]["concept"] == concept
    assert as_json("map", "undo", made, "--who", "ann")["decision"] is None
    lines = medcoder("map", "history", made, "--json").stdout.splitlines()
    assert [json.loads(line)["action"] for line in lines] == ["decide", "decide", "undo", "undo"]
    assert "nothing decided" in medcoder("map", "history", made, "2").stdout


def test_a_concept_that_is_no_candidate_is_looked_up(made, index):
    said = as_json("map", "decide", made, "zzz qqq", "C904", "--who", "ann", "--index", index)
    assert (said["name"], said["codes"]) == ("心臓", [["MSH", "904"]])
    result = medcoder("map", "decide", made, "zzz qqq", "C0", "--who", "ann", "--index", index)
    assert result.exit_code == 4
    assert "no candidate and not in the graph: C0" in result.stderr
    result = medcoder("map", "decide", made, "zzz qqq")
    assert (result.exit_code, "either the id of a concept" in result.stderr) == (2, True)


def test_show_by_status(made):
    result = medcoder("map", "show", made, "--status", "none")
    assert "zzz qqq" in result.stdout
    assert "heart attack" not in result.stdout
    assert medcoder("map", "show", made, "--status", "flagged").exit_code == 1
    lines = medcoder("map", "show", made, "--by", "count", "--limit", 2, "--json").stdout.split(
        "\n"
    )
    assert [json.loads(line)["row"]["number"] for line in lines[:2]] == [1, 3]
    lines = medcoder("map", "show", made, "--by", "row", "--limit", 2, "--json").stdout.split("\n")
    assert [json.loads(line)["row"]["number"] for line in lines[:2]] == [1, 2]
    assert medcoder("map", "show", made, "--by", "luck").exit_code == 2
    assert medcoder("map", "show", made, "--status", "odd").exit_code == 2
    assert "C" in medcoder("map", "show", made, "1").stdout


def test_learn_and_refresh(made, ward, index, tmp_path):
    medcoder("map", "decide", made, "zzz qqq", "C003", "--who", "ann", "--index", index)
    learned = as_json("map", "learn", made, "--index", index)
    assert learned == {"added": 1, "known": 0, "ambiguous": 0, "lost": 0,
                       "file": f"{index}.terms.tsv"}  # fmt: skip
    again = medcoder("map", ward, "--column", "text", "--code", "id", "--count", "n", "--out", made,
                     "--index", index)  # fmt: skip
    assert again.exit_code == 2
    assert "your own terms have changed. Bring it up to date with: medcoder map refresh" in (
        again.stderr
    )
    found = as_json("map", "refresh", made, "--index", index)
    assert found == {
        "decisions": 1, "flagged": {"gone": 0, "renamed": 0, "no longer first": 0, "new": 0},
        "changed": {"automatic": 0, "new": 1, "gone": 0},
        "changed_file": str(made / "changed.tsv"),
    }  # fmt: skip
    [_, changed] = (made / "changed.tsv").read_text().splitlines()
    assert changed.split("\t")[1:4] == ["zzz qqq", "new", ""]
    assert changed.endswith("\tC003")
    said = medcoder("map", "refresh", made, "--index", index).stdout
    assert "0 automatic answers changed" in said
    assert "recalibrated" not in said
    with Project.open(made) as project:
        project.put(recalibrations=[RECALIBRATION])
    again = medcoder("map", "refresh", made, "--index", index).stdout
    assert f"Fit them anew with: medcoder map calibrate {made}" in again
    assert str(made / "changed.tsv") in said
    assert as_json("map", "show", made, "zzz qqq")["candidates"][0]["concept"] == "C003"
    row = (made / "mapped.csv").read_text().splitlines()[3]
    assert row.startswith("3,zzz qqq,2,,C003,")
    assert ",approved," in row


def test_what_strings_say_is_shown(tmp_path):
    make(tmp_path, rows=ROWS, machine=Sayer()).close()
    folder = tmp_path / "out"
    shown = medcoder("map", "show", folder, "h/o heart attack R").stdout
    assert "said: history (h/o); left (R)" in shown
    assert "took off 'h/o': history" in shown
    assert "a person must look: in doubt (?)" in medcoder("map", "show", folder, "?fever").stdout
    parts = medcoder("map", "show", folder, "fever; no fever").stdout
    assert "fever: R50.9 Fever, unspecified (1.00)" in parts
    assert "no fever: no match (1.00)" in parts
    listed = medcoder("map", "show", folder, "--status", "auto").stdout
    assert "R50.9|R52" in listed
    told = as_json("map", "show", folder, "heart attack; ?fever")
    assert told["review"] == "'?fever': in doubt (?)"
    assert [part["text"] for part in told["parts"]] == ["heart attack", "?fever"]
    assert told["candidates"][0]["span"] == [0, 12]
    past = as_json("map", "show", folder, "h/o heart attack R")
    assert past["candidates"][0]["attributes"][0]["kind"] == "history"


def test_cells_stay_whole_where_that_is_asked_for(ward, index, tmp_path):
    options = ["--column", "text", "--index", index, "--out", tmp_path / "w"]
    found = as_json("map", ward, *options, "--no-split", "--targets", "leaf")
    assert (found["meta"]["split"], found["meta"]["targets"]) == (False, "leaf")
    again = as_json("map", ward, *options, "--targets", "leaf")  # as it was begun
    assert again["meta"]["split"] is False
    other = medcoder("map", ward, *options, "--targets", "leaf", "--split")
    assert other.exit_code == 2
    assert "Go on with it with --no-split" in other.stderr
    wrong = medcoder("map", ward, *options, "--targets", "leaves")
    assert (wrong.exit_code, "They can be any, leaf, billable or standard" in wrong.stderr) == (
        2, True,
    )  # fmt: skip


def test_export(made, tmp_path):
    said = as_json("map", "export", made, "csv", "--out", tmp_path / "x.csv")
    assert said["file"] == str(tmp_path / "x.csv")
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 5
    result = medcoder("map", "export", made, "cvs", "--out", tmp_path / "y.csv")
    assert result.exit_code == 2
    assert "did you mean 'csv'" in result.stderr


def test_export_of_sssom_names_its_licence_and_itself(made, tmp_path):
    file = tmp_path / "x.sssom.tsv"
    licence, name = "https://creativecommons.org/publicdomain/zero/1.0/", "https://ward.org/1"
    words = ("map", "export", made, "sssom", "--out", file, "--licence", licence, "--set-id", name)
    assert medcoder(*words).exit_code == 0
    head = [line for line in file.read_text().splitlines() if line.startswith("#")]
    assert f'#license: "{licence}"' in head
    assert f'#mapping_set_id: "{name}"' in head
    result = medcoder("map", "export", made, "csv", "--out", tmp_path / "x.csv", "--licence", "x")
    assert result.exit_code == 2
    assert "the export 'csv': the format has no such option: 'licence'" in result.stderr


def test_import(made, ward, index, tmp_path):
    found = [as_json("map", "show", made, row)["candidates"][0]["concept"] for row in ("1", "2")]
    medcoder("map", "decide", made, "1", found[0], "--who", "ann", "--note", "sure")
    medcoder("map", "decide", made, "2", found[1], "--who", "bob", "--equivalence", "broader")
    medcoder("map", "decide", made, "3", "--no-match", "--who", "bob")
    file, other = tmp_path / "x.sssom.tsv", tmp_path / "other"
    medcoder("map", "export", made, "sssom", "--out", file)
    words = ("map", ward, "--column", "text", "--code", "id", "--count", "n", "--out", other,
             "--index", index)  # fmt: skip
    assert medcoder(*words).exit_code == 0
    assert medcoder("map", "decide", other, "3", "C003", "--who", "cid", "--index", index
                    ).exit_code == 0  # fmt: skip
    graph = index / "kg"
    taken = as_json("map", "import", other, "sssom", file, "--kg", graph)
    assert (taken["decided"], taken["same"], taken["flagged"], taken["absent"]) == (2, 0, 0, [])
    assert len(taken["kept"]) == 1
    assert "C003 by cid stays" in taken["kept"][0]
    result = medcoder("map", "import", other, "sssom", file, "--kg", graph, "--overwrite")
    assert result.exit_code == 0
    assert "1 decisions taken over, 2 were there, 0 are flagged" in result.stdout
    for row in ("1", "2", "3"):
        mine, theirs = (as_json("map", "show", place, row)["decision"] for place in (other, made))
        assert {**mine, "version": 0} == {**theirs, "version": 0}
    result = medcoder("map", "import", other, "usagi", file, "--kg", graph)
    assert result.exit_code == 3
    assert "x.sssom.tsv" in result.stderr
    result = medcoder("map", "import", other, "usage", file, "--kg", graph)
    assert (result.exit_code, "did you mean 'usagi'" in result.stderr) == (2, True)


def test_old_results_are_told_and_written_again(made):
    assert as_json("map", "status", made)["results_are_old"] is False
    medcoder("map", "decide", made, "zzz qqq", "--no-match", "--who", "ann")
    told = medcoder("map", "status", made)
    assert f"Write them again with: medcoder map report {made}" in told.stderr
    assert ",approved," not in (made / "mapped.csv").read_text()
    said = as_json("map", "report", made)
    assert (said["results"], said["report"]) == (
        str(made / "mapped.csv"), str(made / "report.html")
    )  # fmt: skip
    assert (said["promise"]["looked_at"], said["promise"]["broken"]) == (0, False)
    row = (made / "mapped.csv").read_text().splitlines()[3]
    assert row.startswith("3,zzz qqq,2,,,,,,approved,")
    assert json.loads((made / "report.json").read_text())["decisions"]["by"] == {"ann": 1}
    assert medcoder("map", "status", made).stderr == ""


def test_results_are_written_elsewhere(made, tmp_path):
    medcoder("map", "decide", made, "zzz qqq", "--no-match", "--who", "ann")
    before = (made / "mapped.csv").read_bytes()
    elsewhere = tmp_path / "new" / "report"
    said = as_json("map", "report", made, "--out", elsewhere)
    assert said["results"] == str(elsewhere / "mapped.csv")
    assert ",approved," in (elsewhere / "mapped.csv").read_text()
    assert (elsewhere / "report.html").is_file()
    assert (made / "mapped.csv").read_bytes() == before
    told = medcoder("map", "status", made)
    assert "lack the last decisions" in told.stderr


def test_mistakes(ward, index, tmp_path):
    for words, code, message in (
        ([ward, "--column", "txt"], 3, "no such column: txt; there are: "),
        ([ward, "--column", "text", "--context", "kind"], 2, "not COL=ROLE: 'kind'"),
        ([ward, "--column", "text", "--context", "kind=unit"], 2, "A column can be type"),
        ([ward, "--column", "text", "--vocabularies", "X"], 2, "no vocabulary 'X'"),
        ([tmp_path / "no.csv", "--column", "text"], 3, "does not exist"),
        ([ward, "--column", "text", "--out", ward], 2, "ward.csv: it is a file. Name a folder"),
        ([ward, "--column", "text", "--encoding", "x"], 2, "no encoding is called 'x'"),
        ([ward, "--column", "text", "--count", "text"], 3, "the count of data row 1 is not a"),
    ):
        result = medcoder("map", "--out", tmp_path / "out", *words, "--index", index)
        assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    for words in (["status"], ["refresh"], ["history"]):
        result = medcoder("map", *words, tmp_path / "none", *(
            ["--index", index] if words == ["refresh"] else []))  # fmt: skip
        assert result.exit_code == 4
        assert "there is no such project. Make a project with: medcoder map FILE" in result.stderr


def test_every_command_has_help():
    group = typer.main.get_command(app).commands["map"]
    assert sorted(group.commands) == [
        "calibrate", "decide", "export", "history", "import", "learn", "refresh", "report", "show",
        "status", "table", "undo",
    ]  # fmt: skip
    for name in group.commands:
        assert medcoder("map", name, "--help").exit_code == 0


def test_an_interrupt_is_gone_on_from(index, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("text\n" + "".join(f"fever {n}\n" for n in range(30_000)))
    words = ("map", path, "--column", "text", "--out", tmp_path / "out", "--index", index)
    child = subprocess.Popen(**command(*words), stderr=subprocess.PIPE, text=True)
    file, deadline = tmp_path / "out" / "project.sqlite", time.monotonic() + 60
    while time.monotonic() < deadline and not _begun(file):
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "interrupted: what was mapped is kept. Run the same command again" in said
    with Project.open(file) as project:
        project.verify()
        assert not project.meta["complete"]


def _begun(file):
    if not file.exists():
        return False
    try:
        with Project.open(file) as project:
            return project.meta.get("rows", 0) > 0
    except Exception:  # it is being made
        return False


def test_the_project_opens_without_the_model(made):
    code = "import sys, medcoder.mapping\nassert not {'onnxruntime', 'faiss'} & set(sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert process("map", "status", made).returncode == 0
