"""MCSM: are the neighbours of a concept of its semantic type?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medcoder.errors import InputError
from medcoder.evaluate.benches.task import (
    Card,
    Metric,
    Needed,
    Task,
    figure,
    word_figures,
)
from medcoder.evaluate.metrics import mcsm_gains, mean
from medcoder.evaluate.ranking import distinct_texts, embed, nearest
from medcoder.evaluate.results import Context, Embedding, Figure, Linker, Mask, Result, Rows
from medcoder.tables.text import read_columns

CONCEPTS = "concepts.tsv"
METRICS = tuple(Metric(name, scale=1, unit="") for name in ("mcsm", "mcsm_oov0"))
K = 40  # section 4.3 of the paper


@dataclass(frozen=True)
class Typed:
    """Concepts with one name each, and which types each has."""

    ids: list[str]
    names: list[str]
    types: list[frozenset[str]]


@dataclass(frozen=True)
class Types(Task):
    """MCSM(V, T, k): mean over concepts of type T of sum_i 1_T(v(i)) / log2(i + 1).

    V are all concepts of the table that the embedding knows, and a concept is not its own
    neighbour. One of several types counts in each. "mcsm" leaves out concepts without a vector;
    "mcsm_oov0" scores them 0, so that an embedding is not paid for what it lacks.
    """

    id_column: str = "concept"

    def settings(self, context: Context) -> dict[str, Any]:
        return {"k": int(context.options.get("k", K))}

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        assert not isinstance(system, Linker)
        file = self.card.check(data, pinned=context.pinned) / CONCEPTS
        typed = read_typed(file, id_column=self.id_column)
        # The same name is embedded once; what goes by ids has them all.
        keyed = system.kind == "concept"
        texts, places = (
            (typed.names, np.arange(len(typed.names))) if keyed else distinct_texts(typed.names)
        )
        vectors = embed(
            system,
            texts,
            ids=typed.ids if keyed else None,
            corpus=texts,
            progress=context.progress,
        )
        vectors = vectors._replace(rows=vectors.rows[places], known=vectors.known[places])
        k = self.settings(context)["k"]
        items, neighbours = nearest(vectors, k, progress=context.progress)
        known = np.asarray(vectors.known)
        figures = [
            measured
            for name in sorted(set().union(*typed.types))
            for measured in type_figures(
                name, _members(typed.types, name), known, items, neighbours, context
            )
        ]
        return Result([*figures, *word_figures(system, typed.names, context)])


def type_figures(
    name: str, members: Mask, known: Mask, items: Rows, neighbours: Rows, context: Context
) -> Iterator[Figure]:
    """Both figures of a type. `neighbours` of `items` are places among those."""
    draws: dict[str, Any] = {"resamples": context.resamples, "seed": context.seed}
    of_type = members[items]  # (known,)
    asked = neighbours[of_type]  # (m, k)
    same = np.where(asked >= 0, of_type[asked], False)
    gains = mcsm_gains(same)
    total, coverage = int(members.sum()), float(known[members].mean())
    if len(gains):
        yield figure(name, "mcsm", mean(gains, **draws), len(gains), coverage=coverage)
    with_unknown = np.concatenate([gains, np.zeros(total - len(gains))])
    yield figure(name, "mcsm_oov0", mean(with_unknown, **draws), total, coverage=coverage)


def read_typed(file: Path, *, id_column: str) -> Typed:
    """A row for each concept; of several rows of one, the first name and all types count."""
    names: dict[str, str] = {}
    types: dict[str, set[str]] = {}
    for concept, name, joined in read_columns(file, (id_column, "name", "types")):
        names.setdefault(concept, name)
        types.setdefault(concept, set()).update(
            part.strip() for part in joined.split("|") if part.strip()
        )
    if not any(types.values()):
        raise InputError(
            "no concept has a type",
            file=file,
            remedy="Fill in the column types: names of semantic types, with | between several",
        )
    return Typed(
        list(names), list(names.values()), [frozenset(types[concept]) for concept in names]
    )


def _members(types: Sequence[frozenset[str]], name: str) -> Mask:
    return np.fromiter((name in some for some in types), dtype=bool, count=len(types))


# Benches

MCSM = Types(
    Card(
        name="mcsm",
        title="MCSM",
        about=(
            "Whether the 40 nearest neighbours of a concept are of its semantic type; at best "
            "11.09. The paper takes 157,726 concepts of SNOMED CT and the types Pharmacologic "
            "Substance, Disease or Syndrome, Neoplastic Process, Clinical Drug, Finding, and "
            "Injury or Poisoning. Any table of concepts serves: concept, one name, and types with "
            "| between several."
        ),
        origin="MRCONSO.RRF and MRSTY.RRF of UMLS",
        licence="UMLS licence",
        files=(Needed(path=CONCEPTS, columns=("concept", "name", "types")),),
        metrics=METRICS,
        reference="Choi et al. 2016, Learning low-dimensional representations of medical concepts",
    )
)

MCSM_MESH = Types(
    Card(
        name="mcsm_mesh",
        title="MCSM on MeSH",
        about=(
            "An open stand-in for MCSM on SNOMED CT: 27,453 descriptors of MeSH 2015 and nine of "
            "its branches in place of semantic types. Descriptors of other branches are "
            "neighbours, and of no type."
        ),
        origin="data/tree-numbers.tsv of dhimmel/mesh on GitHub",
        licence="public domain (NLM)",
        files=(
            Needed(
                path=CONCEPTS,
                columns=("mesh_id", "name", "types"),
                rows=27_453,
                sha256="9ab5e7411386cd9ff78c4328e999df94a018c2e489c2e4f3524adca6ae9ce4f6",
            ),
        ),
        metrics=METRICS,
        reference="Choi et al. 2016, Learning low-dimensional representations of medical concepts",
    ),
    id_column="mesh_id",
)
