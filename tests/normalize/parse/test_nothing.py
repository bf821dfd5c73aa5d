"""What people write where there is nothing to write."""

import pytest

from medcoder.normalize.parse.nothing import is_placeholder


@pytest.mark.parametrize(
    "text",
    ["n/a", "N/A", "N.A.", "n.a", "nil", "None", "see letter", "See  Letter.", "as above", "k.A.",
     "keine Angabe", "entfällt", "entfallt", "s.o.", "sin datos", "NS/NC", "RAS", "néant", "neant",
     "n.v.t.", "onbekend", "n.d.", "vedi lettera", "não informado", "nie dotyczy", "нет данных",
     "\uff2e\uff0f\uff21"],
)  # fmt: skip
def test_placeholders(text):
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    ["", "asthma", "nil by mouth", "see letter: gout", "pending fracture", "NAD", "none of it",
     "unknown origin fever", "277", "-"],
)  # fmt: skip
def test_what_may_mean_something(text):
    assert not is_placeholder(text)
