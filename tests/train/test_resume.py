"""Checkpoints: a run that is killed, stopped or broken goes on as if nothing had happened."""

import json
import os
import random
import resource
import shutil
import signal
import time

import numpy as np
import pytest
import torch

import medcoder.train.loop
import medcoder.train.state
from medcoder.artefact import verify
from medcoder.errors import ArtefactError, DiskFull, UsageError
from medcoder.kg import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.train.log import NonFiniteLoss
from medcoder.train.objective.teacher import Teacher
from support import tiny
from support.training import (
    CONCEPTS,
    make_encoder,
    make_graph,
    make_store,
    metrics,
    run,
    same,
    settings,
    start,
    weights,
)

OFTEN = ("checkpoint_every=4", "log_every=6")


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("resume") / "kg")


def neighbours(encoder):
    """The four nearest concepts by the weights of the model, so that a later one differs."""
    names = [f"{number:b}".replace("0", "ab ").replace("1", "heart ") for number in range(CONCEPTS)]
    vectors = encoder.encode(names)
    return np.argsort(-(vectors @ vectors.T), axis=1, kind="stable")[:, 1:5]


def evaluate(encoder):
    return {"score": float(encoder.encode(["heart"])[0, 0])}


# Options that have the most to remember.
FULL = ("sampler.pairs=6", "sampler.hard_every=10", "evaluate_every=6", *OFTEN)


def full_run(kg, out, *changes, **options):
    options = {"neighbours": neighbours, "evaluate": evaluate, "dropout": 0.1} | options
    return run(kg, out, *FULL, *changes, **options)


@pytest.fixture(scope="module")
def whole(kg, tmp_path_factory):
    """A run with everything on that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, weights(full_run(kg, out))


def checkpoint_step(out):
    return json.loads((out / "checkpoint" / "progress.json").read_text())["step"]


def check_equal(out, encoder, whole):
    """The metrics, the last model and the best one are those of the undisturbed run."""
    path, expected = whole
    assert metrics(out) == metrics(path)
    assert same(weights(encoder), expected)
    for name in ("model", "best"):
        ours, theirs = (TransformerEncoder.load(folder / name) for folder in (out, path))
        assert same(weights(ours), weights(theirs)), name


def test_two_runs_are_equal(kg, tmp_path, whole):
    torch.manual_seed(99)  # what was drawn before does not matter
    check_equal(tmp_path / "run", full_run(kg, tmp_path / "run"), whole)
    assert not same(weights(make_encoder()), whole[1])
    other = run(kg, tmp_path / "other", "seed=1", dropout=0.1)
    assert not same(weights(other), whole[1])


LONG = "schedule.total=40"


def train_long(kg, out):
    """In a process of its own: from wherever the run is to its end."""
    full_run(KG.open(kg), out, LONG, resume=True)


def test_killed_at_random_moments(kg, tmp_path):
    """Of dropout, hard negatives, evaluations and checkpoints every other update."""
    whole, out = tmp_path / "whole", tmp_path / "run"
    expected = weights(full_run(kg, whole, LONG))
    draw = random.Random()
    killed = 0
    for _ in range(2):
        process = start(train_long, kg.path, out)
        before = lines(out)
        while process.is_alive() and lines(out) <= before:
            time.sleep(0.005)
        process.join(draw.uniform(0, 0.2))
        killed += process.is_alive()
        process.kill()
        process.join()
    assert killed > 0
    encoder = full_run(kg, out, LONG, resume=True)
    check_equal(out, encoder, (whole, expected))
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def lines(out):
    file = out / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_stopped_and_resumed_everywhere(kg, tmp_path, whole):
    """Every stretch has another length, some end in the middle of hard negatives or of a line."""
    out = tmp_path / "run"
    for stop in (0, 2, 3, 9, 12, 13, 20):
        full_run(kg, out, resume=True, stop_after=stop)
        assert checkpoint_step(out) == stop + stop % 2  # a whole update
        assert not (out / "model").exists()
    check_equal(out, full_run(kg, out, resume=True), whole)
    before = (out / "metrics.jsonl").read_bytes()
    check_equal(out, full_run(kg, out, resume=True), whole)  # nothing is left to do
    assert (out / "metrics.jsonl").read_bytes() == before


def test_a_later_model_would_find_other_neighbours(kg, tmp_path, whole, monkeypatch):
    """What the test above is worth: making the neighbours anew in the middle shows."""
    out = tmp_path / "run"
    full_run(kg, out, stop_after=14)
    load = medcoder.train.loop.load_checkpoint

    def forget(state, *arguments):
        load(state, *arguments)
        assert state.hard.shape == (CONCEPTS, 4)
        state.hard = None

    monkeypatch.setattr(medcoder.train.loop, "load_checkpoint", forget)
    full_run(kg, out, resume=True)
    assert metrics(out) != metrics(whole[0])


# Interrupts


class Once:
    """Sends a signal to this process at the given call."""

    def __init__(self, work, at, number=signal.SIGINT):
        self._work, self._at, self._number, self._calls = work, at, number, 0

    def __call__(self, *arguments, **options):
        self._calls += 1
        if self._calls == self._at:
            signal.raise_signal(self._number)
        return self._work(*arguments, **options)


# Calls of the encoder up to step 13: 14 steps, two evaluations, twice the neighbours.
MIDDLE = 18


# Where an interrupt comes, and the step that is saved.
PLACES = {"encoder": 12, "optimiser": 10, "line": 12, "evaluate": 12, "neighbours": 10, "save": 12}


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_saves(kg, tmp_path, whole, monkeypatch, place):
    out, options = tmp_path / "run", {}
    if place == "encoder":  # in the second step of an update
        encoder = make_encoder(dropout=0.1)
        encoder.forward = Once(encoder.forward, MIDDLE)
        options["encoder"] = encoder
    elif place == "optimiser":  # when half of an update is done
        clear = Once(torch.optim.AdamW.zero_grad, 5)

        def zero_grad(self, **how):  # a method, which an instance of Once is not
            clear(self, **how)

        monkeypatch.setattr(torch.optim.AdamW, "zero_grad", zero_grad)
    elif place == "line":
        options["progress"] = Once(lambda line: None, 3)
    elif place == "evaluate":
        options["evaluate"] = Once(evaluate, 2)
    elif place == "neighbours":
        options["neighbours"] = Once(neighbours, 2)
    else:
        save = medcoder.train.state.save_file
        monkeypatch.setattr(medcoder.train.state, "save_file", Once(save, 3))
    with pytest.raises(KeyboardInterrupt):
        full_run(kg, out, **options)
    assert not (out / "model").exists()
    assert checkpoint_step(out) == PLACES[place]
    monkeypatch.undo()
    check_equal(out, full_run(kg, out, resume=True), whole)


def test_the_same_encoder_goes_on_after_an_interrupt(kg, tmp_path, whole):
    """As in a notebook: gradients of half an update must not stay behind."""
    out = tmp_path / "run"
    encoder = make_encoder(dropout=0.1)
    forward = encoder.forward
    encoder.forward = Once(forward, MIDDLE)
    with pytest.raises(KeyboardInterrupt):
        full_run(kg, out, encoder=encoder)
    assert any(p.grad.any() for p in encoder.parameters() if p.grad is not None)
    encoder.forward = forward
    full_run(kg, out, encoder=encoder, resume=True)
    check_equal(out, encoder, whole)


def test_a_callback_that_interrupts(kg, tmp_path, whole):
    out = tmp_path / "run"

    def stop(line):
        if line["step"] == 18 and "loss" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        full_run(kg, out, progress=stop)
    assert checkpoint_step(out) == 18
    check_equal(out, full_run(kg, out, resume=True), whole)


def test_signals_are_handled_as_before_afterwards(kg, tmp_path):
    def mine(*_):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, mine)
    try:
        run(kg, tmp_path / "run", "schedule.total=4")
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


# Checkpoints that could not be written


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), MemoryError()])
def test_an_error_while_writing_leaves_the_checkpoint_before(
    kg, tmp_path, whole, monkeypatch, error
):
    out = tmp_path / "run"
    save, calls = medcoder.train.state.save_file, []

    def broken(tensors, path):
        calls.append(path)
        save(tensors, path)
        if len(calls) == 3:
            os.truncate(path, 1000)
            raise error

    monkeypatch.setattr(medcoder.train.state, "save_file", broken)
    with pytest.raises(type(error)):
        full_run(kg, out)
    assert checkpoint_step(out) == 8
    verify(out / "checkpoint", kind="checkpoint")
    assert sorted(path.name for path in out.iterdir()) == [
        *("best", "checkpoint", "config.toml", "metrics.jsonl")
    ]
    monkeypatch.undo()
    check_equal(out, full_run(kg, out, resume=True), whole)


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_no_room_for_a_checkpoint(kg, tmp_path):
    out = tmp_path / "run"
    run(kg, out, "schedule.total=8", stop_after=4)
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, was[1]))
    try:
        with pytest.raises(DiskFull, match=r"checkpoint: no room left to write it"):
            run(kg, out, "schedule.total=8", resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
    assert checkpoint_step(out) == 4
    run(kg, out, "schedule.total=8", resume=True)
    assert checkpoint_step(out) == 8


def test_killed_between_the_two_renames(kg, tmp_path, whole):
    out = tmp_path / "run"
    full_run(kg, out, stop_after=14)
    (out / "checkpoint").rename(out / f".checkpoint.{os.getpid()}.old")
    seen = []
    encoder = full_run(kg, out, resume=True, progress=seen.append)
    assert min(line["step"] for line in seen) == 18  # the first line after step 14
    check_equal(out, encoder, whole)


def test_killed_before_the_first_checkpoint(kg, tmp_path, whole):
    out = tmp_path / "run"
    out.mkdir()
    lost = [{"step": step, "loss": 9.0} for step in (6, 12)]
    (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lost))
    check_equal(out, full_run(kg, out, resume=True), whole)


@pytest.fixture(scope="module")
def stopped(kg, tmp_path_factory):
    """A run with everything on that ended at step 20 of 24."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    full_run(kg, out, stop_after=20)
    return out


@pytest.mark.parametrize(
    "tail", ['{"step": 2', "{}\n", '{"step": 24, "loss": 1}\n', "\0\0\0", "[]\n"]
)
def test_lines_from_after_the_checkpoint_or_cut_short(kg, tmp_path, whole, stopped, tail):
    out = shutil.copytree(stopped, tmp_path / "run")
    with (out / "metrics.jsonl").open("a") as file:
        file.write(tail)
    check_equal(out, full_run(kg, out, resume=True), whole)


# What must be the same


@pytest.fixture(scope="module")
def begun(kg, tmp_path_factory):
    out = tmp_path_factory.mktemp("begun") / "run"
    run(kg, out, stop_after=4)
    return out


def test_a_directory_that_holds_a_run(kg, begun):
    before = (begun / "metrics.jsonl").read_bytes()
    with pytest.raises(UsageError, match=r"run: holds a run\. Resume it, or train to another"):
        run(kg, begun)
    assert (begun / "metrics.jsonl").read_bytes() == before


def test_other_settings(kg, begun):
    config = (begun / "config.toml").read_text()
    for change in ("optimiser.learning_rate=1", "sampler.k=16", "seed=7"):
        with pytest.raises(ArtefactError, match=r"other settings\. Compare its config\.toml"):
            run(kg, begun, change, resume=True)
    assert (begun / "config.toml").read_text() == config


def test_another_graph(begun, tmp_path):
    other = make_graph(tmp_path / "kg", size=23)
    encoder = make_encoder()
    with pytest.raises(ArtefactError, match="is of a run with another graph and another token"):
        medcoder.train.train(
            other,
            encoder,
            make_store(other, encoder, tmp_path / "tokens"),
            begun,
            settings(),
            resume=True,
        )


def test_another_model(kg, begun):
    deeper = TransformerEncoder(tiny.bert(num_hidden_layers=3), tiny.tokenizer())
    renamed = make_encoder()
    renamed.model.config._name_or_path = "models/other"
    for encoder in (deeper, renamed):
        with pytest.raises(ArtefactError, match=r"is of a run with another model\. Resume with"):
            run(kg, begun, encoder=encoder, resume=True)


def test_other_extra_terms(kg, begun, tmp_path):
    encoder = make_encoder()
    store = make_store(kg, encoder, tmp_path / "tokens", ["bad heart"])
    extra = (np.array([3]), np.array([len(kg.terms)]))
    config = settings()
    with pytest.raises(ArtefactError, match="another tokenizer or table of extra terms"):
        medcoder.train.train(kg, encoder, store, begun, config, extra=extra, resume=True)
    out = tmp_path / "run"
    options = {"resume": True, "extra": extra}
    medcoder.train.train(kg, encoder, store, out, config, stop_after=2, **options)
    options["extra"] = (np.array([4]), extra[1])  # the same text for another concept
    with pytest.raises(ArtefactError, match="another tokenizer or table of extra terms"):
        medcoder.train.train(kg, encoder, store, out, config, **options)


def test_other_teachers(kg, begun):
    terms = len(kg.terms)
    teacher = Teacher(weight=1.0, speaks=np.ones(terms, bool), vectors=np.ones((terms, 2)))
    with pytest.raises(ArtefactError, match="another choice of teachers"):
        run(kg, begun, teachers=[teacher], resume=True)


def test_a_damaged_checkpoint(kg, tmp_path):
    out = tmp_path / "run"
    run(kg, out, stop_after=4)
    os.truncate(out / "checkpoint" / "state.safetensors", 100)
    with pytest.raises(ArtefactError, match=r"the checkpoint is damaged: it has 100 bytes, not"):
        run(kg, out, resume=True)


def test_a_dense_table_and_untouched_parameters_come_back(kg, tmp_path):
    for form in ("bilinear", "low-rank", "diagonal", "translation"):
        changes = ["relation.dense=true", f"relation.form={form}", "schedule.total=8"]
        expected = weights(run(kg, tmp_path / f"{form}-whole", *changes, dropout=0.1))
        run(kg, tmp_path / form, *changes, dropout=0.1, stop_after=4)
        encoder = run(kg, tmp_path / form, *changes, dropout=0.1, resume=True)
        assert same(weights(encoder), expected)
        assert metrics(tmp_path / form) == metrics(tmp_path / f"{form}-whole")


# Losses that are no numbers


class Voice:
    """A teacher's encoder that goes mad at a call, which is a step."""

    def __init__(self, at=None):
        self._at, self._calls = at, 0

    def __call__(self, texts):
        self._calls += 1
        vectors = np.array([[len(text), 1.0] for text in texts], np.float32)
        return vectors * np.nan if self._calls == self._at else vectors


def taught(kg, voice):
    speaks = np.ones(len(kg.terms), bool)
    return [Teacher(weight=1.0, speaks=speaks, encode=voice, text=kg.terms.text)]


def test_a_loss_that_is_no_number(kg, tmp_path):
    expected = weights(run(kg, tmp_path / "whole", *OFTEN, teachers=taught(kg, Voice())))
    out = tmp_path / "run"
    with pytest.raises(NonFiniteLoss, match=r"not finite at step 16\. .* lower optim"):
        run(kg, out, *OFTEN, teachers=taught(kg, Voice(15)))  # step 15 ends in the update of 16
    assert checkpoint_step(out) == 12
    verify(out / "checkpoint", kind="checkpoint")
    assert [line["step"] for line in metrics(out)] == [6, 12]
    assert not (out / "model").exists()
    encoder = run(kg, out, *OFTEN, teachers=taught(kg, Voice()), resume=True)
    assert same(weights(encoder), expected)
    assert metrics(out) == metrics(tmp_path / "whole")


@pytest.mark.parametrize("often", ["checkpoint_every=2", "checkpoint_every=1000"])
def test_a_gradient_that_is_no_number(kg, tmp_path, often):
    """The loss is fine, and yet the update spoils the model: it is not saved."""
    out = tmp_path / "run"
    encoder, calls = make_encoder(), []

    def spoil(module, inputs, output):
        calls.append(output)
        if len(calls) == 9:
            output.register_hook(lambda gradient: gradient * torch.inf)

    encoder.register_forward_hook(spoil)
    with pytest.raises(NonFiniteLoss, match="gradient is not finite at step 10"):
        run(kg, out, often, "log_every=4", encoder=encoder)
    if often == "checkpoint_every=2":
        assert checkpoint_step(out) == 8
        run(kg, out, often, "log_every=4", resume=True)
    else:
        assert not (out / "checkpoint").exists()


def test_an_interrupt_does_not_save_what_is_no_number(kg, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(NonFiniteLoss):
        run(
            kg,
            out,
            "checkpoint_every=4",
            "evaluate_every=6",
            teachers=taught(kg, Voice(6)),
            encoder=interrupted_after(7),
        )
    assert checkpoint_step(out) == 4


def interrupted_after(calls):
    encoder = make_encoder()
    encoder.forward = Once(encoder.forward, calls)
    return encoder
