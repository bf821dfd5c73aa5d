"""Files that were sent, in folders of ours under names of our own.

Tables to map, and the CONCEPT tables of OMOP that exports look up the ids of concepts in.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import threading
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from medcoder.errors import InputError, MedcoderError, TooLarge
from medcoder.files import disk_full, replacing
from medcoder.mapping.formats.omop import check_concepts
from medcoder.serve.error_replies import Refused, input_message, library_reply
from medcoder.serve.settings import Settings
from medcoder.tables import TABLES, Reading, Table, open_table
from medcoder.tables.limits import Limits

PREVIEW = 8  # rows
_SHOWN = 200  # characters of a cell
_LONGEST = 100  # characters of a name
_BLOCK = 1 << 20
_LIKELY = (";", "\t", "|")
_ZIPPED = (".xlsx", ".xlsm")
_CONCEPT_ENDINGS = (".csv", ".csv.gz")
_OURS = re.compile(r"\.?([0-9a-f]{32})\.")  # how names of files begin
_UNSAFE = re.compile(r"[^\w .()+-]+")


class Upload(NamedTuple):
    """A table that was sent."""

    id: str
    file: Path
    name: str  # as it was called, for people to read: no file goes by it
    reading: dict[str, Any]  # how to read it
    limits: Limits = Limits()  # of what it may unpack to

    def table(self, *, keep_bad_rows: bool = True) -> Table:
        reading = Reading(keep_bad_rows=keep_bad_rows, limits=self.limits, **self.reading)
        return open_table(self.file, reading)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """An error meanwhile is that there is no such upload, if it was forgotten."""
        try:
            yield
        except (MedcoderError, OSError) as error:
            if self.file.exists():
                raise
            raise _forgotten() from error


class Uploads:
    """The folder of uploads."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._forget_undescribed()

    def add(self, stream: IO[bytes], name: str, encoding: str | None) -> tuple[Upload, Table]:
        """Keep a file and look at it; one that is no table is not kept."""
        ending = Path(name).suffix.lower()
        if ending not in TABLES:
            raise _wrong_ending(TABLES)
        number = uuid.uuid4().hex
        file = self._folder / f"{number}{ending}"
        reading = {"encoding": encoding} if encoding else {}
        upload = Upload(number, file, safe_name(name), reading, self._settings.limits)
        try:
            _write_up_to(stream, file, self._settings.upload)
            if ending in _ZIPPED and not zipfile.is_zipfile(file):
                raise _unreadable()
            upload, table = _opened(upload)
            with self._lock:
                self._describe(upload)
        except BaseException:
            for left in self._folder.glob(f"{number}.*"):
                left.unlink(missing_ok=True)
            raise
        return upload, table

    def get(self, number: str) -> Upload:
        if not re.fullmatch(r"[0-9a-f]{32}", number):
            raise _forgotten()
        try:
            with self._lock:
                said = json.loads((self._folder / f"{number}.json").read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise _forgotten() from error
        file = self._folder / said["file"]
        return Upload(number, file, said["name"], said["reading"], self._settings.limits)

    def last(self) -> str | None:
        """The id of the last one."""
        with self._lock:
            kept = self._kept()
        return kept[0].stem if kept else None

    def _describe(self, upload: Upload) -> None:
        """Make it one of those that are kept, in place of the oldest."""
        others = self._kept()
        said = {"file": upload.file.name, "name": upload.name, "reading": upload.reading}
        with replacing(self._folder / f"{upload.id}.json") as partial:
            partial.write_text(json.dumps(said), encoding="utf-8")
            _stamp(partial, others)
        for described in others[self._settings.uploads - 1 :]:
            for file in self._folder.glob(f"{described.stem}.*"):
                file.unlink(missing_ok=True)

    def _forget_undescribed(self) -> None:
        """Delete what a process that was killed left half sent."""
        known = {described.stem for described in self._kept()}
        for file in self._folder.iterdir():
            ours = _OURS.match(file.name)
            if ours and ours[1] not in known:
                file.unlink(missing_ok=True)

    def _kept(self) -> list[Path]:
        """What describes each, the last first."""
        return _last_first(self._folder.glob("[0-9a-f]*.json"))


class ConceptTables:
    """The folder of CONCEPT tables: the last few, unpacked."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in folder.glob("*.partial"):  # of a process that was killed
            left.unlink()

    def add(self, stream: IO[bytes], name: str) -> str:
        """Keep a table, and forget the oldest; gives its id. One that is none is not kept."""
        if not name.lower().endswith(_CONCEPT_ENDINGS):
            raise Refused(
                415,
                "format",
                f"the name of the file must end in one of {', '.join(_CONCEPT_ENDINGS)}",
            )
        number = uuid.uuid4().hex
        partial = self._folder / f"{number}.partial"
        try:
            if name.lower().endswith(".gz"):
                with gzip.open(stream) as unpacked:
                    _write_up_to(unpacked, partial, self._settings.concepts)
            else:
                _write_up_to(stream, partial, self._settings.concepts)
            check_concepts(partial)
            with self._lock:
                self._keep(partial, number)
        except (InputError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Refused(
                422, "bad_input", "it is no CONCEPT table of OMOP: its first line must name the "
                "columns, with tabs between them, as in a download from Athena",
            ) from error  # fmt: skip
        finally:
            partial.unlink(missing_ok=True)
        return number

    def get(self, number: str) -> Path:
        file = self._folder / f"{number}.csv"
        if not re.fullmatch(r"[0-9a-f]{32}", number) or not file.is_file():
            raise Refused(404, "no_concepts", "there is no such CONCEPT table: send it again")
        return file

    def _keep(self, partial: Path, number: str) -> None:
        """Make it one of those that are kept, in place of the oldest."""
        others = _last_first(self._folder.glob("*.csv"))
        _stamp(partial, others)
        partial.replace(self._folder / f"{number}.csv")
        for file in others[self._settings.concept_tables - 1 :]:
            file.unlink(missing_ok=True)


def _last_first(files: Iterable[Path]) -> list[Path]:
    """Files by their times."""
    return sorted(files, key=lambda file: (file.stat().st_mtime_ns, file), reverse=True)


def _stamp(file: Path, others: list[Path]) -> None:
    """Make a file later than others, the last first, of the same moment or by a clock put back."""
    last = others[0].stat().st_mtime_ns if others else 0
    moment = max(time.time_ns(), last + 1)
    os.utime(file, ns=(moment, moment))


def _forgotten() -> Refused:
    return Refused(404, "no_upload", "there is no such upload: send the file again")


def _write_up_to(stream: IO[bytes] | BufferedIOBase, file: Path, limit: int) -> None:
    """Write a new file for us alone; more than so many bytes are refused."""
    written = 0
    with disk_full(file), file.open("xb") as out:
        file.chmod(0o600)
        while block := stream.read(_BLOCK):
            written += len(block)
            if written > limit:
                raise Refused(
                    413, "too_large", f"the file is larger than {limit:,} bytes", limit=limit
                )
            out.write(block)


def safe_name(name: str) -> str:
    """The last part of a name, without what a page or a terminal might take for more.

    >>> safe_name("../../etc/ward\\x1b[2J<b>.csv"), safe_name("C:\\\\data\\\\ward.csv")
    ('ward_2J_b_.csv', 'ward.csv')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    return _UNSAFE.sub("_", last).strip()[-_LONGEST:] or "table"


def preview(table: Table) -> list[list[str]]:
    """The first rows, long cells cut."""
    return [[cell[:_SHOWN] for cell in row.fields] for row in islice(table.rows(), PREVIEW)]


def _opened(upload: Upload) -> tuple[Upload, Table]:
    ending = upload.file.suffix
    try:
        table = upload.table()
        for delimiter in _LIKELY:  # a CSV of a country where the comma is in numbers
            if ending == ".csv" and len(table.header) == 1 and delimiter in table.header[0]:
                upload = upload._replace(reading=upload.reading | {"delimiter": delimiter})
                table = upload.table()
        preview(table)
    except TooLarge as error:
        raise library_reply(error) from error
    except InputError as error:
        raise Refused(422, "bad_input", input_message(error)) from error
    except MedcoderError as error:
        raise Refused(
            422, "bad_input", "the file cannot be read: check its format and its encoding"
        ) from error
    except Exception as error:  # of a file that is anything, anything may come
        raise _unreadable() from error
    return upload, table


def _wrong_ending(known: Iterable[str]) -> Refused:
    message = f"the name of the file must end in one of {', '.join(known)}"
    return Refused(415, "format", message)


def _unreadable() -> Refused:
    return Refused(422, "bad_input", "the file is not what the ending of its name says")
