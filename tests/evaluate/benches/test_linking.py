"""Linking, on data worked out by hand."""

import math

import pytest

from medcoder.errors import InputError, UsageError
from medcoder.evaluate import Context
from medcoder.evaluate.bench_runs import Seen
from medcoder.evaluate.benches.linking import read_dictionary, read_queries
from support.evaluated import ANY, First, Letters, bench, figures, linking_data, values, write_table


def test_any_id_in_common_is_a_hit(tmp_path):
    data = linking_data(
        tmp_path / "custom", "a|en|X\\pY|", "b|en|Z|",
        dictionary=("W\\pY|a", "B|b", "Z|ab"),
    )  # fmt: skip
    result = bench("custom").run(Letters(), data, ANY)
    assert values(result)["all", "acc@1"] == 0.5
    first = result.predictions[0]
    assert (first.gold, first.gold_names) == ("X|Y", "a")
    assert first.concepts == ("W|Y", "Z", "B")
    assert first.scores == pytest.approx((1, math.sqrt(0.5), 0), abs=1e-5)


def test_unknown_queries_count_as_wrong_and_lower_the_coverage(tmp_path):
    data = linking_data(tmp_path / "custom", "a|en|A|", "x|en|A|")
    found = figures(bench("custom").run(Letters(), data, ANY))["all", "acc@1"]
    assert (found.value, found.coverage, found.n) == (0.5, 0.5, 2)


def test_only_the_test_split_counts_where_there_is_one(tmp_path):
    data = linking_data(
        tmp_path / "custom", "a|en|A|test", "b|en|A|test", "c|en|A|dev", "c|en|A|test_obsolete"
    )
    assert values(bench("custom").run(Letters(), data, ANY))["all", "acc@1"] == 0.5


def test_languages_and_parts_have_figures_of_their_own(tmp_path):
    data = linking_data(tmp_path / "custom", "a|de|A|x", "b|de|A|y", "c|fr|C|y")
    found = values(bench("custom").run(Letters(), data, ANY))
    assert {split: value for (split, metric), value in found.items() if metric == "acc@1"} == {
        "all": pytest.approx(2 / 3), "de": 0.5, "fr": 1.0, "x": 1.0, "y": 0.5
    }  # fmt: skip


def test_queries_that_were_seen_are_left_out_of_the_unseen(tmp_path, toy_path):
    terms = write_table(tmp_path / "train.tsv", "term", "A !", "dd")
    seen = Seen([terms, toy_path])
    assert [seen(text) for text in ("a", " A", "Heart Attack", "b")] == [True, True, True, False]
    data = linking_data(tmp_path / "custom", "a|en|A|", "b|en|B|", "c|en|A|")
    context = Context(pinned=False, resamples=20, seen=seen)
    result = bench("custom").run(Letters(), data, context)
    assert values(result)["all", "acc@1"] == pytest.approx(2 / 3)
    assert values(result)["unseen", "acc@1"] == 0.5
    assert figures(result)["unseen", "acc@1"].n == 2
    assert [each.seen for each in result.predictions] == [True, False, False]


def test_a_system_is_measured_like_an_embedding(tmp_path):
    data = linking_data(tmp_path / "custom", "a|en|A|", "b|en|B|", "c|en|C|", "d|en|D|")
    found = values(bench("custom").run(First(), data, ANY))
    assert (found["all", "acc@1"], found["all", "acc@3"]) == (0.25, 0.75)


def test_custom_tables_by_their_paths(tmp_path):
    linking_data(tmp_path / "mine", "a|en|A|")
    options = {name: tmp_path / "mine" / f"{name}.tsv" for name in ("queries", "dictionary")}
    context = Context(resamples=0, options=options)
    assert values(bench("custom").run(Letters(), tmp_path, context))["all", "acc@1"] == 1
    assert bench("custom").fingerprint(tmp_path, context)
    del options["dictionary"]
    with pytest.raises(UsageError, match="go together"):
        bench("custom").run(Letters(), tmp_path, Context(options=options))


def test_a_query_without_a_gold_id_is_an_error(tmp_path):
    linking_data(tmp_path / "x", "a|en|A|", "b|en||")
    with pytest.raises(InputError, match=r"row 3: the query 'b' has no gold id"):
        read_queries(tmp_path / "x" / "queries.tsv")


def test_quotes_are_text_and_a_short_row_is_an_error_with_its_number(tmp_path):
    file = write_table(tmp_path / "dictionary.tsv", "concept_id|term", '"1|became ""flat""', "2")
    with pytest.raises(InputError, match=r"dictionary\.tsv, row 3: 1 fields, where the header"):
        read_dictionary(file)
    write_table(file, "concept_id|term", '"1|became ""flat""', "", "2|y\u2028z")
    dictionary = read_dictionary(file)
    assert dictionary.concepts == ['"1', "2"]
    assert dictionary.terms == ['became ""flat""', "y\u2028z"]
