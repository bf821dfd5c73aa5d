"""Decisions on source terms: each is an event, checked against the version that was seen."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from typing import NamedTuple

from medcoder.errors import NotFound, StaleDecision, UsageError
from medcoder.mapping.project import queries, stored
from medcoder.mapping.project.records import EQUIVALENCES, Decision, Equivalence, Event, unknown
from medcoder.text import clean
from medcoder.types import Code

UNCHECKED = "decided before the terminology changed, and not compared with it"


class Choice(NamedTuple):
    """A decision that is not in the project yet."""

    concept: str | None
    name: str
    codes: tuple[Code, ...]
    equivalence: Equivalence
    who: str
    note: str
    when: str
    bulk: bool = False  # made together with others, without a look at the term alone


class _State(NamedTuple):
    """What stands for a term."""

    version: int
    decision: int | None
    flag: str


def as_text(text: str) -> str:
    """The text that source terms are told apart by."""
    return clean(text)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def choice(
    concept: str | None,
    name: str,
    codes: tuple[Code, ...],
    equivalence: Equivalence | None,
    who: str,
    note: str,
    when: str | None,
    bulk: bool = False,
) -> Choice:
    """A decision that makes sense, or an error."""
    equivalence = equivalence or ("no match" if concept is None else "equivalent")
    if equivalence not in EQUIVALENCES:
        raise unknown("equivalence", equivalence, EQUIVALENCES)
    if (concept is None) != (equivalence == "no match"):
        raise UsageError(
            "a decision has either a concept, or the equivalence no match",
            values=f"the concept is {concept!r}, the equivalence {equivalence!r}",
        )
    if not who.strip():
        raise UsageError("who decides?", remedy="Give a name")
    if when is not None and not stored.is_time(when):
        raise UsageError("it is not a time", values=repr(when), remedy="Give an ISO time, in UTC")
    made = when or now()
    return Choice(concept, name, tuple(codes), equivalence, who.strip(), note, made, bulk)


def decide(base: sqlite3.Connection, term: int, made: Choice, expected: int | None) -> Decision:
    """Write a decision; the caller has begun a transaction."""
    state = _state(base, term)
    made = _completed(base, term, made)
    mine = _as_decision(made, state.version + 1)
    _check(base, term, state, expected, mine)
    number = _add(base, term, "decide", made, state, flag="")
    base.execute("UPDATE events SET stands = id WHERE id = ?", [number])
    _stand(base, term, _State(state.version + 1, number, ""))
    return mine


def undo(base: sqlite3.Connection, term: int, who: str, note: str, expected: int | None) -> None:
    """Go back to what stood before the decision that stands now."""
    state = _state(base, term)
    if state.decision is None:
        raise UsageError("there is no decision to undo")
    _check(base, term, state, expected, None)
    before, flag = base.execute(
        "SELECT before, flag_before FROM events WHERE id = ?", [state.decision]
    ).fetchone()
    refreshed = base.execute("SELECT value FROM meta WHERE key = 'refreshed'").fetchone()
    if (
        before is not None
        and refreshed
        and state.decision <= stored.parsed(refreshed[0], int, "value", "refreshed")
    ):
        flag = UNCHECKED
    empty = Choice(None, "", (), "no match", who, note, now())
    number = _add(base, term, "undo", empty, state, flag=flag)
    base.execute("UPDATE events SET stands = ? WHERE id = ?", [before, number])
    _stand(base, term, _State(state.version + 1, before, flag))


def flag(
    base: sqlite3.Connection, term: int, reason: str, who: str, expected: int | None = None
) -> bool:
    """Mark a decision to be looked at again; it stays as it is. False if it was marked so."""
    state = _state(base, term)
    if state.decision is None:
        raise UsageError("there is no decision to flag")
    _check(base, term, state, expected, None)
    if state.flag == reason:
        return False
    number = _add(base, term, "flag", Choice(None, "", (), "no match", who, reason, now()), state,
                  flag=reason)  # fmt: skip
    base.execute("UPDATE events SET stands = ? WHERE id = ?", [state.decision, number])
    _stand(base, term, _State(state.version + 1, state.decision, reason))
    return True


def last_decided(base: sqlite3.Connection, who: str) -> int:
    """The term of the last decision of somebody that still stands."""
    row = base.execute(
        "SELECT t.id FROM terms t JOIN events e ON e.id = t.decision WHERE e.who = ? "
        "ORDER BY e.id DESC LIMIT 1",
        [who.strip()],
    ).fetchone()
    if row is None:
        raise NotFound("no decision of this person stands", values=repr(who))
    return int(row[0])


def last_event(base: sqlite3.Connection, term: int) -> Event:
    *_, last = queries.events(base, "WHERE v.term = ?", [term])
    return last


def newest_event(base: sqlite3.Connection) -> int:
    """The number of the last event of all; 0 if there is none."""
    return int(base.execute("SELECT ifnull(max(id), 0) FROM events").fetchone()[0])


def _state(base: sqlite3.Connection, term: int) -> _State:
    row = base.execute("SELECT version, decision, flag FROM terms WHERE id = ?", [term])
    state = _State(*row.fetchone())
    stored.wholes((state.version, state.decision or 0), "version decision", term)
    stored.texts((state.flag,), "flag", term)
    return state


def _completed(base: sqlite3.Connection, term: int, made: Choice) -> Choice:
    """With the name and the codes of the candidate that was chosen."""
    if made.concept is None or (made.name and made.codes):
        return made
    candidate = base.execute(
        "SELECT c.name, c.codes FROM candidates c JOIN terms t ON t.string = c.string "
        "WHERE t.id = ? AND c.concept = ?",
        [term, made.concept],
    ).fetchone()
    if candidate is None:
        return made
    stored.texts((candidate[0],), "name", term)
    return made._replace(
        name=made.name or candidate[0], codes=made.codes or stored.codes(candidate[1], term)
    )


def _check(
    base: sqlite3.Connection, term: int, state: _State, expected: int | None, mine: Decision | None
) -> None:
    if expected is None or expected == state.version:
        return
    last = last_event(base, term) if state.version else None
    raise StaleDecision(
        "the term was changed since",
        values=f"you saw version {expected} of {last.text if last else 'the term'!r}, it has "
        f"version {state.version}, by {last.who if last else 'nobody'}",
        remedy="Look at it again",
        expected=expected,
        found=state.version,
        mine=mine,
        theirs=last.decision if last else None,
    )


def _add(
    base: sqlite3.Connection, term: int, action: str, made: Choice, state: _State, *, flag: str
) -> int:
    added = base.execute(
        "INSERT INTO events (term, action, concept, name, codes, equivalence, who, at, note, "
        "version, flag, before, flag_before, bulk) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            term, action, made.concept, made.name, json.dumps(made.codes, ensure_ascii=False),
            made.equivalence if action == "decide" else "", made.who, made.when, made.note,
            state.version + 1, flag, state.decision, state.flag, made.bulk,
        ],
    )  # fmt: skip
    assert added.lastrowid is not None
    return added.lastrowid


def _stand(base: sqlite3.Connection, term: int, state: _State) -> None:
    base.execute(
        "UPDATE terms SET version = ?, decision = ?, flag = ? WHERE id = ?", [*state, term]
    )


def _as_decision(made: Choice, version: int) -> Decision:
    return Decision(
        concept=made.concept, name=made.name, codes=made.codes, equivalence=made.equivalence,
        who=made.who, when=made.when, note=made.note, version=version,
    )  # fmt: skip
