"""The case studies."""

import pytest

from medcoder.errors import InputError
from support.evaluated import ANY, First, Letters, bench, figures, linking_data, values


def test_the_case_studies(tmp_path):
    data = linking_data(
        tmp_path / "icd9_case",
        "a|es|7245|dorsalgia", "b|ja|7245|dorsalgia", "a|en|7245|dorsalgia",
        "c|en|9880|pufferfish", "d|en|4130\\p4139|angina",
        dictionary=("7245|a", "9880|ab", "9880|c", "0059|food poisoning nos", "1|bb"),
    )  # fmt: skip
    result = bench("cases").run(Letters(), data, ANY)
    found = figures(result)
    assert (found["dorsalgia", "hits"].value, found["dorsalgia", "hits"].n) == (1, 2)
    assert found["dorsalgia", "hits@5"].value == 2
    assert found["pufferfish", "hits"].value == 1
    assert found["angina", "hits"].value == 0
    assert found["food poisoning", "hits"].value == 1  # among the first five
    # "rheumatoid arthritis" has the letters aadhiit, of which osteoarthritis shares more.
    assert found["rheumatoid arthritis", "hits"].n == 1
    shown = {each.query: each.names for each in result.predictions}
    assert shown["c"][0] == "c"
    assert set(shown["rheumatoid arthritis"]) == {"osteoarthritis", "rheumatoid pleuritis"}


def test_rheumatoid_arthritis_must_be_nearer_to_osteoarthritis(tmp_path):
    class Near(Letters):
        def embed(self, texts, *, ids=None, corpus=None):
            words = [f"{'a' if 'arthritis' in text else 'b'}" for text in texts]
            return super().embed(words)

    data = linking_data(
        tmp_path / "icd9_case", "a|es|7245|dorsalgia", dictionary=("1|food poisoning",)
    )
    for system, hits in ((Near(), 1), (First(), 1)):
        found = values(bench("cases").run(system, data, ANY))
        assert found["rheumatoid arthritis", "hits"] == hits


def test_cases_need_titles_of_food_poisoning(tmp_path):
    data = linking_data(tmp_path / "icd9_case", "a|es|7245|dorsalgia")
    with pytest.raises(InputError, match="'food poisoning'"):
        bench("cases").run(Letters(), data, ANY)
