"""`medcoder map calibrate`: confidences fitted anew on what people decided in a project."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from medcoder.cli.command import command, progress_bar
from medcoder.cli.console import line, print_json
from medcoder.cli.decisions import Who, person
from medcoder.cli.options import AsJson
from medcoder.cli.projects import Folder, opened_project


def add_to(app: typer.Typer) -> None:
    """Put the command of this file into the group."""
    app.command()(calibrate)


@command
def calibrate(
    folder: Folder,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")
    ] = False,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Go back to the confidences before the last calibration."),
    ] = False,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Fit the confidences anew on what people decided in the project.

    They change only if that is a gain on decisions that the fit has not seen. Decisions never
    change. The results and the report are written again.
    """
    from medcoder.mapping import calibrate as fit
    from medcoder.mapping import undo_calibration, write_results

    with opened_project(folder) as project:
        if undo:
            outcome = undo_calibration(project, dry_run=dry_run)
        else:
            outcome = fit(project, who=person(who), dry_run=dry_run)
        if outcome["changed"]:
            with progress_bar() as progress:
                write_results(project, progress=progress)
        promised = project.meta["precision"]
        place = project.path.parent
    if as_json:
        print_json(outcome)
        return
    if not undo:
        _show_fit(outcome)
    if outcome["threshold"]:
        _show_effect(outcome, promised, dry_run=dry_run)
    if not outcome["changed"]:
        line("nothing was changed")
    elif not undo:
        line(f"decisions stay as they are. Go back with: medcoder map calibrate {place} --undo")
    elif outcome["recalibration"] is None:
        line("the confidences are those of the machine again")
    else:
        line("the confidences are those of the calibration before")


def _show_fit(outcome: dict[str, Any]) -> None:
    from medcoder.mapping.project_calibration import left_out_words
    from medcoder.mapping.promise import percent

    counts, held = outcome["decisions"], outcome["held_out"]
    without = left_out_words(counts["left_out"])
    line(
        f"decisions that count: {counts['counted']:,}, of which {counts['right']:,} chose the "
        "first candidate" + (f"; not counted: {without}" if without else "")
    )
    if not outcome["gain"]:
        line(outcome["reason"])
        return
    error, loss = held["calibration_error"], held["log_loss"]
    line(
        f"on held-out decisions, the calibration error goes from {percent(error['before'])} to "
        f"{percent(error['after'])}, and the log loss from {loss['before']:.4f} to "
        f"{loss['after']:.4f}"
    )


def _show_effect(outcome: dict[str, Any], promised: float, *, dry_run: bool) -> None:
    threshold = outcome["threshold"]
    before, after = (
        "nothing" if threshold[end] is None else f"a confidence of {threshold[end]:.3f} on"
        for end in ("before", "after")
    )
    line(f"automatic at {100 * promised:g}% promised: {after}, before: {before}")
    more, fewer = outcome["become_automatic"], outcome["go_to_review"]
    would = "would " if dry_run else ""
    line(
        f"{would}become automatic: {_terms(more)}; {would}go to review: {_terms(fewer)}; "
        f"automatic then: {_terms(outcome['automatic'])}"
    )


def _terms(count: dict[str, int]) -> str:
    return ", ".join(
        f"{count[name]:,} {name if count[name] != 1 else name[:-1]}" for name in ("terms", "rows")
    )
