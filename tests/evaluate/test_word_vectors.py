"""Word and concept vectors: the forms of their files, what is looked up, and bad files."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.errors import InputError, UsageError
from medcoder.evaluate.embeddings import load
from medcoder.evaluate.embeddings.static import Bags, means, unit
from medcoder.evaluate.embeddings.vector_file import VectorFile

WORDS = {
    "heart": [1, 2, 2],
    "Attack": [0, 3, 4],
    "COPD": [2, 0, 0],
    "crohn's": [0, 0, 5],
    "type": [1, 1, 0],
    "2": [0, 1, 0],
    "épilepsie": [0.5, -0.25, 1e-3],
}


def binary(words, *, ends=b""):
    dimension = len(next(iter(words.values())))
    rows = (
        word.encode() + b" " + struct.pack(f"<{dimension}f", *vector) + ends
        for word, vector in words.items()
    )
    return f"{len(words)} {dimension}\n".encode() + b"".join(rows)


def text(words, *, separator=" ", ends="\n"):
    rows = (separator.join([word, *map(repr, vector)]) + ends for word, vector in words.items())
    return "".join(rows).encode()


def header(words):
    return f"{len(words)} {len(next(iter(words.values())))}\n".encode()


def csv(words, *, named=True):
    dimension = len(next(iter(words.values())))
    names = ",".join(['""', *(f'"V{n + 1}"' for n in range(dimension))]) + "\n"
    rows = "".join(
        ",".join([f'"{word}"', *map(repr, vector)]) + "\n" for word, vector in words.items()
    )
    return ((names if named else "") + rows).encode()


FORMS = {
    "binary": (binary(WORDS), "word2vec binary"),
    "binary with line ends": (binary(WORDS, ends=b"\n"), "word2vec binary"),
    "text": (header(WORDS) + text(WORDS), "word2vec text"),
    "text as the first tool writes it": (header(WORDS) + text(WORDS, ends=" \n"), "word2vec text"),
    "glove": (text(WORDS), "text"),
    "glove without the last line end": (text(WORDS)[:-1], "text"),
    "glove of Windows": (text(WORDS, ends="\r\n"), "text"),
    "tabs": (text(WORDS, separator="\t"), "text"),
    "text with tabs": (header(WORDS) + text(WORDS, separator="\t"), "word2vec text"),
    "csv": (csv(WORDS), "csv"),
    "csv without names": (csv(WORDS, named=False), "csv"),
}


def written(tmp_path, content, name="vectors.any"):
    file = tmp_path / name
    file.write_bytes(content)
    return file


# Files


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found_out_and_read(form, tmp_path):
    content, name = FORMS[form]
    file = VectorFile(written(tmp_path, content))
    assert (file.form, file.dimension, len(file)) == (name, 3, len(WORDS))
    for number, (word, vector) in enumerate(WORDS.items()):
        assert file.find(word) == number
        assert np.array_equal(file.vector(number), np.array(vector, np.float32))
    assert [file.find(word) for word in ("attack", "hear", "heart ", "", "\ud800")] == [-1] * 5


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=8),
        st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=20,
    )
)
def test_round_trips(tmp_path_factory, words):
    folder = tmp_path_factory.mktemp("vectors")
    for content in (binary(words), header(words) + text(words)):
        file = VectorFile(written(folder, content))
        assert len(file) == len(words)
        for word, vector in words.items():
            assert np.array_equal(file.vector(file.find(word)), np.array(vector, np.float32))


def test_words_of_glove_may_have_spaces_and_commas(tmp_path):
    words = {
        ",": [0.1, 0.2],
        ". . .": [0.3, 0.4],
        "at name@domain.com": [1.0, 2.0],
        "1,000": [3, 4],
    }
    file = VectorFile(written(tmp_path, text(words)))
    assert [file.find(word) for word in words] == [0, 1, 2, 3]
    assert file.vector(1) == pytest.approx([0.3, 0.4])


def test_of_a_key_twice_the_first_counts(tmp_path):
    file = VectorFile(written(tmp_path, b"a 1 1\nb 2 2\na 3 3\n"))
    assert file.find("a") == 0 and len(file) == 3


def test_keys_with_the_same_hash_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.evaluate.embeddings.vector_file.hash", len, raising=False)
    file = VectorFile(written(tmp_path, b"a 1 1\nb 2 2\ncc 4 4\nc 3 3\n"))
    assert [file.find(key) for key in ("a", "b", "c", "cc", "d", "dd")] == [0, 1, 3, 2, -1, -1]


@pytest.mark.parametrize(
    ("content", "row", "message"),
    [
        (b"", None, "it cannot be read"),
        (b"\x1f\x8b\x08", None, "it is a gzip file. Unpack it first"),
        (b"PK\x03\x04", None, "it is a zip file. Unpack it first"),
        (b"heart\n", 1, "neither `count dimension` nor a key and numbers"),
        (b"\x00\x01 \x02 3\n", 1, "neither `count dimension` nor a key and numbers"),
        (b"once upon a time\n", 1, "the vector of 'once' is not made of numbers"),
        (b"a 1 2\nb 3\n", 2, "1 numbers, where others have 2"),
        (b"a 1 2\n\nb 3 .4 .5 6\n", 3, "4 numbers, where others have 2"),
        (b'"","V1","V2"\n"C1",1,2\n"C2",1\n', 3, "1 numbers, where others have 2"),
        (b"3 2\na 1 2\nb 3 4\n", 1, "it has 2 vectors, and its first line says 3"),
        (b"1 2\na 1 2\nb 3 4\n", 1, "it has 2 vectors, and its first line says 1"),
        (b"1 0\na\n", 1, "its vectors have no dimension"),
        (binary(WORDS)[:-1], 7, "it ends within a vector, and its first line says 7"),
        (binary(WORDS) + b"more", 7, "there is more after the 7 vectors"),
    ],
)
def test_bad_files(content, row, message, tmp_path):
    file = written(tmp_path, content)
    with pytest.raises(InputError) as caught:
        VectorFile(file)
    assert message in str(caught.value)
    assert (caught.value.file, caught.value.row) == (str(file), row)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "row", "message"),
    [
        (b"a 1 2\n\nb x 4\n", 3, "could not convert"),
        (b"2 2\na 1 2\nb nan 4\n", 3, "one is not finite"),
        (b'"","V1","V2"\n"a",1,2\n"b",,3\n', 3, "could not convert"),
        (binary({"a": [1, 2], "b": [float("inf"), 0]}), 2, "one is not finite"),
    ],
)
def test_bad_numbers_are_errors_when_they_are_asked_for(
    content, row, message, tmp_path, monkeypatch
):
    monkeypatch.setattr("medcoder.evaluate.embeddings.vector_file._BYTES", 3)
    file = VectorFile(written(tmp_path, content))
    assert file.vector(file.find("a")).tolist() == [1, 2]
    with pytest.raises(InputError, match=message) as caught:
        file.vector(file.find("b"))
    assert caught.value.row == row


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_no_file(name, tmp_path):
    with pytest.raises(InputError, match=r"there is no such file|it cannot be read"):
        load(f"word:{tmp_path / name}")


# Bags


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=30), st.integers(1, 5))
def test_means_equal_a_loop(bags, block):
    table = np.arange(15, dtype=np.float32).reshape(5, 3) ** 1.5
    members = np.array([member for bag in bags for member in bag], np.int64)
    starts = np.cumsum([0, *map(len, bags)]).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medcoder.evaluate.embeddings.static._BLOCK", block)
        found = means(Bags(table, members, starts))
    expected = [table[bag].mean(0) if bag else np.zeros(3) for bag in bags]
    assert found == pytest.approx(np.array(expected).reshape(-1, 3), rel=1e-5)


def test_unit_rows():
    rows = unit(np.array([[3, 4], [0, 0]], np.float32))
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))


# Words


@pytest.fixture
def words(tmp_path):
    return load(f"word:{written(tmp_path, binary(WORDS), 'words.bin')}")


def test_a_term_is_the_mean_of_its_words(words):
    rows, known = words.embed(["heart attack", "Heart of nothing", "nothing", "", "épilepsie"])
    mean = np.array([0.5, 2.5, 3.0])
    assert rows[0] == pytest.approx(mean / np.linalg.norm(mean))
    assert rows[1] == pytest.approx(np.array([1, 2, 2]) / 3)
    assert known.tolist() == [True, True, False, False, True]
    assert not rows[2:4].any()
    assert words.raw(["heart attack"]).rows[0] == pytest.approx(mean)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("HEART", [("HEART", 0)]),  # in lower case
        ("attack", [("attack", 1)]),  # with a capital
        ("copd", [("copd", 2)]),  # in capitals
        ("Crohn's heart,", [("Crohn's", 3), ("heart", 0)]),
        ("type-2 (heart)", [("type", 4), ("2", 5), ("heart", 0)]),  # its parts
        ("heart_attack/heart", [("heart", 0), ("attack", 1), ("heart", 0)]),
        ("non-heart", [("non", -1), ("heart", 0)]),
        ("?!", []),
    ],
)
def test_words_of_a_term(words, term, expected):
    assert words.words(term) == expected


def test_words_out_of_vocabulary(words):
    missing = words.missing(["heart attack", "heart of gold", "", "non-heart"])
    assert missing.tolist() == [False, False, False, True, True, True, False]
    assert len(words.missing([])) == 0


def test_what_is_said_of_word_vectors(words, tmp_path):
    assert (words.name, words.kind) == ("words.bin", "word")
    assert words.settings == {
        "pooling": "mean of words",
        "dimension": 3,
        "vocabulary": 7,
        "form": "word2vec binary",
    }
    changed = written(tmp_path, binary(WORDS | {"heart": [1, 2, 3]}))
    assert load(f"word:{changed}").fingerprint != words.fingerprint


def test_only_words_that_are_needed_are_kept(words):
    bags = words.bags(["heart attack", "nothing", "heart heart"])
    assert bags.table.tolist() == [[1, 2, 2], [0, 3, 4]]
    assert bags.members.tolist() == [0, 1, 0, 0] and bags.starts.tolist() == [0, 2, 2, 4]


# Concepts

CONCEPTS = {"C0018787": [3.0, 4.0], "C0027051": [1.0, 0.0], "C0009443": [0.0, 2.0]}


@pytest.mark.parametrize(
    "content", [csv(CONCEPTS), text(CONCEPTS), header(CONCEPTS) + text(CONCEPTS)]
)
def test_concepts_go_by_their_ids(content, tmp_path):
    embedding = load(f"concept:{written(tmp_path, content)},name=cui2vec")
    ids = ["C0018787", "C0027051|C0009443|C7", "C7", "", "C0027051 | C0009443"]
    rows, known = embedding.embed(["x"] * 5, ids=ids)
    half = np.array([0.5, 1.0]) / np.linalg.norm([0.5, 1.0])
    assert rows == pytest.approx(np.array([[0.6, 0.8], half, [0, 0], [0, 0], half]))
    assert known.tolist() == [True, True, False, False, True]
    assert embedding.raw(["x"], ids=ids[:1]).rows.tolist() == [[3, 4]]
    assert (embedding.name, embedding.kind) == ("cui2vec", "concept")
    assert embedding.settings["vocabulary"] == 3 and embedding.settings["dimension"] == 2


def test_free_text_has_no_concept_vector(tmp_path):
    embedding = load(f"concept:{written(tmp_path, csv(CONCEPTS))}")
    rows, known = embedding.embed(["C0018787", "heart"])
    assert not known.any() and not rows.any() and rows.shape == (2, 2)
    with pytest.raises(UsageError, match="1 ids of 2 terms"):
        embedding.embed(["a", "b"], ids=["C0018787"])
