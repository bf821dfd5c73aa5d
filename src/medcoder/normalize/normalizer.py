"""Strings to ranked concepts, with filters, abstention and reasons."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.encode import load_exported
from medcoder.errors import ArtefactError, UsageError
from medcoder.index import open_index
from medcoder.kg import KG
from medcoder.normalize.asking import Asking, Heard, Request
from medcoder.normalize.batch import Search
from medcoder.normalize.build import (
    ENCODER,
    SEARCH,
    open_grams,
    open_parts,
    read_calibration,
    weighed_by,
)
from medcoder.normalize.calibrate import Calibration, drawn_examples
from medcoder.normalize.calibration_queries import Query
from medcoder.normalize.custom_terms import CustomTerms, custom_terms_file
from medcoder.normalize.filters import ANY, Filter, Filters
from medcoder.normalize.fitting import Example
from medcoder.normalize.rank import Ranker
from medcoder.normalize.stages import STAGES, calibration_name
from medcoder.types import Answer, Encoder, Progress
from medcoder.vectors import NO_ROW, Vectors

Names = Collection[str] | str | None
_BATCH = 512  # distinct strings at a time
_KEPT = 1 << 14  # answers that are remembered, the latest asked for


class Normalizer:
    """Ranks the concepts of an index for any string.

    >>> normalizer = Normalizer.load()  # doctest: +SKIP
    >>> normalizer.normalize("hart attack")[0].name  # doctest: +SKIP
    'Myocardial infarction'
    """

    def __init__(
        self,
        path: Path,
        meta: dict[str, Any],
        kg: KG,
        vectors: Vectors,
        *,
        terms: Path | None = None,
    ) -> None:
        """Use `Normalizer.load`."""
        weights, self.meta = weighed_by(path, meta)
        self.path, self.kg = path, kg
        self._vectors = vectors
        self._encoder: Encoder | None = None
        self._fusion, self._calibrations = read_calibration(weights)
        self._filters = Filters(kg, vectors)
        self.custom_terms = CustomTerms(kg, _Lazy(self), terms or custom_terms_file(path))
        self._ranker = Ranker(
            kg,
            vectors,
            open_index(meta["index"], vectors, path / SEARCH),
            open_grams(path, len(vectors)),
            self.custom_terms,
        )
        self._asking = Asking(
            kg, self._ranker, self.custom_terms, lambda: self.encoder, self._calibration
        )

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        *,
        terms: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Normalizer:
        """Open an index directory; without a path, the bundled index, which is built once.

        terms: the table of custom terms, if it is not the table beside the directory, which is
            INDEX.terms.tsv, or that of the bundled index, which is terms.tsv in MEDCODER_HOME
        """
        if path is None:
            from medcoder.bundled.graph import bundled_terms
            from medcoder.normalize.build import bundled_index

            path, terms = bundled_index(progress), terms or bundled_terms()
        path = Path(path).expanduser()
        meta, kg, vectors = open_parts(path)
        custom = Path(terms).expanduser() if terms is not None else None
        return cls(path, meta, kg, vectors, terms=custom)

    def __repr__(self) -> str:
        return f"Normalizer({str(self.path)!r}: {len(self.kg):,} concepts)"

    @property
    def overlay(self) -> CustomTerms:
        """The old name of `custom_terms`."""
        warnings.warn(
            "Normalizer.overlay is now Normalizer.custom_terms, and goes in 0.3",
            DeprecationWarning,
            2,
        )
        return self.custom_terms

    @property
    def encoder(self) -> Encoder:
        """Loaded when first used: exact matches need none."""
        if self._encoder is None:
            encoder = load_exported(self.path / ENCODER)
            if encoder.fingerprint != self._vectors.encoder:
                raise ArtefactError(
                    "its vectors are of another model than its own",
                    where=self.path,
                    remedy="Build it again",
                )
            self._encoder = encoder
        return self._encoder

    def normalize(
        self,
        text: str,
        *,
        top: int = 5,
        types: Names = None,
        vocabularies: Names = None,
        languages: Names = None,
        targets: str = ANY,
        stages: Collection[str] = STAGES,
        threshold: float | None = None,
        split: bool = False,
    ) -> Answer:
        """The concepts that a string most likely means, best first.

        types, vocabularies: only concepts of these semantic types, with a code in these
        languages: only terms in these languages count
        targets: "leaf", "billable", "standard": only such concepts; or "any"
        stages: which of `STAGES` look for candidates: code, exact, abbreviation, slip, dense, ngram
        threshold: least confidence of an answer, instead of what was fitted to the graph
        split: several things in a string are answered one by one, see `Answer.parts`
        """
        [answer] = self.normalize_many(
            [text],
            top=top,
            types=types,
            vocabularies=vocabularies,
            languages=languages,
            targets=targets,
            stages=stages,
            threshold=threshold,
            split=split,
        )
        return answer

    def normalize_many(
        self,
        texts: Iterable[str],
        *,
        top: int = 5,
        types: Names = None,
        vocabularies: Names = None,
        languages: Names = None,
        targets: str = ANY,
        stages: Collection[str] = STAGES,
        threshold: float | None = None,
        split: bool = False,
        progress: Progress | None = None,
    ) -> Iterator[Answer]:
        """The answer for each string in order, as they come; equal strings are looked up once."""
        if isinstance(texts, str):  # which is a sequence of strings too: its letters
            raise UsageError(
                "normalize_many takes a list of strings",
                remedy="For a single string, use normalize",
            )
        request = self._request(
            Filter.of(types, vocabularies, languages, targets),
            top=top,
            stages=stages,
            threshold=threshold,
            split=split,
        )
        return self._stream(texts, request, progress)

    def heard(
        self,
        texts: Sequence[str],
        *,
        vocabularies: Names = None,
        stages: Collection[str] = STAGES,
        split: bool = False,
    ) -> Iterator[Heard]:
        """What strings say, and the choices for it, before they are weighed: to fit weights to."""
        wanted = Filter.of(None, vocabularies, None)
        request = self._request(wanted, top=5, stages=stages, threshold=None, split=split)
        for start in range(0, len(texts), _BATCH):
            yield from self._asking.heard(texts[start : start + _BATCH], request)

    def drawn(
        self, count: int, stages: Collection[str] = STAGES
    ) -> list[tuple[Query, Example | None]]:
        """Queries drawn from the graph, part of it hidden, as examples to fit weights to."""
        return drawn_examples(
            self._ranker, self.encoder, count, _checked_stages(stages), self._fusion
        )

    def _request(
        self,
        wanted: Filter,
        *,
        top: int,
        stages: Collection[str],
        threshold: float | None,
        split: bool,
    ) -> Request:
        search = Search(
            top=_checked_top(top),
            stages=_checked_stages(stages),
            fusion=self._fusion,
            allowed=self._filters.allowed(wanted),
        )
        if threshold is not None and not 0 <= threshold <= 1:
            raise UsageError("threshold must be between 0 and 1", values=threshold)
        return Request(search=search, wanted=wanted, threshold=threshold, split=split)

    def _stream(
        self, texts: Iterable[str], request: Request, progress: Progress | None
    ) -> Iterator[Answer]:
        total = len(texts) if isinstance(texts, Sequence) else 0
        done = 0
        stream = iter(texts)
        batches = iter(lambda: list(islice(stream, _BATCH)), [])
        for answers in each_once(batches, lambda new: self._asking.answers(new, request)):
            yield from answers
            done += len(answers)
            if progress is not None:
                progress("normalising", done, max(total, done))

    def name_vectors(self, concepts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of the names of concepts, as the index has them: in half precision."""
        terms = [int(self.kg.terms.first[self.kg.index(concept)]) for concept in concepts]
        rows = np.asarray(self._vectors.term_row[terms])
        if (rows == NO_ROW).any():  # a name that was left out of the index
            return self.encoder.encode([self.kg.preferred(concept) for concept in concepts])
        return self._vectors.take(rows)

    def calibration(self, stages: Collection[str] = STAGES) -> Calibration:
        """What the confidences of these stages rest on."""
        return self._calibration(_checked_stages(stages))

    def _calibration(self, stages: Collection[str]) -> Calibration:
        name = calibration_name(stages)
        if name not in self._calibrations:
            raise ArtefactError(
                f"no calibration of {name}", where=self.path, remedy="Build it again"
            )
        return self._calibrations[name]


def each_once(
    batches: Iterable[Sequence[str]], look_up: Callable[[Sequence[str]], Iterable[Answer]]
) -> Iterator[list[Answer]]:
    """The answers of each batch; `look_up` is asked for the strings not met lately, each once.

    Columns of a hospital hold few distinct strings, many times.
    """
    known: dict[str, Answer] = {}
    for batch in batches:
        new = [text for text in dict.fromkeys(batch) if text not in known]
        known |= zip(new, look_up(new), strict=True)
        for text in dict.fromkeys(batch):
            known[text] = known.pop(text)  # to the end, as the latest
        yield [known[text] for text in batch]
        for text in list(islice(known, max(len(known) - _KEPT, 0))):
            del known[text]


class _Lazy:
    """The encoder of a normaliser, loaded when it is used."""

    def __init__(self, normalizer: Normalizer) -> None:
        self._normalizer = normalizer

    @property
    def width(self) -> int:
        return self._normalizer.encoder.width

    @property
    def fingerprint(self) -> str:
        return self._normalizer.encoder.fingerprint

    def encode(self, texts: Sequence[str]) -> Any:
        return self._normalizer.encoder.encode(texts)


def _checked_top(top: int) -> int:
    if not 1 <= top <= 1000:
        raise UsageError("top must be between 1 and 1000", values=top)
    return top


def _checked_stages(stages: Collection[str]) -> tuple[str, ...]:
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown or not stages:
        raise UsageError(
            "no such stages",
            values=unknown or "none",
            remedy=f"Choose from: {', '.join(STAGES)}",
        )
    return tuple(stage for stage in STAGES if stage in stages)
