"""Make the directory that a Normalizer loads, from a graph and an encoder.

It holds all it needs and can be moved or copied as it is. Files of the graph, the encoder and the
vectors are linked into it where the file system can do that, and copied where it cannot.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args

from medcoder.artefact import META, check_free, create, fingerprint, open_artefact, read_meta
from medcoder.bundled.graph import bundled_kg, first_use, home
from medcoder.bundled.models import (
    MODEL,
    bundled_calibration,
    bundled_model,
    bundled_vectors,
    bundled_weights,
    check_bundled,
)
from medcoder.encode.onnx import OnnxEncoder
from medcoder.errors import ArtefactError, UsageError
from medcoder.files import write_json
from medcoder.index import INDEXES, build_index, choose, open_index
from medcoder.kg import KG
from medcoder.manifest import read_json
from medcoder.normalize.batch import Fusion
from medcoder.normalize.calibrate import Calibration, calibrate
from medcoder.normalize.custom_terms import CustomTerms
from medcoder.normalize.rank import Ranker
from medcoder.normalize.stages.letters import Grams, build_grams
from medcoder.text import FOLD_VERSION, check_fold
from medcoder.types import Progress, silent
from medcoder.unfinished import alone, remove_at_once, sweep, unfinished
from medcoder.vectors import Vectors
from medcoder.vectors.embed import clear, embed, row_texts
from medcoder.vectors.known import Known, open_seed

KIND = "index"
VERSION = 2
CALIBRATION = "calibration.json"
KG_PART, ENCODER, VECTORS, SEARCH, GRAMS = "kg", "encoder", "vectors", "search", "grams"
_NEEDED = (CALIBRATION, *(f"{part}/{META}" for part in (KG_PART, ENCODER, VECTORS)))
_QUERIES = 4000  # that calibration draws from the graph
# What the weights and confidences are: those that come with the package, fitted to the graph, taken
# from a file that was given, or fitted by `refit`.
Calibrated = Literal["bundled", "graph", "given", "fitted"]
_BEFORE_WEIGHTS = {"best", "others"}  # keys of a calibration then
_FORMERLY = "embedded graph"  # as "bundled" was called


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
    calibration: a file of weights and confidences. Without it, an index by a bundled model takes
        those that come with the package, whatever its graph: they were fitted to strings of people
        and to several terminologies, so that they carry over. Those of another model are fitted to
        the graph
    """
    path = Path(path).absolute()
    if kind is not None and kind not in INDEXES:
        INDEXES.load(kind)  # says which there are
    _clear(path)
    check_free(path, kind=KIND, overwrite=overwrite)
    calibrated: Calibrated = "given"
    if calibration is None:
        calibration = bundled_calibration(encoder.fingerprint)
        calibrated = "graph" if calibration is None else "bundled"
    if calibration is not None:
        read_calibration(calibration)
    report = progress or silent
    with contextlib.ExitStack() as stack:
        if vectors is None:
            folder = stack.enter_context(_vectors_folder(path))
            vectors = _unfinished_vectors(kg, encoder, folder)
            clear(folder)
            if vectors is None:
                vectors = embed(kg, encoder, folder, known=known, overwrite=True, progress=progress)
        elif (
            vectors.encoder != encoder.fingerprint
            or vectors.meta["parents"].get("kg") != kg.fingerprint
        ):
            raise ArtefactError(
                "the vectors are not of this graph and this encoder",
                where=vectors.path,
                remedy="Embed it anew",
            )
        vectors.check()  # all of them are read from here on
        parents = {
            "kg": kg.fingerprint,
            "encoder": encoder.fingerprint,
            "vectors": vectors.fingerprint,
        }
        kind = kind or choose(len(vectors))
        with create(
            path, kind=KIND, version=VERSION, parents=parents, overwrite=overwrite
        ) as draft:
            for name, part in ((KG_PART, kg), (ENCODER, encoder), (VECTORS, vectors)):
                link(part.path, draft.path / name)
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
                "fold": FOLD_VERSION,
                "index": kind,
                "calibrated": calibrated,
                "concepts": len(kg),
                "terms": len(kg.terms),
                "rows": len(vectors),
                "width": vectors.width,
            }


def _clear(path: Path) -> None:
    """Remove the vectors beside an index that is there: a kill came when it was just done."""
    folder, lock = (path.with_name(f".{path.name}.{name}") for name in ("vectors", "build.lock"))
    if not path.exists():
        return
    sweep(path)
    if folder.exists() or lock.exists():
        busy = UsageError("it is being made already", where=path)
        ours = contextlib.suppress(UsageError, ArtefactError, OSError)
        with ours, alone(lock, busy=busy):
            held = read_meta(path, kind=KIND)["parents"]
            clear(folder)
            if fingerprint(folder, kind=VECTORS) == held["vectors"]:
                remove_at_once(folder, beside=path)


@contextlib.contextmanager
def _vectors_folder(path: Path) -> Iterator[Path]:
    """Where vectors lie until the index at `path` is whole; gone then, and kept on errors."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.with_name(f".{path.name}.vectors")
    busy = UsageError("it is being made already", where=path, remedy="Wait until it is done")
    with contextlib.ExitStack() as held:
        if not held.enter_context(alone(path.with_name(f".{path.name}.build.lock"), busy=busy)):
            # Nothing keeps others from using the same folder: then it cannot be gone on with.
            folder = held.enter_context(unfinished(path)) / VECTORS
        yield folder
        remove_at_once(folder, beside=path)


def bundled_index(progress: Progress | None = None) -> Path:
    """The index of the bundled graph; the first call builds it, in some ten seconds."""
    folder = bundled_model()
    graph = bundled_kg(progress)
    path = home() / f"{graph.stem}-{MODEL}-{VERSION}-{_bundled_key(folder)}.index"
    return first_use(path, "index", lambda: _build_bundled(path, graph, folder, progress))


def _bundled_key(folder: Path) -> str:
    """What of a bundled model the index is made of: the encoder and its calibration."""
    encoder = fingerprint(folder, kind="encoder")
    calibration = bundled_calibration(encoder)
    digest = hashlib.blake2b(encoder.encode(), digest_size=6)
    digest.update(calibration.read_bytes() if calibration else b"")
    return digest.hexdigest()


def _build_bundled(path: Path, graph: Path, folder: Path, progress: Progress | None) -> None:
    check_bundled(folder)
    kg, encoder = KG.open(graph), OnnxEncoder.load(folder)
    known = [open_seed(seed) for seed in bundled_vectors() if seed.exists()]
    # Not to be gone on with: a folder that others may share is no place for names known to all.
    with unfinished(path.with_name(f"{path.name}.{VECTORS}")) as partial:
        vectors = embed(kg, encoder, partial / VECTORS, known=known, progress=progress)
        build(
            kg,
            encoder,
            path,
            kind="exact",
            vectors=vectors,
            progress=progress,
        )


def open_parts(path: Path) -> tuple[dict[str, Any], KG, Vectors]:
    """The meta data, the graph and the vectors of an index directory."""
    meta = open_artefact(path, kind=KIND, version=VERSION, needs=_NEEDED)
    check_fold(meta, path, command="medcoder index build")
    kg = KG.open(path / KG_PART)
    vectors = Vectors.open(path / VECTORS, kg=kg)
    held = {"kg": kg.fingerprint, "encoder": vectors.encoder, "vectors": vectors.fingerprint}
    if meta.get("parents") != held:
        raise ArtefactError(
            "it was made of other parts than it holds", where=path, remedy="Build it again"
        )
    counts = {
        "concepts": len(kg), "terms": len(kg.terms), "rows": len(vectors), "width": vectors.width,
    }  # fmt: skip
    known = isinstance(meta.get("index"), str) and meta["index"] in INDEXES
    if not known or {name: meta.get(name) for name in counts} != counts:
        raise ArtefactError(
            "it says of itself what it is not",
            where=path / META,
            values=f"it holds {counts}",
            remedy="Copy or build it again",
        )
    return meta, kg, vectors


def open_grams(path: Path, rows: int) -> Grams:
    """The letters of an index directory with as many rows."""
    grams = Grams(path / GRAMS)
    if len(grams) != rows:
        raise ArtefactError(
            f"it is not of {rows:,} rows", where=path / GRAMS, remedy="Copy or build it again"
        )
    return grams


def read_calibration(file: Path) -> tuple[Fusion, dict[str, Calibration]]:
    """How scores are fused, and calibrations by set of stages."""
    try:
        stored = read_json(file)
        fitted = {name: Calibration.from_dict(entry) for name, entry in stored["stages"].items()}
        fusion = Fusion(**stored["fusion"])
        if not all(isinstance(value, (int, float)) and isfinite(value) for value in fusion):
            raise ValueError("its fusion is not of numbers")
        return fusion, fitted
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ArtefactError(
            "it cannot be read", where=file, values=repr(error), remedy="Build the index again"
        ) from error


def weighed_by(path: Path, meta: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The file of weights and confidences of an index, and its meta data.

    An index that was built before there were weights takes those that come with the package, and
    its meta data say so.
    """
    file = path / CALIBRATION
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        entries = read_json(file)["stages"].values()
        if any(entry.keys() >= _BEFORE_WEIGHTS for entry in entries):
            return bundled_weights(), meta | {"calibrated": "bundled"}
    return file, meta


def _unfinished_vectors(kg: KG, encoder: OnnxEncoder, path: Path) -> Vectors | None:
    """The vectors of a build that was stopped after it had embedded, if there are any."""
    try:
        vectors = Vectors.open(path, kg=kg)
    except ArtefactError:
        return None
    return vectors if vectors.encoder == encoder.fingerprint else None


def _calibrate(kg: KG, encoder: OnnxEncoder, vectors: Vectors, kind: str, folder: Path) -> None:
    ranker = Ranker(
        kg,
        vectors,
        open_index(kind, vectors, folder / SEARCH),
        Grams(folder / GRAMS),
        CustomTerms(kg, None, None),
    )
    _, start = read_calibration(bundled_weights())
    write_calibration(folder, *calibrate(ranker, encoder, min(_QUERIES, len(kg)), start))


def write_calibration(folder: Path, fusion: Fusion, fitted: Mapping[str, Calibration]) -> None:
    """Write what `read_calibration` reads into the directory of an index."""
    stages = {name: entry.as_dict() for name, entry in fitted.items()}
    write_json(folder / CALIBRATION, {"fusion": fusion._asdict(), "stages": stages})


def calibrated_by(meta: Mapping[str, Any]) -> Calibrated:
    """What the weights and confidences of an index are, by its meta data."""
    said = str(meta.get("calibrated", "graph"))
    known: dict[object, Calibrated] = {name: name for name in get_args(Calibrated)}
    return known.get(said if said != _FORMERLY else "bundled", "given")


def link(source: Path, target: Path) -> None:
    """A directory of links to the files of another: artefacts are replaced, never changed."""

    def link_or_copy(file: str, to: str) -> None:
        try:
            os.link(file, to)
        except OSError:
            shutil.copyfile(file, to)

    shutil.copytree(source, target, copy_function=link_or_copy)
