"""A user's own terms beside an index: they survive its being built again.

They are kept in a plain table, `INDEX.terms.tsv`, beside the directory of the index: term, concept
id, language. Vectors of them are kept in a file next to it, and are made again when the model
changes.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from medcoder.errors import InputError, MedcoderError, UsageError
from medcoder.files import disk_full, locked, replacing, write_text
from medcoder.kg import KG
from medcoder.normalize.batch import Batch, Floats, Scored
from medcoder.normalize.filters import Allowed
from medcoder.normalize.stages.letters import Grams, grams
from medcoder.tables.text import check_columns, read_rows, read_text
from medcoder.text import clean, fold, language_tag
from medcoder.types import Encoder

LOGGER = logging.getLogger("medcoder.normalize")
SOURCE = "local"
_COLUMNS = ("term", "concept", "language")
_NEAR = 32  # terms that each stage gives

Mask = npt.NDArray[np.bool_]


class CustomTerm(NamedTuple):
    """A row of the table."""

    term: str
    concept: str
    language: str = ""


def custom_terms_file(index: Path) -> Path:
    """Where the custom terms of an index lie."""
    # "." has no name to put something beside, and a link keeps its own: that rules out resolve().
    path = Path(os.path.abspath(index))  # noqa: PTH100
    return path.with_name(f"{path.name}.terms.tsv")


def read_terms(file: Path) -> list[CustomTerm]:
    """The rows of a table of custom terms; none if there is no file."""
    if not file.exists():
        return []
    quoted = "\t" not in read_text(file).partition("\n")[0]
    rows = list(read_rows(file, quoted=quoted))
    if not rows:
        return []
    header = [name.strip().lower() for name in rows[0][1]]
    remedy = "It needs the columns term and concept, and may have language"
    check_columns(("term", "concept"), header, file=file, remedy=remedy)
    terms = []
    for number, row in rows[1:]:
        if not any(field.strip() for field in row):
            continue
        if len(row) != len(header):
            raise InputError(
                f"{len(row)} fields, not {len(header)}", file=file, row=number,
                remedy="Give each row as many fields as the header has",
            )  # fmt: skip
        fields = dict(zip(header, row, strict=True))
        term, concept = clean(fields["term"]), fields["concept"].strip()
        if not term or not concept:
            missing = "concept" if term else "term"
            raise InputError(f"no {missing}", file=file, row=number, remedy="Fill it in")
        terms.append(CustomTerm(term, concept, language_tag(fields.get("language") or "")))
    return terms


def write_terms(file: Path, terms: Iterable[CustomTerm]) -> None:
    """Write the table whole, or leave the old one."""
    lines = ["\t".join(_COLUMNS), *("\t".join(entry) for entry in terms)]
    write_text(file, "\n".join(lines) + "\n")


def add_terms(file: Path, kg: KG, terms: Iterable[CustomTerm]) -> int:
    """Add terms; a concept that the graph lacks is an error. Says how many were new."""
    wanted = [_checked(number, entry, kg) for number, entry in enumerate(terms, 1)]
    with _changing(file):
        before = read_terms(file)
        known = {(fold(entry.term), entry.concept) for entry in before}
        first: dict[tuple[str, str], CustomTerm] = {}
        for entry in wanted:
            first.setdefault((fold(entry.term), entry.concept), entry)
        new = [entry for key, entry in first.items() if key not in known]
        if new:
            write_terms(file, before + new)
    return len(new)


def _checked(number: int, entry: CustomTerm, kg: KG) -> CustomTerm:
    if entry.concept not in kg:
        raise UsageError(
            "no such concept in the graph",
            where=f"term {number:,}, {entry.term!r}",
            values=repr(entry.concept),
            remedy="Nothing was added. Look it up with: medcoder kg find",
        )
    term = clean(entry.term)
    if not term:
        raise UsageError("the term is empty", where=f"term {number:,}", remedy="Nothing was added")
    return CustomTerm(term, entry.concept, language_tag(clean(entry.language)))


def remove_terms(file: Path, term: str, concept: str | None = None) -> int:
    """Remove a term, of a concept or of all. Says how many rows went."""
    key = fold(term)
    with _changing(file):
        before = read_terms(file)
        kept = [
            entry
            for entry in before
            if fold(entry.term) != key or concept not in (None, entry.concept)
        ]
        if len(kept) < len(before):
            write_terms(file, kept)
    return len(before) - len(kept)


@contextlib.contextmanager
def _changing(file: Path) -> Iterator[None]:
    """Hold the lock of the table; where it cannot be written, say so and not what failed first."""
    try:
        with disk_full(file, kept="Your terms are as they were"), locked(file):
            yield
    except OSError as error:
        raise UsageError(
            "your own terms cannot be kept",
            where=file,
            values=error.strerror or error,
            remedy="They are as they were. Check that you may write to this folder; that of the "
            "bundled index is named by MEDCODER_HOME",
        ) from error


class CustomTerms:
    """Custom terms ready for search. Those whose concept the graph lacks are in `lost`."""

    def __init__(self, kg: KG, encoder: Encoder | None, file: Path | None) -> None:
        rows = read_terms(file) if file is not None else []
        known = [entry for entry in rows if entry.concept in kg]
        self.lost = [entry for entry in rows if entry.concept not in kg]
        self.texts = [entry.term for entry in known]
        self.languages = [entry.language for entry in known]
        self.concepts = [kg.index(entry.concept) for entry in known]
        self._encoder, self._file = encoder, file
        self._vectors: npt.NDArray[np.float32] | None = None
        self._folded: defaultdict[str, list[int]] = defaultdict(list)
        self._grams: defaultdict[int, list[int]] = defaultdict(list)
        for number, text in enumerate(self.texts):
            self._folded[fold(text)].append(number)
            for gram in grams(text).tolist():
                self._grams[gram].append(number)

    def __len__(self) -> int:
        return len(self.texts)

    def exact(self, query: str) -> list[tuple[int, int]]:
        """Concepts and numbers of the terms that fold to the query's key."""
        if not self.texts:
            return []
        return [(self.concepts[number], number) for number in self._folded.get(fold(query), ())]

    def cosines(self, vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Of every term (n,)."""
        if not self.texts:
            return np.empty(0, np.float32)
        cosines: npt.NDArray[np.float32] = np.einsum("rd,d->r", self._term_vectors(), vector)
        return cosines

    def vector(self, number: int) -> npt.NDArray[np.float32]:
        """Of a term (d,)."""
        vector: npt.NDArray[np.float32] = self._term_vectors()[number]
        return vector

    def near(self, cosines: npt.NDArray[np.float32], allowed: Mask) -> list[int]:
        """Numbers of the nearest terms among those allowed."""
        numbers = np.flatnonzero(allowed)
        best: list[int] = numbers[np.argsort(-cosines[numbers], kind="stable")[:_NEAR]].tolist()
        return best

    def similar(self, query: str, lists: Grams, allowed: Mask) -> dict[int, float]:
        """The most similar terms by trigrams among those allowed."""
        shared: defaultdict[int, int] = defaultdict(int)
        for gram in grams(query).tolist():
            for number in self._grams.get(gram, ()):
                shared[number] += 1
        numbers = (number for number in shared if allowed[number])
        best = sorted(numbers, key=lambda number: (-shared[number], number))[:_NEAR]
        scores = lists.similarity(query, [self.texts[number] for number in best])
        return dict(zip(best, scores.tolist(), strict=True))

    def _term_vectors(self) -> npt.NDArray[np.float32]:
        if self._vectors is None:
            self._vectors = self._read_or_encode()
        return self._vectors

    def _read_or_encode(self) -> npt.NDArray[np.float32]:
        """Vectors of all terms; only those that are not in the file yet are encoded."""
        assert self._encoder is not None and self._file is not None
        cache = self._file.with_suffix(".vectors")
        known = _read_vectors(cache, self._encoder.fingerprint)
        new = list(dict.fromkeys(text for text in self.texts if text not in known))
        if new:
            known |= zip(new, self._encoder.encode(new), strict=True)
        vectors = np.stack([known[text] for text in self.texts])
        if new:
            made_of = {"encoder": self._encoder.fingerprint, "terms": "\n".join(self.texts)}
            try:
                with replacing(cache) as partial:
                    # Not `save_file`, which would keep others from reading it.
                    partial.write_bytes(save({"vectors": vectors}, metadata=made_of))
            except (OSError, MedcoderError) as error:  # it is only a cache
                why = error.strerror if isinstance(error, OSError) else None
                LOGGER.warning(
                    "%s: the vectors of %d custom terms cannot be kept, and are made again next "
                    "time: %s", cache, len(new), why or error,
                )  # fmt: skip
        return vectors


def _read_vectors(cache: Path, encoder: str) -> dict[str, npt.NDArray[np.float32]]:
    """Vectors by text, as far as they are kept and of this encoder."""
    try:
        with safe_open(cache, framework="numpy") as stored:
            made_of = stored.metadata() or {}
            if made_of.get("encoder") != encoder:
                return {}
            texts, vectors = made_of["terms"].split("\n"), stored.get_tensor("vectors")
            return dict(zip(texts, vectors, strict=True))
    except (OSError, SafetensorError, KeyError, ValueError):
        return {}  # none yet, or damaged: it is only a cache


def custom_mask(custom: CustomTerms, allowed: Allowed | None) -> Mask:
    """Which terms may be answered with."""
    if allowed is None:
        return np.ones(len(custom), np.bool_)
    pairs = zip(custom.concepts, custom.languages, strict=True)
    return np.array([allowed.custom(*pair) for pair in pairs], np.bool_)


def custom_typos(
    custom: CustomTerms, grams: Grams, batch: Batch
) -> Iterator[tuple[int, tuple[int, float]]]:
    """The positions of queries that are a term but for a slip, with its number and similarity."""
    for position in (
        np.flatnonzero(batch.unsettled & ~batch.known).tolist() if batch.letters else ()
    ):
        for number, similarity in custom.similar(
            batch.texts[position], grams, batch.custom
        ).items():
            if batch.spelt(position, fold(custom.texts[number]).split()):
                yield position, (number, similarity)


def with_custom(
    custom: CustomTerms, grams: Grams, batch: Batch, vectors: Floats | None, scored: Scored
) -> Scored:
    """Custom terms added to those of the graph."""
    rows = [
        row
        for position in np.flatnonzero(batch.unsettled).tolist()
        for row in _scored(custom, grams, batch, vectors, position)
    ]
    if not rows:
        return scored
    more = (
        np.array(column, kept.dtype)
        for column, kept in zip(zip(*rows, strict=True), scored, strict=True)
    )
    return Scored(*(np.concatenate(pair) for pair in zip(scored, more, strict=True)))


def _scored(
    custom: CustomTerms, grams: Grams, batch: Batch, vectors: Floats | None, position: int
) -> Iterator[tuple[int, int, int, int, float, float, float, bool, bool, bool]]:
    query, known = batch.texts[position], bool(batch.known[position])
    cosines = custom.cosines(vectors[position]) if vectors is not None else None
    near = custom.near(cosines, batch.custom) if cosines is not None else []
    alike = custom.similar(query, grams, batch.custom) if batch.letters else {}
    for number in dict.fromkeys([*near, *alike]):
        words = fold(custom.texts[number]).split()
        cosine = min(float(cosines[number]), 1.0) if cosines is not None else None
        similarity = alike.get(number)
        if batch.letters and similarity is None:
            similarity = float(grams.similarity(query, [custom.texts[number]])[0])
        near_by_letters = bool(batch.letters) and not known and batch.near(position, words)
        spelt = near_by_letters and batch.spelt(position, words)
        yield (
            position,
            custom.concepts[number],
            -1 - number,
            len(batch.letters) if number in near else 0,
            np.nan if cosine is None else cosine,
            np.nan if similarity is None else similarity,
            batch.search.fusion.score(cosine, similarity, known=known, spelt=near_by_letters),
            spelt,
            near_by_letters,
            True,
        )
