"""Small files that unpack to huge ones, and damaged ones: sent to every door that reads files.

Each is read by a process that may take no more than MEMORY: refused with an error that names the
file, or read within that. A traceback, an exit code of another kind, or more memory is a failure.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import re
import resource
import shutil
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attack.frame import Attack, Skipped, Tally
from attack.inputs import make_index

MEMORY = 1500 << 20  # bytes of resident memory that reading any file may take
PATIENCE = 300  # seconds
_MEGABYTE = 1 << 20
_LONG = "x" * 1_000_000
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PARTS = {
    "[Content_Types].xml": '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/'
    'package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlfor'
    'mats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="applicati'
    'on/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/w'
    'orksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetm'
    'l.worksheet+xml"/><Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.ope'
    'nxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
    "_rels/.rels": '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/p'
    'ackage/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/of'
    'ficeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<?xml version="1.0"?><workbook xmlns="{_SHEET}" xmlns:r="http://schemas.o'
    'penxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="a" sheetId="1" r:id'
    '="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<?xml version="1.0"?><Relationships xmlns="http://schemas.openx'
    'mlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxm'
    'lformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></R'
    "elationships>",
    "xl/sharedStrings.xml": f'<sst xmlns="{_SHEET}"><si><t>term</t></si></sst>',
}
_HEADER = '<row r="1"><c r="A1" t="inlineStr"><is><t>term</t></is></c></row>'


def workbook(path: Path, rows: str | list[bytes], **parts: str | bytes | list[bytes]) -> None:
    """A workbook of these rows of XML; `parts` replaces others, / and . written as __ and _."""
    stored: dict[str, str | bytes | list[bytes]] = dict(_PARTS)
    body = [rows.encode()] if isinstance(rows, str) else rows
    stored["xl/worksheets/sheet1.xml"] = [
        f'<worksheet xmlns="{_SHEET}"><sheetData>'.encode(), *body, b"</sheetData></worksheet>"
    ]  # fmt: skip
    stored |= {"xl/" + name.replace("_xml", ".xml"): value for name, value in parts.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in stored.items():
            with archive.open(name, "w") as stream:
                for block in value if isinstance(value, list) else [value]:
                    stream.write(block.encode() if isinstance(block, str) else block)


def inline(text: str, row: int = 2) -> str:
    return f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>{text}</t></is></c></row>'


def parquet(path: Path, *groups: pa.Table, **options: object) -> None:
    options = {"compression": "zstd"} | options
    with pq.ParquetWriter(path, groups[0].schema, **options) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=len(group))


def _dictionary(values: list[object], count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(values))


def long_cells(path: Path) -> None:
    parquet(path, pa.table({"term": _dictionary([_LONG], 100_000)}))


def many_rows(path: Path) -> None:
    table = pa.table({"term": pa.nulls(1 << 24, pa.string())})
    parquet(path, *[table] * 24)


def one_list(path: Path) -> None:
    count = 1 << 27
    numbers = pa.repeat(pa.scalar(0, pa.int8()), count)
    lists = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), numbers)
    parquet(path, pa.table({"term": ["a"], "list": lists}))


def lists_of_long_texts(path: Path) -> None:
    texts = _dictionary([_LONG], 100_000)
    lists = pa.ListArray.from_arrays(pa.array(range(0, 100_001, 10), pa.int32()), texts)
    parquet(path, pa.table({"term": ["a"] * 10_000, "list": lists}))


def prefixes(path: Path) -> None:
    """Values that are each the one before it."""
    table = pa.table({"term": [_LONG] * 500})
    encoding = {"use_dictionary": False, "column_encoding": {"term": "DELTA_BYTE_ARRAY"}}
    parquet(path, *[table] * 20, data_page_size=1 << 30, write_batch_size=500, **encoding)


def large_page(path: Path) -> None:
    table = pa.table({"term": pa.array(["x" * 700_000_000])})
    parquet(path, table, use_dictionary=False)


def row_three_billion(path: Path) -> None:
    workbook(
        path, _HEADER + inline("a") + '<row r="3000000000"><c r="A3000000000"><v>1</v></c></row>'
    )


def column_far_away(path: Path) -> None:
    workbook(path, _HEADER + '<row r="2"><c r="XFE2"><v>1</v></c></row>')


def wide_rows(path: Path) -> None:
    rows = [_HEADER.encode()]
    rows += [
        f'<row r="{row}"><c r="XFD{row}"><v>1</v></c></row>'.encode() for row in range(2, 99_999)
    ]
    workbook(path, rows)


def many_cells_in_a_row(path: Path) -> None:
    workbook(path, [_HEADER.encode(), b'<row r="2">', *[b"<c/>" * 250_000] * 40, b"</row>"])


def many_rows_again(path: Path) -> None:
    workbook(path, [_HEADER.encode(), *[b'<row r="1"/>' * 100_000] * 200])


def long_inline_text(path: Path) -> None:
    text = [b"x" * _MEGABYTE] * 600
    workbook(path, [_HEADER.encode(), b'<row r="2"><c r="A2" t="inlineStr"><is><t>', *text,
                    b"</t></is></c></row>"])  # fmt: skip


def many_shared_strings(path: Path) -> None:
    strings = [
        f'<sst xmlns="{_SHEET}">'.encode(),
        *[b"<si><t>ab</t></si>" * 100_000] * 300,
        b"</sst>",
    ]
    workbook(path, _HEADER, sharedStrings_xml=strings)


def one_shared_string_everywhere(path: Path) -> None:
    strings = f'<sst xmlns="{_SHEET}"><si><t>{_LONG}</t></si></sst>'
    rows = "".join(
        f'<row r="{row}"><c r="A{row}" t="s"><v>0</v></c></row>' for row in range(2, 99_999)
    )
    workbook(path, _HEADER + rows, sharedStrings_xml=strings)


def laughs(path: Path) -> None:
    entities = '<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12)
    )
    strings = f'<!DOCTYPE sst [{entities}]><sst xmlns="{_SHEET}"><si><t>&m;</t></si></sst>'
    workbook(path, _HEADER, sharedStrings_xml=strings)


def large_styles(path: Path) -> None:
    styles = [f'<styleSheet xmlns="{_SHEET}"><fonts>'.encode(), *[b"<font/>" * 100_000] * 100,
              b"</fonts></styleSheet>"]  # fmt: skip
    workbook(path, _HEADER + inline("a"), styles_xml=styles)


def many_parts(path: Path) -> None:
    workbook(path, _HEADER + inline("a"))
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(400_000):
            archive.writestr(f"p{number}", b"")


def bad_deflate(path: Path) -> None:
    workbook(path, _HEADER + inline("a" * 5000))
    data = bytearray(path.read_bytes())
    at = data.find(b"sheet1.xml", data.find(b"xl/workbook.xml.rels")) + 60
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)


def formulas(path: Path) -> None:
    workbook(path, _HEADER + '<row r="2"><c r="A2"><f>1+1</f></c></row>' + inline("asthma", 3))


def long_line(path: Path) -> None:
    with path.open("wb") as stream:
        stream.write(b"concept,term\n")
        for _ in range(1200):
            stream.write(b"x" * _MEGABYTE)


def many_columns(path: Path) -> None:
    path.write_bytes(b"term" + b",ab" * 10_000_000 + b"\n")


def open_quote(path: Path) -> None:
    with path.open("wb") as stream:
        stream.write(b'concept,term\n1,"')
        for _ in range(900):
            stream.write(b"x\n" * (_MEGABYTE >> 1))


def _gzipped(path: Path, start: bytes, block: bytes, count: int) -> None:
    """A block many times over: made once, and every copy is a member of its own."""
    with path.open("wb") as stream:
        stream.write(gzip.compress(start))
        member = gzip.compress(block)
        for _ in range(count):
            stream.write(member)


def gz_long_line(path: Path) -> None:
    _gzipped(path, b"concept,term\n", b"x" * (16 * _MEGABYTE), 200)


def gz_many_lines(path: Path) -> None:
    _gzipped(path, b"concept,term\n", b"1,asthma\n" * 2_000_000, 200)


def gz_cut_off(path: Path) -> None:
    path.write_bytes(gzip.compress(b"concept,term\n" + os.urandom(50_000).hex().encode())[:30_000])


def gz_damaged(path: Path) -> None:
    packed = bytearray(
        gzip.compress(b"concept,term\n1,asthma\n" + os.urandom(50_000).hex().encode())
    )
    packed[200:300] = bytes(100)
    path.write_bytes(packed)


def obo_frame(path: Path) -> None:
    synonym = b'synonym: "a" EXACT []\n' * 40_000
    start = b"format-version: 1.2\nontology: toy\n\n[Term]\nid: T:1\nname: pain\n"
    _gzipped(path, start, synonym, 400)


def obo_line(path: Path) -> None:
    start = b"format-version: 1.2\nontology: toy\n\n[Term]\nid: T:1\nname: "
    _gzipped(path, start, b"x" * (16 * _MEGABYTE), 60)


# Name of the file -> what makes it. The names of files tell `kg build` what they are.
TABLES: dict[str, Callable[[Path], None]] = {
    "long_cells.parquet": long_cells,
    "many_rows.parquet": many_rows,
    "one_list.parquet": one_list,
    "lists_of_long_texts.parquet": lists_of_long_texts,
    "prefixes.parquet": prefixes,
    "large_page.parquet": large_page,
    "row_three_billion.xlsx": row_three_billion,
    "column_far_away.xlsx": column_far_away,
    "wide_rows.xlsx": wide_rows,
    "many_cells_in_a_row.xlsx": many_cells_in_a_row,
    "many_rows_again.xlsx": many_rows_again,
    "long_inline_text.xlsx": long_inline_text,
    "many_shared_strings.xlsx": many_shared_strings,
    "one_shared_string_everywhere.xlsx": one_shared_string_everywhere,
    "laughs.xlsx": laughs,
    "large_styles.xlsx": large_styles,
    "many_parts.xlsx": many_parts,
    "bad_deflate.xlsx": bad_deflate,
    "formulas.xlsx": formulas,
    "long_line.csv": long_line,
    "many_columns.csv": many_columns,
    "open_quote.csv": open_quote,
}
RELEASES: dict[str, Callable[[Path], None]] = {
    "long_line_terms.csv.gz": gz_long_line,
    "many_lines_terms.csv.gz": gz_many_lines,
    "cut_off_terms.csv.gz": gz_cut_off,
    "damaged_terms.csv.gz": gz_damaged,
    "long_line_terms.csv": long_line,
    "long_cells_terms.parquet": long_cells,
    "long_line_terms.tsv": long_line,
    "frame.obo.gz": obo_frame,
    "line.obo.gz": obo_line,
}
# The quickest: `map` has written the first gigabyte of long cells before it refuses them.
_SMALL = ("row_three_billion.xlsx", "column_far_away.xlsx", "bad_deflate.xlsx")

_CAP = 6 << 30  # bytes of address space, so that an attack on an older tree spares the machine
_MEASURED = f"""
import atexit, resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, ({_CAP}, {_CAP}))
def tell():
    with open("/proc/self/status") as file:
        print([line for line in file if line.startswith("VmHWM")][0], file=sys.stderr)
atexit.register(tell)
sys.argv = ["medcoder", *sys.argv[1:]]
runpy.run_module("medcoder", run_name="__main__", alter_sys=True)
"""
_PEAK = re.compile(r"VmHWM:\s+([0-9]+) kB")


def run(attack: Attack) -> Tally:
    tally = attack.tally
    trials = list(_trials(attack))
    if attack.small:
        trials = [trial for trial in trials if trial[1] in _SMALL and trial[0] != "upload"]
    files = attack.folder / "files"
    files.mkdir()
    make_index(attack, attack.folder)
    service = None
    try:
        for door, name, make in trials[: attack.trials]:
            if attack.over:
                break
            path = files / name
            if not path.exists():
                make(path)
            tally.trials += 1
            tally.count(door)
            attack.say(f"{door} {name} ({path.stat().st_size:,} bytes)")
            if door == "upload":
                service = service or Service(attack)
                wrong = service.send(path)
                if wrong:
                    service.stop()
                    service = None
            else:
                wrong = _command(attack, door, path)
            if wrong:
                tally.fail(f"{door} {name}: {wrong}")
    finally:
        if service:
            service.stop()
    tally.notes["most memory allowed, MB"] = MEMORY >> 20
    return tally


def _trials(attack: Attack) -> Iterator[tuple[str, str, Callable[[Path], None]]]:
    """Doors take turns: a run that is cut short has been at each of them."""
    yield "normalize --file", "long_line.csv", long_line
    releases = iter(RELEASES.items())
    for name, make in TABLES.items():
        yield "map", name, make
        yield "upload", name, make
        for release, make_release in islice(releases, 1):
            yield "kg build", release, make_release


def _command(attack: Attack, door: str, path: Path) -> str | None:
    """What is wrong with how a command takes a file; None: nothing."""
    out, index = attack.folder / "out", ("--index", attack.folder / "small.index")
    shutil.rmtree(out, ignore_errors=True)
    if door == "map":
        args = ["map", path, "--column", "term", *index, "--out", out]
    elif door == "kg build":
        source = "obo" if ".obo" in path.name else "table"
        args = ["kg", "build", f"{source}={path}", "--out", out]
    else:
        args = ["normalize", "--file", path, *index]
    done = attack.code(_MEASURED, *args, timeout=PATIENCE)
    if done.wrong:
        return done.wrong[-300:]
    if done.rc not in (0, 3):
        return f"exit code {done.rc}: {done.err[-300:]}"
    if done.rc == 3 and path.name not in done.err:
        return f"the error does not name the file: {done.err[-300:]}"
    if path.name == "formulas.xlsx" and "1 formula without a value" not in done.err:
        return "nothing is said of formulas without a value"
    peak = int(_PEAK.findall(done.err)[-1]) << 10
    return _too_much(peak)


def _too_much(peak: int) -> str | None:
    return f"{peak >> 20:,} MB of memory" if peak > MEMORY else None


def _capped() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_CAP, _CAP))


class Service:
    """A service that files are sent to."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        words = ("serve", "--index", attack.folder / "small.index", "--port", self._port)
        self._process = attack.start(*words, stdout=DEVNULL, stderr=DEVNULL, preexec_fn=_capped)
        for _ in range(600):
            with contextlib.suppress(OSError):
                if self._ask("GET", "/readyz")[0] == 200:
                    return
            time.sleep(0.2)
        raise Skipped("the service does not start")

    def send(self, path: Path) -> str | None:
        """What is wrong with how it takes a file."""
        if path.stat().st_size > 70 * _MEGABYTE:  # more than the service takes at all
            self._attack.tally.count("not sent: larger than any upload")
            return None
        name = path.name.encode()
        head = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="' + name + b'"\r\n\r\n'
        )
        body = head + path.read_bytes() + b"\r\n--x--\r\n"
        try:
            status, reply = self._ask(
                "POST", "/v1/uploads", body, {"Content-Type": "multipart/form-data; boundary=x"}
            )
            if status == 201 and (wrong := self._map(json.loads(reply)["upload"])):
                return wrong
            peak = _PEAK.search(Path(f"/proc/{self._process.pid}/status").read_text())
        except OSError as error:
            return f"the service is gone: {error}"
        if status not in (201, 413, 422):
            return f"status {status}"
        return _too_much(int(peak[1]) << 10) if peak else "the service is gone"

    def _map(self, upload: str) -> str | None:
        """An upload reads the first rows alone: a job reads them all."""
        asked = json.dumps({"upload": upload, "column": "term"}).encode()
        status, reply = self._ask("POST", "/v1/map", asked, {"Content-Type": "application/json"})
        if status != 202:
            return None if status in (413, 422) else f"status {status} of a job"
        job = json.loads(reply)
        end = time.monotonic() + PATIENCE
        while job["state"] in ("waiting", "running"):
            if time.monotonic() > end:
                return f"a job takes more than {PATIENCE} s"
            time.sleep(0.05)
            job = json.loads(self._ask("GET", f"/v1/jobs/{job['id']}")[1])
        return "a job fails by itself" if "see the log" in (job["error"] or "") else None

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: Any = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()
