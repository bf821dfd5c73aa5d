"""Embed a graph: resumable, every distinct string once, and none that is known already."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medcoder.arrays import raw_strings, write_array
from medcoder.artefact import check_free, create, read_meta
from medcoder.errors import ArtefactError, UsageError
from medcoder.files import disk_full, write_json
from medcoder.kg import KG
from medcoder.kg.keys import hash_strings
from medcoder.types import CONCEPT_FLAGS, Encoder, Progress, silent
from medcoder.unfinished import alone, remove_at_once, sweep, unfinished
from medcoder.vectors import (
    HASHES,
    KIND,
    NO_ROW,
    ROW_FIRST,
    ROW_TERMS,
    ROWS,
    TERM_ROW,
    VERSION,
    Vectors,
)
from medcoder.vectors.known import Known

_WITHOUT = sum(1 << CONCEPT_FLAGS.index(flag) for flag in ("extension", "heading"))
_SHARD = 4096  # rows after which work is safe from a kill
_STATE = "state.json"
_FILE = f"{ROWS}.float16"


def embed(
    kg: KG,
    encoder: Encoder,
    path: str | Path,
    *,
    known: Sequence[Known] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Vectors:
    """Make the directory of vectors at `path`.

    A run that was interrupted or killed goes on where it was when called again. `known` are
    vectors by the same encoder, of an older release or bundled: strings in them cost nothing.
    """
    path = Path(path).absolute()
    parents = {"kg": kg.fingerprint, "encoder": encoder.fingerprint}
    for seed in known:
        if seed.encoder != parents["encoder"]:
            raise UsageError(
                "it was not made by this encoder", where=seed.path, remedy="Leave it out"
            )
    clear(path)
    check_free(path, kind=KIND, overwrite=overwrite)
    report = progress or silent
    plan = make_plan(kg)
    with disk_full(path, kept="What is embedded stays for the next try"), _work(path) as work:
        _encode(work, parents, kg, encoder, plan, known, report)
        with create(
            path, kind=KIND, version=VERSION, parents=parents, overwrite=overwrite
        ) as draft:
            for name, array in _mapping(plan).items():
                write_array(draft.path, name, array)
            _link(work / _FILE, draft.path / _FILE)
            draft.meta |= {
                "made_by": f"medcoder {version('medcoder')}",
                "width": encoder.width,
                "rows": len(plan.first_term),
            }
    return Vectors.open(path)


def clear(path: Path) -> None:
    """Remove the work on vectors that are there: a kill came when they were just done."""
    work = _work_folder(path)
    lock = work.with_name(f"{work.name}.lock")
    if not path.exists():
        return
    sweep(path)
    if work.exists() or lock.exists():
        busy = UsageError("another process is making it", where=path)
        with contextlib.suppress(UsageError, OSError), alone(lock, busy=busy):
            if _is_of(work, path):
                remove_at_once(work, beside=path)


def _is_of(work: Path, path: Path) -> bool:
    try:
        state = json.loads((work / _STATE).read_text(encoding="utf-8"))
        return bool(state["of"] == read_meta(path, kind=KIND)["parents"])
    except (OSError, ValueError, TypeError, KeyError, ArtefactError):
        return False


def _work_folder(path: Path) -> Path:
    return path.with_name(f".{path.name}.embedding")


@contextlib.contextmanager
def _work(path: Path) -> Iterator[Path]:
    """The directory that keeps unfinished work, for this process alone; gone when all is done."""
    work = _work_folder(path)
    work.parent.mkdir(parents=True, exist_ok=True)
    busy = UsageError("another process is making it", where=path, remedy="Wait until it is done")
    with contextlib.ExitStack() as held:
        if not held.enter_context(alone(work.with_name(f"{work.name}.lock"), busy=busy)):
            # Nothing keeps others from writing to the same files: then it cannot be gone on with.
            work = held.enter_context(unfinished(path))
        work.mkdir(exist_ok=True)
        yield work
        remove_at_once(work, beside=path)


def _link(file: Path, to: Path) -> None:
    """So that a kill before the end leaves the work where it was."""
    try:
        os.link(file, to)
    except OSError:  # not on every file system
        shutil.copyfile(file, to)


def _done(work: Path, of: dict[str, str], size: int) -> int:
    """How many rows of `size` bytes an earlier call has left."""
    try:
        state = json.loads((work / _STATE).read_text(encoding="utf-8"))
        there = (work / _FILE).stat().st_size // size
        return max(min(int(state["done"]), there), 0) if state["of"] == of else 0
    except (OSError, ValueError, TypeError, KeyError):
        return 0


def _encode(
    work: Path,
    of: dict[str, str],
    kg: KG,
    encoder: Encoder,
    plan: Plan,
    known: Sequence[Known],
    report: Progress,
) -> None:
    """Fill the file of rows, from where it stands on."""
    total, size = len(plan.first_term), encoder.width * 2
    done = _done(work, of, size)
    write_json(work / _STATE, {"of": of, "done": done})  # before rows come that are not of the old
    if done == 0:  # not emptied: the directory of a call that was killed late has it too
        (work / _FILE).unlink(missing_ok=True)
    with (work / _FILE).open("ab") as file:
        file.truncate(done * size)  # what came after the last safe point
        report("embedding", done, total)
        for start, texts in _shards(kg, plan, done):
            vectors = _vectors(encoder, texts, plan.hashes[start : start + len(texts)], known)
            file.write(vectors.tobytes())
            file.flush()
            os.fsync(file.fileno())  # before the file that says so
            done = start + len(texts)
            write_json(work / _STATE, {"of": of, "done": done})
            report("embedding", done, total)


def _shards(kg: KG, plan: Plan, done: int) -> Iterator[tuple[int, list[str]]]:
    for first, texts in row_texts(kg, plan.first_term):
        for start in range(max(done - first, 0), len(texts), _SHARD):
            yield first + start, texts[start : start + _SHARD]


def _vectors(
    encoder: Encoder,
    texts: Sequence[str],
    hashes: npt.NDArray[np.uint64],
    known: Sequence[Known],
) -> npt.NDArray[np.float16]:
    vectors = np.empty((len(texts), encoder.width), np.float16)
    missing = np.ones(len(texts), np.bool_)
    for seed in known:
        positions = np.flatnonzero(missing)
        known_positions, rows = seed.find(hashes[positions])
        vectors[positions[known_positions]] = rows
        missing[positions[known_positions]] = False
    positions = np.flatnonzero(missing)
    if len(positions):
        vectors[positions] = encoder.encode([texts[position] for position in positions.tolist()])
    return vectors


def _mapping(plan: Plan) -> dict[str, npt.NDArray[Any]]:
    """Rows of terms, and terms of rows."""
    terms = np.argsort(plan.term_row, kind="stable").astype(np.int32)
    terms = terms[np.count_nonzero(plan.term_row < 0) :]
    counts = np.bincount(plan.term_row[terms], minlength=len(plan.first_term))
    first = np.zeros(len(plan.first_term) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return {HASHES: plan.hashes, TERM_ROW: plan.term_row, ROW_TERMS: terms, ROW_FIRST: first}


class Plan(NamedTuple):
    """Which strings of a graph get a vector: each distinct string once, in order of its first term.

    Row of each term (-1: none), and of each row the first term and the hash of its text.
    """

    term_row: npt.NDArray[np.int32]
    first_term: npt.NDArray[np.int32]
    hashes: npt.NDArray[np.uint64]


def make_plan(kg: KG) -> Plan:
    """Extensions get no vector: they say what their parent says, and which encounter it is.

    Headings get none either, since they are never answers.

    Strings are told apart by 64-bit hashes. Among the 15 million of UMLS, the chance that any two
    share a hash is below 1 in 100,000.
    """
    hashes = np.empty(len(kg.terms), np.uint64)
    wanted = np.empty(len(kg.terms), np.bool_)
    start = 0
    for concepts, texts in kg.terms.blocks():
        stop = start + len(texts)
        hashes[start:stop] = text_hashes(texts)
        wanted[start:stop] = kg.flags[concepts] & _WITHOUT == 0
        start = stop
    terms = np.flatnonzero(wanted).astype(np.int32)
    _, first, inverse = np.unique(hashes[terms], return_index=True, return_inverse=True)
    order = np.argsort(first)  # rows in the order of their first terms
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    term_row = np.full(len(wanted), NO_ROW, np.int32)
    term_row[terms] = rank[inverse]
    first_term = terms[first[order]]
    return Plan(term_row, first_term, hashes[first_term])


def row_texts(kg: KG, first_term: npt.NDArray[np.int32]) -> Iterator[tuple[int, list[str]]]:
    """Texts of all rows in order: the number of the first of each block, and the block."""
    start = row = 0
    for _, texts in kg.terms.blocks():
        stop = start + len(texts)
        last = int(np.searchsorted(first_term, stop))
        if last > row:
            yield row, texts.take(pa.array(first_term[row:last] - start)).to_pylist()
        start, row = stop, last


def text_hashes(texts: pa.LargeStringArray) -> npt.NDArray[np.uint64]:
    """Hashes of the texts as they are, by case too."""
    hashes: npt.NDArray[np.uint64] = hash_strings(*raw_strings(texts))
    return hashes
