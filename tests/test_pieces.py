"""Pieces that spell more scripts, and their training alone: respell.py and pieces.py."""

import json
import math
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from tokenizers import normalizers

import tiny
from medcoder import KG
from medcoder.ingest import ingest
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.export import export
from medcoder.model.save import save_encoder
from medcoder.runtime.onnx import OnnxEncoder
from medcoder.sources import open_source
from medcoder.vectors.embed import embed
from medcoder.vectors.plan import text_hashes
from medcoder.vectors.seed import open_seed, save_seed

RECIPE = Path(__file__).parent.parent / "recipes" / "medcoder-all"
NAMES = (
    "tables",
    "styles",
    "prepare",
    "respell",
    "pieces",
    "held",
    "reship",
    "restore",
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
    few = SimpleNamespace(top_n_list=lambda language, n: ["head", "colds"])
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
    module = recipe("pieces")
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


def test_small_languages_are_asked_more_often_than_their_terms(recipe, monkeypatch):
    module = recipe("pieces")
    monkeypatch.setattr(module, "MORE", {"vi": 2.0})
    graph = pl.DataFrame(TERMS, schema=["concept_id", "term", "lang", "source"], orient="row")
    names = module.english_names(graph, EXTRA, set())
    asked = module.terms_to_ask(graph, EXTRA, names)
    assert not {"fever", "fevr", "lost"} & set(asked.texts) and "ferbe" in asked.texts
    share = dict(zip(asked.texts, asked.shares, strict=True))
    assert asked.shares.sum() == pytest.approx(1)
    weights = {"vi": 2 + 10, "pt": 3 + 1}  # of the language's terms: graph 1, extra their own
    expected = 2 * 5 * weights["vi"] ** -0.4 / (3 * weights["pt"] ** -0.4)
    assert share["bị sốt cao"] / share["febre alta"] == pytest.approx(expected)


def test_the_loss_is_the_softmax_of_the_right_names(recipe, monkeypatch):
    module = recipe("pieces")
    monkeypatch.setattr(module, "OTHERS", 5)
    rng = np.random.default_rng(3)
    torch.manual_seed(0)
    names = torch.nn.functional.normalize(torch.randn(9, 4), dim=1)
    owners = np.array([0, 0, 1, 2, 3, 3, 4, 5, 6])
    here, meant = torch.nn.functional.normalize(torch.randn(3, 4), dim=1), np.array([3, 0, 3])
    found = module.name_loss(here, meant, names, owners, np.random.default_rng(3))
    others = [place for place in rng.integers(0, 9, 5) if owners[place] not in (0, 3)]
    assert others
    shown, losses = [0, 1, 4, 5, *others], []
    for vector, right in zip(here, meant, strict=True):
        all_of_it, hits = 0.0, 0.0
        for place in shown:
            value = math.exp(float(vector @ names[place]) / module.TEMPERATURE)
            all_of_it += value
            hits += value if owners[place] == right else 0
        losses.append(math.log(all_of_it / hits))
    assert float(found) == pytest.approx(sum(losses) / 3, abs=1e-5)


def test_new_pieces_learn_to_say_what_the_old_ones_said(recipe, respelt, work, monkeypatch, capsys):
    module = recipe("pieces")
    monkeypatch.setattr(module, "FIRST_RATES", (0.02,) * 10)
    monkeypatch.setattr(module, "THEN_RATES", (0.02,) * 30)
    monkeypatch.setattr(module, "SAID", {"ja": 2, "zh": 9})
    before, after = (TransformerEncoder.load(work / name) for name in ("start", "respelt"))
    graph = pl.read_parquet(work / "terms.parquet")
    texts = ["頭痛", "发烧"]
    there = after.model.embeddings.word_embeddings.weight.data.clone()

    def apart():
        return 1 - (before.encode(texts) * after.encode(texts)).sum(1).mean()

    far, english = apart(), after.encode(["headache"])
    free = module.free_rows(after, ["headache"])
    module.mimic(after, before, graph, EXTRA, free, seed=0)
    assert apart() < far / 4
    assert np.array_equal(english, after.encode(["headache"]))
    pieces = after.tokenizer.convert_ids_to_tokens(range(len(OLD)))
    same = [at for at, piece in enumerate(OLD) if pieces[at] == piece]
    assert torch.equal(there[same], after.model.embeddings.word_embeddings.weight[same])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 40
    few, all_of_them = (int(lines[place].split()[0]) for place in (0, -1))
    assert all_of_them == few + 2 + 2  # two of four Japanese terms, both Chinese ones


def test_training_changes_free_rows_alone_and_terms_find_their_names(
    recipe, respelt, work, monkeypatch, capsys
):
    module = recipe("pieces")
    few = {"MINILM": len(BASE), "BATCH": 8, "POOL": 2, "SHOWN": 20, "OTHERS": 50}
    for name, value in (few | {"DROPOUT": 0.0, "RATE": 0.02}).items():
        monkeypatch.setattr(module, name, value)
    merged = pl.read_parquet(work / "terms.parquet").with_columns(is_preferred=True)
    merged.write_parquet(work / "merged.parquet")
    options = ["--terms", work / "merged.parquet", "--work", work, "--out", work / "told"]
    options += ["--steps", 100, "--vectors", work / "names.npy"]
    monkeypatch.setattr(sys, "argv", ["pieces.py", *map(str, [respelt, *options])])
    module.main()
    said = capsys.readouterr().out
    losses = [float(line.split(": ")[1]) for line in said.splitlines() if line.startswith("step")]
    assert len(losses) == 5 and losses[-1] < losses[0] / 2
    before, after = (TransformerEncoder.load(work / name) for name in ("respelt", "told"))
    english = [text for _, text, tag, _ in TERMS if tag == "en"] + ["fevr", "colds"]
    assert np.array_equal(before.encode(english), after.encode(english))
    assert not np.allclose(before.encode(["đau đầu"]), after.encode(["đau đầu"]))
    for name, weights in before.model.state_dict().items():
        changed = (weights != after.model.state_dict()[name]).reshape(len(weights), -1).any(1)
        if name != "embeddings.word_embeddings.weight":
            assert not changed.any(), name
        else:
            assert changed.any() and not changed[: len(BASE)].any()
    kept = np.load(work / "names.npy")
    assert kept.shape == (6, before.width)


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

    monkeypatch.setattr(module, "load_encoder", lambda _: SimpleNamespace(encode=encode))
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


@pytest.fixture
def shipped(recipe, respelt, work, monkeypatch):
    """Files of a model that shipped, and another model that differs in the rows of two pieces."""
    terms = pl.read_parquet(work / "terms.parquet").filter(pl.col("lang") == "en")
    terms.write_parquet(work / "english.parquet")
    ingest([open_source(f"table={work / 'english.parquet'}")], work / "small.kg")
    monkeypatch.setattr(recipe("reship"), "default_kg", lambda: work / "small.kg")
    restored = TransformerEncoder.load(work / "start")
    export(restored, work / "models" / "name", weights="int8", about={"name": "name"})
    there = OnnxEncoder.load(work / "models" / "name")
    seed = work / "models" / "name.open.vectors.safetensors"
    save_seed(embed(KG.open(work / "small.kg"), there, work / "vectors"), seed)
    final = TransformerEncoder.load(respelt)
    restored = recipe("restore").restore(work / "models" / "name", heads=4)
    final.model.load_state_dict(restored.model.half().float().state_dict(), strict=False)
    place = final.tokenizer.convert_tokens_to_ids(["đau", "##頭"])
    final.model.embeddings.word_embeddings.weight.data[place] += 0.25
    save_encoder(final, work / "final")
    return work


def reship(recipe, work, monkeypatch):
    options = [work / "models", work / "final", "--name", "name", "--released", "2026-11-16"]
    monkeypatch.setattr(sys, "argv", ["reship.py", *map(str, options)])
    recipe("reship").main()


def test_only_changed_rows_are_shipped_anew(recipe, shipped, monkeypatch, capsys):
    before = OnnxEncoder.load(shipped / "models" / "name")
    english = [text for _, text, tag, _ in TERMS if tag == "en"]
    seed = shipped / "models" / "name.open.vectors.safetensors"
    vectors, asked, old = before.encode(english), before.encode(["đau", "頭"]), open_seed(seed)
    reship(recipe, shipped, monkeypatch)
    assert f"2 of {len(OLD)} rows have changed" in capsys.readouterr().out
    after = OnnxEncoder.load(shipped / "models" / "name")
    assert np.array_equal(after.encode(english), vectors)
    assert after.fingerprint != before.fingerprint
    final = TransformerEncoder.load(shipped / "final")
    assert np.allclose(after.encode(["đau", "頭"]), final.encode(["đau", "頭"]), atol=0.02)
    assert not np.allclose(after.encode(["đau", "頭"]), asked, atol=0.02)
    new = open_seed(seed)
    assert (old.encoder, new.encoder) == (before.fingerprint, after.fingerprint)
    hashes = np.sort(old._hashes)
    assert np.array_equal(old.find(hashes)[1], new.find(hashes)[1])


def test_other_weights_than_rows_of_pieces_do_not_ship_so(recipe, shipped, monkeypatch):
    final = TransformerEncoder.load(shipped / "final")
    final.model.encoder.layer[1].output.dense.bias.data[3] += 0.5
    save_encoder(final, shipped / "final")
    with pytest.raises(SystemExit, match=r"layer\.1\.output\.dense\.bias has changed"):
        reship(recipe, shipped, monkeypatch)


def test_vectors_of_another_model_are_an_error(recipe, shipped, monkeypatch):
    seed = shipped / "models" / "name.open.vectors.safetensors"
    recipe("reship").replace(seed, SimpleNamespace(fingerprint="another"), [])
    with pytest.raises(SystemExit, match="is of another"):
        reship(recipe, shipped, monkeypatch)


def test_names_that_have_another_vector_are_encoded_again_if_they_are_few(
    recipe, shipped, monkeypatch, capsys
):
    final = TransformerEncoder.load(shipped / "final")
    place = final.tokenizer.convert_tokens_to_ids("cold")
    final.model.embeddings.word_embeddings.weight.data[place] *= -1
    save_encoder(final, shipped / "final")
    seed = shipped / "models" / "name.open.vectors.safetensors"
    before = seed.read_bytes(), (shipped / "models" / "name" / "meta.json").read_bytes()
    with pytest.raises(SystemExit, match="too many for the calibration to hold"):
        reship(recipe, shipped, monkeypatch)
    assert (seed.read_bytes(), (shipped / "models" / "name" / "meta.json").read_bytes()) == before
    old = open_seed(seed)
    monkeypatch.setattr(recipe("reship"), "MOST_NAMES", 0.5)
    reship(recipe, shipped, monkeypatch)
    assert "1 of 6 names of the embedded graph" in capsys.readouterr().out
    after = OnnxEncoder.load(shipped / "models" / "name")
    names = ["cold", "fever"]
    hashes = text_hashes(pa.array(names, pa.large_string()))
    was, now = (
        np.array([seed.find(hashes[[at]])[1][0] for at in (0, 1)])
        for seed in (old, open_seed(seed))
    )
    assert np.array_equal(was[1], now[1])
    assert np.allclose(now, after.encode(names), atol=2e-3) and not np.allclose(
        was[0], now[0], atol=0.02
    )
