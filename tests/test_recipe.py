"""The scripts of recipes/medcoder-all, on tables of a few rows and a tiny model."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

import tiny
from medcoder import KG
from medcoder.config import load
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.save import save_encoder
from medcoder.train.run import open_run

RECIPE = Path(__file__).parent.parent / "recipes" / "medcoder-all"
NAMES = ("tables", "clean", "prepare", "vocabulary", "teachers", "mix")
PIECES = list(dict.fromkeys(tiny.VOCABULARY))
TERMS = [
    ("HP:1", "Fever", "en", "hpo"),
    ("HP:1", "Pyrexia", "en", "hpo"),
    ("HP:1", "πυρετός", "el", "wordnet_omw"),
    ("HP:2", "Headache", "en", "mondo"),
    ("HP:2", "Cephalalgia", "en", "mondo"),
    ("HP:3", "Vertigo", "en", "symp"),
    ("HP:3", "Dizziness", "en", "symp"),
    ("HP:4", "Nausea", "en", "symp"),
    ("ATC:1", "Antipyretics", "en", "atc"),
]
LAY = "concept\tname\tphrase\nHP:1\tFever\tburning up\nATC:1\tAntipyretics\tfever tablets\n"
SPANISH = "concept\tname\tphrase\nHP:2\tHeadache\tme estalla la cabeza\n"
PARALLEL = (
    "concept\ten\tde\tes\tfr\tnl\tit\tpt\n"
    "HP:1\tfever / high temperature\tFieber\t\t\t\t\t\n"
    "PAR:00000\tward\tStation\t\t\t\t\t\n"
    "PAR:00001\tlater\tspäter\t\t\t\t\t\n"
)


@pytest.fixture
def script(monkeypatch):
    """Runs a script of the recipe with these arguments; gives its module."""
    monkeypatch.syspath_prepend(str(RECIPE))

    def run(name, *arguments):
        module = __import__(name)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        module.main()
        return module

    yield run
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def place(tmp_path):
    """A folder with tables as the recipe takes them."""
    schema = ["concept_id", "term", "lang", "source"]
    pl.DataFrame(TERMS, schema=schema, orient="row").write_parquet(tmp_path / "merged.parquet")
    files = {
        "data/lay/en.tsv": LAY,
        "data/lay/es.tsv": SPANISH,
        "data/parallel/words.tsv": PARALLEL,
    }
    files["words.tsv"] = "concept\tterm\nWORD:0\tsiempre\nWORD:0\talways\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def prepare(script, place, *flags):
    options = ["--words", place / "words.tsv", "--data", place / "data", "--out", place / "work"]
    script("prepare", place / "merged.parquet", *options, *flags)
    kg = KG.open(place / "work" / "train.kg")
    lines = (place / "work" / "extra.tsv").read_text(encoding="utf-8").splitlines()
    extra = [tuple(line.split("\t")) for line in lines[1:]]
    return {concept: [term.text for term in kg.terms_of(concept)] for concept in kg}, extra


def minilm(place):
    """A tiny model with the vocabulary below."""
    tiny.bert(vocab_size=len(PIECES)).save_pretrained(place / "minilm")
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), PIECES[:4], strict=True))
    words = tiny.word_pieces(PIECES)
    PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained(place / "minilm")
    return place / "minilm"


def test_prepare_takes_the_sources_that_are_in_and_what_is_ours(script, place):
    graph, extra = prepare(script, place, "--strict", "--parallel-rows", "2")
    assert {concept: sorted(texts) for concept, texts in graph.items()} == {
        "HP:1": ["Fever", "Pyrexia", "πυρετός"],
        "HP:2": ["Cephalalgia", "Headache"],
        "HP:3": ["Dizziness", "Vertigo"],
        "HP:4": ["Nausea"],
        "ATC:1": ["fever tablets"],  # of a source that is out: its text is not there
        "PAR:00000": ["Station", "ward"],
        "WORD:0": ["always", "siempre"],
    }
    ours = [row for row in extra if row[3] != "1"]
    assert ours == [
        ("burning up", "HP:1", "en", "3"),
        ("fever tablets", "ATC:1", "en", "3"),
        ("me estalla la cabeza", "HP:2", "es", "3"),
        ("fever", "HP:1", "en", "2"),
        ("high temperature", "HP:1", "en", "2"),
        ("Fieber", "HP:1", "de", "2"),
    ]
    for text, concept, language, _ in extra[len(ours) :]:
        assert language in ("x-typo-en", "x-typo-el", "x-typo-de")
        assert text not in graph[concept]


def test_prepare_takes_all_sources_when_told_and_refuses_unknown_ones(script, place):
    graph, _ = prepare(script, place, "--all")
    assert graph["ATC:1"] == ["Antipyretics"]
    assert sorted(graph["PAR:00001"]) == ["later", "später"]
    odd = pl.read_parquet(place / "merged.parquet").with_columns(source=pl.lit("secret"))
    odd.write_parquet(place / "merged.parquet")
    with pytest.raises(SystemExit, match=r"does not list: secret\. Add them"):
        prepare(script, place, "--all")


def test_clean_takes_out_queries_and_phrases_of_two_concepts(script, place):
    phrases = ["Burning-up!", "splitting head", "Héad, of lead"]
    more = "".join(f"HP:2\tHeadache\t{phrase}\n" for phrase in phrases)
    (place / "data/lay/en.tsv").write_text(LAY + more, encoding="utf-8")
    queries = place / "queries.tsv"
    texts = ["query", "FEVER  tablets", "head of lead", "fieber", "ward", "station", '"']
    queries.write_text("".join(f"{text}\ten\n" for text in texts), encoding="utf-8")
    for _ in range(2):  # the second time there is nothing left to do
        script("clean", place / "data", "--queries", queries)
        assert (place / "data/lay/en.tsv").read_text(encoding="utf-8") == (
            "concept\tname\tphrase\nHP:1\tFever\tburning up\nHP:2\tHeadache\tsplitting head\n"
        )
        assert (place / "data/lay/es.tsv").read_text(encoding="utf-8") == SPANISH
        assert (place / "data/parallel/words.tsv").read_text(encoding="utf-8") == (
            "concept\ten\tde\tes\tfr\tnl\tit\tpt\n"
            "HP:1\tfever / high temperature\t\t\t\t\t\t\n"
            "PAR:00001\tlater\tspäter\t\t\t\t\t\n"
        )


def test_tables_with_a_field_too_few_are_an_error_with_its_row(script, place):
    (place / "data/lay/es.tsv").write_text(SPANISH + "HP:2\tHeadache\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"es\.tsv, row 3: 2 fields, expected 3"):
        prepare(script, place)


def test_new_pieces_are_long_or_not_ascii_and_begin_as_means(script, place, monkeypatch):
    prepare(script, place)
    start = minilm(place)
    options = [place / "work", "--minilm", start, "--out"]
    pieces = ["[PAD]", "##ache", "feve", "##yrexia", "##exia", "πυρ", "##ü", "headaches"]
    module = __import__("vocabulary")
    monkeypatch.setattr(module, "train", lambda texts: pieces)
    script("vocabulary", *options, place / "init")
    tokenizer = AutoTokenizer.from_pretrained(place / "init")
    added = ["##yrexia", "πυρ", "##ü", "headaches"]
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == [*PIECES, *added]
    assert tokenizer.tokenize("pyrexia headaches heads") == [
        "p",
        "##yrexia",
        *added[3:],
        "head",
        "##s",
    ]
    old = AutoModel.from_pretrained(start).embeddings.word_embeddings.weight
    new = AutoModel.from_pretrained(place / "init").embeddings.word_embeddings.weight
    assert torch.equal(new[: len(old)], old) and len(new) == len(old) + 4
    cut = [PIECES.index(piece) for piece in ("head", "##ache", "##s")]
    assert torch.allclose(new[-1], old[cut].mean(0))
    assert not torch.allclose(new[-3], old.mean(0))  # the model knows no Greek: drawn

    monkeypatch.setattr(module, "train", lambda texts: pytest.fail("trained again"))
    like = place / "init" / "tokenizer.json"
    script("vocabulary", *options, place / "again", "--pieces-of", like)
    assert json.loads((place / "again" / "tokenizer.json").read_text()) == json.loads(
        like.read_text()
    )


def test_mixed_weights_are_a_fifth_old_but_for_pieces_without_a_past(script, place, monkeypatch):
    prepare(script, place)
    start = minilm(place)
    monkeypatch.setattr(__import__("vocabulary"), "train", lambda texts: ["headaches", "πυρ"])
    script("vocabulary", place / "work", "--minilm", start, "--out", place / "init")
    before = TransformerEncoder.load(place / "init", pooling="mean")
    trained = TransformerEncoder.load(place / "init", pooling="mean")
    for weight in trained.model.parameters():
        weight.data += 1
    save_encoder(trained, place / "trained")
    options = ["--start", place / "init", "--minilm", start, "--out", place / "mixed"]
    script("mix", place / "trained", *options)
    mixed = TransformerEncoder.load(place / "mixed")
    assert (mixed.pooling, mixed.max_length) == ("mean", 32)
    gained = {
        name: weight - before.model.state_dict()[name]
        for name, weight in mixed.model.state_dict().items()
    }
    pieces = gained.pop("embeddings.word_embeddings.weight")
    assert torch.allclose(pieces[-1], torch.tensor(1.0))  # Greek, of which it knew no part
    for gain in (pieces[:-1], *gained.values()):
        assert torch.allclose(gain, torch.tensor(0.8), atol=1e-5)


def test_pieces_are_trained_on_terms_and_lay_phrases_but_not_on_slips(script, place):
    prepare(script, place)
    module = __import__("vocabulary")
    texts = module.sample(place / "work")
    assert texts.count("Fever") == 4 and texts.count("burning up") == 3  # few terms are repeated
    slips = {row[0] for row in prepare(script, place)[1] if row[3] == "1"}
    assert slips and not slips & set(texts)
    assert "burning" in module.train(texts * 2)


def test_teachers_are_asked_about_their_languages_and_training_takes_them(script, place):
    _, extra = prepare(script, place)
    start = minilm(place)
    module = script("teachers", place / "work", "--minilm", start)
    texts, languages = module.all_terms(place / "work")
    assert texts[-len(extra) :] == [row[0] for row in extra]
    vectors = np.load(place / "work" / "minilm.npy")
    asked = [tag in ("en", "x-typo-en") for tag in languages]
    assert (np.abs(vectors).sum(1) > 0).tolist() == asked and 0 < sum(asked) < len(asked)
    assert "x-typo-en" in languages
    units = module._minilm(start)(texts) * np.array(asked)[:, None]
    assert np.allclose(vectors, units, atol=1e-3)

    small = ["sampler.pairs=3", "schedule.total=2", "schedule.warmup=1", "log_every=1"]
    config = load(RECIPE / "config.toml", [*small, 'sampler.languages=["en", "mul"]'])
    spec = f"{place / 'work' / 'minilm.npy'},weight=30,languages={'+'.join(module.MINILM)}"
    run = open_run(
        place / "work" / "train.kg",
        str(start),
        place / "run",
        config,
        extra=place / "work" / "extra.tsv",
        teachers=[spec],
    )
    assert str(run.teachers[0]) == f"weight 30 for {sum(asked)} terms"
    assert run.train(place / "run") == place / "run" / "model"
    lines = [
        json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().split("\n")[:2]
    ]
    assert [line["learning_rate"] for line in lines] == [2.5e-4, 2.5e-4]
    assert all(line["relation"] == 0 for line in lines)
