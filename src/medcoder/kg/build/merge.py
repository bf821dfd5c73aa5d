"""Join concepts of different vocabularies that refer to each other.

Two concepts are one when a cross-reference of one names a code of the other ("xrefs"), or when both
refer to the same code of a vocabulary that was named for it ("UMLS"). A merge never joins two
concepts of one vocabulary, which is to say two codes: such a reference is refused and listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from medcoder.arrays import Array
from medcoder.errors import UsageError
from medcoder.kg.build.numbering import ABSENT, ConceptIds, Names
from medcoder.kg.build.spill import Spill
from medcoder.kg.build.terms import code_keys
from medcoder.kg.keys import SEPARATOR, code_key, vocabulary_key

DIRECT = "xrefs"


@dataclass
class Merge:
    """Which concept each id belongs to, and what was refused."""

    into: Array  # (ids,) number of the id that each id was merged into, often itself
    merged: list[tuple[int, int, str]] = field(default_factory=list)  # kept, gone, reference
    refused: list[tuple[int, int, str, str]] = field(default_factory=list)  # ..., and why


def merge_concepts(
    ids: ConceptIds,
    terms: Spill,
    xrefs: Spill,
    *,
    by: Sequence[str],
    namespaces: Sequence[str],
    vocabularies: Names,
    kinds: Names,
) -> Merge:
    """Merge by the references in `by`: "xrefs" for direct ones, or names of vocabularies.

    namespaces: for each source, the vocabulary whose codes its concept ids are, or "".
    """
    merge = Merge(np.arange(len(ids.ids)))
    if not by:
        return merge
    keys = [vocabulary_key(name) for name in vocabularies.labels]
    known = {*keys, *(vocabulary_key(name) for name in namespaces if name)}
    for name in by:
        if name != DIRECT and vocabulary_key(name) not in known:
            raise UsageError(
                "nothing refers to a vocabulary of this name",
                where=f"--merge-by {name}",
                remedy=f"There are: {DIRECT}, {', '.join(sorted(known))}",
            )
    references = _references(ids, xrefs, keys)
    alt = pl.col("kind") == kinds.number("alt")
    cites = references.filter(~alt)
    pairs: dict[tuple[int, int], str] = {}
    if DIRECT in by:
        bears = pl.concat(
            [
                references.filter(alt).select("key", "concept"),
                _bearers(ids, terms, keys, cites["key"].unique()),
                _named(ids, namespaces, cites["key"].unique()),
            ]
        ).unique()
        _add_pairs(pairs, cites.join(bears, on="key", suffix="_other"))
    shared = [vocabulary_key(name) for name in by if name != DIRECT]
    common = cites.filter(pl.col("key").str.extract(f"^([^{SEPARATOR}]*)").is_in(shared))
    _add_pairs(pairs, common.join(common, on="key", suffix="_other"))
    involved = {number for pair in pairs for number in pair}
    _join(merge, pairs, _members(ids, terms, involved, keys, namespaces), ids.ordinal)
    return merge


def _add_pairs(pairs: dict[tuple[int, int], str], joined: pl.DataFrame) -> None:
    columns = joined.select("concept", "concept_other", "key").sort(pl.all())
    for concept, other, reference in columns.iter_rows():
        if concept != other:
            pairs.setdefault((min(concept, other), max(concept, other)), reference)


def _references(ids: ConceptIds, xrefs: Spill, keys: list[str]) -> pl.DataFrame:
    """Code, concept and kind of every cross-reference of a known concept."""
    schema = {"key": pl.String, "concept": pl.Int32, "kind": pl.UInt16}
    frames = [pl.DataFrame(schema=schema)]
    for frame in xrefs.read():
        concept = pl.Series("concept", ids.lookup(frame["concept"]))
        rows = pl.DataFrame([code_keys(frame, keys).alias("key"), concept, frame["kind"]])
        frames.append(rows.filter(pl.col("concept") != ABSENT))
    return pl.concat(frames)


def _bearers(ids: ConceptIds, terms: Spill, keys: list[str], wanted: pl.Series) -> pl.DataFrame:
    """The wanted codes and the concepts whose terms bear them."""
    frames = [pl.DataFrame(schema={"key": pl.String, "concept": pl.Int32})]
    for frame in terms.read():
        rows = frame.select("concept", code_keys(frame, keys).alias("key")).unique()
        rows = rows.filter(pl.col("key").is_in(wanted.implode()))
        frames.append(rows.select("key", pl.Series("concept", ids.lookup(rows["concept"]))))
    return pl.concat(frames)


def _named(ids: ConceptIds, namespaces: Sequence[str], wanted: pl.Series) -> pl.DataFrame:
    """The wanted codes that are concept ids themselves: "UMLS:C0036572" is C0036572 of UMLS."""
    frames = [pl.DataFrame(schema={"key": pl.String, "concept": pl.Int32})]
    for ordinal, namespace in enumerate(namespaces):
        prefix = vocabulary_key(namespace) + SEPARATOR
        own = wanted.filter(wanted.str.starts_with(prefix)) if namespace else wanted.clear()
        numbers = ids.lookup(own.str.strip_prefix(prefix))
        known = (numbers != ABSENT) & (ids.ordinal[numbers] == ordinal)
        rows = pl.DataFrame({"key": own, "concept": pl.Series(numbers, dtype=pl.Int32)})
        frames.append(rows.filter(pl.Series(known)))
    return pl.concat(frames)


@dataclass
class _Member:
    """Codes by vocabulary: those that the concept is, and those that it bears."""

    own: dict[str, set[str]] = field(default_factory=dict)
    codes: dict[str, set[str]] = field(default_factory=dict)

    def clashes(self, other: _Member) -> set[str]:
        """Vocabularies in which the two are different concepts.

        A concept of UMLS bears codes of many vocabularies, some of them several of one. It is
        none of these concepts itself, so it may be joined with one of them, but not with two.
        """
        return _differ(self.own, other.own) | _differ(self.codes, other.codes)

    def add(self, other: _Member) -> None:
        for mine, theirs in ((self.own, other.own), (self.codes, other.codes)):
            for vocabulary, codes in theirs.items():
                mine.setdefault(vocabulary, set()).update(codes)


def _differ(mine: dict[str, set[str]], theirs: dict[str, set[str]]) -> set[str]:
    return {name for name in mine.keys() & theirs.keys() if mine[name].isdisjoint(theirs[name])}


def _members(
    ids: ConceptIds,
    terms: Spill,
    involved: set[int],
    keys: list[str],
    namespaces: Sequence[str],
) -> dict[int, _Member]:
    """What each of the involved concepts is a concept of."""
    members = {number: _Member() for number in involved}
    wanted = pl.Series(sorted(involved), dtype=pl.Int32)
    for frame in terms.read():
        number = pl.Series("number", ids.lookup(frame["concept"]))
        rows = frame.with_columns(number).filter(number.is_in(wanted.implode()))
        rows = rows.select("number", code_keys(rows, keys).alias("key")).unique()
        for concept, key in rows.iter_rows():
            members[concept].codes.setdefault(key.partition(SEPARATOR)[0], set()).add(key)
    for concept, member in members.items():
        namespace = namespaces[ids.ordinal[concept]]
        if namespace:
            member.own = {vocabulary_key(namespace): {code_key(namespace, ids.ids[concept])}}
        else:
            member.own = {name: set(codes) for name, codes in member.codes.items()}
    return members


def _join(
    merge: Merge,
    pairs: dict[tuple[int, int], str],
    members: dict[int, _Member],
    ordinal: Array,
) -> None:
    """Union the pairs, surest first: those whose two sides have no other partner."""
    partners = Counter(number for pair in pairs for number in pair)
    parent = {number: number for number in partners}

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    for concept, other in sorted(pairs, key=lambda p: (max(partners[p[0]], partners[p[1]]), p)):
        left, right = root(concept), root(other)
        if left == right:
            continue
        clashes = members[left].clashes(members[right])
        if clashes:
            why = f"would join two concepts of {', '.join(sorted(clashes))}"
            merge.refused.append((concept, other, pairs[concept, other], why))
            continue
        # The id of the source that was named first stays; within a source, the lower concept.
        kept, gone = sorted((left, right), key=lambda n: (ordinal[n], n))
        parent[gone] = kept
        members[kept].add(members[gone])
        merge.merged.append((kept, gone, pairs[concept, other]))
    for number in parent:
        merge.into[number] = root(number)


def lines(merge: Merge, ids: ConceptIds) -> Iterator[str]:
    """The merges as a table: status, the concept kept, the other one, the reference, the reason."""
    yield "status\tconcept\tother\treference\treason"
    rows = [("merged", *entry, "") for entry in merge.merged]
    for status, concept, other, reference, why in [
        *rows,
        *(("refused", *r) for r in merge.refused),
    ]:
        code = reference.replace(SEPARATOR, ":")
        yield f"{status}\t{ids.ids[concept]}\t{ids.ids[other]}\t{code}\t{why}"
