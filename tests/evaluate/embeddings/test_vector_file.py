"""Files of vectors in every form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.errors import InputError
from medcoder.evaluate.embeddings import load
from medcoder.evaluate.embeddings.vector_file import VectorFile
from support.vector_files import WORDS, binary, csv, header, text, written

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
