"""What all pictures share: colours, shapes, and how they are saved."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medcoder.errors import MissingExtra
from medcoder.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def new_figure(width: float, height: float) -> Figure:
    """A figure that belongs to no window."""
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
