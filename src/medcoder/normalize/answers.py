"""Answers: what the ranking gave for all that a string may say, weighed and put together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from medcoder.kg import KG
from medcoder.normalize.batch import Candidate
from medcoder.normalize.calibrate import Calibration
from medcoder.normalize.choices import Table, choices, leaders, relatives
from medcoder.normalize.custom_terms import SOURCE, CustomTerms
from medcoder.normalize.filters import Filter
from medcoder.normalize.interpretations import Interpretation, Understood, says
from medcoder.normalize.past import VOCABULARY, code_for
from medcoder.normalize.twins import Twins
from medcoder.text import nothing_meant
from medcoder.types import DERIVED, Answer, Attribute, Code, Match, Span

ABBREVIATION, CODE = "abbreviation", "code"  # stages
_REVIEWS = {
    "history": "it is said to be past ({cue}), and nothing here surely says so",
    "family": "it is said of the family ({cue}), and nothing here surely says so",
    "doubt": "in doubt ({cue})",
}
_KEPT = 1 << 14  # concepts whose codes stay in memory
_EXPLAINED = 2  # candidates of which it is said what speaks for them
_LIKE_NOTHING = 0.1  # confidence below which what is negated is no finding
# How a term says that something is not as it should be.
_LACKS = re.compile(
    r"\b(?:lack|loss|lost|absen\w+|poor|no|not|non|without|unable|inability|impaired|reduced"
    r"|decreased|difficult\w*|insomnia|\w*orexia|amenorrh\w+|anosmia|missing|failure)\b",
    re.IGNORECASE,
)

# Whether nothing speaks for the best candidate of a string: its term, confidence and the least one
Unread = Callable[[str, Candidate, Callable[[], str], float, float], bool]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was asked for, and what the ranking gave."""

    top: int
    threshold: float | None
    wanted: Filter
    allows: Callable[[int], bool]  # whether a concept may be answered with
    ranked: Mapping[str, Sequence[Candidate]]  # of each string that was looked up
    calibration: Callable[[bool], Calibration]  # of what was measured, or of what was settled
    unread: Unread


class _Weighed(NamedTuple):
    """A candidate with its confidence, and the reading that it is of."""

    candidate: Candidate
    confidence: float
    written_out: bool
    columns: Table  # its features: see `Weights.contributions`


class _Scores(NamedTuple):
    """The candidates of a string, best first."""

    entries: Sequence[_Weighed]
    least: float
    calibration: Calibration
    unread: bool = False
    measured: int = 0  # how many of them, the first, were weighed

    @property
    def best(self) -> float:
        return self.entries[0].confidence if self.entries else 0.0

    def contributions(self, entry: _Weighed) -> Mapping[str, float]:
        """What speaks for the best candidates, which are explained."""
        if all(entry is not other for other in self.entries[:_EXPLAINED]):
            return {}
        return self.calibration.weights.contributions(entry.columns)


class Answers:
    """Makes answers for a graph."""

    def __init__(self, kg: KG, custom_terms: CustomTerms) -> None:
        self._kg, self._custom_terms = kg, custom_terms
        self._twins, self._kin = Twins(kg), relatives(kg)
        self._codes = lru_cache(_KEPT)(kg.codes_of)

    def answer(
        self, query: str, understood: Understood, asked: Asked, span: Span | None = None
    ) -> Answer:
        """The answer for a string, of what it was understood to say.

        span: where the string is in a longer one, of which it is a part
        """
        if not understood.meant:
            return Answer(
                query=query,
                matches=(),
                threshold=_threshold(asked, settled=True),
                reason="not a term: it stands for nothing",
                span=span,
            )
        scores = self._scores(query, understood.meant, asked)
        weighed, least = scores.entries, scores.least
        # Of those alone that were weighed: how many these are does not hang on `top`.
        names = leaders([entry.candidate for entry in weighed[: scores.measured]])
        twins, namesakes = self._twins_of(weighed, names)
        others = (entry for entry in weighed[1:] if entry.candidate.concept not in twins)
        matches = tuple(
            self._match(
                entry, scores, asked, understood.attributes, () if position else twins, span
            )
            for position, entry in enumerate(islice(chain(weighed[:1], others), asked.top))
        )
        answer = Answer(
            query=query,
            matches=matches,
            threshold=least,
            namesakes=namesakes,
            steps=understood.steps,
            span=span,
        )
        if not matches or matches[0].confidence < least:
            answer = _refused(answer, _reason(understood, scores))
        return self._decided(answer, understood, asked)

    def _decided(self, answer: Answer, understood: Understood, asked: Asked) -> Answer:
        """The answer in view of what decides it: that the thing was, is not, is in doubt."""
        decides, cue = understood.decides, understood.cue
        if not decides or not answer.candidates:
            return answer
        if decides == "negated":
            return self._phrase(answer, understood, asked) or _refused(answer, f"negated ({cue})")
        if decides == "doubt":
            return replace(answer, review=_REVIEWS[decides].format(cue=cue))
        return self._past(answer, understood, asked)

    def _phrase(self, answer: Answer, understood: Understood, asked: Asked) -> Answer | None:
        """The answer for what is no negated finding but a phrase: "no energy" is lack of energy.

        What is said not to be there is none that is known, and the term says that something lacks.
        """
        if answer.confidence >= _LIKE_NOTHING:
            return None
        for said in understood.said:
            scores = self._scores(said, [Interpretation(said)], asked)
            if scores.entries and scores.best >= scores.least:
                best = scores.entries[0].candidate
                names = f"{self._term(best)[0]} {self._kg.terms.preferred(best.concept)}"
                if _LACKS.search(names):
                    whole = Understood((Interpretation(said),))
                    return self.answer(answer.query, whole, asked, answer.span)
        return None

    def _past(self, answer: Answer, understood: Understood, asked: Asked) -> Answer:
        """The answer for what was, or is in the family: what says so, else it is to review."""
        decides = understood.decides
        saying: list[Answer] = []
        for said in understood.said:
            scores = self._scores(said, [Interpretation(said)], asked)
            past = [
                self._match(entry, scores, asked, understood.attributes)
                for entry in scores.entries[: max(asked.top, _EXPLAINED)]
                if says(decides, self._term(entry.candidate)[0])
            ]
            if not past or not says(decides, self._term(scores.entries[0].candidate)[0]):
                continue
            concepts = {match.concept for match in past}
            rest = [match for match in answer.candidates if match.concept not in concepts]
            before = replace(
                answer,
                matches=tuple(replace(match, span=answer.span) for match in (*past, *rest))[
                    : asked.top
                ],
                rejected=(),
                reason="",
                namesakes=1,
                threshold=scores.least,
                steps=(*answer.steps, f"asked for {said!r}"),
            )
            saying.append(before)
        best = max(saying, key=lambda some: some.confidence, default=answer)
        if saying and best.confidence >= best.threshold:
            return best
        classified = self._classified(answer, understood, asked, saying)
        if classified is not None:
            return classified
        surer = max(best, answer, key=lambda some: some.confidence)
        return replace(_refused(surer, ""), review=_REVIEWS[decides].format(cue=understood.cue))

    def _classified(
        self, answer: Answer, understood: Understood, asked: Asked, saying: Sequence[Answer]
    ) -> Answer | None:
        """The answer by the code that ICD-10-CM has for what was, or is in the family, of the kind
        of what was found. Nothing is, where a name that says so is likelier to be another's.
        """
        if not answer.matches:
            return None
        kg, decides, match = self._kg, understood.decides, answer.matches[0]
        codes = [
            code.code
            for concept in (match.concept, *match.twins)
            for code in kg.codes_of(concept, [VOCABULARY])
        ]
        past = next(filter(None, (code_for(decides, code) for code in codes)), None)
        found = kg.find_code(VOCABULARY, past) if past else []
        concept = next((some for some in found if asked.allows(kg.index(some))), None)
        if past is None or concept is None:
            return None
        others = [
            code.code
            for some in saying
            if some.confidence >= _LIKE_NOTHING
            for code in kg.codes_of(some.candidates[0].concept, [VOCABULARY])
        ]
        if decides == "history" and not all(code.startswith(past) for code in others):
            return None
        name = kg.preferred(concept)
        first = replace(
            match,
            concept=concept,
            name=name,
            codes=tuple(kg.codes_of(concept, asked.wanted.vocabularies)),
            term=name,
            language=kg.terms_of(concept)[0].language,
            vocabulary=VOCABULARY,
            cosine=None,
            similarity=None,
            twins=(),
            weighed={},
        )
        return replace(
            answer,
            matches=(first, *(some for some in answer.matches if some.concept != concept))[
                : asked.top
            ],
            namesakes=1,
            steps=(*answer.steps, f"{decides} of {codes[0]} is coded as {past}"),
        )

    def _scores(self, text: str, meant: Sequence[Interpretation], asked: Asked) -> _Scores:
        """The candidates of all that a string may mean, weighed."""
        first = next((asked.ranked[some.text] for some in meant if asked.ranked.get(some.text)), ())
        settled = bool(first) and first[0].settled
        calibration, least = asked.calibration(settled), _threshold(asked, settled=settled)
        some = choices(text, meant, asked.ranked, self._kin)
        if some is None:
            return _Scores((), least, calibration)
        ranked = calibration.weights.rank(some)
        best = int(ranked.order[0])
        # By the threshold that was fitted: a confidence does not hang on what is asked for.
        unread = asked.unread(
            meant[some.readings[best]].text,
            some.candidates[best],
            lambda: self._term(some.candidates[best])[0],
            float(ranked.confidences[0]),
            calibration.threshold,
        )
        entries = [
            _Weighed(
                some.candidates[position],
                0.0 if unread else confidence,
                meant[some.readings[position]].written_out,
                columns,
            )
            for position, confidence, columns in zip(
                ranked.order.tolist(), ranked.confidences.tolist(), ranked.columns, strict=True
            )
        ]
        measured = len(entries)
        entries += islice(_unmeasured(entries, meant, asked.ranked), asked.top)
        return _Scores(entries, least, calibration, unread, measured)

    def _twins_of(
        self, weighed: Sequence[_Weighed], names: Sequence[int]
    ) -> tuple[tuple[int, ...], int]:
        """Concepts that are the best one in other vocabularies, and how many share its name."""
        bearers = [
            entry.candidate
            for entry, leader in zip(weighed, names, strict=False)
            if leader == 0 and entry.candidate.name is not None
        ]
        if not bearers:
            return (), 1
        if bearers[0].stage == CODE:
            return (), len(bearers)
        if bearers[0].term < 0:  # who gave the name to a concept means that one
            return (), sum(candidate.term < 0 for candidate in bearers)
        called = {some.concept for some in bearers if self._is_called(some.concept, some.term)}
        twins, things = self._twins.of([candidate.concept for candidate in bearers], called)
        return tuple(twins), things

    def _is_called(self, concept: int, term: int) -> bool:
        """Whether a term is what a concept is called in the first place, or derived of that."""
        terms, kinds = self._kg.terms, self._kg.kinds
        return term == int(terms.first[concept]) or kinds[int(terms.info[term, 2])] == DERIVED

    def _match(
        self,
        entry: _Weighed,
        scores: _Scores,
        asked: Asked,
        attributes: tuple[Attribute, ...],
        twins: Sequence[int] = (),
        span: Span | None = None,
    ) -> Match:
        candidate, kg = entry.candidate, self._kg
        concept = kg.terms.id(candidate.concept)
        term, language, vocabulary = self._term(candidate)
        others = [kg.terms.id(twin) for twin in twins]
        codes: dict[Code, None] = {}
        for some in (concept, *others):
            codes |= dict.fromkeys(self._codes(some, asked.wanted.vocabularies))
        return Match(
            concept=concept,
            name=kg.terms.preferred(candidate.concept),
            codes=tuple(codes),
            term=term,
            language=language,
            vocabulary=vocabulary,
            cosine=candidate.cosine,
            similarity=candidate.similarity,
            score=candidate.score,
            confidence=entry.confidence,
            stage=ABBREVIATION if entry.written_out else candidate.stage,
            attributes=attributes,
            span=span,
            twins=tuple(others),
            weighed=scores.contributions(entry),
        )

    def _term(self, candidate: Candidate) -> tuple[str, str, str]:
        """Text, language and vocabulary of the term of a candidate."""
        if candidate.term < 0:
            number = -1 - candidate.term
            return self._custom_terms.texts[number], self._custom_terms.languages[number], SOURCE
        kg = self._kg
        position = candidate.term - int(kg.terms.first[candidate.concept])
        text, _, language, vocabulary, _ = next(
            islice(kg.terms.of(candidate.concept), position, None)
        )
        return text, kg.languages[language], kg.vocabularies[vocabulary].name


def _unmeasured(
    entries: Sequence[_Weighed],
    meant: Sequence[Interpretation],
    ranked: Mapping[str, Sequence[Candidate]],
) -> Iterator[_Weighed]:
    """What was found beyond the candidates that are weighed: as sure as the last of those at most.

    They say nothing of the others, so no confidence hangs on how many are asked for.
    """
    last, seen = entries[-1], {entry.candidate.concept for entry in entries}
    for some in meant:
        for candidate in ranked.get(some.text, ()):
            if candidate.concept not in seen:
                seen.add(candidate.concept)
                yield last._replace(candidate=candidate, written_out=some.written_out)


def _threshold(asked: Asked, *, settled: bool) -> float:
    return asked.calibration(settled).threshold if asked.threshold is None else asked.threshold


def _refused(answer: Answer, reason: str) -> Answer:
    return replace(
        answer,
        matches=(),
        rejected=answer.candidates,
        reason=answer.reason or reason,
    )


def _reason(understood: Understood, scores: _Scores) -> str:
    """Why nothing can be meant, if that is known."""
    if scores.unread:
        return "not a term: it has no word that is known"
    plain = understood.meant[0].text
    meant = nothing_meant(plain) if plain and not scores.entries else None
    return f"not a term: {meant}" if meant else ""
