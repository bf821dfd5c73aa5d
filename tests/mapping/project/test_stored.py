"""Project files as strangers may make them: refused in words, and nothing of them runs."""

import shutil
import sqlite3

import pytest

from medcoder.errors import ArtefactError, MedcoderError
from medcoder.mapping import Project, calibrate, write_results
from medcoder.mapping.formats import export
from support.mapped import decide, make


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a project with decisions."""
    folder = tmp_path_factory.mktemp("whole")
    with make(folder) as project:
        decide(project)
        project.base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return project.path.parent


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "in" / "copy")


def change(folder, *statements):
    base = sqlite3.connect(folder / "project.sqlite", isolation_level=None)
    for statement in statements:
        base.execute(statement)
    base.close()


def use(folder):
    """Everything that reads a project."""
    with Project.open(folder) as project:
        project.counts()
        project.agreement()
        calibrate(project, who="ann", dry_run=True)
        list(project.mappings())
        list(project.history())
        write_results(project)
        for name in ("csv", "sssom", "fhir"):
            export(project, name, folder / f"out.{name}")


def meta(key, value):
    return f"INSERT OR REPLACE INTO meta VALUES ('{key}', '{value}')"


SCRIPT = "<script>alert(1)</script>"
REFUSED = {
    "path": meta("format", '"/../../../outside"'),
    "format": meta("format", '"exe"'),
    "delimiter": meta("delimiter", '",,"'),
    "top": meta("top", "1000000000000"),
    "precision": meta("precision", "NaN"),
    "infinite": meta("threshold", "1e999"),
    "deep": meta("file", "[" * 5000),
    "not json": meta("file", "{"),
    "list": meta("terminology", "[1]"),
    "context": meta("context", '{"unit": "<b>"}'),
    "created": meta("created", '"99-99"'),
    "header": meta("header", '[1, {"a": 2}]'),
    "run": meta("run", '"x"'),
    "equivalence": f"UPDATE events SET equivalence = '{SCRIPT}' WHERE action = 'decide'",
    "action": "UPDATE events SET action = 'delete'",
    "time": "UPDATE events SET at = 'yesterday'",
    "codes": "UPDATE candidates SET codes = '[[1, 2]]'",
    "codes of codes": "UPDATE events SET codes = '{}'",
    "blob": "UPDATE terms SET text = x'ff00' WHERE id = 1",
    "number": "UPDATE rows SET count = 'many' WHERE number = 1",
    "negative": "UPDATE terms SET count = -5",
    "confidence": "UPDATE candidates SET confidence = 9e999",
    "share": "UPDATE candidates SET confidence = 7",
    "text": "UPDATE candidates SET confidence = 'high'",
    "original": "UPDATE strings SET original = 'high'",
    "twins": "UPDATE candidates SET twins = '{'",
    "recalibrations": meta("recalibrations", '[{"intercept": 0, "slope": 1}]'),
    "stage": f"UPDATE candidates SET stage = '{SCRIPT}'",
    "no term": "UPDATE rows SET term = 999",
    "term": "UPDATE rows SET term = 'x'",
    "no candidates": "DELETE FROM candidates",
    "fields": "UPDATE rows SET fields = '{\"a\": 1}'",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM terms; END",
    "view": "CREATE VIEW v AS SELECT * FROM terms",
    "table": "CREATE TABLE extra (x)",
    "index": "CREATE INDEX more ON terms (abs(id))",
    "dropped": "DROP TABLE candidates",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_project_is_refused(copy, name):
    outside = copy.parent.parent
    before = sorted(outside.iterdir())
    change(copy, REFUSED[name])
    with pytest.raises(ArtefactError) as error:
        use(copy)
    assert str(copy) in str(error.value)
    assert SCRIPT not in error.value.what
    assert sorted(outside.iterdir()) == before
    for page in copy.glob("*.html"):
        assert SCRIPT not in page.read_text(encoding="utf-8")


def test_the_project_as_it_is(copy):
    use(copy)


def test_a_view_in_the_place_of_a_table(copy):
    change(copy, "ALTER TABLE meta RENAME TO other", "CREATE VIEW meta AS SELECT * FROM other")
    with pytest.raises(ArtefactError, match="something that no project has: table 'other'"):
        Project.open(copy)


def test_a_column_that_is_computed(copy):
    change(copy, "ALTER TABLE terms ADD COLUMN x AS (length(text))")
    with pytest.raises(ArtefactError, match="something that no project has: table 'terms'"):
        Project.open(copy)


@pytest.mark.parametrize("end", ["wal", "shm", "journal"])
def test_links_that_sqlite_would_write_through(copy, end):
    outside = copy.parent.parent / "precious"
    outside.write_text("years of work")
    (copy / f"project.sqlite-{end}").symlink_to(outside)
    with pytest.raises(ArtefactError, match=f"project.sqlite-{end}: it is not a file"):
        Project.open(copy)
    assert outside.read_text() == "years of work"


def test_all_that_reaches_the_page_is_text(copy):
    """Of what may be any text, in every place of it."""
    for table, columns in {
        "candidates": "concept name term", "terms": "text code language",
        "events": "name who note concept", "strings": "text hint",
    }.items():  # fmt: skip
        for column in columns.split():
            where = f"WHERE {column} IS NOT NULL AND {column} != ''"
            change(copy, f"UPDATE OR IGNORE {table} SET {column} = '{SCRIPT}' || rowid {where}"
                   if table != "candidates" else
                   f"UPDATE {table} SET {column} = '{SCRIPT}' || rank {where}")  # fmt: skip
    words = ("file", "column", "code", "medcoder", "language")
    change(copy, *(meta(key, f'"{SCRIPT}"') for key in words))
    change(copy, meta("terminology", f'{{"vocabularies": {{"{SCRIPT}": "{SCRIPT}"}}}}'))
    change(copy, meta("unknown_context", f'{{"{SCRIPT}": {{"{SCRIPT}": 1}}}}'))
    with Project.open(copy) as project:
        write_results(project)
    page = (copy / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    assert "<script" not in page


def test_flipped_bits_end_in_words(copy, whole):
    """A sample: the attack `strangers` tries more."""
    data = (whole / "project.sqlite").read_bytes()
    for position in range(0, len(data), len(data) // 60):
        hurt = bytearray(data)
        hurt[position] ^= 1 << position % 8
        for left in copy.glob("project.sqlite*"):
            left.unlink()
        (copy / "project.sqlite").write_bytes(hurt)
        try:
            use(copy)
        except MedcoderError as error:
            assert "\n" not in str(error).strip()[:20]
