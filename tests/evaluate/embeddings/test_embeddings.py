"""Specs of embeddings, and what every kind keeps to."""

import json

import numpy as np
import pytest

from medcoder.errors import ArtefactError, UnknownName, UsageError
from medcoder.evaluate import EMBEDDINGS
from medcoder.evaluate.embeddings import Spec, load, parse
from medcoder.model import load_encoder


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
        ("word:", UsageError, "'word:': names no embedding"),
        ("lexical:tfdf", UnknownName, "no lexical space is called 'tfdf'; did you mean 'tfidf'?"),
        (
            "lexical:exact,nam=x",
            UsageError,
            "no option of lexical embeddings is called 'nam'; did you mean 'name'? There are: name",
        ),
        ("org/a,max_length=x", UsageError, "max_length must be a whole number: 'x'"),
        ("org/a,pooling=max", UsageError, "no such pooling: 'max'. There are: cls, mean, legacy"),
        ("no/such/folder", ArtefactError, "folder: there is no such folder. Check the path"),
        ("org/none", ArtefactError, "org/none: there is no such folder, and the hub gave none"),
        ("exported:org/none", ArtefactError, "org/none: is not an exported encoder"),
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
