"""The threshold of automatic mappings keeps its promise."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.errors import UsageError
from medcoder.mapping.auto_threshold import auto_threshold, floor
from support.maps import FakeMapper, mapped


def naive_threshold(entries, precision):
    """The lowest confidence with which all weighted means reach the promise."""
    best = None
    for least in sorted({sure for sure, *_ in entries if sure >= floor(precision)}):
        kept = [entry for entry in entries if entry[0] >= least]
        means = [
            sum(entry[0] * entry[part] for entry in kept) / sum(entry[part] for entry in kept)
            for part in (1, 2)
        ]
        if min(means) >= precision:
            return least
    return best


CONFIDENCES = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 50)), min_size=1, max_size=12,
    unique_by=lambda pair: pair[0],
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(drawn=CONFIDENCES, precision=st.sampled_from([0.6, 0.9, 0.98]))
def test_the_threshold_is_the_lowest_that_keeps_the_promise(tmp_path_factory, drawn, precision):
    answers = {f"t{sure}": [("C1", sure / 1000)] for sure, _ in drawn}
    source = pa.table({"text": [f"t{sure}" for sure, _ in drawn], "n": [n for _, n in drawn]})
    out = tmp_path_factory.mktemp("promise")
    made = mapped(source, out, FakeMapper(answers=answers), count="n", precision=precision)
    entries = [(sure / 1000, 1, n) for sure, n in drawn if sure >= 100]
    with made.project() as project:
        meta = project.meta
        auto = {mapping.confidence for mapping in project.mappings("auto")}
    wanted = naive_threshold(entries, precision)
    if meta["threshold"] != wanted:  # but for rounding at the very edge
        kept = [entry for entry in entries if entry[0] >= min(meta["threshold"] or 2, wanted or 2)]
        mean = min(
            sum(entry[0] * entry[part] for entry in kept) / sum(entry[part] for entry in kept)
            for part in (1, 2)
        )
        assert mean == pytest.approx(precision)
        return
    assert auto == {sure for sure, *_ in entries if wanted is not None and sure >= wanted}
    if wanted is not None:
        assert meta["expected"]["terms"] == pytest.approx(sum(auto) / len(auto))
        assert min(meta["expected"].values()) >= precision


def test_another_precision_moves_the_threshold_only(ward, tmp_path):
    made = mapped(ward, tmp_path / "out", precision=0.999)
    mapper = FakeMapper()
    with made.project() as project:
        assert project.counts()["auto"]["terms"] == 1
        assert auto_threshold(project, 0.9)["threshold"] == 0.93
    made = mapped(ward, tmp_path / "out", mapper, precision=0.9)
    assert mapper.asked == []
    with made.project() as project:
        assert project.counts()["auto"]["terms"] == 4


@pytest.mark.parametrize("precision", [0.4, 1.0, 1.2])
def test_promises_that_make_no_sense(ward, tmp_path, precision):
    with pytest.raises(UsageError, match=f"below 1: {precision}"):
        mapped(ward, tmp_path / "out", precision=precision)
    assert not (tmp_path / "out").exists()
