"""The graph class: concepts by id or number, look-ups by term and code, edges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from medcoder.arrays import Array, Strings, check_bounds, open_array, open_rows
from medcoder.artefact import open_artefact
from medcoder.errors import ArtefactError, NotFound
from medcoder.kg.columns import Edges, Terms, Triples
from medcoder.kg.keys import (
    SEPARATOR,
    CodePrefixes,
    Keys,
    code_key,
    concept_bits,
    encode,
    hash_strings,
    hash_text,
    vocabulary_key,
)
from medcoder.kg.names import Names, read_dictionary
from medcoder.manifest import META
from medcoder.text import check_fold, fold
from medcoder.types import CONCEPT_FLAGS, Code, Edge, SemanticType, Term, Vocabulary

KIND = "knowledge graph"
VERSION = 1
FILES = (
    "names.json", "stats.json", "report.json", "concept.flags.uint8", "concept.terms.int64",
    "concept.types.int64", "concept.xrefs.int64", "concept.in.int64", "term.data",
    "term.info.uint16", "type.uint16", "xref.code.data", "xref.code.offsets.int64",
    "xref.info.uint16", "edge.uint64", "edge.in.uint32", "find.id.uint64", "find.text.uint64",
    "find.code.uint64",
)  # fmt: skip
_KEY = 64  # bits of the key of an edge

Ids = str | Sequence[str] | npt.NDArray[Any]  # string ids, or numbers from `KG.indices`


class KG:
    """Concepts, their terms and types, and the edges between them.

    Concepts are numbered in the order of their ids; a concept's terms lie together, the preferred
    one first. Calls name concepts by id; `indices` and `ids` translate for work on arrays.

    >>> kg = KG.open("open.kg")  # doctest: +SKIP
    >>> kg.find("heart attack")  # doctest: +SKIP
    ['HP:0001658']
    """

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        """Use `KG.open`."""
        self.path = path
        self.meta = meta
        names = Names(path)
        self.vocabularies = names.rows("vocabularies", Vocabulary)
        self._vocabulary_names = tuple(entry.name for entry in self.vocabularies)
        self.languages = names.words("languages")
        self.kinds = names.words("kinds")
        self.types = names.rows("types", SemanticType)
        self.relations = names.words("relations")
        self._relation_numbers = {label: number for number, label in enumerate(self.relations)}

        self.flags = open_array(path, "concept.flags", "uint8")  # (n,) bits of CONCEPT_FLAGS
        self.terms = Terms(path)
        self.first_type = open_array(path, "concept.types", "int64")  # (n + 1,)
        self.type_numbers = open_array(path, "type", "uint16")
        self.first_xref = open_array(path, "concept.xrefs", "int64")  # (n + 1,)
        self._xref_codes = Strings(path, "xref.code")
        self.xref_info = open_rows(path, "xref.info", "uint16", 2)

        bits = concept_bits(len(self))
        self.edges = Edges(path, concept_bits=bits, relation_bits=_relation_bits(path, meta, bits))
        self._id_keys = Keys(path, "find.id", bits)
        self._text_keys = Keys(path, "find.text", bits)
        self._code_keys = Keys(path, "find.code", bits)
        self._check_bounds()

    @classmethod
    def open(cls, path: str | Path) -> KG:
        """Open a graph directory; it is mapped, not read."""
        meta = open_artefact(Path(path), kind=KIND, version=VERSION, needs=FILES)
        check_fold(meta, Path(path), command="medcoder kg build")
        return cls(Path(path), meta)

    @property
    def _look_ups(self) -> tuple[Keys, Keys, Keys]:
        """Of ids, terms and codes."""
        return self._id_keys, self._text_keys, self._code_keys

    @property
    def fingerprint(self) -> str:
        value: str = self.meta["fingerprint"]
        return value

    def __len__(self) -> int:
        """Number of concepts."""
        return len(self.flags)

    def __iter__(self) -> Iterator[str]:
        """Ids of all concepts, in order."""
        return (self.terms.id(number) for number in range(len(self)))

    def __contains__(self, concept: object) -> bool:
        return isinstance(concept, str) and self._number(concept) is not None

    def __repr__(self) -> str:
        return (
            f"KG({str(self.path)!r}: {len(self):,} concepts, {len(self.terms):,} terms, "
            f"{len(self.edges):,} edges)"
        )

    # One concept

    def preferred(self, concept: str) -> str:
        """The preferred name."""
        return self.terms.preferred(self.index(concept))

    def terms_of(self, concept: str) -> list[Term]:
        """All terms, the preferred name first, then by language and rank."""
        languages, vocabularies, kinds = self.languages, self._vocabulary_names, self.kinds
        make = tuple.__new__  # half the price of Term(...), and this is called a lot
        return [
            make(Term, (text, languages[language], vocabularies[vocabulary], code, kinds[kind]))
            for text, code, language, vocabulary, kind in self.terms.of(self.index(concept))
        ]

    def types_of(self, concept: str) -> list[SemanticType]:
        number = self.index(concept)
        start, stop = self.first_type[number], self.first_type[number + 1]
        return [self.types[kind] for kind in self.type_numbers[start:stop].tolist()]

    def flags_of(self, concept: str) -> list[str]:
        """Which of CONCEPT_FLAGS the concept bears."""
        bits = int(self.flags[self.index(concept)])
        return [name for bit, name in enumerate(CONCEPT_FLAGS) if bits >> bit & 1]

    def codes_of(self, concept: str, vocabularies: Collection[str] | None = None) -> list[Code]:
        """Its codes: those its terms bear, then alternative ones; each once.

        vocabularies: only codes of these, in any spelling that `find_code` takes. Of one that has
            no terms in the graph, also the codes that the release says match the concept
        """
        codes = {Code(term.vocabulary, term.code): None for term in self.terms_of(concept)}
        codes |= dict.fromkeys(self._xrefs(self.index(concept), "alt"))
        if vocabularies is None:
            return list(codes)
        wanted = set(map(vocabulary_key, vocabularies))
        if not wanted <= self._with_terms:
            wanted_alone = wanted - self._with_terms
            codes |= {
                code: None
                for code in self.xrefs_of(concept)
                if vocabulary_key(code.vocabulary) in wanted_alone
            }
        return [code for code in codes if vocabulary_key(code.vocabulary) in wanted]

    def alternatives_of(self, concept: str) -> list[Code]:
        """Other codes that the release gives the very concept, such as those it replaced."""
        return self._xrefs(self.index(concept), "alt")

    def xrefs_of(self, concept: str) -> list[Code]:
        """Codes of other vocabularies that the release says match the concept."""
        return self._xrefs(self.index(concept), "xref")

    def neighbours(
        self,
        concept: str,
        *,
        direction: Literal["out", "in", "both"] = "both",
        relation: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        """Edges that start ("out") or end ("in") at the concept, at most `limit` of each."""
        number = self.index(concept)
        edges: list[Edge] = []
        if direction != "in":
            edges += self._edges(self.edges.outgoing(number), relation, limit)
        if direction != "out":
            edges += self._edges(self.edges.incoming(number), relation, limit)
        return edges

    # Look-up

    def find(self, term: str) -> list[str]:
        """Ids of the concepts that have this term, but for case, accents and punctuation.

        Concepts whose preferred name it is come first. Empty if there is none.
        """
        hits = self.find_terms(term)
        first = [concept for concept, number in hits if number == self.terms.first[concept]]
        numbers = dict.fromkeys(first + [concept for concept, _ in hits])
        return [self.terms.id(number) for number in numbers]

    def find_terms(self, term: str) -> list[tuple[int, int]]:
        """Numbers of the concepts that have this term, and of each such term of them."""
        key = fold(term)
        hits: list[tuple[int, int]] = []
        for number in self._text_keys.candidates(hash_text(key)):
            for position, (text, *_) in enumerate(self.terms.of(number)):
                if fold(text) == key:
                    hits.append((number, int(self.terms.first[number]) + position))
        return hits

    def find_code(self, vocabulary: str, code: str, *, xrefs: bool = False) -> list[str]:
        """Ids of the concepts with this code; with `xrefs`, also of those that refer to it."""
        key = code_key(vocabulary, code)
        concepts = []
        for number in self._code_keys.candidates(hash_text(key)):
            concept = self.terms.id(number)
            codes = self.codes_of(concept) + (self._xrefs(number, "xref") if xrefs else [])
            if any(code_key(*entry) == key for entry in codes):
                concepts.append(concept)
        # In UMLS, a concept's id is its code.
        if vocabulary_key(vocabulary) in map(vocabulary_key, self.meta["namespaces"]):
            bare = key.partition(SEPARATOR)[2]
            own = [self.terms.id(self.index(bare))] if bare in self else []
            concepts = own + [concept for concept in concepts if concept not in own]
        return concepts

    def find_codes(self, code: str) -> list[tuple[int, Code]]:
        """Numbers of the concepts with this code in any vocabulary, and the code as it has it."""
        plain, prefixes = code.strip().upper(), self._code_prefixes
        hashes = prefixes.hashes(plain)
        found = []
        for position in self._code_keys.some(hashes):
            key = code_key(prefixes.vocabularies[position], plain)
            for number in self._code_keys.candidates(int(hashes[position])):
                codes = self.codes_of(self.terms.id(number))
                found += [(number, entry) for entry in codes if code_key(*entry) == key]
        if self.meta["namespaces"] and plain in self:  # in UMLS, a concept's id is its code
            own = self.index(plain)
            found += [(own, Code(name, self.terms.id(own))) for name in self.meta["namespaces"]]
        return found

    # Work on arrays

    def index(self, concept: str) -> int:
        """The concept's number; an id that was merged into another leads to that one."""
        number = self._number(concept)
        if number is None:
            raise NotFound(
                "no such concept",
                where=self.path,
                values=repr(concept),
                remedy="Look it up with `kg find`",
            )
        return number

    def indices(self, concepts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Numbers of many concepts."""
        encoded = [encode(concept) for concept in concepts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(data) for data in encoded], out=offsets[1:])
        hashes = hash_strings(offsets, np.frombuffer(b"".join(encoded), np.uint8))
        numbers, counts = self._id_keys.first(hashes)
        for position, concept in enumerate(concepts):
            if counts[position] != 1 or self.terms.id(int(numbers[position])) != concept:
                numbers[position] = self.index(concept)
        return numbers

    def ids(self, numbers: npt.ArrayLike) -> list[str]:
        """Ids of concepts by number."""
        return [self.terms.id(number) for number in np.asarray(numbers).ravel().tolist()]

    def triples(self, which: slice | npt.NDArray[Any] = slice(None)) -> Triples:
        """All edges, a slice of them, or those with the given numbers, as arrays."""
        return self.edges.triples(self.edges.keys[which])

    def contains(self, head: Ids, relation: Ids, tail: Ids) -> npt.NDArray[np.bool_]:
        """Whether (head, relation, tail) is an edge: ids or numbers, single or arrays, broadcast.

        >>> bool(kg.contains("HP:0001250", "is_a", "HP:0012638"))  # doctest: +SKIP
        True
        """
        return self.edges.contains(
            self._numbers(head), self._relation_numbers_of(relation), self._numbers(tail)
        )

    def stats(self) -> dict[str, Any]:
        """Totals, and counts by language, vocabulary, kind, type, relation and flag."""
        return read_dictionary(self.path / "stats.json")

    def report(self) -> dict[str, Any]:
        """What the build read, kept and left out, and why."""
        return read_dictionary(self.path / "report.json")

    # Inside

    def _check_bounds(self) -> None:
        """Whether the columns are of the same concepts, terms, codes and edges."""
        path, size = self.path, len(self)
        terms, edges, xrefs = len(self.terms), len(self.edges), len(self.xref_info)
        check_bounds(path / "concept.terms.int64", self.terms.first, count=size, end=terms)
        check_bounds(
            path / "concept.terms.int64", self.terms.first_byte, count=size, end=self.terms.size
        )
        types = len(self.type_numbers)
        check_bounds(path / "concept.types.int64", self.first_type, count=size, end=types)
        check_bounds(path / "concept.xrefs.int64", self.first_xref, count=size, end=xrefs)
        codes = self._xref_codes
        check_bounds(path / "xref.code.offsets.int64", codes.offsets, count=xrefs,
                     end=len(codes.data))  # fmt: skip
        check_bounds(path / "concept.in.int64", self.edges.first_in, count=size, end=edges)

    @cached_property
    def _with_terms(self) -> frozenset[str]:
        """Keys of the vocabularies that terms are of: of others there are cross-references."""
        counts = np.bincount(self.terms.info[:, 1], minlength=len(self.vocabularies))
        named = zip(self._vocabulary_names, counts.tolist(), strict=True)
        return frozenset(vocabulary_key(name) for name, count in named if count)

    @cached_property
    def _code_prefixes(self) -> CodePrefixes:
        return CodePrefixes(sorted(set(map(vocabulary_key, self._vocabulary_names))))

    def _number(self, concept: str) -> int | None:
        for number in self._id_keys.candidates(hash_text(concept)):
            if self.terms.id(number) == concept:
                return number
            if any(alias.code == concept for alias in self._xrefs(number, "alias")):
                return number
        return None

    def _xrefs(self, number: int, kind: str) -> list[Code]:
        start, stop = int(self.first_xref[number]), int(self.first_xref[number + 1])
        info = self.xref_info[start:stop].tolist()
        return [
            Code(self._vocabulary_names[vocabulary], code)
            for (vocabulary, xref_kind), code in zip(
                info, self._xref_codes.range(start, stop), strict=True
            )
            if self.kinds[xref_kind] == kind
        ]

    def _edges(self, keys: Array, relation: str | None, limit: int | None) -> list[Edge]:
        triples = self.edges.triples(keys)
        if relation is not None:
            wanted = triples.relation == self._relation(relation)
            triples = Triples(*(column[wanted] for column in triples))
        return [
            Edge(self.terms.id(head), self.relations[label], self.terms.id(tail))
            for head, label, tail in zip(
                *(column[:limit].tolist() for column in triples), strict=True
            )
        ]

    def _relation(self, label: str) -> int:
        try:
            return self._relation_numbers[label]
        except KeyError:
            raise NotFound("no such relation", where=self.path, values=repr(label)) from None

    def _relation_numbers_of(self, labels: Ids) -> Array:
        array = np.asarray(labels)
        if array.dtype.kind in "iu":
            return _checked(array, len(self.relations), "relation")
        numbers = [self._relation(label) for label in array.ravel().tolist()]
        return np.array(numbers, np.int64).reshape(array.shape)

    def _numbers(self, concepts: Ids) -> Array:
        array = np.asarray(concepts)
        if array.dtype.kind in "iu":
            return _checked(array, len(self), "concept")
        return self.indices(array.ravel().tolist()).reshape(array.shape)


def _relation_bits(path: Path, meta: dict[str, Any], concept_bits: int) -> int:
    """Bits of a relation in the key of an edge, which also has those of two concepts."""
    bits, spaces = meta.get("relation_bits"), meta.get("namespaces")
    fits = type(bits) is int and bits >= 0 and bits + 2 * concept_bits <= _KEY
    if not fits or not (isinstance(spaces, list) and all(isinstance(s, str) for s in spaces)):
        raise ArtefactError(
            "it is not as it should be", where=path / META, values="relation_bits or namespaces",
            remedy="Copy or build it again",
        )  # fmt: skip
    return int(bits)  # type: ignore[arg-type]


def _checked(numbers: Array, count: int, what: str) -> Array:
    """The numbers as they are: one out of range would pass for part of another edge."""
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        wrong = min(numbers.min(), 0) or numbers.max()
        raise NotFound(
            f"no {what} has this number", values=f"{wrong}; there are {count:,}, from 0 on"
        )
    return numbers
