"""`medcoder bench`, from data to reports."""

import json
import re

import pytest

from medcoder.cli.options import spread
from medcoder.errors import InputError
from medcoder.evaluate import BENCHES, read_scores
from support.evaluated import linking_data, write_table
from support.many import many_terms
from support.terminal import medcoder


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("MEDCODER_BENCH", "MEDCODER_KG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    linking_data(
        folder / "cadec",
        "heart atack|en|A|fold0_test", "fevers|en|B|fold1_test", "colds|en|A|fold1_test",
        dictionary=("A|heart attack", "B|fever", "C|cold"),
    )  # fmt: skip
    write_table(
        folder / "similarity" / "mayosrs.tsv",
        "term1|term2|score", "fever|fevers|4", "fever|cold|2", "cold|colder|1",
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    """A folder with scores of two lexical spaces."""
    to = tmp_path_factory.mktemp("done")
    result = medcoder(
        "bench", "run", "--data", data, "--models", "lexical:tfidf", "lexical:exact", "--out", to,
        "--other-data", "--resamples", "20",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return to


# Cards


def test_all_benches_are_listed(data):
    result = medcoder("bench", "list", "--data", data)
    rows = {line.split()[0]: line.split()[-1] for line in result.stdout.splitlines()[1:]}
    assert list(rows) == list(BENCHES)
    assert {name for name, found in rows.items() if found == "yes"} == {"cadec", "mayosrs"}


def test_a_card_shows_what_is_needed():
    result = medcoder("bench", "list", "cadec")
    assert (
        "needs  cadec/queries.tsv: query, gold_concept_ids; 10,795 rows; sha256 " in result.stdout
    )
    assert "licence  CSIRO data licence" in result.stdout
    entry = json.loads(medcoder("bench", "list", "cadec", "--json").stdout)
    assert (entry["name"], entry["found"], entry["needs"][1]["rows"]) == ("cadec", None, 181)


def test_a_bench_that_is_not_there():
    result = medcoder("bench", "list", "cadc")
    assert result.exit_code == 2
    assert "did you mean 'cadec'?" in result.stderr


# Running


def test_a_run_shows_figures_and_writes_them(done):
    scores = read_scores(done)
    assert {(score.embedding, score.bench) for score in scores} == {
        (name, bench)
        for name in ("char-3-gram TF-IDF", "exact match")
        for bench in ("cadec", "mayosrs")
    }
    tfidf = {
        score.metric: score.value for score in scores if score.embedding == "char-3-gram TF-IDF"
    }
    assert tfidf["acc@1"] == pytest.approx((1 + 0.5) / 2)  # the mean of two folds
    assert all(score.settings["pinned"] is False for score in scores)


def test_running_again_keeps_what_is_there(data, done):
    result = medcoder(
        "bench", "run", "--data", data, "--models=lexical:tfidf", "--out", done,
        "--benches", "cadec,mayosrs", "cadec", "--other-data", "--resamples", "20",
    )  # fmt: skip
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(
        r"char-3-gram TF-IDF, cadec: acc@1 75\.00 \([\d.]+ to [\d.]+\), acc@3 \S+ .*  kept",
        lines[0],
    )
    assert "mayosrs: spearman" in lines[1]


def test_json_for_programs(data, tmp_path):
    result = medcoder(
        "bench", "run", "--data", data, "--models", "lexical:exact", "--benches", "cadec",
        "--out", tmp_path, "--other-data", "--json",
    )  # fmt: skip
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [entry["metric"] for entry in found] == ["acc@1", "acc@3"]
    assert [entry["value"] for entry in found] == [0.0, 0.0]


def test_custom_tables(tmp_path):
    linking_data(tmp_path / "mine", "cold|en|C|", dictionary=("C|cold", "D|fever"))
    result = medcoder(
        "bench", "run", "--queries", tmp_path / "mine" / "queries.tsv",
        "--dictionary", tmp_path / "mine" / "dictionary.tsv", "--models", "lexical:exact",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert "exact match, custom: acc@1 100.00 (100.0 to 100.0)" in result.stdout


def test_unseen_queries(data, tmp_path):
    terms = write_table(tmp_path / "terms.tsv", "term", "Colds")
    medcoder(
        "bench", "run", "--data", data, "--benches", "cadec", "--models", "lexical:tfidf",
        "--seen", terms, "--out", tmp_path / "out", "--other-data",
    )  # fmt: skip
    found = {(score.split, score.metric): score for score in read_scores(tmp_path / "out")}
    assert found["unseen", "acc@1"].value == 1.0
    assert found["unseen", "acc@1"].n == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--models", "lexical:tfidf"), 2, "--data is missing"),
        (("--models", "lexical:tfidf", "--data", "none"), 2, "--data none: there is no such"),
        (("--models", "lexcal:tfidf", "--data", "."), 2, "did you mean 'lexical'"),
        (("--models", "normalizer,pooling=cls", "--data", "."), 2, "name"),
        (("--models", "word:no.bin", "--data", "."), 2, "there is no file no.bin"),
        (("--models", "lexical:tfidf", "--data", ".", "--benches", "x"), 2, "no bench is called"),
        (("--models", "lexical:tfidf", "--data", "."), 3, "no data of any bench"),
        (("--models", "lexical:tfidf", "--data", ".", "--benches", "cadec"), 3, "CODER on GitHub"),
    ],
)
def test_mistakes(words, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cadec").mkdir()
    result = medcoder("bench", "run", "--out", tmp_path / "out", *words)
    assert result.exit_code == code, result.output
    assert message in result.stderr


def test_a_failure_is_shown_and_is_the_exit_code(data, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise InputError("it is bad", file="x")

    monkeypatch.setattr("medcoder.evaluate.benches.similarity.read_pairs", broken)
    result = medcoder(
        "bench", "run", "--data", data, "--models", "lexical:exact", "--out", tmp_path,
        "--benches", "mayosrs", "cadec", "--other-data",
    )  # fmt: skip
    assert result.exit_code == 3
    assert "exact match, mayosrs: error: x: it is bad" in result.stderr
    assert "exact match, cadec: acc@1" in result.stdout


def test_an_interrupt_says_that_the_command_goes_on(data, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("medcoder.evaluate.bench_runs.run_benches", interrupted)
    result = medcoder(
        "bench", "run", "--data", data, "--models", "lexical:exact", "--out", tmp_path
    )
    assert result.exit_code == 130
    assert "the same command goes on from here" in result.stderr


# The Normalizer


def test_the_whole_normaliser_is_a_system_of_its_own(bag, tmp_path):
    """Over the dictionary of the bench, of terms that its encoder knows."""
    texts = list({text.lower(): None for _, text, *_ in many_terms()})[:60]
    rows = [f"C{number}\\pX{number}|{text}" for number, text in enumerate(texts)]
    linking_data(
        tmp_path / "custom",
        *(f"{text.upper()}|en|X{number}|" for number, text in enumerate(texts[:20])),
        dictionary=rows,
    )
    spec = f"normalizer:{bag.path},name=Whole"
    words = ("bench", "run", "--data", tmp_path, "--models", spec, "--out", tmp_path / "out")
    result = medcoder(*words)
    assert result.exit_code == 0, result.output
    found = {score.metric: score for score in read_scores(tmp_path / "out")}
    assert found["acc@1"].kind == "system"
    assert found["acc@1"].embedding == "Whole"
    assert found["acc@1"].value == 1.0  # case does not count for it
    assert found["acc@1"].settings["threshold"] == 0
    made = sorted((tmp_path / "out" / "cache").iterdir())
    assert [path.suffix for path in made] == [".index", ".kg"]
    before = made[0].stat().st_mtime_ns
    assert medcoder(*words, "--force").exit_code == 0
    assert made[0].stat().st_mtime_ns == before  # the index is not built again


# What comes of it


def test_reports_in_all_formats(done, tmp_path):
    printed = medcoder("bench", "report", done)
    assert printed.exit_code == 0, printed.output
    assert "char-3-gram TF-IDF" in printed.stdout
    assert "75.0" in printed.stdout
    for name, mark in (("r.md", "|"), ("r.tex", r"\begin{"), ("r.html", "<table")):
        assert medcoder("bench", "report", done, "--out", tmp_path / name).exit_code == 0
        assert mark in (tmp_path / name).read_text(encoding="utf-8")
    measured = medcoder("bench", "report", done, "--format", "latex", "--measured-only").stdout
    assert len(measured) < len((tmp_path / "r.tex").read_text(encoding="utf-8"))
    assert "CODER" in printed.stdout
    assert medcoder("bench", "report", tmp_path).exit_code == 3


def test_what_went_wrong(done, tmp_path):
    words = ("bench", "errors", done, "--model", "char-3-gram TF-IDF", "--bench", "cadec")
    shown = medcoder(*words)
    assert shown.exit_code == 0, shown.output
    assert "colds" in shown.stdout
    assert "fevers" not in shown.stdout
    medcoder(*words, "--out", tmp_path / "wrong.jsonl")
    [wrong] = map(json.loads, (tmp_path / "wrong.jsonl").read_text(encoding="utf-8").splitlines())
    assert (wrong["query"], wrong["gold"], wrong["predicted_name"]) == ("colds", "A", "cold")


def test_what_two_models_got_differently(done):
    words = ("bench", "errors", done, "--bench", "cadec", "--format", "jsonl")
    result = medcoder(*words, "--model", "char-3-gram TF-IDF", "--against", "exact match")
    changed = [json.loads(line) for line in result.stdout.splitlines()]
    assert {each["query"] for each in changed} == {"heart atack", "fevers"}
    assert all(each["fixed"] for each in changed)
    filtered = medcoder(
        *words, "--model", "exact match", "--against", "char-3-gram TF-IDF", "--top", "3"
    )
    assert filtered.exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "char-3-gram", "--bench", "cadec"), "did you mean 'char-3-gram TF-IDF'?"),
        (("--model", "exact match", "--bench", "mayosrs"), "predict nothing"),
        (("--model", "exact match", "--bench", "cad"), "did you mean 'cadec'?"),
    ],
)
def test_errors_of_what_was_not_run(done, words, message):
    result = medcoder("bench", "errors", done, *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_figures_are_drawn_once(done, tmp_path):
    first = medcoder("bench", "figures", done, "--out", tmp_path)
    assert first.exit_code == 0, first.output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "made.json", "reliability-cadec.png", "reliability-cadec.svg",
        "risk-coverage-cadec.png", "risk-coverage-cadec.svg",
    }  # fmt: skip
    again = medcoder("bench", "figures", done, "--out", tmp_path)
    assert again.stdout.count(": kept") == 2
    (tmp_path / "reliability-cadec.svg").unlink()
    assert medcoder("bench", "figures", done, "--out", tmp_path).stdout.count(": kept") == 1


def test_all_of_the_paper_in_one_go(data, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "medcoder.evaluate.plots._tsne",
        lambda systems, *_, **__: drawn.extend(system.name for system in systems) or (),
    )
    words = (
        "bench", "paper", "--data", data, "--models", "lexical:tfidf", "lexical:exact",
        "--out", tmp_path, "--other-data",
    )  # fmt: skip
    first = medcoder(*words)
    assert first.exit_code == 0, first.output
    assert "no data of: psytar, mantra, " in first.stdout
    assert drawn == ["char-3-gram TF-IDF", "exact match"]
    for name in ("report.md", "report.tex", "report.html", "scores.jsonl", "figures/made.json"):
        assert (tmp_path / name).exists(), name
    again = medcoder(*words)
    assert again.stdout.count("  kept") == 4


def test_words_after_an_option_are_its_values():
    many = {"--models", "--benches"}
    words = [
        "--models",
        "a",
        "b",
        "--out",
        "o",
        "x",
        "--benches=c",
        "d",
        "--models",
        "e",
        "--force",
    ]
    assert spread(words, many) == [
        "--models", "a", "--models", "b", "--out", "o", "x", "--benches=c", "--benches", "d",
        "--models", "e", "--force",
    ]  # fmt: skip
