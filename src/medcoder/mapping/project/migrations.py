"""Steps from older formats of a project file to the present format.

The format stands in the file as SQLite's `user_version`. Whoever changes the tables of `schema`
adds a step: a function that takes a connection inside a transaction, and changes a file of a
format to the next. It uses `execute`, never `executescript`, which would commit.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from medcoder.errors import ArtefactError, MedcoderError
from medcoder.files import replacing

Step = Callable[[sqlite3.Connection], None]
FIRST = 1  # the format of medcoder 0.1
_TOO_FAST = 0.1 / 86_400  # days between decisions that no person makes one by one


def add_what_is_said(base: sqlite3.Connection) -> None:
    """Format 2: what the machine says of a string beside its candidates, and of each of these."""
    for table, column in (
        ("strings", "review TEXT NOT NULL DEFAULT ''"),
        ("strings", "said TEXT NOT NULL DEFAULT '{}'"),
        ("strings", "together INTEGER NOT NULL DEFAULT 1"),
        ("strings", "was TEXT NOT NULL DEFAULT '[]'"),
        ("candidates", "attributes TEXT NOT NULL DEFAULT '[]'"),
        ("candidates", "twins TEXT NOT NULL DEFAULT '[]'"),
        ("candidates", "span TEXT"),
    ):
        base.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def keep_original_confidences(base: sqlite3.Connection) -> None:
    """Format 3: the machine's confidence beside the one that stands; what was decided in bulk.

    Older formats do not say which decisions were made in bulk: those of one person that are less
    than a tenth of a second apart, or that are not in the order of their times.
    """
    for table in ("strings", "candidates"):
        base.execute(f"ALTER TABLE {table} ADD COLUMN original REAL NOT NULL DEFAULT 0")
        base.execute(f"UPDATE {table} SET original = confidence")
    base.execute("ALTER TABLE events ADD COLUMN bulk INTEGER NOT NULL DEFAULT 0")
    base.execute(
        """UPDATE events SET bulk = 1 WHERE id IN (
            SELECT id FROM (
                SELECT id, day - lag(day) OVER times AS since, lead(day) OVER times - day AS until
                FROM (SELECT id, who, julianday(at) AS day FROM events WHERE action = 'decide')
                WINDOW times AS (PARTITION BY who ORDER BY id))
            WHERE since < ?1 OR until < ?1)""",
        [_TOO_FAST],
    )


# The first goes from format 1 to 2, and so on.
STEPS: list[Step] = [add_what_is_said, keep_original_confidences]


def present_format() -> int:
    """The format that this medcoder writes.

    >>> present_format()
    3
    """
    return FIRST + len(STEPS)


def format_of(base: sqlite3.Connection) -> int:
    return int(base.execute("PRAGMA user_version").fetchone()[0])


def migrate(base: sqlite3.Connection, file: Path) -> None:
    """Bring a file to the present format, all the way or not at all; a copy stays beside it.

    Others may have it open: they wait, and the first does the work.
    """
    if is_present(base, file):
        return
    base.execute("BEGIN IMMEDIATE")
    copy: Path | None = None
    try:
        if not is_present(base, file):  # another may have been faster
            old = format_of(base)
            copy = keep_copy(file, old)
            for step in STEPS[old - FIRST :]:
                step(base)
            base.execute(f"PRAGMA user_version = {present_format()}")
        base.execute("COMMIT")
    except BaseException as error:
        if base.in_transaction:
            base.execute("ROLLBACK")
        if copy is not None:
            copy.unlink(missing_ok=True)
        if _is_of_a_step(error):
            raise ArtefactError(
                "the project cannot be brought to the format of this medcoder",
                where=file,
                values=str(error) or type(error).__name__,
                remedy="Nothing was changed: use the medcoder that made it",
            ) from error
        raise


def _is_of_a_step(error: BaseException) -> bool:
    """Whether it says that a step is wrong for this file, and not that the disk is full or busy."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
    return isinstance(error, Exception) and not isinstance(error, MedcoderError)


def keep_copy(file: Path, old: int) -> Path:
    """Copy a project that nobody is writing to, beside it: project.sqlite.v1."""
    copy = file.with_name(f"{file.name}.v{old}")
    # By SQLite and not by the file system: the last changes may be in the journal.
    with (
        replacing(copy) as partial,
        contextlib.closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        ) as source,
        contextlib.closing(sqlite3.connect(partial)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # the copy is a single file
    return copy


def is_present(base: sqlite3.Connection, file: Path) -> bool:
    """Whether a file has the present format; a file of a later medcoder is refused."""
    format, present = format_of(base), present_format()
    if not FIRST <= format <= present:
        raise ArtefactError(
            "the project has a format that this medcoder does not read",
            where=file,
            values=f"it has format {format}, formats {FIRST} to {present} are read",
            remedy="Use the medcoder that made it, or a newer release",
        )
    return format == present
