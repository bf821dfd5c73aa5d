"""The report on a mapping project: its figures, and a page that holds them."""

import json
import re
from html.parser import HTMLParser

import pytest

from medcoder.mapping.report import _MEANINGS, LISTED, render, summarise, write_report
from support.judged import decide as decide_all
from support.judged import undecided
from support.mapped import ROWS, decide, make

TIMING = {"seconds": 2.0, "rows": 10, "strings": 8}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    with decide(make(tmp_path_factory.mktemp("ward"))) as made:
        yield made


@pytest.fixture(scope="module")
def figures(project):
    return summarise(project, TIMING)


def test_coverage_by_terms_rows_and_occurrences(figures):
    assert figures["totals"] == {"terms": 9, "rows": 10, "count": 26}
    status = figures["status"]
    assert {name: (s["terms"], s["rows"], s["count"]) for name, s in status.items()} == {
        "auto": (1, 2, 9), "review": (1, 1, 1), "none": (0, 0, 0), "approved": (7, 7, 16),
        "flagged": (0, 0, 0),
    }  # fmt: skip
    assert status["auto"]["rows_share"] == 0.2
    assert sum(s["count_share"] for s in status.values()) == pytest.approx(1)


def test_what_to_expect_on_both_sides_of_the_threshold(figures):
    found = figures["threshold"]
    assert (found["promised_precision"], found["confidence"]) == (0.98, 0.995)
    above, below = found["above"], found["below"]
    # heart attack (3 times) .999 and fever (9) .995
    assert (above["terms"], above["count"]) == (2, 12)
    assert above["expected_precision"]["terms"] == pytest.approx((0.999 + 0.995) / 2)
    assert above["expected_precision"]["count"] == pytest.approx((3 * 0.999 + 9 * 0.995) / 12)
    assert (above["reviewed"], above["agreed"]) == (1, 1)
    # cold in two units .55, ache .6, puzzle .05: decided otherwise, but not as equivalent to it
    assert (below["terms"], below["count"]) == (4, 11)
    assert below["expected_precision"]["count"] == pytest.approx((8 * 0.55 + 2 * 0.6 + 0.05) / 11)
    assert (below["reviewed"], below["agreed"]) == (3, 0)


def test_nothing_to_expect_where_nothing_is_accepted(tmp_path):
    with make(tmp_path, rows=[ROWS[2]]) as made:
        found = summarise(made)
    assert found["threshold"]["confidence"] is None
    assert found["threshold"]["above"]["expected_precision"] == {"terms": None, "count": None}
    assert "Nothing is accepted automatically: 98.0% was not reached." in render(found)


def test_hardest_terms_by_what_is_likely_wrong(tmp_path):
    with make(tmp_path) as made:
        hard = summarise(made)["hardest"]
    # occurrences times the chance that the first candidate is wrong
    assert [(one["text"], one["count"]) for one in hard] == [
        ("cold", 7), ("=1+1", 1), ("NA", 1), ('a "b", c\\d', 1), ("puzzle", 1), ("ache", 2),
        ("cold", 1),
    ]  # fmt: skip
    assert hard[0] == {
        "row": 3, "text": "cold", "code": "A3", "count": 7, "status": "review", "confidence": 0.55,
        "candidate": "J00", "name": "Acute nasopharyngitis",
    }  # fmt: skip


def test_only_the_hardest_are_listed(tmp_path):
    rows = [(f"{n}", f"odd {n}", f"{n}", "", "") for n in range(1, LISTED + 10)]
    with make(tmp_path, rows=rows) as made:
        hard = summarise(made)["hardest"]
    assert [one["count"] for one in hard] == list(range(LISTED + 9, 9, -1))


def test_most_common_targets(figures):
    assert [(one["concept"], one["terms"], one["count"]) for one in figures["targets"]] == [
        ("R50.9", 2, 16), ("HP:0001658", 1, 3), ("R52", 2, 3), ("R51.9", 1, 1),
    ]  # fmt: skip
    assert figures["targets"][0]["codes"] == ["ICD10CM:R50.9"]


def test_histogram_decisions_and_time(figures):
    histogram = figures["histogram"]
    assert {place: n for place, n in enumerate(histogram["terms"]) if n} == {
        0: 3, 1: 1, 11: 2, 12: 1, 19: 2,
    }  # fmt: skip
    assert sum(histogram["count"]) == 26
    assert figures["decisions"] == {
        "by": {"Ann": 6, "Bob|Ö=%": 1},
        "equivalence": {"equivalent": 2, "no match": 2, "related": 1, "broader": 1, "narrower": 1},
    }
    assert figures["timing"] == {**TIMING, "rows_per_second": 5.0}


def test_how_the_promise_was_kept(project, figures):
    """Of heart attack and fever, people looked at the first."""
    kept = figures["promise"]
    assert (kept["promised"], kept["looked_at"], kept["right"]) == (0.98, 1, 1)
    assert (kept["broken"], kept["warning"], figures["recalibration"]) == (False, "", None)
    page = render(figures)
    assert "98.0% of automatic mappings are right" in page
    assert "1 of 1 that people looked at one by one are right: 100%" in page
    assert "Warning:" not in page


def test_a_promise_that_is_broken_is_told_at_the_top(tmp_path):
    with undecided(tmp_path / "out", [0.99] * 40) as made:
        assert "nobody has looked at one of them yet" in render(summarise(made))
        decide_all(made, [True] * 20 + [False] * 10)
        figures = summarise(made)
    kept = figures["promise"]
    assert (kept["looked_at"], kept["right"], kept["broken"]) == (30, 20, True)
    assert kept["high"] < 0.98
    page = render(figures)
    assert f'role="note"><b>Warning:</b> {kept["warning"]}.</p>' in page
    assert page.index("Warning:") < page.index("<h2>")
    assert "20 of 30 that people looked at one by one are right: 66.7%" in page
    assert Page(page).open == []


class Page(HTMLParser):
    """What a page refers to, and whether its tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.addresses, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "line"):
            self.open.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_needs_nothing_else(project, tmp_path):
    page = write_report(project, tmp_path, timing=TIMING)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "report.json"]
    text = page.read_text(encoding="utf-8")
    read = Page(text)
    assert (read.open, read.addresses) == ([], [])
    assert not re.search(r"https?:|@import|url\(|<script", text)
    assert json.loads((tmp_path / "report.json").read_text("utf-8")) == summarise(project, TIMING)
    words = " ".join(read.words)
    for name in (
        *_MEANINGS,
        "Mapping of ward.csv",
        "automatic from 0.995",
        "Ann 6",
        "Acute nasophary",
    ):
        assert name in words


def test_text_of_the_table_is_no_html(tmp_path):
    rows = [("<em>1", "<script>alert(1)</script>", "2", "", "")]
    with make(tmp_path, rows=rows) as made:
        made.decide(1, "<i>", name="<u>x", who="<img src=x>")
        text = write_report(made, tmp_path).read_text(encoding="utf-8")
    assert not re.search(r"<(script|em|i>|u>|img)", text)
    assert "&lt;u&gt;x" in text


def test_a_project_without_rows_has_a_report(tmp_path):
    with make(tmp_path, rows=[]) as made:
        text = write_report(made, tmp_path).read_text(encoding="utf-8")
    assert "Hardest terms" not in text
    assert Page(text).open == []
