"""Where ICD-10-CM puts what was, and what is in the family."""

import importlib.util
import warnings
from pathlib import Path

import pytest

from medcoder.errors import ArtefactError
from medcoder.normalize import past
from medcoder.normalize.past import FILE, Note, code_for

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own files
    import simple_icd_10_cm as icd

RECIPE = Path(__file__).parents[2] / "recipes" / "words" / "past.py"


@pytest.mark.parametrize(
    ("decides", "code", "expected"),
    [
        ("family", "E11.9", "Z83.3"),
        ("family", "I21.9", "Z82.4"),  # I00-I5A and I65-I99, but not strokes
        ("family", "I63.9", "Z82.3"),
        ("family", "C50", "Z80.3"),
        ("family", "F20.9", "Z81.8"),  # "classifiable elsewhere in F01-F99"
        ("family", "F10.2", "Z81.1"),
        ("family", "D12.6", "Z83.710"),  # K00-K93 and D12 are Z83.7, D12 alone is this
        ("family", "R05.9", None),
        ("history", "I63.9", "Z86.7"),
        ("history", "C64.9", "Z85.528"),
        ("history", "C7A.093", "Z85.520"),
        ("history", "O9A.2", "Z87.5"),
        ("history", "Z96.64", None),
        ("doubt", "E11.9", None),
    ],
)
def test_the_code_of_the_narrowest_range(decides, code, expected):
    assert code_for(decides, code) == expected


def test_ranges_have_both_ends():
    note = Note("Z82.4", "family", "I00", "I5A")
    assert [note.covers(code) for code in ("I00", "I5A", "I5A.1", "H99.9", "I60")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert [Note("Z", "family", *ends).width for ends in (("C50", "C50"), ("A00", "B19"))] == [
        0, 119,
    ]  # fmt: skip


def test_the_table_is_that_of_the_release_that_is_installed():
    spec = importlib.util.spec_from_file_location("past_recipe", RECIPE)
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    assert FILE.read_text(encoding="utf-8") == recipe.table()


def test_every_code_says_so():
    for note in past._notes():
        said = {"history": "Personal history of", "family": "Family history of"}[note.decides]
        assert icd.get_description(note.code).startswith(said), note


def test_a_table_that_is_damaged_is_an_error(tmp_path, monkeypatch):
    file = tmp_path / "past.tsv"
    file.write_text("code\tdecides\tfirst\tlast\nZ83.3\tfamily\n")
    monkeypatch.setattr(past, "FILE", file)
    past._notes.cache_clear()
    try:
        with pytest.raises(ArtefactError, match=r"past\.tsv"):
            code_for("family", "E11.9")
    finally:
        past._notes.cache_clear()
