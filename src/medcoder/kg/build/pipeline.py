"""One build of a graph: the steps, and the state that they hand on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from medcoder.arrays import Array, ArrayWriter, raw_strings
from medcoder.errors import InputError, MedcoderError, UsageError
from medcoder.kg.build.derived import Labels, derive, weave
from medcoder.kg.build.edges import Edges, write_edges
from medcoder.kg.build.merge import Merge, lines, merge_concepts
from medcoder.kg.build.numbering import ABSENT, ConceptIds, Names
from medcoder.kg.build.spill import TERM_ROWS, XREF_ROWS, Grouped, SortedRuns, Spill
from medcoder.kg.build.terms import (
    LAST_ORDINAL,
    find_headings,
    flag_bit,
    flag_bits,
    large_strings,
    not_terms,
    write_terms,
    write_types,
    write_xrefs,
)
from medcoder.kg.columns import LINE
from medcoder.kg.keys import concept_bits, hash_strings, make_keys, vocabulary_key
from medcoder.prefetch import prefetch
from medcoder.types import (
    CONCEPT_FLAGS,
    DERIVED,
    INCLUDES,
    Part,
    Progress,
    Source,
    Tally,
    Vocabulary,
)

ALL = vocabulary_key("all")


class Build:
    """One build: the state that its steps hand on."""

    def __init__(
        self,
        folder: Path,
        scratch: Path,
        memory: int,
        progress: Progress,
        *,
        any_names: Sequence[str] = (),
    ) -> None:
        """Of vocabularies in `any_names`, names may be numbers; "all" stands for every one."""
        self.any_names = frozenset(map(vocabulary_key, any_names))
        self.folder, self.scratch, self.memory, self.progress = folder, scratch, memory, progress
        self.tally, self.graph = Tally(), Tally()
        self.ids = ConceptIds()
        self.vocabularies: dict[str, Vocabulary] = {}
        self.sources, self.languages = Names("vocabularies"), Names("languages", 1 << 10)
        self.kinds, self.types = Names("kinds of terms"), Names("semantic types")
        self.type_names: dict[str, str] = {}
        parts: tuple[Part, ...] = ("terms", "types", "xrefs", "flags")
        self.spills: dict[Part, Spill] = {p: Spill(scratch / f"{p}.arrow") for p in parts}
        self.stats: dict[str, Any] = {}

    def read_concepts(self, sources: Sequence[Source]) -> None:
        total = sum(source.size() for source in sources)
        before = 0
        self.namespaces = [source.namespace for source in sources]
        for ordinal, source in enumerate(sources):
            for vocabulary in source.vocabularies():
                self.vocabularies.setdefault(vocabulary.name, vocabulary)
            for part, table in prefetch(source.concepts(self.tally)):
                self._park(part, table, ordinal)
                self.progress("reading concepts", before + source.done(), total)
            before += source.size()
        if not self.spills["terms"].rows:
            raise InputError(
                "no terms were left to build a graph from",
                values=f"read were {_counts(self.tally)}; {_counts(self.graph)}",
                remedy="Loosen the filters",
            )

    def _park(self, part: Part, table: pa.Table, ordinal: int) -> None:
        frame = _frame(table)
        self.graph[part].read += frame.height
        if part == "terms":
            frame = self._named(frame)
            self.ids.add(frame["concept"], ordinal)
            frame = frame.with_columns(
                _one_line(frame["term"]),
                _one_line(frame["code"]),
                self.languages.encode(frame["language"]),
                self.sources.encode(frame["source"]),
                self.kinds.encode(frame["kind"]),
                ordinal=pl.lit(min(ordinal, LAST_ORDINAL), pl.UInt8),
            )
        elif part == "types":
            named = frame.select("type", "name").unique(maintain_order=True)
            for kind, name in named.iter_rows():
                self.type_names.setdefault(kind, name)
            frame = frame.select("concept", self.types.encode(frame["type"]))
        elif part == "xrefs":
            frame = frame.with_columns(
                self.sources.encode(frame["source"]), self.kinds.encode(frame["kind"])
            )
        elif part == "flags":
            unknown = set(frame["flag"].unique()) - set(CONCEPT_FLAGS)
            if unknown:
                raise MedcoderError("a source gives unknown flags", values=sorted(unknown))
        self.spills[part].write(frame)

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows whose names are terms: numbers, single letters and the like name nothing."""
        if ALL in self.any_names:
            return frame
        free = [name for name in frame["source"].unique() if vocabulary_key(name) in self.any_names]
        wrong = not_terms(frame["term"]) & ~frame["source"].is_in(free)
        self.graph["terms"].drop("not a term", int(wrong.sum()))
        return frame.filter(~wrong) if wrong.any() else frame

    def check_names(self) -> None:
        """Whether there are the vocabularies whose names may be numbers."""
        there = {vocabulary_key(name): name for name in self.sources.labels}
        unknown = sorted(self.any_names - {*there, ALL})
        if unknown:
            raise UsageError(
                "no term is of this vocabulary",
                where="--any-names",
                values=unknown,
                remedy=f"There are: {', '.join(sorted(there.values()))}",
            )

    def number(self, merge_by: Sequence[str]) -> None:
        """Number the concepts in the order of their ids, after merging."""
        self.progress("numbering concepts", 0, 1)
        self.check_names()
        self.ids.finish()
        self.merge: Merge = merge_concepts(
            self.ids,
            self.spills["terms"],
            self.spills["xrefs"],
            by=merge_by,
            namespaces=self.namespaces,
            vocabularies=self.sources,
            kinds=self.kinds,
        )
        kept = self.merge.into == np.arange(len(self.merge.into))
        new = np.cumsum(kept) - 1
        self.concept_of = new[self.merge.into].astype(np.int64)  # (ids,) number of its concept
        self.concepts = int(kept.sum())
        self.bits = concept_bits(self.concepts)
        self.names = self.ids.ids.filter(pl.Series(kept)).rechunk()
        # Merged ids still lead to their concept.
        hashes = hash_strings(*raw_strings(large_strings(self.ids.ids)))
        keys = np.sort(make_keys(hashes, self.concept_of, self.bits))
        with ArrayWriter(self.folder, "find.id", "uint64") as file:
            file.append(keys)
        (self.folder / "merges.tsv").write_text(
            "\n".join(lines(self.merge, self.ids)) + "\n", encoding="utf-8"
        )
        self.progress("numbering concepts", 1, 1)

    def set_flags(self) -> None:
        """Write the flags of concepts: those of the sources, and headings of any ICD."""
        flags = np.zeros(self.concepts, np.uint8)
        for frame, numbers in self._known("flags"):
            flag_bits(frame, numbers, flags)
            self.graph["flags"].kept += len(numbers)
        flags[find_headings(self._terms(), self.sources.labels, self.concepts)] |= flag_bit(
            "heading"
        )
        self.stats["flags"] = {
            name: int(np.count_nonzero(flags & flag_bit(name))) for name in CONCEPT_FLAGS
        }
        with ArrayWriter(self.folder, "concept.flags", "uint8") as file:
            file.append(flags)
        self.flags = flags

    def derive_names(self) -> None:
        """Find the names that are derived, and which notes are terms."""
        headings = self.flags & flag_bit("heading") != 0
        without = headings | (self.flags & flag_bit("extension") != 0)
        self.labels = Labels(self.sources.labels, self.languages.labels, self.kinds.labels)
        self.added = derive(self._terms, self.labels, without=without, headings=headings)
        terms = self.graph["terms"]
        for name, count in (("derived names", self.added.names), ("notes", self.added.notes)):
            if count.read:
                self.graph[name] = count
        if self.added.names.kept:
            self.kinds.number(DERIVED)
        terms.read += self.added.names.kept
        terms.drop("note", self.added.notes.left_out.total())

    def _terms(self) -> Iterator[tuple[pl.DataFrame, Array]]:
        """Parked terms and the numbers of their concepts."""
        for frame in self.spills["terms"].read():
            yield frame, self.concept_of[self.ids.lookup(frame["concept"])]

    def write_concepts(self) -> None:
        self._write_types()
        code_keys = self._runs("codes", 8)
        self._write_xrefs(code_keys)
        text_keys = self._runs("texts", 8)
        grouped = self._grouped("terms", TERM_ROWS)
        done, total = 0, self.graph["terms"].read
        counts: dict[str, Array] = {}
        for rows, counted in write_terms(
            self.folder,
            grouped,
            ids=self.names,
            languages=self.languages,
            vocabularies=self.sources,
            kinds=self.kinds,
            bits=self.bits,
            text_runs=text_keys,
            code_runs=code_keys,
            count=self.graph["terms"],
        ):
            done += rows
            counts = {name: counts.get(name, 0) + column for name, column in counted.items()}
            self.progress("writing terms", done, total)
        self.stats["languages"] = _named(self.languages.labels, counts["languages"])
        self.stats["vocabularies"] = _named(self.sources.labels, counts["vocabularies"])
        self.stats["kinds"] = _named(self.kinds.labels, counts["kinds"])
        for name, keys in (("find.text", text_keys), ("find.code", code_keys)):
            with ArrayWriter(self.folder, name, "uint64") as file:
                for block in keys.ascending():
                    file.append(block)

    def _write_types(self) -> None:
        keys, count = self._runs("types", 8), self.graph["types"]
        for frame, numbers in self._known("types"):
            kind = frame["type"].to_numpy().astype(np.uint64)
            keys.add(numbers.astype(np.uint64) << np.uint64(16) | kind)
        by_type = write_types(self.folder, keys, self.concepts, count)
        labels = [f"{kind} {self.type_names[kind]}".strip() for kind in self.types.labels]
        self.stats["types"] = _named(labels, by_type)

    def _write_xrefs(self, code_keys: SortedRuns) -> None:
        gone = self.ids.ids.filter(pl.Series(self.merge.into != np.arange(len(self.merge.into))))
        aliases = pl.DataFrame({"concept": gone, "code": gone}).with_columns(
            source=pl.lit(0, pl.UInt16),  # an id is of no vocabulary: any will do
            kind=pl.lit(self.kinds.number("alias"), pl.UInt16),
        )
        self.graph["xrefs"].read += aliases.height
        write_xrefs(
            self.folder,
            self._grouped("xrefs", XREF_ROWS, [aliases]),
            vocabularies=self.sources,
            kinds=self.kinds,
            bits=self.bits,
            code_runs=code_keys,
            count=self.graph["xrefs"],
        )

    def read_edges(self, sources: Sequence[Source], *, strict: bool) -> None:
        count, keys = self.graph["edges"], self._runs("edges", 4)
        merged = self.concept_of if self.merge.merged else None
        self.edges = Edges(self.ids, merged, bits=self.bits, keys=keys, count=count)
        self.edge_keys = keys
        total = sum(source.size() for source in sources)
        before = 0
        for source in sources:
            for table in prefetch(source.edges(self.tally)):
                self.edges.add(_frame(table))
                self.progress("reading relations", before + source.done(), total)
            before += source.size()
        if strict:
            self.edges.check_strict()
        del self.ids

    def write_edges(self) -> None:
        labels = self.edges.relations.labels
        by_relation = np.zeros(len(labels), np.int64)
        total = 2 * (self.graph["edges"].read - self.graph["edges"].left_out.total())
        done = 0
        for block in write_edges(
            self.folder,
            self.edge_keys,
            self._runs("tails", 4),
            concepts=self.concepts,
            bits=self.bits,
            relations=len(labels),
            relation_bits=self.edges.relation_bits,
            count=self.graph["edges"],
        ):
            by_relation += block
            done += 1 << 20
            self.progress("sorting relations", min(done, total), max(total, 1))
        self.stats["relations"] = _named(labels, by_relation)

    def describe(self) -> dict[str, Any]:
        """Write names, stats and report; gives the report."""
        for name, count in (self.tally | self.graph).items():
            if not count.adds_up:
                raise MedcoderError("the counts do not add up", where=name, values=count.as_dict())
        known = self.vocabularies
        names = {
            "vocabularies": [list(known.get(n, Vocabulary(n))) for n in self.sources.labels],
            "languages": self.languages.labels,
            "kinds": self.kinds.labels,
            "types": [[kind, self.type_names[kind]] for kind in self.types.labels],
            "relations": self.edges.relations.labels,
        }
        totals = {
            "concepts": self.concepts,
            "terms": self.graph["terms"].kept,
            "edges": self.graph["edges"].kept,
        }
        report = {
            "files": {name: count.as_dict() for name, count in self.tally.items()},
            "graph": {name: count.as_dict() for name, count in self.graph.items()},
            "merged": len(self.merge.merged),
            "refused": len(self.merge.refused),
        }
        for name, value in (("names", names), ("stats", totals | self.stats), ("report", report)):
            text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
            (self.folder / f"{name}.json").write_text(text, encoding="utf-8")
        return report

    def _runs(self, name: str, share: int) -> SortedRuns:
        return SortedRuns(self.scratch, name, memory=self.memory // share)

    def _known(
        self, part: Part, more: Sequence[pl.DataFrame] = ()
    ) -> Iterator[tuple[pl.DataFrame, Array]]:
        """Parked frames without the rows of absent concepts, and the numbers of the rest."""
        for frame in chain(self.spills[part].read(), more):
            numbers = self.ids.lookup(frame["concept"])
            known = numbers != ABSENT
            if not known.all():
                self.graph[part].drop("absent concept", int(np.count_nonzero(~known)))
                frame, numbers = frame.filter(pl.Series(known)), numbers[known]
            yield frame, self.concept_of[numbers]
        self.spills[part].remove()

    def _grouped(
        self, part: Part, schema: dict[str, Any], more: Sequence[pl.DataFrame] = ()
    ) -> Grouped:
        spill = self.spills[part]
        known = self._known(part, more)
        if part == "terms" and len(self.added.rows) + self.added.notes.read:
            known = weave(known, self.added.rows, notes=self.labels.kind(INCLUDES))
        return Grouped(
            self.scratch,
            schema,
            (frame.with_columns(concept=pl.Series(numbers)) for frame, numbers in known),
            concepts=self.concepts,
            size=spill.bytes,
            memory=self.memory // 64,  # sorting takes a few copies, beside the next range
            in_order=spill.in_order and not self.merge.merged,
        )


def _frame(table: pa.Table) -> pl.DataFrame:
    """The table as a frame over the same memory."""
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _one_line(texts: pl.Series) -> pl.Series:
    """Texts in which a line break is a space: a line is how terms are stored."""
    if not texts.str.contains(LINE, literal=True).any():
        return texts
    return texts.str.replace_all(LINE, " ", literal=True)


def _named(labels: Sequence[str], counts: Array) -> dict[str, int]:
    """Counts by label, the largest first, without zeros."""
    named = {label: int(count) for label, count in zip(labels, counts, strict=False) if count}
    return dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))


def _counts(tally: Tally) -> str:
    return "; ".join(
        f"{name}: {count.read:,} rows, {count.kept:,} kept, left out {dict(count.left_out)}"
        for name, count in tally.items()
    )
