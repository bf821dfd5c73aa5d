"""A mapping project: one SQLite file with source rows, candidates, decisions and their history."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from medcoder.errors import ArtefactError, MedcoderError, NotFound, UsageError
from medcoder.files import disk_full
from medcoder.mapping.project import decisions, queries, stored
from medcoder.mapping.project.records import (
    STATUSES,
    Decision,
    Equivalence,
    Event,
    Status,
    TermMapping,
    unknown,
)
from medcoder.mapping.project.schema import WAIT, Connection, connect, guarded, transaction
from medcoder.types import Code

FILE = "project.sqlite"


class Project:
    """What is mapped, what people decided, and how it came to that.

    Decisions are of source terms, which are distinct in text, code, language and context; rows
    that repeat a term share its decision. A term is named by any of its row numbers, or by its
    text where no other term has it.

    >>> with Project.open("ward") as project:  # doctest: +SKIP
    ...     project.decide(12, "HP:0001658", who="ann", expected_version=0)
    """

    def __init__(self, file: Path, base: Connection, wait: float) -> None:
        """Use `Project.open`."""
        self.path = file
        self.base, self._wait = base, wait  # the connection: for this room only

    @classmethod
    def open(cls, path: str | Path, *, wait: float = WAIT) -> Self:
        """Open a project by its file or by the folder that holds it.

        wait: seconds to wait for others who are writing
        """
        file = project_file(path)
        return cls(file, connect(file, wait=wait), wait)

    @classmethod
    def create(cls, path: str | Path, *, wait: float = WAIT) -> Self:
        """Open a project, which is made if there is none."""
        file = project_file(path)
        if file.parent.is_file():
            remedy = "Name a folder for the project"
            raise UsageError("it is a file", where=file.parent, remedy=remedy)
        new = not file.parent.exists()
        try:
            with disk_full(file, kept="The project was not made"):
                file.parent.mkdir(parents=True, exist_ok=True)
            return cls(file, connect(file, make=True, wait=wait), wait)
        except BaseException as error:
            if new:  # a folder that something is in stays
                with contextlib.suppress(OSError):
                    file.parent.rmdir()
            if isinstance(error, OSError):
                reason, remedy = error.strerror or error, "Name a folder that you may write to"
                raise UsageError(
                    "the project cannot be made", where=file.parent, values=reason, remedy=remedy
                ) from error
            raise

    def close(self) -> None:
        with guarded(self.path):
            self.base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Project({str(self.path)!r}: {len(self):,} rows)"

    def __len__(self) -> int:
        """Number of rows."""
        with guarded(self.path):
            return int(self.base.execute("SELECT count(*) FROM rows").fetchone()[0])

    # What it holds

    @property
    def refusal(self) -> MedcoderError | None:
        """Why nothing can be written to it; None: it can."""
        return self.base.refusal

    @property
    def meta(self) -> dict[str, Any]:
        """What it was made of and how; the keys are listed in `records`."""
        with guarded(self.path):
            entries = self.base.execute("SELECT key, value FROM meta WHERE key != 'header'")
            return stored.meta(dict(entries.fetchall()))

    def put(self, **values: Any) -> None:
        """Set entries of the meta data."""
        with self.transaction():
            self.base.executemany(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = ?2",
                [(key, json.dumps(value, ensure_ascii=False)) for key, value in values.items()],
            )

    @property
    def header(self) -> tuple[str, ...]:
        """Columns of the input."""
        with guarded(self.path):
            entries = self.base.execute("SELECT key, value FROM meta WHERE key = 'header'")
            return tuple(stored.meta(dict(entries.fetchall())).get("header", ()))

    def mappings(self, status: Status | None = None) -> Iterator[TermMapping]:
        """Every row in the order of the input, read in batches, as they were at the start."""
        return self._read(terms=False, status=status)

    def terms(self, status: Status | None = None) -> Iterator[TermMapping]:
        """Every source term once, at its first row, with the counts of its rows added up."""
        return self._read(terms=True, status=status)

    def mapping(self, where: int | str) -> TermMapping:
        """The mapping of a source term, at its first row."""
        term = self._term(where)
        with guarded(self.path):
            [mapping] = queries.mappings(
                self.base, terms=True, where="WHERE t.id = ?", values=[term]
            )
        return mapping

    def find(self, text: str, code: str | None = None) -> list[int]:
        """First row numbers of the source terms with this text, and this code if given."""
        with guarded(self.path):
            rows = self.base.execute(
                "SELECT first FROM terms WHERE text = ? AND code = ifnull(?, code) ORDER BY first",
                [decisions.as_text(text), code],
            ).fetchall()
            return [stored.whole(first, "first", text) for (first,) in rows]

    def counts(self) -> dict[Status, dict[str, int]]:
        """For each status the number of terms, of rows and the sum of their counts."""
        query = f"""SELECT {queries.STATUS} AS status, count(*), sum(t.rows), sum(t.count)
            FROM terms t JOIN strings s ON s.id = t.string GROUP BY status"""
        with guarded(self.path):
            counted = {row[0]: row[1:] for row in self.base.execute(query)}
            for status, sums in counted.items():
                stored.one_of(status, STATUSES, "status", "terms")
                stored.wholes(sums, "id rows count", status)
        return {
            status: dict(
                zip(("terms", "rows", "count"), counted.get(status, (0, 0, 0)), strict=True)
            )
            for status in STATUSES
        }

    def agreement(self) -> dict[str, int]:
        """Of the terms that would be automatic, how many people decided, and how many alike."""
        query = f"""SELECT count(*), ifnull(sum(e.concept IS c.concept), 0) FROM terms t
            JOIN events e ON e.id = t.decision JOIN strings s ON s.id = t.string
            JOIN candidates c ON c.string = s.id AND c.rank = 1 WHERE {queries.TRUSTED}
            AND s.confidence >=
                (SELECT json_extract(value, '$') FROM meta WHERE key = 'threshold')"""
        with guarded(self.path):
            decided, alike = self.base.execute(query).fetchone()
        return {"decided": int(decided), "alike": int(alike)}

    def _read(self, *, terms: bool, status: Status | None) -> Iterator[TermMapping]:
        if status is not None and status not in STATUSES:
            raise unknown("status", status, STATUSES)
        where = f"WHERE {queries.STATUS} = ?" if status else ""
        return self._stream(terms, where, [status] if status else [])

    def _stream(self, terms: bool, where: str, values: list[str]) -> Iterator[TermMapping]:
        with self.snapshot() as base:
            yield from queries.mappings(base, terms=terms, where=where, values=values)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees the project as it is now, whatever is decided meanwhile."""
        with guarded(self.path), contextlib.closing(connect(self.path, wait=self._wait)) as base:
            base.execute("BEGIN")
            yield base

    # Decisions

    def decide(
        self,
        where: int | str,
        concept: str | None,
        *,
        who: str,
        name: str = "",
        codes: tuple[Code, ...] = (),
        equivalence: Equivalence | None = None,
        note: str = "",
        when: str | None = None,
        expected_version: int | None = None,
        bulk: bool = False,
    ) -> Decision:
        """Decide what a source term means; None: there is no match.

        name, codes: of the concept; taken from the candidates if it is one of them
        equivalence: what the target is to the source; "equivalent" by default
        expected_version: `TermMapping.version` as it was seen. If somebody decided since, the
            decision is refused with StaleDecision, which holds both.
        bulk: it is made together with others, and nobody looked at this term alone. It says nothing
            of how often the machine is right
        """
        choice = decisions.choice(concept, name, codes, equivalence, who, note, when, bulk)
        with self.transaction():
            return decisions.decide(self.base, self._term(where), choice, expected_version)

    def undo(
        self,
        where: int | str | None = None,
        *,
        who: str,
        note: str = "",
        expected_version: int | None = None,
    ) -> Event:
        """Go back to what stood before the last decision on a term, or on any; again goes further.

        Without a term, it is the last decision of `who`.
        """
        with self.transaction():
            term = decisions.last_decided(self.base, who) if where is None else self._term(where)
            decisions.undo(self.base, term, who, note, expected_version)
            return decisions.last_event(self.base, term)

    def flag(
        self, where: int | str, reason: str, *, who: str, expected_version: int | None = None
    ) -> Event:
        """Mark a decision to be looked at again. It stays as it is until somebody decides anew."""
        reason, who = reason.strip(), who.strip()
        if not (reason and who):
            raise UsageError("why is it flagged, and who says so?", remedy="Give both")
        with self.transaction():
            term = self._term(where)
            decisions.flag(self.base, term, reason, who, expected_version)
            return decisions.last_event(self.base, term)

    def history(self, where: int | str | None = None) -> Iterator[Event]:
        """All that was decided, undone and flagged, oldest first; of a source term or of all."""
        condition, values = "", []
        if where is not None:
            condition, values = "WHERE v.term = ?", [self._term(where)]
        with self.snapshot() as base:
            yield from queries.events(base, condition, values)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Decisions made inside are kept together, or none of them."""
        with transaction(self.base, self.path):
            yield

    def verify(self) -> None:
        """Read the whole file; an error says that it is damaged."""
        with guarded(self.path):
            result = self.base.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if result != "ok":
            raise ArtefactError(
                "the project is damaged",
                where=self.path,
                values=result,
                remedy="Take it from a backup",
            )

    def check_complete(self) -> None:
        """An error if it is not mapped to its end."""
        meta, remedy = self.meta, "Run the command that made it again to go on"
        if meta.get("refreshing"):
            remedy = f"Go on with: medcoder map refresh {self.path.parent}"
        if not meta.get("complete"):
            raise UsageError(
                "the project is not mapped to its end", where=self.path.parent, remedy=remedy
            )

    def _term(self, where: int | str) -> int:
        with guarded(self.path):
            if isinstance(where, int):
                row = self.base.execute("SELECT term FROM rows WHERE number = ?", [where])
                term = row.fetchone()
                if term is None:
                    raise NotFound(
                        "the project has no such row",
                        where=self.path,
                        values=f"row {where:,} of {len(self):,}",
                    )
                return stored.whole(term[0], "term", where)
            rows = self.find(where)
            if not rows:
                raise NotFound("no row has this text", where=self.path, values=repr(where))
            if len(rows) > 1:
                shown = ", ".join(f"{row:,}" for row in rows[:10])
                raise UsageError(
                    "several source terms have this text, with other codes or contexts",
                    values=f"{len(rows)} have {where!r}",
                    remedy=f"Name one by its row: {shown}",
                )
            return self._term(rows[0])


def project_file(path: str | Path) -> Path:
    """The project file in a folder, or the file itself."""
    path = Path(path).expanduser()
    return path if path.suffix == ".sqlite" else path / FILE
