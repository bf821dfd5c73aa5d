"""Tables as Markdown, LaTeX and HTML."""

import re
import sys
from html.parser import HTMLParser

import pytest

from medcoder.errors import MissingExtra, UnknownName
from medcoder.evaluate.report import FORMATS, report, tables, write
from medcoder.evaluate.report.table import Cell, Column, Row, Table
from support.evaluated import score


def test_every_quoted_row_says_so_in_every_format():
    scores = [score("m", 0.5)]
    for form, mark in (("md", "(quoted)"), ("latex", "(quoted)"), ("html", ">quoted<")):
        text = report(scores, format=form)
        for line in text.splitlines():
            if "SapBERT" in line and "54.05" in line:
                assert mark in line
                break
        else:
            raise AssertionError(form)
        assert "6,754 terms / 1,029 targets" in text


def test_an_unknown_format_is_an_error_that_names_the_others():
    with pytest.raises(UnknownName, match="did you mean 'html'"):
        report([], format="htm")


EVIL = Table(
    key="evil",
    title="50% of a_b & c",
    head="Na|me",
    columns=(Column("G{1}", "x^2"), Column("G{1}", "y~"), Column("", "#z$")),
    rows=(
        Row("<b>&amp;</b> | *s* \\x", (Cell(text="1.0", best=True, interval="[0.5, 1.5]"),) * 3),
        Row("[CLS] `code`", (Cell(), Cell(text='"5"', close=True), Cell(text="a\nb"))),
        Row("whole", (Cell(),) * 3, "system"),
        Row("old", (Cell(text="2"),) * 3, "quoted"),
    ),
    notes=("x < y",),
)


def test_markdown_is_one_table_with_as_many_cells_in_each_line():
    lines = [line for line in write([EVIL], format="md").splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert lines[3] == (
        r"| \<b>\&amp;\</b> \| \*s\* \\x | **1.0** [0.5, 1.5] | **1.0** [0.5, 1.5] "
        r"| **1.0** [0.5, 1.5] |"
    )
    assert lines[4] == r'| [CLS] \`code\` | – | "5"† | a b |'
    assert lines[-1] == "| old (quoted) | 2 | 2 | 2 |"


def check_latex(text):
    """Braces and environments are closed in order, lines have as many cells as columns."""
    bare = re.sub(r"\\[\\&%$#_{}]", lambda m: "\n" if m[0] == "\\\\" else " ", text)
    bare = re.sub(r"%.*", "", bare)
    depth = 0
    for char in bare:
        depth += (char == "{") - (char == "}")
        assert depth >= 0
    assert depth == 0
    open_ones = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", bare):
        if what == "begin":
            open_ones.append(name)
        else:
            assert open_ones.pop() == name
    assert not open_ones
    for special in "#^~":
        assert special not in bare
    assert bare.count("$") % 2 == 0
    for spec, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.S):
        for line in re.split(r"\\\\(?=\n)", body)[:-1]:
            cells = re.split(r"(?<!\\)&", line)
            spans = [
                int(span) for cell in cells for span in re.findall(r"multicolumn\{(\d+)", cell)
            ]
            assert len(cells) - len(spans) + sum(spans) == len(spec), line
        assert not re.search(r"\\\\\s*\[", body)  # would be a length


def test_latex_has_closed_groups_and_full_lines():
    text = write([EVIL], format="latex")
    check_latex(text)
    assert r"\textless{}b\textgreater{}\&amp;\textless{}/b\textgreater{}" in text
    assert (
        r"{[CLS] `code`} & -- & \textquotedbl{}5\textquotedbl{}\textsuperscript{\dag} & a b \\"
        in text
    )
    assert r"\cmidrule(lr){2-3}" in text
    assert r"\textbf{1.0} {\footnotesize {[0.5, 1.5]}}" in text


def test_the_whole_report_is_right_latex():
    scores = [score("a_b", 0.5, settings={"pooling": "cls"}), score("c&d", 0.51, kind="system")]
    check_latex(report(scores, format="latex"))


class Page(HTMLParser):
    """Checks nesting, and keeps what a reader of tables needs."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.rows, self.text, self.scopes = [], [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        if tag not in ("meta",):
            self.open.append(tag)
        if "id" in of:
            self.ids.append(of["id"])
        if tag == "a":
            self.links.append(of["href"])
        assert tag not in ("script", "link", "img")
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += int(of.get("colspan", 1))
            self.scopes.append(of.get("scope"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read_page(text):
    page = Page()
    page.feed(text)
    page.close()
    assert not page.open
    assert len(page.ids) == len(set(page.ids))
    return page


def test_html_is_closed_escaped_and_has_heads():
    text = write([EVIL], format="html")
    page = read_page(text)
    assert page.rows == [4, 3, 4, 4, 4, 4, 4, 4, 4]  # the first head spans two rows
    assert page.scopes.count("row") == 4
    assert "<b>&amp;</b> | *s* \\x" in "".join(page.text)
    assert '<strong class="best">1.0</strong> <small>[0.5, 1.5]</small>' in text
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text  # needs nothing else


def test_html_links_lead_to_every_table():
    scores = [score("a", 0.5), score("b", 0.6, bench="new", metric="points")]
    page = read_page(report(scores, format="html"))
    assert page.links == [f"#{made.key}" for made in tables(scores)]
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_every_format_can_write_nothing_and_everything():
    for form in FORMATS:
        assert isinstance(write([], format=form), str)
        assert "SapBERT" in report([], format=form)


def test_without_jinja_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtra, match=r"medcoder\[eval\]"):
        write([EVIL], format="html")
