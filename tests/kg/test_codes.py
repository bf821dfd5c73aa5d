"""Codes as people write them, and the same over whole columns."""

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medcoder.kg.build.code_keys import code_keys
from medcoder.kg.codes import SEPARATOR, code_key, vocabulary_key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("SNOMEDCT_US", "SNOMEDCT"),
        ("SNOMED CT", "SNOMEDCT"),
        ("SNOMED", "SNOMEDCT"),
        ("snomedct-int", "SNOMEDCT"),
        ("SNOMEDCT_US_2025_03_01", "SNOMEDCT"),
        ("SCTID", "SNOMEDCT"),
        ("SCT", "SNOMEDCT"),
        ("SCTSPA", "SCTSPA"),
        ("SNOMEDCT_VET", "SNOMEDCTVET"),
        ("ICD-10-CM", "ICD10CM"),
        ("icd10cm", "ICD10CM"),
        ("ICD10", "ICD10"),
        ("MSH", "MESH"),
        ("MeSH", "MESH"),
        ("HPO", "HP"),
        ("UMLS_CUI", "UMLS"),
        ("Orphanet", "ORPHA"),
        ("MedDRA", "MDR"),
        ("", ""),
        ("--", ""),
    ],
)
def test_spellings_of_a_vocabulary(name, key):
    assert vocabulary_key(name) == key
    assert vocabulary_key(key) == key


@pytest.mark.parametrize(
    ("vocabulary", "code", "key"),
    [
        ("HP", "HP:0001250", "HP|0001250"),
        ("HPO", " 0001250 ", "HP|0001250"),
        ("HP", "hpo:0001250", "HP|0001250"),
        ("HP", "MP:0001250", "HP|MP:0001250"),
        ("ICD10CM", "r51.9", "ICD10CM|R519"),
        ("ICD-10-CM", "ICD10CM:R51.9", "ICD10CM|R519"),
        ("LNC", "8480-6", "LOINC|8480-6"),
        ("LNC", "1.2", "LOINC|1.2"),
        ("SNOMEDCT_US", "SCTID:22298006", "SNOMEDCT|22298006"),
        ("SNOMEDCT_US", "SCTID:a:b", "SNOMEDCT|A:B"),
        ("", ":x", "|X"),
        ("MSH", "", "MESH|"),
        ("MSH", "MSH:", "MESH|"),
        ("X", "straße\u00a0", "X|STRASSE"),
    ],
)
def test_code_keys(vocabulary, code, key):
    assert code_key(vocabulary, code) == key.replace("|", SEPARATOR)


NAMES = ["HP", "HPO", "ICD10CM", "ICD-9-CM", "SNOMEDCT_US", "MSH", "UMLS", "", "ß", "Ⅳ"]
names = st.sampled_from(NAMES) | st.text(max_size=5)
# Codes that look like codes, with blanks of every sort around them, and any text at all.
blanks = st.text(" \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2028\u3000\u200b", max_size=2)
codes = st.builds(
    "{}{}{}{}{}".format,
    blanks,
    names,
    st.sampled_from(["", ":", "::", " :", "\n:"]),
    st.text(".:a1ßıŉﬁǅ\n\x1f", max_size=5) | st.text(max_size=5),
    blanks,
)


@given(st.lists(st.tuples(names, codes)))
@example([("", ":x")])
@example([("HP", "HP:\n1"), ("HP", "\x1cHP:1\x1c")])
@example([("ICD10", "Ａ00.1"), ("ICD10", "a00.1")])
def test_whole_columns_have_the_keys_of_their_rows(pairs):
    labels = list(dict.fromkeys(name for name, _ in pairs))
    frame = pl.DataFrame(
        {
            "source": pl.Series([labels.index(name) for name, _ in pairs], dtype=pl.UInt16),
            "code": pl.Series([code for _, code in pairs], dtype=pl.String),
        }
    )
    found = code_keys(frame, [vocabulary_key(name) for name in labels])
    assert found.to_list() == [code_key(name, code) for name, code in pairs]
