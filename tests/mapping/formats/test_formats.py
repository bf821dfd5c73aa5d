"""The table of formats: options by signature, and a format that is added from outside."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from fastapi.testclient import TestClient

from medcoder.errors import UnknownName, UsageError
from medcoder.mapping import formats
from medcoder.mapping.formats import (
    FORMATS,
    Cells,
    Format,
    Option,
    all_options,
    export,
    format_names,
    load,
    options_of,
)
from medcoder.serve import make_app
from medcoder.tables.write import plain
from support.mapped import (
    ROWS,
    OmopMachine,
    make,
)
from support.terminal import medcoder


def export_lines(project, path: Path, *, mark: str = "-", count: bool = False, progress=None):
    """Write the texts.

    mark: what stands before each text
    count: write how often it occurs
        as well
    """
    rows = (mapping.row for mapping in project.terms())
    path.write_text("".join(f"{mark}{row.text}{row.count if count else ''}\n" for row in rows))
    return ["nothing but the texts is in the file"]


@pytest.fixture
def project(tmp_path):
    with make(tmp_path) as made:
        yield made


@pytest.fixture
def lines(monkeypatch):
    """The format "lines": a module of its own, and one line in the table."""
    module = ModuleType("format_of_lines")
    module.FORMAT = Format(ending=".txt", export=export_lines)
    monkeypatch.setitem(sys.modules, "format_of_lines", module)
    monkeypatch.setattr(FORMATS, "_entries", dict(FORMATS))  # it goes after the test
    FORMATS.add("lines", "format_of_lines:FORMAT")


def test_options_are_those_of_the_signature():
    assert options_of(export_lines) == [
        Option("mark", str, "-", "what stands before each text"),
        Option("count", bool, False, "write how often it occurs as well"),
    ]


@pytest.mark.parametrize("direction", ["export", "load"])
def test_every_option_has_help(direction):
    assert all(option.help for option in all_options(direction))


def test_formats_and_their_options():
    assert format_names() == ["csv", "fhir", "omop", "parquet", "sssom", "usagi", "xlsx"]
    assert format_names("load") == ["sssom", "usagi"]
    named = {option.name: option.formats for option in all_options()}
    assert named == {
        "url": ("fhir",), "concepts": ("omop", "usagi"), "source_vocabulary": ("omop",),
        "missing_ok": ("omop", "usagi"), "licence": ("sssom",), "set_id": ("sssom",),
    }  # fmt: skip


def test_a_format_from_outside(project, tmp_path, lines):
    assert "lines" in format_names()
    path = tmp_path / "x.txt"
    assert export(project, "lines", path, mark="* ") == ["nothing but the texts is in the file"]
    assert path.read_text().startswith("* heart attack\n* fever\n")
    with pytest.raises(UsageError, match=r"no such option: 'licence'\. It has: mark, count"):
        export(project, "lines", path, licence="x")


def test_the_command_line_has_a_format_from_outside(project, tmp_path, lines):
    path = tmp_path / "x.txt"
    done = medcoder("map", "export", project.path, "lines", "--out", path, "--mark", "#", "--count")
    assert done.exit_code == 0, done.stderr
    assert path.read_text().startswith("#heart attack3\n")
    told = medcoder("map", "export", "--help").stdout
    assert "--mark" in told
    assert "lines" in told


def test_the_service_has_a_format_from_outside(project, tmp_path, lines):
    app = make_app(lambda: None, folder=tmp_path / "service", projects={"ward": project.path})
    rest = TestClient(app, base_url="http://localhost")
    [told] = [
        entry for entry in rest.get("/v1/exports").json()["formats"] if entry["format"] == "lines"
    ]
    assert told["ending"] == ".txt"
    assert [option["name"] for option in told["options"]] == ["mark", "count"]
    address = "/v1/projects/ward/exports/lines"
    assert rest.get(address, params={"mark": "#", "count": True}).text.startswith("#heart attack3")
    [operation] = app.openapi()["paths"]["/v1/projects/{project}/exports/{format}"].values()
    named = {parameter["name"] for parameter in operation["parameters"]}
    assert named >= {"mark", "count", "licence", "set_id", "url", "concepts"}


def test_the_service_takes_all_options_of_sssom(project, tmp_path):
    app = make_app(lambda: None, folder=tmp_path / "service", projects={"ward": project.path})
    rest = TestClient(app, base_url="http://localhost")
    asked = {"licence": "https://example.org/licence", "set_id": "https://example.org/set"}
    text = rest.get("/v1/projects/ward/exports/sssom", params=asked).text
    assert '#license: "https://example.org/licence"' in text
    assert '#mapping_set_id: "https://example.org/set"' in text


def test_names_of_before_warn():
    sys.modules.pop("medcoder.mapping.exports", None)
    with pytest.warns(DeprecationWarning, match=r"now medcoder\.mapping\.formats"):
        from medcoder.mapping.exports import export as before
    assert before is export


def test_a_format_that_is_only_written_is_not_read(project, tmp_path):
    with pytest.raises(UnknownName, match="no import is called 'csv'"):
        formats.load(project, "csv", tmp_path / "x")


@pytest.mark.parametrize("name", FORMATS)
def test_every_export_writes_one_file_and_says_what_it_leaves_out(name, omop, tmp_path):
    path = tmp_path / f"made{FORMATS.load(name).ending}"
    reports = []
    notes = export(omop, name, path, progress=lambda *report: reports.append(report))
    assert list(tmp_path.iterdir()) == [path]
    assert "the history of decisions is in the project only" in notes
    rows = len(ROWS) if name in ("csv", "xlsx", "parquet") else 9
    assert reports[-1] == ("writing", rows, rows)


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_that_fails_leaves_what_was_there(name, omop, tmp_path):
    path = tmp_path / f"made{FORMATS.load(name).ending}"
    path.write_text("old")

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(omop, name, path, progress=stop)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", FORMATS)
def test_a_project_without_rows_is_written(name, tmp_path):
    with make(tmp_path / "empty", rows=[], machine=OmopMachine()) as empty:
        export(empty, name, tmp_path / f"made{FORMATS.load(name).ending}")
    assert (tmp_path / f"made{FORMATS.load(name).ending}").stat().st_size > 0


def test_names_and_options_are_checked(project, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'sssom'"):
        export(project, "ssom", tmp_path / "x")
    with pytest.raises(
        UsageError, match=r"'sssom': the format has no such option: 'concepts'\. It has: licence"
    ):
        export(project, "sssom", tmp_path / "x", concepts=tmp_path)
    with pytest.raises(UsageError, match="is a folder"):
        export(project, "csv", tmp_path)


@pytest.mark.parametrize("text", ["=1", "'=1", "''=1", "'tis", "-1.5", "-a", "@x", "\tx", "", "'"])
def test_escaped_cells_come_back(text):
    assert plain(Cells()(text)) == text


def test_names_and_options_of_imports_are_checked(tmp_path, fresh):
    with pytest.raises(UnknownName, match="no import is called 'csv'"):
        load(fresh, "csv", tmp_path / "x")
    with pytest.raises(
        UsageError, match=r"'sssom': the format has no such option: 'concepts'\. It has: automatic"
    ):
        load(fresh, "sssom", tmp_path / "x", concepts=tmp_path)
