"""t-SNE of terms coloured by concept, and of concepts by semantic type, a panel an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.errors import MissingExtra, UsageError
from medcoder.evaluate.metrics import neighbourhood_purity
from medcoder.evaluate.plots.charts import (
    COLOURS,
    EDGE,
    LETTERS,
    MARKERS,
    SOFT,
    new_figure,
    save,
    short,
)
from medcoder.evaluate.plots.tsne_sample import Sample, sample_concepts, sample_terms
from medcoder.evaluate.results import Embedding
from medcoder.kg import KG
from medcoder.types import Progress

Points = npt.NDArray[np.float32]

_LEAST = 5  # items that an embedding must know
_IN_A_ROW = 3
_VECTOR = 400  # points above which an SVG holds them as pixels


class Panel(NamedTuple):
    """One embedding's picture of the items."""

    name: str
    flat: npt.NDArray[np.float64]  # (n, 2)
    labels: npt.NDArray[np.int64]  # (n,)
    purity: float
    coverage: float


def tsne_terms(
    embeddings: Sequence[Embedding],
    kg: KG,
    out: str | Path,
    *,
    vocabulary: str = "ICD10CM",
    concepts: int = 300,
    least: int = 5,
    shown: int = 12,
    k: int = 4,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Path]:
    """Terms of `concepts` concepts with at least `least` terms each; `shown` of them in colour.

    Under each panel: the mean share of a term's k nearest, in the embedding's own space, that
    belong to its concept. All terms count, those in grey too.
    """
    if not 1 <= shown <= len(MARKERS):
        raise UsageError(f"{shown} concepts cannot be told apart: take 1 to {len(MARKERS)}")
    sample = sample_terms(
        kg, vocabulary=vocabulary, concepts=concepts, least=least, shown=shown, seed=seed
    )
    panels = _panels(embeddings, sample, k, seed, progress)
    rest = "" if len(sample.names) == len(sample.shown) else f", {len(sample.shown)} in colour"
    title = f"{len(sample.texts):,} terms of {len(sample.names):,} {vocabulary} concepts{rest}"
    return _draw(panels, sample, out, title=title, what="concept", k=k)


def tsne_concepts(
    embeddings: Sequence[Embedding],
    kg: KG,
    out: str | Path,
    *,
    vocabulary: str = "ICD10CM",
    types: Sequence[str] | None = None,
    each: int = 200,
    k: int = 10,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Path]:
    """Concepts by their preferred names, coloured by semantic type; in ICD-10-CM, by chapter.

    types: ids or names; by default the eight that have the most concepts
    """
    if types is not None and len(types) > len(MARKERS):
        raise UsageError(f"{len(types)} types cannot be told apart: take {len(MARKERS)} at most")
    sample = sample_concepts(
        kg, vocabulary=vocabulary, types=types, each=each, most=len(COLOURS), seed=seed
    )
    panels = _panels(embeddings, sample, k, seed, progress)
    title = f"{len(sample.texts):,} {vocabulary} concepts of {len(sample.names)} semantic types"
    return _draw(panels, sample, out, title=title, what="type", k=k)


def flattened(points: Points, *, seed: int) -> npt.NDArray[np.float64]:
    """Points in the plane: (n, 2)."""
    try:
        from openTSNE import TSNE
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"t-SNE needs {error.name}. Install it with: pip install 'medcoder[eval]'"
        ) from error
    made = TSNE(
        perplexity=min(30, (len(points) - 1) / 3),
        neighbors="exact",
        negative_gradient_method="bh",
        n_jobs=1,  # sums in another order would move points
        random_state=seed,
    ).fit(points)
    return np.asarray(made, np.float64)


def dense(rows: Any) -> Points:
    """Rows of a sparse space turned so that few columns hold them: all distances are kept."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows, np.float32)
    products = np.asarray((rows @ rows.T).toarray(), np.float64)  # (n, n)
    values, axes = np.linalg.eigh(products)
    kept = values > 1e-9 * values[-1]
    return np.asarray(axes[:, kept] * np.sqrt(values[kept]), np.float32)


def _panels(
    embeddings: Sequence[Embedding],
    sample: Sample,
    k: int,
    seed: int,
    progress: Progress | None,
) -> list[Panel]:
    if not embeddings:
        raise UsageError("there is no embedding to draw. Name at least one")
    made = []
    for done, embedding in enumerate(embeddings):
        if progress is not None:
            progress(f"t-SNE of {embedding.name}", done, len(embeddings))
        made.append(_panel(embedding, sample, k, seed))
    if progress is not None:
        progress("t-SNE", len(embeddings), len(embeddings))
    return made


def _panel(embedding: Embedding, sample: Sample, k: int, seed: int) -> Panel:
    rows, known = embedding.embed(sample.texts, ids=sample.ids, corpus=sample.texts)
    places = np.flatnonzero(known)
    if len(places) < _LEAST:
        raise UsageError(
            f"{embedding.name} knows {len(places)} of {len(sample.texts):,} items: too few to "
            "draw. Leave it out, or take another vocabulary"
        )
    points, labels = dense(rows[places]), sample.labels[places]
    return Panel(
        name=embedding.name,
        flat=flattened(points, seed=seed),
        labels=labels,
        purity=neighbourhood_purity(points, labels, k=k),
        coverage=len(places) / len(known),
    )


def _draw(
    panels: Sequence[Panel], sample: Sample, out: str | Path, *, title: str, what: str, k: int
) -> list[Path]:
    across = min(len(panels), _IN_A_ROW)
    down = ceil(len(panels) / across)
    width = max(4.6 * across, 5.5)
    columns = int(width / 4.5)
    legend = 0.19 * ceil(len(sample.shown) / columns) + 0.2
    figure = new_figure(width, width / across * down + 0.5 * down + legend)
    figure.suptitle(title, fontsize=11, parse_math=False)
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for axis, panel in zip(axes, panels, strict=False):
        _draw_panel(axis, panel, sample, what, k)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    figure.legend(
        handles=[_handle(order, sample.names[label]) for order, label in enumerate(sample.shown)],
        loc="outside lower center",
        ncols=columns,
        fontsize=8,
        frameon=False,
        handletextpad=0.2,
        columnspacing=1.2,
    )
    return save(figure, out)


def _draw_panel(axes: Any, panel: Panel, sample: Sample, what: str, k: int) -> None:
    if len(panel.labels) > _VECTOR:
        axes.set_rasterization_zorder(1.5)  # all points of a panel are one image
    rest = ~np.isin(panel.labels, sample.shown)
    few = rest.any()
    axes.scatter(*panel.flat[rest].T, s=5, c=SOFT, linewidths=0, zorder=1)
    for order, label in enumerate(sample.shown):
        axes.scatter(
            *panel.flat[panel.labels == label].T,
            s=36 if few else 18,
            c=COLOURS[order % len(COLOURS)],
            marker=MARKERS[order],
            edgecolors=EDGE,
            linewidths=0.5 if few else 0.3,
            zorder=2 if few else 1,
        )
    _letters(axes, panel, sample)
    middle = (panel.flat.max(axis=0) + panel.flat.min(axis=0)) / 2
    half = 0.54 * np.ptp(panel.flat, axis=0).max()
    axes.set(xticks=[], yticks=[], box_aspect=1)
    axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))
    axes.spines[:].set_color(SOFT)
    axes.set_title(short(panel.name), fontsize=11, loc="left", parse_math=False)
    lines = [f"purity {panel.purity:.3f}: share of the {k} nearest of the same {what}"]
    if panel.coverage < 1:
        lines.append(f"{100 * panel.coverage:.1f}% known, the rest not drawn")
    axes.set_xlabel("\n".join(lines), fontsize=9)


def _letters(axes: Any, panel: Panel, sample: Sample) -> None:
    """A letter in the middle of each group: for grey print, and for many colours."""
    from matplotlib.patheffects import withStroke

    for order, label in enumerate(sample.shown):
        own = panel.flat[panel.labels == label]
        if not len(own):
            continue
        apart = ((own[:, None] - own[None]) ** 2).sum(axis=2) ** 0.5  # (m, m)
        # The middle is where most of the group is near, not between its parts.
        near = np.sort(apart, axis=1)[:, : len(own) // 2 + 1].sum(axis=1)
        axes.annotate(
            LETTERS[order],
            own[near.argmin()],
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=11,
            fontweight="bold",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


def _handle(order: int, name: str) -> Any:
    from matplotlib.lines import Line2D

    label = f"{LETTERS[order]}  {short(name, 58)}".replace("$", r"\$")  # a dollar sign is one
    return Line2D(
        [],
        [],
        linestyle="",
        marker=MARKERS[order],
        color=COLOURS[order % len(COLOURS)],
        markeredgecolor=EDGE,
        markeredgewidth=0.5,
        label=label,
    )
