"""`medcoder normalize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.cli import answers, opened, parse
from medcoder.cli.lines import errors, line, print_json_lines
from medcoder.cli.run import NOTHING_FOUND, AsJson, Index, command
from medcoder.cli.texts import File, Texts, given

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer

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
        str | None, typer.Option(help="Which look for candidates: exact,dense,ngram.")
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
        "types": parse.names("--types", types),
        "vocabularies": parse.names("--vocabularies", vocabularies),
        "languages": parse.names("--languages", languages),
        "threshold": threshold,
        # The runner-up is part of an explanation.
        "top": max(top, 2) if explain else top,
    }
    if stages is not None:
        options["stages"] = parse.names("--stages", stages)
    asked, matched = 0, False
    with given(texts, file, doing="normalising") as batches, opened.opened_index(index) as found:
        _tell_of_lost_terms(found)
        for some in each_once(batches, lambda new: found.normalize_many(new, **options)):
            asked, matched = asked + len(some), matched or any(some)
            if as_json:
                print_json_lines(answers.as_dict(one, top, explain=explain) for one in some)
            elif explain:
                answers.explain(some, top)
            else:
                answers.show(some, codes=vocabularies is not None)
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
