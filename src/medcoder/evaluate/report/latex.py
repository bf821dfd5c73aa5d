"""Tables as LaTeX, with booktabs. The text is a whole document that compiles as it is."""

from __future__ import annotations

from collections.abc import Iterable

from medcoder.evaluate.report.table import DASH, Cell, Row, Table, legend, name_of

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
    return _HEAD + "\n".join(_table(table) for table in tables) + _TAIL


def _table(table: Table) -> str:
    align = ("l" if table.words else "r") * len(table.columns)
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{_escaped(table.title)}}}",
        rf"\label{{tab:{table.key}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{align}}}",
        r"\toprule",
    ]
    if table.grouped:
        lines += _groups(table)
    lines.append(_line([table.head, *(column.name for column in table.columns)]))
    for heading, rows in table.sections():
        lines.append(r"\midrule")
        if heading:
            span = len(table.columns) + 1
            lines.append(rf"\multicolumn{{{span}}}{{l}}{{\emph{{{_escaped(heading)}}}}} \\")
        lines += [_row(row) for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    notes = " ".join(_escaped(note) for note in legend(table))
    if notes:
        lines += [r"\par\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize {notes}}}"]
    return "\n".join([*lines, r"\end{table}", ""])


def _groups(table: Table) -> list[str]:
    """The line above the names of the columns, and rules under each group."""
    cells, rules, place = [""], [], 2
    for name, width in table.groups:
        if name:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_escaped(name)}}}")
            rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}")
        else:
            cells += [""] * width
        place += width
    return [" & ".join(cells) + r" \\", *rules]


def _row(row: Row) -> str:
    return " & ".join([_escaped(name_of(row)), *(_cell(cell) for cell in row.cells)]) + r" \\"


def _cell(cell: Cell) -> str:
    text = _escaped(cell.text or DASH)
    text = rf"\textbf{{{text}}}" if cell.best else text
    mark = r"\textsuperscript{\dag}" if cell.close else ""
    # A bracket after a line's end would be taken for an option of the line's end.
    interval = rf" {{\footnotesize {_escaped(cell.interval)}}}" if cell.interval else ""
    return text + mark + interval


def _line(cells: Iterable[str]) -> str:
    return " & ".join(_escaped(cell) for cell in cells) + r" \\"


def _escaped(text: str) -> str:
    r"""Text in which nothing is a command.

    >>> print(_escaped("50% of a_b & {c}"))
    50\% of a\_b \& \{c\}
    """
    shown = "".join(_ESCAPES.get(char, char) for char in " ".join(text.split()))
    return f"{{{shown}}}" if shown.startswith("[") else shown
