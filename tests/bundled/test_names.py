"""What wards call things: the lists that come with the package."""

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from medcoder import KG, bundled_kg
from medcoder.kg.masks import headings, named_terms
from medcoder.kg.sources.open import USUAL_NAMES, usual_names
from medcoder.text import fold, not_a_term
from medcoder.types import USUAL

RECIPE = Path(__file__).parents[2] / "recipes" / "words" / "names.py"
FILES = sorted(USUAL_NAMES.glob("*.tsv"))
ROWS = [
    (file.stem, *line.split("\t"))
    for file in FILES
    for line in file.read_text(encoding="utf-8").split("\n")[1:]
    if line
]


@pytest.fixture(scope="module")
def recipe():
    spec = importlib.util.spec_from_file_location("names_recipe", RECIPE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kg():
    return KG.open(bundled_kg())


def test_the_readme_counts_them():
    readme = (USUAL_NAMES / "README.md").read_text(encoding="utf-8")
    for file in FILES:
        count = sum(language == file.stem for language, *_ in ROWS)
        assert count > 500
        assert f"| {file.stem} | {count:,} |" in readme


def test_a_name_stands_once_and_is_a_term():
    folded = [fold(name) for _, name, _ in ROWS]
    assert len(set(folded)) == len(folded)
    assert [name for _, name, _ in ROWS if not_a_term(name) or name != " ".join(name.split())] == []


def test_none_is_measured_with(recipe):
    measured = recipe.measured_with([])
    assert len(measured) > 5000
    assert [name for _, name, _ in ROWS if fold(name) in measured] == []


def test_all_are_terms_of_their_codes_and_none_is_learnt(kg):
    assert sum(len(some) for some in usual_names().values()) == len(ROWS)
    number, learnt, heading = kg.kinds.index(USUAL), named_terms(kg), headings(kg)
    usual = kg.terms.info[:, 2] == number
    assert int(usual.sum()) == len(ROWS)
    assert not (usual & learnt).any()
    for language, name, code in ROWS:
        [concept] = kg.find_code("ICD10CM", code)
        assert not heading[kg.index(concept)], code
        [term] = [term for term in kg.terms_of(concept) if term.text == name]
        assert (term.language, term.code, term.kind) == (language, code, USUAL)


def test_none_is_a_name_of_a_code_already(recipe, kg):
    known = recipe.known_names(kg)
    assert known[fold("Essential (primary) hypertension")] == {"I10"}
    assert [name for _, name, _ in ROWS if fold(name) in known] == []


def test_what_is_left_out_is_counted(recipe, kg, tmp_path):
    (tmp_path / "en_1.tsv").write_text(
        "water on the elbow\tM25.42\nwater on the elbow\tM25.4\nno such code\tX99.99\n"
        "Gout\tM10\nblood\tA00-A09\ntwo things\tA01\ntwo things\tB01\n277\tA01\nasked for\tA01\n"
        "not a row\n",
        encoding="utf-8",
    )
    left = Counter()
    found = recipe.kept(recipe.written(tmp_path), kg, {"asked for"}, left)
    assert found == {"en": [("water on the elbow", "M25.4")]}
    assert left == {
        "its code is none": 2, "ICD-10-CM has it": 1, "two codes": 1, "no term": 1,
        "measured with": 1,
    }  # fmt: skip
