"""British spellings and plurals of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.normalize.parse.spelling import spellings


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("oesophageal cancer", "esophageal cancer"),
        ("Oesophageal cancer", "Esophageal cancer"),
        ("haemorrhage", "hemorrhage"),
        ("Anaemia", "Anemia"),
        ("iron deficiency anaemia", "iron deficiency anemia"),
        ("ischaemic colitis", "ischemic colitis"),
        ("diarrhoea", "diarrhea"),
        ("dyspnoea", "dyspnea"),
        ("leukaemia", "leukemia"),
        ("brain tumour", "brain tumor"),
        ("coeliac disease", "celiac disease"),
        ("paediatric asthma", "pediatric asthma"),
        ("oedema", "edema"),
        ("appendicectomy", "appendectomy"),
        ("renal stones", "renal stone"),
        ("biopsies", "biopsy"),
        ("brain tumours", "brain tumor"),
    ],
)
def test_other_spellings(text, other):
    assert other in list(spellings(text))


@pytest.mark.parametrize("text", ["asthma", "gout", "TIA", "sepsis", "renal pain", "癌", "", "277"])
def test_what_has_no_other_spelling(text):
    assert list(spellings(text)) == []


def test_the_likeliest_comes_first():
    assert list(spellings("haemorrhoids")) == ["hemorrhoids", "hemorrhoid"]


@given(st.text("abcdeiouys ", max_size=30) | st.text(max_size=30))
def test_others_are_others_and_few(text):
    others = list(spellings(text))
    assert len(others) <= 2
    assert len({text, *others}) == 1 + len(others)
