"""Reports: the tables of the paper with one's own rows in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from medcoder.evaluate.protocols import Prediction
from medcoder.evaluate.report.more_tables import cases, others, read_cases, summary
from medcoder.evaluate.report.paper_tables import paper
from medcoder.evaluate.report.table import Table, entries, indexed, seedless
from medcoder.evaluate.results import Score, scores_of
from medcoder.registry import Registry

FORMATS = Registry(
    "format of reports",
    {
        "md": "medcoder.evaluate.report.render:markdown",
        "latex": "medcoder.evaluate.report.render:latex",
        "html": "medcoder.evaluate.report.render:html",
    },
)
__all__ = ["FORMATS", "Table", "report", "run_report", "seedless", "tables", "write"]


def tables(
    scores: Iterable[Score],
    *,
    cases_of: Mapping[str, Sequence[Prediction]] | None = None,
    complete: bool = True,
) -> list[Table]:
    """All tables that have a row, in the order of the paper.

    cases_of: what each embedding answered in the case studies, by its name
    complete: also tables of the paper for which nothing was measured
    """
    measured = list(scores)
    some = entries(measured)
    studies = cases(some, cases_of or {}, complete=complete)
    made = [*paper(some), *others(some), *studies, summary(measured)]
    return indexed([t for t in made if t.rows and t.columns and (complete or t.measured)])


def write(tables: Iterable[Table], *, format: str = "md") -> str:
    """Tables as text; FORMATS has what there is."""
    text: str = FORMATS.load(format)(tables)
    return text


def report(
    scores: Iterable[Score],
    *,
    format: str = "md",
    cases_of: Mapping[str, Sequence[Prediction]] | None = None,
    complete: bool = True,
) -> str:
    """All tables as text."""
    return write(tables(scores, cases_of=cases_of, complete=complete), format=format)


def run_report(folder: Path, *, format: str = "md", complete: bool = True) -> str:
    """All tables of what a run left in a folder, as text."""
    scores = scores_of(folder)
    cases_of = read_cases(folder, scores)
    return report(scores, format=format, cases_of=cases_of, complete=complete)
