"""The scripts of recipes/medcoder-all, on tables of a few rows and a tiny model."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

import tiny
from many import WORDS
from medcoder import KG
from medcoder.config import load
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.save import save_encoder
from medcoder.normalize.build import read_calibration
from medcoder.runtime.onnx import OnnxEncoder
from medcoder.train.run import open_run
from medcoder.vectors.seed import open_seed

RECIPE = Path(__file__).parent.parent / "recipes" / "medcoder-all"
CLI = Path(__file__).parent.parent / "src" / "medcoder" / "cli"
NAMES = ("tables", "clean", "styles", "prepare", "vocabulary", "teachers", "mix", "ship")
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
MORE = (
    "concept\tsv\tcs\nHP:2\thuvudvärk / ont i huvudet\tbolest hlavy\nPHR:00000\t\tstejného věku\n"
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
        "data/parallel/more.tsv": MORE,
    }
    files["words.tsv"] = "concept\tterm\nWORD:0\tsiempre\nWORD:0\talways\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def common(monkeypatch):
    """The words that are common in English, in place of the package wordfreq: may be set."""
    words = {"headache": 4.0, "heads": 4.5, "headaching": 2.5, "café": 4.0}
    module = SimpleNamespace(
        top_n_list=lambda language, n: sorted(words, key=words.get, reverse=True)[:n],
        zipf_frequency=lambda word, language: words.get(word, 0.0),
    )
    monkeypatch.setitem(sys.modules, "wordfreq", module)
    return words


class Drawn:
    """Stands for a generator: these numbers between 0 and 1, the last for ever; always item 0."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0) if len(self.numbers) > 1 else self.numbers[0]

    def integers(self, most):
        assert most > 0
        return 0


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
    graph, extra = prepare(script, place, "--strict")
    assert {concept: sorted(texts) for concept, texts in graph.items()} == {
        "HP:1": ["Fever", "Pyrexia", "πυρετός"],
        "HP:2": ["Cephalalgia", "Headache"],
        "HP:3": ["Dizziness", "Vertigo"],
        "HP:4": ["Nausea"],
        "ATC:1": ["fever tablets"],  # of a source that is out: its text is not there
        "PAR:00000": ["Station", "ward"],
        "PAR:00001": ["later", "später"],
        "PHR:00000": ["stejného věku"],
        "WORD:0": ["always", "siempre"],
    }
    ours = [row for row in extra if row[3] != "1"]
    assert ours == [
        ("burning up", "HP:1", "en", "3"),
        ("fever tablets", "ATC:1", "en", "3"),
        ("me estalla la cabeza", "HP:2", "es", "3"),
        ("huvudvärk", "HP:2", "sv", "2"),
        ("ont i huvudet", "HP:2", "sv", "2"),
        ("bolest hlavy", "HP:2", "cs", "2"),
        ("fever", "HP:1", "en", "2"),
        ("high temperature", "HP:1", "en", "2"),
        ("Fieber", "HP:1", "de", "2"),
    ]
    for text, concept, language, _ in extra[len(ours) :]:
        assert language in ("x-typo-en", "x-typo-el", "x-typo-de", "x-typo-cs", "x-note-en")
        assert text not in graph[concept]


def test_the_parallel_vocabulary_is_all_files_each_with_its_own_languages(script, place):
    rows = __import__("tables").read_parallel(place / "data")
    assert rows == [
        ("HP:2", {"sv": ["huvudvärk", "ont i huvudet"], "cs": ["bolest hlavy"]}),
        ("PHR:00000", {"cs": ["stejného věku"]}),
        ("HP:1", {"en": ["fever", "high temperature"], "de": ["Fieber"]}),
        ("PAR:00000", {"en": ["ward"], "de": ["Station"]}),
        ("PAR:00001", {"en": ["later"], "de": ["später"]}),
    ]
    (place / "data/parallel/more.tsv").write_text(MORE + "HP:3\tyrsel\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"more\.tsv, row 4: 2 fields, expected 3"):
        __import__("tables").read_parallel(place / "data")


@pytest.mark.parametrize(
    ("text", "drawn", "made"),
    [
        ("Fracture of left femur without infection", [0.9], "fx of lt femur w/o infect"),
        ("Malignant neoplasm of other site", [0.9], "mal neo of oth site"),  # not "malignant neopl"
        ("Acute disease", [0.1, 0.9], "Acute dis"),  # a word in five stays
        ("Acute disease", [0.9, 0.9, 0.1, 0.5, 0.1], "AC DIS, UNSPECIFIED"),
        ("Withdrawal", [0.9], "unspecified Withdrawal"),  # "with" is a part of a word here
        ("Nausea", [0.7, 0.5], "nausea, unspecified"),
    ],
)
def test_names_are_shortened_as_clerks_do(script, text, drawn, made):
    assert __import__("styles").styled(text, Drawn(*drawn)) == made


def test_short_forms_are_shorter_and_longer_names_are_found_first(script):
    styles = __import__("styles")
    for long, ways in styles.SHORT.items():
        assert styles._WORDS.fullmatch(long)[1] == long
        assert ways and all(len(way) < len(long) for way in ways), long


def test_a_third_of_the_concepts_get_one_english_name_shortened(script, place, monkeypatch):
    rows = [(f"HP:{n}", f"Finding {n}", "en", "hpo") for n in range(300)]
    rows += [(f"HP:{n}", f"Befund {n}", "de", "hpo") for n in range(300)]
    rows += [("HP:500", "Gout", "en", "hpo"), ("HP:501", "Fieber", "de", "hpo")]  # short, German
    schema = ["concept_id", "term", "lang", "source"]
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(place / "merged.parquet")
    module = __import__("prepare")
    monkeypatch.setattr(module, "styled", lambda text, rng: f" {text}  NOS")
    _, extra = prepare(script, place)
    made = [row for row in extra if row[2] == "x-note-en"]
    ours = [row for row in made if row[1].startswith("HP:")]
    assert 75 < len(ours) < 135
    for text, concept, _, weight in ours:
        assert (text, weight) == (f"Finding {concept[3:]} NOS", "1")
    assert max(Counter(row[1] for row in made).values()) == 1
    monkeypatch.setattr(module, "styled", lambda text, rng: text.upper())
    assert list(module.shortened(KG.open(place / "work" / "train.kg"))) == []  # case is no change


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
    texts.append("Huvudvark")
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
        assert (place / "data/parallel/more.tsv").read_text(encoding="utf-8") == (
            MORE.replace("huvudvärk / ", "")
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


def test_new_pieces_leave_common_english_words_as_they_were(script, common):
    sparing = __import__("vocabulary").sparing
    # Of "headaching" it is the longer piece at first, and then the shorter one.
    cutting = ["headac", "headachi", "##eads", "heads"]
    harmless = ["headaches", "##aching", "πυρ", "café"]
    old = tiny.word_pieces(PIECES, max_length=2)
    assert old.encode("headaching", add_special_tokens=False).tokens == ["head", "##a"]
    assert sparing([*cutting, *harmless], old) == ["##eads", "headaches", "πυρ", "café"]
    common.clear()
    assert sparing([*cutting, *harmless], old) == [*cutting, *harmless]


class Meaning:
    """Stands for USE: what is not here means nothing that another word means."""

    English = ("heart", "disease", "cold", "fever", "attack", "diabetes", "head")

    def __init__(self, folder=None):
        self.folder = folder

    def encode(self, texts):
        vectors = np.zeros((len(texts), 8), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            if text in self.English:
                vector[self.English.index(text)] = 1
            elif text == "fieber":  # fever, and a little of cold
                vector[3], vector[2] = 0.8, 0.6
            elif text == "kalender":  # a little of head
                vector[6], vector[7] = 0.4, 0.917
            else:
                assert text != "type", "of no use: rare"
                vector[7] = 1
        return vectors


def as_fever(old):
    """What "fieber" begins as: e**16 parts of fever and e**12 of cold, as long as words are."""
    words = {word: old[PIECES.index(word)] for word in Meaning.English}
    row = np.exp(16) * words["fever"] + np.exp(12) * words["cold"]
    usual = torch.stack([word.norm() for word in words.values()]).mean()
    return row * usual / row.norm()


def test_a_new_word_begins_as_the_english_words_nearest_to_it(script, place, common):
    common |= dict.fromkeys(Meaning.English, 4.0)
    start = minilm(place)
    model, tokenizer = AutoModel.from_pretrained(start), AutoTokenizer.from_pretrained(start)
    module = __import__("vocabulary")
    old = model.embeddings.word_embeddings.weight.data
    found = module.translated(model, tokenizer, ["##ieber", "kalender", "fieber"], Meaning())
    assert found.places == [2]
    assert torch.allclose(found.rows, as_fever(old)[None], atol=1e-4)
    none = module.translated(model, tokenizer, ["kalender"], Meaning())
    assert none.places == [] and none.rows.shape == (0, 32)


def test_with_use_the_model_begins_with_translated_words(script, place, common, monkeypatch):
    common |= dict.fromkeys(Meaning.English, 4.0)
    prepare(script, place)
    start = minilm(place)
    monkeypatch.setitem(sys.modules, "use", SimpleNamespace(Use=Meaning))
    module = __import__("vocabulary")
    monkeypatch.setattr(module, "train", lambda texts: ["kalender", "fieber"])
    script("vocabulary", place / "work", "--minilm", start, "--use", place, "--out", place / "init")
    old = AutoModel.from_pretrained(start).embeddings.word_embeddings.weight
    new = AutoModel.from_pretrained(place / "init").embeddings.word_embeddings.weight
    assert torch.equal(new[: len(old)], old) and len(new) == len(old) + 2
    letters = [PIECES.index(piece) for piece in ("k", *(f"##{letter}" for letter in "alender"))]
    assert torch.allclose(new[-2], old[letters].mean(0), atol=1e-6)
    assert torch.allclose(new[-1], as_fever(old), atol=1e-4)


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
    _, extra = prepare(script, place)
    with (place / "work" / "extra.tsv").open("a", encoding="utf-8") as file:
        file.write("fvr nos\tHP:1\tx-note-en\t1\n")
    module = __import__("vocabulary")
    texts = module.sample(place / "work")
    assert texts.count("Fever") == 4 and texts.count("burning up") == 3  # few terms are repeated
    slips = {row[0] for row in extra if row[3] == "1"}
    assert slips and not (slips | {"fvr nos"}) & set(texts)
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


def test_what_ships_is_the_encoder_its_vectors_and_a_calibration(
    script, place, many_kg, monkeypatch
):
    pieces = list(dict.fromkeys([*PIECES, *WORDS]))
    tokens = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), PIECES, strict=False))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny.word_pieces(pieces), **tokens)
    model = TransformerEncoder(tiny.bert(vocab_size=len(pieces)), tokenizer, pooling="mean")
    save_encoder(model, place / "mixed")
    monkeypatch.setattr(__import__("ship"), "default_kg", lambda: many_kg.path)
    options = ["--name", "small", "--released", "2026-11-15", "--out", place / "models"]
    for _ in range(2):  # the second time, files are replaced
        script("ship", place / "mixed", *options)
        assert sorted(path.name for path in (place / "models").iterdir()) == [
            "small",
            "small.open.calibration.json",
            "small.open.vectors.safetensors",
        ]
    encoder = OnnxEncoder.load(place / "models" / "small")
    meta = json.loads((place / "models" / "small" / "meta.json").read_text())
    assert (meta["name"], meta["released"], meta["weights"]) == ("small", "2026-11-15", "int8")
    vectors = open_seed(place / "models" / "small.open.vectors.safetensors")
    assert vectors.encoder == encoder.fingerprint
    _, stages = read_calibration(place / "models" / "small.open.calibration.json")
    assert "dense+ngram" in stages


FAKE = """#!/bin/sh
if [ "$1" = -c ]; then echo "/packages"; exit; fi
for part in "$(basename "$0")" "$@"; do printf '%s\\t' "$part"; done >> "$CALLS"
echo >> "$CALLS"
"""


def test_one_command_runs_all_steps_with_options_that_they_have(script, tmp_path):
    for name in ("python", "medcoder"):
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(FAKE)
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    make, places = (
        RECIPE / "make.sh",
        [tmp_path / name for name in ("a terms", "a work", "a models")],
    )
    environment = {**os.environ, "PATH": path, "CALLS": str(tmp_path / "calls")}
    bare = subprocess.run(["bash", make], env=environment, capture_output=True, check=False)
    assert bare.returncode == 2 and b"usage" in bare.stderr
    subprocess.run(["bash", make, *places], env=environment, check=True)
    calls = [line.split("\t")[:-1] for line in (tmp_path / "calls").read_text().splitlines()]
    order = ["words.py", "prepare.py", "vocabulary.py", "teachers.py", "train", "mix.py", "ship.py"]
    assert [Path(call[1]).name for call in calls] == order
    assert calls[1][2] == str(places[0]) and calls[-1][-1] == str(places[2])
    for program, *call in calls:
        source = RECIPE / call[0] if program == "python" else CLI / "train.py"
        text = source.read_text(encoding="utf-8")
        for option in call:
            if option.startswith("--"):
                known = f'"{option}"' in text or f"    {option[2:]}: Annotated" in text
                assert known, (source.name, option)
    teachers = __import__("teachers")
    told = [
        spec for before, spec in zip(calls[4], calls[4][1:], strict=False) if before == "--teacher"
    ]
    assert told == [
        f"{places[1] / name}.npy,weight={teachers.WEIGHTS[name]},languages={'+'.join(spoken)}"
        for name, spoken in (("minilm", teachers.MINILM), ("use", teachers.USE))
    ]
