"""Parquet: every row of the input with its mapping; codes and candidates are nested columns."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medcoder.files import replacing
from medcoder.mapping.base import Mapping
from medcoder.mapping.exports.columns import Columns, columns_of, values_of
from medcoder.mapping.exports.common import HISTORY, rows
from medcoder.mapping.store import Project
from medcoder.progress import Progress

_BATCH = 10_000
CODES = pa.list_(pa.struct({"vocabulary": pa.string(), "code": pa.string()}))
CANDIDATES = pa.list_(
    pa.struct(
        {
            "concept": pa.string(),
            "name": pa.string(),
            "codes": CODES,
            "term": pa.string(),
            "cosine": pa.float64(),
            "score": pa.float64(),
            "confidence": pa.float64(),
            "stage": pa.string(),
        }
    )
)


def export(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write a row for each row of the input; the columns of the input are strings."""
    columns = columns_of(project)
    kept = [place for place, name in enumerate(columns.ours) if "other_" not in name]
    names = [*columns.given, *(columns.ours[place] for place in kept)]
    types = [pa.float64() if name.endswith("confidence") else pa.string() for name in names]
    types[: len(columns.given)] = [pa.string()] * len(columns.given)
    nested = {"codes": CODES, "candidates": CANDIDATES}
    while set(nested) & set(columns.given):
        nested = {f"mapped_{name}": kind for name, kind in nested.items()}
    schema = pa.schema([*zip(names, types, strict=True), *nested.items()])
    with replacing(path) as partial, pq.ParquetWriter(partial, schema) as writer:
        mappings = rows(project, progress)
        while some := list(islice(mappings, _BATCH)):
            made = [_values(mapping, columns, kept) for mapping in some]
            arrays = [
                pa.array(values, field.type)
                for values, field in zip(zip(*made, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.table(arrays, schema=schema))
    return [HISTORY]


def _values(mapping: Mapping, columns: Columns, kept: list[int]) -> list[Any]:
    values, given = values_of(mapping, columns), len(columns.given)
    target = mapping.target
    codes = [code._asdict() for code in target.codes] if target else []
    offered = [
        {name: getattr(candidate, name) for name in ("concept", "name", "term", "cosine", "score")}
        | {"codes": [code._asdict() for code in candidate.codes]}
        | {"confidence": candidate.confidence, "stage": candidate.stage}
        for candidate in mapping.candidates
    ]
    return [*values[:given], *(values[given + place] for place in kept), codes, offered]
