"""Languages by corpora: where an embedding is strong and where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from medcoder.errors import UsageError
from medcoder.evaluate.plots.style import new_figure, save, short
from medcoder.evaluate.report.measured import Entry, entries
from medcoder.evaluate.report.table import DASH
from medcoder.evaluate.scores import Score

_IN_A_ROW = 3


def heat_map(
    scores: Sequence[Score], out: str | Path, *, bench: str = "mantra", metric: str = "f1"
) -> list[Path]:
    """One panel an embedding, all with the same scale; the number is in each cell."""
    some = [entry for entry in entries(scores) if _cells(entry, bench, metric)]
    if not some:
        raise UsageError(
            f"there are no scores {metric!r} of {bench!r} by language and corpus. "
            f"Make them with: medcoder bench run --benches {bench}"
        )
    cells = [_cells(entry, bench, metric) for entry in some]
    languages = sorted({language for of in cells for language, _ in of})
    corpora = sorted({corpus for of in cells for _, corpus in of})
    values = [value for of in cells for value in of.values()]
    low, high = min(values), max(values)
    across = min(len(some), _IN_A_ROW)
    down = ceil(len(some) / across)
    size = 1.2 + 0.85 * len(corpora), 0.9 + 0.42 * len(languages)
    figure = new_figure(size[0] * across + 1.0, size[1] * down + 0.4)
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    image: Any = None
    for place, entry, of in zip(axes, some, cells, strict=False):
        image = _panel(place, of, languages, corpora, low, high)
        place.set_title(short(entry.name, 30), fontsize=10, loc="left", parse_math=False)
    for place in axes[len(some) :]:
        place.set_axis_off()
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label(f"{metric.upper()}, %", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return save(figure, out)


def _cells(entry: Entry, bench: str, metric: str) -> dict[tuple[str, str], float]:
    """Percent by language and corpus."""
    found = {}
    for (of, split, name), value in entry.values.items():
        language, slash, corpus = split.partition("/")
        if (of, name) == (bench, metric) and slash and language != "unseen":
            found[language, corpus] = 100 * value.value
    return found


def _panel(
    axes: Any,
    cells: dict[tuple[str, str], float],
    languages: Sequence[str],
    corpora: Sequence[str],
    low: float,
    high: float,
) -> Any:
    grid = np.array(
        [[cells.get((language, corpus), np.nan) for corpus in corpora] for language in languages]
    )
    # Cividis grows lighter all the way: the same picture for everyone, and in grey.
    image = axes.imshow(grid, cmap="cividis", vmin=low, vmax=high, aspect="auto")
    axes.set_xticks(range(len(corpora)), corpora, fontsize=9, parse_math=False)
    axes.set_yticks(range(len(languages)), languages, fontsize=9, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    dark = low + 0.45 * (high - low)  # up to here, white is easier to read
    for (row, column), value in np.ndenumerate(grid):
        missing = np.isnan(value)
        axes.text(
            column,
            row,
            DASH if missing else f"{value:.1f}",
            ha="center",
            va="center",
            fontsize=9,
            color="black" if missing or value > dark else "white",
        )
    return image
