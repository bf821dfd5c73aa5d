"""Embeddings that are compared: how they are named, contextual ones, exported ones, spellings."""

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from medcoder.encode import load_encoder
from medcoder.errors import ArtefactError, UnknownName, UsageError
from medcoder.evaluate import EMBEDDINGS
from medcoder.evaluate.embeddings import Spec, load, parse
from medcoder.evaluate.embeddings import contextual as contextual_module
from medcoder.evaluate.embeddings.contextual import ContextualEmbedding
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.save import save_encoder
from support import tiny

TEXTS = ["heart attack", "", "type diabetes with a long name " * 5, "headaches", "heart attack"]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read on import


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint that says nothing of pooling."""
    return checkpoint(tmp_path_factory.mktemp("plain") / "tiny-bert", tiny.bert())


def checkpoint(path, model):
    model.save_pretrained(path)
    tiny.tokenizer().save_pretrained(path)
    return path


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


# Names


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("word:a.bin", Spec("word", "a.bin", {})),
        ("concept:a,b.csv,name=x=1, y", Spec("concept", "a,b.csv", {"name": "x=1, y"})),
        ("lexical:tfidf", Spec("lexical", "tfidf", {})),
        ("medcoder-all", Spec("exported", "medcoder-all", {})),
        ("org/a", Spec("contextual", "org/a", {})),
        ("./a:b", Spec("contextual", "./a:b", {})),
        (
            "contextual:a,pooling=cls,max_length=8",
            Spec("contextual", "a", {"pooling": "cls", "max_length": "8"}),
        ),
    ],
)
def test_specs(spec, expected):
    assert parse(spec) == expected


def test_a_path_with_a_colon_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "word:x").mkdir()
    assert parse("word:x") == Spec("contextual", "word:x", {})


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("wrod:a.bin", UnknownName, "no embedding is called 'wrod'; did you mean 'word'?"),
        ("word:", UsageError, "'word:' names no embedding"),
        ("lexical:tfdf", UnknownName, "no lexical space is called 'tfdf'; did you mean 'tfidf'?"),
        (
            "lexical:exact,nam=x",
            UsageError,
            "no option of lexical embeddings is called 'nam'; did you mean 'name'? There are: name",
        ),
        ("org/a,max_length=x", UsageError, "max_length is 'x': expected a whole number"),
        ("org/a,pooling=max", UsageError, "no pooling 'max': there are cls, mean, legacy, legacy-"),
        ("no/such/folder", ArtefactError, "there is no no/such/folder. Check the path"),
        ("org/none", ArtefactError, "there is no folder org/none, and the hub gave none"),
        ("exported:org/none", ArtefactError, "org/none is not an exported encoder"),
    ],
)
def test_specs_that_mean_nothing(spec, error, message):
    with pytest.raises(error) as caught:
        load(spec)
    assert message in str(caught.value)


def test_a_file_needs_its_kind(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"")
    with pytest.raises(UsageError, match=r"is a file.*Write word:.*a\.bin or concept:"):
        load(str(tmp_path / "a.bin"))


# Every kind keeps the contract


def specs(folder, bag, tmp_path):
    (tmp_path / "w.txt").write_text("heart 1 0 2\nattack 0 3 4\n")
    (tmp_path / "c.csv").write_text('"","V1","V2"\n"C1",3,4\n')
    return {
        "contextual": str(folder),
        "exported": str(bag.path),
        "word": f"word:{tmp_path / 'w.txt'}",
        "concept": f"concept:{tmp_path / 'c.csv'}",
        "lexical": "lexical:tfidf",
    }


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_rows_are_unit_or_unknown_and_do_not_depend_on_their_neighbours(
    kind, folder, bag, tmp_path
):
    embedding = load(specs(folder, bag, tmp_path)[kind])
    texts, ids = ["heart attack", "zzz qqq", "heart", "heart attack"], ["C1", "C9", "", "C9|C1"]
    vectors = embedding.embed(texts, ids=ids, corpus=["heart attack", "heart"])
    rows = vectors.rows.toarray() if kind == "lexical" else vectors.rows
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(vectors.known.astype(float), abs=1e-6)
    expected = {
        "word": [1, 0, 1, 1],
        "lexical": [1, 0, 1, 1],
        "concept": [1, 0, 0, 1],
    }.get(kind, [1, 1, 1, 1])
    assert vectors.known.tolist() == [bool(known) for known in expected]
    alone = embedding.embed(texts[2:3], ids=ids[2:3], corpus=["heart attack", "heart"]).rows
    assert rows[2] == pytest.approx((alone.toarray() if kind == "lexical" else alone)[0], abs=1e-5)
    assert len(embedding.embed([], ids=[], corpus=["heart"]).known) == 0
    assert embedding.fingerprint == load(specs(folder, bag, tmp_path)[kind]).fingerprint
    assert json.loads(json.dumps(embedding.settings)) == embedding.settings
    assert embedding.name and embedding.kind in ("contextual", "ours", "word", "concept", "lexical")


# Contextual


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
    path = checkpoint(tmp_path / "model", model())
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
    path = checkpoint(tmp_path / "half", tiny.bert().half())
    encoder = load(str(path)).encoder
    assert {weight.dtype for weight in encoder.parameters()} == {torch.float32}


def test_what_changes_vectors_changes_the_fingerprint(folder, tmp_path):
    other = tiny.bert()
    other.encoder.layer[0].output.dense.bias.data[0] += 1e-3
    again = checkpoint(tmp_path / "other", other)
    lower = checkpoint(tmp_path / "lower", tiny.bert())
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


# Exported


def test_an_exported_encoder(bag):
    embedding = load(str(bag.path), threads=1)
    assert (embedding.name, embedding.kind) == (bag.path.name, "ours")
    assert embedding.fingerprint == load_encoder(bag.path).fingerprint
    texts = ["heart attack", "fever"]
    assert np.array_equal(embedding.embed(texts).rows, bag.encode(texts))
    assert embedding.settings == {"runtime": "onnxruntime", "dimension": 24, "max_length": 64}


def test_shipped_models_go_by_their_names():
    embedding = load("medcoder-all,name=ours")
    assert (embedding.name, embedding.kind) == ("ours", "ours")
    assert embedding.settings["pooling"] == "mean" and embedding.settings["max_length"] == 32
    near, far = (
        embedding.embed(["heart attack", "myocardial infarction", "broken toe"]).rows[0]
        @ embedding.embed(["myocardial infarction", "broken toe"]).rows.T
    )
    assert near > 0.6 > far


# Spellings


def grams(text):
    """3-grams of words with a space at both ends, counted."""
    return Counter(
        padded[n : n + 3]
        for word in text.lower().split()
        for padded in [f" {word} "]
        for n in range(len(padded) - 2)
    )


def naive_cosine(query, term, corpus):
    def weights(text):
        return {
            gram: count * (math.log((1 + len(corpus)) / (1 + df)) + 1)
            for gram, count in grams(text).items()
            if (df := sum(gram in grams(other) for other in corpus))
        }

    one, other = weights(query), weights(term)
    lengths = (math.hypot(*one.values()), math.hypot(*other.values()))
    return sum(one[gram] * other.get(gram, 0) for gram in one) / (math.prod(lengths) or 1)


def test_tfidf_equals_a_naive_loop():
    corpus = ["Heart attack", "heartburn", "Headache", "attack attack", "cold"]
    queries = ["HEART ATTACKS", "ache", "hart burn", "zzzz", ""]
    embedding = load("lexical:tfidf")
    terms, known = embedding.embed(corpus, corpus=corpus)
    rows, found = embedding.embed(queries, corpus=corpus)
    expected = [[naive_cosine(query, term, corpus) for term in corpus] for query in queries]
    assert (rows @ terms.T).toarray() == pytest.approx(np.array(expected), abs=1e-6)
    assert known.all() and found.tolist() == [True, True, True, False, False]
    assert embedding.name == "char-3-gram TF-IDF"


def test_a_space_is_fitted_again_only_for_another_corpus(monkeypatch):
    embedding = load("lexical:tfidf")
    fitted = []
    fit = embedding._fit
    monkeypatch.setattr(embedding, "_fit", lambda corpus: fitted.append(corpus) or fit(corpus))
    for corpus in (["heart"], ["heart"], ["cold"], None):
        embedding.embed(["fever"], corpus=corpus)
    assert fitted == [["heart"], ["cold"], ["fever"]]


def test_a_corpus_of_nothing_knows_nothing():
    for space in ("tfidf", "exact"):
        rows, known = load(f"lexical:{space}").embed(["heart", "cold"], corpus=[""])
        assert rows.shape[0] == 2 and rows.nnz == 0 and not known.any()


def test_exact_match_knows_only_the_same_folded_string():
    corpus = ["Crohn's disease", "cold", "Cold", "épilepsie"]
    queries = ["crohns  Disease", "COLD", "epilepsie", "colds", ""]
    embedding = load("lexical:exact")
    rows, known = embedding.embed(queries, corpus=corpus)
    cosines = (rows @ embedding.embed(corpus, corpus=corpus).rows.T).toarray()
    assert cosines.tolist() == [
        [1, 0, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert known.tolist() == [True, True, True, False, False]
    assert embedding.name == "exact match"
    assert embedding.fingerprint != load("lexical:tfidf").fingerprint
