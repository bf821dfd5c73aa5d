"""Codes as people write them, and look-up of strings through sorted hashes."""

import random
from collections import defaultdict

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medcoder.arrays import ArrayWriter, raw_strings
from medcoder.kg import keys as module
from medcoder.kg.build.terms import code_keys
from medcoder.kg.keys import (
    SEPARATOR,
    Keys,
    code_key,
    concept_bits,
    hash_strings,
    hash_text,
    make_keys,
    vocabulary_key,
)

MASK = (1 << 64) - 1
BASE = 0x9E3779B97F4A7C15


def write_keys(folder, keys):
    with ArrayWriter(folder, "find", "uint64") as file:
        file.append(np.sort(np.array(keys, np.uint64)))


@given(st.lists(st.text(max_size=20)), st.integers(0, 3))
@example(["a" * 70_000, "", "b", "é" * 40_000], 1)
@example([""] * 5, 2)
def test_one_string_and_many_have_the_same_hash(strings, skipped):
    array = pa.array(strings, pa.large_string())[skipped:]  # its offsets begin elsewhere
    hashes = hash_strings(*raw_strings(array))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [hash_text(text) for text in strings[skipped:]]


@given(st.lists(st.text(max_size=9), min_size=1))
def test_blocks_of_any_size_give_the_same_hashes(strings):
    offsets, data = raw_strings(pa.array(strings, pa.large_string()))
    whole = hash_strings(offsets, data).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", 3)
        assert hash_strings(offsets, data).tolist() == whole


def test_the_hash_is_part_of_the_format():
    assert hash_text("") == 0
    assert hash_text("a") == 98 * BASE & MASK
    by_hand = sum((byte + 1) * BASE ** (place + 1) for place, byte in enumerate(b"cold"))
    assert hash_text("cold") == by_hand & MASK == 3656724083171200290
    assert hash_text("ä") == hash_text("ä")
    assert hash_text("ab") != hash_text("ba")
    assert hash_text("\x00") != hash_text("")


def test_what_is_not_text_has_a_hash_too():
    assert hash_text("\udcff") not in (0, hash_text("?"))


@pytest.mark.parametrize(
    ("concepts", "bits"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 20, 20)]
)
def test_bits_of_a_concept(concepts, bits):
    assert concept_bits(concepts) == bits
    assert max(concepts - 1, 0) < 1 << bits


def test_a_key_is_a_hash_and_a_concept():
    hashes = np.array([MASK, 0xFF00], np.uint64)
    made = make_keys(hashes, np.array([5, 0]), 4)
    assert made.tolist() == [MASK - 15 + 5, 0xFF00]


def test_candidates_with_forced_collisions(tmp_path):
    # 64 hashes that differ in their high bits only, for up to 40 of 1,000 concepts each.
    bits, rng = concept_bits(1000), random.Random(1)
    table = {rng.getrandbits(64): rng.sample(range(1000), rng.randint(1, 40)) for _ in range(64)}
    write_keys(tmp_path, [h >> bits << bits | n for h, numbers in table.items() for n in numbers])
    keys = Keys(tmp_path, "find", bits)
    for hashed, numbers in table.items():
        assert keys.candidates(hashed) == sorted(numbers)
        assert keys.candidates(hashed ^ 1) == sorted(numbers)  # the low bits are the concept's
        assert keys.candidates(hashed ^ 1 << bits) == []
    first, counts = keys.first(np.array([*table, 12345], np.uint64))
    assert first.tolist()[:-1] == [min(numbers) for numbers in table.values()]
    assert counts.tolist() == [*map(len, table.values()), 0]


@pytest.mark.parametrize("near", [0, 1, 3, 4096])
@pytest.mark.parametrize("spread", [64, 40, 12])
def test_hashes_far_from_where_they_should_be_are_found(tmp_path, monkeypatch, near, spread):
    # With few bits in use all hashes lie at one end, far from the guess.
    monkeypatch.setattr(module, "_NEAR", near)
    bits, rng = 4, random.Random(spread)
    table = defaultdict(set)
    for _ in range(500):
        low = rng.getrandbits(spread)
        table[(low if rng.random() < 0.5 else MASK - low) >> bits].add(rng.randrange(16))
    write_keys(tmp_path, [high << bits | n for high, numbers in table.items() for n in numbers])
    keys = Keys(tmp_path, "find", bits)
    for high, numbers in table.items():
        assert keys.candidates(high << bits) == sorted(numbers)
    for high in {0, MASK >> bits, 1 << 59, *(rng.getrandbits(60) for _ in range(200))}:
        assert keys.candidates(high << bits) == sorted(table.get(high, ()))


def test_no_keys(tmp_path):
    write_keys(tmp_path, [])
    keys = Keys(tmp_path, "find", 3)
    assert keys.candidates(0) == keys.candidates(MASK) == []
    first, counts = keys.first(np.array([0, 7], np.uint64))
    assert first.tolist() == counts.tolist() == [0, 0]


# Codes as people write them, and the same over whole columns


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
