"""The report on a project: figures as JSON, and the same as a page."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medcoder.files import replacing
from medcoder.mapping.project.records import TermMapping
from medcoder.mapping.project.store import Project
from medcoder.mapping.report_html import render

BINS = 20  # of the histogram of confidences
LISTED = 25  # terms and targets
_WEIGHTS = ("terms", "count")


def write_report(project: Project, folder: Path, timing: Mapping[str, float] | None = None) -> Path:
    """Write report.html and report.json to a folder; gives the path of the page.

    timing: seconds, rows and strings of the run that has just ended, if one has
    """
    figures = summarise(project, timing)
    page = Path(folder) / "report.html"
    for path, text in (
        (Path(folder) / "report.json", json.dumps(figures, ensure_ascii=False, indent=1) + "\n"),
        (page, render(figures)),
    ):
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    return page


def summarise(project: Project, timing: Mapping[str, float] | None = None) -> dict[str, Any]:
    """The figures of the report."""
    meta = project.meta
    threshold = meta.get("threshold")
    tally = _Tally(threshold)
    for mapping in project.terms():
        tally.add(mapping)
    statuses = project.counts()
    totals = {
        weight: sum(count[weight] for count in statuses.values())
        for weight in ("terms", "rows", "count")
    }
    return {
        "about": _about(meta),
        "totals": totals,
        "status": {
            status: {
                **count,
                **{f"{name}_share": _share(count[name], totals[name]) for name in count},
            }
            for status, count in statuses.items()
        },
        "threshold": {
            "promised_precision": meta.get("precision"),
            "confidence": threshold,
            "above": tally.above.figures(),
            "below": tally.below.figures(),
        },
        "decisions": {
            "by": dict(tally.people.most_common()),
            "equivalence": dict(tally.equivalences.most_common()),
        },
        "histogram": {"bins": BINS, "terms": tally.terms, "count": tally.counts},
        "hardest": tally.hardest(),
        "targets": tally.targets(),
        "bad_rows": meta.get("bad_rows") or 0,
        "unknown_context": meta.get("unknown_context") or {},
        "timing": _timing(timing),
    }


class _Side:
    """Terms on one side of the threshold: what to expect of them, and what people found."""

    def __init__(self) -> None:
        self.weights: Counter[str] = Counter()
        self.sums = dict.fromkeys(_WEIGHTS, 0.0)
        self.judged = self.agreed = 0

    def add(self, mapping: TermMapping) -> None:
        for name, weight in zip(_WEIGHTS, (1, mapping.row.count), strict=True):
            self.weights[name] += weight
            self.sums[name] += weight * mapping.confidence
        if mapping.decision is not None:
            self.judged += 1
            self.agreed += _agrees(mapping)

    def figures(self) -> dict[str, Any]:
        return {
            **{name: self.weights[name] for name in _WEIGHTS},
            "expected_precision": {
                name: _share(self.sums[name], self.weights[name]) for name in _WEIGHTS
            },
            "reviewed": self.judged,
            "agreed": self.agreed,
        }


class _Tally:
    """Everything that one pass over the terms tells."""

    def __init__(self, threshold: float | None) -> None:
        self._threshold = threshold
        self.above, self.below = _Side(), _Side()
        self.people: Counter[str] = Counter()
        self.equivalences: Counter[str] = Counter()
        self.terms, self.counts = [0] * BINS, [0] * BINS
        self._hardest: list[tuple[float, int, dict[str, Any]]] = []
        self._targets: dict[str, list[Any]] = {}

    def add(self, mapping: TermMapping) -> None:
        if mapping.candidates and mapping.status != "none":
            accepted = self._threshold is not None and mapping.confidence >= self._threshold
            (self.above if accepted else self.below).add(mapping)
        place = min(int(mapping.confidence * BINS), BINS - 1)
        self.terms[place] += 1
        self.counts[place] += mapping.row.count
        if mapping.decision is not None:
            self.people[mapping.decision.who] += 1
            self.equivalences[mapping.decision.equivalence] += 1
        if mapping.status in ("review", "none", "flagged"):
            self._keep(mapping)
        target = mapping.target
        if target is not None:
            entry = self._targets.setdefault(target.concept, [target.name, target.codes, 0, 0])
            entry[2] += 1
            entry[3] += mapping.row.count

    def hardest(self) -> list[dict[str, Any]]:
        """Terms with the most occurrences that are likely wrong, and nothing decided."""
        return [entry for *_, entry in sorted(self._hardest, reverse=True)]

    def targets(self) -> list[dict[str, Any]]:
        """The concepts that most occurrences are mapped to."""
        most = heapq.nlargest(LISTED, self._targets.items(), key=lambda item: item[1][3])
        return [
            {
                "concept": concept,
                "name": name,
                "codes": [code.curie for code in codes],
                "terms": terms,
                "count": count,
            }
            for concept, (name, codes, terms, count) in most
        ]

    def _keep(self, mapping: TermMapping) -> None:
        row, first = mapping.row, next(iter(mapping.candidates), None)
        doubt = row.count * (1 - mapping.confidence)
        if len(self._hardest) == LISTED and doubt <= self._hardest[0][0]:
            return
        entry = {
            "row": row.number,
            "text": row.text,
            "code": row.code,
            "count": row.count,
            "status": mapping.status,
            "confidence": mapping.confidence,
            "candidate": first.concept if first else "",
            "name": first.name if first else "",
        }
        heapq.heappush(self._hardest, (doubt, -row.number, entry))
        if len(self._hardest) > LISTED:
            heapq.heappop(self._hardest)


def _agrees(mapping: TermMapping) -> bool:
    """Whether a person found the first candidate to be right."""
    decision = mapping.decision
    assert decision is not None
    same = bool(mapping.candidates) and mapping.candidates[0].concept == decision.concept
    return same and decision.equivalence == "equivalent"


def _about(meta: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "file", "column", "code", "context", "source_vocabulary", "terminology", "model",
        "medcoder", "created", "updated", "top", "vocabularies", "complete",
    )  # fmt: skip
    return {name: meta[name] for name in names if meta.get(name) not in (None, "", [], {})}


def _timing(timing: Mapping[str, float] | None) -> dict[str, float]:
    if not timing:
        return {}
    seconds = timing["seconds"]
    speed = {"rows_per_second": timing["rows"] / seconds} if seconds > 0 else {}
    return {**timing, **speed}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
