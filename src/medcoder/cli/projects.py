"""Commands of `medcoder map` on a project as a whole: status, report, export, import, learn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from medcoder.cli.command import command, progress_bar
from medcoder.cli.console import add_row, errors, line, new_table, out, print_json
from medcoder.cli.open import open_graph
from medcoder.cli.options import AsJson, Graph, Index, user_path

if TYPE_CHECKING:
    from medcoder.mapping import Project
    from medcoder.mapping.formats import Direction, Option
    from medcoder.mapping.promise import Promise

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the project.")]


@contextlib.contextmanager
def opened_project(folder: Path) -> Iterator[Project]:
    from medcoder.mapping import Project

    with Project.open(user_path(folder)) as project:
        yield project


def add_to(app: typer.Typer) -> None:
    """Put the commands of this file into the group."""
    app.command()(status)
    app.command()(report)
    app.command(cls=_ExportCommand)(export)
    app.command("import", cls=_ImportCommand)(import_)
    app.command()(learn)


@command
def status(
    folder: Folder,
    check: Annotated[bool, typer.Option("--check", help="Read all of the file first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say how far a project is."""
    with opened_project(folder) as project:
        if check:
            project.verify()
        show_status(project, as_json=as_json)


@command
def report(
    folder: Folder,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to write to. By default, that of the project."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the table of results and the report again, with what was decided since."""
    from medcoder.mapping import write_results
    from medcoder.mapping.promise import promise

    with opened_project(folder) as project:
        project.check_complete()
        with progress_bar() as progress:
            file = write_results(project, None if to is None else user_path(to), progress=progress)
        kept = promise(project)
    page = file.with_name("report.html")
    if as_json:
        print_json({"results": str(file), "report": str(page), "promise": kept.as_dict()})
        return
    line(f"results in {file}, report in {page}")
    _show_promise_kept(kept)


class _FormatCommand(TyperCommand):
    """A command with the options of all formats, which are looked at when it is called.

    Before that, they would slow down the start of every other command.
    """

    direction: Direction
    _of_formats: list[Any] | None = None

    @property
    def params(self) -> list[Any]:
        if self._of_formats is None:
            from medcoder.mapping.formats import all_options, format_names

            self._of_formats = _parameters(all_options(self.direction))
            self._params += self._of_formats
            *names, last = format_names(self.direction)
            for parameter in self._params:
                if parameter.name == "format":
                    parameter.help = f"{', '.join(names)} or {last}."
        return self._params

    @params.setter
    def params(self, own: list[Any]) -> None:
        self._params, self._of_formats = list(own), None

    def invoke(self, ctx: Any) -> Any:
        given = {option.name: ctx.params.pop(option.name) for option in self._of_formats or ()}
        ctx.obj = {
            name: value for name, value in given.items() if value is not None and value is not False
        }
        return super().invoke(ctx)


class _ExportCommand(_FormatCommand):
    direction = "export"


class _ImportCommand(_FormatCommand):
    direction = "load"


def _expanded(options: dict[str, Any]) -> dict[str, Any]:
    """Options with a leading ~ of a path expanded."""
    return {
        name: user_path(value) if isinstance(value, Path) else value
        for name, value in options.items()
    }


def _parameters(options: Sequence[Option]) -> list[Any]:
    """Options of formats as those of a command."""

    def nothing() -> None:
        """Only its parameters are looked at."""

    def parameter(option: Option) -> Parameter:
        kind: Any = bool if option.type is bool else option.type | None
        name = f"--{option.name.replace('_', '-')}"
        said = typer.Option(name, help=f"{', '.join(option.formats)}: {option.help}.")
        default = False if option.type is bool else None
        return Parameter(
            option.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, said]
        )

    made = [parameter(option) for option in options]
    nothing.__signature__ = Signature(made)  # type: ignore[attr-defined]
    nothing.__annotations__ = {entry.name: entry.annotation for entry in made}
    app = typer.Typer(add_completion=False)
    app.command()(nothing)
    return list(typer.main.get_command(app).params)


@command
def export(
    ctx: typer.Context,
    folder: Folder,
    format: Annotated[str, typer.Argument(metavar="FORMAT")],
    to: Annotated[Path, typer.Option("--out", help="File to write.")],
    as_json: AsJson = False,
) -> None:
    """Write a project in a format of others; what that cannot hold is said."""
    from medcoder.mapping.formats import export as write

    path = user_path(to)
    with opened_project(folder) as project, progress_bar() as progress:
        notes = write(project, format, path, progress=progress, **_expanded(ctx.obj))
    if as_json:
        print_json({"file": str(path), "notes": notes})
        return
    line(f"written to {path}")
    for note in notes:
        line(f"note: {note}", console=errors())


@command
def import_(
    ctx: typer.Context,
    folder: Folder,
    format: Annotated[str, typer.Argument(metavar="FORMAT")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to read.")],
    kg: Graph = None,
    as_json: AsJson = False,
) -> None:
    """Take over decisions that were made elsewhere."""
    from dataclasses import asdict

    from medcoder.mapping.formats import load

    with opened_project(folder) as project, open_graph(kg) as graph:
        taken = asdict(load(project, format, user_path(file), kg=graph, **_expanded(ctx.obj)))
    if as_json:
        print_json(taken)
        return
    line(
        f"{taken['decided']:,} decisions taken over, {taken['same']:,} were there, "
        f"{taken['flagged']:,} are flagged, {taken['undecided']:,} records decide nothing"
    )
    for what, name in (("kept as they are here", "kept"), ("not in the project", "absent")):
        if taken[name]:
            first = ", ".join(taken[name][:5])
            line(f"{len(taken[name]):,} {what}, the first: {first}", console=errors())
    for note in taken["notes"]:
        line(f"note: {note}", console=errors())


@command
def learn(folder: Folder, index: Index = None, as_json: AsJson = False) -> None:
    """Make approved, equivalent pairs custom terms of an index: it will know them from now on."""
    from medcoder.cli.terms import custom_terms, graph_of
    from medcoder.mapping.refresh import learn as add_learned

    file = custom_terms(index)
    with opened_project(folder) as project, open_graph(graph_of(index)) as graph:
        counts = add_learned(project, graph, file)
    if as_json:
        print_json(counts | {"file": str(file)})
        return
    others = ", ".join(
        f"{number:,} {name}" for name, number in counts.items() if number and name != "added"
    )
    line(f"{counts['added']:,} terms added to {file}" + (f" ({others})" if others else ""))


def show_status(project: Project, *, as_json: bool, results: Path | None = None) -> None:
    """Counts by status, and what may be expected of automatic mappings."""
    from medcoder.mapping.project_table import is_old
    from medcoder.mapping.promise import promise

    kept = promise(project)
    meta, counts = project.meta, project.counts()
    old = bool(meta.get("complete")) and is_old(project)
    if as_json:
        named = {"results": str(results)} if results else {}
        print_json(
            {
                "project": str(project.path),
                **named,
                "counts": counts,
                "meta": meta,
                "agreement": project.agreement(),
                "promise": kept.as_dict(),
                "results_are_old": old,
            }
        )
        return
    table = new_table("status", "terms", "rows", "count")
    for name, count in counts.items():
        add_row(table, name, *(f"{count[part]:,}" for part in ("terms", "rows", "count")))
    for column in table.columns[1:]:
        column.justify = "right"
    out().print(table)
    _show_promise(meta)
    _show_promise_kept(kept)
    for column, values in meta["unknown_context"].items():
        first = ", ".join(map(repr, list(values)[:5]))
        line(
            f"{sum(values.values()):,} rows have a {column} that the index does not know, and are "
            f"not restricted by it: {first}"
        )
    if meta["bad_rows"]:
        line(f"rows with a wrong number of fields, which are not mapped: {meta['bad_rows']:,}")
    if not meta["complete"]:
        line("it is not mapped to its end: run the same command again to go on", console=errors())
    if old:
        line(
            "the table of results and the report lack the last decisions. Write them again with: "
            f"medcoder map report {project.path.parent}",
            console=errors(),
        )
    if results is not None:
        line(f"results in {results}, project in {project.path}")


def _show_promise_kept(kept: Promise) -> None:
    if kept.words:
        line(kept.words)
    if kept.broken:
        line(("warning:", "yellow"), f" {kept.warning}", console=errors())


def _show_promise(meta: dict[str, Any]) -> None:
    if not meta["complete"]:
        return
    promised = f"{100 * meta['precision']:g}%"
    if meta["threshold"] is None:
        line(f"nothing is mapped automatically: no set of rows promises {promised} precision")
        return
    expected = f"{100 * min(meta['expected'].values()):.1f}%"
    line(
        f"automatic from a confidence of {meta['threshold']:.3f} on: precision of {expected} to "
        f"expect, {promised} promised"
    )
    if meta.get("recalibrations"):
        made = meta["recalibrations"][-1]
        line(
            f"confidences were fitted anew on {made['decisions']:,} decisions by {made['who']} on "
            f"{made['when'][:10]}"
        )
