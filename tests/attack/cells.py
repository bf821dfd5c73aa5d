"""Hostile cells: control characters, ends of lines, quotes, delimiters and formulas in all guises.

A table of them is mapped, every row is decided, and the project is written in every format. What
is written is read by our importers and by programs of others. Nothing may be lost or changed but
as the pages say, and no line and no field may begin with a formula.
"""

import csv
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from attack.cell_checks import DELIMITERS, SIGNS, Rows, Trial, check_sssom_library, in_a_workbook
from attack.forks import Forks
from attack.frame import Attack, Tally
from attack.inputs import make_index

_ROWS = 30  # of a table
_FORMATS = ("csv", "parquet", "tsv", "xlsx")
_EXPORTS = {
    "csv": ".csv", "fhir": ".json", "omop": ".map.csv", "parquet": ".parquet",
    "sssom": ".sssom.tsv", "usagi": ".usagi.csv", "xlsx": ".xlsx",
}  # fmt: skip
_NAME = '=1+1\r=2,"\t'  # of a column
_ENDS = ("\r", "\n", "\r\n", "\n\r", "\r\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029")
_PAYLOADS = ("=cmd|' /C calc'!A0", "=1+1", "@SUM(1)", "+1+1", "-2+3", '=HYPERLINK("http://x","y")')
_PAYLOADS += tuple(f"{sign}cmd" for sign in SIGNS)
_BEFORE = ("", " ", "\t", "\xa0", "\ufeff", "\u200b", "\u3000", "\x00", "\x01", '"', "'", "\u202e")
_PIECES = (
    *map(chr, range(0x20)), *_ENDS, *_PAYLOADS, *_BEFORE, "asthma", "heart attack", "心臓",
    ",", ";", "|", '"', '""', "'", "''", "\\", "\\n", '\\"', "%0A", "#", "-1.5", "1e5", "NaN", "NA",
    "\x7f", "\u200e", "\u200f", "\u2066", "\ud7ff", "\uffff", "\U0001f9e0", "\U0010ffff",
    "<b>", "&amp;", "[flagged: x]", "e\u0301",
)  # fmt: skip


def run(attack: Attack) -> Tally:
    given, tally = attack.folder / "given", attack.tally
    given.mkdir()
    forks = Forks(attack, attack.folder / "commands", "openpyxl", "yaml", "onnxruntime")
    try:
        make_index(attack, given)
        for number in range(attack.trials):
            if attack.over:
                break
            rng = random.Random(f"{attack.seed}/{number}")
            format = _FORMATS[number % len(_FORMATS)]
            header, rows = ("id", "text", _NAME), _table(rng)
            if format == "xlsx":
                header = ("id", "text", in_a_workbook(_NAME))
                rows = [tuple(map(in_a_workbook, row)) for row in rows]
            trial = Trial(number, format, header, rows, attack.folder / str(number), tally)
            before = len(tally.failures)
            _try(trial, forks, given, small=attack.small)
            tally.trials += 1
            tally.count("cells", 3 * len(rows))
            tally.count("tables with a failure", int(len(tally.failures) > before))
            attack.say(f"{number + 1} tables, {len(tally.failures)} failures")
            if len(tally.failures) == before:
                shutil.rmtree(trial.folder)
    finally:
        forks.close()
    return tally


def _hostile(rng: random.Random) -> str:
    """A cell: a formula, or one after the end of a line or a delimiter, or any pieces."""
    kind = rng.randrange(3)
    if kind == 2:
        return "".join(rng.choices(_PIECES, k=rng.randint(1, 6)))
    part = rng.choice(_BEFORE) + rng.choice(_PAYLOADS)
    before = rng.choice(("a", '"', "'", "")) + rng.choice((*_ENDS, *DELIMITERS))
    return before + part if kind else part


def _table(rng: random.Random) -> Rows:
    """A code, a text, and another column. Some codes are hostile inside; their ends are cut."""
    return [
        (f"k{number}{'' if number % 3 else _hostile(rng) + 'k'}", _hostile(rng), _hostile(rng))
        for number in range(_ROWS)
    ]


def _try(trial: Trial, forks: Forks, given: Path, *, small: bool) -> None:
    folder, format = trial.folder, trial.format
    folder.mkdir()

    def command(what: str, *args: object) -> dict[str, Any] | None:
        """What a command says; None if it fails."""
        result = forks.run("map", *args, "--json")
        if result.wrong or result.rc:
            trial.wrong(what, result.wrong or f"exit code {result.rc}: {result.err[-300:]}")
            return None
        said: dict[str, Any] = json.loads(result.out)
        return said

    source, out, decisions = folder / f"in.{format}", folder / "out", folder / "decisions.tsv"
    _write(source, format, trial.header, trial.rows)
    index, kg = ("--index", given / "small.index"), ("--kg", given / "small.kg")
    columns = ("--column", "text", "--code", "id", "--context", f"{trial.header[2]}=hint")
    if command("map", source, *columns, *index, "--out", out) is None:
        return
    shutil.copytree(out, folder / "undecided")
    _write_decisions(decisions, trial.rows)
    said = command("import", "import", out, "sssom", decisions, *kg)
    if said is not None and said["decided"] != len(trial.rows):
        trial.wrong("import", f"{len(trial.rows)} decisions, but: {said}")
    if said is None:
        _write_decisions(decisions, [(code, text, "") for code, text, _ in trial.rows])
        command("import without notes", "import", out, "sssom", decisions, *kg)
    command("report", "report", out)
    trial.check("results", format, out / f"mapped.{format}")
    exports = {name: folder / f"{name}{ending}" for name, ending in _EXPORTS.items()}
    for name, path in exports.items():
        if command(f"export {name}", "export", out, name, "--out", path) is not None:
            trial.check(f"export {name}", name, path)
    said = command("import sssom again", "import", out, "sssom", exports["sssom"], *kg)
    if said is not None and said["same"] != len(trial.rows):
        trial.wrong("import sssom again", f"{len(trial.rows)} are the same, but: {said}")
    if small:
        return
    for name in ("sssom", "usagi"):
        fresh = folder / f"fresh-{name}"
        shutil.copytree(folder / "undecided", fresh)
        said = command(f"import {name}", "import", fresh, name, exports[name], *kg)
        # Usagi makes line feeds of carriage returns, so such a code is another.
        there = sum(name == "sssom" or "\r" not in code for code, *_ in trial.rows)
        if said is not None and said["decided"] != there:
            trial.wrong(f"import {name}", f"{there} decisions, but: {said}")
    again = ("--column", "text", *index, "--out", folder / "again")
    command("map, of the results", out / f"mapped.{format}", *again)
    check_sssom_library(trial, "export sssom", exports["sssom"])


def _write(path: Path, format: str, header: Sequence[str], rows: Rows) -> None:
    """The table, not by our own writer."""
    if format == "parquet":
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, names=list(header)), path)
    elif format == "xlsx":
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet()
        for row in (header, *rows):
            cells = [openpyxl.cell.WriteOnlyCell(sheet, value) for value in row]
            for cell in cells:
                cell.data_type = "s"  # no formulas
            sheet.append(cells)
        book.save(path)
    else:
        with path.open("w", encoding="utf-8", newline="") as stream:
            delimiter = "\t" if format == "tsv" else ","
            table = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            table.writerows([header, *rows])


def _write_decisions(path: Path, rows: Rows) -> None:
    """A decision on every row, each with a note that is as hostile."""
    columns = ("subject_id", "predicate_id", "object_id", "object_label", "mapping_justification")
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write('#curie_map:\n#  OMOP: "http://example.org/"\n#  L: "http://example.org/l/"\n')
        table = csv.writer(stream, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n")
        table.writerow([*columns, "author_label", "mapping_date", "comment"])
        for number, (code, _, note) in enumerate(rows):
            concept = f"OMOP:{(1, 2, 3, 5, 7)[number % 5]}"
            made = (f"L:{quote(code, safe='')}", "skos:exactMatch", concept, "pain")
            table.writerow([*made, "semapv:ManualMappingCuration", "Ann", "2026-01-02", note])
