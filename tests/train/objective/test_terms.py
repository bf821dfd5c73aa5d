"""Terms of the objective: names and hold against loops, weights over steps, terms from outside."""

import sys

import numpy as np
import pytest
import torch

from medcoder.errors import InputError, UnknownName, UsageError
from medcoder.model.losses import LOSSES
from medcoder.text import fold
from medcoder.train import OBJECTIVE_TERMS
from medcoder.train.config import TermConfig, TrainConfig, Weight, load, to_toml
from medcoder.train.extra import Extra
from medcoder.train.objective import Embeddings, Labels, Objective, Own, Sources, mean_by_step
from medcoder.train.sampler import Batch, make_sampler
from medcoder.train.session import open_run
from medcoder.train.step import Step, prepare
from support import naive
from support.training import (
    COLUMNS,
    SETTINGS,
    make_encoder,
    make_graph,
    make_model,
    make_store,
    metrics,
    run,
    settings,
)

WIDTH = 32  # of the tiny BERT
ORACLES = {
    "synonyms": naive.multi_similarity,
    "relations": naive.bilinear,
    "teacher": naive.cosines,
    "names": naive.names,
    "hold": naive.hold,
    "pairs": naive.pairs,
}


def test_every_term_is_tried():
    assert set(ORACLES) == set(OBJECTIVE_TERMS)


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("terms") / "kg")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("terms") / "model")


@pytest.fixture(scope="module")
def given(kg, tmp_path_factory):
    """Names of all concepts but the last three, some with two, in no order; texts to hold."""
    folder = tmp_path_factory.mktemp("given")
    draw = np.random.default_rng(0)
    owners = draw.permutation([*range(len(kg) - 3), 0, 0, 5])
    rows = [f"name {number}\t{concept}" for number, concept in enumerate(kg.ids(owners))]
    (folder / "names.tsv").write_text("\n".join(["term\tconcept", *rows]) + "\n")
    np.save(folder / "names.npy", draw.normal(size=(len(owners), WIDTH)))
    texts = [f"{kg.terms.text(number)}\t{number % 3}" for number in range(9)]
    (folder / "texts.tsv").write_text("\n".join(["text\tshare", *texts]) + "\n")
    np.save(folder / "texts.npy", draw.normal(size=(9, WIDTH)).astype(np.float32))
    np.save(folder / "terms.npy", draw.normal(size=(len(kg.terms), WIDTH)).astype(np.float32))
    return folder, owners


def names_options(folder, **options):
    return {"table": str(folder / "names.tsv"), "vectors": str(folder / "names.npy")} | options


def texts_options(folder, **options):
    return {"texts": str(folder / "texts.tsv"), "vectors": str(folder / "texts.npy")} | options


def made(kg, kind, **options):
    sources = Sources(TrainConfig(), kg, make_encoder(), extra=Extra())
    return OBJECTIVE_TERMS.load(kind)(sources, **options)


def some_terms(kg, steps, size=10, seed=0):
    """Terms and concepts of a few steps, as batches and as the device has them."""
    draw = np.random.default_rng(seed)
    terms = draw.integers(0, len(kg.terms), (steps, size))
    terms[:, 0] = len(kg.terms) - 1  # of a concept without names
    concepts = np.searchsorted(kg.terms.first, terms, "right") - 1
    batches = [
        Batch(concept, term, np.zeros(0, np.int64), 0)
        for concept, term in zip(concepts, terms, strict=True)
    ]
    vectors = torch.from_numpy(draw.normal(size=(steps, size, WIDTH)))
    return batches, Labels(torch.from_numpy(concepts)), vectors


def stacked(drawn):
    keys = drawn[0].arrays
    return {key: torch.from_numpy(np.stack([one.arrays[key] for one in drawn])) for key in keys}


def measured(term, batches, labels, vectors):
    drawn = [term.draw(batch, np.random.default_rng(0)) for batch in batches]
    return term(labels, Embeddings(vectors), Own(stacked(drawn))).item(), drawn


# Names


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.5, "each": 0.0}, {"each": 1, "languages": ("en", "spa")}]
)
def test_names_equal_the_loops(kg, given, steps, options):
    folder, owners = given
    term = made(kg, "names", **names_options(folder, **options))
    batches, labels, vectors = some_terms(kg, steps)
    found, drawn = measured(term, batches, labels, vectors)
    known = np.load(folder / "names.npy").tolist()
    expected = []
    for batch, one, step in zip(batches, drawn, vectors.tolist(), strict=True):
        languages = [kg.languages[number] for number in kg.terms.info[batch.terms, 0]]
        wanted = ("en", "es") if "languages" in options else kg.languages
        asked = [
            tag in wanted and concept < len(kg) - 3
            for tag, concept in zip(languages, batch.concepts, strict=True)
        ]
        assert one.arrays["asked"].tolist() == asked and 0 < sum(asked) < len(asked)
        numbers = {name: options[name] for name in ("temperature", "each") if name in options}
        expected.append(naive.names(step, batch.concepts, asked, known, owners, **numbers))
    assert found == pytest.approx(np.mean(expected), rel=1e-5)


def test_names_have_finite_gradients_where_nothing_is_asked(kg, given):
    term = made(kg, "names", **names_options(given[0]))
    last = len(kg) - 1  # a concept without names
    labels = Labels(torch.full((1, 4), last))
    vectors = torch.randn(1, 4, WIDTH, requires_grad=True)
    loss = term(labels, Embeddings(vectors), Own({"asked": torch.zeros(1, 4, dtype=torch.bool)}))
    loss.backward()
    assert loss.item() == 0 and vectors.grad.abs().sum() == 0


def test_names_ask_as_many_as_wanted(kg, given):
    options = names_options(given[0])
    every, few = made(kg, "names", **options), made(kg, "names", **options, most=4)
    batch = some_terms(kg, 1)[0][0]
    vectors = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 10, WIDTH)))
    drawn = few.draw(batch, np.random.default_rng(2))
    places = drawn.arrays["places"]
    assert len(set(places.tolist())) == 4 and drawn.arrays["asked"].all()
    assert places.tolist() != few.draw(batch, np.random.default_rng(3)).arrays["places"].tolist()
    labels = Labels(torch.from_numpy(batch.concepts)[None])
    found = few(labels, Embeddings(vectors), Own(stacked([drawn])))
    chosen = Labels(labels.concepts[:, places])
    asked = Own({"asked": torch.ones(1, 4, dtype=torch.bool)})
    assert found.item() == pytest.approx(
        every(chosen, Embeddings(vectors[:, places]), asked).item(), rel=1e-6
    )


def test_names_that_the_model_makes_again(kg, given):
    encoder = make_encoder()
    table = given[0] / "names.tsv"
    term = OBJECTIVE_TERMS.load("names")(
        Sources(TrainConfig(), kg, encoder), table=str(table), refresh=4
    )
    memory = {}
    term.begin(0, memory)
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    rows.sort(key=lambda row: kg.index(row[1]))
    expected = torch.from_numpy(encoder.encode([text for text, _ in rows]))
    torch.testing.assert_close(memory["units"], expected, atol=1e-5, rtol=0)
    before = memory["units"]
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(1.1)
    term.begin(3, memory)
    assert memory["units"] is before
    term.begin(5, memory)
    assert not torch.allclose(memory["units"], before, atol=1e-3) and int(memory["step"]) == 5
    assert encoder.training is make_encoder().training


def test_a_run_resumes_with_the_names_that_it_had(kg, given, tmp_path):
    table = ["objective.names.table=" + str(given[0] / "names.tsv"), "objective.names.refresh=6"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(kg, whole, *table)
    run(kg, broken, *table, stop_after=4)
    run(kg, broken, *table, resume=True)
    assert metrics(broken) == metrics(whole)


# Pairs


def pair_table(kg, folder):
    """Texts of the graph in pairs; the second is there in both orders, the last twice a text."""
    texts = [kg.terms.text(number) for number in range(8)]
    rows = [(0, 1), (2, 3), (3, 2), (4, 5), (0, 6)]
    lines = [f"{texts[one]}\t{texts[other]}\t{number}" for number, (one, other) in enumerate(rows)]
    path = folder / "pairs.tsv"
    path.write_text("\n".join(["text\tother\tshare", *lines]) + "\n", encoding="utf-8")
    return path, [(texts[one], texts[other]) for one, other in rows]


def alike_in(pairs):
    known = {frozenset((fold(one), fold(other))) for one, other in pairs}
    return lambda one, other: (
        fold(one) == fold(other) or frozenset((fold(one), fold(other))) in known
    )


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("frozen", [False, True])
def test_pairs_equal_the_loops(kg, tmp_path, steps, frozen):
    path, rows = pair_table(kg, tmp_path)
    vectors = np.random.default_rng(0).normal(size=(len(rows), WIDTH))
    np.save(tmp_path / "pairs.npy", vectors)
    given = {"vectors": str(tmp_path / "pairs.npy")} if frozen else {}
    term = made(kg, "pairs", table=str(path), count=6, temperature=0.3, near=0.5, **given)
    drawn = [term.draw(None, np.random.default_rng(seed)) for seed in range(steps)]
    sides = 1 if frozen else 2
    own = torch.from_numpy(np.random.default_rng(5).normal(size=(steps, 6 * sides, WIDTH)))
    found = term(None, None, Own(stacked(drawn), own)).item()
    tokens = {tuple(ids): text for text in {t for row in rows for t in row}
              for ids in make_encoder().tokenize([text])}  # fmt: skip
    expected = []
    for one, vector in zip(drawn, own.tolist(), strict=True):
        ids = np.split(one.texts[0], np.cumsum(one.texts[1])[:-1])
        said = [tokens[tuple(each.tolist())] for each in ids]
        if frozen:
            targets = one.arrays["target"].tolist()
            places = [int(np.flatnonzero(np.isclose(vectors, row).all(1))[0]) for row in targets]
            others = [rows[place][1] for place in places]
            assert [rows[place][0] for place in places] == said and 0 not in places
        else:
            others, targets = said[6:], vector[6:]
            assert set(zip(said[:6], others, strict=True)) <= set(rows[1:])
        texts = said[:6]
        items = [*texts, *others] if not frozen else others
        anchors = items if not frozen else texts
        near = alike_in(rows)
        value = naive.pairs(
            vector[:6], targets, lambda i, j: near(anchors[i], items[j]),  # noqa: B023
            temperature=0.3, both=not frozen,
        )  # fmt: skip
        apart = naive.hold(vector[:6], targets, [True] * 6)
        expected.append(value + 0.5 * apart)
    assert found == pytest.approx(np.mean(expected), rel=1e-5)


# Hold


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("languages", [(), ("ja",)])
def test_holding_the_terms_of_a_step(kg, given, steps, languages):
    path = str(given[0] / "terms.npy")
    term = made(kg, "hold", vectors=path, languages=languages)
    batches, labels, vectors = some_terms(kg, steps)
    found, _ = measured(term, batches, labels, vectors)
    targets = np.load(path)
    japanese = kg.terms.info[:, 0] == kg.languages.index("ja")
    expected = [
        naive.hold(step, targets[batch.terms].tolist(), japanese[batch.terms] | (not languages))
        for batch, step in zip(batches, vectors.tolist(), strict=True)
    ]
    assert found == pytest.approx(np.mean(expected), rel=1e-6)


def test_holding_texts_of_a_table(kg, given):
    term = made(kg, "hold", **texts_options(given[0], count=200))
    batch = some_terms(kg, 1)[0][0]
    drawn = term.draw(batch, np.random.default_rng(3))
    again = term.draw(batch, np.random.default_rng(3))
    assert all(
        np.array_equal(one, other) for one, other in zip(drawn.texts, again.texts, strict=True)
    )
    targets = np.load(given[0] / "texts.npy")
    rows = [int(np.flatnonzero((targets == row).all(1))[0]) for row in drawn.arrays["target"]]
    assert not {0, 3, 6} & set(rows)  # whose share is 0
    assert 1.5 < sum(row % 3 == 2 for row in rows) / sum(row % 3 == 1 for row in rows) < 2.7
    tokens, lengths = drawn.texts
    expected = make_encoder().tokenize([kg.terms.text(row) for row in rows])
    assert lengths.tolist() == [len(ids) for ids in expected]
    assert tokens.tolist() == [number for ids in expected for number in ids]
    own = torch.randn(1, 200, WIDTH)
    arrays = stacked([drawn])
    found = term(None, None, Own(arrays, own)).item()
    everything = [True] * 200
    assert found == pytest.approx(
        naive.hold(own[0].tolist(), arrays["target"][0].tolist(), everything), rel=1e-5
    )


def test_processes_share_the_texts_of_a_term(kg, given, tmp_path):
    config = settings(*term_settings(given[0]))
    encoder = make_encoder()
    objective = Objective(Sources(config, kg, encoder))
    store, sampler = make_store(kg, encoder, tmp_path / "tokens"), make_sampler(kg, config, None)
    whole, *parts = (
        next(prepare(sampler, store, config, range(2), objective=objective, **options)).inputs[1]
        for options in ({}, {"rank": 0, "processes": 2}, {"rank": 1, "processes": 2})
    )
    for number in range(2):  # tokens and lengths
        joined = np.concatenate([part.drawn["texts"].texts[number] for part in parts])
        assert np.array_equal(joined, whole.drawn["texts"].texts[number])
    with pytest.raises(UsageError, match="3 processes do not divide the 4 texts"):
        next(prepare(sampler, store, config, range(2), objective=objective, processes=3))


def test_means_by_step_of_what_is_chosen():
    values = torch.tensor([[1.0, 2.0, 9.0], [5.0, 5.0, 5.0]])
    chosen = torch.tensor([[True, True, False], [False, False, False]])
    assert mean_by_step(values, chosen).item() == 0.75


@pytest.mark.parametrize(
    ("kind", "change", "error", "message"),
    [
        ("names", {"each": 1.5}, UsageError, "each is 1.5"),
        ("names", {"table": "absent.tsv"}, InputError, "absent.tsv"),
        ("names", {"vectors": "terms"}, InputError, "expected .24, width."),
        ("names", {"vectors": "narrow"}, UsageError, "width 3, the model has 32"),
        ("names", {"refresh": 5}, UsageError, "either vectors or refresh"),
        ("pairs", {"vectors": "narrow"}, InputError, "expected .2, width."),
        ("pairs", {"table": "names.tsv"}, InputError, "no such column: text"),
        ("pairs", {"table": "odd pairs.tsv"}, InputError, "share 'much'"),
        ("hold", {"count": 0}, UsageError, "texts and count go together"),
        ("hold", {"texts": ""}, UsageError, "texts and count go together"),
        ("hold", {"languages": ("en",)}, UsageError, "languages without them"),
        ("hold", {"texts": "names.tsv"}, InputError, "no such column: text"),
        ("hold", {"texts": "odd.tsv"}, InputError, "share 'much'"),
        ("hold", {"vectors": "names"}, InputError, "expected .9, width."),
    ],
)
def test_options_that_make_no_sense(kg, given, kind, change, error, message):
    folder, owners = given
    np.save(folder / "narrow.npy", np.ones((len(owners), 3)))
    (folder / "odd.tsv").write_text("text\tshare\nfever\tmuch\n")
    (folder / "odd pairs.tsv").write_text("text\tother\tshare\nfever\tcold\tmuch\n")
    (folder / "two.tsv").write_text("text\tother\nfever\tcold\nhead\theart\n")
    change = {
        name: str(folder / (f"{value}.npy" if name == "vectors" else value))
        if name in ("texts", "table", "vectors") and value
        else value
        for name, value in change.items()
    }
    usual = {
        "names": names_options(folder),
        "hold": texts_options(folder, count=2),
        "pairs": {"table": str(folder / "two.tsv"), "count": 2},
    }[kind]
    with pytest.raises(error, match=message):
        made(kg, kind, **usual | change)


# Weights


def test_a_weight_is_constant_or_on_a_line():
    assert Weight.read(2).at(0) == Weight.read(2).at(10**6) == 2
    line = Weight.read({"from": 4.0, "to": 1.0, "between": [10, 40]})
    assert [line.at(step) for step in (0, 10, 20, 40, 99)] == [4, 4, 3, 1, 1]


@pytest.mark.parametrize(
    "text",
    ["-1", "nan", "true", "much", "{from = 1}", "{from = 1, to = 2, between = [5, 5]}",
     "{from = 1, to = 2, between = [0.5, 5]}", "{from = 1, to = -2, between = [0, 5]}",
     "{from = 1, to = 2, between = [0, 5], by = 3}"],
)  # fmt: skip
def test_weights_that_make_no_sense(text):
    with pytest.raises(UsageError, match=r"^objective\.synonyms\.weight is .*: expected a number"):
        load(None, [f"objective.synonyms.weight={text}"])


def test_the_objective_in_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        """
        [objective.synonyms]
        weight = 0.5
        [objective.names]
        table = "names.tsv"
        vectors = "names.npy"
        languages = ["es"]
        [objective.first]
        kind = "hold"
        weight = { from = 4.0, to = 0, between = [0, 1000] }
        vectors = "held.npy"
        texts = "held.tsv"
        count = 512
        pooling = "cls"
        """
    )
    config = load(path, ["objective.names.temperature=0.1", "objective.names.weight=3"])
    assert list(config.objective) == ["synonyms", "names", "first"]
    assert config.objective["synonyms"] == TermConfig(kind="synonyms", weight=0.5)
    names = config.objective["names"]
    assert (names.kind, names.weight, names.options["temperature"]) == ("names", Weight(3), 0.1)
    assert names.options["languages"] == ("es",)
    assert config.objective["first"].weight == Weight(4.0, 0, (0, 1000))
    written = tmp_path / "written.toml"
    written.write_text(to_toml(config))
    assert load(written) == config


@pytest.mark.parametrize(
    ("override", "error", "message"),
    [
        ("objective.nams.weight=2", UnknownName, "objective.nams.kind: no term of the objective is "
         "called 'nams'; did you mean 'names'?"),
        ("objective.hold.vectrs=x", UnknownName, "did you mean 'objective.hold.vectors'?"),
        ("objective.hold.count=2.5", UsageError, "objective.hold.count is 2.5: expected a whole"),
        ("objective.hold.count=-1", UsageError, "objective.hold.count is -1: it must be at least"),
        ("objective.hold.weight=2", UsageError, "objective.hold.vectors is missing"),
        ("objective.hold.each=2", UnknownName, "objective.hold.each is no option here"),
        ("objective.hold=2", UsageError, "objective.hold is 2: expected a table"),
        ("objective=2", UsageError, "objective is 2: expected a table"),
        ("loss.kind=infonce", UnknownName, "--set loss.kind=infonce: loss.kind: no loss is called "
         "'infonce'; did you mean 'info_nce'?"),
        ("relation.form=lowrank", UnknownName, "did you mean 'low-rank'?"),
        ("loss.kind=3", UsageError, "loss.kind is 3: expected a string"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(override, error, message):
    with pytest.raises(error) as caught:
        load(None, [override])
    assert message in str(caught.value)


def test_terms_that_other_settings_ask_for():
    for override, needed in (
        ("objective.relations.weight=2", "relation.mu above 0"),
        ("objective.teacher.weight=2", "--teacher"),
    ):
        config = load(None, ["relation.mu=0", override])
        with pytest.raises(UsageError, match=needed):
            Objective(Sources(config))
    for override in ("objective.mine.kind=teacher", "objective.yours.kind=relations"):
        with pytest.raises(UsageError, match="has its own name and no other kind"):
            Objective(Sources(load(None, [override])))
    config = load(None, ["relation.mu=0.3", "objective.relations.weight=2"])
    assert Objective(Sources(config)).active(0) == {"synonyms": 1, "relations": 2}


# In a run


def term_settings(folder, *changes):
    """Both terms, one of them of two kinds, with weights that change."""
    given = [f"objective.{name}.{option}={value}" for name, options in {
        "names": names_options(folder, weight=0.5),
        "texts": texts_options(folder, kind="hold", count=4, weight=2, pooling="mean"),
        "before": {"kind": "hold", "vectors": str(folder / "terms.npy"),
                   "weight": "{from = 1.0, to = 0.0, between = [0, 8]}"},
    }.items() for option, value in options.items()]  # fmt: skip
    return (*given, "sampler.pairs=4", "schedule.total=12", *changes)


def test_a_run_with_all_terms(kg, model, given, tmp_path):
    config = load(None, [*SETTINGS, *term_settings(given[0]), 'sampler.languages=["en"]'])
    out, parts = tmp_path / "run", tmp_path / "parts"
    open_run(kg.path, str(model), out, config).train(out)
    lines = metrics(out)
    assert all({"names", "texts", "before"} < line.keys() for line in lines)
    for line in lines:
        held = max(1 - (line["step"] - 2) / 8, 0)
        expected = line["term"] + line["relation"] + 0.5 * line["names"] + 2 * line["texts"]
        assert line["loss"] == pytest.approx(expected + held * line["before"], rel=1e-5)
        assert line["names"] > 0 and line["texts"] > 0
        assert (line["before"] > 0) == (held > 0)  # without a weight it is not computed
    # Both are exact when resumed, and know a run with other terms.
    open_run(kg.path, str(model), parts, config).train(parts, stop_after=6)
    open_run(kg.path, str(model), parts, config).train(parts, resume=True)
    assert metrics(parts) == lines


def test_what_is_held_moves_less(kg, given, tmp_path):
    encoder = make_encoder(pooling="mean")
    texts = [line.split("\t")[0] for line in (given[0] / "texts.tsv").read_text().splitlines()[1:]]
    before = encoder.encode(texts)
    np.save(tmp_path / "start.npy", before)
    held = texts_options(given[0], vectors=str(tmp_path / "start.npy"), count=8, weight=30)
    changes = [f"objective.hold.{name}={value}" for name, value in held.items()]
    usual = ["pooling=mean", "schedule.total=24"]
    free = run(kg, tmp_path / "free", *usual)
    kept = run(kg, tmp_path / "kept", *usual, *changes)
    moved, near = (1 - (one.encode(texts) * before).sum(1)[1:3] for one in (free, kept))
    assert near.mean() < 0.5 * moved.mean()


@pytest.mark.parametrize("at_once", [1, 4])
def test_an_update_is_the_mean_of_its_steps(kg, given, tmp_path, at_once):
    """Gradients of four steps are those of the mean of their losses, worked out one by one."""
    config = settings(*term_settings(given[0]), "optimiser.accumulation=4")
    encoder = make_encoder()
    objective = Objective(Sources(config, kg, encoder))
    store = make_store(kg, encoder, tmp_path / "tokens")
    sampler = make_sampler(kg, config, None)
    ready = next(prepare(sampler, store, config, range(4), objective=objective))
    options = {"at_once": at_once, "bf16": False}
    losses = []
    for step in ready.inputs:
        alone = Step(encoder, None, objective, accumulation=1, at_once=1, bf16=False)
        losses.append(alone.run([step])[0].item())
    total = {name: p.grad / 4 for name, p in encoder.named_parameters() if p.grad is not None}
    encoder.zero_grad()
    report = Step(encoder, None, objective, accumulation=4, **options).run(ready.inputs)
    assert report[0].item() == pytest.approx(sum(losses), rel=1e-5)
    found = {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}
    assert found.keys() == total.keys()
    for name, gradient in total.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6)


# From outside: one file and one line


@pytest.fixture
def outside(tmp_path, monkeypatch, entered):
    """Write a module, and enter what it has into a table."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(table, name, text):
        (tmp_path / f"outside_{name}.py").write_text(text)
        entered(table, name, f"outside_{name}:{name}")

    yield add
    for name in [name for name in sys.modules if name.startswith("outside_")]:
        del sys.modules[name]


LOSS = """
from typing import Annotated

from torch import Tensor


def margin(
    similarity: Tensor, positive: Tensor, negative: Tensor, *,
    gap: Annotated[float, "above 0"] = 0.5, times: int = 1,
) -> Tensor:
    return times * ((gap - similarity) * positive + (similarity + gap) * negative).relu().mean()
"""
TERM = """
from medcoder.train.objective import Term


class small(Term):
    def __init__(self, sources, *, power: float = 2.0):
        self.power = power

    def __call__(self, batch, embeddings, own):
        return embeddings.vectors.abs().pow(self.power).mean()
"""


def test_a_loss_from_outside(kg, tmp_path, outside):
    outside(LOSSES, "margin", LOSS)
    path = tmp_path / "run.toml"
    path.write_text('[loss]\nkind = "margin"\ngap = 0.25\n')
    changes = [*SETTINGS, "schedule.total=2", "schedule.warmup=0"]
    config = load(path, changes)
    assert config.loss.options == {"gap": 0.25, "times": 1}
    assert load(path, [*changes, "loss.kind=info_nce"]).loss.options == {"temperature": 0.05}
    (tmp_path / "written.toml").write_text(to_toml(config))
    assert load(tmp_path / "written.toml") == config
    for override, message in (
        ("loss.gap=0", "loss.gap is 0: it must be above 0 and finite. The default is 0.5"),
        ("loss.times=1.5", "loss.times is 1.5: expected a whole number"),
        ("loss.gpa=1", "did you mean 'loss.gap'?"),
    ):
        with pytest.raises(UsageError) as caught:
            load(path, [override])
        assert message in str(caught.value)
    terms = {}
    for times in (1, 3):
        out = tmp_path / str(times)
        run(kg, out, "loss.kind=margin", "loss.gap=0.25", f"loss.times={times}",
            "schedule.total=2", "schedule.warmup=0")  # fmt: skip
        (line,) = metrics(out)
        terms[times] = line["term"]
    assert terms[3] != terms[1] > 0


def test_a_term_from_outside(kg, tmp_path, outside):
    outside(OBJECTIVE_TERMS, "small", TERM)
    path = tmp_path / "run.toml"
    path.write_text("[objective.small]\nweight = 0.5\npower = 3.0\n")
    config = load(path, [*SETTINGS, "schedule.total=2", "schedule.warmup=0"])
    assert config.objective["small"] == TermConfig(kind="small", weight=0.5, power=3.0)
    found = {}
    for power in (3, 1):
        changes = ["objective.small.weight=0.5", f"objective.small.power={power}"]
        run(kg, tmp_path / str(power), *changes, "schedule.total=2", "schedule.warmup=0")
        (line,) = metrics(tmp_path / str(power))
        assert set(line) == {*COLUMNS, "small", "step", "learning_rate", "missed_positives"}
        expected = line["term"] + line["relation"] + 0.5 * line["small"]
        assert line["loss"] == pytest.approx(expected, rel=1e-6)
        found[power] = line["small"]
    assert found[3] != found[1]
