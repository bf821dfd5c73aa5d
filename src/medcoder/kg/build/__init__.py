"""Sources in, a graph directory out; memory bounded by a setting, not by the input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medcoder import __version__
from medcoder.artefact import create
from medcoder.errors import UsageError
from medcoder.kg import KIND, VERSION
from medcoder.kg.build.pipeline import Build
from medcoder.text import FOLD_VERSION
from medcoder.types import Progress, Source, silent

GIGABYTE = 1 << 30
MEMORY = 2 * GIGABYTE
LEAST_MEMORY = 64 << 20


def build_kg(
    sources: Sequence[Source],
    out: str | Path,
    *,
    merge_by: Sequence[str] = (),
    any_names: Sequence[str] = (),
    strict: bool = False,
    memory: int = MEMORY,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Build the graph directory `out` from `sources`; gives the report that is stored with it.

    merge_by: "xrefs" or names of vocabularies, see `medcoder.kg.build.merge`.
    any_names: vocabularies whose names may be numbers, units or single letters, or "all"; of
        others, such names are counted and left out.
    strict: relations to absent concepts or of a concept to itself are an error.
    memory: bytes that buffers may take. On top come about 60 bytes per concept.
    """
    if not sources:
        raise UsageError("no source to build from", remedy="Name at least one, such as umls=PATH")
    if memory < LEAST_MEMORY:
        raise UsageError(
            "too little memory", values=f"{memory:,} bytes", remedy="Allow 64 MB or more"
        )
    with create(Path(out), kind=KIND, version=VERSION, overwrite=overwrite) as draft:
        build = Build(draft.path, draft.scratch, memory, progress or silent, any_names=any_names)
        build.read_concepts(sources)
        build.number(merge_by)
        build.set_flags()
        build.derive_names()
        build.write_concepts()
        build.read_edges(sources, strict=strict)
        build.write_edges()
        draft.meta |= {
            "made_by": f"medcoder {__version__}",
            "sources": [source.name for source in sources],
            "namespaces": sorted({source.namespace for source in sources} - {""}),
            "fold": FOLD_VERSION,
            "relation_bits": build.edges.relation_bits,
        }
        return build.describe()


__all__ = ["MEMORY", "build_kg"]
