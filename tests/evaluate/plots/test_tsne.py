"""t-SNE: what is sampled, what is drawn, and that it is the same every time."""

import re

import numpy as np
import pytest

from medcoder.errors import UsageError
from medcoder.evaluate.plots import tsne_concepts, tsne_terms
from medcoder.evaluate.plots.tsne import dense, flattened
from medcoder.evaluate.plots.tsne_sample import sample_concepts, sample_terms
from medcoder.evaluate.results import Vectors
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.types import Vocabulary
from support.evaluated import said
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
        ("C0", "more of c0", "en", "ICD10CM", "A0", "includes", 10),  # no name
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
