"""The picture of docs/calibration.md: reliability of each set, and risk by coverage of all."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from medcoder.evaluate.plots.charts import COLOURS, LINES

ACROSS = 4  # small pictures in a row
_GAP = 0.047  # of the height between names at the end of curves, at least
_FEW = 20  # strings that show no share
_FULL, _EMPTY = "#0072B2", "#c9ced6"
_PALE = {"#F0E442": "#8c8c8c"}  # what cannot be read as a thin line, and what stands for it


class Panel(NamedTuple):
    name: str
    bins: Sequence[tuple[float, float, int]]  # mean confidence, share right, strings
    curve: Sequence[tuple[float, float, float]]  # confidence, share answered, precision
    error: float | None


def draw(panels: Sequence[Panel], file: Path, *, promise: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    down = ceil(len(panels) / ACROSS)
    settings: Any = {"svg.hashsalt": "medcoder", "font.size": 9}
    with plt.rc_context(settings):
        figure: Any = plt.figure(figsize=(10, 2.6 * down + 3.9), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=(2.6 * down, 3.9))
        above.suptitle(
            "Reliability: share that is right, by confidence (grey: share of the strings)",
            x=0.01,
            ha="left",
        )
        grid = above.subplots(down, ACROSS, sharex=True, sharey=True, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            reliability(axes, panel)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        below.suptitle("Risk and coverage: surest first", x=0.01, ha="left")
        risk(below.subplots(), panels, promise)
        options = {"metadata": {"Date": None}} if file.suffix == ".svg" else {"dpi": 130}
        figure.savefig(file, **options)
        plt.close(figure)


def reliability(axes: Any, panel: Panel) -> None:
    """A point for each bin, hollow if it has few strings; bars are their shares of all."""
    total = sum(count for *_, count in panel.bins)
    confidence, right, counts = zip(*panel.bins, strict=True)
    axes.bar(confidence, [count / total for count in counts], width=0.07, color=_EMPTY, zorder=1)
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=2)
    axes.plot(confidence, right, color=_FULL, linewidth=1.2, zorder=3)
    fills = [_FULL if count >= _FEW else "white" for count in counts]
    axes.scatter(confidence, right, 16, fills, edgecolors=_FULL, zorder=4)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    error = "" if panel.error is None else f", ECE {panel.error:.3f}"
    axes.set_title(f"{panel.name}\n{total:,}{error}", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def risk(axes: Any, panels: Sequence[Panel], promise: float) -> None:
    """Precision by the share that is answered, with names at the ends."""
    axes.axhline(promise, color="0.6", linewidth=1)
    axes.text(
        0.998, promise, f"{promise:.0%} promised", va="bottom", ha="right", fontsize=8, color="0.4"
    )
    low = min(precision for panel in panels for *_, precision in panel.curve[-1:])
    low = max(0.0, low - 0.05)
    ends = []
    for number, panel in enumerate(panels):
        colour, line = COLOURS[number % len(COLOURS)], LINES[number % 2]
        colour = _PALE.get(colour, colour)
        total = sum(count for *_, count in panel.bins)
        shown = [one for one in panel.curve if one[1] * total >= _FEW] or panel.curve
        answered, precision = [one[1] for one in shown], [one[2] for one in shown]
        axes.plot(answered, precision, line, color=colour, linewidth=1.6)
        ends.append((precision[-1], panel.name, colour))
    heights = apart([end for end, *_ in ends], low)
    for height, (end, name, colour) in zip(heights, ends, strict=True):
        axes.plot([1.004, 1.028], [end, height], color=colour, linewidth=1.6, clip_on=False)
        axes.text(1.034, height, name, va="center")
    axes.set(xlim=(0, 1), ylim=(low, 1.005), xlabel="share answered", ylabel="precision")
    axes.spines[["top", "right"]].set_visible(False)


def apart(ends: Sequence[float], low: float) -> list[float]:
    """Heights for names near the ends of curves, none upon another."""
    gap = _GAP * (1 - low) * 1.6
    order = sorted(range(len(ends)), key=lambda number: -ends[number])
    heights = list(ends)
    above = 1.0 + gap
    for number in order:
        above = heights[number] = min(ends[number], above - gap)
    below = low - gap
    for number in reversed(order):
        below = heights[number] = max(heights[number], below + gap)
    return heights
