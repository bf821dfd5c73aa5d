"""`medcoder terms`: a user's own terms, beside an index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.artefact import read_meta
from medcoder.cli.command import NOTHING_FOUND, command
from medcoder.cli.console import add_row, errors, line, new_table, out, print_json
from medcoder.cli.open import open_graph
from medcoder.cli.options import AsJson, Index, user_path
from medcoder.errors import InputError, UsageError

if TYPE_CHECKING:
    from medcoder.kg import KG
    from medcoder.normalize.custom_terms import CustomTerm

app = typer.Typer(
    help="Keep terms of your own beside an index: they survive its being built again.",
    no_args_is_help=True,
)

_EXAMPLES = """
[bold]Examples[/bold]

  medcoder terms add "ticker trouble" HP:0001658

  medcoder terms add --file ward-terms.csv --index umls.index
"""


@app.command(epilog=_EXAMPLES)
@command
def add(
    term: Annotated[str | None, typer.Argument(metavar="TERM", help="The term.")] = None,
    concept: Annotated[
        str | None, typer.Argument(metavar="CONCEPT", help="Id of the concept it means.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Table of terms: term, concept and perhaps language.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language of the term, as in: es.")] = None,
    index: Index = None,
    as_json: AsJson = False,
) -> None:
    """Add a term, or a table of terms."""
    from medcoder.normalize.custom_terms import CustomTerm, add_terms

    if (file is None) == (term is None) or (term is None) != (concept is None):
        raise UsageError("give either a term and the id of its concept, or --file TABLE")
    if file is not None:
        if language is not None:
            raise UsageError("a table has its own column of languages: leave out --language")
        terms = _read(user_path(file))
    else:
        terms = [CustomTerm(term or "", concept or "", language or "")]
    table = custom_terms(index)
    with open_graph(graph_of(index)) as graph:
        added = add_terms(table, graph, terms)
    if as_json:
        print_json({"added": added, "known": len(terms) - added, "file": str(table)})
    else:
        known = f", {len(terms) - added:,} known already" if added < len(terms) else ""
        line(f"{added:,} added to {table}{known}")


@app.command("list")
@command
def list_terms(index: Index = None, as_json: AsJson = False) -> None:
    """List your own terms, and say which are of concepts that the graph lacks."""
    from medcoder.normalize.custom_terms import read_terms

    path = custom_terms(index)
    terms = read_terms(path)
    if not terms:
        if as_json:
            print_json([])
        else:
            line(f"no terms in {path}", console=errors())
        raise typer.Exit(NOTHING_FOUND)
    with open_graph(graph_of(index)) as graph:
        entries = [_entry(graph, term) for term in terms]
    if as_json:
        print_json(entries)
        return
    table = new_table("term", "concept", "name", "language")
    for entry in entries:
        name = entry["name"] if entry["name"] is not None else "(not in the graph)"
        add_row(table, entry["term"], entry["concept"], name, entry["language"])
    out().print(table)


@app.command()
@command
def remove(
    term: Annotated[str, typer.Argument(metavar="TERM", help="The term.")],
    concept: Annotated[
        str | None, typer.Option(metavar="ID", help="Only as a term of this concept.")
    ] = None,
    index: Index = None,
    as_json: AsJson = False,
) -> None:
    """Remove a term of your own, whatever its case, accents and punctuation."""
    from medcoder.normalize.custom_terms import remove_terms

    table = custom_terms(index)
    removed = remove_terms(table, term, concept)
    if as_json:
        print_json({"removed": removed, "file": str(table)})
    elif removed:
        line(f"{removed:,} removed from {table}")
    else:
        line(f"nothing found for {term!r} in {table}", console=errors())
    if not removed:
        raise typer.Exit(NOTHING_FOUND)


def custom_terms(index: Path | None) -> Path:
    """The table beside an index; the bundled index keeps its table in MEDCODER_HOME."""
    from medcoder.bundled.graph import bundled_terms
    from medcoder.normalize.build import KIND
    from medcoder.normalize.custom_terms import custom_terms_file

    if index is None:
        return bundled_terms()
    read_meta(user_path(index), kind=KIND)
    return custom_terms_file(user_path(index))


def graph_of(index: Path | None) -> Path | None:
    """The graph of an index. The bundled graph exists before its index is built."""
    from medcoder.normalize.build import KG_PART

    return None if index is None else user_path(index) / KG_PART


def _read(file: Path) -> list[CustomTerm]:
    from medcoder.normalize.custom_terms import read_terms

    if not file.exists():
        raise InputError("does not exist", file=file, remedy="Check the path")
    terms = read_terms(file)
    if not terms:
        raise InputError("it holds no terms", file=file, remedy="Give it a row for each term")
    return terms


def _entry(graph: KG, term: CustomTerm) -> dict[str, Any]:
    name = graph.preferred(term.concept) if term.concept in graph else None
    return {**term._asdict(), "name": name}
