"""What filters keep: never headings, and targets where they are asked for."""

import numpy as np
import pytest

from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.filters import Filter, Filters
from medcoder.vectors.embed import embed
from support.many import small_source

NAMES = {"A00-A09": "Fever", "A00": "acute fever", "A00.0": "severe fever", "A01": "cough"}
TERMS = [(code, name, "en", "ICD10CM", code, "PT", 0) for code, name in NAMES.items()]
EDGES = [("A00", "is_a", "A00-A09"), ("A00.0", "is_a", "A00"), ("A01", "is_a", "A00-A09")]
FLAGS = [("A00.0", "billable")]


def filters(path, bag, terms):
    build_kg([small_source(terms, edges=EDGES, flags=FLAGS)], path / "kg")
    kg = KG.open(path / "kg")
    return kg, Filters(kg, embed(kg, bag, path / "vectors"))


@pytest.fixture
def made(tmp_path, bag):
    return filters(tmp_path, bag, TERMS)


def kept(made, **wanted):
    kg, some = made
    options = dict.fromkeys(("types", "vocabularies", "languages")) | wanted
    allowed = some.allowed(Filter.of(**options))
    return kg.ids(np.flatnonzero(allowed.concepts))


def test_an_open_filter_keeps_all_but_headings(made):
    kg, some = made
    assert kept(made) == ["A00", "A00.0", "A01"]
    allowed = some.allowed(Filter())
    assert allowed.terms.tolist() == [True, False, True, True]  # in the order of ids
    assert allowed.rows.all() and len(allowed.rows) == 3  # a heading has no vector
    assert not allowed.custom(kg.index("A00-A09"), "")


def test_without_headings_an_open_filter_is_none(tmp_path, bag):
    _, some = filters(tmp_path, bag, TERMS[1:])
    assert some.allowed(Filter()) is None
    assert some.allowed(Filter.of(None, None, None)) is None


def test_targets(made):
    assert kept(made, targets="leaf") == ["A00.0", "A01"]
    assert kept(made, targets="billable") == ["A00.0"]
    assert kept(made, targets="leaf", vocabularies="ICD10CM") == ["A00.0", "A01"]
    assert kept(made, targets="any") == ["A00", "A00.0", "A01"]


@pytest.mark.parametrize(
    ("target", "message"),
    [("standard", "does not say which concepts are standard"), ("leafs", "There are: any, leaf")],
)
def test_targets_that_are_not_there(made, target, message):
    with pytest.raises(UsageError, match=message):
        kept(made, targets=target)
