"""Answers of the normaliser for people and for programs, and what decided them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medcoder.cli.lines import line, out
from medcoder.cli.shown import add_row, new_table
from medcoder.text import clean
from medcoder.types import Answer, Match

_DIGITS = 6
_LONGEST = 120  # characters of a string that are shown
_FOUND_BY = {"dense": "by its meaning", "ngram": "by its letters"}


def as_dict(answer: Answer, top: int, *, explain: bool) -> dict[str, Any]:
    """An answer as one line of JSON has it."""
    entry: dict[str, Any] = {
        "query": answer.query,
        "matches": [_match(one, explain=explain) for one in answer.matches[:top]],
        "rejected": [_match(one, explain=explain) for one in answer.rejected[:top]],
        "confidence": round(answer.confidence, _DIGITS),
        "threshold": round(answer.threshold, _DIGITS),
    }
    return entry | ({"why": why(answer)} if explain else {})


def show(answers: Sequence[Answer], *, codes: bool) -> None:
    """A table: one row a concept, and "no match" where the best was not likely enough."""
    headers = ["query", "concept", "name", "matched term", "confidence", "stage"]
    table = new_table(*headers, *(["codes"] if codes else []))
    for answer in answers:
        query = _short(answer.query)
        if not answer.candidates:
            add_row(table, query, "no match")
        for place, one in enumerate(answer.candidates):
            kept = bool(answer.matches)
            cells = [
                query if place == 0 else "",
                one.concept if kept else "no match" if place == 0 else "",
                one.name if kept else f"rejected: {one.name} ({one.concept})",
                one.term,
                f"{one.confidence:.2f}",
                one.stage,
            ]
            add_row(
                table, *cells, *([", ".join(code.curie for code in one.codes)] if codes else [])
            )
    out().print(table)


def explain(answers: Sequence[Answer], top: int) -> None:
    """A paragraph for each answer: the candidates with their scores, and what decided."""
    for answer in answers:
        verdict = "" if answer.matches else "  no match"
        line((_short(answer.query) or "(empty)", "bold"), (verdict, "yellow"))
        for one in answer.candidates[:top]:
            mark = "" if answer.matches else "rejected: "
            line(f"  {mark}{one.concept}  {one.name}")
            of = ", ".join(filter(None, (one.language, one.vocabulary)))
            line(("    term        ", "dim"), f"{one.term} ({of})")
            line(("    codes       ", "dim"), ", ".join(code.curie for code in one.codes) or "none")
            scores = (
                f"{one.confidence:.3f}, score {one.score:.3f}, cosine {_number(one.cosine)}, "
                f"similarity {_number(one.similarity)}, stage {one.stage}"
            )
            line(("    confidence  ", "dim"), scores)
        line(f"  {why(answer)}")


def why(answer: Answer) -> str:
    """What decided, in a sentence or three."""
    if not answer.candidates:
        if not clean(answer.query):
            return "Nothing is left of the string without spaces and control characters."
        return "No term that may be answered with has anything in common with it."
    best, *others = answer.candidates
    return " ".join(
        [_best(best, sum(one.stage == "exact" for one in others)), *_next(others), _verdict(answer)]
    )


def _best(best: Match, equals: int) -> str:
    of = "your own term" if best.vocabulary == "local" else "the term"
    if best.stage == "exact":
        rivals = f", and so do {equals} of the other candidates" if equals else ""
        return f"It equals {of} {best.term!r}, but for case, accents and punctuation{rivals}."
    return (
        f"The best score, {best.score:.3f}, is that of {of} {best.term!r}, found "
        f"{_FOUND_BY[best.stage]} (cosine {_number(best.cosine)}, similarity of letters "
        f"{_number(best.similarity)})."
    )


def _next(others: Sequence[Match]) -> list[str]:
    if not others:
        return ["There is no other candidate."]
    second = others[0]
    return [f"The next, {second.name} ({second.concept}), has {second.score:.3f}."]


def _verdict(answer: Answer) -> str:
    sure, least = f"{answer.confidence:.3f}", f"{answer.threshold:.3f}"
    if answer.matches:
        return f"Its confidence of {sure} reaches the threshold of {least}."
    return f"Its confidence of {sure} is below the threshold of {least}: no match."


def _match(one: Match, *, explain: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "concept": one.concept,
        "name": one.name,
        "term": one.term,
        "language": one.language,
        "source": one.vocabulary,
        "codes": [code._asdict() for code in one.codes],
        "confidence": round(one.confidence, _DIGITS),
        "stage": one.stage,
    }
    if explain:
        scores = {"cosine": one.cosine, "similarity": one.similarity, "score": one.score}
        entry |= {name: _rounded(value) for name, value in scores.items()}
    return entry


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
