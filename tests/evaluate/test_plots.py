"""Pictures: what they are made from, what they say, and that they are the same every time."""

import re
from itertools import pairwise

import numpy as np
import pytest

from medcoder.errors import UsageError
from medcoder.evaluate.plots import heat_map, reliability, risk_coverage, tsne_concepts, tsne_terms
from medcoder.evaluate.plots.charts import (
    Answers,
    area,
    binned,
    expected_error,
    read_answers,
    risks,
    wilson,
)
from medcoder.evaluate.plots.style import COLOURS, MARKERS, new_figure, save
from medcoder.evaluate.plots.tsne import dense, flattened
from medcoder.evaluate.plots.tsne_sample import sample_concepts, sample_terms
from medcoder.evaluate.protocols import Prediction, Vectors
from medcoder.evaluate.results import write_predictions
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.types import Vocabulary
from support.evaluated import score
from support.memory import MemorySource

CONCEPTS, TERMS = 8, 5
TYPES = ("Neoplasms", "Injury $1 & more")


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    """Eight concepts of five terms and two types in ICD10CM, and some that must not be drawn."""
    terms, types = [], []
    for concept in range(CONCEPTS):
        terms += [
            (f"C{concept}", f"c{concept} term {n}", "en", "ICD10CM", f"A{concept}", "PT", n)
            for n in range(TERMS)
        ]
        types.append((f"C{concept}", f"T{concept % 2}", TYPES[concept % 2]))
    terms += [
        ("C8", "c8 in another book", "en", "HP", "HP:8", "PT", 0),
        *((f"{x}", f"{x} same  name", "en", "ICD10CM", x, "PT", 0) for x in ("EXT", "BOTH")),
        ("C0", "C0 TERM 0", "en", "ICD10CM", "A0", "ET", 9),  # but for case, the same
    ]
    types += [("C8", "T0", TYPES[0]), ("EXT", "T0", TYPES[0])]
    types += [("BOTH", "T0", TYPES[0]), ("BOTH", "T1", TYPES[1])]
    source = MemorySource(
        name="icd",
        namespace="",
        vocabularies=(Vocabulary("ICD10CM", "1", ""), Vocabulary("HP", "1", "")),
        terms=terms,
        types=types,
        xrefs=[],
        flags=[("EXT", "extension")],
        edges=[("C0", "is_a", "C1")],
    )
    path = tmp_path_factory.mktemp("icd") / "icd.kg"
    build_kg([source], path)
    return KG.open(path)


class Fake:
    """Vectors by the concept that a text names, or none that mean anything."""

    kind, fingerprint, settings = "contextual", "f", {}

    def __init__(self, name="fake", *, good=True, unknown=()):
        self.name, self.good, self.unknown = name, good, unknown
        self.asked = []

    def embed(self, texts, *, ids=None, corpus=None):
        self.asked.append((list(texts), list(ids), list(corpus)))
        rng = np.random.default_rng(5)
        rows = rng.standard_normal((len(texts), 16)).astype(np.float32)
        if self.good:
            rows *= 0.05
            rows[np.arange(len(texts)), [int(text[1]) for text in texts]] += 1
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        known = np.array([text not in self.unknown for text in texts])
        rows[~known] = 0
        return Vectors(rows, known)


def said(path):
    """All words of an SVG."""
    text = path.read_text(encoding="utf-8")
    return [re.sub("<[^>]*>", "", found) for found in re.findall(r"<text.*?</text>", text, re.S)]


SMALL = {"concepts": CONCEPTS, "least": 4, "shown": 3}


def test_terms_are_grouped_by_concept_and_the_purity_is_said(kg, tmp_path):
    good, bad = Fake("good"), Fake("bad", good=False)
    png, svg = tsne_terms([good, bad], kg, tmp_path / "terms", **SMALL)
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    words = said(svg)
    assert {"good", "bad", f"{CONCEPTS * TERMS} terms of 8 ICD10CM concepts, 3 in colour"} <= {
        *words
    }
    purities = [float(found[1]) for w in words if (found := re.match(r"purity (\d\.\d+)", w))]
    texts, _, corpus = bad.asked[0]
    labels = np.array([int(text[1]) for text in texts])
    assert corpus == texts
    rows = bad.embed(texts, ids=[], corpus=[]).rows
    shares = []
    for own, row in enumerate(rows):
        order = sorted(
            (n for n in range(len(rows)) if n != own), key=lambda n: -float(row @ rows[n])
        )
        shares.append(np.mean([labels[n] == labels[own] for n in order[:4]]))
    assert purities == [1.0, pytest.approx(np.mean(shares), abs=0.0006)]


def test_every_group_in_colour_has_its_letter_among_its_points(kg, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(
        "medcoder.evaluate.plots.tsne.save", lambda figure, out: figures.append(figure)
    )
    tsne_terms([Fake(), Fake("other")], kg, tmp_path / "x", **SMALL)
    for axes in figures[0].axes:
        assert [letter.get_text() for letter in axes.texts] == ["A", "B", "C"]
        groups = axes.collections[1:]  # the first are those in grey
        for letter, group in zip(axes.texts, groups, strict=True):
            points = group.get_offsets().tolist()
            assert len(points) == TERMS
            assert list(letter.xy) in points


def test_concepts_are_coloured_by_type(kg, tmp_path):
    made = Fake()
    _, svg = tsne_concepts([made], kg, tmp_path / "types.svg", k=2)
    words = [word.replace("&amp;", "&") for word in said(svg)]
    assert {"A  Neoplasms", "B  Injury $1 & more"} <= set(words)
    assert sorted(made.asked[0][0]) == [f"c{n} term 0" for n in range(CONCEPTS)]
    assert made.asked[0][1][0] == "C0|A0"


def test_the_same_seed_gives_the_same_files(kg, tmp_path):
    for name in "ab":
        tsne_terms([Fake()], kg, tmp_path / name, **SMALL)
    for form in ("png", "svg"):
        assert (tmp_path / f"a.{form}").read_bytes() == (tmp_path / f"b.{form}").read_bytes()
    tsne_terms([Fake()], kg, tmp_path / "c", seed=1, **SMALL)
    assert (tmp_path / "c.svg").read_bytes() != (tmp_path / "a.svg").read_bytes()


def test_items_without_a_vector_are_left_out_and_counted(kg, tmp_path):
    unknown = [f"c0 term {n}" for n in range(TERMS)]
    _, svg = tsne_terms([Fake(unknown=unknown)], kg, tmp_path / "x", **SMALL)
    assert "87.5% known, the rest not drawn" in said(svg)
    every = [f"c{c} term {n}" for c in range(CONCEPTS) for n in range(TERMS)]
    with pytest.raises(UsageError, match="fake knows 2 of 40 items: too few"):
        tsne_terms([Fake(unknown=every[2:])], kg, tmp_path / "y", **SMALL)
    with pytest.raises(UsageError, match="no embedding to draw"):
        tsne_terms([], kg, tmp_path / "y", **SMALL)
    assert not (tmp_path / "y.png").exists()


def test_progress_counts_embeddings(kg, tmp_path):
    calls = []
    tsne_concepts(
        [Fake("a"), Fake("b")], kg, tmp_path / "x", k=2, progress=lambda *call: calls.append(call)
    )
    assert calls == [("t-SNE of a", 0, 2), ("t-SNE of b", 1, 2), ("t-SNE", 2, 2)]


def test_what_is_picked_is_of_the_vocabulary_and_each_text_once(kg):
    sample = sample_terms(kg, vocabulary="ICD10CM", concepts=5, least=5, shown=2, seed=0)
    assert len(sample.names) == 5
    assert len({text.lower() for text in sample.texts}) == len(sample.texts) == 5 * TERMS
    for text, label, ids in zip(sample.texts, sample.labels, sample.ids, strict=True):
        assert sample.names[label].split()[0].lower() == text.split()[0].lower()
        assert ids.split("|")[0] == text[:2].upper()
    # The two in colour are of two types.
    assert {int(sample.names[label][1]) % 2 for label in sample.shown} == {0, 1}
    again = sample_terms(kg, vocabulary="ICD10CM", concepts=5, least=5, shown=2, seed=0)
    assert again.texts == sample.texts


def test_concepts_of_several_types_and_extensions_are_not_picked(kg):
    options = {"vocabulary": "ICD10CM", "each": 3, "most": 8, "seed": 0}
    sample = sample_concepts(kg, types=None, **options)
    assert sample.names == list(TYPES)
    assert np.bincount(sample.labels).tolist() == [3, 3]
    assert all(text.startswith("c") for text in sample.texts)
    turned = sample_concepts(kg, types=[TYPES[1], "T0"], **options)
    assert turned.names == list(TYPES[::-1])


def test_what_is_not_in_the_graph_is_named(kg, tmp_path):
    with pytest.raises(UsageError, match=r"no terms of 'ICD9CM'\. There are: ICD10CM, HP"):
        tsne_terms([Fake()], kg, tmp_path / "x", vocabulary="ICD9CM")
    with pytest.raises(UsageError, match="has no semantic type 'T9'"):
        tsne_concepts([Fake()], kg, tmp_path / "x", types=["T9", "T0"])
    with pytest.raises(UsageError, match="0 concepts with at least 9 terms"):
        tsne_terms([Fake()], kg, tmp_path / "x", least=9)
    with pytest.raises(UsageError, match="1 semantic types with concepts of HP"):
        tsne_concepts([Fake()], kg, tmp_path / "x", vocabulary="HP", types=["T0"])
    with pytest.raises(UsageError, match="13 concepts cannot be told apart"):
        tsne_terms([Fake()], kg, tmp_path / "x", shown=13)


def test_sparse_rows_keep_their_distances():
    from scipy.sparse import csr_array

    rows = np.random.default_rng(0).random((12, 40)) * (
        np.random.default_rng(1).random((12, 40)) > 0.7
    )
    points = dense(csr_array(rows.astype(np.float32)))
    assert points.shape[1] <= 12
    assert points @ points.T == pytest.approx(rows @ rows.T, abs=1e-5)


def test_groups_stay_together_in_the_plane():
    rng = np.random.default_rng(0)
    points = np.repeat(np.eye(3, 8), 10, axis=0) + 0.01 * rng.standard_normal((30, 8))
    flat = flattened(points.astype(np.float32), seed=0)
    apart = ((flat[:, None] - flat[None]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (apart.argmin(axis=1) // 10 == np.arange(30) // 10).all()


def test_shapes_differ_without_colour_and_neighbouring_colours_in_grey():
    assert len(set(MARKERS)) == len(MARKERS) == 12

    def grey(colour):
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    assert min(abs(grey(one) - grey(other)) for one, other in pairwise(COLOURS)) > 25


def test_saving_leaves_two_files_and_nothing_else(tmp_path):
    figure = new_figure(2, 2)
    figure.subplots().set_title("背痛")  # in no font: no warning
    assert save(figure, tmp_path / "new" / "v1.2.png") == [
        tmp_path / "new" / "v1.2.png",
        tmp_path / "new" / "v1.2.svg",
    ]
    assert save(figure, tmp_path / "new" / "v1.3")[0].name == "v1.3.png"
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "v1.2.png",
        "v1.2.svg",
        "v1.3.png",
        "v1.3.svg",
    ]


# Confidence


@pytest.fixture
def answers():
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 11, 200) / 10  # many ties, and both ends
    return Answers(scores, rng.random(200) < scores)


def test_bins_are_those_of_a_loop(answers):
    made = binned(answers, 4)
    groups = {}
    for score_of, right in zip(*answers, strict=True):
        groups.setdefault(min(int(score_of * 4), 3), []).append((score_of, right))
    expected = [np.mean(groups[place], axis=0) for place in sorted(groups)]
    assert made.score == pytest.approx([pair[0] for pair in expected])
    assert made.accuracy == pytest.approx([pair[1] for pair in expected])
    assert made.sizes.tolist() == [len(groups[place]) for place in sorted(groups)]
    naive = sum(len(g) / 200 * abs(np.mean(g, axis=0) @ [1, -1]) for g in groups.values())
    assert expected_error(made) == pytest.approx(naive)
    assert binned(Answers(np.array([1.0, 0.05]), np.array([True, False])), 10).sizes.tolist() == [
        1,
        1,
    ]


def test_wilson_intervals_by_hand():
    # 8 of 10: 0.490 to 0.943 (Newcombe 1998)
    below, above = wilson(np.array([0.8]), np.array([10]))[:, 0]
    assert (0.8 - below, 0.8 + above) == (
        pytest.approx(0.490, abs=5e-4),
        pytest.approx(0.943, abs=5e-4),
    )
    assert wilson(np.array([0.0, 1.0]), np.array([5, 5]))[[0, 1], [0, 1]].tolist() == [0, 0]


def test_risk_at_each_threshold_is_that_of_a_loop(answers):
    coverage, risk = risks(answers)
    thresholds = sorted(set(answers.scores.tolist()), reverse=True)
    given = [answers.scores >= threshold for threshold in thresholds]
    assert coverage == pytest.approx([some.mean() for some in given])
    assert risk == pytest.approx([(~answers.right[some]).mean() for some in given])
    perfect = Answers(np.array([0.9, 0.8, 0.1, 0.2]), np.array([True, True, False, False]))
    # risks 0, 0, 1/3, 1/2, a quarter of the queries each
    assert area(perfect) == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)


@pytest.fixture
def files(tmp_path):
    made = {}
    for name, right in (("sure", "A"), ("un$ure", "B")):
        rows = [
            Prediction(f"q{n}", "en", "all", "A", "", (right,), (right,), (n / 10,), False)
            for n in range(10)
        ]
        rows.append(Prediction("q", "en", "all", "A", "", (), (), (), False))
        rows.append(Prediction("n", "en", "all", "A", "", ("A",), ("a",), (-0.5,), False))
        made[name] = tmp_path / f"{name}.jsonl"
        write_predictions(made[name], rows)
    return made


def test_answers_are_read_from_predictions(files):
    found = read_answers(files["sure"])
    assert found.scores.tolist() == [n / 10 for n in range(10)] + [0.0, 0.0]
    assert found.right.tolist() == [True] * 10 + [False, True]


def test_curves_say_their_figures(files, tmp_path):
    words = said(reliability(files, tmp_path / "reliability")[1])
    some = binned(read_answers(files["sure"]), 10)
    assert f"sure: calibration error {expected_error(some):.3f}" in words
    words = said(risk_coverage(files, tmp_path / "risk")[1])
    assert f"un$ure: area {area(read_answers(files['un$ure'])):.3f}" in words
    assert "% of the answers that are wrong" in words


def test_curves_of_nothing_are_an_error(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    for draw in (reliability, risk_coverage):
        with pytest.raises(UsageError, match="there are no predictions to draw"):
            draw({}, tmp_path / "x")
        with pytest.raises(UsageError, match="no predictions of m to draw"):
            draw({"m": tmp_path / "empty.jsonl"}, tmp_path / "x")


# Languages by corpora


def test_every_cell_has_its_number_or_a_dash(tmp_path):
    scores = [
        score("m", value, bench="mantra", metric="f1", split=split)
        for split, value in (
            ("de/EMEA", 0.5),
            ("fr/EMEA", 0.25),
            ("fr/Medline", 0.75),
            ("fr", 0.1),
            ("unseen/fr", 0.2),
        )
    ]
    words = said(heat_map(scores, tmp_path / "heat")[1])
    assert {"de", "fr", "EMEA", "Medline", "50.0", "25.0", "75.0", "–", "m"} <= set(words)
    assert not {"10.0", "20.0", "unseen"} & set(words)
    one = said(heat_map(scores[:1], tmp_path / "one")[1])
    assert "50.0" in one


def test_a_heat_map_of_nothing_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no scores 'f1' of 'mantra'"):
        heat_map([score("m", 0.5)], tmp_path / "heat")
