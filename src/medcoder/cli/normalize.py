"""`medcoder normalize`: answers for people and for programs, and what decided them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.cli.command import NOTHING_FOUND, command
from medcoder.cli.console import add_row, errors, line, new_table, out, print_json_lines
from medcoder.cli.open import open_index
from medcoder.cli.options import AsJson, Index, name_list
from medcoder.cli.texts import File, Texts, given
from medcoder.normalize.stages import STAGES
from medcoder.text import clean
from medcoder.types import Answer, Match

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer

_KEYS = ("concept", "name", "term", "language", "source", "codes", "confidence", "stage")
_SCORES = ("cosine", "similarity", "score")
_DIGITS = 6
_LONGEST = 120  # characters of a string that are shown
EXAMPLES = """
[bold]Examples[/bold]

  medcoder normalize "heart attack" "dolor de espalda"

  medcoder normalize --file column.txt --json > answers.jsonl

  medcoder normalize "MI" --top 5 --vocabularies ICD10CM --explain
"""


@command
def normalize(
    texts: Texts = None,
    file: File = None,
    index: Index = None,
    top: Annotated[int, typer.Option(min=1, max=1000, help="Concepts for each string.")] = 1,
    types: Annotated[
        str | None, typer.Option(help="Only concepts of these semantic types, by id or name.")
    ] = None,
    vocabularies: Annotated[
        str | None, typer.Option(help="Only concepts with a code in these, as in: ICD10CM,HP.")
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="Only terms in these count, as in: en,es.")
    ] = None,
    stages: Annotated[
        str | None, typer.Option(help="Which look for candidates: code,exact,dense,ngram.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Least confidence of a match. Default: the index's own."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show scores, codes and what decided.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the concepts that strings mean: arguments, lines of a file or of standard input."""
    from medcoder.normalize.normalizer import each_once

    options: dict[str, Any] = {
        "types": name_list("--types", types),
        "vocabularies": name_list("--vocabularies", vocabularies),
        "languages": name_list("--languages", languages),
        "threshold": threshold,
        # The runner-up is part of an explanation.
        "top": max(top, 2) if explain else top,
    }
    if stages is not None:
        options["stages"] = name_list("--stages", stages)
    asked, matched = 0, False
    with given(texts, file, doing="normalising") as batches, open_index(index) as normalizer:
        _tell_of_lost_terms(normalizer)
        for some in each_once(batches, lambda new: normalizer.normalize_many(new, **options)):
            asked, matched = asked + len(some), matched or any(some)
            if as_json:
                print_json_lines(as_dict(answer, top, explain=explain) for answer in some)
            elif explain:
                show_reasons(some, top)
            else:
                show_table(some, codes=vocabularies is not None)
    if not asked:
        line("there were no strings to look up", console=errors())
    if not matched:
        raise typer.Exit(NOTHING_FOUND)


def _tell_of_lost_terms(normalizer: Normalizer) -> None:
    lost = normalizer.custom_terms.lost
    if lost:
        line(
            f"{len(lost):,} custom terms are of concepts that the graph lacks, the first: "
            f"{lost[0].term!r} of {lost[0].concept}. See: medcoder terms list",
            console=errors(),
        )


def as_dict(answer: Answer, top: int, *, explain: bool) -> dict[str, Any]:
    """An answer as one line of JSON has it."""
    keys = _KEYS + _SCORES if explain else _KEYS
    entry: dict[str, Any] = {
        "query": answer.query,
        "matches": [match.as_dict(keys, digits=_DIGITS) for match in answer.matches[:top]],
        "rejected": [match.as_dict(keys, digits=_DIGITS) for match in answer.rejected[:top]],
        "confidence": round(answer.confidence, _DIGITS),
        "threshold": round(answer.threshold, _DIGITS),
        "reason": answer.reason,
    }
    return entry | ({"why": why(answer)} if explain else {})


def show_table(answers: Sequence[Answer], *, codes: bool) -> None:
    """A table: one row a concept, and "no match" where the best was not likely enough."""
    headers = ["query", "concept", "name", "matched term", "confidence", "stage"]
    table = new_table(*headers, *(["codes"] if codes else []))
    for answer in answers:
        query = _short(answer.query)
        if not answer.candidates:
            add_row(table, query, "no match", answer.reason)
        for position, match in enumerate(answer.candidates):
            kept = bool(answer.matches)
            cells = [
                query if position == 0 else "",
                match.concept if kept else "no match" if position == 0 else "",
                match.name if kept else _rejected(answer, match),
                match.term,
                f"{match.confidence:.2f}",
                match.stage,
            ]
            add_row(
                table, *cells, *([", ".join(code.curie for code in match.codes)] if codes else [])
            )
    out().print(table)


def show_reasons(answers: Sequence[Answer], top: int) -> None:
    """A paragraph for each answer: the candidates with their scores, and what decided."""
    for answer in answers:
        verdict = "" if answer.matches else "  no match"
        line((_short(answer.query) or "(empty)", "bold"), (verdict, "yellow"))
        for match in answer.candidates[:top]:
            mark = "" if answer.matches else "rejected: "
            line(f"  {mark}{match.concept}  {match.name}")
            of = ", ".join(filter(None, (match.language, match.vocabulary)))
            line(("    term        ", "dim"), f"{match.term} ({of})")
            line(
                ("    codes       ", "dim"), ", ".join(code.curie for code in match.codes) or "none"
            )
            scores = (
                f"{match.confidence:.3f}, score {match.score:.3f}, cosine {_number(match.cosine)}, "
                f"similarity {_number(match.similarity)}, stage {match.stage}"
            )
            line(("    confidence  ", "dim"), scores)
        line(f"  {why(answer)}")


def why(answer: Answer) -> str:
    """What decided, in a sentence or three."""
    if not answer.candidates:
        if not clean(answer.query):
            return "Nothing is left of the string without spaces and control characters."
        if answer.reason:
            return f"It is {answer.reason}."
        return "No term that may be answered with has anything in common with it."
    best, *others = answer.candidates
    if answer.reason:
        return f"It is {answer.reason}. What is nearest says nothing."
    return " ".join(
        [
            _best(best, sum(STAGES.load(match.stage).measure is None for match in others)),
            *_next(others),
            _verdict(answer),
        ]
    )


def _best(best: Match, equals: int) -> str:
    of = "your own term" if best.vocabulary == "local" else "the term"
    if best.stage == "code":
        rivals = f", and {equals} of the other candidates may be meant as well" if equals else ""
        return f"It is a code of {best.name!r}{rivals}."
    if best.stage == "exact":
        rivals = f", and so do {equals} of the other candidates" if equals else ""
        return f"It equals {of} {best.term!r}, but for case, accents and punctuation{rivals}."
    return (
        f"The best score, {best.score:.3f}, is that of {of} {best.term!r}, found "
        f"{STAGES.load(best.stage).label} (cosine {_number(best.cosine)}, similarity of letters "
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


def _rejected(answer: Answer, match: Match) -> str:
    return answer.reason or f"rejected: {match.name} ({match.concept})"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
