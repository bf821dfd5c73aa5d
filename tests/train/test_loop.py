"""The training loop: what lowers which loss, schedule, decay, clipping, reports."""

import copy
import json
import math

import numpy as np
import pytest
import torch

from medcoder.errors import UsageError
from medcoder.model.encoder import TransformerEncoder
from medcoder.train.config import load
from medcoder.train.objective import Objective, Sources
from medcoder.train.objective.teacher import Teacher
from medcoder.train.sampler import make_sampler
from medcoder.train.state import new_state
from medcoder.train.step import Prepared, Step, label, learning_rate_factor, prepare, update
from support.training import (
    COLUMNS,
    CONCEPTS,
    make_encoder,
    make_graph,
    make_store,
    metrics,
    run,
    settings,
    weights,
)


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("loop") / "kg")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("small") / "kg", size=8)


QUICK = ("schedule.total=72",)
QUICK += ("optimiser.learning_rate=0.005", "relation.learning_rate=0.05")


def begin_and_end(lines, name="loss", some=6):
    values = [line[name] for line in lines if name in line]
    return np.mean(values[:some]), np.mean(values[-some:])


# Losses go down


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([], id="the paper's"),
        pytest.param(["relation.dense=true"], id="dense"),
        pytest.param(["relation.form=low-rank", "relation.rank=4"], id="low-rank"),
        pytest.param(
            ["relation.form=translation", "relation.mu=0.1", "relation.loss.lam=-5"], id="TransE"
        ),
        pytest.param(["relation.labels=exact", "pooling=mean"], id="exact labels"),
        pytest.param(["loss.kind=info_nce", "loss.temperature=0.1"], id="InfoNCE"),
        pytest.param(
            ["sampler.relation_power=0", "sampler.pairs=6", "relation.form=diagonal"],
            id="pairs too",
        ),
    ],
)
def test_a_few_dozen_steps_lower_the_loss(small, tmp_path, changes):
    run(small, tmp_path / "run", *QUICK, *changes)
    lines = metrics(tmp_path / "run")
    first, last = begin_and_end(lines)
    assert last < 0.97 * first
    first, last = begin_and_end(lines, "relation")
    assert last < first
    assert all(line["relation"] > 0 and line["teachers"] == 0 for line in lines)


def test_without_relations_pairs_are_enough(tmp_path):
    kg = make_graph(tmp_path / "kg", size=8, edges=())
    run(kg, tmp_path / "run", *QUICK, "relation.mu=0", "sampler.pairs=6")
    lines = metrics(tmp_path / "run")
    first, last = begin_and_end(lines)
    assert last < 0.9 * first
    assert all(line["relation"] == 0 and line["loss"] == line["term"] for line in lines)
    assert all("missed_positives" not in line for line in lines)  # there is none to miss


def test_no_weight_on_relations_still_draws_triplets(kg, tmp_path):
    encoder = make_encoder()
    assert new_state(kg, encoder, settings("relation.mu=0")).table is None
    run(kg, tmp_path / "none", "relation.mu=0")
    run(kg, tmp_path / "some")
    none, some = metrics(tmp_path / "none"), metrics(tmp_path / "some")
    assert none[0]["term"] == some[0]["term"]  # the same triplets, so far the same model
    assert none[0]["loss"] == none[0]["term"]
    assert some[0]["loss"] == pytest.approx(some[0]["term"] + some[0]["relation"])
    assert none[-1]["term"] != some[-1]["term"]


def test_dense_and_lazy_begin_alike(kg, tmp_path):
    for name, dense in (("dense", "true"), ("lazy", "false")):
        run(kg, tmp_path / name, f"relation.dense={dense}")
    dense, lazy = metrics(tmp_path / "dense"), metrics(tmp_path / "lazy")
    for name in COLUMNS:
        assert dense[0][name] == pytest.approx(lazy[0][name], rel=1e-6)
    assert dense[-1]["loss"] == pytest.approx(lazy[-1]["loss"], rel=0.2)


def test_the_weight_of_relations_counts(kg, tmp_path):
    run(kg, tmp_path / "run", "relation.mu=0.25")
    for line in metrics(tmp_path / "run"):
        assert line["loss"] == pytest.approx(line["term"] + 0.25 * line["relation"])


# Labels


def test_equal_tails_and_true_triplets(kg):
    sampler = make_sampler(kg, settings(), None)
    found = 0
    for step in range(20):
        batch = sampler.batch(0, step)
        heads, tails = batch.heads, batch.tails
        equal, missed = label(sampler, batch, settings(), measure=True)
        true, share = label(sampler, batch, settings("relation.labels=exact"), measure=False)
        ids = list(kg)
        edges = {(e.head, e.relation, e.tail) for c in ids for e in kg.neighbours(c)}
        for i in range(8):
            for j in range(8):
                relation = kg.relations[batch.relations[i // 2]]
                assert equal[i, j] == (tails[i] == tails[j])
                assert true[i, j] == ((ids[heads[i]], relation, ids[tails[j]]) in edges)
        assert missed == share == (true & ~equal).sum() / (~equal).sum()
        found += missed > 0
        unmeasured = label(sampler, batch, settings(), measure=False)
        assert np.array_equal(unmeasured[0], equal) and math.isnan(unmeasured[1])
    assert found > 2  # "next" has two tails a head


def missed(lines):
    return [line["missed_positives"] for line in lines]


def test_exact_labels_change_the_relation_loss_alone(kg, tmp_path):
    run(kg, tmp_path / "tail")
    run(kg, tmp_path / "exact", "relation.labels=exact")
    tail, exact = metrics(tmp_path / "tail"), metrics(tmp_path / "exact")
    assert missed(tail) == missed(exact)
    assert sum(missed(tail)) > 0
    first = next(i for i, line in enumerate(tail) if line["missed_positives"])
    assert tail[first]["relation"] != exact[first]["relation"]


# Schedule and optimiser


def test_warm_up_peak_and_decay_in_steps():
    def factor(before):
        return learning_rate_factor(before, 8, warmup=10_000, total=100_000)

    assert factor(0) == 8 / 10_000
    assert factor(4992) == 0.5
    assert factor(9992) == 1.0
    assert factor(10_000) == 1.0
    assert factor(55_000) == 0.5
    assert factor(99_992) == 8 / 90_000
    assert factor(100_000) == 0.0
    assert factor(100_008) == 0.0


def test_warm_up_peak_and_decay_in_updates():
    factors = [learning_rate_factor(before, 1, warmup=4, total=10) for before in range(11)]
    assert factors == pytest.approx(
        [1 / 4, 2 / 4, 3 / 4, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0]
    )
    assert learning_rate_factor(0, 1, warmup=0, total=4) == 1.0
    assert learning_rate_factor(3, 1, warmup=0, total=4) == 0.25
    assert [learning_rate_factor(b, 1, warmup=2, total=2) for b in range(2)] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        # Updates of 2 steps each; the last of 7 steps in all is step 8.
        ("steps", [2 / 4, 1, 1, 1 / 3]),
        ("updates", [1 / 4, 2 / 4, 3 / 4, 1, 1, 2 / 3, 1 / 3]),
    ],
)
def test_a_run_follows_its_schedule(kg, tmp_path, unit, expected):
    changes = [f"schedule.unit={unit}", "schedule.warmup=4", "schedule.total=7"]
    run(kg, tmp_path / "run", *changes, "optimiser.learning_rate=0.012")
    lines = metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == [2 * n for n in range(1, len(expected) + 1)]
    rates = [line["learning_rate"] / 0.012 for line in lines]
    assert rates == pytest.approx(expected)


def test_no_decay_on_biases_and_norms(kg):
    encoder = make_encoder()
    config = settings("optimiser.weight_decay=0.3", "relation.dense=true")
    state = new_state(kg, encoder, config)
    names = {id(p): name for name, p in encoder.named_parameters()}
    decays, bare, relations = state.optimiser.param_groups
    assert (decays["weight_decay"], bare["weight_decay"]) == (0.3, 0.0)
    expected = {n for n in names.values() if n.endswith((".bias", "LayerNorm.weight"))}
    assert {names[id(p)] for p in bare["params"]} == expected
    assert {names[id(p)] for p in decays["params"]} == set(names.values()) - expected
    assert len(expected) == 23 and "model.embeddings.LayerNorm.weight" in expected
    assert relations["params"] == [state.table] and relations["weight_decay"] == 0.3


def nothing(touched=()):
    return Prepared(0, 2, [], np.array(touched, np.int64), math.nan)


@pytest.mark.parametrize("clip", [1e-3, 0.5, 1e6])
def test_clipping_and_adamw_are_those_of_torch(kg, clip):
    changes = [f"optimiser.clip={clip}", "optimiser.weight_decay=0.1", "schedule.warmup=0"]
    config = settings("relation.mu=0", *changes)
    ours = make_encoder()
    theirs = copy.deepcopy(ours)
    state = new_state(kg, ours, config)
    bare = [p for n, p in theirs.named_parameters() if n.endswith((".bias", "LayerNorm.weight"))]
    chosen = {id(p) for p in bare}
    others = [p for p in theirs.parameters() if id(p) not in chosen]
    groups = [{"params": others}, {"params": bare, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=0.002, weight_decay=0.1)
    draw = torch.Generator().manual_seed(0)
    for number in range(3):
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            gradient = torch.randn(mine.shape, generator=draw) / 50
            mine.grad, other.grad = gradient.clone(), gradient.clone()
        expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        for group in adamw.param_groups:
            group["lr"] = 0.002 * (24 - 2 * number) / 24
        adamw.step()
        ready = Prepared(2 * number, 2 * number + 2, [], np.zeros(0, np.int64), math.nan)
        rate, norm = update(state, ready, config, 1)
        assert rate == pytest.approx(0.002 * (24 - 2 * number) / 24)
        assert norm.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)
        assert mine.grad is None


@pytest.mark.parametrize("dense", [False, True])
def test_relations_count_in_the_norm_and_are_clipped_too(kg, dense):
    """The gradients of encoder and relations are 3 and 4 long: together 5."""
    change = f"relation.dense={str(dense).lower()}"
    config = settings(change, "optimiser.clip=0.5", "relation.form=diagonal", "schedule.warmup=0")
    encoder = make_encoder()
    state = new_state(kg, encoder, config)
    for parameter in encoder.parameters():
        parameter.grad = torch.zeros_like(parameter)
    next(encoder.parameters()).grad[0, 0] = 3.0
    if dense:
        before = state.table.detach().clone()
        state.table.grad = torch.zeros_like(state.table)
        state.table.grad[1, 5] = -4.0
    else:
        before = state.table.values.clone()
        state.table.gradients[0, 5] = -4.0  # of the first relation touched
    _, norm = update(state, nothing([1]), config, 1)
    assert norm.item() == pytest.approx(5.0)
    first = next(encoder.parameters())
    kept = state.optimiser.state[first]["exp_avg"][0, 0].item()
    assert kept == pytest.approx(0.1 * 3 * 0.5 / 5)
    moment = state.optimiser.state[state.table]["exp_avg"] if dense else state.table.first
    assert moment[1, 5].item() == pytest.approx(0.1 * -4 * 0.5 / 5)
    after = state.table.detach() if dense else state.table.values
    assert after[1, 5] > before[1, 5]


# Steps of an update together or one by one


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["relation.dense=true"],
        ["relation.mu=0", "sampler.pairs=5"],
        ["loss.kind=info_nce", "relation.loss.kind=info_nce", "sampler.pairs=5", "pooling=mean"],
        ["relation.form=translation", "relation.labels=exact"],
    ],
    ids=["lazy", "dense", "pairs", "info_nce", "translation"],
)
def test_eight_steps_at_once_are_eight_one_by_one(kg, tmp_path, changes):
    config = settings("optimiser.accumulation=8", *changes)
    encoder = make_encoder(pooling=config.pooling)
    store = make_store(kg, encoder, tmp_path / "tokens")
    draw = np.random.default_rng(0)
    speaks = draw.random(len(kg.terms)) < 0.8
    vectors = draw.normal(size=(len(kg.terms), 7)).astype(np.float32)
    teachers = [Teacher(weight=3.0, speaks=speaks, vectors=vectors)]
    sampler = make_sampler(kg, config, None)
    objective = Objective(Sources(config, kg, encoder, teachers))
    ready = next(prepare(sampler, store, config, range(8, 16), objective=objective))
    assert (ready.start, ready.stop, len(ready.inputs)) == (8, 16, 8)
    results = []
    for at_once in (1, 8, 3):
        student = copy.deepcopy(encoder)
        table = new_state(kg, student, config).table
        step = Step(student, table, objective, accumulation=8, at_once=at_once, bf16=False)
        report = step.run(ready.inputs)
        assert report[COLUMNS.index("teachers")] > 0
        gradients = {n: p.grad for n, p in student.named_parameters() if p.grad is not None}
        if table is not None:
            gradients["relation"] = table.gradients if hasattr(table, "gradients") else table.grad
            assert gradients["relation"].abs().sum() > 0
        results.append((report, gradients))
    report, gradients = results[0]
    assert len(gradients) > 30
    for other, others in results[1:]:
        torch.testing.assert_close(other, report, rtol=1e-5, atol=1e-5)
        assert others.keys() == gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(others[name], gradient, rtol=1e-4, atol=1e-6)


# Reports


def test_lines_of_metrics(kg, tmp_path):
    seen = []
    run(kg, tmp_path / "run", "log_every=2", "schedule.total=24", progress=seen.append)
    every = metrics(tmp_path / "run")
    assert [line["step"] for line in every] == list(range(2, 25, 2))
    names = {"step", *COLUMNS, "learning_rate", "missed_positives"}
    assert all(line.keys() == names for line in every)
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert [json.loads(line) for line in text.splitlines()] == seen
    assert all(line["terms_per_second"] > 0 for line in seen)
    assert all(0 <= line["negatives"] <= 15 and 0 < line["positives"] <= 15 for line in every)
    # Every line is the mean since the one before.
    run(kg, tmp_path / "rare", "log_every=10", "schedule.total=24")
    rare = metrics(tmp_path / "rare")
    assert [line["step"] for line in rare] == [10, 20]
    for line, some in zip(rare, (every[:5], every[5:10]), strict=True):
        for name in COLUMNS:
            assert line[name] == pytest.approx(np.mean([one[name] for one in some]))


def test_an_update_that_is_longer_than_a_line(kg, tmp_path):
    run(kg, tmp_path / "run", "optimiser.accumulation=6", "log_every=4", "checkpoint_every=100")
    lines = metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == [6, 12, 18, 24]
    assert all("missed_positives" in line for line in lines)


def test_the_settings_are_kept(kg, tmp_path):
    changes = ["schedule.total=2", "schedule.warmup=0"]
    run(kg, tmp_path / "run", *changes)
    assert load(tmp_path / "run" / "config.toml") == settings(*changes)


# Evaluation, hard negatives, teachers


def test_the_best_model_is_kept(kg, tmp_path):
    texts = [kg.terms.text(number) for number in range(5)]
    scores = iter([0.2, 0.5, 0.4, 0.7, 0.1, math.nan])
    seen = []

    def evaluate(encoder):
        encoder.eval()
        seen.append(encoder.encode(texts))
        assert not encoder.training
        return {"score": next(scores), "other": len(seen)}

    modes = []
    encoder = make_encoder()
    encoder.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    run(kg, tmp_path / "run", "evaluate_every=4", encoder=encoder, evaluate=evaluate)
    assert len(seen) == 6
    assert (modes.count(True), modes.count(False)) == (24, 6)  # back to training after each
    best = TransformerEncoder.load(tmp_path / "run" / "best")
    assert np.array_equal(best.encode(texts), seen[3])
    assert json.loads((tmp_path / "run" / "best" / "medcoder.json").read_text())["step"] == 16
    last = TransformerEncoder.load(tmp_path / "run" / "model")
    assert np.array_equal(last.encode(texts), seen[-1])
    lines = [line for line in metrics(tmp_path / "run") if "eval.score" in line]
    assert [line["step"] for line in lines] == [4, 8, 12, 16, 20, 24]  # and not again at the end
    assert [line["eval.score"] for line in lines[:5]] == [0.2, 0.5, 0.4, 0.7, 0.1]
    assert [line["eval.other"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_hard_negatives_come_every_so_many_steps(kg, tmp_path):
    steps, done, models = [], [0], []

    def neighbours(encoder):
        steps.append(done[-1])
        models.append(weights(encoder)["embeddings.word_embeddings.weight"])
        encoder.eval()
        return np.tile(np.array([[3, 9]], np.uint16), (CONCEPTS, 1))

    changes = ["sampler.pairs=6", "sampler.hard_every=7", "schedule.total=24"]
    encoder = make_encoder()
    run(
        kg,
        tmp_path / "hard",
        *changes,
        encoder=encoder,
        neighbours=neighbours,
        progress=lambda line: done.append(line["step"]),
    )
    assert steps == [0, 8, 16]  # at whole updates of 2 steps
    assert not torch.equal(models[0], models[1]) and not torch.equal(models[1], models[2])
    assert encoder.training
    run(kg, tmp_path / "easy", "sampler.pairs=6", "schedule.total=24")
    assert metrics(tmp_path / "hard")[0]["term"] != metrics(tmp_path / "easy")[0]["term"]


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((CONCEPTS - 1, 2), np.int64),
        np.zeros(CONCEPTS, np.int64),
        np.zeros((CONCEPTS, 0), np.int64),
        np.zeros((CONCEPTS, 2)),
        np.full((CONCEPTS, 2), -1),
        np.full((CONCEPTS, 2), CONCEPTS),
    ],
)
def test_hard_negatives_that_are_none(kg, tmp_path, wrong):
    changes = ["sampler.pairs=6", "sampler.hard_every=8"]
    with pytest.raises(UsageError, match=r"neighbours gave .* \(24, h\)"):
        run(kg, tmp_path / "run", *changes, neighbours=lambda encoder: wrong)


def test_hard_negatives_that_nobody_could_draw(kg, tmp_path):
    with pytest.raises(UsageError, match=r"sampler\.hard_every: needs a function `neighbours`"):
        run(kg, tmp_path / "run", "sampler.pairs=6", "sampler.hard_every=8")


def test_a_share_of_extra_terms_that_are_not_there(kg, tmp_path):
    with pytest.raises(UsageError, match=r"sampler\.extra_share: .*: 0\.5\. .* --extra"):
        run(kg, tmp_path / "run", "sampler.pairs=6", "sampler.extra_share=0.5")
    with pytest.raises(UsageError, match=r"sampler\.extra_anchored: .*: 0\.5\. .* --extra"):
        run(kg, tmp_path / "run", "sampler.pairs=6", "sampler.extra_anchored=0.5")


def test_teachers_are_followed(kg, tmp_path):
    draw = np.random.default_rng(5)
    vectors = draw.normal(size=(len(kg.terms), 6)).astype(np.float16)
    everything = np.ones(len(kg.terms), bool)
    teacher = Teacher(weight=20.0, speaks=everything, vectors=vectors)
    run(kg, tmp_path / "run", "schedule.total=48", "relation.mu=0", teachers=[teacher])
    lines = metrics(tmp_path / "run")
    first, last = begin_and_end(lines, "teachers")
    assert last < 0.7 * first
    for line in lines:
        assert line["loss"] == pytest.approx(line["term"] + line["teachers"], rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"vectors": np.ones((4, 2))},
        {"vectors": np.ones(3)},
        {"vectors": np.ones((3, 2)), "encode": len, "text": str},
        {"encode": len},
    ],
)
def test_a_teacher_that_makes_no_sense(options):
    with pytest.raises(UsageError, match=r"a teacher (has|needs)"):
        Teacher(weight=1.0, speaks=np.ones(3, bool), **options)


def test_slots_that_processes_cannot_share(kg, tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.train.loop.join", lambda: (0, 3))
    with pytest.raises(UsageError, match=r"do not divide .*: 3 processes, k = 8, pairs = 0"):
        run(kg, tmp_path / "run")
