"""How the promise was kept: what people found of the automatic mappings, with an interval."""

import pyarrow as pa
import pytest
from scipy.stats import binomtest

from medcoder.mapping import calibrate, map_table
from medcoder.mapping.promise import interval, promise
from support.judged import answers, confidences, decide, undecided
from support.maps import FakeMapper

COUNTS = [(0, 1), (1, 1), (0, 20), (20, 20), (19, 20), (3, 7), (90, 100), (700, 1000), (4999, 5000)]


@pytest.mark.parametrize(("right", "count"), COUNTS)
def test_the_interval_is_that_of_the_binomial_distribution(right, count):
    known = binomtest(right, count).proportion_ci(0.95, method="exact")
    assert interval(right, count) == pytest.approx((known.low, known.high), abs=1e-9)


def test_a_long_interval_has_an_end_within_reach():
    low, high = interval(400_000, 1_000_000)
    assert 0.39 < low < 0.4 < high < 0.41


@pytest.fixture
def sure(tmp_path):
    """A hundred automatic mappings at 90%, and as many that are not."""
    shares = [0.95 + n / 10_000 for n in range(100)] + confidences(100, 0.2, 0.4)
    with undecided(tmp_path / "out", shares, precision=0.9) as project:
        assert project.counts()["auto"]["terms"] == 100
        yield project


def test_nobody_looked_yet(sure):
    found = promise(sure)
    assert found._asdict() == {
        "promised": 0.9, "looked_at": 0, "right": 0, "share": None, "low": None, "high": None,
        "broken": False, "warning": "",
    }  # fmt: skip
    assert found.words == ""


def test_a_promise_that_is_kept(sure):
    decide(sure, [True] * 27 + [False] * 3)
    found = promise(sure)
    low, high = interval(27, 30)
    assert found[:6] == (0.9, 30, 27, 0.9, low, high)
    assert (found.broken, found.warning) == (False, "")
    assert found.words == (
        "of the automatic mappings, people looked at 30 one by one and found 27 right: 90.0% (95% "
        "interval 73.5% to 97.9%), 90.0% promised"
    )


@pytest.mark.parametrize(("right", "broken"), [(20, True), (22, True), (23, False), (24, False)])
def test_a_promise_is_broken_where_the_whole_interval_is_below(sure, right, broken):
    """Of 30, 22 have an upper bound of 87.7%, and 23 of 90.1%."""
    decide(sure, [True] * right + [False] * (30 - right))
    found = promise(sure)
    assert (found.broken, found.high < 0.9, bool(found.warning)) == (broken, broken, broken)


def test_what_the_warning_says(sure):
    decide(sure, [True] * 20 + [False] * 10)
    assert promise(sure).warning == (
        "the promise is not kept: 90.0% of automatic mappings were to be right, and of 30 that "
        "people looked at, 20 were (66.7%, at most 82.7% by a 95% interval). Run medcoder map "
        "calibrate on the project, or the command that made it with a higher --precision"
    )


def test_a_look_at_what_is_not_automatic_says_nothing_of_it(sure):
    decide(sure, [True] * 10)
    for row in range(101, 131):
        sure.decide(row, None, who="ann")
    assert promise(sure)[:3] == (0.9, 10, 10)


def test_decisions_in_bulk_are_no_look(sure):
    decide(sure, [True] * 50, bulk=True)
    assert promise(sure).looked_at == 0


def test_nothing_is_promised_where_nothing_is_automatic(tmp_path):
    with undecided(tmp_path / "out", confidences(20, 0.2, 0.4)) as project:
        decide(project, [False] * 20)
        assert (project.meta["threshold"], promise(project).looked_at) == (None, 0)


def test_what_the_warning_advises_helps(tmp_path):
    """A higher precision leaves out what was wrong; so does a calibration."""
    shares = confidences(400, 0.7, 0.999)
    right = [share > 0.9 or n % 3 == 0 for n, share in enumerate(shares)]
    for name in ("precise", "calibrated"):
        with decide(undecided(tmp_path / name, shares, precision=0.8), right) as project:
            assert promise(project).broken
            if name == "calibrated":
                assert calibrate(project, who="ann")["changed"]
                assert not promise(project).broken
    machine = FakeMapper(answers=answers(shares))
    source = pa.table({"text": [f"s{n}" for n in range(400)]})
    made = map_table(
        source, column="text", out=tmp_path / "precise", normalizer=machine, precision=0.96
    )
    assert machine.asked == []
    with made.project() as project:
        found = promise(project)
    assert (found.promised, found.broken) == (0.96, False)
    assert found.looked_at == found.right > 50
