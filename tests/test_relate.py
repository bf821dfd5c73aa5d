"""The stage on related terms: recipes/medcoder-all/relate.py, and what it and clean.py read."""

import json
import math
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import tiny
from medcoder.ingest import ingest
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.save import save_encoder
from medcoder.sources import open_source

RECIPE = Path(__file__).parent.parent / "recipes" / "medcoder-all"
NAMES = ("tables", "clean", "relations", "relate")
DRUGS = (
    "term\tnames\tkinds\tclosest\ttreats\taction\teffects\tother\n"
    "cold pill\tFevex | Coldex\tpill\tpain pill\tcold | fever\t\trash\t\n"
)
SIGNS = (
    "term\tnames\tkinds\tclosest\tconditions\tparts\tmeasures\nfever\tpyrexia\t\tchills\tcold\t\t\n"
)


@pytest.fixture
def recipe(monkeypatch):
    """The modules of the recipe, by their names."""
    monkeypatch.syspath_prepend(str(RECIPE))
    yield __import__
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def tables(tmp_path):
    folder = tmp_path / "data" / "related"
    folder.mkdir(parents=True)
    (folder / "drugs.tsv").write_text(DRUGS, encoding="utf-8")
    (folder / "signs.tsv").write_text(SIGNS, encoding="utf-8")
    return folder


def test_items_are_related_to_their_term_and_to_the_brands_of_a_drug(recipe, tables):
    relations = recipe("relations")
    weights = relations.WEIGHTS
    found = {(one, other): w for one, other, w in relations.of_table(tables / "drugs.tsv")}
    drug = "cold pill"
    both = math.sqrt(2)
    expected = {
        (drug, "Fevex"): weights["names"] / both,
        (drug, "Coldex"): weights["names"] / both,
        (drug, "pill"): weights["kinds"],
        (drug, "pain pill"): weights["closest"],
        (drug, "cold"): weights["treats"] / both,
        (drug, "fever"): weights["treats"] / both,
        (drug, "rash"): weights["effects"],
    }
    for brand in ("Fevex", "Coldex"):
        for item, column, share in (
            ("pill", "kinds", 2), ("pain pill", "closest", 2), ("cold", "treats", 4),
            ("fever", "treats", 4),
        ):  # fmt: skip
            expected[brand, item] = relations.OF_BRANDS[column] / math.sqrt(share)
    assert found == pytest.approx(expected)
    of_signs = {tuple(pair) for *pair, _ in relations.of_table(tables / "signs.tsv")}
    assert of_signs == {("fever", "pyrexia"), ("fever", "chills"), ("fever", "cold")}


def test_every_column_of_our_tables_has_a_weight(recipe):
    relations = recipe("relations")
    for file in (RECIPE.parents[1] / "data" / "related").glob("*.tsv"):
        header = file.read_text(encoding="utf-8").split("\n")[0].split("\t")
        assert set(header[1:]) <= set(relations.WEIGHTS)


def test_pairs_that_are_asked_for_are_left_out_whichever_way_round(recipe, tables, tmp_path):
    relations = recipe("relations")
    similar, test = tmp_path / "similar.tsv", tmp_path / "test.tsv"
    similar.write_text("term1\tterm2\tscore\nCHILLS\tFéver\t3\n", encoding="utf-8")
    test.write_text("head\trelation\ttail\nfevex\tmay treat\tcold\n", encoding="utf-8")
    every = relations.read_related(tables, without=set())
    asked = relations.asked_for([similar, test])
    kept = relations.read_related(tables, without=asked)
    assert set(every.pairs) - set(kept.pairs) == {("fever", "chills"), ("Fevex", "cold")}
    assert len(kept) == len(every) - 2


def test_known_are_pairs_and_equal_terms(recipe, tables):
    related = recipe("relations").read_related(tables, without=set())
    keys = ["fever", "cold", "rash", "fever", "cold pill"]
    found = related.known(keys)
    pairs = {
        ("fever", "cold"),
        ("fever", "cold pill"),
        ("cold", "cold pill"),
        ("rash", "cold pill"),
    }
    for row, one in enumerate(keys):
        for column, other in enumerate(keys):
            meant = one == other or (one, other) in pairs or (other, one) in pairs
            assert found[row, column] == meant


def test_pairs_are_drawn_by_their_weights(recipe):
    related = recipe("relations").Related([("a", "b", 9.0), ("c", "d", 1.0)])
    drawn = related.draw(random.Random(0), 2000)
    assert drawn.count(("a", "b")) == pytest.approx(1800, abs=60)


def test_the_objective_is_that_of_plain_loops(recipe, monkeypatch):
    relate = recipe("relate")
    monkeypatch.setattr(relate, "RELATED", 2)
    monkeypatch.setattr(relate, "SYNONYMS", 3)
    torch.manual_seed(1)
    vectors, start = (normalize(torch.randn(count, 6), dim=1) for count in (10, 6))
    known = torch.eye(10, dtype=torch.bool)
    for one, other in ((0, 2), (1, 3), (0, 3), (4, 7), (5, 8), (6, 9), (4, 5)):
        known[one, other] = known[other, one] = True
    losses = relate.objective(vectors, relate.Batch([], known, start))

    other_of = {0: 2, 1: 3, 4: 7, 5: 8, 6: 9}
    other_of |= {second: first for first, second in other_of.items()}

    def contrast(rows, temperature):
        total = 0.0
        for row in rows:
            power = [math.exp(float(vectors[row] @ one) / temperature) for one in vectors]
            others = sum(power[place] for place in range(10) if not known[row, place])
            mine = power[other_of[row]]
            total -= math.log(mine / (mine + others))
        return total / len(rows)

    kept = vectors[4:]
    close = sum(1 - float(one @ two) for one, two in zip(kept, start, strict=True)) / 6
    alike = sum(
        float(kept[one] @ kept[two] - start[one] @ start[two]) ** 2
        for one in range(6) for two in range(6)
    ) / 36  # fmt: skip
    expected = {
        "related": contrast(range(4), relate.RELATED_TEMPERATURE),
        "synonyms": contrast(range(4, 10), relate.TEMPERATURE),
        "close": relate.CLOSE * close,
        "alike": relate.ALIKE * alike,
    }
    assert {name: float(loss) for name, loss in losses.items()} == pytest.approx(expected, rel=1e-4)


@pytest.fixture
def work(tmp_path):
    """A graph with extra terms, as prepare.py makes them."""
    terms = ["concept_id\tterm\tlang"]
    for number, names in enumerate(("heart attack", "fever|heat", "cold|chill", "pain|ache"), 1):
        terms += [f"C:{number}\t{name}\ten" for name in names.split("|")]
    (tmp_path / "terms.tsv").write_text("\n".join(terms) + "\n", encoding="utf-8")
    ingest([open_source(f"table={tmp_path / 'terms.tsv'}")], tmp_path / "train.kg")
    (tmp_path / "extra.tsv").write_text(
        "term\tconcept\tlanguage\tweight\nheart stopped\tC:1\ten\t5\nhot\tC:2\ten\t1\n",
        encoding="utf-8",
    )
    return tmp_path


def test_synonyms_are_of_one_concept_and_most_have_an_extra_term(recipe, work, monkeypatch):
    relate = recipe("relate")
    monkeypatch.setattr(relate, "POOL", 400)
    drawn = relate.synonyms(work, random.Random(0))
    of = {"heart attack": 1, "heart stopped": 1, "fever": 2, "heat": 2, "hot": 2}
    of |= {"cold": 3, "chill": 3, "pain": 4, "ache": 4}
    assert all(of[one] == of[other] and one != other for one, other in drawn)
    extra = [one for one, _ in drawn if one in ("heart stopped", "hot")]
    assert len(extra) == 300
    assert extra.count("heart stopped") == pytest.approx(250, abs=25)


def test_related_terms_come_nearer_and_the_others_stay(recipe, work, tables, monkeypatch):
    relate = recipe("relate")
    for name, value in (("RELATED", 4), ("SYNONYMS", 3), ("POOL", 40), ("RATE", 3e-3)):
        monkeypatch.setattr(relate, name, value)
    monkeypatch.setattr(relate, "DATA", tables.parent)
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="mean")
    save_encoder(encoder, work / "start")
    nothing = work / "nothing.tsv"
    nothing.write_text("term1\tterm2\tscore\n", encoding="utf-8")
    arguments = [work / "start", "--work", work, "--test", nothing, "--out", work / "near"]
    monkeypatch.setattr(sys, "argv", ["relate.py", *map(str, arguments), "--steps", "30"])
    relate.main()

    before, after = (TransformerEncoder.load(work / name) for name in ("start", "near"))
    assert (after.pooling, after.max_length) == ("mean", 32)
    pairs = np.array([encoder.encode(["fever", "cold"]) for encoder in (before, after)])
    was, now = (float(one @ other) for one, other in pairs)
    assert now > was
    unseen = "embeddings.position_embeddings.weight"
    weights = [encoder.model.state_dict() for encoder in (before, after)]
    assert torch.equal(weights[0][unseen], weights[1][unseen])
    lines = (work / "near.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    assert [line["step"] for line in steps] == list(range(1, 31))
    assert set(steps[0]) == {"related", "synonyms", "close", "alike", "step", "seconds"}
    assert steps[0]["close"] == pytest.approx(0, abs=1e-3)
    early, late = (np.mean([line["related"] for line in some]) for some in (steps[:5], steps[-5:]))
    assert late < early


def test_clean_takes_queries_out_of_names_and_what_no_graph_has(recipe, work, tables, monkeypatch):
    rows = "FEVER\tPyrexia | hot spell\t\tfever | Chills\theart attack\t\tice pack\n"
    rows += "ice pack\tx\t\t\t\t\t\n"
    (tables / "signs.tsv").write_text(SIGNS + rows, encoding="utf-8")
    queries = work / "queries.tsv"
    queries.write_text("query\nhot-spell\nheart attack\nICE pack\nchill\n", encoding="utf-8")
    arguments = [tables.parent, "--queries", queries, "--graph", work / "train.kg"]
    monkeypatch.setattr(sys, "argv", ["clean.py", *map(str, arguments)])
    for _ in range(2):  # the second time there is nothing left to do
        recipe("clean").main()
        assert (tables / "signs.tsv").read_text(encoding="utf-8") == (
            SIGNS.split("\n")[0] + "\nfever\tpyrexia\t\tchills\tcold | heart attack\t\t\n"
        )
        assert (tables / "drugs.tsv").read_text(encoding="utf-8") == DRUGS
