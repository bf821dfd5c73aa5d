"""Data cards of all benches, and how their files are checked and read."""

import pytest

from medcoder.errors import InputError
from medcoder.evaluate import BENCHES, EMBEDDINGS, Card, Context, Needed
from medcoder.evaluate.benches.linking import Linking
from medcoder.evaluate.benches.task import sha256
from medcoder.evaluate.embeddings import load
from support.evaluated import ANY, First, Letters, bench, linking_data, write_table


def test_names_that_scores_and_commands_rely_on():
    assert list(BENCHES) == [
        "cadec", "psytar", "mantra", "mantra_open", "mcsm", "mcsm_mesh", "relcls", "relcls_open",
        "mayosrs", "umnsrs-sim", "umnsrs-rel", "ehr-rela", "pairs", "ncbi", "bc5cdr", "hpo_gsc",
        "misspelling", "cases", "custom",
    ]  # fmt: skip
    assert list(EMBEDDINGS) == ["contextual", "exported", "word", "concept", "lexical"]


@pytest.mark.parametrize("name", list(BENCHES))
class TestCards:
    def test_a_card_says_what_a_reader_must_know(self, name):
        card = bench(name).card
        assert card.name == name
        assert len(card.about) > 60
        assert card.about.endswith(".")
        assert all((card.title, card.origin, card.licence, card.metrics))
        assert all(needed.columns for needed in card.files)

    def test_missing_data_is_an_error_that_says_where_to_get_it(self, name, tmp_path):
        with pytest.raises(InputError) as caught:
            bench(name).fingerprint(tmp_path, ANY)
        assert not bench(name).has_data(tmp_path, ANY)
        if name != "pairs":
            assert bench(name).card.origin in str(caught.value)
            assert bench(name).card.files[0].path in str(caught.value)

    def test_concept_vectors_have_no_queries_to_link(self, name):
        assert bench(name).accepts(Letters())
        linking = isinstance(bench(name), Linking)
        assert bench(name).accepts(Letters(kind="concept")) == (not linking)
        assert bench(name).accepts(First()) == linking


def pinned_card(file, **pins):
    return Card(name="x", title="X", about="", origin="the moon", licence="none",
                files=(Needed(path=file.name, columns=("term",), **pins),))  # fmt: skip


def test_a_file_of_other_rows_is_an_error(tmp_path):
    file = write_table(tmp_path / "t.tsv", "term", "a", "b")
    assert pinned_card(file, rows=2).check(tmp_path) == tmp_path
    with pytest.raises(InputError, match="it has 2 rows, and the figures of X are for 3"):
        pinned_card(file, rows=3).check(tmp_path)
    assert pinned_card(file, rows=3).check(tmp_path, pinned=False) == tmp_path


def test_a_file_of_other_content_is_an_error(tmp_path):
    file = write_table(tmp_path / "t.tsv", "term", "a")
    assert pinned_card(file, sha256=sha256(file)).check(tmp_path) == tmp_path
    with pytest.raises(InputError, match=r"its sha256 is .*Get it again from the moon"):
        pinned_card(file, sha256="0" * 64).check(tmp_path)


def test_a_missing_column_is_named(tmp_path):
    file = write_table(tmp_path / "t.tsv", "name|code", "a|b")
    with pytest.raises(InputError, match="no such column: term; there are: name, code"):
        pinned_card(file).check(tmp_path)


def test_word_vectors_have_an_out_of_vocabulary_rate(tmp_path):
    write_table(tmp_path / "vectors.txt", "b 1 0", "c 0 1", "d 1 1")
    words = load(f"word:{tmp_path / 'vectors.txt'}")
    linking_data(tmp_path / "cadec", "b x|en|B|fold0_test", "x c d|en|C|fold0_test")
    linking_data(tmp_path / "ncbi", "b\\pc x y|en|B\\pC|test")
    write_table(tmp_path / "similarity" / "mayosrs.tsv", "term1|term2|score", "b|c x|1", "d|d|2")
    write_table(tmp_path / "mcsm" / "concepts.tsv", "concept|name|types", "1|b x|T", "2|y z|T")
    write_table(tmp_path / "relcls" / "train.tsv", "head|relation|tail", "b|is|c")
    write_table(tmp_path / "relcls" / "test.tsv", "head|relation|tail", "b|is|x y")
    once = Context(pinned=False, resamples=0, options={"epochs": 1, "modes": ["frozen"]})
    rates = {"cadec": (2, 5), "ncbi": (2, 4), "mayosrs": (1, 5), "mcsm": (3, 4), "relcls": (2, 3)}
    for name, (missing, count) in rates.items():
        figures = bench(name).run(words, tmp_path, once).figures
        [found] = [figure for figure in figures if figure.metric == "oov"]
        assert (found.split, found.value, found.n) == ("all", missing / count, count), name
        others = bench(name).run(load("lexical:exact"), tmp_path, once).figures
        assert all(figure.metric != "oov" for figure in others)
