"""Runs: what they write, what they keep, what makes them run again."""

from dataclasses import replace

import pytest

from medcoder.errors import InputError, UnknownName, UsageError
from medcoder.evaluate import (
    BENCHES,
    Outcome,
    Seen,
    bench_runs,
    choose_benches,
    describe_bench,
    read_scores,
    run_benches,
)
from medcoder.evaluate.plots import draw_figures
from medcoder.evaluate.report import run_report
from medcoder.evaluate.results import predictions_file, read_predictions
from support.evaluated import First, Letters, linking_data, score, write_table


@pytest.fixture
def data(tmp_path):
    linking_data(tmp_path / "data" / "cadec", "a|en|A|fold0_test", "b|en|A|fold1_test")
    write_table(tmp_path / "data" / "mcsm" / "concepts.tsv", "concept|name|types", "1|a|T", "2|a|T")
    return tmp_path / "data"


def go(data, out, *systems, benches=("cadec",), **options):
    options = {"pinned": False, "resamples": 20} | options
    return list(run_benches(systems or [Letters()], benches, data, out, **options))


def states(outcomes):
    return [outcome.state for outcome in outcomes]


def test_scores_have_all_that_a_figure_rests_on(data, tmp_path):
    [outcome] = go(data, tmp_path / "out")
    stored = read_scores(tmp_path / "out")
    assert outcome.state == "done"
    assert stored == outcome.scores
    first = stored[0]
    assert (first.embedding, first.kind, first.bench) == ("letters", "word", "cadec")
    assert (first.split, first.metric, first.value) == ("all", "acc@1", 0.5)
    assert (first.n, first.coverage, first.model) == (2, 1.0, "letters-1")
    assert first.low <= first.value <= first.high
    assert first.settings["dimension"] == 4
    assert (first.settings["seed"], first.settings["resamples"]) == (0, 20)
    assert first.made.endswith("+00:00")
    assert len({score.key for score in stored}) == len(stored) == 2


def test_predictions_are_written(data, tmp_path):
    go(data, tmp_path / "out")
    found = read_predictions(predictions_file(tmp_path / "out", "letters", "cadec"))
    assert [(each.query, each.split, each.gold) for each in found] == [
        ("a", "fold0_test", "A"), ("b", "fold1_test", "A")
    ]  # fmt: skip
    assert found[1].concepts[0] == "B"


def test_what_was_done_is_kept(data, tmp_path):
    system = Letters()
    assert states(go(data, tmp_path / "out", system)) == ["done"]
    before = (tmp_path / "out" / "scores.jsonl").read_bytes()
    runs = system.runs
    again = go(data, tmp_path / "out", system)
    assert states(again) == ["kept"]
    assert again[0].scores == read_scores(tmp_path / "out")
    assert system.runs == runs
    assert (tmp_path / "out" / "scores.jsonl").read_bytes() == before


def changed_model(data, options, monkeypatch):
    options["systems"][0].fingerprint = "letters-2"


def changed_settings(data, options, monkeypatch):
    options["systems"][0].settings["dimension"] = 5


def changed_data(data, options, monkeypatch):
    write_table(data / "cadec" / "dictionary.tsv", "concept_id|term", "A|a")


def changed_seed(data, options, monkeypatch):
    options["seed"] = 1


def changed_seen(data, options, monkeypatch):
    options["seen"] = Seen([write_table(data / "seen.tsv", "term", "b")])


def changed_protocol(data, options, monkeypatch):
    monkeypatch.setattr(bench_runs, "PROTOCOL", 99)


def forced(data, options, monkeypatch):
    options["force"] = True


@pytest.mark.parametrize(
    "change",
    [
        changed_model, changed_settings, changed_data, changed_seed, changed_seen,
        changed_protocol, forced,
    ],
)  # fmt: skip
def test_what_changed_is_run_again_and_replaced(change, data, tmp_path, monkeypatch):
    options = {"systems": [Letters()]}
    go(data, tmp_path / "out", *options["systems"])
    change(data, options, monkeypatch)
    systems = options.pop("systems")
    [outcome] = go(data, tmp_path / "out", *systems, **options)
    assert outcome.state == "done"
    assert read_scores(tmp_path / "out") == outcome.scores  # replaced, not added


def test_a_run_that_was_stopped_goes_on(data, tmp_path):
    outcomes = run_benches(
        [Letters()], ["cadec", "mcsm"], data, tmp_path / "out", pinned=False, resamples=0
    )
    assert next(outcomes).bench == "cadec"
    outcomes.close()  # as an interrupt would
    assert [
        (each.bench, each.state)
        for each in go(data, tmp_path / "out", benches=("cadec", "mcsm"), resamples=0)
    ] == [("cadec", "kept"), ("mcsm", "done")]


def test_a_bench_that_fails_leaves_no_scores(data, tmp_path):
    class Broken(Letters):
        def embed(self, texts, *, ids=None, corpus=None):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        go(data, tmp_path / "out", Broken())
    assert read_scores(tmp_path / "out") == []


def test_a_model_that_fails_on_a_bench_does_not_stop_the_others(data, tmp_path):
    class Unable(Letters):
        def embed(self, texts, *, ids=None, corpus=None):
            raise UsageError("cannot do that")

    outcomes = go(data, tmp_path / "out", Unable(name="unable"), Letters())
    assert states(outcomes) == ["failed", "done"]
    assert str(outcomes[0].error) == "cannot do that"
    assert {score.embedding for score in read_scores(tmp_path / "out")} == {"letters"}


def test_data_is_checked_before_anything_is_run(data, tmp_path):
    system = Letters()
    with pytest.raises(InputError, match=r"queries\.tsv"):
        go(data, tmp_path / "out", system, benches=("cadec", "psytar"))
    assert system.runs == 0
    with pytest.raises(InputError, match="are for 10,795"):
        go(data, tmp_path / "out", pinned=True)


def test_systems_side_by_side(data, tmp_path):
    outcomes = go(data, tmp_path / "out", Letters(), First(), benches=("cadec", "mcsm"))
    assert [(each.system, each.bench, each.state) for each in outcomes] == [
        ("letters", "cadec", "done"), ("letters", "mcsm", "done"),
        ("first", "cadec", "done"), ("first", "mcsm", "not for it"),
    ]  # fmt: skip
    assert {score.embedding for score in read_scores(tmp_path / "out")} == {"letters", "first"}


def test_two_models_of_one_name_are_an_error(data, tmp_path):
    other = Letters()
    other.fingerprint = "other"
    with pytest.raises(UsageError, match="two models are called 'letters'"):
        go(data, tmp_path / "out", Letters(), other)


def test_progress_says_which_model_and_bench(data, tmp_path):
    steps = []
    go(data, tmp_path / "out", progress=lambda *step: steps.append(step))
    assert ("letters, cadec: ranking", 2, 2) in steps


def test_a_run_is_the_same_every_time(data, tmp_path):
    first, second = (go(data, tmp_path / name)[0].scores for name in ("one", "two"))
    plain = [replace(score, seconds=0.0, made="") for score in first]
    assert plain == [replace(score, seconds=0.0, made="") for score in second]


def test_seen_terms_of_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"term": ["Café", None], "lang": ["fr", "fr"]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "u.parquet")
    seen = Seen([tmp_path / "t.parquet"])
    assert seen("cafe")
    assert not seen("tea")
    with pytest.raises(InputError, match="no such column: term; there are: name"):
        Seen([tmp_path / "u.parquet"])
    with pytest.raises(InputError, match="no such graph or table"):
        Seen([tmp_path / "none.kg"])
    with pytest.raises(InputError, match="not a graph"):
        Seen([tmp_path])


def test_benches_are_chosen_by_name_by_option_or_by_their_data(data):
    assert choose_benches(["mcsm", "cadec", "mcsm"], data) == ["mcsm", "cadec"]
    assert choose_benches([], data) == ["cadec", "mcsm"]
    assert choose_benches([], data, {"queries": "q.tsv"}) == ["custom"]
    with pytest.raises(UnknownName, match="did you mean 'cadec'"):
        choose_benches(["cadc"], data)
    with pytest.raises(InputError, match="no data of any bench"):
        choose_benches([], data / "cadec")


OUTSIDE = """
from medcoder.evaluate import Card, Figure, Metric, Result
from medcoder.evaluate.benches.task import Task

class Lengths(Task):
    def run(self, system, data, context):
        return Result([Figure("all", "grams", 0.25, 0.125, 0.5, 3)])

BENCH = Lengths(
    Card(name="lengths", title="Lengths", about="", origin="", licence="", files=(),
         metrics=(Metric("grams", scale=1000, unit="g"),))
)
"""


def test_a_bench_from_outside_is_one_file_and_one_line(tmp_path, monkeypatch, entered):
    (tmp_path / "outside_bench.py").write_text(OUTSIDE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    entered(BENCHES, "lengths", "outside_bench:BENCH")
    assert describe_bench("lengths")["metrics"] == ["grams"]
    [outcome] = go(tmp_path, tmp_path / "out", benches=("lengths",))
    assert outcome.state == "done"
    assert outcome.headline == ["grams 250.00 (125.0 to 500.0)"]
    assert "lengths: other figures" in run_report(tmp_path / "out")
    assert list(draw_figures(tmp_path / "out", tmp_path / "figures")) == []


def test_the_headline_is_of_the_whole_set_or_of_each_part(data, tmp_path):
    linking, types = go(data, tmp_path / "out", benches=("cadec", "mcsm"), resamples=0)
    assert linking.headline == ["acc@1 50.00 (50.0 to 50.0)", "acc@3 100.00 (100.0 to 100.0)"]
    assert types.headline == ["T mcsm 1.00 (1.0 to 1.0)"]
    counted = Outcome("m", "cases", "done", [score("m", 13, metric="hits", n=15, bench="cases")])
    assert counted.headline == ["hits 13 of 15"]
