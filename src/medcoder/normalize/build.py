"""Make the directory that a Normalizer loads, from a graph and an encoder.

It holds all it needs and can be moved or copied as it is. Files of the graph, the encoder and the
vectors are linked into it where the file system can do that, and copied where it cannot.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from medcoder.artefact import check_free, create, fingerprint, open_artefact, write_json
from medcoder.errors import ArtefactError
from medcoder.index import INDEXES, build_index, choose, open_index
from medcoder.kg import KG
from medcoder.normalize.calibrate import Calibration
from medcoder.normalize.candidates import Candidates, Fusion
from medcoder.normalize.drawn import calibrate
from medcoder.normalize.grams import Grams, build_grams
from medcoder.normalize.overlay import Overlay
from medcoder.runtime import shipped
from medcoder.runtime.onnx import OnnxEncoder
from medcoder.vectors import Vectors
from medcoder.vectors.embed import embed
from medcoder.vectors.plan import row_texts
from medcoder.vectors.seed import Known

KIND = "index"
VERSION = 2
CALIBRATION = "calibration.json"
KG_PART, ENCODER, VECTORS, SEARCH, GRAMS = "kg", "encoder", "vectors", "search", "grams"
Progress = Callable[[str, int, int], None]
_QUERIES = 4000  # that calibration draws from the graph
_SYNONYMS = 200  # concepts with two terms or more that it takes to learn from hidden ones
Calibrated = Literal["graph", "given", "embedded graph"]


def build(
    kg: KG,
    encoder: OnnxEncoder,
    path: str | Path,
    *,
    kind: str | None = None,
    vectors: Vectors | None = None,
    known: Sequence[Known] = (),
    calibration: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Make the index directory at `path`.

    kind: "exact", "ivf" or "hnsw"; by default what suits the number of terms
    vectors: of this graph by this encoder; made here if not given, and resumed if interrupted
    known: vectors by this encoder that spare encoding the strings in them
    calibration: a file of an index of the same graph and encoder, instead of fitting one. Where
        hardly a concept has a second term to hide, a shipped model takes that of the embedded
        graph: how sure to be of a synonym cannot be learnt from a list of single names
    """
    path = Path(path).absolute()
    if kind is not None and kind not in INDEXES:
        INDEXES.load(kind)  # says which there are
    check_free(path, kind=KIND, overwrite=overwrite)
    calibrated: Calibrated = "graph" if calibration is None else "given"
    if calibration is None and np.count_nonzero(np.diff(kg.terms.first) > 1) < _SYNONYMS:
        calibration = shipped_calibration(encoder.fingerprint)
        calibrated = "graph" if calibration is None else "embedded graph"
    if calibration is not None:
        read_calibration(calibration)
    report = progress or (lambda what, done, total: None)
    unfinished = path.with_name(f".{path.name}.vectors")
    if vectors is None:
        vectors = _embedded(kg, encoder, unfinished)
    if vectors is None:
        vectors = embed(kg, encoder, unfinished, known=known, overwrite=True, progress=progress)
    elif vectors.encoder != encoder.fingerprint or vectors.meta["parents"]["kg"] != kg.fingerprint:
        raise ArtefactError(f"{vectors.path} is not of this graph and this encoder. Embed it anew")
    parents = {
        "kg": kg.fingerprint,
        "encoder": encoder.fingerprint,
        "vectors": vectors.fingerprint,
    }
    kind = kind or choose(len(vectors))
    with create(path, kind=KIND, version=VERSION, parents=parents, overwrite=overwrite) as draft:
        for name, part in ((KG_PART, kg), (ENCODER, encoder), (VECTORS, vectors)):
            _link(part.path, draft.path / name)
        (draft.path / SEARCH).mkdir()
        (draft.path / GRAMS).mkdir()
        report("index", 0, 3)
        build_index(kind, vectors, draft.path / SEARCH)
        report("index", 1, 3)
        build_grams(row_texts(kg, vectors.first_terms()), len(vectors), draft.path / GRAMS)
        report("index", 2, 3)
        if calibration is not None:
            shutil.copyfile(calibration, draft.path / CALIBRATION)
        else:
            _calibrate(kg, encoder, vectors, kind, draft.path)
        report("index", 3, 3)
        draft.meta |= {
            "made_by": f"medcoder {version('medcoder')}",
            "index": kind,
            "calibrated": calibrated,
            "concepts": len(kg),
            "terms": len(kg.terms),
            "rows": len(vectors),
            "width": vectors.width,
        }
    if unfinished.exists():
        shutil.rmtree(unfinished)


def shipped_calibration(encoder: str) -> Path | None:
    """That of a shipped model and the embedded graph, by the fingerprint of the encoder."""
    for name, folder in shipped().items():
        file = folder.parent / f"{name}.open.calibration.json"
        if file.exists() and fingerprint(folder, kind="encoder") == encoder:
            return file
    return None


def open_parts(path: Path) -> tuple[dict[str, Any], KG, Vectors]:
    """The meta data, the graph and the vectors of an index directory."""
    meta = open_artefact(path, kind=KIND, version=VERSION)
    kg = KG.open(path / KG_PART)
    vectors = Vectors.open(path / VECTORS, kg=kg)
    held = {"kg": kg.fingerprint, "encoder": vectors.encoder, "vectors": vectors.fingerprint}
    if meta.get("parents") != held:
        raise ArtefactError(f"{path} was made of other parts than it holds. Build it again")
    return meta, kg, vectors


def read_calibration(file: Path) -> tuple[Fusion, dict[str, Calibration]]:
    """How scores are fused, and calibrations by set of stages."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        fitted = {name: Calibration.from_dict(entry) for name, entry in stored["stages"].items()}
        return Fusion(**stored["fusion"]), fitted
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtefactError(f"{file} cannot be read: {error!r}. Build the index again") from error


def _embedded(kg: KG, encoder: OnnxEncoder, path: Path) -> Vectors | None:
    """The vectors of a build that was stopped after it had embedded, if there was one."""
    try:
        vectors = Vectors.open(path, kg=kg)
    except ArtefactError:
        return None
    return vectors if vectors.encoder == encoder.fingerprint else None


def _calibrate(kg: KG, encoder: OnnxEncoder, vectors: Vectors, kind: str, folder: Path) -> None:
    found = Candidates(
        kg,
        vectors,
        open_index(kind, vectors, folder / SEARCH),
        Grams(folder / GRAMS),
        Overlay(kg, None, None),
    )
    fusion, fitted = calibrate(found, encoder, min(_QUERIES, len(kg)))
    stages = {name: one.as_dict() for name, one in fitted.items()}
    write_json(folder / CALIBRATION, {"fusion": fusion._asdict(), "stages": stages})


def _link(source: Path, target: Path) -> None:
    """A directory of links to the files of another: artefacts are replaced, never changed."""

    def link_or_copy(file: str, to: str) -> None:
        try:
            os.link(file, to)
        except OSError:
            shutil.copyfile(file, to)

    shutil.copytree(source, target, copy_function=link_or_copy)
