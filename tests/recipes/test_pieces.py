"""Other pieces, and terms that learn to find English names: from respell.py to held.py."""

import json
import math
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from tokenizers import normalizers

from medcoder.model.encoder import TransformerEncoder, save_encoder
from support import tiny

RECIPE = Path(__file__).parents[2] / "recipes" / "medcoder-all"
NAMES = (
    "tables",
    "styles",
    "prepare",
    "respell",
    "recut",
    "ask",
    "align",
    "tails",
    "relations",
    "held",
    "vocabulary",
)
TERMS = [
    ("C1", "headache", "en", "x"),
    ("C1", "head aches", "en", "x"),
    ("C2", "fever", "en", "x"),
    ("C3", "heart attack", "en", "x"),
    ("C4", "Fever", "en", "x"),  # another concept of that name
    ("C5", "cold", "en", "x"),
    *[("C1", text, tag, "x") for text, tag in (("đau đầu", "vi"), ("頭痛", "ja"), ("頭痛", "zh"))],
    *[("C2", text, tag, "x") for text, tag in (("発熱", "ja"), ("发烧", "zh"), ("sốt", "vi"))],
]
EXTRA = [
    ("頭がズキズキ痛い", "C1", "ja", "5"),
    ("頭痛がする", "C1", "ja", "5"),
    ("đau đầu dữ dội", "C1", "vi", "5"),
    ("bị sốt cao", "C2", "vi", "5"),
    ("febre alta", "C2", "pt", "3"),
    ("fevr", "C2", "x-typo-en", "1"),
    ("ferbe", "C2", "x-typo-pt", "1"),
    ("FEVER DIS", "C2", "x-note-en", "1"),
    ("lost", "C9", "vi", "5"),  # of a concept without an English name
]
BASE = list(dict.fromkeys(tiny.VOCABULARY))
OLD = [
    *BASE,
    *"đ頭痛発熱发烧症か",
    "[unused7]",
    "##か",
    "đau",
    "かす",
    "dau",
    "nowhere",
    "##ü",
]
OLD += [f"[unused{number}]" for number in range(8, 90)]


@pytest.fixture
def recipe(monkeypatch):
    """The modules of the recipe, by their names, with few common words in place of wordfreq."""
    monkeypatch.syspath_prepend(str(RECIPE))
    few = SimpleNamespace(
        top_n_list=lambda language, n: ["head", "colds"], zipf_frequency=lambda word, tag: 3.0
    )
    monkeypatch.setitem(sys.modules, "wordfreq", few)
    yield __import__
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def work(tmp_path):
    """What prepare.py writes, and a model to start from."""
    schema = ["concept_id", "term", "lang", "source"]
    pl.DataFrame(TERMS, schema=schema, orient="row").write_parquet(tmp_path / "terms.parquet")
    lines = ["\t".join(row) + "\n" for row in [("term", "concept", "language", "weight"), *EXTRA]]
    (tmp_path / "extra.tsv").write_text("".join(lines), encoding="utf-8")
    encoder = TransformerEncoder(
        tiny.bert(vocab_size=len(OLD)), tiny.tokenizer(OLD), pooling="mean", max_length=16
    )
    save_encoder(encoder, tmp_path / "start")
    return tmp_path


@pytest.fixture
def respelt(recipe, work, monkeypatch):
    """The folder of a model that respell.py has made."""
    module = recipe("respell")
    monkeypatch.setattr(module, "MINILM", len(BASE))
    options = [work / "start", "--work", work, "--out", work / "respelt"]
    monkeypatch.setattr(sys, "argv", ["respell.py", *map(str, options)])
    module.main()
    return work / "respelt"


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("Viêm phổi", "viem phổi"),  # a lone circumflex is also French
        ("ĐAU ĐẦU", "đau đầu"),
        ("ậ ặ ở ữ ọ ỷ ắ ằ", "ậ ặ ở ữ ọ ỷ ắ ằ"),
        ("Même ñandú Händel čtyři ő Å ã ç", "meme nandu handel ctyri o a a c"),
        ("ガンの検査", " ⺀ガンの検査 "),
        ("CT画像x", "ct ⺀画像 x"),
        ("ぱ・ば", " ⺀ぱ ・ ⺀ば "),
        ("血鬱血", " ⺀血  鬱  ⺀血 "),  # one that is not known stands alone
        ("CT鬱x", "ct 鬱 x"),
        ("Ṣalāḥ", "salah"),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_spelling_keeps_what_tells_words_apart(recipe, text, spelt, form):
    normalizer = recipe("respell").normalizer("検査画像血カンのはハ\u3099\u309a")
    found = normalizer.normalize_str(unicodedata.normalize(form, text))
    assert unicodedata.normalize("NFC", found) == spelt


@pytest.mark.parametrize(
    "text",
    [
        "Ελλάδα ᾧ ἀρχή", "İĞŞ ıçö", "고혈압", "ёлка йод", "ปวดหัวที่", "צָהֳרַיִם", "ضَغْط", "cœur naïve",
        "Ångström größer", "हृदय", "tab\tnew\nline \x00x",
    ],
)  # fmt: skip
def test_other_languages_are_spelt_as_bert_does(recipe, text):
    as_before = normalizers.BertNormalizer(lowercase=True)
    assert recipe("respell").normalizer("血").normalize_str(text) == as_before.normalize_str(text)


def test_new_pieces_take_the_place_of_those_that_nobody_needs(respelt, work):
    before, after = (TransformerEncoder.load(work / name) for name in ("start", "respelt"))
    pieces = after.tokenizer.convert_ids_to_tokens(range(len(OLD)))
    assert None not in pieces and len(set(pieces)) == len(pieces) == len(OLD)
    assert pieces[: len(BASE)] == list(BASE)
    place = {piece: at for at, piece in enumerate(OLD)}
    assert pieces[place["頭"]] == "##頭" and pieces[place["đau"]] == "đau"
    assert pieces[place["##ü"]] == "##ü"  # a single letter stays: words with it would be unknown
    for gone in ("[unused7]", "nowhere", "dau"):
        assert gone not in pieces
    assert "⺀" in pieces
    # A new piece is the mean of those that it was cut into; the rest has not changed.
    old, new = (one.model.embeddings.word_embeddings.weight for one in (before, after))
    same = [at for at, piece in enumerate(OLD) if pieces[at] == piece]
    assert torch.equal(old[same], new[same]) and len(same) < len(OLD)
    assert torch.equal(new[place["頭"]], old[place["頭"]])
    both = [place["頭"], place["痛"]]
    assert torch.allclose(new[pieces.index("##頭痛")], old[both].mean(0))
    for texts in (
        ["heart attack", "Headaches, fever"],
        [text for _, text, tag, _ in TERMS if tag == "en"],
    ):
        assert np.array_equal(before.encode(texts), after.encode(texts))


def test_a_run_of_characters_is_a_word(respelt):
    tokenizer = TransformerEncoder.load(respelt).tokenizer
    assert tokenizer.tokenize("頭痛")[0] == "⺀"
    assert "".join(tokenizer.tokenize("頭痛")).replace("##", "") == "⺀頭痛"
    assert tokenizer.tokenize("đau đầu") != tokenizer.tokenize("đau đau")
    assert tokenizer.tokenize("") == []
    # Characters that no piece has take nothing with them.
    assert tokenizer.tokenize("fever鬱頭痛")[:3] == ["fever", "[UNK]", "⺀"]


def test_a_tokenizer_of_bert_spells_anew_too(recipe, work, monkeypatch):
    config = work / "start" / "tokenizer_config.json"
    about = json.loads(config.read_text()) | {"tokenizer_class": "BertTokenizer"}
    config.write_text(json.dumps(about))
    module = recipe("respell")
    monkeypatch.setattr(module, "MINILM", len(BASE))
    options = [work / "start", "--work", work, "--out", work / "respelt"]
    monkeypatch.setattr(sys, "argv", ["respell.py", *map(str, options)])
    module.main()
    tokenizer = TransformerEncoder.load(work / "respelt").tokenizer
    assert tokenizer.tokenize("頭痛")[0] == "⺀"


def test_pieces_of_another_model_can_be_taken(recipe, respelt, work, monkeypatch):
    module = recipe("respell")
    options = [work / "start", "--work", work, "--out", work / "again", "--pieces-of"]
    options.append(respelt / "tokenizer.json")
    monkeypatch.setattr(sys, "argv", ["respell.py", *map(str, options)])
    monkeypatch.setattr(module, "train", lambda *_: pytest.fail("trained again"))
    module.main()
    one, other = (TransformerEncoder.load(folder) for folder in (respelt, work / "again"))
    texts = ["đau đầu", "頭痛", "fever"]
    assert np.array_equal(one.encode(texts), other.encode(texts))


def test_room_that_is_not_there_is_an_error(recipe, monkeypatch):
    module = recipe("respell")
    monkeypatch.setattr(module, "MINILM", len(BASE))
    with pytest.raises(SystemExit, match=r"pieces are needed, and there is room for 0"):
        module.respelt(BASE, {"頭"}, module.normalizer("頭"), [])


def test_new_ascii_pieces_leave_other_words_as_they_are(recipe):
    module = recipe("respell")
    kept, spelling = {*BASE, "đ", "##đ"}, module.normalizer("血")
    words = ["headaches", "colds", "dáu", "đis", "頭痛"]
    added = ["heada", "hea", "colds", "coldu", "dau", "đa\u0302\u0300u", "đi", "fev", "##頭痛"]
    # "heada" cuts "headaches", "dau" and "đi" words that are spelt so without their accents.
    assert module.sparing(added, kept, spelling, words) == [
        "hea", "coldu", "đa\u0302\u0300u", "fev", "##頭痛",
    ]  # fmt: skip


def test_names_of_concepts_that_share_one_count_as_one(recipe):
    module = recipe("ask")
    graph = pl.DataFrame(TERMS, schema=["concept_id", "term", "lang", "source"], orient="row")
    names = module.english_names(graph, EXTRA, {("C1", "head aches")})
    found = dict(zip(names.texts, names.owners.tolist(), strict=True))
    assert names.numbers["C2"] == names.numbers["C4"] == found["fever"] == found["Fever"]
    assert len(set(names.numbers.values())) == 4 and "C9" not in names.numbers
    assert names.owners.tolist() == sorted(names.owners)
    # Of C1, which lay phrases speak of, both names are there; one alone if they do not.
    assert found["headache"] == found["head aches"] == names.numbers["C1"]
    few = module.english_names(graph.filter(pl.col("lang") == "en"), [], {("C1", "head aches")})
    assert "head aches" in few.texts and "headache" not in few.texts


def test_small_languages_are_asked_more_often_than_their_terms(recipe):
    module = recipe("ask")
    graph = pl.DataFrame(TERMS, schema=["concept_id", "term", "lang", "source"], orient="row")
    names = module.english_names(graph, EXTRA, set())
    asked = module.terms_to_ask(graph, EXTRA, names)
    # What people misspell in English is asked; English names, and what has none, are not.
    assert not {"fever", "lost"} & set(asked.texts) and {"ferbe", "fevr"} <= set(asked.texts)
    assert dict(zip(asked.texts, asked.languages, strict=True))["ferbe"] == "pt"
    share = dict(zip(asked.texts, asked.shares, strict=True))
    assert asked.shares.sum() == pytest.approx(1)
    weights = {"vi": 2 + 10, "pt": 3 + 1}  # of the language's terms: graph 1, extra their own
    expected = 5 * weights["vi"] ** -0.4 / (3 * weights["pt"] ** -0.4)
    assert share["bị sốt cao"] / share["febre alta"] == pytest.approx(expected)


@pytest.mark.parametrize("each", [0.0, 0.3, 1.0])
def test_the_loss_is_the_softmax_of_the_right_names(recipe, each):
    module = recipe("align")
    torch.manual_seed(0)
    names = torch.nn.functional.normalize(torch.randn(7, 4), dim=1)
    owners, meant = [0, 0, 1, 2, 2, 2, 3], [2, 0, 3]
    here = torch.nn.functional.normalize(torch.randn(3, 4), dim=1)
    found = module.name_loss(here, torch.tensor(meant), names, torch.tensor([0, 2, 3, 6, 7]), each)
    losses = []
    for vector, right in zip(here, meant, strict=True):
        shares = [math.exp(float(vector @ name) / module.TEMPERATURE) for name in names]
        own = [one for one, owner in zip(shares, owners, strict=True) if owner == right]
        together = -math.log(sum(own) / sum(shares))
        apart = sum(-math.log(one / sum(shares)) for one in own) / len(own)
        losses.append((1 - each) * together + each * apart)
    assert float(found) == pytest.approx(sum(losses) / 3, abs=1e-4)


@pytest.fixture
def recut(recipe, respelt, work, monkeypatch):
    """The folder of a model that recut.py has made."""
    module = recipe("recut")
    for name, value in {"MINILM": len(BASE), "OFTEN": 1, "UNSEEN": 0.5}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "zipf_frequency", lambda word, tag: 3.0 if tag == "en" else 0.0)
    monkeypatch.setattr(module, "related", lambda _: ["cold fevers"])
    options = [respelt, "--work", work, "--out", work / "recut"]
    monkeypatch.setattr(sys, "argv", ["recut.py", *map(str, options)])
    module.main()
    return work / "recut"


def test_words_that_people_use_become_pieces(recut, respelt, capsys):
    before, after = (TransformerEncoder.load(folder) for folder in (respelt, recut))
    old, new = (one.tokenizer.convert_ids_to_tokens(range(len(OLD))) for one in (before, after))
    assert None not in new and len(set(new)) == len(new) == len(OLD)
    assert new[: len(BASE)] == list(BASE)
    assert after.tokenizer.tokenize("febre alta") == ["febre", "alta"]
    # Pieces that stay are in their places, with their rows; a new one is the mean of its parts.
    rows, were = (one.model.embeddings.word_embeddings.weight for one in (after, before))
    same = [at for at, piece in enumerate(old) if new[at] == piece]
    assert torch.equal(rows[same], were[same]) and len(same) < len(OLD)
    cut = before.tokenizer.convert_tokens_to_ids(before.tokenizer.tokenize("febre"))
    assert torch.allclose(rows[new.index("febre")], were[cut].mean(0))
    english = [text for _, text, tag, _ in TERMS if tag == "en"] + ["colds", "head"]
    assert np.array_equal(before.encode(english), after.encode(english))


def test_a_new_piece_of_characters_begins_as_the_mean_of_them(recipe):
    module = recipe("respell")
    pieces = ["[PAD]", "[UNK]", module.MARKER, "##頭", "##痛", "x"]
    before = torch.arange(12.0).reshape(6, 2)
    rows, old = before.clone(), module.made(pieces, module.normalizer("頭痛"))
    module.begin(rows, before, old, pieces, [*pieces[:5], "##頭痛"])
    assert torch.equal(rows[:5], before[:5]) and torch.equal(rows[5], before[3:5].mean(0))


def test_a_new_piece_leaves_words_as_they_are_cut(recipe):
    module = recipe("respell")
    found = module.harmless(["colds", "colda"], BASE, module.normalizer("血"), ["colds"])
    assert found == {"colda"}


def test_a_word_that_is_said_often_elsewhere_may_cut_rarer_english_words(recipe, monkeypatch):
    module = recipe("recut")
    known = {("hela", "sv"): 5.5, ("helas", "en"): 3.0, ("helar", "sv"): 4.5}
    monkeypatch.setattr(module, "zipf_frequency", lambda word, tag: known.get((word, tag), 0.0))
    monkeypatch.setattr(module, "top_n_list", lambda *_: ["helas"])
    monkeypatch.setattr(module, "related", lambda _: [])
    monkeypatch.setattr(module, "OFTEN", 1)
    spelling = recipe("respell").normalizer("血")
    pieces = [*BASE, "hel", *(f"[unused{number}]" for number in range(9))]
    old = recipe("respell").made(pieces, spelling)
    monkeypatch.setattr(module, "MINILM", len(BASE))
    monkeypatch.setattr(module, "train", lambda *_: [])
    for word, there in (("hela", True), ("helas", False)):  # the second is English, and stays cut
        found = module.recut(pieces, old, [(word, "sv", True)])
        assert (word in found) == there and len(set(found)) == len(pieces)


def test_a_common_word_of_another_language_is_not_taken_for_english(recipe, monkeypatch):
    module = recipe("recut")
    known = {("jag", "en"): 3.0, ("jag", "sv"): 7.0, ("die", "en"): 5.3, ("die", "de"): 7.4}
    monkeypatch.setattr(module, "zipf_frequency", lambda word, tag: known.get((word, tag), 0.0))
    assert module._foreign("jag")
    assert not module._foreign("die")  # too common in English
    assert not module._foreign("axis")


def test_what_is_worth_least_goes_and_parts_count_for_words_that_were_not_seen(recipe, monkeypatch):
    module = recipe("recut")
    monkeypatch.setattr(module, "ROUNDS", (0.0,))
    spelling = recipe("respell").normalizer("血")
    pieces = ["a", "##a", "b", "##b", "ab", "##ab", "aab"]
    old = SimpleNamespace(normalizer=spelling)
    # "ab" is a piece: as itself it is worth 4, and 1 goes to what it would be cut into.
    value = dict(zip(pieces, module.values(pieces, old, {"ab": (4.0, 1.0)}), strict=True))
    assert value == {"a": 1, "##a": 0, "b": 0, "##b": 1, "ab": 4, "##ab": 0, "aab": 0}
    kept = module.prune(pieces[:-1], ["aab"], set("ab") | {"##a", "##b"}, old, {"aab": (9.0, 1.0)})
    assert kept == ["a", "##a", "b", "##b", "##ab", "aab"]  # "aab" without itself is "a", "##ab"


@pytest.mark.parametrize(
    ("piece", "there", "cut"),
    [
        ("abc", {"abc", "ab", "a", "##c", "##bc"}, ["ab", "##c"]),
        ("##abc", {"##abc", "##ab", "abc", "##c"}, ["##ab", "##c"]),
        ("abc", {"a", "##c"}, ["a", "##b", "##c"]),
    ],
)
def test_a_piece_is_cut_into_the_longest_others(recipe, piece, there, cut):
    assert recipe("recut").parts(piece, there) == cut


def test_terms_learn_to_find_names_and_english_stays(recipe, recut, work, monkeypatch, capsys):
    merged = pl.read_parquet(work / "terms.parquet").with_columns(is_preferred=True)
    merged.write_parquet(work / "merged.parquet")
    options = [work, "--terms", work / "merged.parquet", "--out", work / "ask"]
    monkeypatch.setattr(sys, "argv", ["ask.py", *map(str, options)])
    monkeypatch.setattr(recipe("ask"), "related", lambda _: ["cold fevers"])
    recipe("ask").main()
    assert "names: 6\nasked: " in capsys.readouterr().out
    module = recipe("align")
    monkeypatch.setattr(module, "SHOWN", 1)
    options = [recut, "--before", work / "start", "--ask", work / "ask", "--out", work / "final"]
    options += ["--steps", 60, "--rates", 1e-3, 2e-2, "--weights", 40, 4, 4, 0]
    options += ["--sizes", 16, 16, 4]
    monkeypatch.setattr(sys, "argv", ["align.py", *map(str, options)])
    module.main()
    lines = (work / "final.jsonl").read_text(encoding="utf-8").splitlines()
    said = [json.loads(line) for line in lines]
    assert [one["step"] for one in said] == list(range(1, 61))
    assert said[-1]["terms"] < said[0]["terms"] / 2
    assert "held" in said[0] and "held" not in said[-1]
    before, first, after = (
        TransformerEncoder.load(work / name) for name in ("start", "recut", "final")
    )
    english = [text for _, text, tag, _ in TERMS if tag == "en"]
    assert (before.encode(english) * after.encode(english)).sum(1).min() > 0.97
    asked, names = ["đau đầu", "发烧"], ["headache", "fever"]
    right = (after.encode(asked) @ before.encode(names).T).diagonal()
    assert (right > (first.encode(asked) @ before.encode(names).T).diagonal()).all()

    # What tails.py makes of the tables of ask.py: names with more words, the rest to stay.
    tails = recipe("tails")
    monkeypatch.setattr(tails, "KEPT", 20)
    options = [work, "--out", work / "tails"]
    monkeypatch.setattr(sys, "argv", ["tails.py", *map(str, options)])
    tails.main()
    some, more, kept = (
        pl.read_parquet(work / "tails" / f"{name}.parquet")
        for name in ("names", "asked", "english")
    )
    known = dict(zip(some["text"], some["owner"], strict=True))
    styles = recipe("styles")
    assert "FEVER DIS" in more["text"] and "FEVER DIS" not in kept["text"]
    for text, owner in more.filter(pl.col("text") != "FEVER DIS")["text", "owner"].rows():
        bare = [text.removesuffix(tail) for tail in styles.TAILS]
        bare += [text.removeprefix(head) for head in styles.HEADS]
        assert any(known.get(name) == owner for name in bare if name != text), text
    assert {"headache", "fever"} <= set(known) and 30 <= len(kept) <= 40
    others = {text for _, text, tag, _ in TERMS if tag != "en"} | {row[0] for row in EXTRA}
    assert others & set(kept["text"]) and {"head", "colds"} & set(kept["text"])


def test_held_out_phrases_are_asked_if_training_has_not_seen_them(
    recipe, work, monkeypatch, capsys
):
    module = recipe("held")
    (work / "held").mkdir()
    tables = {
        "en": [("C1", "headache"), ("C5", "colds"), ("C5", ""), ("C9", "lost")],
        "vi": [("C2", "FEVER"), ("C2", "Fevers"), ("C3", "cold")],
    }
    for tag, rows in tables.items():
        lines = [f"{concept}\tname\t{phrase}\t{phrase}\n" for concept, phrase in rows]
        (work / "held" / f"{tag}.tsv").write_text("concept\tname\tlay\tchart\n" + "".join(lines))
    texts = pl.read_parquet(work / "terms.parquet").with_columns(is_preferred=True)
    texts.filter(pl.col("term") != "headache").write_parquet(work / "terms.parquet")
    texts.write_parquet(work / "merged.parquet")
    options = ["--terms", work / "merged.parquet", "--work", work, "--model", work / "start"]
    monkeypatch.setattr(sys, "argv", ["held.py", *map(str, [work / "held", *options])])
    axes = {"head aches": 0, "headache": 0, "fever": 1, "Fever": 1, "Fevers": 1, "cold": 2}

    def encode(some):
        """A direction each; "colds" is nearest to "fever", and then to "cold"."""
        found = np.zeros((len(some), 4), np.float32)
        for row, text in zip(found, some, strict=True):
            row[axes.get(text, 3)] = 1
            if text == "colds":
                row[:] = 0, 0.8, 0.6, 0
        return found

    fake = SimpleNamespace(encode=encode, to=lambda device: None)
    monkeypatch.setattr(module, "load_encoder", lambda _: fake)
    module.main()
    said = capsys.readouterr().out.splitlines()
    # "FEVER" and "cold" are training terms; of C9 there is no name.
    assert said[0].startswith("2 of 12 phrases") and said[1].startswith("4 are training terms")
    said = said[1:]
    counts = [line.split("(")[1] for line in said[2:]]
    assert [line.split()[0] for line in said[2:]] == ["en", "vi", "all"]
    assert counts == ["2 and 2)", "1 and 1)", "3 and 3)"]
    figures = [[float(cell) for cell in line.split("(")[0].split()[1:]] for line in said[2:]]
    assert figures == [[50, 100, 50, 100], [100] * 4, [66.7, 100, 66.7, 100]]
