"""A project and a changing index: map anew with a later one, and teach it what people decided."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.mapping.batch import as_mapper, finish
from medcoder.mapping.changed import changed
from medcoder.mapping.lookup import Mapper, look_up
from medcoder.mapping.project import Project
from medcoder.mapping.project.decisions import flag, newest_event
from medcoder.mapping.project.queries import TRUSTED
from medcoder.mapping.project.schema import guarded
from medcoder.text import fold
from medcoder.types import Progress

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer
    from medcoder.normalize.custom_terms import CustomTerm

WHO = "medcoder refresh"
REASONS = ("gone", "renamed", "no longer first", "new")
_DECIDED = f"""SELECT t.id, e.concept, e.name, s.earlier, c.concept, c.name, {TRUSTED}, s.confidence
    FROM terms t JOIN events e ON e.id = t.decision JOIN strings s ON s.id = t.string
    LEFT JOIN candidates c ON c.string = s.id AND c.rank = 1"""


class _Decided(NamedTuple):
    term: int
    concept: str | None
    name: str
    earlier: str | None  # the first candidate before
    first: str | None  # and now
    first_name: str | None
    trusted: int  # whether it may be mapped automatically, if it is likely enough
    confidence: float


def refresh(
    project: Project,
    normalizer: Normalizer | Mapper | None = None,
    *,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Map every string anew and flag the decisions that need another look.

    A decision is flagged, and never changed, if its target is gone from the terminology, has
    another name, or was the first candidate and is no longer; a decision of "no match", if there is
    a match now that would be mapped automatically. If interrupted, the same call goes on.

    Terms whose automatic answer is another than before are listed in changed.tsv, beside the
    results. The project is mapped with the settings that it has.

    Gives the number of decisions, that of those flagged by reason, that of the terms whose
    automatic answer changed, the file that lists them, and the time it took.
    """
    mapper = as_mapper(normalizer)
    described = mapper.describe()
    meta = _begin(project, described)
    start = time.perf_counter()
    strings = look_up(project, mapper, top=meta["top"], run=meta["run"], progress=progress)
    with project.transaction():
        finish(project, meta["precision"])
        flagged = _flag(project, mapper)
        last = newest_event(project.base)
        project.put(**described, refreshing=None, refreshed=last)
    timing = {"seconds": time.perf_counter() - start, "rows": len(project), "strings": strings}
    project.put(timing=timing)
    counts, file = changed(project)
    return flagged | {"changed": counts, "changed_file": str(file), "timing": timing}


def _begin(project: Project, described: dict[str, Any]) -> dict[str, Any]:
    """Say in a project that it is being mapped anew; gives its meta data."""
    with project.transaction():  # nobody calibrates it from here on
        meta = project.meta
        if not meta.get("read"):
            raise UsageError(
                "the project is not read to its end yet",
                where=project.path.parent,
                remedy="Run the medcoder map command that made it again",
            )
        if meta.get("refreshing") != described:
            # Strings of a refresh with another index that was broken off are mapped again.
            before = {"threshold_before": meta["threshold"]} if meta["complete"] else {}
            project.put(
                refreshing=described, run=meta["run"] + 1, complete=False, threshold=None, **before
            )
    return project.meta


def _flag(project: Project, mapper: Mapper) -> dict[str, Any]:
    threshold = project.meta["threshold"]
    flagged: Counter[str] = Counter()
    decisions = 0
    with guarded(project.path):
        # As a list of those to be flagged: the query must not see what it leads to.
        reasons = []
        for row in project.base.execute(_DECIDED):
            decisions += 1
            decided = _Decided(*row)
            reason, words = _reason(decided, mapper, threshold)
            if reason:
                reasons.append((decided.term, reason, words))
        for term, reason, words in reasons:
            flag(project.base, term, words, WHO)
            flagged[reason] += 1
    return {"decisions": decisions, "flagged": {name: flagged[name] for name in REASONS}}


def _reason(decided: _Decided, mapper: Mapper, threshold: float | None) -> tuple[str, str]:
    """Why a decision needs another look, in a word and in words; empty if it does not."""
    now = f"{decided.first} ({decided.first_name})" if decided.first else "nothing"
    if decided.concept is None:
        likely = decided.trusted and threshold is not None and decided.confidence >= threshold
        if likely and decided.first != decided.earlier:
            return "new", f"new: {now} is found now with a confidence of {decided.confidence:.2f}"
        return "", ""
    name, target = mapper.name_of(decided.concept), f"{decided.concept} ({decided.name})"
    if name is None:
        return "gone", f"gone: {target} is not in the terminology any more"
    if decided.name and name != decided.name:
        return "renamed", f"renamed: {decided.concept} was {decided.name!r} and is {name!r} now"
    if decided.concept == decided.earlier and decided.concept != decided.first:
        return "no longer first", f"no longer first: {now} is before {target}"
    return "", ""


def learn(project: Project, kg: KG, file: Path) -> dict[str, int]:
    """Add approved, equivalent pairs of text and concept to the table of custom terms at `file`.

    Says how many were added, and how many not: "known" are terms already, "ambiguous" mean
    different things in different contexts, "lost" are of concepts that the graph lacks.
    """
    from medcoder.normalize.custom_terms import CustomTerm, add_terms  # it brings the encoder

    meant: defaultdict[str, dict[str, CustomTerm]] = defaultdict(dict)
    for mapping in project.terms("approved"):
        made = mapping.decision
        if made is None or made.concept is None or made.equivalence != "equivalent":
            continue
        entry = CustomTerm(mapping.row.text, made.concept, mapping.row.language)
        if entry.term:
            meant[fold(entry.term)].setdefault(made.concept, entry)
    counts = {"added": 0, "known": 0, "ambiguous": 0, "lost": 0}
    wanted = []
    for concepts in meant.values():
        if len(concepts) > 1:
            counts["ambiguous"] += 1
            continue
        [entry] = concepts.values()
        if entry.concept not in kg:
            counts["lost"] += 1
        elif entry.concept in kg.find(entry.term):
            counts["known"] += 1
        else:
            wanted.append(entry)
    counts["added"] = add_terms(file, kg, wanted)
    counts["known"] += len(wanted) - counts["added"]
    return counts
