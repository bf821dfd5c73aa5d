"""Checkpoints: poolings against their references."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from medcoder.evaluate.embeddings import contextual as contextual_module
from medcoder.evaluate.embeddings import load
from medcoder.evaluate.embeddings.contextual import ContextualEmbedding
from medcoder.model.encoder import TransformerEncoder, save_encoder
from support import tiny

TEXTS = ["heart attack", "", "type diabetes with a long name " * 5, "headaches", "heart attack"]


def one_by_one(path, text, pooling, *, length=32):
    """The unit vector of a term, written out: one row, and no packing."""
    model = TransformerEncoder.load(path)
    ids = model.tokenizer(text, truncation=True, max_length=length)["input_ids"]
    if pooling.startswith("legacy"):
        ids = ids + [model.tokenizer.pad_token_id] * (length - len(ids))
    with torch.no_grad():
        output = model.model.eval()(input_ids=torch.tensor([ids]))
    hidden = output.last_hidden_state[0]
    vector = {
        "cls": lambda: hidden[0],
        "mean": lambda: hidden.mean(0),
        "legacy": lambda: hidden.mean(0),
        "legacy-pooler": lambda: output.pooler_output[0],
    }[pooling]()
    return (vector / vector.norm()).numpy()


@pytest.mark.parametrize("pooling", ["cls", "mean", "legacy", "legacy-pooler"])
def test_each_pooling_equals_its_reference(pooling, folder):
    embedding = load(f"{folder},pooling={pooling}")
    expected = np.stack([one_by_one(folder, text, pooling) for text in TEXTS])
    assert embedding.embed(TEXTS).rows == pytest.approx(expected, abs=1e-5)
    assert embedding.name == f"tiny-bert ({pooling})" and embedding.kind == "contextual"
    assert embedding.settings == {
        "pooling": pooling,
        "max_length": 32,
        "dimension": 32,
        "vocabulary": len(set(tiny.VOCABULARY)),
        "architecture": "bert",
        "parameters": sum(p.numel() for p in tiny.bert().parameters()),
        "precision": "float32",
    }


@pytest.mark.parametrize("model", [tiny.mpnet, tiny.roberta, tiny.distilbert])
@pytest.mark.parametrize("pooling", ["cls", "mean", "legacy"])
def test_other_architectures(model, pooling, tmp_path):
    path = tiny.checkpoint(tmp_path / "model", model())
    expected = np.stack([one_by_one(path, text, pooling) for text in TEXTS])
    rows = load(f"{path},pooling={pooling}").embed(TEXTS).rows
    assert rows == pytest.approx(expected, abs=1e-5)


def test_batches_of_any_size_give_the_same(folder, monkeypatch):
    texts = [" ".join(["heart", "fever", "cold"][: 1 + n % 3] * (1 + n % 5)) for n in range(40)]
    embedding = load(str(folder))
    whole = embedding.embed(texts).rows
    monkeypatch.setattr(contextual_module, "_TOKENS_CPU", 16)
    calls = []
    forward = TransformerEncoder.forward
    monkeypatch.setattr(
        TransformerEncoder,
        "forward",
        lambda self, packed: calls.append(packed.lengths.tolist()) or forward(self, packed),
    )
    assert embedding.embed(texts).rows == pytest.approx(whole, abs=1e-5)
    lengths = [length for batch in calls for length in batch]
    assert len(calls) > 5 and lengths == sorted(lengths)  # like with like
    assert len(lengths) == len(set(texts))  # equal texts once


def test_pooling_of_a_folder_counts_and_length_is_32(tmp_path):
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="mean", max_length=64)
    save_encoder(encoder, tmp_path / "model")
    (tmp_path / "model" / "medcoder.json").unlink()  # as others save theirs
    embedding = load(str(tmp_path / "model"))
    assert (embedding.pooling, embedding.encoder.max_length) == ("mean", 32)
    assert (embedding.name, embedding.kind) == ("model", "contextual")
    other = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    other.max_seq_length = 32
    assert embedding.embed(TEXTS).rows == pytest.approx(other.encode(TEXTS), abs=1e-5)
    assert load(f"{tmp_path / 'model'},max_length=64").encoder.max_length == 64


def test_a_checkpoint_of_ours_is_ours_and_its_legacy_pooling_has_the_pooler(tmp_path):
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="legacy")
    save_encoder(encoder, tmp_path / "model")
    embedding = load(f"{tmp_path / 'model'},name=Mine")
    assert (embedding.name, embedding.kind, embedding.pooling) == ("Mine", "ours", "legacy-pooler")
    assert embedding.embed(TEXTS).rows == pytest.approx(encoder.encode(TEXTS), abs=1e-6)


def test_half_precision_files_are_computed_in_float32(tmp_path):
    path = tiny.checkpoint(tmp_path / "half", tiny.bert().half())
    encoder = load(str(path)).encoder
    assert {weight.dtype for weight in encoder.parameters()} == {torch.float32}


def test_what_changes_vectors_changes_the_fingerprint(folder, tmp_path):
    other = tiny.bert()
    other.encoder.layer[0].output.dense.bias.data[0] += 1e-3
    again = tiny.checkpoint(tmp_path / "other", other)
    lower = tiny.checkpoint(tmp_path / "lower", tiny.bert())
    content = json.loads((lower / "tokenizer.json").read_text())
    content["normalizer"]["lowercase"] = False
    (lower / "tokenizer.json").write_text(json.dumps(content))
    poolings = ("cls", "mean", "legacy", "legacy-pooler")
    found = [load(f"{folder},pooling={pooling}").fingerprint for pooling in poolings]
    found += [load(f"{folder},max_length=16").fingerprint]
    found += [load(str(path)).fingerprint for path in (again, lower)]
    assert len(set(found)) == len(found)
    assert load(str(folder)).fingerprint == found[0]  # cls is what it is without being told


def test_another_pooling_of_the_same_model(folder):
    embedding = load(f"{folder},pooling=legacy")
    cls = embedding.pooled("cls")
    assert cls.encoder.model is embedding.encoder.model
    assert cls.fingerprint == load(f"{folder},pooling=cls").fingerprint
    assert np.array_equal(cls.embed(TEXTS).rows, load(f"{folder},pooling=cls").embed(TEXTS).rows)


def test_raw_vectors_point_where_the_unit_ones_do(folder):
    embedding = load(str(folder))
    raw, unit = embedding.raw(TEXTS).rows, embedding.embed(TEXTS).rows
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    assert (lengths > 1.5).all()
    assert raw / lengths == pytest.approx(unit, abs=1e-6)


def test_encoding_leaves_the_model_as_it_was():
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer()).train()
    ContextualEmbedding(encoder, name="x").embed(TEXTS)
    assert encoder.training and encoder.model.training


@pytest.mark.parametrize("weights", ["*.safetensors", "*.bin"])
def test_a_name_of_the_hub_is_fetched_as_a_folder(weights, folder, tmp_path, monkeypatch):
    asked = []

    def fetch(name, **options):
        asked.append((name, options["allow_patterns"]))
        if weights == "*.bin":
            (tmp_path / "model.safetensors").unlink(missing_ok=True)
            torch.save(tiny.bert().state_dict(), tmp_path / "pytorch_model.bin")
        return str(tmp_path)

    save_encoder(TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="mean"), tmp_path)
    (tmp_path / "medcoder.json").unlink()
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    embedding = load("org/some-model")
    assert (embedding.name, embedding.pooling) == ("some-model", "mean")
    assert embedding.embed(TEXTS).rows == pytest.approx(
        np.stack([one_by_one(folder, text, "mean") for text in TEXTS]), abs=1e-5
    )
    expected = [("org/some-model", ["*.json", "*.txt", "*.model", "*.safetensors"])]
    expected += [("org/some-model", ["*.bin"])] if weights == "*.bin" else []
    assert asked == expected
