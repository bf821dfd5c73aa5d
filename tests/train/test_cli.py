"""`medcoder train` and `python -m medcoder.train`, from end to end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from medcoder.model.encoder import TransformerEncoder
from medcoder.train.__main__ import main
from medcoder.train.extra import read_queries
from medcoder.train.log import Log
from medcoder.train.session import accuracy, hard_negatives, open_run, speaking
from support.terminal import as_json, medcoder
from support.training import SETTINGS, make_graph, make_model, metrics, settings


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("cli") / "kg")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("init") / "model")


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def options(kg, model, out, *more, languages="en,es"):
    words = ["--kg", kg.path, "--init", model, "--out", out]
    for setting in SETTINGS:
        words += ["--set", setting]
    if languages:
        words += ["--languages", languages]
    return [str(word) for word in (*words, *more)]


def train(*arguments):
    return medcoder("train", *options(*arguments))


def failed(result, code):
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ") and not result.stdout
    return result.stderr


# A whole run


def test_train_and_resume(kg, model, tmp_path):
    out = tmp_path / "run"
    done = train(kg, model, out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"model in {out}/model\n"
    assert [line["step"] for line in metrics(out)] == list(range(2, 25, 2))
    assert TransformerEncoder.load(out / "model").encode(["heart"]).shape == (1, 32)
    assert sorted(path.name for path in out.iterdir()) == [
        *("checkpoint", "config.toml", "metrics.jsonl", "model", "tokens")
    ]
    message = failed(train(kg, model, out), 2)
    assert "holds a run. Resume it, or train to another directory" in message
    assert train(kg, model, out, "--resume").exit_code == 0
    assert "other settings" in failed(train(kg, model, out, "--resume", "--set", "seed=9"), 4)
    moved = tmp_path / "elsewhere" / model.name  # a model is the same wherever it lies
    shutil.copytree(model, moved)
    assert as_json("train", *options(kg, moved, out, "--resume")) == {"model": f"{out}/model"}


def test_everything_at_once(kg, model, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    lay = tmp_path / "lay.csv"
    lay.write_text("term,concept,language,weight\nbad heart,C0000003,en,4\n")
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(121, 3)))
    config = tmp_path / "run.toml"
    config.write_text('[sampler]\npairs = 3\n[relation]\nlabels = "exact"\nform = "diagonal"\n')
    out = tmp_path / "run"
    more = ["--config", config, "--extra", lay, "--tensorboard"]
    more += ["--teacher", f"{model},weight=2,languages=en"]
    more += ["--teacher", f"{tmp_path}/vectors.npy,weight=0.5"]
    done = train(kg, model, out, *more)
    assert (done.exit_code, done.stderr) == (0, "")
    assert all(line["teachers"] > 0 for line in metrics(out))
    assert [file.name.split(".")[0] for file in (out / "tensorboard").iterdir()] == ["events"]
    written = (out / "config.toml").read_text()
    assert "pairs = 3" in written and "k = 8" in written and '["en", "es"]' in written
    message = failed(train(kg, model, out, "--config", config, "--resume"), 4)
    assert "another choice of teachers and another tokenizer or table of extra terms" in message


def test_the_best_model_by_a_table_of_queries(kg, model, tmp_path):
    """Queries are the Spanish names, which training draws near to the English ones."""
    rows = [f"{kg.terms_of(concept)[3].text}\t{concept}" for concept in kg]
    queries = tmp_path / "queries.tsv"
    queries.write_text("\n".join(["query\tconcept", *rows]))
    out = tmp_path / "run"
    changes = ["evaluate_every=30", "schedule.total=64", "pooling=mean", "sampler.pairs=20"]
    changes += ["relation.mu=0", "loss.kind=info_nce", "optimiser.learning_rate=0.005"]
    more = ["--evaluate", queries, *(word for change in changes for word in ("--set", change))]
    done = train(kg, model, out, *more)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"model in {out}/model\nbest in {out}/best\n"
    scores = {line["step"]: line["eval.score"] for line in metrics(out) if "eval.score" in line}
    assert list(scores) == [30, 60, 64]  # the last model too
    judge = accuracy(kg, read_queries(queries, kg))
    assert judge(TransformerEncoder.load(out / "model")) == {"score": scores[64]}
    assert judge(TransformerEncoder.load(out / "best")) == {"score": max(scores.values())}
    assert judge(TransformerEncoder.load(model, pooling="mean"))["score"] < 0.2 < scores[30]
    places = as_json("train", *options(kg, model, out, *more, "--resume"))
    assert places == {"model": f"{out}/model", "best": f"{out}/best"}


def test_hard_negatives(kg, model, tmp_path):
    pairs = ["--set", "sampler.pairs=6", "--set", "schedule.total=12"]
    hard = [*pairs, "--set", "sampler.hard_every=10"]
    assert train(kg, model, tmp_path / "easy", *pairs).exit_code == 0
    done = train(kg, model, tmp_path / "hard", *hard)
    assert (done.exit_code, done.stderr) == (0, "")
    config = speaking(
        settings("sampler.pairs=6", "sampler.hard_every=10", "schedule.total=12"), ["en", "es"]
    )
    run = open_run(kg.path, str(model), tmp_path / "python", config)
    run.train(tmp_path / "python", neighbours=hard_negatives(kg))
    assert metrics(tmp_path / "hard") == metrics(tmp_path / "python")
    run = open_run(kg.path, str(model), tmp_path / "own", config)
    nobody = np.repeat(np.arange(len(kg))[:, None], 2, 1)  # each its own neighbour
    run.train(tmp_path / "own", neighbours=lambda encoder: nobody)
    losses = [metrics(tmp_path / name)[0]["loss"] for name in ("easy", "hard", "own")]
    assert len(set(losses)) == 3


def test_a_terminal_shows_what_is_going_on(kg, model, tmp_path):
    queries = tmp_path / "queries.csv"
    queries.write_text("query,concept\nheart,C0000003\n")
    more = ["--evaluate", queries, "--set", "evaluate_every=10", "--set", "sampler.pairs=6"]
    more += ["--set", "sampler.hard_every=10"]
    env = {"TTY_COMPATIBLE": "1", "COLUMNS": "200", "TERM": "xterm"}
    done = medcoder("train", *options(kg, model, tmp_path / "run", *more), env=env)
    assert done.exit_code == 0
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stderr).splitlines()[-1]
    assert re.search(r"score [01]\.\d{4}  loss \d\.\d{4}  hard pairs .* terms/s .* 24/24", last)


# The plan


def test_dry_run(kg, model, tmp_path):
    out = tmp_path / "run"
    more = ["--dry-run", "--set", "schedule.total=25", "--set", "sampler.pairs=3"]
    plan = as_json("train", *options(kg, model, out, *more))
    assert plan["steps"] == 26 and plan["updates"] == 13  # whole updates of two steps
    assert plan["terms_a_step"] == 22
    assert 22 * 3 <= plan["tokens_a_step"] <= 22 * 32
    encoder = TransformerEncoder.load(model)
    assert plan["encoder_parameters"] == sum(p.numel() for p in encoder.parameters())
    assert plan["relation_parameters"] == 3 * 32 * 32
    assert 0.05 < plan["memory_gb"] < 100
    assert plan["seconds_a_step"] > 0
    assert plan["hours"] == pytest.approx(plan["seconds_a_step"] * 26 / 3600)
    assert plan["device"] == "cpu, 1 threads"
    assert sorted(path.name for path in out.iterdir()) == ["tokens"]  # nothing was trained
    shown = train(kg, model, out, "--dry-run", "--set", "schedule.total=100000")
    lines = [re.split(r"  +", line, maxsplit=1) for line in shown.stdout.splitlines()]
    assert [name.replace(" ", "_") for name, _ in lines] == list(plan)
    figures = dict(lines)
    assert (figures["steps"], figures["updates"]) == ("100,000", "50,000")
    assert figures["relation parameters"] == "3,072"
    updates = ["--set", "schedule.unit=updates", "--set", "relation.mu=0", "--dry-run"]
    plan = as_json("train", *options(kg, model, out, *updates))
    assert (plan["steps"], plan["updates"], plan["relation_parameters"]) == (48, 24, 0)


# Mistakes


def test_a_vocabulary_that_does_not_know_a_language(kg, model, tmp_path):
    message = failed(medcoder("train", *options(kg, model, tmp_path, languages=None)), 3)
    assert "unknown: ja 100%" in message and "--languages en,es" in message
    assert "There are: en, es, ja" in failed(
        medcoder("train", *options(kg, model, tmp_path, languages="xx")), 2
    )


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("sampler.kk=8", "did you mean 'sampler.k'"),
        ("k=8", "did you mean 'sampler.k'"),
        ("sampler.k=eight", "expected a whole number"),
        ("sampler.k", "write it as key=value"),
        ("sampler.m=1", "it must be from 2 to the square root of k"),
        ("sampler.m=4", "it must be from 2 to the square root of k, here 2"),
        ("sampler.k=9", "multiple of sampler.m"),
        ("relation.form=bilinaer", "did you mean 'bilinear'?"),
        ("sampler.hard_every=8", "needs sampler.pairs"),
        ("sampler.extra_share=0.5", "needs sampler.pairs"),
        ("sampler.pairs=500", "Lower sampler.pairs"),
    ],
)
def test_settings_that_make_no_sense(kg, model, tmp_path, setting, said):
    assert said in failed(train(kg, model, tmp_path / "run", "--set", setting), 2)
    # All but the last are found before anything is tokenised.
    assert (tmp_path / "run").exists() is (setting == "sampler.pairs=500")


def test_files_that_are_wrong(kg, model, tmp_path):
    out = tmp_path / "run"
    assert "is not a knowledge graph" in failed(
        medcoder("train", "--kg", tmp_path, "--init", model, "--out", out), 4
    )
    (tmp_path / "empty").mkdir()
    assert "cannot be loaded as a model" in failed(train(kg, tmp_path / "empty", out), 4)
    assert "cannot be loaded as a model" in failed(train(kg, tmp_path / "none", out), 4)
    assert "none.toml: does not exist" in failed(
        train(kg, model, out, "--config", tmp_path / "none.toml"), 3
    )
    lay = tmp_path / "lay.csv"
    lay.write_text("term,concept\nbad heart,C0000003\nx,C7\n")
    assert "term 'x'" in failed(train(kg, model, out, "--extra", lay), 3)
    assert "lay.csv, row 1: no such column: query" in failed(
        train(kg, model, out, "--evaluate", lay), 3
    )
    assert "Write PATH,weight=20" in failed(train(kg, model, out, "--teacher", f"{model},2"), 2)
    assert "cannot be loaded" in failed(train(kg, model, out, "--teacher", tmp_path / "empty"), 4)
    bare = make_graph(tmp_path / "bare", edges=())
    assert "has no relations, and relation.mu is not 0" in failed(train(bare, model, out), 3)


def test_training_that_diverges(kg, model, tmp_path):
    more = ["--set", "optimiser.learning_rate=1e30", "--set", "checkpoint_every=2"]
    message = failed(train(kg, model, tmp_path / "run", *more), 6)
    assert re.search(r"not finite at step \d+\. .* lower optimiser\.learning_rate", message)
    assert not (tmp_path / "run" / "model").exists()


# The module, where there is no typer


def test_the_module_in_this_process(kg, model, tmp_path, monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)

    def call(*more, languages="en"):
        words = options(kg, model, tmp_path / "run", *more, languages=languages)
        monkeypatch.setattr(sys, "argv", ["medcoder.train", *words])
        try:
            return main(), *capsys.readouterr()
        finally:
            signal.signal(signal.SIGTERM, before)

    code, out, err = call("--dry-run", "--set", "schedule.total=8")
    assert (code, err) == (0, "")
    assert json.loads(out)["steps"] == 8
    code, out, err = call("--stop-after", "5")
    assert (code, err) == (0, "")
    assert [json.loads(line)["step"] for line in out.splitlines()] == [2, 4, 6]
    assert not (tmp_path / "run" / "model").exists()
    queries = tmp_path / "queries.csv"
    queries.write_text("query,concept\nheart,C0000003\n")
    code, out, err = call("--resume", "--evaluate", str(queries))
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == list(range(8, 25, 2))
    assert [line["step"] for line in lines if "eval.score" in line] == [24]
    assert (tmp_path / "run" / "model").exists()
    assert call()[0] == 2
    assert call("--resume", "--set", "seed=4")[0] == 4
    code, out, err = call(languages=None)
    assert (code, out) == (3, "") and "--languages en,es" in err
    assert call("--set", "sampler.kk=1")[0] == 2
    code, _, err = call("--extra", str(tmp_path))
    assert code == 3 and err.startswith(f"error: {tmp_path}: is a folder")


# `python -m medcoder.train` where nothing but torch and what comes with it is installed.
ALONE = """
import runpy, sys
for name in ("polars", "fastobo", "typer", "rich", "onnxruntime", "faiss", "matplotlib"):
    sys.modules[name] = None
sys.argv[0] = "medcoder.train"
runpy.run_module("medcoder.train", run_name="__main__")
"""


def test_the_module_is_interrupted(kg, model, tmp_path):
    """Ctrl-C saves; going on gives what a run without a break gives."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    words = options(kg, model, broken, "--set", "schedule.total=200", "--resume")
    start = [sys.executable, "-c", ALONE, *words]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        start, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert json.loads(process.stdout.readline())["step"] == 2
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "interrupted: go on from the checkpoint with --resume\n"
    step = json.loads((broken / "checkpoint" / "progress.json").read_text())["step"]
    assert 2 <= step < 200
    config = settings("schedule.total=200", 'sampler.languages=["en", "es"]')
    for out in (broken, whole):  # as far as is needed to see that it is the same run
        open_run(kg.path, str(model), out, config).train(out, resume=True, stop_after=step + 8)
    assert len(metrics(whole)) == step // 2 + 4
    assert metrics(broken) == metrics(whole)


def test_the_command_is_interrupted(kg, model, tmp_path, monkeypatch):
    line = Log.line

    def interrupt(self, figures):
        line(self, figures)
        if figures["step"] == 6:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Log, "line", interrupt)
    done = train(kg, model, tmp_path / "run")
    assert done.exit_code == 130
    assert done.stderr == "interrupted: go on from the checkpoint with --resume\n"
    progress = json.loads((tmp_path / "run" / "checkpoint" / "progress.json").read_text())
    assert progress["step"] == 6
