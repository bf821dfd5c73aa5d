"""The tables of a project file, and how it is opened, so that every failure has a plain reason."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from medcoder.errors import ArtefactError, DiskFull, MedcoderError, NotFound
from medcoder.files import sync
from medcoder.mapping.project.migrations import migrate, present_format

APPLICATION = 0x6D65646D  # "medm", in the header of the file
_ROOM = 1 << 20  # bytes; with fewer, an error of writing means a full disk
WAIT = 30.0  # seconds that a writer waits for another

_DAMAGED = (
    "the project is damaged",
    "Take it from a backup, or save what can be read with: sqlite3 {} .recover",
)
_CLOSED = (
    "the project cannot be opened or written",
    "Check that you may write it and the folder it is in",
)
_REASONS = {
    sqlite3.SQLITE_IOERR: (
        "the project cannot be read or written",
        "All that was saved before is kept: check the disk, and that it is not a network drive "
        "that is gone",
    ),
    sqlite3.SQLITE_READONLY: _CLOSED,
    sqlite3.SQLITE_PERM: _CLOSED,
    sqlite3.SQLITE_CANTOPEN: _CLOSED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
}

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
    flag_before TEXT NOT NULL DEFAULT ''
);
CREATE INDEX of_term ON events (term, id);
"""


def connect(file: Path, *, make: bool = False, wait: float = WAIT) -> sqlite3.Connection:
    """A connection in WAL mode; a file that is no project is an error that says so."""
    if not make and not file.is_file():
        raise _missing(file)
    with guarded(file, made=not make):
        if make and not file.exists():
            _put_empty(file)
        # Unless it is to be made, a file that is deleted this moment stays so.
        address = f"{file.absolute().as_uri()}?mode={'rwc' if make else 'rw'}"
        base = sqlite3.connect(address, uri=True, timeout=wait, isolation_level=None)
        try:
            base.execute("PRAGMA foreign_keys = OFF")
            if make:
                _make(base)
            _check(base, file)
            migrate(base, file)
            base.execute("PRAGMA synchronous = FULL")  # what was acknowledged outlives power cuts
        except BaseException:
            base.close()
            raise
    return base


@contextlib.contextmanager
def transaction(base: sqlite3.Connection, file: Path) -> Iterator[None]:
    """All of it is written, or nothing; inside another transaction, it is part of that."""
    if base.in_transaction:
        yield
        return
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
    except sqlite3.Error as error:
        if made and not file.is_file():
            raise _missing(file) from error
        raise _ours(error, file) from error


def _put_empty(file: Path) -> None:
    """Put an empty project where none is: whole, since others may open it the moment it is there.

    Where that cannot be done (a disk without hard links, another was faster, or the journal of a
    project that was deleted is left, which would be read into a new file), nothing is done: the
    caller makes the tables there, or says what is wrong.
    """
    if any(file.with_name(f"{file.name}-{left}").exists() for left in ("wal", "shm")):
        return
    with (
        contextlib.suppress(OSError),
        tempfile.TemporaryDirectory(prefix=".new-", dir=file.parent) as folder,
    ):
        whole = Path(folder) / file.name
        with contextlib.closing(sqlite3.connect(whole, isolation_level=None)) as base:
            _make(base)
        os.link(whole, file)
        sync(file.parent)


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


def _ours(error: sqlite3.Error, file: Path) -> MedcoderError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    free = shutil.disk_usage(file.parent).free
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and free < _ROOM):
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
