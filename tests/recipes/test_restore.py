"""recipes/medcoder-all/restore.py: a model to train on from, of an exported encoder."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from medcoder.encode.onnx import OnnxEncoder
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.export import export
from support import tiny

RECIPE = Path(__file__).parents[2] / "recipes" / "medcoder-all"
TEXTS = ["heart attack", "fever", "headache s", "type diabetes cold"]


@pytest.fixture
def restore(monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPE))
    yield importlib.import_module("restore")
    sys.modules.pop("restore", None)


@pytest.mark.parametrize("weights", ["int8", "float32"])
def test_the_restored_model_is_the_exported_one(restore, tmp_path, monkeypatch, weights):
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny.word_pieces(list(tiny.VOCABULARY)), **names
    )
    model = TransformerEncoder(tiny.bert(), tokenizer, pooling="mean", max_length=16).eval()
    export(model, tmp_path / "exported", weights=weights)
    there = OnnxEncoder.load(tmp_path / "exported").encode(TEXTS)

    here = restore.restore(tmp_path / "exported", heads=4)
    assert (here.pooling, here.max_length) == ("mean", 16)
    assert np.abs(here.encode(TEXTS) - there).max() < 1e-5
    # With another number of heads the same weights are another model.
    other = restore.restore(tmp_path / "exported", heads=2)
    assert np.abs(other.encode(TEXTS) - there).max() > 1e-3

    folder = tmp_path / "restored"
    options = [str(tmp_path / "exported"), "--heads", "4", "--out", str(folder)]
    monkeypatch.setattr(sys, "argv", ["restore.py", *options])
    restore.main()
    again = TransformerEncoder.load(folder)
    assert np.abs(again.float().encode(TEXTS) - there).max() < 5e-3
