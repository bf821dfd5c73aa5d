"""The encoder: pooling, order, files; and the model directory in the hands of other libraries."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tokenizers.normalizers import BertNormalizer
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer

from medcoder.errors import ArtefactError, UsageError
from medcoder.model import encoder as encoder_module
from medcoder.model.encoder import TransformerEncoder, save_encoder
from medcoder.model.packed import pack
from support import tiny

TEXTS = [
    "heart attack",
    "Cold",
    "",
    "type diabetes with a very long name " * 5,
    "headaches",
    "cœur 心臓",
    "fever",
    "heart attack",
    "a",
]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read on import


def made(**options):
    return TransformerEncoder(tiny.bert(), tiny.tokenizer(), **options)


ENCODERS = {pooling: made(pooling=pooling, max_length=16) for pooling in ("cls", "mean", "legacy")}


def reference(encoder, text):
    """The vector of one term, written out: one row, no packing."""
    ids = encoder.tokenizer(text, truncation=True, max_length=encoder.max_length)["input_ids"]
    with torch.no_grad():
        if encoder.pooling == "legacy":  # padded to the full length, and nobody told the model
            ids = ids + [encoder.tokenizer.pad_token_id] * (encoder.max_length - len(ids))
            vector = encoder.model(input_ids=torch.tensor([ids])).pooler_output[0]
        else:
            hidden = encoder.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            vector = hidden[0] if encoder.pooling == "cls" else hidden.mean(0)
    return (vector / vector.norm()).numpy()


# Encoding


@pytest.mark.parametrize("pooling", ENCODERS)
def test_each_pooling_equals_its_reference(pooling):
    encoder = ENCODERS[pooling]
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 32) and vectors.dtype == np.float32
    expected = np.stack([reference(encoder, text) for text in TEXTS])
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def test_poolings_differ():
    vectors = [encoder.encode(["heart attack"])[0] for encoder in ENCODERS.values()]
    cosines = np.stack(vectors) @ np.stack(vectors).T
    assert (np.abs(cosines[np.triu_indices(3, 1)]) < 0.999).all()


def test_legacy_pooling_depends_on_the_padding_and_the_others_do_not():
    for pooling, same in (("cls", True), ("mean", True), ("legacy", False)):
        short = made(pooling=pooling, max_length=8).encode(["cold"])
        long = made(pooling=pooling, max_length=32).encode(["cold"])
        assert np.allclose(short, long, atol=1e-5) is same, pooling


@settings(max_examples=12)
@given(st.permutations(range(len(TEXTS))), st.sampled_from(["cls", "mean", "legacy"]))
def test_vectors_come_in_the_order_of_the_texts(order, pooling):
    expected = ENCODERS[pooling].encode(TEXTS)
    found = ENCODERS[pooling].encode([TEXTS[place] for place in order])
    assert found == pytest.approx(expected[list(order)], abs=1e-5)


@pytest.mark.parametrize("tokens", [1, 5, 40])
def test_vectors_do_not_depend_on_how_many_are_encoded_at_a_time(tokens, monkeypatch):
    expected = ENCODERS["mean"].encode(TEXTS)
    monkeypatch.setattr(encoder_module, "_TOKENS", tokens)
    assert ENCODERS["mean"].encode(TEXTS) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("pooling", ENCODERS)
def test_no_texts_no_vectors(pooling):
    vectors = ENCODERS[pooling].encode([])
    assert vectors.shape == (0, 32) and vectors.dtype == np.float32


def test_texts_of_any_kind_of_sequence():
    expected = ENCODERS["cls"].encode(["cold", "fever"])
    assert (ENCODERS["cls"].encode(("cold", "fever")) == expected).all()
    assert (ENCODERS["cls"].encode(np.array(["cold", "fever"])) == expected).all()


def test_terms_are_cut_to_the_length():
    tokens = made(max_length=6).tokenize(["heart " * 20, "heart"])
    heart, start, end = (tiny.VOCABULARY.index(word) for word in ("heart", "[CLS]", "[SEP]"))
    assert tokens == [[start, heart, heart, heart, heart, end], [start, heart, end]]


def test_an_unsupported_architecture_encodes_too():
    encoder = TransformerEncoder(tiny.distilbert(), tiny.tokenizer(), pooling="mean")
    expected = np.stack([reference(encoder, text) for text in TEXTS])
    assert encoder.encode(TEXTS) == pytest.approx(expected, abs=1e-5)


def test_forward_gives_vectors_of_any_length_with_gradients():
    encoder = made(pooling="mean")
    tokens = encoder.tokenize(["heart attack", "fever"])
    vectors = encoder(pack(np.concatenate(tokens), np.array([len(ids) for ids in tokens])))
    assert vectors.shape == (2, 32) and vectors.requires_grad
    units = normalize(vectors, dim=1).detach().numpy()
    assert units == pytest.approx(encoder.encode(["heart attack", "fever"]), abs=1e-5)
    assert not np.allclose(vectors.norm(dim=1).detach(), 1, atol=0.1)


def test_encoding_does_not_drop_out_and_leaves_the_mode_as_it_was():
    model = tiny.bert(hidden_dropout_prob=0.5)
    encoder = TransformerEncoder(model, tiny.tokenizer())
    assert not encoder.training  # as the model is
    expected = encoder.encode(TEXTS)
    assert not encoder.training and not model.training
    encoder.train()
    assert (encoder.encode(TEXTS) == expected).all()
    assert encoder.training and model.training and model.embeddings.dropout.training


def test_a_pooling_that_makes_no_sense():
    with pytest.raises(UsageError, match=r"no such pooling: 'max'\. There are: cls, mean, legacy"):
        made(pooling="max")
    with pytest.raises(UsageError, match="legacy pooling needs a model with a pooler"):
        TransformerEncoder(tiny.distilbert(), tiny.tokenizer(), pooling="legacy")


# Files


def saved(folder, **options):
    encoder = made(**options)
    save_encoder(encoder, folder)
    return encoder


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_half_precision_checkpoint_loads_in_single(tmp_path, dtype):
    model = tiny.bert().to(dtype)
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {dtype}
    encoder = TransformerEncoder.load(tmp_path)
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}
    for name, tensor in encoder.model.state_dict().items():
        if name in stored:
            assert torch.equal(tensor, stored[name].float()), name
    # Small changes, such as those of training, are kept.
    save_encoder(encoder, tmp_path / "again")
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert {tensor.dtype for tensor in again.values()} == {torch.float32}


def test_what_a_model_directory_says_and_what_a_call_says(tmp_path):
    saved(tmp_path, pooling="mean", max_length=9)
    kept = TransformerEncoder.load(tmp_path)
    assert (kept.pooling, kept.max_length, kept.width) == ("mean", 9, 32)
    other = TransformerEncoder.load(str(tmp_path), pooling="cls", max_length=5)
    assert (other.pooling, other.max_length) == ("cls", 5)
    for name in ("medcoder.json", "modules.json"):
        (tmp_path / name).unlink()
    plain = TransformerEncoder.load(tmp_path)
    assert (plain.pooling, plain.max_length) == ("cls", 32)


def of_sentence_transformers(folder, mode, length):
    """A folder as the library itself writes it."""
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    made().model.save_pretrained(folder / "plain")
    tiny.tokenizer().save_pretrained(folder / "plain")
    words = Transformer(str(folder / "plain"), max_seq_length=length)
    library = SentenceTransformer(modules=[words, Pooling(32, mode)], device="cpu")
    library.save(str(folder / "library"))
    return library, folder / "library"


@pytest.mark.parametrize("mode", ["cls", "mean"])
def test_what_a_folder_of_sentence_transformers_says(tmp_path, mode):
    library, folder = of_sentence_transformers(tmp_path, mode, 7)
    encoder = TransformerEncoder.load(folder)
    assert (encoder.pooling, encoder.max_length) == (mode, 7)
    expected = library.encode(TEXTS, normalize_embeddings=True)
    assert encoder.encode(TEXTS) == pytest.approx(expected, abs=1e-5)
    other = TransformerEncoder.load(folder, pooling="legacy", max_length=5)
    assert (other.pooling, other.max_length) == ("legacy", 5)


@pytest.mark.parametrize(
    ("modes", "pooling"),
    [
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
        ({"pooling_mode_mean_tokens": False}, "cls"),
        ({}, "cls"),
    ],
)
def test_poolings_as_versions_write_them(tmp_path, modes, pooling):
    saved(tmp_path)
    (tmp_path / "medcoder.json").unlink()
    modes = {"word_embedding_dimension": 32} | modes
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": null}')
    encoder = TransformerEncoder.load(tmp_path)
    assert (encoder.pooling, encoder.max_length) == (pooling, 512)  # all that the model knows
    (tmp_path / "tokenizer_config.json").unlink()
    assert TransformerEncoder.load(tmp_path).max_length == 32


@pytest.mark.parametrize(
    ("modes", "name"),
    [
        ({"pooling_mode": "max"}, "'max'"),
        ({"pooling_mode": ["mean", "cls"]}, r"\['mean', 'cls'\]"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False}, "'max'"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "'mean_sqrt_len'"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, r"'cls\+mean'"),
    ],
)
def test_a_pooling_that_we_do_not_have_is_not_taken_for_another(tmp_path, modes, name):
    saved(tmp_path)
    (tmp_path / "medcoder.json").unlink()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    with pytest.raises(UsageError, match=f"no such pooling: {name}. There are: cls, mean, legacy"):
        TransformerEncoder.load(tmp_path)
    assert TransformerEncoder.load(tmp_path, pooling="mean").pooling == "mean"


def test_a_fingerprint_is_of_weights_tokenizer_pooling_and_length(tmp_path):
    encoder = saved(tmp_path / "one", pooling="mean", max_length=9)
    first = encoder.fingerprint
    assert len(first) == 32
    saved(tmp_path / "another name", pooling="mean", max_length=9)
    for folder in ("one", "another name"):
        loaded = TransformerEncoder.load(tmp_path / folder)
        assert loaded.fingerprint == first
        loaded.encode(TEXTS)  # which makes the tokenizer cut and pad
        loaded.train()
        assert loaded.fingerprint == first
    others = [
        TransformerEncoder.load(tmp_path / "one", **options).fingerprint
        for options in ({"pooling": "cls"}, {"pooling": "legacy"}, {"max_length": 8})
    ]
    words = [*tiny.VOCABULARY[:-2], tiny.VOCABULARY[-1], tiny.VOCABULARY[-2]]
    tokenizer = tiny.tokenizer()
    tokenizer.backend_tokenizer.model = tiny.word_pieces(words).model
    others.append(
        TransformerEncoder(encoder.model, tokenizer, pooling="mean", max_length=9).fingerprint
    )
    cased = tiny.tokenizer()
    cased.backend_tokenizer.normalizer = BertNormalizer(lowercase=False)
    others.append(
        TransformerEncoder(encoder.model, cased, pooling="mean", max_length=9).fingerprint
    )
    for parameter in list(encoder.parameters())[::38]:
        with torch.no_grad():
            parameter.view(-1)[-1] += 1e-6
        others.append(encoder.fingerprint)
    assert len({first, *others}) == 8


def test_what_is_said_about_a_model(tmp_path):
    save_encoder(made(), tmp_path / "a" / "b", about={"seed": 3})
    about = json.loads((tmp_path / "a" / "b" / "medcoder.json").read_text())
    assert about == {"pooling": "cls", "max_length": 32, "seed": 3}


def damage(folder, how):
    if how == "no folder":
        return folder / "nowhere"
    if how == "empty folder":
        (folder / "empty").mkdir()
        return folder / "empty"
    saved(folder)
    if how == "no weights":
        (folder / "model.safetensors").unlink()
    elif how == "weights cut short":
        data = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    elif how == "config is no JSON":
        (folder / "config.json").write_text("{")
    elif how == "settings are no JSON":
        (folder / "medcoder.json").write_text("{")
    elif how == "no tokenizer":
        for file in folder.glob("tokenizer*"):
            file.unlink()
    return folder


@pytest.mark.parametrize(
    "how",
    [
        "no folder",
        "empty folder",
        "no weights",
        "weights cut short",
        "config is no JSON",
        "settings are no JSON",
        "no tokenizer",
    ],
)
def test_a_folder_that_is_no_model(tmp_path, how):
    folder = damage(tmp_path, how)
    with pytest.raises(ArtefactError, match="cannot be loaded as a model") as error:
        TransformerEncoder.load(folder)
    assert str(folder) in str(error.value) and "Name a folder with config.json" in str(error.value)


# The same directory in three libraries


def with_transformers(folder, pooling, texts):
    """As someone would who has no medcoder."""
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, padding=True, truncation=True, max_length=16, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    vectors = hidden[:, 0] if pooling == "cls" else (hidden * mask).sum(1) / mask.sum(1)
    return normalize(vectors, dim=1).numpy()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(
    "make", [tiny.bert, partial(tiny.roberta, pad_token_id=0), tiny.distilbert]
)
def test_three_libraries_give_the_same_vectors(tmp_path, pooling, make):
    encoder = TransformerEncoder(make(), tiny.tokenizer(), pooling=pooling, max_length=16)
    expected = encoder.encode(TEXTS)
    save_encoder(encoder, tmp_path)
    assert TransformerEncoder.load(tmp_path).encode(TEXTS) == pytest.approx(expected, abs=1e-5)
    assert with_transformers(tmp_path, pooling, TEXTS) == pytest.approx(expected, abs=1e-5)
    library = SentenceTransformer(str(tmp_path), device="cpu")
    assert library.max_seq_length == 16
    for normalised in (True, False):  # the directory says to normalise, asked or not
        vectors = library.encode(TEXTS, normalize_embeddings=normalised)
        assert vectors == pytest.approx(expected, abs=1e-5)


def test_saving_over_an_earlier_model(tmp_path):
    saved(tmp_path, pooling="mean")
    encoder = made(pooling="cls", max_length=16)
    with torch.no_grad():
        encoder.model.embeddings.word_embeddings.weight += 0.5
    save_encoder(encoder, tmp_path)
    expected = encoder.encode(TEXTS)
    assert TransformerEncoder.load(tmp_path).encode(TEXTS) == pytest.approx(expected, abs=1e-5)
    library = SentenceTransformer(str(tmp_path), device="cpu")
    assert library.encode(TEXTS) == pytest.approx(expected, abs=1e-5)


def test_a_legacy_model_is_refused_where_it_would_mean_something_else(tmp_path):
    encoder = made(pooling="legacy", max_length=16)
    save_encoder(encoder, tmp_path)
    expected = encoder.encode(TEXTS)
    assert TransformerEncoder.load(tmp_path).encode(TEXTS) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="Invalid pooling mode: 'legacy'"):
        SentenceTransformer(str(tmp_path), device="cpu")
