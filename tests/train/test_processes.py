"""Many processes: the same losses as one process with the same batch."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from medcoder.kg import KG
from medcoder.train.config import load
from medcoder.train.objective.teacher import Teacher
from medcoder.train.session import open_run
from support.training import (
    COLUMNS,
    CONCEPTS,
    SETTINGS,
    free_port,
    make_graph,
    make_model,
    metrics,
    run,
    start,
)

ODD = {"step", "learning_rate", "missed_positives", *COLUMNS}


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("processes") / "kg")


def teachers(kg):
    vectors = np.random.default_rng(0).normal(size=(len(kg.terms), 5))
    return [Teacher(weight=2.0, speaks=np.ones(len(kg.terms), bool), vectors=vectors)]


CASES = {
    "lazy": ["sampler.pairs=3", "relation.labels=exact"],
    "dense": ["relation.dense=true", "pooling=mean", "loss.kind=info_nce"],
}


def train_part(kg, out, changes, options):
    graph = KG.open(kg)
    run(graph, out, *changes, teachers=teachers(graph), **options)


def together(kg, out, changes, *, processes=2, **options):
    """Train in some processes, as torchrun would start them."""
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    env |= {"WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
    started = [
        start(train_part, kg.path, out, changes, options, env=env | {"RANK": str(rank)})
        for rank in range(processes)
    ]
    for process in started:
        process.join(120)
    assert [process.exitcode for process in started] == [0] * processes


def close(ones, others):
    assert len(ones) == len(others) > 0
    for one, other in zip(ones, others, strict=True):
        assert one.keys() == other.keys() == ODD
        for name, value in one.items():
            assert other[name] == pytest.approx(value, rel=1e-4, abs=1e-4), name


@pytest.mark.parametrize("case", CASES)
def test_two_processes_are_one(kg, tmp_path, case):
    run(kg, tmp_path / "one", *CASES[case], teachers=teachers(kg))
    two = tmp_path / "two"
    # The tokens are there already: processes that are started by hand do not wait for each other.
    (tmp_path / "one.tokens").rename(tmp_path / "two.tokens")
    together(kg, two, [*CASES[case], "checkpoint_every=4"], stop_after=12, resume=True)
    assert not (two / "model").exists()
    assert json.loads((two / "checkpoint" / "progress.json").read_text())["step"] == 12
    together(kg, two, [*CASES[case], "checkpoint_every=4"], resume=True)
    close(metrics(tmp_path / "one"), metrics(two))
    assert (two / "model" / "model.safetensors").exists()


def own_opinion(encoder):
    """Hard negatives that differ from process to process."""
    rank = int(os.environ.get("RANK", "0"))
    return np.roll(np.arange(CONCEPTS), rank + 3)[:, None]


def test_hard_negatives_are_those_of_the_first_process(kg, tmp_path):
    changes = ["sampler.pairs=6", "sampler.hard_every=10"]
    run(kg, tmp_path / "one", *changes, teachers=teachers(kg), neighbours=own_opinion)
    (tmp_path / "one.tokens").rename(tmp_path / "two.tokens")
    together(kg, tmp_path / "two", changes, neighbours=own_opinion)
    close(metrics(tmp_path / "one"), metrics(tmp_path / "two"))


def test_two_processes_resume_exactly(kg, tmp_path):
    """With dropout, which each process draws for itself."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(kg, tmp_path / "one", "schedule.total=2", "schedule.warmup=0")
    for name in ("whole", "broken"):
        (tmp_path / f"{name}.tokens").symlink_to(tmp_path / "one.tokens")
    changes = ["log_every=6"]
    together(kg, whole, changes, dropout=0.1)
    together(kg, broken, changes, dropout=0.1, stop_after=10)
    together(kg, broken, changes, dropout=0.1, resume=True)
    assert metrics(broken) == metrics(whole)
    assert len(metrics(whole)) == 4


def test_torchrun(kg, tmp_path):
    """From the command line, over a store of tokens that was made for something else."""
    model = make_model(tmp_path / "model")
    arguments = ["--kg", kg.path, "--init", model, "--languages", "en"]
    changes = [*SETTINGS, "schedule.total=6"]
    for setting in (*changes, "sampler.languages=[]"):
        arguments += ["--set", setting]
    stale = tmp_path / "two" / "tokens"
    stale.mkdir(parents=True)
    meta = '{"kind": "token store", "version": 1, "files": {}, "parents": {}}'
    (stale / "meta.json").write_text(meta)
    bare = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    env = bare | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launch += ["--master-port", str(free_port())]
    words = [sys.executable, *launch, "-m", "medcoder.train", *arguments, "--out", tmp_path / "two"]
    done = subprocess.run(
        list(map(str, words)), env=env, capture_output=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    config = load(None, [*changes, 'sampler.languages=["en"]'])
    open_run(kg.path, str(model), tmp_path / "one", config).train(tmp_path / "one")
    one, two = metrics(tmp_path / "one"), metrics(tmp_path / "two")
    close(one, two)
    shown = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [line["step"] for line in shown] == [line["step"] for line in two]  # by one of them
