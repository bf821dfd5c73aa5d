"""Vectors of a graph: which strings, once each, after any kill; and the small file of them."""

import errno
import fcntl
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save

from medcoder.artefact import verify
from medcoder.errors import ArtefactError, DiskFull, UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.columns import Terms
from medcoder.kg.keys import hash_text
from medcoder.vectors import NO_ROW, Vectors, widen
from medcoder.vectors import embed as module
from medcoder.vectors.embed import embed, make_plan, row_texts, text_hashes
from medcoder.vectors.known import Known, known_vectors, open_seed, save_seed
from support.memory import MemorySource


class Fake:
    """Unit vectors drawn from a digest of the text; remembers what it was asked."""

    def __init__(self, name="a", *, width=6, fail_at=None):
        self.fingerprint, self.width = name, width
        self.texts, self.calls, self._fail_at = [], 0, fail_at

    def encode(self, texts):
        self.calls += 1
        if self.calls == self._fail_at:
            raise KeyboardInterrupt
        self.texts += texts
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text):
        digest = hashlib.blake2b(f"{self.fingerprint} {text}".encode()).digest()
        numbers = np.random.default_rng(list(digest)).standard_normal(self.width)
        return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def graph(path, names, *, extensions=()):
    """A graph of these terms: a list of names for each concept."""
    rows = [
        (f"C{number:04}", name, "en", "MSH", f"{number}-{place}", "PT", place)
        for number, terms in enumerate(names)
        for place, name in enumerate(terms)
    ]
    flags = [(f"C{number:04}", "extension") for number in extensions]
    build_kg([MemorySource(terms=rows, flags=flags)], path)
    return KG.open(path)


def naive_plan(kg):
    """Row of each term, and the text of each row."""
    rows, found = {}, []
    for concept in kg:
        without = {"extension", "heading"} & set(kg.flags_of(concept))
        for term in kg.terms_of(concept):
            found.append(NO_ROW if without else rows.setdefault(term.text, len(rows)))
    return found, list(rows)


def content(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def left(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    """Two hundred concepts whose names repeat, a tenth of them extensions."""
    rng = random.Random(0)
    names = [[f"name {rng.randrange(300)}" for _ in range(rng.randrange(1, 5))] for _ in range(200)]
    path = tmp_path_factory.mktemp("vectors") / "kg"
    return graph(path, names, extensions=range(0, 200, 10))


@pytest.fixture
def shards(monkeypatch):
    """Small enough that there are many."""
    monkeypatch.setattr(module, "_SHARD", 16)


@pytest.fixture
def expected(kg, shards, tmp_path_factory):
    """What an undisturbed run makes of the graph."""
    path = tmp_path_factory.mktemp("expected") / "it"
    embed(kg, Fake(), path)
    return content(path)


# Which strings


def check_plan(kg):
    term_row, texts = naive_plan(kg)
    plan = make_plan(kg)
    assert plan.term_row.tolist() == term_row
    assert plan.first_term.tolist() == [term_row.index(row) for row in range(len(texts))]
    assert plan.hashes.tolist() == [hash_text(text) for text in texts]
    found = list(row_texts(kg, plan.first_term))
    assert [text for _, block in found for text in block] == texts
    starts = np.cumsum([0] + [len(block) for _, block in found])
    assert [start for start, _ in found] == starts[:-1].tolist()
    return len(found)


@pytest.mark.parametrize("size", [1, 7, 1 << 18])
def test_the_plan_equals_a_loop(kg, toy_kg, monkeypatch, size):
    blocks = Terms.blocks
    monkeypatch.setattr(Terms, "blocks", lambda self: blocks(self, size))
    assert (check_plan(kg) > 5) is (size < 10)
    check_plan(toy_kg)


@settings(max_examples=15)
@given(
    st.lists(st.lists(st.sampled_from(["ab", "Ab", "éa", "心", "🫀 ab"]), min_size=1), min_size=1),
    st.sets(st.integers(0, 5)),
)
def test_the_plan_of_any_graph(tmp_path_factory, names, extensions):
    path = tmp_path_factory.mktemp("any") / "kg"
    check_plan(graph(path, names, extensions=[n for n in extensions if n < len(names)]))


def test_strings_of_the_toy_graph(toy_kg, tmp_path):
    encoder = Fake()
    vectors = embed(toy_kg, encoder, tmp_path / "it")
    terms = [term.text for concept in toy_kg for term in toy_kg.terms_of(concept)]
    rows = vectors.term_row.tolist()
    without = ["Diabetes mellitus", "Multiple injuries, initial"]  # of a block and an extension
    assert Counter(encoder.texts) == Counter(set(terms) - set(without))
    assert [text for text, row in zip(terms, rows, strict=True) if row == NO_ROW] == without
    epilepsie = [place for place, text in enumerate(terms) if text == "Épilepsie"]
    assert len(epilepsie) == 2 and vectors.terms_of(rows[epilepsie[0]]).tolist() == epilepsie
    assert len({rows[terms.index(text)] for text in ("cold", "Cold")}) == 2  # by case too


def test_hashes_of_any_text():
    texts = ["", "a", "b", "ab", "é", "e\u0301", "\x00", "\x00\x00", "🫀", "心" * 40_000, "A"]
    found = text_hashes(pa.array(texts, pa.large_string()))
    assert found.tolist() == [hash_text(text) for text in texts]
    assert len(set(found.tolist())) == len(texts)
    assert text_hashes(pa.array(texts, pa.large_string())[3:5]).tolist() == found[3:5].tolist()


# The directory


def test_every_term_has_the_vector_of_its_text(kg, shards, tmp_path):
    encoder = Fake()
    vectors = embed(kg, encoder, tmp_path / "it")
    assert set(Counter(encoder.texts).values()) == {1}
    term_row, texts = naive_plan(kg)
    assert vectors.term_row.tolist() == term_row and encoder.texts == texts
    halves = np.stack([encoder.vector(text) for text in texts]).astype(np.float16)
    assert vectors.rows.dtype == np.float16 and (vectors.rows == halves).all()
    assert (vectors.take(np.array([3, 0, 3])) == halves[[3, 0, 3]].astype(np.float32)).all()
    for row in range(len(texts)):
        assert vectors.terms_of(row).tolist() == [n for n, r in enumerate(term_row) if r == row]
    assert vectors.first_terms().tolist() == [term_row.index(row) for row in range(len(texts))]
    assert vectors.hashes.tolist() == [hash_text(text) for text in texts]
    assert (len(vectors), vectors.width, vectors.encoder) == (len(texts), 6, "a")
    assert vectors.meta["parents"] == {"kg": kg.fingerprint, "encoder": "a"}
    assert repr(vectors) == f"Vectors({str(tmp_path / 'it')!r}: {len(texts)} rows of 6)"
    verify(tmp_path / "it", kind="vectors")
    assert left(tmp_path) == ["it"]
    again = Vectors.open(str(tmp_path / "it"), kg=kg)
    assert again.fingerprint == vectors.fingerprint and (again.rows == halves).all()


def test_a_graph_without_strings_to_embed(tmp_path):
    empty = graph(tmp_path / "kg", [["xx", "yy"]], extensions=[0])
    encoder = Fake()
    vectors = embed(empty, encoder, tmp_path / "it")
    assert len(vectors) == 0 and vectors.rows.shape == (0, 6) and encoder.calls == 0
    assert vectors.term_row.tolist() == [-1, -1] and vectors.first_terms().tolist() == []
    save_seed(vectors, tmp_path / "seed")
    places, rows = open_seed(tmp_path / "seed").find(np.array([1, 2], np.uint64))
    assert places.tolist() == [] and rows.shape == (0, 6)


def test_vectors_of_another_graph(kg, toy_kg, tmp_path):
    embed(toy_kg, Fake(), tmp_path / "it")
    with pytest.raises(
        ArtefactError, match=r"it: the vectors are of another graph: not .*Embed this"
    ):
        Vectors.open(tmp_path / "it", kg=kg)
    with pytest.raises(ArtefactError, match="not"):
        Vectors.open(kg.path)


@pytest.mark.parametrize("harm", ["missing", "cut", "longer"])
def test_damaged_vectors(toy_kg, tmp_path, harm):
    embed(toy_kg, Fake(), tmp_path / "it")
    names = set(left(tmp_path / "it")) - {"meta.json"}
    assert len(names) == 5
    for name in names:
        file = tmp_path / "it" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] if harm == "cut" else whole + b"x")
        if harm == "missing":
            file.unlink()
        with pytest.raises(
            ArtefactError, match=f"{name}: the vectors are damaged: it .*Copy or build it again"
        ):
            Vectors.open(tmp_path / "it")
        file.write_bytes(whole)
    assert len(Vectors.open(tmp_path / "it")) > 30


def test_what_is_there_is_not_overwritten_unasked(kg, toy_kg, tmp_path):
    embed(toy_kg, Fake(), tmp_path / "it")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.txt").write_text("years of work")
    encoder = Fake("b")
    with pytest.raises(UsageError, match=r"it: it exists\. Choose another place"):
        embed(kg, encoder, tmp_path / "it")
    with pytest.raises(ArtefactError, match="papers: it is not"):
        embed(kg, encoder, tmp_path / "papers", overwrite=True)
    assert encoder.calls == 0, "hours of work before the error"
    assert embed(kg, encoder, tmp_path / "it", overwrite=True).encoder == "b"
    assert left(tmp_path) == ["it", "papers"]


# Going on


def test_an_interrupt_and_going_on(kg, expected, tmp_path):
    total = len(naive_plan(kg)[1])
    first, seen = Fake(fail_at=4), []
    with pytest.raises(KeyboardInterrupt):
        embed(kg, first, tmp_path / "it", progress=lambda *call: seen.append(call))
    assert seen == [("embedding", done, total) for done in (0, 16, 32, 48)]
    assert left(tmp_path) == [".it.embedding"]
    second, seen = Fake(), []
    embed(kg, second, tmp_path / "it", progress=lambda *call: seen.append(call))
    assert seen == [("embedding", min(done, total), total) for done in range(48, total + 16, 16)]
    assert content(tmp_path / "it") == expected
    assert Counter(first.texts + second.texts) == Counter(naive_plan(kg)[1])
    assert left(tmp_path) == ["it"]


KILLED = """
import json, os, random, shutil, signal, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parent)]
from test_vectors import Fake, content
from medcoder.kg import KG
from medcoder.vectors import embed as module

EVENTS = ("open", "os.", "shutil.")
module._SHARD = 16
kg, folder = KG.open(sys.argv[2]), Path(sys.argv[3])

class Writing(Fake):
    def encode(self, texts):
        with open(self.log, "a") as log:
            log.writelines(f"{text}\\n" for text in texts)
        return super().encode(texts)

def run(path, kill_at):
    '''Embed in a child, which is killed at that event; whether it lived, and its events.'''
    seen, (reader, writer) = 0, os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with open(reader) as pipe:
            events = pipe.read()
        return os.waitpid(child, 0)[1] == 0, int(events or 0)
    def watch(event, arguments):
        nonlocal seen
        if event.startswith(EVENTS):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    encoder = Writing()
    encoder.log = f"{path}.log"
    module.embed(kg, encoder, path, overwrite=path.exists())
    os.write(writer, str(seen).encode())
    os._exit(0)

rng = random.Random(int(sys.argv[4]))
_, events = run(folder / "whole", None)
whole, report = content(folder / "whole"), []
for trial in range(int(sys.argv[5])):
    path, kills, lost = folder / f"{trial}", 0, 0
    # Anywhere, and once close to the end, where most can go wrong.
    points = [rng.randrange(1, events) for _ in range(3)] + [events - rng.randrange(60)]
    rng.shuffle(points)
    for point in [*points, None]:
        alive, _ = run(path, point)
        kills += not alive
        if path.exists():
            break
    texts = Path(f"{path}.log").read_text().splitlines()
    report.append([alive, kills, len(texts), len(set(texts)), content(path) == whole])
    hidden = [name for name in os.listdir(folder) if name.startswith(".")]
    if alive and hidden:
        raise SystemExit(f"left behind: {hidden}")
    for name in hidden:  # of a kill after all was done
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
print(json.dumps([events, report]))
"""


def test_kills_at_any_moment(kg, tmp_path):
    arguments = [Path(__file__).parent, kg.path, tmp_path, 1, 16]
    command = [sys.executable, "-c", KILLED, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    events, report = json.loads(done.stdout)
    rows = len(naive_plan(kg)[1])
    assert events > 100 and sum(kills for _, kills, *_ in report) > 16
    for _, kills, encoded, distinct, same in report:
        assert same and distinct == rows
        assert encoded <= rows + 16 * kills, "more than a shard was lost to a kill"


def interrupted(kg, path, *, name="a", at=4):
    """Leave the work of a few shards behind."""
    with pytest.raises(KeyboardInterrupt):
        embed(kg, Fake(name, fail_at=at), path)
    return path.parent / f".{path.name}.embedding"


@pytest.mark.parametrize(
    ("name", "harm", "lost"),
    [
        ("row.vector.float16", lambda data: data + b"half a row", 0),
        ("row.vector.float16", lambda data: data[: 20 * 12 + 5], 28),  # the disk lost some
        ("row.vector.float16", lambda data: b"", 48),
        ("row.vector.float16", None, 48),
        ("state.json", None, 48),
        ("state.json", lambda data: b"", 48),
        ("state.json", lambda data: data[:-9], 48),
        ("state.json", lambda data: b"[]", 48),
        ("state.json", lambda data: b"null", 48),
        ("state.json", lambda data: b"\xff", 48),
        ("state.json", lambda data: data.replace(b"48", b'"x"'), 48),
        ("state.json", lambda data: data.replace(b"48", b"null"), 48),
        ("state.json", lambda data: data.replace(b"48", b"-1"), 48),
        ("state.json", lambda data: data.replace(b"48", b"999999"), 0),
        ("state.json", lambda data: data.replace(b'"done"', b'"gone"'), 48),
    ],
)
def test_unfinished_work_that_is_damaged(kg, expected, tmp_path, name, harm, lost):
    work = interrupted(kg, tmp_path / "it")
    whole = (work / name).read_bytes()
    (work / name).unlink()
    if harm is not None:
        (work / name).write_bytes(harm(whole))
    encoder = Fake()
    embed(kg, encoder, tmp_path / "it")
    assert content(tmp_path / "it") == expected
    assert len(encoder.texts) == len(naive_plan(kg)[1]) - 48 + lost


def test_another_encoder_or_graph_starts_anew(kg, toy_kg, expected, tmp_path):
    work = interrupted(kg, tmp_path / "it")
    interrupted(kg, tmp_path / "it", name="b", at=2)
    assert json.loads((work / "state.json").read_text())["done"] == 16
    interrupted(toy_kg, tmp_path / "it", at=2)
    encoder = Fake()
    embed(kg, encoder, tmp_path / "it")
    assert content(tmp_path / "it") == expected
    assert Counter(encoder.texts) == Counter(naive_plan(kg)[1])


@pytest.mark.parametrize("step", [1, 2])
def test_rows_of_one_encoder_never_pass_for_those_of_another(
    kg, expected, tmp_path, monkeypatch, step
):
    interrupted(kg, tmp_path / "it")
    write, calls = module.write_json, 0

    def stopped(*arguments):
        nonlocal calls
        calls += 1
        if calls == step:
            raise KeyboardInterrupt
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_json", stopped)
        with pytest.raises(KeyboardInterrupt):
            embed(kg, Fake("b"), tmp_path / "it")
    embed(kg, Fake(), tmp_path / "it")
    assert content(tmp_path / "it") == expected


def stop_at_the_very_end(kg, path, monkeypatch):
    """Vectors are there, and so is the work on them."""

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "remove_at_once", stopped)
        embed(kg, Fake(), path)
    assert left(path.parent) == [".it.embedding", "it"]


def test_work_that_a_kill_left_beside_its_vectors_goes(kg, tmp_path, monkeypatch):
    stop_at_the_very_end(kg, tmp_path / "it", monkeypatch)
    with pytest.raises(UsageError, match="it exists"):
        embed(kg, Fake(), tmp_path / "it")
    assert left(tmp_path) == ["it"]


def test_work_on_other_vectors_is_kept(kg, tmp_path):
    embed(kg, Fake(), tmp_path / "it")
    with pytest.raises(KeyboardInterrupt):
        embed(kg, Fake("b", fail_at=1), tmp_path / "it", overwrite=True)
    with pytest.raises(UsageError, match="it exists"):
        embed(kg, Fake("b"), tmp_path / "it")
    assert left(tmp_path) == [".it.embedding", "it"]


def test_a_stop_at_the_very_end_and_another_encoder(kg, expected, tmp_path, monkeypatch):
    stop_at_the_very_end(kg, tmp_path / "it", monkeypatch)
    # All is there, and nothing that comes later may write into it.
    for at in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            embed(kg, Fake("b", fail_at=at), tmp_path / "it", overwrite=True)
        assert content(tmp_path / "it") == expected
    assert embed(kg, Fake("b"), tmp_path / "it", overwrite=True).encoder == "b"
    assert left(tmp_path) == ["it"]


@pytest.mark.parametrize("step", ["write_array", "_link", "_mapping"])
def test_an_interrupt_while_finishing_loses_no_vector(kg, expected, tmp_path, monkeypatch, step):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, step, stopped)
        embed(kg, Fake(), tmp_path / "it")
    assert left(tmp_path) == [".it.embedding"]
    encoder = Fake()
    embed(kg, encoder, tmp_path / "it")
    assert content(tmp_path / "it") == expected and encoder.calls == 0


def test_a_file_system_without_links(kg, expected, tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    embed(kg, Fake(), tmp_path / "it")
    assert content(tmp_path / "it") == expected and left(tmp_path) == ["it"]


def test_two_processes_do_not_write_into_one_another(kg, expected, tmp_path):
    interrupted(kg, tmp_path / "it")
    encoder = Fake()
    with (tmp_path / ".it.embedding.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match=r"it: another process is making it\. Wait"):
            embed(kg, encoder, tmp_path / "it")
    assert encoder.calls == 0
    embed(kg, encoder, tmp_path / "it")
    assert content(tmp_path / "it") == expected


# No room


def test_no_room_for_vectors(kg, expected, tmp_path):
    first, second = Fake(), Fake()
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 12 * 5 + 7, was[1]))  # five shards and a bit
    try:
        with pytest.raises(
            DiskFull, match=r"it: no room left to write it: .*What is embedded stays"
        ):
            embed(kg, first, tmp_path / "it")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
    embed(kg, second, tmp_path / "it")
    assert content(tmp_path / "it") == expected
    assert len(first.texts + second.texts) == len(naive_plan(kg)[1]) + 16


def test_no_room_for_the_rest(kg, expected, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(DiskFull, match="no room left to write"):
        patch.setattr(module, "write_array", full)
        embed(kg, Fake(), tmp_path / "it")
    encoder = Fake()
    embed(kg, encoder, tmp_path / "it")
    assert content(tmp_path / "it") == expected and encoder.calls == 0


# Known vectors


def test_known_vectors_spare_encoding(kg, toy_kg, expected, shards, tmp_path):
    whole = embed(kg, Fake(), tmp_path / "whole")
    half = graph(tmp_path / "half.kg", [[f"name {n}" for n in range(0, 300, 2)], ["new"]])
    encoder = Fake()
    some = embed(half, encoder, tmp_path / "half", known=[known_vectors(whole)])
    both = set(naive_plan(half)[1]) & set(naive_plan(kg)[1])
    assert len(both) > 100 and "new" in encoder.texts
    assert Counter(encoder.texts) == Counter(set(naive_plan(half)[1]) - both)
    third = graph(tmp_path / "third", [[f"name {n}" for n in range(0, 300, 3)]])
    others = [embed(other, Fake(), tmp_path / f"of {other.path.name}") for other in (toy_kg, third)]
    encoder = Fake()
    known = [known_vectors(vectors) for vectors in (others[0], some, others[1])]
    embed(kg, encoder, tmp_path / "it", known=known)
    assert content(tmp_path / "it") == expected
    there = {text for graph in (half, third) for text in naive_plan(graph)[1]}
    assert Counter(encoder.texts) == Counter(set(naive_plan(kg)[1]) - there)
    encoder = Fake()
    embed(kg, encoder, tmp_path / "again", known=[known_vectors(whole)])
    assert content(tmp_path / "again") == expected and encoder.calls == 0


def test_known_vectors_of_another_encoder(kg, toy_kg, tmp_path):
    other = known_vectors(embed(toy_kg, Fake("b"), tmp_path / "toy"))
    encoder = Fake()
    with pytest.raises(UsageError, match=r"toy: it was not made by this encoder\. Leave it out"):
        embed(kg, encoder, tmp_path / "it", known=[other])
    assert encoder.calls == 0 and left(tmp_path) == ["toy"]


HASHES = st.integers(0, 2**64 - 1) | st.integers(0, 5) | st.integers(2**64 - 5, 2**64 - 1)


@given(st.lists(HASHES, unique=True), st.lists(HASHES))
def test_finding_equals_a_dictionary(stored, asked):
    rows = np.arange(len(stored), dtype=np.float16)[:, None]
    known = Known(Path("x"), "a", np.array(stored, np.uint64), lambda places: rows[places])
    asked = asked + stored[::2]
    places, found = known.find(np.array(asked, np.uint64))
    expected = [(n, stored.index(hashed)) for n, hashed in enumerate(asked) if hashed in stored]
    assert list(zip(places.tolist(), found[:, 0].tolist(), strict=True)) == expected


# The small file


def seed_of(rows):
    hashes = np.arange(len(rows), dtype=np.uint64)[::-1] * np.uint64(3)
    return SimpleNamespace(rows=rows, hashes=hashes, width=rows.shape[1], encoder="some encoder")


def units(count, width, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


@given(
    st.integers(0, 5).flatmap(lambda count: st.integers(1, 9).map(lambda width: (count, width))),
    st.data(),
)
def test_a_seed_gives_back_its_rows(tmp_path_factory, shape, data):
    values = st.floats(-1, 1, width=16)
    rows = np.array(
        [[data.draw(values) for _ in range(shape[1])] for _ in range(shape[0])], np.float16
    ).reshape(shape)
    made = seed_of(rows)
    file = tmp_path_factory.mktemp("seed") / "seed"
    save_seed(made, file)
    known = open_seed(file)
    assert (known.path, known.encoder) == (file, "some encoder")
    asked = np.append(made.hashes, np.uint64(1))
    places, found = known.find(asked)
    assert places.tolist() == list(range(len(rows)))  # the last is not in it
    assert found.shape == rows.shape and found.dtype == np.float16
    wide = rows.astype(np.float64)
    step = np.abs(wide).max(1, keepdims=True, initial=0) / 2047
    # Half a step, and what float16 leaves of it.
    assert (np.abs(found - wide) <= step * 0.51 + np.abs(wide) * 2.0**-11 + 6e-8).all()


def test_a_seed_keeps_cosines_and_is_small(tmp_path):
    rows = units(600, 384)
    save_seed(seed_of(rows), tmp_path / "seed")
    _, found = open_seed(tmp_path / "seed").find(seed_of(rows).hashes)
    wide, near = rows.astype(np.float64), found.astype(np.float64)
    assert np.abs(wide @ near.T - wide @ wide.T).max() < 2e-4
    assert np.abs(near @ near.T - wide @ wide.T).max() < 2e-4
    assert np.abs(wide - near).max() > 1e-6, "it is smaller, so something must be lost"
    assert (tmp_path / "seed").stat().st_size < 600 * (384 * 1.5 + 12) + 500
    assert (tmp_path / "seed").stat().st_mode & 0o777 == 0o666 & ~_mask()


def _mask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_graph_from_a_seed(kg, shards, tmp_path):
    whole = embed(kg, Fake(), tmp_path / "whole")
    save_seed(whole, tmp_path / "seed")
    encoder = Fake()
    made = embed(kg, encoder, tmp_path / "it", known=[open_seed(tmp_path / "seed")])
    assert encoder.calls == 0
    assert made.rows == pytest.approx(whole.rows.astype(np.float64), abs=8e-4)
    assert (made.term_row == whole.term_row).all()


def harmed_seed(file, harm):
    stored = load_file(file)
    if harm == "no column":
        del stored["low"]
    if harm == "short column":
        stored["scale"] = stored["scale"][:-1]
    about = {"encoder": "e"} if harm != "no encoder" else None
    file.write_bytes(save(stored, metadata=about))
    whole = file.read_bytes()
    changed = {
        "cut": whole[:-1],
        "empty": b"",
        "zeros": bytes(len(whole)),
        "noise": np.random.default_rng(0).bytes(len(whole)),
    }
    file.write_bytes(changed.get(harm, whole))
    if harm == "missing":
        file.unlink()


HARMS = ["cut", "empty", "zeros", "noise", "missing", "no column", "short column", "no encoder"]


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_seeds(tmp_path, harm):
    save_seed(seed_of(units(5, 8)), tmp_path / "seed")
    harmed_seed(tmp_path / "seed", harm)
    with pytest.raises(
        ArtefactError, match=r"seed: it cannot be read: .*\. Install medcoder again"
    ):
        open_seed(tmp_path / "seed")


# Half precision


def test_widening_all_there_are():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    assert len(halves) == 63_488
    wide = widen(halves)
    assert wide.dtype == np.float32
    assert (wide.view(np.uint32) == halves.astype(np.float32).view(np.uint32)).all()  # -0.0 too


def test_widening_any_shape_without_touching_it():
    halves = units(12, 5)
    halves.setflags(write=False)
    for part in (halves, halves[::2], halves[:, ::2], halves.T, halves[:0], halves[3]):
        found = widen(part)
        assert found.shape == part.shape and (found == part.astype(np.float32)).all()
