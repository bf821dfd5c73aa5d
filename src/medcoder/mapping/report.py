"""The report on a project: figures as JSON, and the same as a page (`report.html.j2`)."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medcoder.files import replacing
from medcoder.mapping.project import Project
from medcoder.mapping.project.records import TermMapping
from medcoder.mapping.promise import percent, promise

BINS = 20  # of the histogram of confidences
LISTED = 25  # terms and targets
_WEIGHTS = ("terms", "count")


def write_report(project: Project, folder: Path, timing: Mapping[str, float] | None = None) -> Path:
    """Write report.html and report.json to a folder; gives the path of the page.

    timing: seconds, rows and strings of the run that has just ended, if any
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
    threshold, recalibrations = meta.get("threshold"), meta.get("recalibrations")
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
        "promise": promise(project).as_dict(),
        "recalibration": recalibrations[-1] if recalibrations else None,
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
    """Terms above or below the threshold: what to expect of them, and what people decided."""

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
    """Everything that is counted in a pass over the terms."""

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
            likely = self._threshold is not None and mapping.confidence >= self._threshold
            accepted = likely and not mapping.review
            (self.above if accepted else self.below).add(mapping)
        position = min(int(mapping.confidence * BINS), BINS - 1)
        self.terms[position] += 1
        self.counts[position] += mapping.row.count
        if mapping.decision is not None:
            self.people[mapping.decision.who] += 1
            self.equivalences[mapping.decision.equivalence] += 1
        if mapping.status in ("review", "none", "flagged"):
            self._keep(mapping)
        for target in mapping.targets:
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
    """Whether a person agreed with the first candidate."""
    decision = mapping.decision
    assert decision is not None
    same = bool(mapping.candidates) and mapping.candidates[0].concept == decision.concept
    return same and decision.equivalence == "equivalent"


def _about(meta: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "file", "column", "code", "context", "source_vocabulary", "terminology", "model",
        "medcoder", "created", "updated", "top", "vocabularies", "targets", "split", "complete",
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


# The page

_MEANINGS = {
    "approved": "a person decided",
    "flagged": "decided, to be looked at again",
    "auto": "mapped automatically",
    "review": "to be reviewed",
    "none": "no match found",
}
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 880, 190, 60, 16, 24  # of the histogram


def render(figures: Mapping[str, Any]) -> str:
    """The figures as a page, by the template beside this file."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {
        "grouped": "{:,}".format,
        "percent": percent,
        "confidence": lambda value: "none" if value is None else f"{value:.3f}",
    }
    about = figures["about"]
    column = f"column {about['column']}, " if "column" in about else ""
    return environment.get_template("report.html.j2").render(
        **figures,
        title=f"Mapping of {about.get('file', 'a table')}",
        subtitle=column + str(about.get("updated") or about.get("created") or "")[:10],
        meanings=_MEANINGS,
        headline=_headline(figures),
        drawing=_histogram(figures),
        made=_made(figures),
    )


def _headline(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    totals, status = figures["totals"], figures["status"]
    mapped = sum(status[name]["count"] for name in ("approved", "flagged", "auto"))
    expected = figures["threshold"]["above"]["expected_precision"]["count"]
    entries = [
        (f"{totals['rows']:,}", "rows"),
        (f"{totals['terms']:,}", "distinct source terms"),
        (f"{totals['count']:,}", "occurrences"),
        (percent(_share(mapped, totals["count"])), "of these mapped"),
        (percent(expected), "of automatic ones expected right"),
    ]
    if speed := figures["timing"].get("rows_per_second"):
        entries.append((f"{speed:,.0f}", "rows a second"))
    return entries


def _histogram(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Terms by confidence, as positions in a drawing."""
    terms, threshold = figures["histogram"]["terms"], figures["threshold"]["confidence"]
    most, inner, floor = max([*terms, 1]), _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM
    step = inner / len(terms)
    bars = [
        {
            "x": _LEFT + position * step + 1,
            "width": step - 2,
            "height": (floor - _TOP) * count / most,
            "low": position / len(terms),
            "high": (position + 1) / len(terms),
            "terms": count,
        }
        for position, count in enumerate(terms)
    ]
    return {
        "width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - 10, "top": _TOP,
        "floor": floor, "most": most, "bars": bars,
        "ticks": [(_LEFT + inner * tick / 10, tick / 10) for tick in range(11)],
        "mark": None if threshold is None else _LEFT + inner * threshold,
    }  # fmt: skip


def _made(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    about, timing = figures["about"], figures["timing"]
    vocabularies = about.get("terminology", {}).get("vocabularies", {})
    entries: list[tuple[str, str]] = [
        ("terminology", ", ".join(f"{k} {v}".strip() for k, v in vocabularies.items())),
        ("model", about.get("model", {}).get("name", "")),
        ("vocabularies asked for", ", ".join(about.get("vocabularies", []))),
        ("medcoder", about.get("medcoder", "")),
        ("rows with a wrong number of fields", f"{figures['bad_rows']:,}"),
    ]
    for column, values in figures["unknown_context"].items():
        first = ", ".join(f"{value} ({count:,})" for value, count in [*values.items()][:10])
        entries.append((f"unknown values of {column}", first))
    if timing:
        entries.append(("time", f"{timing['seconds']:,.1f} s for {timing['rows']:,} rows"))
    if "strings" in timing:
        entries.append(("strings looked up", f"{timing['strings']:,}"))
    return entries
