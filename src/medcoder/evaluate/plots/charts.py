"""Charts of what a run left: reliability, what abstaining buys, and languages by corpora.

First comes what all pictures share: colours, shapes, and how they are saved.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.bundled.graph import keep_fonts_at_home
from medcoder.errors import MissingExtra, UsageError
from medcoder.evaluate.benches import BENCHES
from medcoder.evaluate.benches.task import Metric
from medcoder.evaluate.report.table import DASH, Entry, entries
from medcoder.evaluate.results import Score, read_predictions, right_at
from medcoder.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Reals = npt.NDArray[np.float64]

_Z = 1.959964  # of a 95% interval
_POINTS = 400  # of a curve: more cannot be seen
_LINE = 0.2  # inches that a line of the legend takes
# Okabe and Ito's colours, from dark to light in turn, so that neighbours differ in grey too.
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#000000",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#009E73",
    "#CC79A7",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
LINES = ("-", "--", "-.", ":")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SOFT, EDGE = "#c9ced6", "#333333"
_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 110, "metadata": {"Software": None}},
    "svg": {"dpi": 110, "metadata": {"Date": None}},
}


# How pictures look


def new_figure(width: float, height: float) -> Figure:
    """A figure that belongs to no window."""
    keep_fonts_at_home()
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "a picture needs matplotlib",
            remedy="Install it with: pip install 'medcoder[eval]'",
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, out: str | Path) -> list[Path]:
    """Write OUT.png and OUT.svg, each whole or not at all, and alike every time."""
    from matplotlib import rc_context

    path = Path(out)
    stem = path.with_suffix("") if path.suffix.lower() in (".png", ".svg") else path
    made = []
    with (
        warnings.catch_warnings(),
        rc_context({"svg.fonttype": "none", "svg.hashsalt": "medcoder"}),
    ):
        # Names may be in scripts that no font here has: boxes in a PNG, text in an SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        for form, options in _FORMATS.items():
            target = stem.with_name(f"{stem.name}.{form}")
            with replacing(target) as partial:
                figure.savefig(partial, format=form, **options)
            made.append(target)
    return made


def bare(axes: Any) -> None:
    """Only the lines that carry numbers."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)


def short(text: str, most: int = 44) -> str:
    """A label that fits.

    >>> short("Neoplasms", 6)
    'Neopl…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip(" ,;") + "…"


# Answers by score


class Answers(NamedTuple):
    """The score of each first answer, and whether it is right; none for a query: 0 and wrong."""

    scores: Reals
    right: npt.NDArray[np.bool_]


class Bins(NamedTuple):
    """Answers grouped by score; empty bins are left out."""

    score: Reals  # mean of the bin
    accuracy: Reals
    sizes: npt.NDArray[np.int64]


def reliability(
    predictions: Mapping[str, str | Path], out: str | Path, *, bins: int = 10
) -> list[Path]:
    """Accuracy by score, with 95% intervals; on the diagonal, a score is a probability.

    predictions: name of the system to its file of predictions
    """
    read = _read(predictions)
    figure = new_figure(6.0, 6.2 + _LINE * (len(read) + 1))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    dotted: dict[str, Any] = {"color": "#777777", "linewidth": 1, "linestyle": (0, (1, 2))}
    upper.plot([0, 1], [0, 1], label="score = share that is right", **dotted)
    for order, (name, answers) in enumerate(read.items()):
        some = binned(answers, bins)
        look = _look(order)
        label = _escaped(f"{short(name)}: calibration error {expected_error(some):.3f}")
        bars = wilson(some.accuracy, some.sizes)
        upper.errorbar(
            some.score, some.accuracy, yerr=bars, capsize=2.5, elinewidth=0.8, label=label, **look
        )
        lower.plot(some.score, 100 * some.sizes / some.sizes.sum(), **look)
    upper.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="share that is right")
    lower.set(xlabel="score of the first answer", ylim=(0, None))
    lower.set_ylabel("% of queries")
    upper.set_title("Reliability", loc="left", fontsize=11)
    _legend(figure)
    for axes in (upper, lower):
        bare(axes)
    return save(figure, out)


def risk_coverage(predictions: Mapping[str, str | Path], out: str | Path) -> list[Path]:
    """Share of wrong answers when only the surest are given, for each share that is given."""
    read = _read(predictions)
    figure = new_figure(6.0, 4.4 + _LINE * len(read))
    axes = figure.subplots()
    top = 0.0
    for order, (name, answers) in enumerate(read.items()):
        coverage, risk = risks(answers)
        top = max(top, float(risk[coverage >= 0.05].max(initial=0.0)))
        label = _escaped(f"{short(name)}: area {area(answers):.3f}")
        thin = np.unique(np.linspace(0, len(risk) - 1, _POINTS).astype(np.int64))
        marks = np.searchsorted(coverage[thin], np.arange(0.1, 1, 0.1)).tolist()
        look = _look(order) | {"markevery": sorted(set(marks))}
        axes.plot(100 * coverage[thin], 100 * risk[thin], label=label, **look)
    axes.set(
        xlim=(0, 100),
        ylim=(0, 100 * top * 1.08 or 1),
        xlabel="% of queries answered, the surest first",
        ylabel="% of the answers that are wrong",
    )
    axes.set_title("Risk and coverage", loc="left", fontsize=11)
    _legend(figure)
    bare(axes)
    return save(figure, out)


def read_answers(file: str | Path) -> Answers:
    """The first answers of a file of predictions; cosines below 0 count as 0."""
    read = read_predictions(Path(file))
    scores = [prediction.scores[0] if prediction.scores else 0.0 for prediction in read]
    right = [right_at(prediction) == 1 for prediction in read]
    return Answers(np.clip(np.array(scores, np.float64), 0, 1), np.array(right, np.bool_))


def binned(answers: Answers, bins: int) -> Bins:
    """Equal widths from 0 to 1; 1 belongs to the last."""
    number = np.minimum((answers.scores * bins).astype(np.int64), bins - 1)
    count = np.bincount(number, minlength=bins)
    used = count > 0
    score = np.bincount(number, answers.scores, bins)[used] / count[used]
    return Bins(score, np.bincount(number, answers.right, bins)[used] / count[used], count[used])


def expected_error(bins: Bins) -> float:
    """Mean distance of score and accuracy, each bin by its size."""
    return float(np.average(np.abs(bins.score - bins.accuracy), weights=bins.sizes))


def wilson(share: Reals, count: npt.NDArray[np.int64]) -> Reals:
    """How far a 95% interval reaches below and above each share: (2, n)."""
    scale = 1 + _Z**2 / count
    middle = (share + _Z**2 / (2 * count)) / scale
    half = _Z / scale * np.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return np.clip([share - (middle - half), middle + half - share], 0, None)


def risks(answers: Answers) -> tuple[Reals, Reals]:
    """Coverage, and the share of wrong answers at it. Answers of one score go together."""
    order = np.argsort(-answers.scores, kind="stable")
    scores, wrong = answers.scores[order], ~answers.right[order]
    last = np.append(scores[1:] != scores[:-1], True)  # of a run of equal scores
    given = np.flatnonzero(last) + 1
    return given / len(scores), np.cumsum(wrong)[last] / given


def area(answers: Answers) -> float:
    """Mean risk over all coverages: the area under the curve, less is better."""
    coverage, risk = risks(answers)
    return float(np.sum(np.diff(coverage, prepend=0.0) * risk))


def _read(predictions: Mapping[str, str | Path]) -> dict[str, Answers]:
    read = {name: read_answers(file) for name, file in predictions.items()}
    empty = [name for name, answers in read.items() if not len(answers.scores)]
    if not read or empty:
        raise UsageError(
            f"there are no predictions{' of ' + empty[0] if empty else ''} to draw. "
            "Make them with: medcoder bench run"
        )
    return read


def _legend(figure: Any) -> None:
    """Below the axes: curves fill them, and there may be many."""
    figure.legend(frameon=False, fontsize=9, loc="outside lower left")


def _look(order: int) -> dict[str, Any]:
    return {
        "color": COLOURS[order % len(COLOURS)],
        "linestyle": LINES[order % len(LINES)],
        "marker": MARKERS[order % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.4,
    }


def _escaped(text: str) -> str:
    return text.replace("$", r"\$")  # a dollar sign is one


# Languages by corpora: where an embedding is strong and where it is not

_IN_A_ROW = 3


def heat_map(
    scores: Sequence[Score], out: str | Path, *, bench: str = "mantra", metric: str = "f1"
) -> list[Path]:
    """One panel an embedding, all with the same scale; the number is in each cell."""
    metrics = {known.name: known for known in BENCHES.load(bench).card.metrics}
    measure = metrics.get(metric) or Metric(metric)
    some = [entry for entry in entries(scores) if _cells(entry, bench, measure)]
    if not some:
        raise UsageError(
            f"there are no scores {metric!r} of {bench!r} by language and corpus. "
            f"Make them with: medcoder bench run --benches {bench}"
        )
    cells = [_cells(entry, bench, measure) for entry in some]
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
    for axis, entry, of in zip(axes, some, cells, strict=False):
        image = _panel(axis, of, languages, corpora, low, high)
        axis.set_title(short(entry.name, 30), fontsize=10, loc="left", parse_math=False)
    for axis in axes[len(some) :]:
        axis.set_axis_off()
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label(f"{metric.upper()}, {measure.unit}".rstrip(", "), fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return save(figure, out)


def _cells(entry: Entry, bench: str, metric: Metric) -> dict[tuple[str, str], float]:
    """Values as they are shown, by language and corpus."""
    cells = {}
    for (of, split, name), value in entry.values.items():
        language, slash, corpus = split.partition("/")
        if (of, name) == (bench, metric.name) and slash and language != "unseen":
            cells[language, corpus] = metric.scale * value.value
    return cells


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
