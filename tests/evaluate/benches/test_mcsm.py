"""MCSM against the formula of the paper."""

import math

import pytest

from medcoder.errors import InputError
from medcoder.evaluate import Context
from support.evaluated import ANY, Letters, bench, figures, values, write_table


def naive_mcsm(names, types, wanted, k):
    """The formula of the paper, concept by concept; of concepts without a vector, none."""
    vectors = Letters().embed(names)
    known = [i for i in range(len(names)) if vectors.known[i]]
    gains = []
    for i in known:
        if wanted not in types[i]:
            continue
        others = [j for j in known if j != i]
        others.sort(key=lambda j: (-float(vectors.rows[i] @ vectors.rows[j]), known.index(j)))
        gains.append(
            sum(
                1 / math.log2(place + 1)
                for place, j in enumerate(others[:k], 1)
                if wanted in types[j]
            )
        )
    return gains


def test_mcsm_is_the_formula_of_the_paper(tmp_path):
    names = ["a", "aab", "b", "bba", "c", "x", "aac", "aaaab"]
    types = [{"T"}, {"T", "U"}, {"U"}, {"U"}, set(), {"T"}, {"U"}, {"T"}]
    joined = ["\\p".join(sorted(some)) for some in types]
    rows = (f"C{i}|{names[i]}|{joined[i]}" for i in range(8))
    write_table(tmp_path / "mcsm" / "concepts.tsv", "concept|name|types", *rows)
    context = Context(pinned=False, resamples=20, options={"k": 3})
    found = figures(bench("mcsm").run(Letters(), tmp_path, context))
    assert {split for split, _ in found} == {"T", "U"}
    for wanted in ("T", "U"):
        gains = naive_mcsm(names, types, wanted, 3)
        members = sum(wanted in some for some in types)
        assert found[wanted, "mcsm"].value == pytest.approx(sum(gains) / len(gains))
        assert found[wanted, "mcsm"].n == len(gains)
        assert found[wanted, "mcsm_oov0"].value == pytest.approx(sum(gains) / members)
        assert found[wanted, "mcsm"].coverage == len(gains) / members
    assert found["T", "mcsm"].coverage == 0.75  # x has no vector


def test_mcsm_reaches_its_upper_bound_and_no_more(tmp_path):
    """60 concepts of one type that only see each other: the sum of all discounts."""
    rows = [f"C{i}|{'a' * (i + 1)}|T" for i in range(60)] + [f"D{i}|b|U" for i in range(60)]
    write_table(tmp_path / "mcsm" / "concepts.tsv", "concept|name|types", *rows)
    found = values(bench("mcsm").run(Letters(), tmp_path, ANY))
    assert found["T", "mcsm"] == pytest.approx(11.09, abs=0.005)
    assert found["U", "mcsm_oov0"] == pytest.approx(11.09, abs=0.005)


def test_a_concept_has_one_name(tmp_path):
    write_table(
        tmp_path / "mcsm" / "concepts.tsv",
        "concept|name|types", "1|a|T", "1|b|U", "2|aa|T", "3|b|U",
    )  # fmt: skip
    context = Context(pinned=False, resamples=0, options={"k": 1})
    found = values(bench("mcsm").run(Letters(), tmp_path, context))
    assert found["T", "mcsm"] == 1  # 1 and 2, by the names a and aa
    assert found["U", "mcsm"] == pytest.approx(0.5)  # 1 is nearest to 2, and 3 to the first of all


def test_concept_vectors_go_by_id(tmp_path):
    write_table(
        tmp_path / "mcsm" / "concepts.tsv",
        "concept|name|types", "a1|x|T", "a2|x|T", "zz|a|T",
    )  # fmt: skip
    found = figures(bench("mcsm").run(Letters(kind="concept"), tmp_path, ANY))
    assert (found["T", "mcsm"].value, found["T", "mcsm"].n) == (1, 2)
    assert found["T", "mcsm_oov0"].value == pytest.approx(2 / 3)


def test_a_dictionary_without_types(tmp_path):
    write_table(tmp_path / "mcsm" / "concepts.tsv", "concept|name|types", "1|a|")
    with pytest.raises(InputError, match="no concept has a type"):
        bench("mcsm").run(Letters(), tmp_path, ANY)
