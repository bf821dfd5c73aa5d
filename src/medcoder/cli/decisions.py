"""Commands of `medcoder map` on single source terms: show, decide, undo, history."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from medcoder.cli.command import NOTHING_FOUND, command
from medcoder.cli.console import add_row, errors, line, new_table, out, print_json, print_json_lines
from medcoder.cli.open import open_graph
from medcoder.cli.options import AsJson, Index
from medcoder.cli.projects import Folder, opened_project
from medcoder.errors import NotFound, UsageError

if TYPE_CHECKING:
    from medcoder.mapping.project.records import Event, TermMapping
    from medcoder.types import Code

_WHERE = "Number of a row, or the text."
Where = Annotated[str, typer.Argument(metavar="ROW|TEXT", help=_WHERE)]
SomeWhere = Annotated[str | None, typer.Argument(metavar="[ROW|TEXT]", help=_WHERE)]
Who = Annotated[
    str | None,
    typer.Option(envvar="MEDCODER_WHO", help="Who decides. Default: your name on this machine."),
]
Seen = Annotated[
    int | None,
    typer.Option("--version", help="The version that you saw: refused if it has another now."),
]
Note = Annotated[str, typer.Option(help="Why, for those who come after.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands of this file into the group."""
    for function in (show, decide, undo, history):
        app.command()(function)


@command
def show(
    folder: Folder,
    where: SomeWhere = None,
    status: Annotated[
        str | None, typer.Option(help="Only auto, review, none, approved or flagged.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            help="Which come first: by count, by doubt (most rows likely wrong), by confidence "
            "(least), or by row."
        ),
    ] = "count",
    limit: Annotated[int, typer.Option(min=1, help="Source terms at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a source term with its candidates, or the terms of a status that matter most."""
    from medcoder.mapping.columns import listed_columns, values
    from medcoder.mapping.project.queue import page

    with opened_project(folder) as project:
        if where is not None:
            mappings: tuple[TermMapping, ...] = (project.mapping(_where(where)),)
        else:
            mappings = page(project, status=cast(Any, status), by=cast(Any, by), limit=limit).terms
    if as_json:
        print_json_lines([mapping.as_dict() for mapping in mappings])
    elif where is not None:
        _show_term(mappings[0])
    else:
        more = listed_columns()
        names = (column.name for column in more)
        table = new_table("row", "text", "status", "concept", "name", "confidence", *names)
        for mapping in mappings:
            best: Any = mapping.targets or mapping.leading
            concept = "|".join(target.concept for target in best)
            name = "|".join(target.name for target in best)
            add_row(
                table, f"{mapping.row.number:,}", mapping.row.text, mapping.status, concept, name,
                f"{mapping.confidence:.2f}", *map(_cell, values(mapping, more)),
            )  # fmt: skip
        out().print(table)
    if not mappings:
        raise typer.Exit(NOTHING_FOUND)


@command
def decide(
    folder: Folder,
    where: Where,
    concept: Annotated[
        str | None, typer.Argument(metavar="[CONCEPT]", help="Id of the concept it means.")
    ] = None,
    no_match: Annotated[
        bool, typer.Option("--no-match", help="There is no concept for it.")
    ] = False,
    equivalence: Annotated[
        str | None,
        typer.Option(
            help="What the concept is to the text: equivalent, broader, narrower or related."
        ),
    ] = None,
    note: Note = "",
    who: Who = None,
    version: Seen = None,
    index: Index = None,
    as_json: AsJson = False,
) -> None:
    """Decide what a source term means; all rows that repeat it share the decision."""
    if (concept is None) != no_match:
        raise UsageError("give either the id of a concept, or --no-match")
    with opened_project(folder) as project:
        term = _where(where)
        name, codes = _name_of(project.mapping(term), concept, index)
        made = project.decide(
            term, concept, who=person(who), name=name, codes=codes, note=note,
            equivalence=cast(Any, equivalence), expected_version=version,
        )  # fmt: skip
    if as_json:
        print_json(asdict(made))
    else:
        target = "no match" if made.concept is None else f"{made.concept} {made.name}"
        line(f"{where}: {made.equivalence}, {target} (version {made.version})")


@command
def undo(
    folder: Folder,
    where: SomeWhere = None,
    note: Note = "",
    who: Who = None,
    version: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Go back to before the last decision on a term; without one, before your last decision."""
    with opened_project(folder) as project:
        term = None if where is None else _where(where)
        event = project.undo(term, who=person(who), note=note, expected_version=version)
    if as_json:
        print_json(asdict(event))
    else:
        line(f"{event.text}: {_stands(event)} (version {event.version})")


@command
def history(folder: Folder, where: SomeWhere = None, as_json: AsJson = False) -> None:
    """List what was decided, undone and flagged, oldest first."""
    with opened_project(folder) as project:
        events = project.history(None if where is None else _where(where))
        if as_json:
            for event in events:
                print_json(asdict(event))
            return
        table = new_table("when", "who", "what", "row", "text", "stands after it", "note")
        for event in events:
            add_row(
                table, event.when, event.who, event.action, f"{event.row:,}", event.text,
                _stands(event), event.note,
            )  # fmt: skip
    if not table.row_count:
        line("nothing was decided yet", console=errors())
        raise typer.Exit(NOTHING_FOUND)
    out().print(table)


def _where(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def person(name: str | None) -> str:
    """The name that was given, or that of the user of this machine."""
    try:
        return name or getpass.getuser()
    except (OSError, KeyError) as error:  # no such user in this container
        raise UsageError("who decides?", remedy="Give a name with --who") from error


def _name_of(
    mapping: TermMapping, concept: str | None, index: Path | None
) -> tuple[str, tuple[Code, ...]]:
    """Name and codes of a concept that is no candidate, from the graph of the index."""
    if concept is None or any(match.concept == concept for match in mapping.candidates):
        return "", ()
    from medcoder.cli.terms import graph_of

    with open_graph(graph_of(index)) as graph:
        if concept not in graph:
            raise NotFound(
                "the concept is no candidate and not in the graph",
                values=concept,
                remedy="Look it up with: medcoder kg find",
            )
        return graph.preferred(concept), tuple(graph.codes_of(concept))


def _cell(value: str | float | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:g}"


def _stands(event: Event) -> str:
    made = event.decision
    if made is None:
        return "nothing decided"
    target = made.equivalence if made.concept is None else f"{made.equivalence}: {made.concept}"
    return f"{target}, flagged" if event.flag else target


def _show_term(mapping: TermMapping) -> None:
    row, made = mapping.row, mapping.decision
    line((row.text, "bold"), f"  row {row.number:,}, {mapping.status}, version {mapping.version}")
    if made is not None:
        target = "" if made.concept is None else f" {made.concept} {made.name}"
        line(f"  {made.equivalence}{target}, by {made.who} on {made.when} {made.note}".rstrip())
    if mapping.flag:
        line((f"  {mapping.flag}", "yellow"))
    _show_said(mapping)
    table = new_table("", "concept", "name", "matched term", "confidence")
    for rank, match in enumerate(mapping.candidates, 1):
        confidence = f"{match.confidence:.2f}"
        add_row(table, f"{rank}", match.concept, match.name, match.term, confidence)
    out().print(table)


def _show_said(mapping: TermMapping) -> None:
    """What the machine says beside the candidates."""
    from medcoder.mapping.columns import said

    if mapping.review:
        line((f"  a person must look: {mapping.review}", "yellow"))
    if words := said(mapping):
        line(f"  said: {words}")
    for step in mapping.said.steps:
        line((f"  {step}", "dim"))
    of_span = {match.span: match for match in reversed(mapping.candidates)}
    for part in mapping.said.parts:
        best = of_span.get(part.span)
        meant = f"{best.concept} {best.name}" if best and part.status != "none" else "no match"
        line((f"  {part.text}", "bold"), f": {meant} ({part.confidence:.2f})")
