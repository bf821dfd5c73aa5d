"""Correlation of cosines with what people say."""

import math

import pytest
from scipy import stats

from medcoder.errors import InputError
from support.evaluated import ANY, Letters, bench, values, write_table

PAIRS = ("a|a|4|1a|2a", "a|ab|3|1a|", "a|b|1|1a|b", "c|c|2|c|c", "x|a|9||a", "abc|c|2.5|abc|c")


def test_similarity_is_spearman_of_the_cosines(tmp_path):
    write_table(tmp_path / "similarity" / "mayosrs.tsv", "term1|term2|score|id1|id2", *PAIRS)
    [found] = bench("mayosrs").run(Letters(), tmp_path, ANY).figures
    cosines = [1, math.sqrt(0.5), 0, 1, math.sqrt(1 / 3)]
    expected = stats.spearmanr(cosines, [4, 3, 1, 2, 2.5]).statistic
    assert (found.split, found.metric) == ("all", "spearman")
    assert found.value == pytest.approx(expected)
    assert (found.n, found.coverage) == (5, pytest.approx(5 / 6))
    [by_id] = bench("mayosrs").run(Letters(kind="concept"), tmp_path, ANY).figures
    assert by_id.n == 4


def test_any_tables_of_pairs(tmp_path):
    write_table(tmp_path / "pairs" / "one.tsv", "term1|term2|score", "a|a|2", "a|b|1")
    write_table(tmp_path / "pairs" / "two.tsv", "term1|term2|score", "a|a|1", "a|b|2")
    write_table(tmp_path / "pairs" / "unknown.tsv", "term1|term2|score", "x|a|1", "a|b|2")
    assert values(bench("pairs").run(Letters(), tmp_path, ANY)) == {
        ("one", "spearman"): pytest.approx(1),
        ("two", "spearman"): pytest.approx(-1),
    }
    write_table(tmp_path / "pairs" / "bad.tsv", "term1|term2|score", "a|a|2", "a|b|1,5")
    with pytest.raises(InputError, match=r"bad\.tsv, row 3: the score '1,5' is not a number"):
        bench("pairs").run(Letters(), tmp_path, ANY)
