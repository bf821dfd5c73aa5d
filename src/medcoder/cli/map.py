"""`medcoder map`: a table to a mapping project, and what keeps it up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from medcoder.cli import calibrate, decisions, projects
from medcoder.cli.command import INTERRUPTED, command, progress_bar
from medcoder.cli.console import errors, line, print_json
from medcoder.cli.open import open_index
from medcoder.cli.options import AsJson, Index, name_list, user_path
from medcoder.cli.projects import Folder
from medcoder.errors import UsageError

_TABLE = "table"
EXAMPLES = """
[bold]Examples[/bold]

  medcoder map ward.csv --column diagnosis --code id --count n --out ward

  medcoder map labs.xlsx --column test --context specimen=hint --context kind=type --out labs

  medcoder map decide ward "hart attack" HP:0001658 --note "as on the chart"

  medcoder map export ward sssom --out ward.sssom.tsv

  medcoder map refresh ward --index umls.index
"""


class _Group(TyperGroup):
    """`medcoder map FILE` is short for `medcoder map table FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_TABLE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Group,
    help="Map a table, then review, export and keep up to date what came of it.",
    no_args_is_help=True,
    epilog=EXAMPLES,
)


@app.command(_TABLE, epilog=EXAMPLES)
@command
def table(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, XLSX or Parquet.")],
    column: Annotated[str, typer.Option(help="Column of the strings to map.")],
    out: Annotated[Path, typer.Option(help="Folder for the project, the results and the report.")],
    code: Annotated[str, typer.Option(help="Column of the local codes.")] = "",
    count: Annotated[str, typer.Option(help="Column that says how often a row occurs.")] = "",
    language: Annotated[str, typer.Option(help="Column of the language of the string.")] = "",
    context: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=ROLE",
            help="A column that restricts its row to a type, vocabulary or language, or is a hint "
            "that re-ranks. May be given several times.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=100, help="Candidates for each row.")] = 5,
    precision: Annotated[
        float, typer.Option(min=0.5, max=0.9999, help="To expect of automatic mappings.")
    ] = 0.98,
    vocabularies: Annotated[
        str | None, typer.Option(help="Only concepts with a code in these, as in: ICD10CM,HP.")
    ] = None,
    targets: Annotated[
        str,
        typer.Option(
            help="Which concepts may be answered with: any, leaf (none below it), billable "
            "(ICD-10-CM) or standard (OMOP)."
        ),
    ] = "any",
    split: Annotated[
        bool | None,
        typer.Option(
            "--split/--no-split",
            help="Answer several things in a cell one by one. By default yes, or as it was begun.",
        ),
    ] = None,
    index: Index = None,
    encoding: Annotated[
        str | None, typer.Option(help="Of a text file, as in: cp1252. Default: UTF-8, or its mark.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Between fields of a text file. Default: by its name.")
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="Sheet of a workbook. Default: first.")] = None,
    keep_bad_rows: Annotated[
        bool,
        typer.Option("--keep-bad-rows", help="Take rows with too many or too few fields unmapped."),
    ] = False,
    source_name: Annotated[str, typer.Option(help="Name of the local code system.")] = "",
    source_uri: Annotated[str, typer.Option(help="Its URI, for exports.")] = "",
    source_version: Annotated[str, typer.Option(help="Its version, for exports.")] = "",
    as_json: AsJson = False,
) -> None:
    """Map a column of a table. The word `table` may be left out.

    The folder gets project.sqlite, a table of results in the format of the input and a report. If
    it was interrupted, the same command goes on where it was.
    """
    from medcoder.mapping import map_table

    roles = dict(map(_role, context or []))
    names = name_list("--vocabularies", vocabularies) or []
    folder = user_path(out)
    try:
        with open_index(index) as normalizer, progress_bar() as progress:
            made = map_table(
                user_path(file), column=column, out=folder, normalizer=normalizer, code=code,
                count=count, language=language, context=roles, top=top, vocabularies=names,
                precision=precision, targets=targets, split=split, encoding=encoding,
                delimiter=delimiter, sheet=sheet,
                source_vocabulary={
                    "name": source_name, "uri": source_uri, "version": source_version
                },
                keep_bad_rows=keep_bad_rows, progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt as error:
        _tell_interrupted(error)
    with made.project() as project:
        projects.show_status(project, as_json=as_json, results=made.file)


@app.command()
@command
def refresh(folder: Folder, index: Index = None, as_json: AsJson = False) -> None:
    """Map a project anew with another index. Decisions stay, and are flagged where need be.

    Terms whose automatic answer is another than before are listed in changed.tsv in the folder.
    """
    from medcoder.mapping import refresh as renew
    from medcoder.mapping import write_results

    try:
        with (
            projects.opened_project(folder) as project,
            open_index(index) as normalizer,
            progress_bar() as progress,
        ):
            outcome = renew(project, normalizer, progress=progress)
            write_results(project, progress=progress)
            recalibrated = bool(project.meta.get("recalibrations"))
    except KeyboardInterrupt as error:
        _tell_interrupted(error)
    if as_json:
        print_json({name: value for name, value in outcome.items() if name != "timing"})
        return
    flagged = {reason: number for reason, number in outcome["flagged"].items() if number}
    why = f" ({', '.join(f'{reason} {number:,}' for reason, number in flagged.items())})"
    line(
        f"{outcome['decisions']:,} decisions kept, {sum(flagged.values()):,} of them flagged"
        f"{why if flagged else ''}"
    )
    changed = outcome["changed"]
    line(
        f"{sum(changed.values()):,} automatic answers changed: {changed['automatic']:,} are "
        f"another concept, {changed['new']:,} are new, {changed['gone']:,} are gone. They are "
        f"listed in {outcome['changed_file']}"
    )
    if recalibrated:
        line(
            "the new confidences are recalibrated like those before. Fit them anew with: medcoder "
            f"map calibrate {folder}"
        )


def _role(text: str) -> tuple[str, Any]:
    column, equals, role = text.rpartition("=")
    if not (equals and column and role):
        raise UsageError(
            "--context is not COL=ROLE", values=repr(text), remedy="Write it as specimen=hint"
        )
    return column, role


def _tell_interrupted(error: KeyboardInterrupt) -> NoReturn:
    line(
        "interrupted: what was mapped is kept. Run the same command again to go on",
        console=errors(),
    )
    raise typer.Exit(INTERRUPTED) from error


projects.add_to(app)
calibrate.add_to(app)
decisions.add_to(app)
