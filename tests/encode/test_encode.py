"""The encoder without torch: what is exported, what it makes of texts, what comes from where."""

import contextlib
import importlib
import io
import json
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load_file, save

import medcoder
from medcoder.artefact import verify
from medcoder.bundled import models as bundled
from medcoder.encode import onnx as module
from medcoder.encode.onnx import OnnxEncoder
from medcoder.encode.weights import dequantise, load_weights, quantise, save_weights
from medcoder.errors import ArtefactError, DiskFull, MissingExtra, UsageError
from medcoder.model import export as exporting
from medcoder.model import load_encoder
from medcoder.model.encoder import TransformerEncoder, save_encoder
from medcoder.model.export import agreement, export
from support import tiny

LENGTH = 16
# Words, scripts and signs of all kinds. Half a surrogate pair comes from a bad byte of a file.
TEXTS = [
    "heart attack",
    "Cold",
    "",
    "type diabetes with a very long name " * 5,
    "headaches",
    "heart attack",
    " \t\n ",
    "a",
    "cœur 心臓 심장 сердце قلب לב",
    "\x00\x01\x1b[31m\x7f\u2028\u0085\ufeff",
    "👩‍⚕️🫀 fever 38.5°C",
    "e\u0301\u0300\u0302 ﬁ Å",
    "\ud800 fever \udfff",
    "[CLS] cold [SEP] [MASK] [UNK]",
    "3.14159 1,000 -5 NaN",
]
LONG = ["a", "heart ", "心", "🫀", "\x00", "e\u0301", "\udcff", " ", "heart\n"]


def shallow(model):
    """One layer is enough to tell architectures apart, and traced in half the time."""
    layers = model.transformer if hasattr(model, "transformer") else model.encoder
    layers.layer = layers.layer[:1]
    model.config.num_hidden_layers = 1
    return model


MODELS = {
    "bert mean": tiny.bert,
    "bert legacy": tiny.bert,
    "roberta cls": lambda: tiny.roberta(pad_token_id=0, hidden_dropout_prob=0.5),
    "mpnet mean": tiny.mpnet,
    "distilbert cls": tiny.distilbert,
}
ENCODERS = {
    name: TransformerEncoder(
        shallow(model()), tiny.tokenizer(), pooling=name.split()[1], max_length=LENGTH
    )
    for name, model in MODELS.items()
}
MEAN = ENCODERS["bert mean"]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read on import


@pytest.fixture(scope="module", autouse=True)
def traced_once():
    """Tracing takes seconds: a model that was traced before is not traced again."""
    trace, known = exporting._traced, {}

    def traced(encoder):
        if id(encoder.model) not in known:
            known[id(encoder.model)] = encoder.model, trace(encoder)
        proto = type(known[id(encoder.model)][1])()
        proto.CopyFrom(known[id(encoder.model)][1])
        return proto

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "_traced", traced)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory, traced_once):
    """Exports of all encoders in float32, by name, and what exporting them printed."""
    folder, printed, found = tmp_path_factory.mktemp("exports"), io.StringIO(), {}
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        for name, encoder in ENCODERS.items():
            encoder.train(name == "roberta cls")
            found[name] = export(encoder, folder / name)
    return found, printed.getvalue()


@pytest.fixture(scope="module")
def mean(made):
    return made[0]["bert mean"]


@pytest.fixture
def copied(mean, tmp_path):
    """A copy of an export that may be harmed."""
    return Path(shutil.copytree(mean.path, tmp_path / "copy"))


def cosines(one, other):
    return np.einsum("nd,nd->n", one.astype(np.float64), other)


# Equal to torch


@pytest.mark.parametrize("name", MODELS)
def test_vectors_equal_those_of_torch(made, name):
    encoder, expected = made[0][name], ENCODERS[name].encode(TEXTS)
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 32) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert cosines(vectors, expected).min() > 0.9999
    assert encoder.width == 32 and len(encoder.fingerprint) == 32


def test_exports_of_different_models_differ(made):
    vectors = np.stack([encoder.encode(["heart attack"])[0] for encoder in made[0].values()])
    assert np.abs(np.triu(vectors @ vectors.T, 1)).max() < 0.99
    assert len({encoder.fingerprint for encoder in made[0].values()}) == len(MODELS)


def test_exporting_says_nothing_and_leaves_the_model_as_it_was(made):
    assert made[1] == ""
    for name, model in MODELS.items():
        kept, fresh = ENCODERS[name].model.config, model().config
        assert kept._attn_implementation == fresh._attn_implementation
    assert b"IsNaN" not in (made[0]["bert mean"].path / "graph.onnx").read_bytes(), "a mask"
    # Vectors of the one in training have no dropout in them: see above.
    assert {name for name, encoder in ENCODERS.items() if encoder.training} == {"roberta cls"}


def test_a_failed_export_leaves_the_mode_and_the_disk_as_they_were(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch.onnx, "export", fails)
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer()).train()
    attention = encoder.model.config._attn_implementation
    with pytest.raises(RuntimeError, match="no such operator"):
        export(encoder, tmp_path / "it")
    assert encoder.training and encoder.model.training and list(tmp_path.iterdir()) == []
    assert encoder.model.config._attn_implementation == attention


@settings(max_examples=25)
@given(
    st.lists(st.text(st.characters(exclude_categories=())) | st.sampled_from(TEXTS), max_size=12)
)
def test_any_text_in_any_order(mean, texts):
    vectors = mean.encode(texts)
    assert vectors == pytest.approx(MEAN.encode(texts), abs=1e-5)
    backwards = mean.encode(texts[::-1])[::-1]
    assert vectors == pytest.approx(backwards, abs=1e-5)


def test_a_hundred_thousand_characters(mean):
    texts = [(sign * 100_000)[:100_000] for sign in LONG]
    lengths = {sign: len(ids) for sign, ids in zip(LONG, mean.tokenize(texts), strict=True)}
    assert max(lengths.values()) == lengths["heart "] == lengths["心"] == LENGTH
    assert mean.encode(texts) == pytest.approx(MEAN.encode(texts), abs=1e-5)


def test_no_texts_and_any_kind_of_sequence(mean, made):
    for encoder in made[0].values():
        nothing = encoder.encode([])
        assert nothing.shape == (0, 32) and nothing.dtype == np.float32
    expected = mean.encode(["cold", "fever"])
    assert (mean.encode(("cold", "fever")) == expected).all()
    assert (mean.encode(np.array(["cold", "fever"])) == expected).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_are_cut_where_the_tokenizer_of_the_model_cuts(tmp_path, side):
    encoder = TransformerEncoder(MEAN.model, tiny.tokenizer(), pooling="mean", max_length=5)
    encoder.tokenizer.truncation_side = side
    text = "head heart fever cold"
    encoder.tokenizer([text], padding="max_length", truncation=True, max_length=4)
    found = export(encoder, tmp_path / "it")
    kept = "head heart fever" if side == "right" else "heart fever cold"
    assert found.tokenize([text, "cold"]) == found.tokenize([kept, "cold"])
    assert found.encode([text]) == pytest.approx(encoder.encode([text]), abs=1e-5)
    again = export(encoder, tmp_path / "again")  # the tokenizer has been used meanwhile
    assert again.fingerprint == found.fingerprint


# How it is done


class Counting:
    """A session that writes down what it is given."""

    def __init__(self, session):
        self.session, self.batches = session, []

    def run(self, outputs, inputs):
        self.batches.append(inputs["tokens"])
        return self.session.run(outputs, inputs)


@pytest.fixture
def counting(mean, monkeypatch):
    counting = Counting(mean._session)
    monkeypatch.setattr(mean, "_session", counting)
    return counting


def test_texts_with_the_same_tokens_cost_once(mean, counting):
    texts = ["cold", "heart attack", "COLD", "heart  attack", "Cold "] * 40
    vectors = mean.encode(texts)
    assert sorted(batch.shape for batch in counting.batches) == [(1, 3), (1, 4)]
    assert (vectors[0] != vectors[1]).any()
    for place, text in enumerate(texts):
        assert (vectors[place] == vectors[int("heart" in text.lower())]).all()


@pytest.mark.parametrize("tokens", [1, 7, 40, 10_000])
def test_batches_are_of_one_length_and_of_so_many_tokens(mean, counting, monkeypatch, tokens):
    texts = [" ".join(f"{number:b}".replace("0", "a").replace("1", "b")) for number in range(90)]
    expected = MEAN.encode(texts)
    monkeypatch.setattr(module, "_TOKENS", tokens)
    assert mean.encode(texts) == pytest.approx(expected, abs=1e-5)
    sizes = [batch.shape for batch in counting.batches]
    assert sum(rows for rows, _ in sizes) == len(texts)
    assert all(rows == 1 or rows * length <= tokens for rows, length in sizes)
    for length in {length for _, length in sizes}:
        fits = max(tokens // length, 1)
        partial = [rows for rows, other in sizes if other == length and rows < fits]
        assert len(partial) <= 1, "batches that could have been one"


@pytest.mark.parametrize("chunk", [1, 4])
def test_vectors_do_not_depend_on_how_many_are_tokenised_at_a_time(mean, monkeypatch, chunk):
    expected = mean.encode(TEXTS)
    monkeypatch.setattr(module, "_CHUNK", chunk)
    assert mean.encode(TEXTS) == pytest.approx(expected, abs=1e-5)


def test_threads(mean):
    texts = [f"{word} {n}" for n in range(60) for word in ("heart", "cold", "x y z")]
    expected = mean.encode(texts)
    for threads in (1, 2, 9):
        found = OnnxEncoder.load(mean.path, threads=threads).encode(texts)
        assert found.tobytes() == expected.tobytes(), threads
    with ThreadPoolExecutor(6) as pool:  # callers at the same time
        orders = [np.random.default_rng(seed).permutation(len(texts)) for seed in range(12)]
        found = pool.map(lambda order: mean.encode([texts[place] for place in order]), orders)
        for order, vectors in zip(orders, found, strict=True):
            assert vectors == pytest.approx(expected[order], abs=1e-5)
    for threads in (0, -1):
        with pytest.raises(UsageError, match=f"threads must be 1 or more: {threads}"):
            OnnxEncoder.load(mean.path, threads=threads)


def test_an_error_in_a_batch_comes_out(mean, monkeypatch):
    class Failing:
        def run(self, *_):
            raise MemoryError("too large")

    monkeypatch.setattr(mean, "_session", Failing())
    with pytest.raises(MemoryError, match="too large"):
        mean.encode(TEXTS)


# Smaller weights


@pytest.mark.parametrize(
    ("weights", "least", "share"), [("float16", 0.999999, 0.6), ("int8", 0.999, 0.45)]
)
def test_smaller_weights(mean, tmp_path, weights, least, share):
    small = export(MEAN, tmp_path / "it", weights=weights)
    found = cosines(small.encode(TEXTS), MEAN.encode(TEXTS))
    assert least < found.min() < 1 - 1e-9, "close, and not the same"
    sizes = [(path / "weights.safetensors").stat().st_size for path in (small.path, mean.path)]
    assert sizes[0] < share * sizes[1]
    assert small.fingerprint != mean.fingerprint
    assert {array.dtype for array in load_weights(small.path / "weights.safetensors").values()} == {
        array.dtype for array in load_weights(mean.path / "weights.safetensors").values()
    }


def test_weights_are_as_readable_as_other_files(mean):
    modes = {file.name: file.stat().st_mode for file in mean.path.iterdir()}
    assert len(set(modes.values())) == 1, modes


def test_an_export_says_what_it_is(tmp_path):
    export(MEAN, tmp_path / "it", weights="int8", about={"licence": "CC0"})
    verify(tmp_path / "it", kind="encoder")
    meta = json.loads((tmp_path / "it" / "meta.json").read_text())
    expected = {
        "kind": "encoder", "version": 1, "width": 32, "pooling": "mean", "max_length": LENGTH,
        "pad": None, "weights": "int8", "licence": "CC0",
        "made_by": f"medcoder {medcoder.__version__}",
    }  # fmt: skip
    assert {name: meta[name] for name in expected} == expected
    assert set(meta["files"]) == {"graph.onnx", "weights.safetensors", "tokenizer.json"}
    for known in (b".py", b"pkg.", str(Path(__file__).parents[1]).encode()):
        assert known not in (tmp_path / "it" / "graph.onnx").read_bytes(), "where it was made"


def test_no_such_weights(tmp_path):
    with pytest.raises(
        UsageError, match=r"no such precision: 'int4'\. There are: float32, float16, int8"
    ):
        export(MEAN, tmp_path / "it", weights="int4")
    assert list(tmp_path.iterdir()) == []


FLOATS = st.floats(-65504, 65504, width=32)


@given(
    arrays(np.float32, st.sampled_from([(1, 16), (4, 8), (2, 3, 16)]), elements=FLOATS),
    st.floats(1e-9, 1),
)
def test_values_in_int8_are_off_by_half_a_step(array, factor):
    array = array * np.float32(factor)
    whole, scales = quantise(array)
    assert whole.shape == array.shape and whole.dtype == np.int8 and scales.dtype == np.float16
    groups = array.reshape(-1, 16)
    steps = np.abs(groups).max(1, keepdims=True).astype(np.float64) / 127
    off = np.abs(dequantise(whole, scales).reshape(-1, 16) - groups.astype(np.float64))
    # A scale in float16 is off by a 2,048th, or where it is tiny, by a part of 6e-8.
    assert (off <= steps * (0.5 + 127 / 2048) + 127 * 3.1e-8).all()


@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
def test_weights_that_cannot_be_made_smaller_stay(tmp_path, weights):
    plain = {
        "masked": np.full((16, 16), np.finfo(np.float32).min),
        "infinite": np.full((2, 16), -np.inf, np.float32),
        "odd": np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5),
        "flat": np.linspace(-1, 1, 300, dtype=np.float32),
        "places": np.arange(512).reshape(1, 512),
        "empty": np.zeros((0, 16), np.float32),
        "turned": np.arange(48, dtype=np.float32).reshape(16, 3).T,
    }
    save_weights(plain, tmp_path / "w", weights)
    found = load_weights(tmp_path / "w")
    assert set(found) == set(plain)
    for name, array in plain.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        near = {"odd": 5e-4, "turned": 0.2}.get(name, 0)
        assert found[name] == pytest.approx(array, abs=near), name
        if weights == "float32":
            assert (found[name] == array).all()


# Arithmetic in int8

PAIRS = [f"{one}{other}" for one in "abcdefghijklm" for other in "nopqrstuvwxyz"]


def test_dynamic_int8_that_moves_neighbours_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"with dynamic-int8, \d+\.\d% of 169 texts keep") as error:
        export(MEAN, tmp_path / "it", weights="dynamic-int8", sample=PAIRS * 2)
    assert float(str(error.value).split("%")[0].split()[-1]) < 99
    assert "99% must. Use int8" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_dynamic_int8_that_keeps_them_is_not(mean, tmp_path):
    # Each has a twin with the same tokens, which stays the nearest whatever the arithmetic.
    sample = [text for pair in PAIRS[:60] for text in (pair, pair.upper())]
    encoder = export(MEAN, tmp_path / "it", weights="dynamic-int8", sample=sample)
    meta = json.loads((encoder.path / "meta.json").read_text())
    assert meta["agreement"] == 1 and meta["weights"] == "dynamic-int8"
    assert sorted(meta["files"]) == ["graph.onnx", "tokenizer.json"]
    assert b"MatMulInteger" in (encoder.path / "graph.onnx").read_bytes()
    found = cosines(load_encoder(encoder.path).encode(TEXTS), MEAN.encode(TEXTS))
    assert 0.9 < found.min() < 0.9999


def test_dynamic_int8_wants_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "_traced", None)  # refused before there is any work
    for sample in ([], PAIRS[:99], PAIRS[:99] * 2):
        with pytest.raises(UsageError, match="needs a sample of at least 100 texts"):
            export(MEAN, tmp_path / "it", weights="dynamic-int8", sample=sample)


def test_agreement_counts_rows_whose_neighbour_stays():
    angles = np.array([0, 0.1, 1, 1.11, 2, 2.12])
    moved = np.array([0, 0.1, 1, 1.11, 2, 1.3])  # the last one leaves its neighbour

    def on_circle(angles):
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)

    one, other = on_circle(angles), on_circle(moved)
    assert agreement(one, one) == 1
    assert agreement(one, other) == 5 / 6
    ties = np.repeat(one, 3, axis=0)
    assert agreement(ties, ties[::-1][::-1] + np.float32(1e-8)) == 1
    assert agreement(ties, np.roll(ties, 3, axis=0)) == 1  # every row has its twins beside it
    many = np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)
    many /= np.linalg.norm(many, axis=1, keepdims=True)
    scores = many @ many.T
    np.fill_diagonal(scores, -2)
    assert (exporting._nearest(many) == scores.argmax(1)).all()


# Files


def test_an_export_is_not_overwritten_unasked(mean, tmp_path):
    export(MEAN, tmp_path / "it")
    with pytest.raises(UsageError, match=r"it exists\. Choose another place"):
        export(MEAN, tmp_path / "it")
    other = export(ENCODERS["roberta cls"], tmp_path / "it", overwrite=True)
    assert other.fingerprint != mean.fingerprint
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.txt").write_text("years of work")
    with pytest.raises(ArtefactError):
        export(MEAN, tmp_path / "papers", overwrite=True)
    assert (tmp_path / "papers" / "thesis.txt").read_text() == "years of work"


def test_no_room_for_an_export(tmp_path):
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, was[1]))
    try:
        with pytest.raises(DiskFull, match="no room left to write"):
            export(MEAN, tmp_path / "it")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["graph.onnx", "weights.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("harm", ["missing", "cut", "zeros", "noise", "swapped"])
def test_damaged_files(copied, name, harm):
    file = copied / name
    content = file.read_bytes()
    noise = np.random.default_rng(0).bytes(len(content))
    other = (copied / {"graph.onnx": "tokenizer.json"}.get(name, "graph.onnx")).read_bytes()
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes(
            {
                "cut": content[: len(content) // 2],
                "zeros": bytes(len(content)),
                "noise": noise,
                "swapped": other.ljust(len(content))[: len(content)],
            }[harm]
        )
    with pytest.raises(ArtefactError, match=r"Copy or (build|export) it again") as error:
        load_encoder(copied)
    assert str(copied) in str(error.value)


def test_damaged_meta_data(copied):
    file = copied / "meta.json"
    meta = json.loads(file.read_text())
    for name in ("width", "max_length", "pad", "fingerprint", "files", "kind", "version"):
        file.write_text(json.dumps({key: value for key, value in meta.items() if key != name}))
        with pytest.raises(ArtefactError, match=f"{copied.name}"):
            load_encoder(copied)
    for text in ("", "[]", "{", "null"):
        file.write_text(text)
        with pytest.raises(ArtefactError, match=f"{copied.name}"):
            load_encoder(copied)


@pytest.mark.parametrize("fault", ["no scale", "short scale", "not there"])
def test_weights_of_which_a_part_is_missing(tmp_path, fault):
    save_weights({"a": np.ones((4, 16), np.float32)}, tmp_path / "w", "int8")
    stored = load_file(tmp_path / "w")
    if fault == "no scale":
        del stored["a.scale"]
    else:
        stored["a.scale"] = stored["a.scale"][:3]
    (tmp_path / "w").write_bytes(save(stored))
    if fault == "not there":
        (tmp_path / "w").unlink()
    with pytest.raises(ArtefactError, match=r"w: it cannot be read: .*Copy or export it again"):
        load_weights(tmp_path / "w")


# What is loaded from where


@pytest.fixture(scope="module")
def model(tmp_path_factory, traced_once):
    """A model directory as training leaves it, here without an export inside."""
    folder = tmp_path_factory.mktemp("model") / "model"
    save_encoder(MEAN, folder)
    return folder


def test_the_public_name():
    assert medcoder.load_encoder is load_encoder


def test_an_exported_directory(mean, monkeypatch):
    expected = mean.encode(TEXTS)
    monkeypatch.setenv("HOME", str(mean.path.parent))
    for place in (mean.path, str(mean.path), f"~/{mean.path.name}"):
        encoder = load_encoder(place, threads=1)
        assert isinstance(encoder, OnnxEncoder)
        assert encoder.encode(TEXTS).tobytes() == expected.tobytes()
        assert encoder.fingerprint == mean.fingerprint
    assert repr(encoder) == f"OnnxEncoder({str(mean.path)!r}: width 32)"


def test_a_model_directory_with_an_export_inside(model, mean, tmp_path):
    folder = shutil.copytree(model, tmp_path / "model")
    (folder / "meta.json").write_text("{}")  # what training leaves is an artefact of its own
    shutil.copytree(mean.path, folder / "onnx")
    encoder = load_encoder(folder)
    assert isinstance(encoder, OnnxEncoder) and encoder.path == folder / "onnx"
    shutil.rmtree(folder / "onnx")
    assert isinstance(load_encoder(folder), TransformerEncoder)


def test_a_hugging_face_folder(model, monkeypatch):
    monkeypatch.setenv("HOME", str(model.parent))
    monkeypatch.chdir(model.parent)
    around = f"../{model.parent.name}/model"
    for place in (model, str(model), "~/model", "model", "./model", around):
        encoder = load_encoder(place)
        assert isinstance(encoder, TransformerEncoder)
        assert encoder.encode(TEXTS) == pytest.approx(MEAN.encode(TEXTS), abs=1e-5)


def test_a_shipped_model(mean, tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "MODELS", tmp_path / "models")
    assert bundled.bundled_models() == {}
    shutil.copytree(mean.path, tmp_path / "models" / "medcoder-xx")
    (tmp_path / "models" / "notes").mkdir()
    assert bundled.bundled_models() == {"medcoder-xx": tmp_path / "models" / "medcoder-xx"}
    assert load_encoder("medcoder-xx").path == tmp_path / "models" / "medcoder-xx"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("{}/none", "none: there is no such folder. Check the path"),
        ("./none", "none: there is no such folder. Check the path"),
        ("~/none", "none: there is no such folder. Check the path"),
        ("a/b/c", "a/b/c: there is no such folder. Check the path"),
        ("", "is not a model: it has neither meta.json nor config.json"),
        ("{}/empty", "empty: it is not a model: it has neither meta.json nor config.json"),
        ("{}/file", "file: it is not a model: it has neither meta.json nor config.json"),
        ("{}/toy.kg", "is a knowledge graph, not an encoder"),
        ("no-such-model", "no-such-model: cannot be loaded as a model: .*Name a folder"),
        ("nobody/no-such-model", "cannot be loaded as a model: .*Name a folder"),
        ("{}/bare", "bare: cannot be loaded as a model: .*Name a folder"),
    ],
)
def test_what_is_no_model(toy_path, tmp_path, monkeypatch, place, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    shutil.copytree(toy_path, tmp_path / "toy.kg")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ArtefactError, match=f"(?s){message}"):
        load_encoder(place.format(tmp_path))


# Without torch

ALONE = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "onnx", "onnxscript"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
import numpy, medcoder.encode, medcoder.encode.onnx, medcoder.vectors.embed
from medcoder import load_encoder
from medcoder.errors import MissingExtra
exported, model, out = sys.argv[1:]
numpy.save(out, load_encoder(exported).encode(["heart attack", "", "fever"]))
for place in (model, "some-name"):
    try:
        load_encoder(place)
    except MissingExtra as error:
        print(error)
"""


def test_neither_torch_nor_transformers_is_needed(mean, model, tmp_path):
    command = [sys.executable, "-W", "error", "-c", ALONE, mean.path, model, tmp_path / "out.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    expected = MEAN.encode(["heart attack", "", "fever"])
    assert np.load(tmp_path / "out.npy") == pytest.approx(expected, abs=1e-5)
    lines = done.stdout.splitlines()
    for line, place in zip(lines, (model, "some-name"), strict=True):
        assert line.startswith(f"{place}: it is not an exported encoder (there are: ")
        assert "needs torch, which is not installed" in line
        assert line.endswith("pip install 'medcoder[train]'")


@pytest.mark.parametrize("missing", ["onnx", "onnxscript"])
def test_exporting_needs_an_extra(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, exporting.__name__)
    with pytest.raises(MissingExtra, match=rf"needs {missing}. .*pip install 'medcoder\[export\]'"):
        importlib.import_module(exporting.__name__)
