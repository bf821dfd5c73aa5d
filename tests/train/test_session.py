"""From files to a run: tables of extra terms, teachers, vocabularies, models, settings."""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medcoder.errors import ArtefactError, InputError, MissingExtra, UsageError
from medcoder.model.encoder import TransformerEncoder
from medcoder.train.config import LossConfig, load
from medcoder.train.extra import read_extra
from medcoder.train.objective.teacher import open_teacher
from medcoder.train.sampler import make_sampler
from medcoder.train.session import open_run, speaking
from support.training import graph_rows, make_graph, make_model, metrics, settings

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("run") / "kg")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("init") / "model")


def known(*changes):
    """Settings with the languages whose letters the model knows."""
    return settings('sampler.languages=["en", "es"]', *changes)


# Vocabularies and languages


def test_a_vocabulary_that_does_not_know_a_language(kg, model, tmp_path):
    with pytest.raises(InputError, match=r"unknown: ja 100%\. .* --languages en,es, or start from"):
        open_run(kg.path, str(model), tmp_path, settings())
    with pytest.raises(InputError, match=r"unknown: ja 100%\. Start from a multilingual model"):
        open_run(kg.path, str(model), tmp_path, settings('sampler.languages=["ja"]'))
    run = open_run(kg.path, str(model), tmp_path, known())
    assert (run.extra, run.teachers) == (None, [])
    assert len(run.store) == len(kg.terms)
    assert run.encoder.tokenize(["病"]) == [[2, 1, 3]]


@pytest.mark.parametrize(("unknown", "share"), [(1, None), (2, "10%")])
def test_one_unknown_token_in_twenty_is_let_pass(model, tmp_path, unknown, share):
    text = " ".join(["heart"] * (20 - unknown) + ["病"] * unknown)
    terms = [(c, text, *rest) for c, _, *rest in graph_rows()["terms"] if rest[0] == "en"]
    kg = make_graph(tmp_path / "kg", terms=terms)
    if share is None:
        open_run(kg.path, str(model), tmp_path / "run", settings())
    else:
        with pytest.raises(InputError, match=f"unknown: en {share}"):
            open_run(kg.path, str(model), tmp_path / "run", settings())


def test_a_language_that_is_not_there(kg, model, tmp_path):
    with pytest.raises(UsageError, match=r"languages: the graph has no .*: 'de'\. There are: en"):
        open_run(kg.path, str(model), tmp_path, settings('sampler.languages=["en", "de"]'))
    assert speaking(settings(), ["ENG", "pt_BR"]).sampler.languages == ("en", "pt-br")


def test_tokens_are_made_once(kg, model, tmp_path):
    first = open_run(kg.path, str(model), tmp_path, known())
    meta = tmp_path / "tokens" / "meta.json"
    before = meta.stat().st_mtime_ns
    open_run(kg.path, str(model), tmp_path, known("sampler.k=16"))
    assert meta.stat().st_mtime_ns == before
    shorter = open_run(kg.path, str(model), tmp_path, known("max_length=5"))
    assert meta.stat().st_mtime_ns > before
    assert np.diff(first.store.offsets).max() > 5 == np.diff(shorter.store.offsets).max()
    seen = []
    open_run(kg.path, str(model), tmp_path, known(), progress=lambda *call: seen.append(call))
    assert seen[-1] == ("tokenising", 120, 120)


# Graphs


def test_no_relations(tmp_path):
    bare = make_graph(tmp_path / "kg", edges=())
    with pytest.raises(
        InputError, match=r"kg: has no relations, and relation\.mu is not 0\. .*mu=0"
    ):
        open_run(bare.path, "no such model", tmp_path / "run", settings())
    with pytest.raises(UsageError, match=r"no relations\. Set sampler\.pairs"):
        open_run(bare.path, "no such model", tmp_path / "run", settings("relation.mu=0"))


def test_no_graph(model, tmp_path):
    with pytest.raises(ArtefactError, match="is not a knowledge graph"):
        open_run(tmp_path, str(model), tmp_path / "run", settings())


# Models


def spoiled(model, folder, name, content):
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", None),
        ("config.json", b"{"),
        ("config.json", b'{"model_type": "nothing"}'),
        ("model.safetensors", None),
        ("model.safetensors", b"no tensors"),
        ("model.safetensors", b""),
        ("tokenizer.json", None),
        ("tokenizer.json", b"{}"),
    ],
)
def test_a_folder_that_is_no_model(kg, model, tmp_path, monkeypatch, name, content):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = spoiled(model, tmp_path / "bad", name, content)
    with pytest.raises(
        ArtefactError, match=r"(?s)bad: cannot be loaded as a model: .*config\.json"
    ):
        open_run(kg.path, str(folder), tmp_path / "run", known())


def test_an_empty_folder_is_no_model(kg, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtefactError, match="empty: cannot be loaded as a model"):
        open_run(kg.path, str(tmp_path / "empty"), tmp_path / "run", known())


def test_terms_longer_than_the_model_knows(kg, model, tmp_path):
    with pytest.raises(UsageError, match=r"max_length: is longer .*: 513, .* takes 512"):
        open_run(kg.path, str(model), tmp_path, known("max_length=513"))


# Extra terms


def table(tmp_path, text, name="extra.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "row", "what"),
    [
        ("", None, "is empty"),
        ("term,code\nx,C0000001\n", 1, "no such column: concept; there are: term, code"),
        ("term,concept\nx,C0000001\ny,C9999999\n", 3, "'C9999999'"),
        ("term,concept\nx,C0000001\n\n\n,C0000001\n", 5, "term ''"),
        ("term,concept\n \t,C0000001\n", 2, "term ''"),
        ("term,concept\nx\n", 2, "concept ''"),
        ("term,concept,weight\nx,C0000001,1.5\n", 2, "weight '1.5'"),
        ("term,concept,weight\nx,C0000001,-1\n", 2, "weight '-1'"),
        ("term,concept,weight\nx,C0000001,²\n", 2, "weight '²'"),
        ("term,concept,weight\nx,C0000001,1001\n", 2, "weight '1001'"),
        ("concept,term\nC0000001,pain, acute\n", 2, "3 fields, where the header has 2"),
        ('term,concept\nx,C0000001\n"y,C0000001\nz,C0000001\n', 3, "unexpected end of data"),
        ('term,concept\n"x" y,C0000001\n', 2, "broken quotes"),
    ],
)
def test_a_table_with_an_error(kg, tmp_path, text, row, what):
    path = table(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_extra(path, kg)
    assert (caught.value.file, caught.value.row) == (str(path), row)
    assert what in str(caught.value) and caught.value.remedy


def test_a_table_that_cannot_be_read(kg, tmp_path):
    with pytest.raises(InputError, match=r"extra\.csv, row 2: byte 0xff is not UTF-8"):
        read_extra(table(tmp_path, b"term,concept\n\xff,C0000001\n"), kg)
    with pytest.raises(InputError, match=r"none\.csv: does not exist\. Check the path"):
        read_extra(tmp_path / "none.csv", kg)
    with pytest.raises(InputError, match="is a folder"):
        read_extra(tmp_path, kg)


def test_tables_of_extra_terms(kg, tmp_path):
    text = (
        "\ufeffweight,term,concept,language,note\r\n"
        '2,"bad heart, very",C0000003,ENG,x\r\n'
        "\r\n"
        ",NA,C0000004,,\r\n"
        "0,null,C0000004\r\n"
        '1,"a ""quoted"" one\u2028two\u0085three", C0000005 ,es,'
    )
    extra = read_extra(table(tmp_path, text), kg)
    assert extra.texts == [
        *("bad heart, very", "NA", "null"),
        'a "quoted" one\u2028two\u0085three',
    ]
    assert extra.concepts == [3, 4, 4, 5]
    assert extra.weights == [2, 1, 0, 1]
    assert extra.languages == ["en", "", "", "es"]
    concepts, terms = extra.draws(100, ())
    assert (concepts.tolist(), terms.tolist()) == ([3, 3, 4, 5], [100, 100, 101, 103])
    concepts, terms = extra.draws(100, ("es",))  # of an unknown language: always
    assert (concepts.tolist(), terms.tolist()) == ([4, 5], [101, 103])
    tabs = 'term\tconcept\nthe "big" one\tC0000001\n'
    assert read_extra(table(tmp_path, tabs, "extra.tsv"), kg).texts == ['the "big" one']
    nothing = read_extra(table(tmp_path, "term,concept\n", "none.csv"), kg)
    assert [part.tolist() for part in nothing.draws(9, ("en",))] == [[], []]


def test_a_folder_of_abbreviations(kg, tmp_path):
    name = kg.preferred("C0000003")
    rows = [
        "abbreviation\texpansion\tenglish\tspecialty\tshare",
        f"XYZ\t{name.upper()}\t{name}\tgeneral\t70",
        f"XZ\tnoch ein Name\t{name}\tgeneral\t2",
        "XX\tnoch ein Name\tnothing of the graph\tgeneral\t90",
    ]
    (tmp_path / "de.tsv").write_text("\n".join(rows) + "\n")
    extra = read_extra(tmp_path, kg)
    bearers = kg.find(name)
    assert extra.texts == ["XYZ"] * len(bearers) + ["XZ"] * len(bearers)
    assert extra.concepts == [kg.index(concept) for concept in bearers] * 2
    assert extra.weights == [7] * len(bearers) + [1] * len(bearers)
    assert set(extra.languages) == {"de"}


def test_extra_terms_are_drawn(kg, model, tmp_path):
    path = table(
        tmp_path,
        "term,concept,language,weight\n"
        "bad heart,C0000003,en,3\n"
        "ailing heart,C0000003,,1\n"
        "mal di cuore,C0000003,it,5\n",
    )
    run = open_run(kg.path, str(model), tmp_path / "run", known(), extra=path)
    first = len(kg.terms)
    assert len(run.store) == first + 3
    tokens, _ = run.store.gather(np.array([first]))
    assert tokens.tolist() == run.encoder.tokenize(["bad heart"])[0]
    sampler = make_sampler(run.kg, run.config, run.extra)
    drawn = Counter()
    for step in range(600):
        batch = sampler.batch(0, step)
        drawn.update(batch.terms[batch.concepts == 3].tolist())
    assert first + 2 not in drawn  # of a language that is left out
    # Three English terms and a Spanish one of the graph, once each, and 3 + 1 of the table.
    total = drawn.total()
    assert drawn[first] / total == pytest.approx(3 / 8, abs=0.06)
    assert drawn[first + 1] / total == pytest.approx(1 / 8, abs=0.06)
    assert set(drawn) - {first, first + 1} == {15, 16, 17, 18}
    run.train(tmp_path / "run")
    assert metrics(tmp_path / "run")[-1]["step"] == 24


def test_an_extra_term_that_looks_like_another_is_not_drawn(kg, model, tmp_path):
    """To the model, capitals are small letters: it would learn that a term is itself."""
    own = kg.preferred("C0000003")
    rows = f"{own.upper()},C0000003,5\nbad heart,C0000003,4\nBad Heart,C0000003,4\n"
    path = table(tmp_path, "term,concept,weight\n" + rows)
    run = open_run(kg.path, str(model), tmp_path / "run", known(), extra=path)
    sampler = make_sampler(run.kg, run.config, run.extra, run.store)
    drawn = Counter()
    for step in range(600):
        batch = sampler.batch(0, step)
        drawn.update(batch.terms[batch.concepts == 3].tolist())
    first = len(kg.terms)
    assert set(drawn) == {15, 16, 17, 18, first + 1}
    assert drawn[first + 1] / drawn.total() == pytest.approx(4 / 8, abs=0.06)


def test_a_share_of_the_pairs_has_extra_terms(kg, model, tmp_path):
    path = table(tmp_path, "term,concept,weight\nbad heart,C0000003,3\nill,C0000009,1\n")
    shared = known("sampler.pairs=2", "sampler.extra_share=0.5")
    run = open_run(kg.path, str(model), tmp_path / "run", shared, extra=path)
    sampler = make_sampler(run.kg, run.config, run.extra, run.store)
    drawn = Counter(sampler.batch(0, step).concepts[-4] for step in range(600))
    assert set(drawn) == {3, 9}  # the first pair of every step
    assert drawn[3] / 600 == pytest.approx(3 / 4, abs=0.08)
    with pytest.raises(UsageError, match=r"extra_share: there are no extra terms to draw: 0\.5"):
        open_run(kg.path, "no such model", tmp_path / "run", shared)


# Teachers


def test_teachers_by_path(kg, model, tmp_path):
    extra = read_extra(table(tmp_path, "term,concept,language\nbad heart,C0000003,es\n"), kg)
    texts = [kg.terms.text(number) for number in range(len(kg.terms))] + ["bad heart"]
    vectors = TransformerEncoder.load(model).encode(texts)
    np.save(tmp_path / "vectors.npy", vectors)
    terms = np.array([0, 3, 4, 8, 120])  # en, es, ja, es, and the extra one
    live = open_teacher(f"{model},weight=2.5", kg, extra)
    stored = open_teacher(f"{tmp_path / 'vectors.npy'},languages=SPA+en,weight=7", kg, extra)
    units, known = live.judge(terms)
    assert (live.weight, known.all()) == (2.5, True)
    np.testing.assert_allclose(units, vectors[terms], atol=1e-5)
    units, known = stored.judge(terms)
    assert stored.weight == 7 and known.tolist() == [True, True, False, True, True]
    np.testing.assert_allclose(units, vectors[terms] * known[:, None], atol=1e-5)
    english = open_teacher(f"{model},languages=en", kg, extra)
    assert english.judge(np.array([0, 120]))[1].tolist() == [True, False]


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    """The model as a folder that runs without torch."""
    pytest.importorskip("onnxscript", reason="what exporting needs is not installed")
    from medcoder.model.export import export

    path = tmp_path_factory.mktemp("exported") / "encoder"
    export(TransformerEncoder.load(model, pooling="mean", max_length=12), path)
    return path


def test_an_exported_teacher(kg, model, exported, tmp_path):
    """It teaches what the model that it was made from would have taught."""
    extra = read_extra(table(tmp_path, "term,concept\nbad heart,C0000003\n"), kg)
    terms = np.array([0, 3, 8, 120, 0])
    teacher = open_teacher(f"{exported},weight=3", kg, extra)
    units, known = teacher.judge(terms)
    texts = [kg.terms.text(number) for number in terms[:3]] + ["bad heart", kg.terms.text(0)]
    expected = TransformerEncoder.load(model, pooling="mean", max_length=12).encode(texts)
    assert teacher.weight == 3 and known.all()
    np.testing.assert_allclose(units, expected, atol=1e-5)
    english = open_teacher(f"{exported},languages=en", kg, extra)
    assert english.judge(np.array([3, 3]))[0].shape == (2, 32)  # of none of them it speaks
    config, teachers = settings('sampler.languages=["en", "es"]', "schedule.total=4"), [exported]
    run = open_run(kg.path, str(model), tmp_path, config, teachers=map(str, teachers))
    run.train(tmp_path)
    assert all(line["teachers"] > 0 for line in metrics(tmp_path))


def test_what_training_leaves_is_a_teacher_too(kg, model, tmp_path):
    out = tmp_path / "run"
    open_run(kg.path, str(model), out, known("schedule.total=4", "pooling=mean")).train(out)
    extra = read_extra(table(tmp_path, "term,concept\n"), kg)
    units, _ = open_teacher(str(out / "model"), kg, extra).judge(np.array([0]))
    expected = TransformerEncoder.load(out / "model", pooling="mean").encode([kg.terms.text(0)])
    np.testing.assert_allclose(units, expected, atol=1e-5)


def test_an_exported_teacher_where_nothing_runs_it(kg, exported, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "medcoder.encode.onnx", raising=False)
    extra = read_extra(table(tmp_path, "term,concept\n"), kg)
    with pytest.raises(MissingExtra, match=r"needs onnxruntime\. .* pip install onnxruntime"):
        open_teacher(f"{exported},weight=2", kg, extra)


@pytest.mark.parametrize(
    "options",
    [
        *("weight", "weight=", "weight=much", "weight=0", "weight=-1", "weight=nan", "weight=inf"),
        *("wieght=2", "languages=", "20", "weight=1,what=2", ""),
    ],
)
def test_a_teacher_that_is_written_wrongly(kg, model, tmp_path, options):
    extra = read_extra(table(tmp_path, "term,concept\n"), kg)
    with pytest.raises(UsageError, match=r"Write PATH,weight=20,languages=en\+fr"):
        open_teacher(f"{model},{options}", kg, extra)
    with pytest.raises(UsageError, match="Write PATH,weight=20"):
        open_teacher(",weight=2", kg, extra)


def test_a_teacher_that_is_no_use(kg, model, tmp_path):
    extra = read_extra(table(tmp_path, "term,concept\n"), kg)
    with pytest.raises(UsageError, match=r"no term is of its languages\. The graph has: en, es"):
        open_teacher(f"{model},languages=de+fr", kg, extra)
    with pytest.raises(ArtefactError, match="cannot be loaded as a model"):
        open_teacher(f"{tmp_path},weight=2", kg, extra)
    with pytest.raises(ArtefactError, match="is a knowledge graph, not an encoder"):
        open_teacher(str(kg.path), kg, extra)
    path = tmp_path / "vectors.npy"
    with pytest.raises(InputError, match=r"vectors\.npy: cannot be read as vectors: .*No such"):
        open_teacher(str(path), kg, extra)
    path.write_bytes(b"no vectors")
    with pytest.raises(InputError, match="cannot be read as vectors"):
        open_teacher(str(path), kg, extra)
    np.save(path, np.array([{"a": 1}], object))
    with pytest.raises(InputError, match="cannot be read as vectors"):
        open_teacher(str(path), kg, extra)
    np.save(path, np.ones((120, 2), int))
    with pytest.raises(InputError, match="holds no floats: int64"):
        open_teacher(str(path), kg, extra)
    for rows in (119, 121):
        np.save(path, np.ones((rows, 2)))
        with pytest.raises(
            UsageError, match=rf"{rows} vectors for 120 terms\. They were made from"
        ):
            open_teacher(str(path), kg, extra)
    np.save(path, np.ones(120))
    with pytest.raises(UsageError, match=r"an array \(terms, width\): \(120,\)"):
        open_teacher(str(path), kg, extra)


# TensorBoard


def test_tensorboard(kg, model, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = open_run(kg.path, str(model), tmp_path, known("schedule.total=12", "evaluate_every=6"))
    options = {"tensorboard": True, "evaluate": lambda encoder: {"score": 0.5}}
    run.train(tmp_path, stop_after=6, **options)
    run.train(tmp_path, resume=True, **options)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"loss", "gradient_norm", "learning_rate", "eval.score"} <= set(events.Tags()["scalars"])
    shown = [(event.step, event.value) for event in events.Scalars("loss")]
    expected = [(line["step"], line["loss"]) for line in metrics(tmp_path) if "loss" in line]
    assert [step for step, _ in shown] == [2, 4, 6, 8, 10, 12]
    np.testing.assert_allclose(shown, expected, rtol=1e-6)
    assert [event.step for event in events.Scalars("eval.score")] == [6, 12]


# Settings of the paper


def test_every_configuration_is_read():
    found = {path.stem: load(path) for path in CONFIGS.iterdir()}
    assert set(found) >= set(OF_THE_PAPER)


OF_THE_PAPER = ("ablation-full", "ablation-no-relation", "ablation-transe")
OF_THE_PAPER += ("coder-all", "coder-eng")
PAPER = LossConfig(alpha=2, beta=50, lam=0.5, eps=0.1, kind="multi_similarity")


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_configurations_are_the_papers(name):
    config = load(CONFIGS / f"{name}.toml")
    assert (config.sampler.k, config.sampler.m, config.optimiser.accumulation) == (128, 8, 8)
    assert (config.pooling, config.max_length) == ("cls", 32)
    assert config.loss == PAPER
    assert config.optimiser.learning_rate == 2e-5
    schedule = config.schedule
    total = 1_000_000 if name == "coder-all" else 100_000
    assert (schedule.unit, schedule.warmup, schedule.total) == ("steps", 10_000, total)
    assert config.sampler.languages == (() if name == "coder-all" else ("en",))
    relation = config.relation
    assert relation.labels == "tail"
    if name == "ablation-transe":
        assert (relation.form, relation.mu) == ("translation", 0.1)
        assert relation.loss == LossConfig(alpha=0.2, beta=5, lam=-28, eps=0.1)
    else:
        assert relation.form == "bilinear"
        assert relation.mu == (0 if name == "ablation-no-relation" else 1)
        assert relation.loss == PAPER
    # All that the paper's configurations know nothing of is off.
    assert (config.sampler.pairs, config.sampler.hard_every) == (0, 0)
    assert config.sampler.extra_share == 0
    assert (config.sampler.terms_per_language, config.sampler.relation_power) == (0, 1)


def test_the_lambda_that_the_paper_prints(kg, model, tmp_path):
    """28 is an option: it runs, but no pair is near, and all positives are pulled without end."""
    losses = {}
    for lam in (-5, 5):
        changes = ["relation.form=translation", f"relation.loss.lam={lam}", "schedule.total=4"]
        changes += ["relation.loss.alpha=0.2", "relation.loss.beta=5", "relation.mu=0.1"]
        out = tmp_path / str(lam)
        open_run(kg.path, str(model), out, known(*changes)).train(out)
        losses[lam] = metrics(out)[0]["relation"]
    assert losses[5] > losses[-5] > 0


def test_a_run_says_what_made_it(kg, model, tmp_path):
    open_run(kg.path, str(model), tmp_path, known("schedule.total=4")).train(tmp_path)
    assert json.loads((tmp_path / "model" / "medcoder.json").read_text())["init"] == str(model)
