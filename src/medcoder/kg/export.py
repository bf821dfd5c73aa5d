"""A graph as Parquet tables, for other programs and for the `table` source."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from medcoder.artefact import create
from medcoder.kg import KG
from medcoder.tables.parquet import from_rows, open_writer, write_rows
from medcoder.types import EDGES, FLAGS, TERMS, TYPES, XREFS, Progress, silent

KIND = "Parquet export"
VERSION = 1
VOCABULARIES = pa.schema({"name": pa.string(), "version": pa.string(), "title": pa.string()})
_CONCEPTS = 50_000  # concepts at a time
_EDGES = 1 << 20  # edges at a time


def export_parquet(
    kg: KG,
    folder: Path,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Write the parts of a graph, a table each, under `folder`; gives rows by file name.

    What does not travel: ids that were merged into others, and the report of the build.
    """
    report = progress or silent
    parents = {"kg": kg.fingerprint}
    with create(folder, kind=KIND, version=VERSION, parents=parents, overwrite=overwrite) as draft:
        rows = _write_concepts(kg, draft.path, report)
        rows["relations.parquet"] = _write_edges(kg, draft.path, report)
        rows["vocabularies.parquet"] = _write_vocabularies(kg, draft.path)
    return rows


def _write_vocabularies(kg: KG, folder: Path) -> int:
    # Ids that were merged into others are kept under a vocabulary without a name.
    named = [entry for entry in kg.vocabularies if entry.name]
    return write_rows(folder / "vocabularies.parquet", named, VOCABULARIES)


def _write_concepts(kg: KG, folder: Path, report: Progress) -> dict[str, int]:
    parts = {"terms": TERMS, "types": TYPES, "xrefs": XREFS, "flags": FLAGS}
    rows = dict.fromkeys((f"{name}.parquet" for name in parts), 0)
    with contextlib.ExitStack() as files:
        writers = {
            name: files.enter_context(open_writer(folder / f"{name}.parquet", schema))
            for name, schema in parts.items()
        }
        for start in range(0, len(kg), _CONCEPTS):
            stop = min(start + _CONCEPTS, len(kg))
            ids = kg.ids(np.arange(start, stop))
            for name, entries in (
                ("terms", _terms(kg, ids)),
                ("types", ((c, *kind) for c in ids for kind in kg.types_of(c))),
                ("xrefs", _xrefs(kg, ids)),
                ("flags", ((c, flag) for c in ids for flag in kg.flags_of(c))),
            ):
                table = from_rows(entries, parts[name])
                writers[name].write_table(table)
                rows[f"{name}.parquet"] += table.num_rows
            report("writing concepts", stop, len(kg))
    return rows


def _terms(kg: KG, ids: list[str]) -> Iterator[tuple[object, ...]]:
    for concept in ids:
        for rank, term in enumerate(kg.terms_of(concept)):
            text, language, vocabulary, code, kind = term
            yield concept, text, language, vocabulary, code, kind, rank


def _xrefs(kg: KG, ids: list[str]) -> Iterator[tuple[str, ...]]:
    for concept in ids:
        for kind, codes in (("alt", kg.alternatives_of(concept)), ("xref", kg.xrefs_of(concept))):
            for code in codes:
                yield concept, code.vocabulary, code.code, kind


def _write_edges(kg: KG, folder: Path, report: Progress) -> int:
    labels = pa.array(kg.relations, pa.string())
    with open_writer(folder / "relations.parquet", EDGES) as writer:
        for start in range(0, len(kg.edges), _EDGES):
            triples = kg.triples(slice(start, start + _EDGES))
            ends, positions = np.unique(
                np.concatenate([triples.head, triples.tail]), return_inverse=True
            )
            ids = pa.array(kg.ids(ends), pa.string())
            heads, tails = np.split(positions, 2)
            columns = [
                ids.take(pa.array(heads)),
                labels.take(pa.array(triples.relation)),
                ids.take(pa.array(tails)),
            ]
            writer.write_table(pa.table(columns, schema=EDGES))
            report("writing relations", min(start + _EDGES, len(kg.edges)), len(kg.edges))
    return len(kg.edges)
