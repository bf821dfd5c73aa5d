"""The page of a report: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from medcoder.mapping.project.records import STATUSES

MEANING = {
    "approved": "a person decided",
    "flagged": "decided, to be looked at again",
    "auto": "mapped automatically",
    "review": "to be reviewed",
    "none": "no match found",
}
ORDER = sorted(STATUSES, key=list(MEANING).index)
WIDTH, HEIGHT, LEFT, BOTTOM = 880, 190, 60, 24  # of the histogram


def render(figures: dict[str, Any]) -> str:
    """The page for the figures of `medcoder.mapping.report`."""
    about = figures["about"]
    title = f"Mapping of {about.get('file', 'a table')}"
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    column = f"column {about['column']}, " if "column" in about else ""
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(column + _day(about))}</p>',
        "" if about.get("complete", True) else "<p><b>Not all rows are mapped yet.</b></p>",
        _figures(figures),
        "<h2>Coverage</h2>",
        _coverage(figures),
        "<h2>What to expect of the machine</h2>",
        _threshold(figures["threshold"]),
        "<h2>Confidence of the first candidate</h2>",
        _panel(_histogram(figures)),
        _hardest(figures["hardest"]),
        _targets(figures["targets"], figures["totals"]["count"]),
        _decisions(figures["decisions"]),
        "<h2>How it was made</h2>",
        _made(figures),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def _figures(figures: dict[str, Any]) -> str:
    totals, status = figures["totals"], figures["status"]
    mapped = sum(status[name]["count"] for name in ("approved", "flagged", "auto"))
    side = figures["threshold"]["above"]
    expected = side["expected_precision"]["count"]
    entries = [
        (f"{totals['rows']:,}", "rows"),
        (f"{totals['terms']:,}", "distinct source terms"),
        (f"{totals['count']:,}", "occurrences"),
        (_percent(mapped / totals["count"] if totals["count"] else None), "of these mapped"),
        (_percent(expected), "of automatic ones expected right"),
    ]
    if speed := figures["timing"].get("rows_per_second"):
        entries.append((f"{speed:,.0f}", "rows a second"))
    made = "".join(
        f'<div class="figure"><b>{n}</b><span>{what}</span></div>' for n, what in entries
    )
    return f'<div class="figures">{made}</div>'


def _coverage(figures: dict[str, Any]) -> str:
    status = figures["status"]
    bars = []
    for name, label in (("count", "occurrences"), ("rows", "rows"), ("terms", "distinct terms")):
        pieces = "".join(
            f'<div class="{key}" style="width:{100 * (status[key][f"{name}_share"] or 0):.3f}%" '
            f'title="{key}: {status[key][name]:,}"></div>'
            for key in ORDER
        )
        bars.append(f'<span class="soft">{label}</span><div class="bar">{pieces}</div>')
    rows = [
        [
            f'<span class="key {key}">{key}</span>',
            MEANING[key],
            *(
                cell
                for name in ("terms", "rows", "count")
                for cell in (f"{status[key][name]:,}", _percent(status[key][f"{name}_share"]))
            ),
        ]
        for key in ORDER
    ]
    head = ["status", "?", "#distinct terms", "#", "#rows", "#", "#occurrences", "#"]
    return (
        f'<div class="panel"><div class="bars">{"".join(bars)}</div><br>{_table(head, rows)}</div>'
    )


def _threshold(threshold: dict[str, Any]) -> str:
    promised, confidence = threshold["promised_precision"], threshold["confidence"]
    if promised is None:
        text = "No precision was promised."
    elif confidence is None:
        text = f"Nothing is accepted automatically: {_percent(promised)} was not reached."
    else:
        text = (
            f"Accepted automatically at {_percent(promised)} precision: from confidence "
            f"{confidence:.3f} on. What to expect is the mean of the calibrated confidences."
        )
    rows = []
    for name, label in (("above", "accepted automatically"), ("below", "left to people")):
        side = threshold[name]
        agreed = f"{side['agreed']:,} of {side['reviewed']:,}" if side["reviewed"] else "–"
        rows.append(
            [
                label,
                f"{side['terms']:,}",
                f"{side['count']:,}",
                _percent(side["expected_precision"]["terms"]),
                _percent(side["expected_precision"]["count"]),
                agreed,
            ]
        )
    head = ["first candidate", "#terms", "#occurrences", "#expected right, terms",
            "#expected right, occurrences", "#reviewed and found right"]  # fmt: skip
    note = "Terms without a match are in neither. Check the promise on a sample of your own."
    return f'<p>{text} <span class="note">{note}</span></p>{_panel(_table(head, rows))}'


def _histogram(figures: dict[str, Any]) -> str:
    """Terms by confidence, as a drawing."""
    terms, threshold = figures["histogram"]["terms"], figures["threshold"]["confidence"]
    most = max([*terms, 1])
    inner, floor, top = WIDTH - LEFT - 10, HEIGHT - BOTTOM, 16
    step = inner / len(terms)
    drawn = [
        f'<line class="axis" x1="{LEFT}" y1="{floor}" x2="{WIDTH - 10}" y2="{floor}"/>',
        f'<text x="{LEFT - 6}" y="{top + 8}" text-anchor="end">{most:,}</text>',
        f'<text x="{LEFT - 6}" y="{floor}" text-anchor="end">0</text>',
    ]
    for place, count in enumerate(terms):
        height = (floor - top) * count / most
        low, high = place / len(terms), (place + 1) / len(terms)
        drawn.append(
            f'<rect class="terms" x="{LEFT + place * step + 1:.1f}" y="{floor - height:.1f}" '
            f'width="{step - 2:.1f}" height="{height:.1f}">'
            f"<title>{low:.2f} to {high:.2f}: {count:,} terms</title></rect>"
        )
    for tick in range(11):
        x = LEFT + inner * tick / 10
        drawn.append(f'<text x="{x:.0f}" y="{HEIGHT - 7}" text-anchor="middle">{tick / 10}</text>')
    if threshold is not None:
        x = LEFT + inner * threshold
        drawn.append(f'<line class="mark" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{floor}"/>')
        side, gap = ("end", -5) if threshold > 0.5 else ("start", 5)
        drawn.append(
            f'<text x="{x + gap:.1f}" y="12" text-anchor="{side}">automatic from {threshold:.3f}'
            "</text>"
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Distinct terms by confidence">{"".join(drawn)}</svg>'
    )


def _hardest(entries: list[dict[str, Any]]) -> str:
    if not entries:
        return ""
    rows = [
        [
            f"{entry['row']:,}",
            escape(f"{entry['text']} ({entry['code']})" if entry["code"] else entry["text"]),
            f"{entry['count']:,}",
            f'<span class="key {entry["status"]}">{entry["status"]}</span>',
            escape(f"{entry['name']} ({entry['candidate']})") if entry["candidate"] else "–",
            f"{entry['confidence']:.2f}",
        ]
        for entry in entries
    ]
    head = ["#row", "~term", "#occurrences", "?status", "~first candidate", "#confidence"]
    text = "Not settled, by how many occurrences are likely wrong if the first candidate is taken."
    return f'<h2>Hardest terms</h2><p class="soft">{text}</p>{_panel(_table(head, rows))}'


def _targets(entries: list[dict[str, Any]], total: int) -> str:
    if not entries:
        return ""
    rows = [
        [
            escape(entry["name"]),
            escape(" ".join(entry["codes"][:3]) or entry["concept"]),
            f"{entry['terms']:,}",
            f"{entry['count']:,}",
            _percent(entry["count"] / total if total else None),
        ]
        for entry in entries
    ]
    head = ["~concept", "~code", "#terms", "#occurrences", "#of all"]
    return f"<h2>Most common targets</h2>{_panel(_table(head, rows))}"


def _decisions(decisions: dict[str, Any]) -> str:
    if not decisions["by"]:
        return ""
    people = ", ".join(f"{escape(who)} {count:,}" for who, count in decisions["by"].items())
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in decisions["equivalence"].items())
    listed = f"<dt>by</dt><dd>{people}</dd><dt>the target is</dt><dd>{kinds}</dd>"
    return f"<h2>Decisions</h2>{_panel(f'<dl>{listed}</dl>')}"


def _made(figures: dict[str, Any]) -> str:
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
        shown = ", ".join(f"{value} ({count:,})" for value, count in [*values.items()][:10])
        entries.append((f"unknown values of {column}", shown))
    if timing:
        entries.append(("time", f"{timing['seconds']:,.1f} s for {timing['rows']:,} rows"))
    if "strings" in timing:
        entries.append(("strings looked up", f"{timing['strings']:,}"))
    lines = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in entries if value
    )
    return _panel(f"<dl>{lines}</dl>")


def _panel(content: str) -> str:
    return f'<div class="panel">{content}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells of HTML. In the head, # stands before numbers, ~ before long text, ? before
    what is left out where there is little room.
    """
    classes = {"#": ' class="number"', "~": ' class="text"', "?": ' class="wide"'}
    kinds = [classes.get(name[:1], "") for name in head]
    names = "".join(
        f"<th{kind}>{escape(name.lstrip('#~?'))}</th>"
        for kind, name in zip(kinds, head, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>"


def _percent(share: float | None) -> str:
    """A share, never rounded up to all or down to nothing.

    >>> _percent(0.9996), _percent(1.0), _percent(0.0001), _percent(None)
    ('> 99.9%', '100%', '< 0.1%', '–')
    """
    if share is None:
        return "–"
    if share in (0, 1):
        return f"{share:.0%}"
    if share > 0.9995:
        return "> 99.9%"
    if share < 0.0005:
        return "< 0.1%"
    return f"{100 * share:.1f}%"


def _day(about: dict[str, Any]) -> str:
    return str(about.get("updated") or about.get("created") or "")[:10]
