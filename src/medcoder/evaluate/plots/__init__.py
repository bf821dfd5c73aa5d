"""Pictures: t-SNE of terms and of concepts, reliability, risk and coverage, languages by corpora.

Each is written as PNG and SVG, with colours that colour-blind people can tell apart and shapes or
letters that do without colour. The same data and seed give the same picture. `draw_figures` makes
all that a run allows, and draws nothing again that nothing changed for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from medcoder.evaluate.benches import BENCHES
from medcoder.evaluate.benches.task import Card
from medcoder.evaluate.plots.charts import heat_map, reliability, risk_coverage
from medcoder.evaluate.plots.tsne import tsne_concepts, tsne_terms
from medcoder.evaluate.results import Embedding, Linker, Score, predictions_file, scores_of
from medcoder.files import write_json
from medcoder.kg import KG
from medcoder.types import Progress

__all__ = [
    "Drawn",
    "draw_figures",
    "heat_map",
    "reliability",
    "risk_coverage",
    "tsne_concepts",
    "tsne_terms",
]

MADE = "made.json"


class Drawn(NamedTuple):
    """A figure of a run, and its files."""

    name: str
    files: tuple[Path, ...]
    kept: bool  # was there already


class _Plan(NamedTuple):
    """What a figure is made from, and what makes it."""

    name: str
    inputs: list[str]
    make: Callable[[Path], Sequence[Path]]


def draw_figures(
    folder: Path,
    to: Path,
    systems: Iterable[Embedding | Linker] = (),
    *,
    kg: KG | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Iterator[Drawn]:
    """All figures that the scores of a run allow, one after the other.

    systems, kg: with a graph, its terms and concepts as each embedding sees them; whole systems
        have no vectors, and are left out
    """
    to.mkdir(parents=True, exist_ok=True)
    for plan in _charts(folder, scores_of(folder)):
        yield _draw(plan, to)
    if kg is not None:
        for plan in _tsne(systems, kg, seed=seed, progress=progress):
            yield _draw(plan, to)


def _charts(folder: Path, scores: Sequence[Score]) -> Iterator[_Plan]:
    """Languages by corpora, then reliability and risk, of each bench that has them."""
    cards: dict[str, Card] = {
        name: BENCHES.load(name).card
        for name in dict.fromkeys(score.bench for score in scores)
        if name in BENCHES
    }
    for name in (name for name in BENCHES if name in cards and cards[name].by_language):
        some = [score for score in scores if score.bench == name and "/" in score.split]
        if some:
            inputs = [f"{score.key} {score.value}" for score in some]
            draw = partial(heat_map, scores, bench=name, metric=cards[name].by_language)
            yield _Plan(f"languages-{name}", inputs, draw)
    for name, card in cards.items():
        models = dict.fromkeys(score.embedding for score in scores if score.bench == name)
        files = {model: predictions_file(folder, model, name) for model in models}
        files = {model: file for model, file in files.items() if file.exists()}
        if files and card.curves:
            inputs = [f"{model} {_digest(file)}" for model, file in files.items()]
            yield _Plan(f"reliability-{name}", inputs, partial(reliability, files))
            yield _Plan(f"risk-coverage-{name}", inputs, partial(risk_coverage, files))


def _tsne(
    systems: Iterable[Embedding | Linker], kg: KG, *, seed: int, progress: Progress | None
) -> Iterator[_Plan]:
    """ICD-10-CM in the plane: terms by concept, and concepts by semantic type."""
    loaded = [system for system in systems if not isinstance(system, Linker)]
    if not loaded:
        return
    inputs = [f"{embedding.name} {embedding.fingerprint}" for embedding in loaded]
    inputs += [kg.fingerprint, str(seed)]
    for name, draw in (("tsne-terms", tsne_terms), ("tsne-concepts", tsne_concepts)):
        yield _Plan(name, inputs, partial(draw, loaded, kg, seed=seed, progress=progress))


def _draw(plan: _Plan, to: Path) -> Drawn:
    """Draw a figure, unless it is there for the same inputs."""
    made = _made(to / MADE)
    digest = hashlib.sha256("\n".join(plan.inputs).encode()).hexdigest()[:16]
    known = made.get(plan.name, {})
    files = tuple(to / file for file in known.get("files", ()))
    if known.get("inputs") == digest and files and all(file.exists() for file in files):
        return Drawn(plan.name, files, kept=True)
    files = tuple(plan.make(to / plan.name))
    made[plan.name] = {"inputs": digest, "files": [file.name for file in files]}
    write_json(to / MADE, made)
    return Drawn(plan.name, files, kept=False)


def _made(record: Path) -> dict[str, dict[str, Any]]:
    try:
        made: dict[str, dict[str, Any]] = json.loads(record.read_bytes())
    except (OSError, ValueError):
        return {}
    return made


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
