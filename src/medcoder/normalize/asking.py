"""Ask the ranking for all that strings may say, and make their answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

from medcoder.kg import KG
from medcoder.normalize.abbreviations import bundled_abbreviations
from medcoder.normalize.answers import ABBREVIATION, Answers, Asked
from medcoder.normalize.batch import Candidate, Search
from medcoder.normalize.calibrate import Calibration
from medcoder.normalize.cells import divided, placed, with_qualifiers
from medcoder.normalize.choices import Choices, choices, relatives
from medcoder.normalize.custom_terms import CustomTerms, custom_mask
from medcoder.normalize.filters import Filter
from medcoder.normalize.interpretations import Interpretation, Understood, understand
from medcoder.normalize.parse.parts import bare, divisions
from medcoder.normalize.rank import Ranker
from medcoder.normalize.reading import least_cosine
from medcoder.normalize.stages import CERTAIN
from medcoder.normalize.stages.codes import CodeNames
from medcoder.normalize.typos import is_abbreviation
from medcoder.text import clean, fold, not_a_term, spoken
from medcoder.types import Answer, Encoder, Span

_ALIKE = 0.3  # similarity of letters that speaks for a candidate, whatever the model can read
_NAMES = 1 << 14  # strings of which it is remembered whether they are names


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is wanted of some strings."""

    search: Search
    wanted: Filter
    threshold: float | None  # least confidence of an answer, instead of what was fitted
    split: bool  # whether several things in a string are answered one by one


class _Cell(NamedTuple):
    """A string, what it says as a whole, and what its parts say."""

    text: str  # clean
    whole: Understood
    ways: Sequence[Sequence[tuple[Span, Understood]]]

    @property
    def asked(self) -> list[str]:
        parts = (text for way in self.ways for _, part in way for text in part.asked)
        return [*self.whole.asked, *parts]


class Heard(NamedTuple):
    """What a string says, and the choices for what it means; for what was, or is in the family,
    those for how that is said.
    """

    text: str
    understood: Understood
    choices: Choices | None  # None: nothing was found
    ways: Sequence[Sequence[Heard]]  # to split it


class Asking:
    """Answers strings from a ranking."""

    def __init__(
        self,
        kg: KG,
        ranker: Ranker,
        custom_terms: CustomTerms,
        encoder: Callable[[], Encoder],
        calibration: Callable[[Collection[str]], Calibration],
    ) -> None:
        """encoder, calibration: give what is loaded when it is first needed"""
        self._kg, self._ranker, self._custom_terms = kg, ranker, custom_terms
        self._encoder, self._calibration = encoder, calibration
        self._answers, self._codes = Answers(kg, custom_terms), CodeNames(kg)
        self._kin = relatives(kg)

    def answers(self, texts: Sequence[str], request: Request) -> Iterator[Answer]:
        """The answer of each string; all that they may say is looked up at once."""
        search = request.search
        cells, ranked = self._looked_up(texts, request)
        asked = Asked(
            top=search.top,
            threshold=request.threshold,
            wanted=request.wanted,
            allows=lambda concept: search.allowed is None or bool(search.allowed.concepts[concept]),
            ranked=ranked,
            calibration=lambda settled: self._calibration((CERTAIN,) if settled else search.stages),
            unread=self._unread,
        )
        for text, cell in zip(texts, cells, strict=True):
            yield self._answer(text, cell, asked)

    def heard(self, texts: Sequence[str], request: Request) -> Iterator[Heard]:
        """What each string says, with its choices: what weights are fitted to."""
        cells, ranked = self._looked_up(texts, request)

        def hear(text: str, understood: Understood) -> Heard:
            said = [Interpretation(some) for some in understood.said]
            meant = said if understood.decides in ("history", "family") else understood.meant
            some = choices(text, meant, ranked, self._kin)
            return Heard(text, understood, some, ())

        for text, cell in zip(texts, cells, strict=True):
            ways = [[hear(cell.text[a:b], part) for (a, b), part in way] for way in cell.ways]
            yield hear(text, cell.whole)._replace(ways=ways)

    def _looked_up(
        self, texts: Sequence[str], request: Request
    ) -> tuple[list[_Cell], dict[str, list[Candidate]]]:
        names = _Names(self._kg, self._custom_terms, self._codes, request.search)
        cells = [self._read(clean(text), request, names) for text in texts]
        looked_up = list(dict.fromkeys(text for cell in cells for text in cell.asked if text))

        def embed(positions: Sequence[int]) -> Any:
            return self._encoder().encode([spoken(looked_up[place]) for place in positions])

        ranked = self._ranker.find(looked_up, embed, request.search)
        return cells, dict(zip(looked_up, ranked, strict=True))

    def _read(self, text: str, request: Request, names: _Names) -> _Cell:
        start, end = bare(text)
        short = bundled_abbreviations() if ABBREVIATION in request.search.stages else None

        def read(part: str) -> Understood:
            return understand(part, names, short)

        whole = read(text[start:end])
        if not request.split or (whole.named and not whole.attributes):
            return _Cell(text, whole, ())
        plain = text[start:end]
        ways = [
            [((start + a, start + b), read(plain[a:b])) for a, b in way]
            for way in map(partial(with_qualifiers, plain), divisions(plain))
            if len(way) > 1
        ]
        return _Cell(text, whole, ways)

    def _answer(self, query: str, cell: _Cell, asked: Asked) -> Answer:
        whole = self._answers.answer(query, cell.whole, asked)
        if not cell.ways:
            return whole
        ways = [
            [
                self._answers.answer(
                    cell.text[slice(*span)], part, asked, placed(query, cell.text, span)
                )
                for span, part in way
            ]
            for way in cell.ways
        ]
        return divided(whole, ways)

    def _unread(
        self,
        text: str,
        best: Candidate,
        term: Callable[[], str],
        confidence: float,
        least: float,
    ) -> bool:
        """Whether the string has no word that the graph or the model knows, and nothing else
        speaks for the best candidate: neither letters that they share nor a very near meaning.
        """
        return (
            confidence >= least
            and not (best.hit or best.known or best.spelt or best.term < 0)
            and ((best.similarity or 0.0) < _ALIKE or is_abbreviation(term()))
            and not self._has_known_words(text)
            and (best.cosine or 0.0) < least_cosine(self._encoder(), text)
        )

    def _has_known_words(self, text: str) -> bool:
        """Whether a word of it, which a single letter is not, is in some term."""
        known = zip(fold(text).split(), self._ranker.grams.known(text), strict=True)
        return any(there and not_a_term(word) is None for word, there in known)


class _Names:
    """What may be answered with in a search, by its names; remembered for a batch of strings."""

    def __init__(self, kg: KG, custom_terms: CustomTerms, codes: CodeNames, search: Search) -> None:
        self._custom_terms, self._codes = custom_terms, codes
        self._allowed, self._coded = search.allowed, "code" in search.stages
        self._custom = custom_mask(custom_terms, search.allowed)
        self._found = lru_cache(_NAMES)(kg.find_terms)
        self.is_name = lru_cache(_NAMES)(self._is_name)

    def is_certain(self, text: str) -> bool:
        return self._is_own(text) or (self._coded and next(self._codes.of(text), None) is not None)

    def is_known(self, text: str) -> bool:
        return bool(self._found(text))

    def _is_name(self, text: str) -> bool:
        return self._is_own(text) or any(
            self._allowed is None or self._allowed.terms[term] for _, term in self._found(text)
        )

    def _is_own(self, text: str) -> bool:
        return any(self._custom[number] for _, number in self._custom_terms.exact(text))
