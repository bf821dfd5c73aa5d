"""Reports: the tables of the paper with one's own rows in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from medcoder.evaluate.base import Prediction
from medcoder.evaluate.report.cases import cases
from medcoder.evaluate.report.measured import entries
from medcoder.evaluate.report.others import others
from medcoder.evaluate.report.paper import paper
from medcoder.evaluate.report.summary import summary
from medcoder.evaluate.report.table import Table, indexed
from medcoder.evaluate.scores import Score
from medcoder.registry import Registry

FORMATS = Registry(
    "format of reports",
    {
        "md": "medcoder.evaluate.report.markdown:markdown",
        "latex": "medcoder.evaluate.report.latex:latex",
        "html": "medcoder.evaluate.report.html:html",
    },
)
__all__ = ["FORMATS", "Table", "report", "tables", "write"]


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
