"""The search over preferred names: a score while training, and hard negatives."""

import numpy as np
import pytest

from medcoder.errors import InputError
from medcoder.train import session as nearest
from medcoder.train.extra import Extra, read_queries
from medcoder.train.session import accuracy, hard_negatives
from support import naive
from support.training import CONCEPTS, graph_rows, make_encoder, make_graph


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("nearest") / "kg")


@pytest.fixture(scope="module")
def encoder():
    return make_encoder(dropout=0.3).train()


@pytest.fixture(params=[(1 << 16, 1 << 28), (5, 60), (1, 1)], ids=["at once", "blocks", "one"])
def blocks(request, monkeypatch):
    """Names at a time, and similarities at a time: 60 are two rows and a half."""
    names, scores = request.param
    monkeypatch.setattr(nearest, "_NAMES", names)
    monkeypatch.setattr(nearest, "_SCORES", scores)


def vectors_of(encoder, texts):
    """One by one, so that nothing can get out of order."""
    return [encoder.encode([text])[0].astype(float).tolist() for text in texts]


def naive_near(kg, encoder, count):
    names = vectors_of(encoder, [kg.preferred(concept) for concept in kg])
    found = []
    for place, name in enumerate(names):
        others = [n for n in range(len(names)) if n != place]
        others.sort(key=lambda other, name=name: -naive.cosine(name, names[other]))
        found.append(others[:count])
    return found


# Hard negatives


@pytest.mark.usefixtures("blocks")
def test_neighbours_equal_the_loops(kg, encoder):
    found = hard_negatives(kg)(encoder)
    assert found.shape == (CONCEPTS, 8) and found.dtype == np.int64
    assert found.tolist() == naive_near(kg, encoder, 8)
    assert encoder.training  # and what is dropped in training is not dropped here


@pytest.mark.parametrize(("size", "expected"), [(2, [[1], [0]]), (1, [[0]])])
def test_few_concepts_have_few_neighbours(tmp_path, encoder, size, expected):
    """Where there is no other, the sampler passes over the concept itself."""
    kg = make_graph(tmp_path / "kg", terms=graph_rows()["terms"][: 5 * size], edges=())
    assert hard_negatives(kg)(encoder).tolist() == expected


def test_what_is_being_done_is_told(kg, encoder, monkeypatch):
    monkeypatch.setattr(nearest, "_NAMES", 10)
    monkeypatch.setattr(nearest, "_SCORES", 12 * CONCEPTS)
    seen = []
    hard_negatives(kg, lambda *what: seen.append(what))(encoder)
    names = [("encoding names", done, 24) for done in (10, 20, 24)]
    assert seen == [*names, *(("finding hard negatives", done, 24) for done in (12, 24))]
    seen.clear()
    accuracy(kg, Extra(["heart"], [0], [""], [1]), lambda *what: seen.append(what))(encoder)
    assert seen == names


# The score


@pytest.mark.usefixtures("blocks")
def test_the_score_equals_the_loops(kg, encoder):
    """Names of concepts with a few letters changed: some are found, some are not."""
    draw = np.random.default_rng(0)
    texts, weights = [], []
    for concept in kg:
        letters = list(kg.preferred(concept))
        for place in draw.integers(0, len(letters), 4):
            letters[place] = "abdegiklmnorstu"[draw.integers(15)]
        texts.append("".join(letters))
        weights.append(int(draw.integers(0, 4)))
    names = vectors_of(encoder, [kg.preferred(concept) for concept in kg])
    right = []
    for concept, vector in enumerate(vectors_of(encoder, texts)):
        cosines = [naive.cosine(vector, name) for name in names]
        right.append(cosines.index(max(cosines)) == concept)
    assert 4 < sum(right) < 20
    queries = Extra(texts, list(range(CONCEPTS)), [""] * CONCEPTS, weights)
    counted = sum(weight for weight, good in zip(weights, right, strict=True) if good)
    scores = accuracy(kg, queries)(encoder)
    assert scores == {"score": pytest.approx(counted / sum(weights))}
    assert encoder.training


def test_concepts_of_one_name_are_not_told_apart(tmp_path, encoder):
    rows = graph_rows()["terms"][:20]
    name = rows[0][1]
    for place, called in ((0, name.title()), (15, name.upper())):  # the best of numbers 0 and 3
        rows[place] = (rows[place][0], called, *rows[place][2:])
    kg = make_graph(tmp_path / "kg", terms=rows, edges=())
    assert [kg.preferred(f"C000000{n}") for n in (0, 3)] == [name.title(), name.upper()]
    queries = Extra([name] * 3, [0, 3, 1], [""] * 3, [1, 1, 1])
    assert accuracy(kg, queries)(encoder) == {"score": pytest.approx(2 / 3)}


# Tables of queries


def test_tables_of_queries(kg, tmp_path):
    path = tmp_path / "queries.tsv"
    path.write_text('query\tconcept\tnote\nbad "heart"\tC0000003\tx\n\nheadache\tC0000001\t\n')
    queries = read_queries(path, kg)
    assert (queries.texts, queries.concepts) == (['bad "heart"', "headache"], [3, 1])
    assert queries.weights == [1, 1]


@pytest.mark.parametrize(
    ("text", "row", "what"),
    [
        ("term,concept\nx,C0000001\n", 1, "no such column: query; there are: term, concept"),
        ("query,concept\nx,C0000001\ny,C77\n", 3, "query 'y', concept 'C77'"),
        ("query,concept\n,C0000001\n", 2, "query ''"),
        ("query,concept\n", None, "has no queries"),
        ("query,concept,weight\nx,C0000001,0\n", None, "has no queries"),
    ],
)
def test_a_table_of_queries_with_an_error(kg, tmp_path, text, row, what):
    path = tmp_path / "queries.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_queries(path, kg)
    assert (caught.value.file, caught.value.row) == (str(path), row)
    assert what in str(caught.value) and caught.value.remedy
