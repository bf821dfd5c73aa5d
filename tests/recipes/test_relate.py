"""The stage on related terms: recipes/medcoder-all/relate.py, and what it and clean.py read."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from medcoder import KG
from medcoder.kg.build import build_kg
from medcoder.kg.sources import open_source
from medcoder.model.encoder import TransformerEncoder, save_encoder
from support import tiny

RECIPE = Path(__file__).parents[2] / "recipes" / "medcoder-all"
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
    items = list(relations.of_table(tables / "drugs.tsv"))
    found = {(one.term, one.item): (one.label, one.weight) for one in items}
    drug = "cold pill"
    both = math.sqrt(2)
    expected = {
        (drug, "Fevex"): ("names", weights["names"] / both),
        (drug, "Coldex"): ("names", weights["names"] / both),
        (drug, "pill"): ("kinds", weights["kinds"]),
        (drug, "pain pill"): ("closest", weights["closest"]),
        (drug, "cold"): ("treats", weights["treats"] / both),
        (drug, "fever"): ("treats", weights["treats"] / both),
        (drug, "rash"): ("effects", weights["effects"]),
    }
    for brand in ("Fevex", "Coldex"):
        for item, column, share in (
            ("pill", "kinds", 2), ("pain pill", "closest", 2), ("cold", "treats", 4),
            ("fever", "treats", 4),
        ):  # fmt: skip
            expected[brand, item] = column, relations.OF_BRANDS[column] / math.sqrt(share)
    assert {pair: label for pair, (label, _) in found.items()} == {
        pair: f"drugs.{column}" for pair, (column, _) in expected.items()
    }
    assert [found[pair][1] for pair in expected] == pytest.approx(
        [weight for _, weight in expected.values()]
    )
    of_signs = {(one.term, one.item) for one in relations.of_table(tables / "signs.tsv")}
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
    kept = relations.read_related(tables, without=relations.asked_for([similar, test]))
    out = {(one.term, one.item) for one in every} - {(one.term, one.item) for one in kept}
    assert out == {("fever", "chills"), ("Fevex", "cold")}
    assert len(kept) == len(every) - 2


def test_negatives_are_neither_pairs_nor_equal_terms(recipe):
    relations = recipe("relations")
    made = [("fever", "cold"), ("Fever", "chills"), ("rash", "pill"), ("cold", "rash")]
    items = [relations.Item(one, other, "x", 1.0) for one, other in made]
    texts = sorted({text for pair in made for text in pair})
    number = {text: 100 + place for place, text in enumerate(texts)}
    terms, negative = relations.Pairs(items, number).draw(np.random.default_rng(0), 40)
    drawn = [texts[term - 100] for term in terms]
    assert set(zip(drawn[:40], drawn[40:], strict=True)) == set(made)
    known = {frozenset((one.lower(), other.lower())) for one, other in made}
    for row, one in enumerate(drawn):
        for column, other in enumerate(drawn):
            pair = frozenset((one.lower(), other.lower()))
            assert negative[row, column] == (len(pair) == 2 and pair not in known)


def test_pairs_are_drawn_by_their_weights(recipe):
    relations = recipe("relations")
    items = [relations.Item("a", "b", "x", 9.0), relations.Item("c", "d", "x", 1.0)]
    pairs = relations.Pairs(items, {"a": 0, "b": 1, "c": 2, "d": 3})
    terms, _ = pairs.draw(np.random.default_rng(0), 2000)
    assert np.count_nonzero(terms == 0) == pytest.approx(1800, abs=60)


def test_edges_of_common_labels_are_drawn_with_any_of_the_terms_of_their_ends(recipe, monkeypatch):
    relations = recipe("relations")
    monkeypatch.setattr(relations, "FEWEST", 2)
    # Choice 0 has the terms 5 and 6, choice 1 term 7, choice 2 terms 8 to 10.
    first, count = np.array([5, 7, 8]), np.array([2, 1, 3])
    edges = [(0, "many", 1)] * 8 + [(1, "rare", 0)] + [(2, "some", 1), (1, "some", 2)]
    drawn = relations.Edges(edges, first, count)
    assert drawn.labels == ["many", "some"]
    terms, labels = drawn.draw(np.random.default_rng(0), 3000)
    heads, tails = terms[:3000], terms[3000:]
    assert {tuple(pair) for pair in zip(heads, tails, strict=True)} == {
        (5, 7), (6, 7), (8, 7), (9, 7), (10, 7), (7, 8), (7, 9), (7, 10)
    }  # fmt: skip
    assert set(heads[labels == 0]) == {5, 6}
    # 8 and 2 edges, as their roots.
    assert np.count_nonzero(labels == 0) == pytest.approx(2000, abs=80)


def test_the_losses_are_those_of_plain_loops(recipe):
    relate = recipe("relate")
    torch.manual_seed(1)
    vectors, before, related, ends = (torch.randn(count, 6) for count in (8, 8, 4, 6))
    before[2] = before[5] + 0.01  # may mean the same by the start
    concepts = torch.tensor([0, 0, 1, 1, 2, 2, 0, 0])
    english = torch.tensor([True, False, True, True, False, True, False, False])
    negative = torch.ones(4, 4, dtype=torch.bool)
    for one, other in ((0, 2), (1, 3), (0, 1)):
        negative[one, other] = negative[other, one] = False
    negative.fill_diagonal_(False)
    labels = torch.tensor([0, 2, 1])
    head = torch.nn.Linear(12, 3).requires_grad_(False)
    batch = relate.Batch(None, concepts, english, None, negative, None, labels)

    def unit(rows):
        return [row / row.norm() for row in rows]

    def contrast(units, partner, others, temperature):
        total = 0.0
        for row, one in enumerate(units):
            power = [math.exp(float(one @ other) / temperature) for other in units]
            mine = power[partner(row)]
            rest = sum(power[place] for place in range(len(units)) if others(row, place))
            total -= math.log(mine / (mine + rest))
        return total / len(units)

    now, was = unit(vectors), unit(before)
    assert float(was[2] @ was[5]) > relate.SAME

    def apart(one, other):
        return concepts[one] != concepts[other] and float(was[one] @ was[other]) <= relate.SAME

    expected = contrast(now, lambda row: row ^ 1, apart, relate.TEMPERATURE)
    assert float(relate.alike_and_apart(vectors, before, batch)) == pytest.approx(
        expected, rel=1e-4
    )
    expected = contrast(
        unit(related),
        lambda row: (row + 2) % 4,
        lambda one, other: bool(negative[one, other]),
        relate.RELATED_TEMPERATURE,
    )
    assert float(relate.near(related, negative)) == pytest.approx(expected, rel=1e-4)
    chosen = [place for place in range(8) if english[place]]
    expected = sum(
        float(now[one] @ now[other] - was[one] @ was[other]) ** 2
        for one in chosen for other in chosen
    ) / len(chosen) ** 2  # fmt: skip
    assert float(relate.kept(vectors, before, english)) == pytest.approx(expected, rel=1e-4)
    assert float(relate.kept(vectors, before, torch.zeros(8, dtype=torch.bool))) == 0.0
    expected = 0.0
    for place, label in enumerate(labels.tolist()):
        scores = head.weight @ torch.cat([ends[place], ends[3 + place]]) + head.bias
        expected -= float(scores[label] - torch.logsumexp(scores, 0)) / 3
    assert float(relate.told(head, ends, labels)) == pytest.approx(expected, rel=1e-4)


@pytest.fixture
def work(tmp_path):
    """A graph with extra terms, as prepare.py makes them."""
    terms = ["concept_id\tterm\tlang"]
    for number, names in enumerate(("heart attack", "fever|heat", "cold|chill", "pain|ache"), 1):
        terms += [f"C:{number}\t{name}\ten" for name in names.split("|")]
    terms.append("C:4\tweh\tde")
    (tmp_path / "terms.tsv").write_text("\n".join(terms) + "\n", encoding="utf-8")
    build_kg([open_source(f"table={tmp_path / 'terms.tsv'}")], tmp_path / "train.kg")
    (tmp_path / "extra.tsv").write_text(
        "term\tconcept\tlanguage\tweight\nheart stopped\tC:1\tx-note-en\t5\nheiss\tC:2\tde\t1\n",
        encoding="utf-8",
    )
    return tmp_path


@pytest.fixture
def relate(recipe, work, tables, monkeypatch):
    """The script, with steps as small as the graph of `work`."""
    module = recipe("relate")
    for name, value in (("SYNONYMS", 3), ("RELATED", 4), ("EDGES", 5)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(recipe("relations"), "FEWEST", 1)
    monkeypatch.setattr(module, "DATA", tables.parent)
    (work / "english").mkdir()
    pq.write_table(
        pa.table({"head": ["C:1", "C:3"], "relation": ["causes", "is_a"], "tail": ["C:4", "C:2"]}),
        work / "english" / "relations.parquet",
    )
    return module


def test_batches_are_made_of_the_terms_that_they_say(relate, recipe, work, tables):
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="mean")
    items = recipe("relations").read_related(tables, without=set())
    draws = relate.Draws(encoder, work, items, work / "tokens")
    kg = KG.open(work / "train.kg")
    texts = [text for block in kg.terms.blocks(8) for text in block[1].to_pylist()]
    texts += ["heart stopped", "heiss"]
    texts += sorted({text for one in items for text in (one.term, one.item)})
    tokens = [tuple(ids) for ids in encoder.tokenize(texts)]

    def said(packed):
        flat = packed.tokens.tolist()
        spans = zip(packed.starts.tolist(), packed.lengths.tolist(), strict=True)
        return [tuple(flat[start : start + length]) for start, length in spans]

    of = {text: kg.index(one) for text, one in (("heart stopped", "C:1"), ("heiss", "C:2"))}
    german = {tokens[texts.index(text)] for text in ("weh", "heiss")}
    spoken = set()
    labels = {}
    for step in range(1, 30):
        batch = draws.batch(step)
        drawn = said(batch.synonyms)
        for place, concept in enumerate(batch.concepts.tolist()):
            names = [text for text, *_ in kg.terms.of(concept)]
            names += [text for text, number in of.items() if number == concept]
            assert drawn[place] in {tokens[texts.index(name)] for name in names}
            assert drawn[place] != drawn[place ^ 1]
        assert batch.english.tolist() == [one not in german for one in drawn]
        spoken |= {*drawn} & german
        pairs = set(zip(said(batch.related)[:4], said(batch.related)[4:], strict=True))
        assert pairs <= {
            tuple(tokens[texts.index(text)] for text in (one.term, one.item)) for one in items
        }
        ends = said(batch.edges)
        for place, label in enumerate(batch.labels.tolist()):
            name = draws.edges.labels[label]
            labels.setdefault(name, set()).add((ends[place], ends[5 + place]))
    assert spoken == german
    assert set(labels) == {"causes", "is_a"} | {one.label for one in items}
    ends = [tuple(encoder.tokenize([text])[0]) for text in ("heart attack", "pain", "ache")]
    assert labels["causes"] == {(ends[0], ends[1]), (ends[0], ends[2])}
    for step, batch in enumerate(draws.batches(6), 1):
        assert torch.equal(batch.synonyms.tokens, draws.batch(step).synonyms.tokens)
        assert torch.equal(batch.labels, draws.batch(step).labels)
    assert step == 6


def test_related_terms_come_nearer_and_labels_are_told(relate, work, monkeypatch):
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="mean")
    save_encoder(encoder, work / "start")
    asked = work / "asked.tsv"
    asked.write_text("term1\tterm2\tscore\nCold Pill\trash\t3\n", encoding="utf-8")
    drawn = []
    pairs = relate.Pairs
    monkeypatch.setattr(
        relate, "Pairs", lambda items, number: drawn.extend(items) or pairs(items, number)
    )
    arguments = [work / "start", "--work", work, "--test", asked, "--out", work / "near"]
    arguments += ["--steps", 60, "--rate", 3e-3]
    monkeypatch.setattr(sys, "argv", ["relate.py", *map(str, arguments)])
    relate.main()
    assert ("cold pill", "fever") in {(one.term, one.item) for one in drawn}
    assert ("cold pill", "rash") not in {(one.term, one.item) for one in drawn}

    before, after = (TransformerEncoder.load(work / name) for name in ("start", "near"))
    assert (after.pooling, after.max_length) == ("mean", 32)

    def margin(encoder):
        ends = [
            encoder.encode(some) for some in zip(*((x.term, x.item) for x in drawn), strict=True)
        ]
        every = ends[0] @ ends[1].T
        return float(np.diag(every).mean() - every.mean())

    assert margin(after) > margin(before) + 0.05
    lines = (work / "near.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    assert [line["step"] for line in steps] == [20, 40, 60]
    assert set(steps[0]) == {"synonyms", "related", "edges", "alike", "step", "seconds"}
    assert steps[-1]["edges"] < steps[0]["edges"]


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
