"""Reports: the tables of the paper with your own rows in them, in several formats.

Formats are GitHub-flavoured Markdown, LaTeX with booktabs, and a page of HTML. The LaTeX is a whole
document that compiles as it is. The page needs no other file: light and dark, for screens and on
paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from medcoder.errors import MissingExtra
from medcoder.evaluate.report.more_tables import cases, others, read_cases, summary
from medcoder.evaluate.report.paper_tables import paper
from medcoder.evaluate.report.table import (
    DAGGER,
    DASH,
    Cell,
    Row,
    Table,
    entries,
    indexed,
    legend,
    name_of,
    seedless,
)
from medcoder.evaluate.results import Prediction, Score, scores_of
from medcoder.registry import Registry

FORMATS = Registry(
    "format of reports",
    {
        "md": "medcoder.evaluate.report:markdown",
        "latex": "medcoder.evaluate.report:latex",
        "html": "medcoder.evaluate.report:html",
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


# Markdown

_SPECIAL = re.compile(r"[\\`*_<|~&]|\](?=[(\[:])")


def markdown(tables: Iterable[Table]) -> str:
    return "\n".join(_md_table(table) for table in tables)


def _md_table(table: Table) -> str:
    right = "---" if table.words else "---:"
    lines = [
        f"## {_md_escaped(table.title)}",
        "",
        _md_line([table.head, *(f"{group} {name}".strip() for group, name in table.columns)]),
        _md_raw(["---", *(right for _ in table.columns)]),
    ]
    for heading, rows in table.sections():
        if heading:
            lines.append(_md_raw([f"*{_md_escaped(heading)}*", *("" for _ in table.columns)]))
        lines += [
            _md_raw([_md_escaped(name_of(row)), *(_md_cell(cell) for cell in row.cells)])
            for row in rows
        ]
    lines += ["", *(line for note in legend(table) for line in (_md_escaped(note), ""))]
    return "\n".join(lines)


def _md_cell(cell: Cell) -> str:
    text = _md_escaped(cell.text or DASH)
    text = f"**{text}**" if cell.best else text
    mark = DAGGER if cell.close else ""
    return f"{text}{mark} {_md_escaped(cell.interval)}".strip()


def _md_line(cells: Sequence[str]) -> str:
    return _md_raw([_md_escaped(cell) for cell in cells])


def _md_raw(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _md_escaped(text: str) -> str:
    """Text that shows as it is, on one line.

    >>> print(_md_escaped("a|b [CLS] x_y"))
    a\\|b [CLS] x\\_y
    """
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


# LaTeX

_HEAD = r"""% Compile with xelatex or lualatex. In your own document, load these packages.
\documentclass{article}
\usepackage{booktabs}
\usepackage{fontspec}
\usepackage{graphicx}
\usepackage[margin=2cm]{geometry}
\begin{document}
"""
_TAIL = r"""
\end{document}
"""
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "±": r"$\pm$",
    "†": r"\textsuperscript{\dag}",
    "…": r"\dots{}",
}


def latex(tables: Iterable[Table]) -> str:
    return _HEAD + "\n".join(_tex_table(table) for table in tables) + _TAIL


def _tex_table(table: Table) -> str:
    align = ("l" if table.words else "r") * len(table.columns)
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{_tex_escaped(table.title)}}}",
        rf"\label{{tab:{table.key}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{align}}}",
        r"\toprule",
    ]
    if table.grouped:
        lines += _tex_groups(table)
    lines.append(_tex_line([table.head, *(column.name for column in table.columns)]))
    for heading, rows in table.sections():
        lines.append(r"\midrule")
        if heading:
            span = len(table.columns) + 1
            lines.append(rf"\multicolumn{{{span}}}{{l}}{{\emph{{{_tex_escaped(heading)}}}}} \\")
        lines += [_tex_row(row) for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    notes = " ".join(_tex_escaped(note) for note in legend(table))
    if notes:
        lines += [r"\par\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize {notes}}}"]
    return "\n".join([*lines, r"\end{table}", ""])


def _tex_groups(table: Table) -> list[str]:
    """The line above the names of the columns, and rules under each group."""
    cells, rules, column = [""], [], 2
    for name, width in table.groups:
        if name:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_tex_escaped(name)}}}")
            rules.append(rf"\cmidrule(lr){{{column}-{column + width - 1}}}")
        else:
            cells += [""] * width
        column += width
    return [" & ".join(cells) + r" \\", *rules]


def _tex_row(row: Row) -> str:
    return (
        " & ".join([_tex_escaped(name_of(row)), *(_tex_cell(cell) for cell in row.cells)]) + r" \\"
    )


def _tex_cell(cell: Cell) -> str:
    text = _tex_escaped(cell.text or DASH)
    text = rf"\textbf{{{text}}}" if cell.best else text
    mark = r"\textsuperscript{\dag}" if cell.close else ""
    # A bracket after a line's end would be taken for an option of the line's end.
    interval = rf" {{\footnotesize {_tex_escaped(cell.interval)}}}" if cell.interval else ""
    return text + mark + interval


def _tex_line(cells: Iterable[str]) -> str:
    return " & ".join(_tex_escaped(cell) for cell in cells) + r" \\"


def _tex_escaped(text: str) -> str:
    r"""Text in which nothing is a command.

    >>> print(_tex_escaped("50% of a_b & {c}"))
    50\% of a\_b \& \{c\}
    """
    shown = "".join(_ESCAPES.get(char, char) for char in " ".join(text.split()))
    return f"{{{shown}}}" if shown.startswith("[") else shown


# HTML


def html(tables: Iterable[Table], *, title: str = "Figures of embeddings") -> str:
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "a report in HTML needs Jinja2",
            remedy="Install it with: pip install 'medcoder[eval]'",
        ) from error
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    source = files(__package__).joinpath("report.html.j2").read_text(encoding="utf-8")
    page = environment.from_string(source)
    return page.render(title=title, tables=list(tables), legend=legend, dash=DASH) + "\n"
