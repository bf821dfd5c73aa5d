"""Every kind of index keeps one contract; a new entry of the table is tested the day it appears."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.arrays import write_array
from medcoder.artefact import create
from medcoder.errors import ArtefactError, UsageError
from medcoder.index import INDEXES, build_index, choose, open_index
from medcoder.index import exact as exact_module
from medcoder.index import ivf as ivf_module
from medcoder.index import stored as stored_module
from medcoder.index.clusters import Clusters, _shared
from medcoder.index.exact import Neighbours, scan, settle
from medcoder.index.ivf import IvfIndex
from medcoder.index.stored import Stored
from medcoder.vectors import KIND, VERSION, Vectors

ROWS, WIDTH, K = 6000, 32, 10
COPIES = {17: 300, 41: 25}  # rows, and how many rows are equal to each
kinds = pytest.mark.parametrize("kind", INDEXES)
on_disk = pytest.mark.parametrize("kind", [kind for kind in INDEXES if kind != "exact"])


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def make_vectors(path, rows):
    """Vectors of as many terms, each with a text of its own."""
    count = len(rows)
    with create(path, kind=KIND, version=VERSION, parents={"kg": "k", "encoder": "e"}) as draft:
        write_array(draft.path, "row.vector", rows.astype(np.float16))
        write_array(draft.path, "row.hash", np.arange(count, dtype=np.uint64))
        write_array(draft.path, "term.row", np.arange(count, dtype=np.int32))
        write_array(draft.path, "row.terms", np.arange(count, dtype=np.int32))
        write_array(draft.path, "row.first", np.arange(count + 1, dtype=np.int64))
        draft.meta |= {"width": rows.shape[1], "rows": count}
    return Vectors.open(path)


def make_index(kind, vectors, folder):
    folder.mkdir()
    build_index(kind, vectors, folder)
    return open_index(kind, vectors, folder)


def brute(rows, queries, k, allowed=None):
    """Every cosine by itself, in float64; equal ones by row."""
    numbers = np.arange(len(rows)) if allowed is None else np.flatnonzero(allowed)
    scores = np.asarray(queries, np.float64) @ np.asarray(rows, np.float64)[numbers].T
    order = [np.lexsort((numbers, -line.round(6)))[:k] for line in scores]
    return np.array([numbers[places] for places in order])


def all_in_order(found, rows, queries, numbers):
    """Every one of some rows, best first but for rounding."""
    scores = np.asarray(queries, np.float64) @ np.asarray(rows, np.float64).T
    along = np.take_along_axis(scores, found, 1)
    return (np.sort(found) == np.sort(numbers)).all() and (np.diff(along) < 1e-6).all()


def right(found, expected):
    """The part of the expected rows that were found."""
    pairs = zip(found.rows.tolist(), expected.tolist(), strict=True)
    return np.mean([len(set(one) & set(other)) / max(len(other), 1) for one, other in pairs])


@pytest.fixture(scope="module")
def data():
    """Rows around 200 middles, some of them equal, and queries not far from a row."""
    rng = np.random.default_rng(7)
    middles = rng.standard_normal((200, WIDTH))
    rows = middles[rng.integers(0, 200, ROWS)] + 0.6 * rng.standard_normal((ROWS, WIDTH))
    free = rng.permutation(np.arange(50, ROWS))
    for row, count in COPIES.items():
        rows[free[: count - 1]] = rows[row]
        free = free[count - 1 :]
    rows = unit(rows)
    queries = unit(rows[rng.choice(free, 60, replace=False)] + 0.1 * rng.standard_normal((60, 32)))
    return rows, queries


@pytest.fixture(scope="module")
def vectors(data, tmp_path_factory):
    return make_vectors(tmp_path_factory.mktemp("vectors") / "v", data[0])


@pytest.fixture(scope="module")
def folder(vectors, tmp_path_factory):
    """Where the index of each kind is."""
    place = tmp_path_factory.mktemp("indexes")
    for kind in INDEXES:
        (place / kind).mkdir()
        build_index(kind, vectors, place / kind)
    return place


@pytest.fixture
def index(kind, vectors, folder):
    return open_index(kind, vectors, folder / kind)


# What is found


@kinds
def test_scores_are_cosines_of_the_rows_found(index, data):
    rows, queries = data
    scores, found = index.search(queries, K)
    assert (scores.shape, scores.dtype) == ((60, K), np.float32)
    assert (found.shape, found.dtype) == ((60, K), np.int64)
    exact = np.einsum("qkd,qd->qk", rows[found].astype(np.float64), queries)
    assert np.abs(scores - exact).max() < 1e-3
    assert (np.diff(scores) <= 0).all()
    assert all(len(set(line)) == K for line in found.tolist())


@kinds
def test_finds_what_comparing_all_finds(index, kind, vectors, data):
    _, queries = data
    expected = brute(vectors.rows, queries, K)
    found = index.search(queries, K)
    if kind == "exact":
        assert found.rows.tolist() == expected.tolist()
    assert (found.rows[:, 0] == expected[:, 0]).all()
    assert right(found, expected) >= 0.98


@kinds
def test_one_query_or_many_the_answer_is_the_same(index, data):
    _, queries = data
    many = index.search(queries, K)
    for place, query in enumerate(queries):
        one = index.search(query[None], K)
        assert one.rows.tolist() == many.rows[place : place + 1].tolist()
        assert one.scores.tolist() == many.scores[place : place + 1].tolist()
    none = index.search(queries[:0], K)
    assert (none.scores.shape, none.rows.shape) == ((0, K), (0, K))


@kinds
@pytest.mark.parametrize(("row", "count"), COPIES.items())
def test_equal_rows_come_by_number(index, vectors, data, row, count):
    rows, queries = data
    copies = np.flatnonzero((rows == rows[row]).all(1)).tolist()
    assert len(copies) == count
    query = unit(rows[row] + 0.01 * queries[0])
    mixed = np.concatenate([queries[:20], query[None], queries[20:], query[None]])
    for k in (1, K, 40):
        first = copies[:k]
        for found in (index.search(query[None], k), index.search(mixed, k)):
            assert found.rows[-1].tolist()[: len(first)] == first
        assert found.rows[20].tolist() == found.rows[-1].tolist()
        assert len(set(found.scores[-1, : len(first)].tolist())) == 1
    assert right(found, brute(vectors.rows, mixed, 40)) >= 0.97


@kinds
def test_a_query_as_near_to_all_rows_gives_the_first(index):
    found = index.search(np.zeros((1, WIDTH), np.float32), K)
    assert found.rows.tolist() == [list(range(K))]
    assert found.scores.tolist() == [[0.0] * K]


@kinds
@pytest.mark.parametrize("count", [1, 2, 5, 300])
def test_more_asked_for_than_there_is(kind, count, data, tmp_path):
    rows, queries = data[0][:count], data[1][:3]
    vectors = make_vectors(tmp_path / "v", rows)
    index = make_index(kind, vectors, tmp_path / kind)
    found = index.search(queries, count + 7)
    assert all_in_order(found.rows[:, :count], vectors.rows, queries, np.arange(count))
    assert (found.rows[:, count:] == -1).all()
    assert found.scores.shape == (3, count + 7)
    assert np.isneginf(found.scores[:, count:]).all()
    assert np.isfinite(found.scores[:, :count]).all()


@kinds
def test_all_rows_asked_for(index, vectors, data):
    found = index.search(data[1][:2], ROWS + 1)
    assert all_in_order(found.rows[:, :-1], vectors.rows, data[1][:2], np.arange(ROWS))
    assert found.rows[:, -1].tolist() == [-1, -1]


# Filters


def masks():
    rng = np.random.default_rng(3)
    one = np.zeros(ROWS, np.bool_)
    one[1234] = True
    return {"one row": one} | {
        f"{share:.0%}": rng.random(ROWS) < share for share in (0.01, 0.3, 0.9)
    }


@kinds
@pytest.mark.parametrize("name", masks())
def test_filters_lose_nothing(index, vectors, data, name):
    allowed, (_, queries) = masks()[name], data
    expected = brute(vectors.rows, queries, K, allowed)
    for found in (index.search(queries, K, allowed=allowed) for _ in range(2)):
        real = found.rows != -1
        assert (real.sum(1) == min(K, allowed.sum())).all()
        assert allowed[found.rows[real]].all()
        assert right(found, expected) >= (0.98 if name == "90%" else 1.0)
    one = index.search(queries[5:6], K, allowed=allowed)
    assert one.rows.tolist() == found.rows[5:6].tolist()


@kinds
def test_filters_that_allow_all_or_nothing(index, data):
    _, queries = data
    free, all_of_them = (
        index.search(queries, K, allowed=allowed) for allowed in (None, np.ones(ROWS, np.bool_))
    )
    assert free.rows.tolist() == all_of_them.rows.tolist()
    nothing = index.search(queries, K, allowed=np.zeros(ROWS, np.bool_))
    assert (nothing.rows == -1).all()
    assert np.isneginf(nothing.scores).all()
    assert nothing.rows.shape == (60, K)


@kinds
def test_rows_far_from_the_query_are_found_by_a_filter(index, vectors, data):
    """As terms of another language may be: none of them is where the query is."""
    rows, queries = data
    allowed = rows @ queries[0] < -0.1
    found = index.search(queries[:1], K, allowed=allowed)
    assert right(found, brute(vectors.rows, queries[:1], K, allowed)) == 1.0


@kinds
def test_equal_rows_come_by_number_through_a_filter(index, data):
    rows, _ = data
    allowed = np.arange(ROWS) % 2 == 1
    allowed[:100] = False
    copies = np.flatnonzero((rows == rows[17]).all(1) & allowed)
    found = index.search(rows[17:18], 20, allowed=allowed)
    assert found.rows.tolist() == [copies[:20].tolist()]


@kinds
def test_a_filter_is_not_mistaken_for_another(kind, vectors, folder, data, monkeypatch):
    """Not even when another thread searches between the parts of a search."""
    _, queries = data
    index = open_index(kind, vectors, folder / kind)
    low, high = np.arange(ROWS) < 600, np.arange(ROWS) >= ROWS - 600
    expected = {id(mask): brute(vectors.rows, queries, K, mask).tolist() for mask in (low, high)}
    halves, nested = Stored.halves, []

    def interrupted(self, numbers):
        if not nested:
            nested.append("once")
            nested.append(index.search(queries, K, allowed=high).rows.tolist())
        return halves(self, numbers)

    monkeypatch.setattr(Stored, "halves", interrupted)
    for mask in (low, high, low, high):
        assert index.search(queries, K, allowed=mask).rows.tolist() == expected[id(mask)]
    assert nested[1] == expected[id(high)]


# Building, opening, and what cannot be


@kinds
def test_nothing_to_search(kind, tmp_path):
    vectors = make_vectors(tmp_path / "v", np.zeros((0, WIDTH), np.float32))
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path / 'v'}: no vectors")):
        build_index(kind, vectors, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["v"]


@kinds
def test_an_index_that_moved_answers_as_before(kind, vectors, folder, data, tmp_path):
    allowed = np.random.default_rng(1).random(ROWS) < 0.5
    before = open_index(kind, vectors, folder / kind)
    shutil.copytree(folder / kind, tmp_path / "moved")
    after = open_index(kind, vectors, tmp_path / "moved")
    for mask in (None, allowed):
        one, other = (each.search(data[1], K, allowed=mask) for each in (before, after))
        assert one.rows.tolist() == other.rows.tolist()
        assert one.scores.tolist() == other.scores.tolist()


DAMAGES = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + bytes(12)),
}


@on_disk
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_errors(kind, damage, vectors, folder, tmp_path):
    names = [path.name for path in (folder / kind).iterdir()]
    assert names
    for name in names:
        place = tmp_path / name
        shutil.copytree(folder / kind, place)
        DAMAGES[damage](place / name)
        with pytest.raises(ArtefactError, match=re.escape(str(place))):
            open_index(kind, vectors, place)


@on_disk
def test_flipped_bits_are_errors_or_harmless(kind, vectors, folder, data, tmp_path):
    """faiss ends the process over some of them."""
    rows, queries = data
    rng = np.random.default_rng(5)
    refused = 0
    for number, name in enumerate(path.name for path in (folder / kind).iterdir()):
        for turn in range(8):
            place = tmp_path / f"{number}-{turn}"
            shutil.copytree(folder / kind, place)
            content = bytearray((place / name).read_bytes())
            spot = turn * 9 if turn < 4 else int(rng.integers(len(content)))
            content[spot] ^= 0x80
            (place / name).write_bytes(content)
            try:
                found = open_index(kind, vectors, place).search(queries, K)
            except ArtefactError:
                refused += 1
                assert name.endswith((".faiss", ".lists", ".int64"))
                continue
            assert not name.endswith(".faiss")
            exact = np.einsum("qkd,qd->qk", rows[found.rows].astype(np.float64), queries)
            assert np.abs(found.scores - exact).max() < 1e-3
    assert refused >= 8


@on_disk
def test_an_index_of_other_vectors_is_refused(kind, vectors, folder, data, tmp_path):
    fewer = make_vectors(tmp_path / "fewer", data[0][:-1])
    narrow = make_vectors(tmp_path / "narrow", unit(data[0][:, :16]))
    for other in (fewer, narrow):
        with pytest.raises(ArtefactError, match=r"Build the index again|build the index again"):
            open_index(kind, other, folder / kind)


@kinds
def test_queries_and_masks_that_make_no_sense(index, data):
    query = data[1][:1]
    for bad in (query[0], query[:, :-1], np.full_like(query, np.nan)):
        with pytest.raises(UsageError, match="finite rows of 32 numbers"):
            index.search(bad, K)
    for mask in (np.ones(ROWS - 1, np.bool_), np.ones(ROWS, np.int8)):
        with pytest.raises(UsageError, match="a bool for each of the 6,000 rows"):
            index.search(query, K, allowed=mask)


def test_the_kind_suits_the_size():
    assert [choose(rows) for rows in (1, 20_000, 100_000, 15_500_000)] == [
        "exact",
        "exact",
        "ivf",
        "ivf",
    ]


@pytest.mark.parametrize("allowed", [None, np.arange(ROWS) % 10 != 1], ids=["all", "most"])
def test_rows_that_the_graph_does_not_lead_to_are_found(
    vectors, folder, data, monkeypatch, allowed
):
    index = open_index("hnsw", vectors, folder / "hnsw")
    graph = index._index

    class Island:
        """A graph whose parts are not connected."""

        def search(self, queries, k, params):
            scores, rows = graph.search(queries, k, params=params)
            rows[:, 40:], scores[:, 40:] = -1, -np.inf
            return scores, rows

    monkeypatch.setattr(index, "_index", Island())
    found = index.search(data[1], 39, allowed=allowed)
    assert right(found, brute(vectors.rows, data[1], 39, allowed)) == 1.0


# Lists, clusters, stored rows


@pytest.fixture
def narrow(monkeypatch):
    """Few lists are read, and filters are not searched exactly, as in a large index."""
    monkeypatch.setattr(ivf_module, "_PROBED", 4)
    monkeypatch.setattr(ivf_module, "_EXACT_SHARE", 0)
    monkeypatch.setattr(ivf_module, "_EXACT_ROWS", 0)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("share", [0.002, 0.1, 0.5])
def test_lists_are_read_until_there_are_enough_rows(vectors, folder, data, share):
    index = open_index("ivf", vectors, folder / "ivf")
    allowed = np.random.default_rng(2).random(ROWS) < share
    count = int(allowed.sum())
    for k in (K, 1500, ROWS):
        found = index.search(data[1][:5], k, allowed=allowed)
        assert ((found.rows != -1).sum(1) == min(k, count)).all()
        assert allowed[found.rows[found.rows != -1]].all()
    numbers = np.flatnonzero(allowed)
    assert all_in_order(found.rows[:, :count], vectors.rows, data[1][:5], numbers)
    free = index.search(data[1][:5], 3000)
    assert (free.rows != -1).all()


@pytest.mark.usefixtures("narrow")
def test_the_selector_of_a_filter_is_not_that_of_another(vectors, folder, data):
    index = open_index("ivf", vectors, folder / "ivf")
    for mask in (np.arange(ROWS) < 2000, np.arange(ROWS) >= 4000, np.arange(ROWS) % 3 == 1):
        found = index.search(data[1], K, allowed=mask)
        assert mask[found.rows].all()
        assert right(found, brute(vectors.rows, data[1], K, mask)) > 0.9


@pytest.mark.usefixtures("narrow")
def test_lists_that_do_not_exist_are_errors(vectors, folder, data, tmp_path):
    allowed = np.arange(ROWS) > 3000
    for number, wrong in enumerate((-1, 10**6)):
        shutil.copytree(folder / "ivf", tmp_path / f"{number}")
        file = tmp_path / f"{number}" / "row.list.int32"
        list_of = np.fromfile(file, np.int32)
        list_of[5000] = wrong
        list_of.tofile(file)
        index = open_index("ivf", vectors, file.parent)
        with pytest.raises(ArtefactError, match=re.escape(f"{file}: it is damaged")):
            index.search(data[1], K, allowed=allowed)


@pytest.mark.parametrize("byte", [0x7F, 0x80])
def test_rows_that_do_not_exist_are_errors(vectors, folder, data, tmp_path, byte):
    shutil.copytree(folder / "ivf", tmp_path / "ivf")
    file = tmp_path / "ivf" / "ivf.lists"
    file.write_bytes(bytes([byte]) * file.stat().st_size)
    index = open_index("ivf", vectors, tmp_path / "ivf")
    with pytest.raises(ArtefactError, match="beyond the 6,000 there are"):
        index.search(data[1], K)


def test_more_is_fetched_until_it_is_settled(vectors, data, monkeypatch):
    """Candidates may be too few, or so near to the last of the best that others may be better."""
    rows, queries = data[0].astype(np.float64), data[1][:3]
    true = queries @ rows.T
    scores = true + np.random.default_rng(1).uniform(-0.05, 0.05, true.shape)
    asked = []

    def fetch(some, size):
        asked.append((len(some), size))
        places = [int((queries == query).all(1).argmax()) for query in some]
        order = np.argsort(-scores[places], axis=1)[:, :size]
        found = np.take_along_axis(scores[places], order, 1).astype(np.float32)
        if size == 12:  # the second query finds next to nothing at first
            order[1, 5:], found[1, 5:] = -1, -np.inf
        return Neighbours(found, order)

    found = settle(fetch, Stored(vectors), queries, K, first=12, among=ROWS, slack=0.1)
    assert found.rows.tolist() == brute(vectors.rows, queries, K).tolist()
    assert asked[0] == (3, 12)
    assert [size for _, size in asked] == [12 * 4**turn for turn in range(len(asked))]
    asked.clear()
    monkeypatch.setattr(exact_module, "_TIES", 0)
    found = settle(fetch, Stored(vectors), queries, K, first=12, among=ROWS, slack=0.1)
    assert asked == [(3, 12), (1, 48)]
    assert (found.rows != -1).all()


@pytest.mark.usefixtures("narrow")
def test_a_filter_far_from_the_query_reads_the_lists_it_is_in(vectors, folder, data):
    """Of the lists nearest to the query none has a row that the filter allows."""
    rows, queries = data
    index = open_index("ivf", vectors, folder / "ivf")
    allowed = rows @ queries[0] < -0.2
    assert 200 < allowed.sum() < 2000
    expected = brute(vectors.rows, queries[:1], K, allowed)
    assert right(index.search(queries[:1], K, allowed=allowed), expected) >= 0.5


def test_lists_are_the_same_however_large_the_blocks(vectors, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(ivf_module, "_SORTED", 700)
    IvfIndex.build(vectors, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in (folder / "ivf").iterdir()
    )
    for path in tmp_path.iterdir():
        if not path.name.endswith(".faiss"):
            assert path.read_bytes() == (folder / "ivf" / path.name).read_bytes()


@pytest.mark.parametrize("count", [1, 60, 400])
def test_nearly_every_row_is_put_to_its_nearest_centroid(data, count):
    rows, _ = data
    found = Clusters.train(rows[:4000], count)
    centroids = found.centroids
    assert centroids.shape == (count, WIDTH)
    assert np.abs(np.linalg.norm(centroids, axis=1) - 1).max() < 1e-5
    nearest = (rows @ centroids.T).argmax(1)
    assert (found.nearest(rows) == nearest).mean() >= (1.0 if count < 256 else 0.95)
    assert found.nearest(rows[:0]).tolist() == []
    # Twice as near as the same number of rows by chance
    chance = (rows @ rows[:count].T).max(1).mean()
    assert count == 1 or (rows @ centroids.T).max(1).mean() > chance


def test_centroids_when_rows_are_few_or_equal():
    same = unit(np.ones((300, WIDTH)))
    assert Clusters.train(same[:3], 10).centroids.shape == (3, WIDTH)
    found = Clusters.train(same, 280)
    assert found.centroids.shape == (280, WIDTH)
    assert np.isfinite(found.centroids).all()
    assert len(set(found.nearest(same).tolist())) == 1


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20), st.data())
def test_shares_add_up(sizes, drawn):
    sizes = np.array(sizes)
    if not sizes.sum():
        return
    count = drawn.draw(st.integers(np.count_nonzero(sizes), sizes.sum()))
    parts = _shared(sizes, count)
    assert parts.sum() == count
    assert (parts <= sizes).all()
    assert ((parts >= 1) == (sizes >= 1)).all()


def mapped(path):
    """Bytes of a file that are mapped into this process now."""
    found = re.findall(
        rf"{re.escape(str(path))}\n.*?^Rss: +(\d+) kB",
        Path("/proc/self/smaps").read_text(),
        re.M | re.S,
    )
    return 1024 * sum(map(int, found))


def test_stored_rows_do_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_module, "_MAPPED", 4 << 20)
    rng = np.random.default_rng(0)
    rows = rng.integers(-9, 9, (200_000, 64)).astype(np.float16)  # 26 MB
    vectors = make_vectors(tmp_path / "v", rows)
    file = tmp_path / "v" / "row.vector.float16"
    stored = Stored(vectors)
    seen = []
    for start in range(0, len(rows), 5000):
        block = stored[start : start + 5000]
        assert (block == rows[start : start + 5000]).all()
        if start % 20_000 == 0:
            seen.append(mapped(file))
    assert 0 < max(seen) < 12 << 20
    numbers = rng.permutation(len(rows))[:20_000]
    assert (stored.take(numbers) == rows[numbers]).all()
    assert (stored.halves(numbers) == rows[numbers]).all()
    assert mapped(file) <= max(seen)


def test_scan_by_blocks(data):
    rows, queries = data[0].astype(np.float16), np.tile(data[1], (20, 1))
    found = scan(rows, queries, 5)
    assert found.rows[:60].tolist() == found.rows[-60:].tolist() == brute(rows, data[1], 5).tolist()
    numbers = np.arange(ROWS) * 3 + 1
    assert (scan(rows, queries, 5, numbers).rows == 3 * found.rows + 1).all()
    assert scan(rows[:3], queries[:2], 5).rows.shape == (2, 3)
    signs = np.tile(np.array([[1, -1], [1, 1], [-1, 1]], np.float16), (900, 1))
    ties = scan(signs, np.array([[1, 1], [0, 1]], np.float32), 4)
    assert ties.rows.tolist() == [[1, 4, 7, 10], [1, 2, 4, 5]]
    assert scan(rows[:0], queries[:2], 5, numbers[:0]).rows.shape == (2, 0)
