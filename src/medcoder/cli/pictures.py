"""Pictures of a graph."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from medcoder.errors import MissingExtra, UsageError

_PANELS = ("languages", "vocabularies", "types", "relations")
_BARS = 14


def draw_stats(counts: dict[str, Any], path: Path, *, title: str) -> None:
    """Bars of the most frequent labels, on a logarithmic scale."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "a picture needs matplotlib. Install it with: pip install 'medcoder[eval]'"
        ) from error
    figure = Figure(figsize=(12, 8), layout="constrained")
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in known:
        raise UsageError(f"{path}: a picture is a file such as .png, .svg or .pdf")
    for axes, name in zip(figure.subplots(2, 2).flat, _PANELS, strict=True):
        rows = list(counts[name].items())[:_BARS]
        labels = [_short(label) for label, _ in rows]
        values = [value for _, value in rows]
        bars = axes.barh(range(len(rows)), values, color="#3b6ea5")
        axes.bar_label(bars, [f"{value:,}" for value in values], padding=3, fontsize=7)
        axes.set_yticks(range(len(rows)), labels, fontsize=8, parse_math=False)
        axes.set_ylim(max(len(rows), 6) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.set_xlim(1, 8 * max(values, default=1))
        axes.set_title(f"{name} ({len(counts[name]):,})", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{title}: {counts['concepts']:,} concepts, {counts['terms']:,} terms, "
        f"{counts['edges']:,} relations",
        fontsize=12,
        parse_math=False,  # a dollar sign is one
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # Labels may be in scripts that no font here has: boxes in a PNG, text in an SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        with rc_context({"svg.fonttype": "none"}):
            figure.savefig(path, dpi=110)


def _short(label: str) -> str:
    return label if len(label) <= 44 else label[:43] + "…"
