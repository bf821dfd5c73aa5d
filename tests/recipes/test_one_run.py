"""recipes/medcoder as a whole, on a graph of a few concepts and a model of two layers."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from medcoder import KG
from medcoder.model.encoder import TransformerEncoder
from support import tiny

RECIPE = Path(__file__).parents[2] / "recipes" / "medcoder"
MODULES = (
    "data", "augment", "styles", "related", "tables", "vocabulary", "teachers", "make", "mix",
    "measure",
)  # fmt: skip
TERMS = [
    ("HP:1", "fever", "en", "hpo", True),
    ("HP:1", "heart fever", "en", "hpo", False),
    ("HP:1", "fieber", "de", "hpo", True),
    ("HP:2", "headache", "en", "mondo", True),
    ("HP:2", "kopfweh", "de", "mondo", True),
    ("HP:3", "heart attack", "en", "symp", True),
    ("HP:3", "herzanfall", "de", "symp", False),
    ("HP:4", "cold", "en", "symp", True),
    ("HP:5", "Cold", "en", "mondo", True),  # the same name: one concept with it
    ("HP:5", "common cold", "en", "mondo", False),
    ("HP:6", "diabetes", "en", "hpo", True),
    ("HP:6", "diabetes disease", "en", "hpo", False),
    ("ATC:1", "pills", "en", "atc", True),  # of a source that is out
    *[
        (f"HP:{10 + number}", f"type {letter} {kind}", "en", "hpo", kind == "disease")
        for number, letter in enumerate("abcdefgh")
        for kind in ("disease", "diseases")
    ],
]
RELATIONS = [("HP:1", "is_a", "HP:6"), ("HP:2", "is_a", "HP:6"), ("HP:4", "is_a", "HP:1")]
RELATIONS += [(f"HP:{number}", "is_a", "HP:6") for number in range(10, 18)]
TABLES = {
    "own/lay/en.tsv": (
        "concept\tname\tphrase\nHP:1\tfever\tburning up\nHP:2\theadache\thead aches\n"
    ),
    "own/lay/de.tsv": "concept\tname\tphrase\nHP:1\tfever\tso heiss\nHP:2\theadache\tasked query\n",
    "own/notes/de.tsv": "concept\tname\tphrase\nHP:4\tcold\terk\n",
    "own/parallel/words.tsv": (
        "concept\ten\tde\nHP:3\t\tinfarkt\nPAR:1\tbag\ttasche\nPAR:2\tasked query\tfrage\n"
    ),
    "own/ward/en.tsv": (
        "string\tkind\tcategories\tattributes\nMI\tacronym\tI21\t\nno MI\tacronym\tI21\tnegated\n"
    ),
    "own/related/signs.tsv": (
        "term\tnames\tkinds\tclosest\tconditions\tparts\tmeasures\n"
        "fever\thot\t\tchills | cold\tflu\t\t\nheadache\thead pain\t\tmigraine\t\t\t\n"
    ),
    "bench/some/queries.tsv": "query\tlang\tgold\tsplit\nAsked  Query\tde\tHP:2\ttest\n",
    "bench/similarity/pairs.tsv": "term1\tterm2\tscore\ncold\tfever\t1\n",
}
SENTENCES = [
    ("de", "I have a fever.", "Ich habe Fieber."),
    ("de", "My head aches.", "Mein Kopf tut weh."),
    ("xx", "It is cold.", "???"),
    ("de", "Asked query", "Eine Frage"),
    *[("de", f"I have {letter}.", f"Ich habe {letter}.") for letter in "abcdefgh"],
]
SETTINGS = """
[data]
seed = 5
held = 0.0
balance = 0.35
most_more = 3.0
misspelt = 1.0
shortened = 1.0
qualified = 1
[data.weights]
lay = 5
ward = 5
parallel = 3
[data.sentences]
files = ["some"]
languages = ["de"]
shares = {}
power = 0.5
english = 0.3
[vocabulary]
new_pieces = 0
new_languages = []
rounds = 3
fewest = 0.5
[teachers]
weight = 2.0
languages = ["en"]
[model]
share = 0.5
"""


@pytest.fixture
def recipe(monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPE))
    for name in MODULES:
        sys.modules.pop(name, None)
    yield __import__
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def place(tmp_path):
    terms = ["concept_id", "term", "lang", "source", "is_preferred"]
    pl.DataFrame(TERMS, schema=terms, orient="row").write_parquet(tmp_path / "terms.parquet")
    pl.DataFrame(RELATIONS, schema=["head", "relation", "tail"], orient="row").write_parquet(
        tmp_path / "relations.parquet"
    )
    pl.DataFrame({"concept_id": ["HP:3"], "xref": ["ICD10CM:I21"]}).write_parquet(
        tmp_path / "xrefs.parquet"
    )
    for name, text in TABLES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "sentences").mkdir()
    pl.DataFrame(SENTENCES, schema=["lang", "en", "text"], orient="row").write_parquet(
        tmp_path / "sentences" / "some.parquet"
    )
    tiny.bert().save_pretrained(tmp_path / "start")
    _tokenizer(tiny.VOCABULARY).save_pretrained(tmp_path / "start")
    _tokenizer([*tiny.VOCABULARY, "fieber", "kopfweh", "."]).save_pretrained(tmp_path / "follow")
    train = (RECIPE / "recipe.toml").read_text(encoding="utf-8")
    train = train[train.index("[train]") :].replace("total = 6500", "total = 8")
    for setting, small in {
        "k": 4, "m": 2, "pairs": 8, "warmup": 2, "refresh": 4, "log_every": 4, "most": 6,
    }.items():  # fmt: skip
        train = _with(train, setting, small)
    train = train.replace("count = 1536", "count = 6").replace("count = 384", "count = 4")
    (tmp_path / "recipe.toml").write_text(SETTINGS + train, encoding="utf-8")
    return tmp_path


def _with(text, setting, value):
    lines = [
        f"{setting} = {value}" if line.startswith(f"{setting} =") else line
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def _tokenizer(pieces):
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), pieces[:4], strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=tiny.word_pieces(list(dict.fromkeys(pieces))), **names
    )


def arguments(place, what):
    return [
        what, str(place / "work"), "--start", str(place / "start"),
        "--terms", str(place / "terms.parquet"), "--relations", str(place / "relations.parquet"),
        "--xrefs", str(place / "xrefs.parquet"), "--bench", str(place / "bench"),
        "--sentences", str(place / "sentences"), "--own", str(place / "own"),
        "--follow", str(place / "follow" / "tokenizer.json"),
        "--recipe", str(place / "recipe.toml"),
    ]  # fmt: skip


def rows(file):
    return [tuple(line.split("\t")) for line in file.read_text(encoding="utf-8").splitlines()[1:]]


def test_the_whole_recipe_makes_a_model(recipe, place, capsys):
    make = recipe("make")
    make.main(arguments(place, "all"))
    work = place / "work"
    encoder = TransformerEncoder.load(work / "run" / "model")
    assert len(encoder.tokenizer) == len(list(dict.fromkeys(tiny.VOCABULARY))) + 3
    lines = [json.loads(line) for line in (work / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {"term", "relation", "teachers", "names", "sentences", "related"} <= lines[-1].keys()
    assert lines[-1]["step"] == 8
    made = json.loads((work / "run" / "made.json").read_text())
    assert len(made["commit"]) == 40 and made["hashes"].keys() == {"data", "vocabulary"}
    start, trained, mixed = (
        TransformerEncoder.load(folder).model.encoder.layer[0].output.dense.weight
        for folder in (place / "start", work / "run" / "model", work / "run-mixed")
    )
    assert not torch.equal(start, trained)
    torch.testing.assert_close(mixed, (start + trained) / 2)
    (place / "phrases").mkdir()
    phrases = "concept\tname\tlay\tchart\nHP:1\tfever\thot head\tFever\nHP:5\tcold\t\tcold c\n"
    (place / "phrases" / "en.tsv").write_text(phrases)
    measure = recipe("measure")
    capsys.readouterr()
    model = str(work / "run" / "model")
    measure.main(
        [
            str(work),
            model,
            f"{model}@0.5",
            "--phrases",
            str(place / "phrases"),
            "--held",
            "--json",
            str(place / "scores.json"),
        ]
    )
    assert capsys.readouterr().out.startswith("2 of 3: of a concept with a name")
    scores = json.loads((place / "scores.json").read_text())
    assert scores.keys() == {model, f"{model}@0.5"}
    assert scores[model]["lay en"][2] == scores[model]["chart all"][2] == 1


def test_what_training_reads(recipe, place):
    make = recipe("make")
    make.main(arguments(place, "prepare"))
    data = place / "work" / "data"
    kg = KG.open(data / "train.kg")
    assert "ATC:1" not in kg and "HP:5" not in kg
    assert {term.text for term in kg.terms_of("HP:4")} == {"cold", "Cold", "common cold"}
    assert rows(data / "joined.tsv") == [("HP:5", "HP:4")]
    extra = rows(data / "extra.tsv")
    by_text = {row[0]: row for row in extra}
    assert by_text["burning up"] == ("burning up", "HP:1", "en", "5")
    assert by_text["infarkt"][1:3] == ("HP:3", "de")
    assert by_text["MI"] == ("MI", "HP:3", "en", "5") and "no MI" not in by_text
    assert by_text["tasche"][1] == "PAR:1"
    assert "asked query" not in by_text  # a bench asks for it
    assert {term.text for term in kg.terms_of("PAR:2")} == {"frage"}
    assert {"x-typo-en", "x-note-en"} <= {row[2] for row in extra}
    names = rows(data / "names.tsv")
    assert ("fever", "HP:1") in names and ("cold", "HP:4") in names
    said = rows(data / "sentences.tsv")
    assert {("Ich habe Fieber.", "I have a fever."), ("I have a fever.",) * 2} <= {
        row[:2] for row in said
    }
    assert not any("sked query" in text for row in said for text in row)
    shares = np.array([float(share) for *_, share in said])
    own = np.array([text == other for text, other, _ in said])
    assert shares[own].sum() / shares.sum() == pytest.approx(0.3, abs=1e-3)
    pairs = {row[:2] for row in rows(data / "pairs.tsv")}
    assert ("fever", "chills") in pairs and ("fever", "cold") not in pairs  # a similarity set asks
    assert not kg.contains(kg.index("HP:4"), 0, kg.index("HP:1"))
    assert kg.contains(kg.index("HP:1"), 0, kg.index("HP:6"))


def test_a_stage_is_made_once(recipe, place, capsys):
    make = recipe("make")
    make.main(arguments(place, "prepare"))
    assert "data ..." in capsys.readouterr().out
    make.main(arguments(place, "prepare"))
    assert "..." not in capsys.readouterr().out
    (place / "own" / "lay" / "en.tsv").write_text("concept\tname\tphrase\nHP:1\tfever\thot\n")
    make.main(arguments(place, "prepare"))
    said = capsys.readouterr().out
    assert "data ..." in said and "vocabulary ..." in said


def test_a_new_piece_begins_as_the_english_that_it_is_aligned_with(recipe, place):
    make = recipe("make")
    make.main(arguments(place, "prepare"))
    recipe("vocabulary").widen(place / "start", place / "work" / "vocabulary", place / "wide")
    encoder = TransformerEncoder.load(place / "wide")
    found = encoder.model.embeddings.word_embeddings.weight.detach()
    old = TransformerEncoder.load(place / "start").model.embeddings.word_embeddings.weight.detach()
    vocab = encoder.tokenizer.get_vocab()
    known = len(dict.fromkeys(tiny.VOCABULARY))
    assert torch.equal(found[:known], old[:known])
    cosine = torch.cosine_similarity(found[vocab["fieber"]], old[:known], dim=1)
    assert int(cosine.argmax()) == vocab["fever"]
