"""Static vectors, read from a file: of words (word2vec, GloVe) and of concepts by id (cui2vec).

A term is the mean of the vectors of its words.
A word is a run of letters and digits, with apostrophes and hyphens inside it. It is looked up as
it is written, then in lower case, with a capital, in capitals; a word with a hyphen or apostrophe
that is found in none of these is looked up in its parts. Words that are not found do not count in
the mean; a term without any that is found has no vector.

A concept with several ids has the mean of those that are found; names and spellings do not count.
Free text has no id, and so no vector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medcoder.errors import UsageError
from medcoder.evaluate.embeddings.vector_file import VectorFile
from medcoder.evaluate.results import Floats, Kind, Mask, Rows, Vectors

# Bags of rows of a table: the words of a name, the ids of a concept

_BLOCK = 8_192  # bags added up at a time


class Bags(NamedTuple):
    """n bags over w rows. Bag i holds `members[starts[i] : starts[i + 1]]`; some hold nothing."""

    table: Floats  # (w, d)
    members: Rows  # (m,) rows of the table
    starts: Rows  # (n + 1,)

    @property
    def sizes(self) -> Rows:
        return np.diff(self.starts)


def gather(file: VectorFile, bags: Iterable[Iterable[int]]) -> Bags:
    """Bags of entries of a file; only those that are needed are read from it."""
    numbers: dict[int, int] = {}
    members: list[int] = []
    starts = [0]
    for bag in bags:
        members.extend(numbers.setdefault(entry, len(numbers)) for entry in bag)
        starts.append(len(members))
    table = np.zeros((len(numbers), file.dimension), np.float32)
    for entry, number in numbers.items():
        table[number] = file.vector(entry)
    return Bags(table, np.array(members, np.int64), np.array(starts, np.int64))


def means(bags: Bags) -> Floats:
    """The mean of each bag (n, d); 0 for those that hold nothing."""
    sizes = bags.sizes
    means = np.zeros((len(sizes), bags.table.shape[1]), np.float32)
    filled = np.flatnonzero(sizes)
    for begin in range(0, len(filled), _BLOCK):
        some = filled[begin : begin + _BLOCK]
        first, last = bags.starts[some[0]], bags.starts[some[-1] + 1]
        rows = bags.table[bags.members[first:last]]
        means[some] = np.add.reduceat(rows, bags.starts[some] - first) / sizes[some, None]
    return means


def unit(rows: Floats) -> Floats:
    """Rows of length 1; those of 0 stay 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Floats = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return units


_WORD = re.compile(r"[^\W_]+(?:['’\-‐‑][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_RULE = "mean of words 1"  # to be changed with what is said above


class WordEmbedding:
    """word2vec, text or binary, or GloVe."""

    kind: Kind = "word"

    def __init__(self, file: VectorFile, *, name: str) -> None:
        self.file = file
        self.name = name
        self._found: dict[str, int] = {}

    @property
    def fingerprint(self) -> str:
        return f"{_RULE} {self.file.fingerprint}"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "pooling": "mean of words",
            "dimension": self.file.dimension,
            "vocabulary": len(self.file),
            "form": self.file.form,
        }

    def words(self, text: str) -> list[tuple[str, int]]:
        """The words of a term, and the entry of each in the file, -1 for none."""
        entries = []
        for word in _WORD.findall(text):
            entry = self._entry(word)
            if entry < 0:
                entries += [(part, self._entry(part)) for part in _PART.findall(word)]
            else:
                entries.append((word, entry))
        return entries

    def missing(self, texts: Sequence[str]) -> Mask:
        """Of each word of the texts whether it is not found; repeated ones count again."""
        return np.array([entry < 0 for text in texts for _, entry in self.words(text)], np.bool_)

    def bags(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Bags:
        """The words of each term that are found."""
        return gather(
            self.file,
            ([entry for _, entry in self.words(text) if entry >= 0] for text in texts),
        )

    def raw(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Vectors:
        """Means of any length."""
        bags = self.bags(texts)
        return Vectors(means(bags), bags.sizes > 0)

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors:
        rows, known = self.raw(texts)
        return Vectors(unit(rows), known)

    def _entry(self, word: str) -> int:
        if word not in self._found:
            forms = dict.fromkeys((word, word.lower(), word.capitalize(), word.upper()))
            entries = (self.file.find(form) for form in forms)
            self._found[word] = next((entry for entry in entries if entry >= 0), -1)
        return self._found[word]


def load_words(
    target: str, *, name: str | None = None, threads: int | None = None
) -> WordEmbedding:
    """A file of word vectors; its form is found out."""
    return WordEmbedding(VectorFile(target), name=name or Path(target).name)


class ConceptEmbedding:
    """The CSV that cui2vec comes in, or lines of `id v1 v2 ...`."""

    kind: Kind = "concept"

    def __init__(self, file: VectorFile, *, name: str) -> None:
        self.file = file
        self.name = name
        self._found: dict[str, int] = {}

    @property
    def fingerprint(self) -> str:
        return f"mean of ids {self.file.fingerprint}"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "pooling": "by id",
            "dimension": self.file.dimension,
            "vocabulary": len(self.file),
            "form": self.file.form,
        }

    def bags(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Bags:
        """The ids of each concept that are found."""
        given = [""] * len(texts) if ids is None else ids
        if len(given) != len(texts):
            raise UsageError(f"{len(given):,} ids of {len(texts):,} terms: there must be as many")
        bags = (
            [
                entry
                for identifier in joined.split("|")
                if (entry := self._entry(identifier.strip())) >= 0
            ]
            for joined in given
        )
        return gather(self.file, bags)

    def raw(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Vectors:
        """Means of any length."""
        bags = self.bags(texts, ids=ids)
        return Vectors(means(bags), bags.sizes > 0)

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors:
        rows, known = self.raw(texts, ids=ids)
        return Vectors(unit(rows), known)

    def _entry(self, identifier: str) -> int:
        if identifier not in self._found:
            self._found[identifier] = self.file.find(identifier) if identifier else -1
        return self._found[identifier]


def load_concepts(
    target: str, *, name: str | None = None, threads: int | None = None
) -> ConceptEmbedding:
    """A file of vectors by id; its form is found out."""
    return ConceptEmbedding(VectorFile(target), name=name or Path(target).name)
