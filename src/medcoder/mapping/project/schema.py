"""The tables of a project file, and how it is opened, so that every failure has a plain reason."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from medcoder.errors import ArtefactError, DiskFull, MedcoderError, NotFound
from medcoder.files import disk_full, locked, no_room, sync
from medcoder.mapping.project.migrations import is_present, migrate, present_format
from medcoder.mapping.project.stored import (
    Strange,
    check_beside,
    check_schema,
    distrust,
    strange,
)
from medcoder.unfinished import sweep, unfinished

APPLICATION = 0x6D65646D  # "medm", in the header of the file
# Bytes; with fewer, an error of writing means a full disk. Making a project takes a bit over half.
_ROOM = 1 << 17
WAIT = 30.0  # seconds that a writer waits for another

_DAMAGED = (
    "the project is damaged",
    "Take it from a backup, or save what can be read with: sqlite3 {} .recover",
)
_CLOSED = (
    "the project is read-only",
    "Nothing was changed. Check that you may write it and the folder it is in, or work on a copy",
)
_UNOPENED = (
    "the project cannot be opened or written",
    "Check that you may read and write it and the folder it is in",
)
_REASONS = {
    sqlite3.SQLITE_IOERR: (
        "the project cannot be read or written",
        "All that was saved before is kept: check the disk, and that it is not a network drive "
        "that is gone",
    ),
    sqlite3.SQLITE_READONLY: _CLOSED,
    sqlite3.SQLITE_PERM: _UNOPENED,
    sqlite3.SQLITE_CANTOPEN: _UNOPENED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
}

# What opening fails with where nothing can be written, or nothing be put beside the file.
_NOT_WRITTEN = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
)

# A string is looked up once for each scope; a term is what a person decides on; rows repeat it.
# A decision is an event and stays: what stands now is `terms.decision`.
TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE scopes (id INTEGER PRIMARY KEY, value TEXT NOT NULL UNIQUE);
CREATE TABLE strings (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    hint TEXT NOT NULL,  -- what re-ranks its candidates
    scope INTEGER NOT NULL REFERENCES scopes,  -- what restricts them
    mapped INTEGER NOT NULL DEFAULT 0,  -- the run of the machine that mapped it last; 0: none
    answered INTEGER NOT NULL DEFAULT 0,  -- 0: the machine abstained
    confidence REAL NOT NULL DEFAULT 0,
    earlier TEXT,  -- the first candidate of the run before
    review TEXT NOT NULL DEFAULT '',  -- why a person must look at it, however sure the machine is
    said TEXT NOT NULL DEFAULT '{}',  -- what the machine says beside its candidates
    together INTEGER NOT NULL DEFAULT 1,  -- candidates that are meant together, the first
    was TEXT NOT NULL DEFAULT '[]',  -- what the run before mapped it to automatically
    original REAL NOT NULL DEFAULT 0,  -- the machine's confidence, before any recalibration
    UNIQUE (text, hint, scope)
);
CREATE INDEX waiting ON strings (mapped, scope, id);
CREATE TABLE candidates (
    string INTEGER NOT NULL REFERENCES strings,
    rank INTEGER NOT NULL,
    concept TEXT NOT NULL,
    name TEXT NOT NULL,
    codes TEXT NOT NULL,
    term TEXT NOT NULL,
    cosine REAL,
    score REAL NOT NULL,
    confidence REAL NOT NULL,
    stage TEXT NOT NULL,
    attributes TEXT NOT NULL DEFAULT '[]',
    twins TEXT NOT NULL DEFAULT '[]',
    span TEXT,  -- of the part of the text that it is for
    original REAL NOT NULL DEFAULT 0,  -- the machine's confidence, before any recalibration
    PRIMARY KEY (string, rank)
) WITHOUT ROWID;
CREATE TABLE terms (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    code TEXT NOT NULL,
    language TEXT NOT NULL,
    context TEXT NOT NULL,
    string INTEGER NOT NULL REFERENCES strings,
    first INTEGER NOT NULL,
    rows INTEGER NOT NULL DEFAULT 0,
    count INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    decision INTEGER REFERENCES events,
    flag TEXT NOT NULL DEFAULT '',
    UNIQUE (text, code, language, context)
);
CREATE INDEX of_string ON terms (string);
CREATE INDEX decided ON terms (decision) WHERE decision IS NOT NULL;
CREATE TABLE rows (
    number INTEGER PRIMARY KEY,
    term INTEGER NOT NULL REFERENCES terms,
    count INTEGER NOT NULL,
    fields TEXT NOT NULL
);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    term INTEGER NOT NULL REFERENCES terms,
    action TEXT NOT NULL,
    concept TEXT,
    name TEXT NOT NULL DEFAULT '',
    codes TEXT NOT NULL DEFAULT '[]',
    equivalence TEXT NOT NULL DEFAULT '',
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    note TEXT NOT NULL,
    version INTEGER NOT NULL,
    flag TEXT NOT NULL DEFAULT '',  -- after it
    stands INTEGER,  -- the decision after it
    before INTEGER,  -- the decision before it
    flag_before TEXT NOT NULL DEFAULT '',
    bulk INTEGER NOT NULL DEFAULT 0  -- decided together with others, without a look at it alone
);
CREATE INDEX of_term ON events (term, id);
"""


_READ = "mode=ro"


class _OlderFormat(Exception):
    """A file that is opened for reading only has to be brought to our format first."""


class Connection(sqlite3.Connection):
    """A connection to a project file, or to a copy of it that goes when it is closed."""

    refusal: MedcoderError | None = None  # why it cannot be written to
    copy: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        super().close()
        if self.copy is not None:
            self.copy.cleanup()


def connect(file: Path, *, make: bool = False, wait: float = WAIT) -> Connection:
    """A connection in WAL mode; a file that is no project is an error that says so.

    A project that cannot be written to, or that has no room for the files that SQLite puts beside
    it, is opened for reading, unless it is to be made.
    """
    if not make and not file.is_file():
        raise _missing(file)
    check_beside(file)
    with guarded(file, made=not make):
        if make:
            sweep(file)
        if make and not file.exists():
            _put_empty(file)
        if make and not _may_write(file):
            raise _read_only(file)
        if _may_write(file):
            try:
                # A file that is deleted this moment stays so.
                return _opened(file, "mode=rw", wait=wait, make=make)
            except sqlite3.Error as error:
                if make or _code(error) not in _NOT_WRITTEN or not file.is_file():
                    raise
                refusal = _ours(error, file)
        else:
            refusal = _read_only(file)
        base = _open_for_reading(file, wait)
        base.refusal = refusal
        return base


def _opened(file: Path, how: str, *, wait: float, make: bool = False) -> Connection:
    address = f"{file.absolute().as_uri()}?{how}"
    base = sqlite3.connect(
        address, uri=True, timeout=wait, isolation_level=None, factory=Connection
    )
    try:
        base.execute("PRAGMA foreign_keys = OFF")
        distrust(base)
        if make:
            _make(base)
        _check(base, file)
        check_schema(base, file, TABLES)
        if how.startswith(_READ) and not is_present(base, file):
            raise _OlderFormat
        migrate(base, file)
        base.execute("PRAGMA synchronous = FULL")  # what was acknowledged outlives power cuts
    except BaseException:
        base.close()
        raise
    return base


def _open_for_reading(file: Path, wait: float) -> Connection:
    """A connection that writes nothing, neither to the file nor beside it."""
    journal = file.with_name(f"{file.name}-wal")
    if not journal.exists() or not journal.stat().st_size:
        # All of it is in the file, and nobody has it open. To read a file in WAL mode otherwise,
        # SQLite would put two files beside it, with the owner and the permissions of a reader.
        with contextlib.suppress(_OlderFormat):
            return _opened(file, f"{_READ}&immutable=1", wait=wait)
    elif file.with_name(f"{file.name}-shm").exists():
        with contextlib.suppress(sqlite3.Error, _OlderFormat):
            return _opened(file, _READ, wait=wait)
    # Somebody was killed, or it was copied, and its last changes are in the journal; or it has an
    # older format, from which it can be brought to ours in a copy only.
    with disk_full(Path(tempfile.gettempdir()), kept="The project is as it was"):
        copy = tempfile.TemporaryDirectory(prefix="medcoder-")
        try:
            whole = Path(copy.name) / file.name
            shutil.copyfile(file, whole)
            if journal.exists():
                shutil.copyfile(journal, whole.with_name(journal.name))
            whole.chmod(0o600)
            base = _opened(whole, "mode=rw", wait=wait)
        except BaseException:
            copy.cleanup()
            raise
    base.copy = copy
    return base


def _may_write(file: Path) -> bool:
    """Whether we may write a file and beside it. Mounts that are read-only count."""
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


@contextlib.contextmanager
def transaction(base: sqlite3.Connection, file: Path) -> Iterator[None]:
    """All of it is written, or nothing; inside another transaction, it is part of that."""
    if base.in_transaction:
        yield
        return
    if isinstance(base, Connection) and base.refusal is not None:
        raise base.refusal
    with guarded(file):
        base.execute("BEGIN IMMEDIATE")
        try:
            yield
            base.execute("COMMIT")
        except BaseException:
            if base.in_transaction:
                base.execute("ROLLBACK")
            raise


@contextlib.contextmanager
def guarded(file: Path, *, made: bool = True) -> Iterator[None]:
    """Errors of SQLite as ours; that the file is missing goes first, if it had been made."""
    try:
        yield
    except Strange as error:
        raise strange(error, file) from error
    except sqlite3.Error as error:
        if made and not file.is_file():
            raise _missing(file) from error
        raise _ours(error, file) from error


def _put_empty(file: Path) -> None:
    """Put an empty project where none is: whole, since others may open it the moment it is there.

    Nothing is there if the disk is full.
    """
    with (
        disk_full(file, kept="The project was not made"),
        unfinished(file) as folder,
    ):
        folder.mkdir()
        whole = folder / file.name
        with contextlib.closing(sqlite3.connect(whole, isolation_level=None)) as base:
            _make(base)
        # Closing puts the journal into the file. If there is no room, it does not tell.
        if whole.with_name(f"{whole.name}-wal").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(whole)
        if any(left.exists() for left in _beside(file)):
            # The journal of a project that was deleted would be read into the new one.
            with locked(file):
                if not file.exists():
                    for left in _beside(file):
                        left.unlink(missing_ok=True)
                    _publish(whole, file)
        else:
            _publish(whole, file)
        sync(file.parent)


def _publish(whole: Path, file: Path) -> None:
    """Give a file its name, unless another has it by now."""
    try:
        os.link(whole, file)
    except FileExistsError:
        pass
    except OSError as error:
        if no_room(error):
            raise
        with locked(file):  # a disk without hard links
            if not file.exists():
                whole.rename(file)


def _beside(file: Path) -> list[Path]:
    """The files that SQLite keeps beside one."""
    return [file.with_name(f"{file.name}-{name}") for name in ("wal", "shm")]


def _make(base: sqlite3.Connection) -> None:
    if base.execute("PRAGMA schema_version").fetchone()[0]:
        return
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("BEGIN IMMEDIATE")
    if not base.execute("PRAGMA schema_version").fetchone()[0]:  # another may have been faster
        for statement in TABLES.split(";\n"):
            base.execute(statement)
        base.execute(f"PRAGMA application_id = {APPLICATION}")
        base.execute(f"PRAGMA user_version = {present_format()}")
    base.execute("COMMIT")


def _check(base: sqlite3.Connection, file: Path) -> None:
    if base.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise ArtefactError("it is not a mapping project", where=file, remedy="Check the path")


def _missing(file: Path) -> NotFound:
    remedy = "Make a project with: medcoder map FILE --out DIR"
    return NotFound("there is no such project", where=file, remedy=remedy)


def _read_only(file: Path) -> ArtefactError:
    what, remedy = _CLOSED
    return ArtefactError(what, where=file, remedy=remedy)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _ours(error: sqlite3.Error, file: Path) -> MedcoderError:
    code = _code(error)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(file)):
        free = shutil.disk_usage(file.parent).free
        return DiskFull(
            "no room left to write the project",
            where=file,
            values=f"{free / 1e9:.2f} GB free",
            remedy="All that was saved before is kept. Free some space and run it again",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ArtefactError(
            "the project is in use by another process",
            where=file,
            remedy="Nothing was changed: try again when it is done",
        )
    what, remedy = _REASONS.get(code, ("it is not as a project should be", "Take it from a backup"))
    return ArtefactError(what, where=file, values=error, remedy=remedy.format(file.name))


def _is_full(file: Path) -> bool:
    """Whether an error of writing comes of a full disk, a quota or a limit on the size of files.

    SQLite does not tell, so it is tried, beyond where the journal may have come to.
    """
    size = sum(each.stat().st_size for each in (file, *_beside(file)) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=file.parent) as probe:
            probe.seek(size)
            probe.write(bytes(_ROOM))
    except OSError as error:
        return no_room(error) is not None
    return False
