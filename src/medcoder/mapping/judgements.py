"""What people's decisions say of the machine: whether its first candidate was right.

Right is the first candidate or a twin of it, whatever the equivalence; wrong is another target, or
"no match". Only a decision that a person made on a single term is a judgement. The queries of this
file say which are, and why the others are not.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import NamedTuple

import numpy as np

from medcoder.mapping.project import queries, stored
from medcoder.mapping.recalibration import Floats, Whole

# Why a decision does not count, and what that is called.
LEFT_OUT = {
    "bulk": "made for many terms at once or taken over from a file",
    "flagged": "to be looked at again",
    "review": "on strings that a person must look at, however sure the machine is",
    "parts": "on cells of several things",
    "nothing": "on strings for which nothing was likely at all",
}
FROM = """FROM terms t JOIN events e ON e.id = t.decision JOIN strings s ON s.id = t.string
    LEFT JOIN candidates c ON c.string = s.id AND c.rank = 1"""
RIGHT = """ifnull(e.concept = c.concept
    OR e.concept IN (SELECT value FROM json_each(c.twins)), 0)"""
# A flag that says that the machine has changed its mind does not doubt the decision.
WHY_NOT = """CASE
    WHEN e.bulk THEN 'bulk'
    WHEN t.flag != '' AND t.flag NOT LIKE 'renamed: %' AND t.flag NOT LIKE 'no longer first: %'
        THEN 'flagged'
    WHEN s.review != '' THEN 'review'
    WHEN s.together > 1 THEN 'parts'
    WHEN c.concept IS NULL OR s.original <= 0 THEN 'nothing'
    ELSE '' END"""
# Would be mapped automatically, if nobody had decided.
AUTOMATIC = f"""{queries.TRUSTED} AND s.confidence >=
    (SELECT json_extract(value, '$') FROM meta WHERE key = 'threshold')"""


class Judgements(NamedTuple):
    """Decisions that count, an entry of each array for each of them."""

    original: Floats  # confidence that the machine had
    confidence: Floats  # as it stands
    right: Floats  # 1: the first candidate is right; 0: it is not
    string: Whole  # number of the string that is decided on
    left_out: dict[str, int]  # decisions that do not count, by a name of LEFT_OUT


def judgements(base: sqlite3.Connection) -> Judgements:
    """All decisions of a project that stand, as judgements; the caller guards."""
    found: list[tuple[float, float, int, int]] = []
    left_out: Counter[str] = Counter()
    query = f"SELECT {WHY_NOT}, s.original, s.confidence, {RIGHT}, s.id {FROM} ORDER BY t.id"
    for why, original, confidence, right, string in base.execute(query):
        if why:
            left_out[why] += 1
            continue
        for value, column in ((original, "original"), (confidence, "confidence")):
            if not stored.is_share(value):
                raise stored.Strange(column, string, value)
        found.append((original, confidence, right, string))
    columns = np.array(found, dtype=np.float64).reshape(-1, 4).T
    original, confidence, right, string = columns
    counts = {why: left_out[why] for why in LEFT_OUT if left_out[why]}
    return Judgements(original, confidence, right, string.astype(np.int64), counts)


def looked_at(base: sqlite3.Connection) -> tuple[int, int]:
    """Of what is automatic but for a decision: how many were judged, and how many right."""
    query = f"SELECT count(*), ifnull(sum({RIGHT}), 0) {FROM} WHERE {AUTOMATIC} AND {WHY_NOT} = ''"
    judged, right = base.execute(query).fetchone()
    return int(judged), int(right)
