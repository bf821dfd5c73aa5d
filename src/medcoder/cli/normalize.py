"""`medcoder normalize`: answers for people and for programs, and what decided them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.cli.command import NOTHING_FOUND, command
from medcoder.cli.console import add_row, errors, line, new_table, out, print_json_lines
from medcoder.cli.open import open_index
from medcoder.cli.options import AsJson, Index, name_list
from medcoder.cli.texts import File, Texts, given
from medcoder.normalize.reasons import in_words
from medcoder.normalize.stages import STAGES
from medcoder.text import clean
from medcoder.types import Answer, Attribute, Match

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer

_KEYS = (
    "concept", "name", "term", "language", "source", "codes", "confidence", "stage", "attributes",
    "span", "twins",
)  # fmt: skip
_SCORES = ("cosine", "similarity", "score")
_DIGITS = 6
_LONGEST = 120  # characters of a string that are shown
EXAMPLES = """
[bold]Examples[/bold]

  medcoder normalize "heart attack" "dolor de espalda"

  medcoder normalize --file column.txt --json > answers.jsonl

  medcoder normalize "MI" --top 5 --vocabularies ICD10CM --explain

  medcoder normalize "VUR, OME, s/p BMT 2014" --split --targets billable
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
    targets: Annotated[
        str, typer.Option(help="Only such concepts: leaf, billable, standard; or any.")
    ] = "any",
    stages: Annotated[
        str | None, typer.Option(help=f"Which look for candidates: {','.join(STAGES)}.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Least confidence of a match. Default: the index's own."),
    ] = None,
    split: Annotated[
        bool, typer.Option("--split", help="Answer several things in a string one by one.")
    ] = False,
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
        "targets": targets,
        "threshold": threshold,
        "split": split,
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
        "status": answer.status,
        "matches": [_as_dict(match, keys) for match in _shown(answer, top)],
        "rejected": [_as_dict(match, keys) for match in answer.rejected[:top]],
        "confidence": round(answer.confidence, _DIGITS),
        "threshold": round(answer.threshold, _DIGITS),
        "reason": answer.reason,
        "review": answer.review,
        "steps": list(answer.steps),
        "span": answer.span and list(answer.span),
        "parts": [as_dict(part, top, explain=explain) for part in answer.parts],
    }
    return entry | ({"why": why(answer)} if explain else {})


def _as_dict(match: Match, keys: Sequence[str]) -> dict[str, Any]:
    entry = match.as_dict(keys, digits=_DIGITS)
    if keys == _KEYS:
        return entry
    weighed = {name: round(part, _DIGITS) for name, part in match.weighed.items()}
    return entry | {"weighed": {name: part for name, part in weighed.items() if part}}


def _shown(answer: Answer, top: int) -> Sequence[Match]:
    """The matches of an answer; of one that is split, the best of each part."""
    return answer.matches if answer.parts else answer.matches[:top]


def show_table(answers: Sequence[Answer], *, codes: bool) -> None:
    """A table: one row a concept, and "no match" where the best was not likely enough."""
    headers = ["query", "concept", "name", "matched term", "confidence", "stage"]
    table = new_table(*headers, *(["codes"] if codes else []))
    for answer in answers:
        if answer.parts:
            add_row(table, _short(answer.query), f"{len(answer.parts)} things", answer.review)
        for part in answer.parts or (answer,):
            for cells in _rows(part, of_part=bool(answer.parts), codes=codes):
                add_row(table, *cells)
    out().print(table)


def _rows(answer: Answer, *, of_part: bool, codes: bool) -> Iterator[list[str]]:
    """The rows of an answer in the table."""
    query = f"  {_short(answer.query)}" if of_part else _short(answer.query)
    if not answer.candidates:
        yield [query, "no match", answer.reason]
    for position, match in enumerate(answer.candidates):
        first, kept = position == 0, bool(answer.matches)
        cells = [
            query if first else "",
            match.concept if kept else "no match" if first else "",
            _named(answer, match, first) if kept else _rejected(answer, match),
            match.term,
            f"{match.confidence:.2f}",
            match.stage,
        ]
        yield cells + ([", ".join(code.curie for code in match.codes)] if codes else [])


def _named(answer: Answer, match: Match, first: bool) -> str:
    return f"{match.name} (to review: {answer.review})" if first and answer.review else match.name


def show_reasons(answers: Sequence[Answer], top: int) -> None:
    """A paragraph for each answer: the candidates with their scores, and what decided."""
    for answer in answers:
        verdict = {"match": "", "review": "  to review", "none": "  no match"}[answer.status]
        line((_short(answer.query) or "(empty)", "bold"), (verdict, "yellow"))
        for step in answer.steps:
            line(("    first       ", "dim"), step)
        if answer.parts:
            show_reasons(answer.parts, top)
            continue
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
            for part, reason in in_words(match.weighed):
                line(("    weighs      ", "dim"), f"{part:+.2f}  {reason}")
            if match.attributes:
                line(("    said of it  ", "dim"), ", ".join(map(said, match.attributes)))
            if match.twins:
                line(("    the same    ", "dim"), ", ".join(match.twins))
        line(f"  {why(answer)}")


def said(attribute: Attribute) -> str:
    """An attribute in words: left (R), history (h/o)."""
    return f"{attribute.value or attribute.kind} ({attribute.text})"


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
    if best.stage == "abbreviation":
        return f"With its abbreviations written out, {of} {best.term!r} is found."
    if best.stage == "slip":
        return f"But for a slip in a word, it is {of} {best.term!r}."
    if best.stage == "exact":
        rivals = f", and so do {equals} of the other candidates" if equals else ""
        return f"It equals {of} {best.term!r}, but for case, accents and punctuation{rivals}."
    return (
        f"What speaks most is for {of} {best.term!r}, found "
        f"{STAGES.load(best.stage).label} (cosine {_number(best.cosine)}, similarity of letters "
        f"{_number(best.similarity)})."
    )


def _next(others: Sequence[Match]) -> list[str]:
    if not others:
        return ["There is no other candidate."]
    second = others[0]
    sure = f"{second.confidence:.3f}"
    return [f"The next, {second.name} ({second.concept}), has a confidence of {sure}."]


def _verdict(answer: Answer) -> str:
    sure, least = f"{answer.confidence:.3f}", f"{answer.threshold:.3f}"
    if answer.matches:
        reached = f"Its confidence of {sure} reaches the threshold of {least}"
        return (
            f"{reached}; a person must look: {answer.review}." if answer.review else f"{reached}."
        )
    if answer.review and answer.confidence >= answer.threshold:
        return f"It is no match, and a person must look: {answer.review}."
    return f"Its confidence of {sure} is below the threshold of {least}: no match."


def _rejected(answer: Answer, match: Match) -> str:
    return answer.reason or answer.review or f"rejected: {match.name} ({match.concept})"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
