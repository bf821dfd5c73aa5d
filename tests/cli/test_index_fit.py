"""`index fit`: what it says and writes; `index info`: what the confidences rest on."""

import errno
import json
import shutil

import pytest

from medcoder.cli.index import CALIBRATED, CAVEATS, TO_GRAPH, TO_STRINGS
from medcoder.normalize import refit as fitting
from support.ruled import STRINGS, write_ruled, write_strings
from support.strangers import reseal
from support.terminal import as_json, left_in, medcoder


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """As in a pipe: a table is as wide as it is."""
    for name in ("MEDCODER_INDEX", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    return write_ruled(tmp_path_factory.mktemp("ruled"))


@pytest.fixture
def strings(tmp_path):
    (tmp_path / "in").mkdir()
    return write_strings(tmp_path / "in" / "coded.csv", [*STRINGS, STRINGS[0]])


@pytest.fixture
def out(tmp_path):
    """Where to write; all there is in its folder when nothing was left behind."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "new.index"


@pytest.fixture
def quick(monkeypatch):
    """No fit, and a gain."""
    monkeypatch.setattr(fitting, "fit", lambda examples, start: start)
    monkeypatch.setattr(fitting, "_no_gain", lambda *_: "")


def fit(*arguments, **options):
    return medcoder("index", "fit", *arguments, **options)


def refused(result, code, said):
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    return True


def test_a_gain_is_told_and_written(ruled, strings, out):
    told = as_json("index", "fit", ruled, "--strings", strings, "--out", out)
    assert (told["gain"], told["path"], told["reason"]) == (True, str(out), "")
    assert (told["rows"], told["left_out"]) == (len(STRINGS) + 1, {"repeated": 1})
    before, after = told["strings"]["before"], told["strings"]["after"]
    assert before["right_first"] < after["right_first"]
    assert left_in(out.parent) == ["new.index"]
    info = as_json("index", "info", "--index", out)["calibration"]
    assert (info["from"], info["about"]) == ("fitted", TO_STRINGS)
    assert info["caveat"] == CAVEATS[TO_STRINGS]
    assert info["threshold"] == after["threshold"]
    assert as_json("check", out)[0]["sound"]


def test_what_people_read(ruled, strings, out, quick):
    told = as_json("index", "fit", ruled, "--strings", strings, "--out", out)
    assert refused(fit(ruled, "--strings", strings, "--out", out), 2, "it exists")
    result = fit(ruled, "--strings", strings, "--out", out, "--overwrite")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert rows[0] == f"{len(STRINGS) + 1} strings; left out: 1 repeated"
    assert rows[1].startswith("kept out of the fit strings right first calibration error threshold")
    for name, part in (("your strings", told["strings"]), ("drawn from the graph", told["drawn"])):
        for when in ("before", "after"):
            some = part[when]
            assert " ".join([
                name, when, f"{part['count']}", f"{some['right_first']:.1%}",
                f"{some['calibration_error']:.3f}", f"{some['threshold']:.3f}",
                f"{some['answered']:.1%}", f"{some['right']:.1%}", f"{some['log_loss']:.4f}",
            ]) in rows  # fmt: skip
    assert rows[-2] == f"{out} has the new weights"
    assert rows[-1].startswith("fitted in ")


def test_no_gain_is_told_and_nothing_is_written(ruled, strings, out, quick, monkeypatch):
    monkeypatch.setattr(fitting, "_no_gain", lambda *_: "it is as it was")
    result = fit(ruled, "--strings", strings, "--out", out)
    assert result.exit_code == 0
    said = "nothing was written: on what was kept out of the fit, it is as it was\n"
    assert said in result.stdout
    told = as_json("index", "fit", ruled, "--strings", strings, "--out", out)
    assert (told["gain"], told["path"], told["reason"]) == (False, None, "it is as it was")
    assert left_in(out.parent) == []


def test_without_strings(ruled, out, quick, monkeypatch):
    monkeypatch.setattr(fitting, "_LEAST", 50)
    result = fit("--out", out, env={"MEDCODER_INDEX": str(ruled)})
    assert result.exit_code == 0
    assert "your strings" not in result.stdout
    assert "drawn from the graph" in result.stdout
    info = as_json("index", "info", "--index", out)["calibration"]
    assert (info["from"], info["about"]) == ("fitted", TO_GRAPH)


def test_what_is_refused(ruled, many_index, strings, out):
    bad = write_strings(strings.with_name("bad.csv"), [("unwell", "X1")])
    for words, code, said in (
        ([ruled, "--strings", bad], 3, "bad.csv, row 2: no such concept in the graph: 'X1'"),
        ([ruled, "--strings", out], 3, "does not exist"),
        ([many_index], 2, "there are too few examples to fit to"),
        ([out, "--strings", strings], 4, "it is not an index"),
    ):
        assert refused(fit(*words, "--out", out), code, said)
    assert refused(fit(ruled, "--out", ruled, "--overwrite"), 2, "the index that the fit starts")
    assert left_in(out.parent) == []


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted: nothing was kept"),
        (OSError(errno.ENOSPC, "No space left on device"), 5, "no room left to write it"),
    ],
)
def test_a_fit_that_stops(ruled, strings, out, quick, monkeypatch, error, code, said):
    def stop(*_, **__):
        raise error

    monkeypatch.setattr(fitting, "write_calibration", stop)
    result = fit(ruled, "--strings", strings, "--out", out)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert left_in(out.parent) == []


@pytest.mark.parametrize(
    ("stored", "read"),
    [("bundled", "bundled"), ("embedded graph", "bundled"), ("graph", "graph"), ("given", "given"),
     (None, "graph")],
)  # fmt: skip
def test_info_says_what_the_confidences_rest_on(ruled, tmp_path, stored, read):
    path = tmp_path / "a.index"
    shutil.copytree(ruled, path)
    reseal(path, calibrated=stored)
    told = as_json("index", "info", "--index", path)["calibration"]
    assert (told["from"], told["about"]) == (read, CALIBRATED[read])
    assert told["caveat"] == CAVEATS[CALIBRATED[read]]
    shown = medcoder("index", "info", "--index", path).stdout
    assert f"\ncalibration: {CALIBRATED[read]}\n" in shown
    assert shown.endswith(f"{told['caveat']}\n")
    assert json.dumps(told).count("your terminology") == (read == "bundled")
