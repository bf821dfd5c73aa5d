"""Confidences of a project, fitted anew on what people decided in it, and back again.

The machine's own confidence stays beside the one that stands, so that another fit begins from it
and undoing is exact. What people decided never changes.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from medcoder.errors import UsageError
from medcoder.mapping.auto_threshold import auto_threshold, floor, lowest_threshold
from medcoder.mapping.judgements import LEFT_OUT, judgements
from medcoder.mapping.project import Project, queries, stored
from medcoder.mapping.project.decisions import now
from medcoder.mapping.project.schema import guarded
from medcoder.mapping.promise import percent
from medcoder.mapping.recalibration import HeldOut, Recalibration, fit, held_out

ENOUGH = 200  # decisions, with fewer of which nothing is fitted
_NAMED = "recalibrated"
_COUNTED = ("become_automatic", "go_to_review", "automatic")
_NO_EFFECT = dict.fromkeys(("threshold", *_COUNTED))
_GROUPS = f"""SELECT s.original, s.confidence, count(*), sum(t.rows), sum(t.count),
        sum(t.decision IS NULL), sum(CASE WHEN t.decision IS NULL THEN t.rows ELSE 0 END)
    FROM terms t JOIN strings s ON s.id = t.string WHERE {queries.TRUSTED}
    GROUP BY s.original, s.confidence"""


def calibrate(project: Project, *, who: str, dry_run: bool = False) -> dict[str, Any]:
    """Fit the confidences of a project anew on its decisions, if that is a gain.

    A decision counts if a person made it on a single term. It is a gain if confidences that were
    fitted on other decisions are nearer to what people decided than those that stand: their log
    loss must be lower, by more than chance would have it, and so must the calibration error be.
    With fewer than 200 decisions that count, or with all of them alike, nothing is fitted.

    dry_run: say what would change, and change nothing

    Gives `changed`, `gain`, `reason` (why there is none, in words), `decisions` (how many count,
    how many of these found the machine right, and how many do not count, by reason), `held_out`
    (`log_loss` and `calibration_error`, before and after), `recalibration` (its two numbers),
    `threshold` (before and after) and how many undecided terms become automatic or go to review.
    """
    if not who.strip():
        raise UsageError("who calibrates?", remedy="Give a name")
    if dry_run:
        project.check_complete()
        with project.snapshot() as base:
            return _fitted(project, base)[0]
    with project.transaction():
        project.check_complete()
        outcome, made = _fitted(project, project.base)
        if made is not None:
            held = outcome["held_out"]
            entry = made._asdict() | {
                "who": who.strip(),
                "when": now(),
                "decisions": outcome["decisions"]["counted"],
                "right": outcome["decisions"]["right"],
                "log_loss": held["log_loss"],
                "calibration_error": held["calibration_error"],
                "threshold": outcome["threshold"],
            }
            pairs = ("log_loss", "calibration_error", "threshold")
            entry |= {name: [entry[name]["before"], entry[name]["after"]] for name in pairs}
            before = project.meta.get("recalibrations") or []
            _put(project, [*before, entry])
    return outcome | {"changed": made is not None}


def undo_calibration(project: Project, *, dry_run: bool = False) -> dict[str, Any]:
    """Go back to the confidences before the last calibration that stands; again goes further.

    Gives the same as `calibrate`, as far as it concerns that.
    """
    if dry_run:
        project.check_complete()
        with project.snapshot() as base:
            return _undone(project, base)[0]
    with project.transaction():
        project.check_complete()
        outcome, left = _undone(project, project.base)
        _put(project, left)
    return outcome | {"changed": True}


def _fitted(
    project: Project, base: sqlite3.Connection
) -> tuple[dict[str, Any], Recalibration | None]:
    """What a fit gains and changes, and the fit if it is a gain."""
    with guarded(project.path):
        found = judgements(base)
        counted, right = len(found.right), int(found.right.sum())
        outcome: dict[str, Any] = {
            "changed": False,
            "gain": False,
            "reason": _too_little(counted, right),
            "decisions": {"counted": counted, "right": right, "left_out": found.left_out},
            "held_out": None,
            "recalibration": None,
            **_NO_EFFECT,
        }
        if outcome["reason"]:
            return outcome, None
        held = held_out(found.original, found.confidence, found.right, found.string)
        outcome["held_out"] = {
            name: dict(zip(("before", "after"), getattr(held, name), strict=True))
            for name in ("log_loss", "calibration_error")
        }
        if not held.gain:
            return outcome | {"reason": _no_gain(held)}, None
        made = fit(found.original, found.right)
        outcome |= {"gain": True, "recalibration": made._asdict()}
        return outcome | _effect(project, base, made.applied), made


def _undone(project: Project, base: sqlite3.Connection) -> tuple[dict[str, Any], list[Any]]:
    """What undoing changes, and the recalibrations that are left."""
    left = list(project.meta.get("recalibrations") or ())
    if not left:
        raise UsageError(
            "no calibration of the project stands",
            where=project.path.parent,
            remedy="The confidences are those of the machine",
        )
    left.pop()
    made = Recalibration.standing({"recalibrations": left})
    outcome = {"changed": False, "recalibration": made._asdict() if made else None}
    with guarded(project.path):
        return outcome | _effect(project, base, _function(made)), left


def _put(project: Project, recalibrations: list[Any]) -> None:
    """Write confidences and threshold by the last of these; the caller has begun a transaction."""
    made = Recalibration.standing({"recalibrations": recalibrations})
    base = project.base
    base.create_function(_NAMED, 1, _function(made), deterministic=True)
    for table in ("strings", "candidates"):
        base.execute(f"UPDATE {table} SET confidence = {_NAMED}(original)")
    threshold = auto_threshold(project, _promised(project))
    project.put(**threshold, recalibrations=recalibrations, updated=now())


def _function(made: Recalibration | None) -> Callable[[float], float]:
    return made.applied if made else float


def _effect(
    project: Project, base: sqlite3.Connection, made: Callable[[float], float]
) -> dict[str, Any]:
    """What other confidences do to the threshold, and to terms that nobody decided on."""
    precision, before = _promised(project), project.meta.get("threshold")
    groups: defaultdict[float, list[int]] = defaultdict(lambda: [0, 0, 0])
    undecided: list[tuple[float, float, int, int]] = []
    for original, confidence, terms, rows, count, open_terms, open_rows in base.execute(_GROUPS):
        if not (stored.is_share(original) and stored.is_share(confidence)):
            raise stored.Strange("confidence", "strings", (original, confidence))
        stored.wholes(
            (terms, rows, count, open_terms, open_rows), "terms rows count terms rows", "terms"
        )
        after = made(original)
        groups[after] = [
            known + more for known, more in zip(groups[after], (terms, rows, count), strict=True)
        ]
        undecided.append((confidence, after, open_terms, open_rows))
    least = floor(precision)
    ranked = [
        (confidence, *groups[confidence]) for confidence in sorted(groups) if confidence >= least
    ]
    found: Any = reversed(ranked)
    threshold = lowest_threshold(found, precision)["threshold"]
    totals = {name: {"terms": 0, "rows": 0} for name in _COUNTED}
    for confidence, after, terms, rows in undecided:
        was = before is not None and confidence >= before
        is_now = threshold is not None and after >= threshold
        said = (is_now and not was, was and not is_now, is_now)
        for name, true in zip(_COUNTED, said, strict=True):
            totals[name]["terms"] += terms * true
            totals[name]["rows"] += rows * true
    return {"threshold": {"before": before, "after": threshold}, **totals}


def _promised(project: Project) -> float:
    precision = project.meta.get("precision")
    if precision is None:
        raise stored.Strange("value", "precision", precision)
    return float(precision)


def _too_little(counted: int, right: int) -> str:
    """Why nothing can be fitted on so many decisions; "" if it can."""
    if counted < ENOUGH:
        return f"too few decisions count: {counted:,}, and {ENOUGH} are needed"
    if right in (0, counted):
        said = "right" if right else "wrong"
        return (
            f"all {counted:,} decisions that count found the first candidate {said}, so they do "
            "not tell which confidences are better"
        )
    return ""


def _no_gain(held: HeldOut) -> str:
    loss, error = held.log_loss, held.calibration_error
    return (
        "a fit is no gain that can be told from chance: on held-out decisions, the calibration "
        f"error would go from {percent(error[0])} to {percent(error[1])}, and the log loss from "
        f"{loss[0]:.4f} to {loss[1]:.4f}"
    )


def left_out_words(left_out: dict[str, int]) -> str:
    """Decisions that do not count, in words; "" if there are none.

    >>> left_out_words({"bulk": 1200, "flagged": 2})
    '1,200 made for many terms at once or taken over from a file, 2 to be looked at again'
    """
    return ", ".join(f"{count:,} {LEFT_OUT[why]}" for why, count in left_out.items())
