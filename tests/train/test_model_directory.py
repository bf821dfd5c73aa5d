"""What a run leaves: a model that Hugging Face, sentence-transformers and we open alike."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from medcoder.artefact import fingerprint, verify
from medcoder.model.encoder import TransformerEncoder
from support.training import make_graph, run

TEXTS = ["heart attack", "Cold", "a much longer name of a disease of the head " * 3, "", "発熱"]


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("result") / "kg")


def by_transformers(folder, pooling):
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(TEXTS, padding=True, truncation=True, max_length=32, return_tensors="pt")
    with torch.no_grad():
        hidden = model.eval()(**tokens).last_hidden_state
    real = tokens["attention_mask"][:, :, None]
    vectors = hidden[:, 0] if pooling == "cls" else (hidden * real).sum(1) / real.sum(1)
    return torch.nn.functional.normalize(vectors, dim=1).numpy()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_three_libraries_open_it_to_the_same_vectors(kg, tmp_path, pooling):
    from sentence_transformers import SentenceTransformer

    out = tmp_path / "run"
    encoder = run(kg, out, f"pooling={pooling}", dropout=0.1)
    folder = out / "model"
    expected = encoder.encode(TEXTS)
    assert np.allclose(np.linalg.norm(expected, axis=1), 1)
    ours = TransformerEncoder.load(folder)
    assert (ours.pooling, ours.max_length) == (pooling, 32)
    np.testing.assert_array_equal(ours.encode(TEXTS), expected)
    np.testing.assert_allclose(by_transformers(folder, pooling), expected, atol=1e-5)
    theirs = SentenceTransformer(str(folder), device="cpu")
    assert theirs.max_seq_length == 32
    np.testing.assert_allclose(theirs.encode(TEXTS), expected, atol=1e-5)


def test_the_model_knows_where_it_comes_from(kg, tmp_path):
    out = tmp_path / "run"
    run(kg, out, "seed=3", "schedule.total=4")
    about = json.loads((out / "model" / "medcoder.json").read_text())
    assert about["kg"] == kg.fingerprint
    assert (about["seed"], about["pooling"], about["max_length"]) == (3, "cls", 32)
    assert about["made_by"].startswith("medcoder ")
    verify(out / "model", kind="model")
    meta = json.loads((out / "model" / "meta.json").read_text())
    assert meta["parents"] == {"kg": kg.fingerprint}
    assert fingerprint(out / "model", kind="model") == meta["fingerprint"]


def test_nothing_half_written_is_left(kg, tmp_path, monkeypatch):
    out = tmp_path / "run"
    run(kg, out, "schedule.total=4")
    before = fingerprint(out / "model", kind="model")
    saved = []

    def broken(encoder, folder, *, about):
        encoder.model.save_pretrained(folder)
        saved.append(folder)
        raise OSError(5, "I/O error")

    monkeypatch.setattr("medcoder.train.state.save_encoder", broken)
    with pytest.raises(OSError, match="I/O error"):
        run(kg, out, "schedule.total=4", resume=True)
    assert saved and not saved[0].exists()
    verify(out / "model", kind="model")
    assert fingerprint(out / "model", kind="model") == before


def test_no_bar_of_another_library_is_drawn(kg, tmp_path, capfd):
    from transformers.utils import logging

    logging.enable_progress_bar()
    run(kg, tmp_path / "run", "schedule.total=4")
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled()
