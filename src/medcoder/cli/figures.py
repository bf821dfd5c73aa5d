"""The pictures of `medcoder bench`: those that nothing changed for are not drawn again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from medcoder.cli import benches, opened
from medcoder.cli.lines import line
from medcoder.cli.run import Report
from medcoder.cli.systems import is_normalizer, systems
from medcoder.evaluate import Score
from medcoder.evaluate.base import Linker
from medcoder.files import write_json

MADE = "made.json"
_NO_ANSWERS = ("relcls", "relcls_open", "cases")  # predictions without scores, or a handful


def draw_all(
    folder: Path,
    to: Path,
    specs: Sequence[str],
    *,
    kg: Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Report | None = None,
) -> None:
    """All figures that the scores of `folder` and the models allow."""
    scores = benches.scores_of(folder)
    drawer = _Drawer(to)
    for name in ("mantra", "mantra_open"):
        some = [score for score in scores if score.bench == name and "/" in score.split]
        if some:
            inputs = [f"{score.key} {score.value}" for score in some]
            drawer.draw(f"languages-{name}", inputs, partial(_heat_map, scores, name))
    _draw_confidence(folder, scores, drawer)
    vectors = [spec for spec in specs if not is_normalizer(spec)]
    if vectors:
        _draw_tsne(vectors, folder, drawer, kg=kg, seed=seed, threads=threads, progress=progress)


def _draw_confidence(folder: Path, scores: Sequence[Score], drawer: _Drawer) -> None:
    """Reliability and risk of each bench that has predictions."""
    from medcoder.evaluate.plots import reliability, risk_coverage
    from medcoder.evaluate.predictions import predictions_file

    for name in dict.fromkeys(score.bench for score in scores):
        models = dict.fromkeys(score.embedding for score in scores if score.bench == name)
        files = {model: predictions_file(folder, model, name) for model in models}
        files = {model: file for model, file in files.items() if file.exists()}
        if not files or name in _NO_ANSWERS:
            continue
        inputs = [f"{model} {_digest(file)}" for model, file in files.items()]
        drawer.draw(f"reliability-{name}", inputs, partial(reliability, files))
        drawer.draw(f"risk-coverage-{name}", inputs, partial(risk_coverage, files))


def _draw_tsne(
    specs: Sequence[str],
    folder: Path,
    drawer: _Drawer,
    *,
    kg: Path | None,
    seed: int,
    threads: int | None,
    progress: Report | None,
) -> None:
    """ICD-10-CM in the plane: terms by concept, and concepts by semantic type."""
    from medcoder.evaluate.plots import tsne_concepts, tsne_terms

    given = systems(specs, folder, threads=threads, progress=progress)
    loaded = [system for system in given if not isinstance(system, Linker)]
    with opened.opened_graph(kg) as graph:
        inputs = [f"{one.name} {one.fingerprint}" for one in loaded]
        inputs += [graph.fingerprint, str(seed)]
        for name, draw in (("tsne-terms", tsne_terms), ("tsne-concepts", tsne_concepts)):
            made = partial(draw, loaded, graph, seed=seed, progress=progress)
            drawer.draw(name, inputs, made)


def _heat_map(scores: Sequence[Score], name: str, out: Path) -> list[Path]:
    from medcoder.evaluate.plots import heat_map

    return heat_map(scores, out, bench=name)


class _Drawer:
    """Draws what is not there yet for the same inputs, and says where it is."""

    def __init__(self, to: Path) -> None:
        self._to, self._record = to, to / MADE
        to.mkdir(parents=True, exist_ok=True)

    def draw(
        self, name: str, inputs: Sequence[str], make: Callable[[Path], Sequence[Path]]
    ) -> None:
        made = self._made()
        digest = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
        known = made.get(name, {})
        files = [self._to / file for file in known.get("files", ())]
        if known.get("inputs") == digest and files and all(file.exists() for file in files):
            line((f"{self._to / name}: kept", "dim"))
            return
        files = list(make(self._to / name))
        made[name] = {"inputs": digest, "files": [file.name for file in files]}
        write_json(self._record, made)
        for file in files:
            line(str(file))

    def _made(self) -> dict[str, dict[str, Any]]:
        try:
            found: dict[str, dict[str, Any]] = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
