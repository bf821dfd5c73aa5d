"""Abbreviations written out: as words, by case, by the words around them, by what each means."""

import re
from collections import Counter, defaultdict

import pytest

from medcoder.bundled.senses import COLUMNS, FOLDER, Sense, read_senses
from medcoder.errors import ArtefactError
from medcoder.normalize.abbreviations import Abbreviations, bundled_abbreviations
from medcoder.normalize.words import bundled_words
from medcoder.text import fold

FILES = sorted(FOLDER.glob("*.tsv"))
LEAST = {"en": 3000} | dict.fromkeys(("de", "es", "fr", "it", "nl", "pl", "pt", "ru"), 400)


def sense(abbreviation, expansion, *, language="en", english=None, share=0.9):
    return Sense(abbreviation, expansion, english or expansion, language, "general", share)


SENSES = [
    sense("ESRF", "end-stage renal failure"),
    sense("PD", "Parkinson disease", share=0.6),
    sense("PD", "peritoneal dialysis", share=0.3),
    sense("A fib", "atrial fibrillation"),
    sense("HAND", "HIV-associated neurocognitive disorder"),
    sense("MS", "multiple sclerosis", share=0.7),
    sense("MS", "mitral stenosis", share=0.2),
    sense("unst", "unstable"),
    sense("TOF", "tetralogy of Fallot"),
    sense("CHE", "Cholezystektomie", language="de", english="cholecystectomy"),
    sense("HWI", "Harnwegsinfekt", language="de", english="urinary tract infection"),
    sense("IC", "insuffisance cardiaque", language="fr", english="heart failure"),
    sense("IC", "interstitial cystitis"),
]


@pytest.fixture(scope="module")
def some():
    return Abbreviations(SENSES, bundled_words())


def texts(abbreviations, text, names=()):
    keys = set(map(fold, names))
    return [entry.text for entry in abbreviations.expand(text, lambda some: fold(some) in keys)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("ESRF", "end-stage renal failure"),
        ("ESRF on PD", "end-stage renal failure on Parkinson disease"),
        ("known A-fib", "known atrial fibrillation"),
        ("a fib", "atrial fibrillation"),
        ("unst. angina", "unstable angina"),
        ("T.O.F.", "tetralogy of Fallot"),
        ("HWI bei Frau", "Harnwegsinfekt bei Frau"),
        ("HWI", "urinary tract infection"),
        ("2xESRF", None),
    ],
)
def test_first(some, text, first):
    found = texts(some, text)
    assert found[:1] == ([first] if first else [])


def test_all_senses_with_weights(some):
    found = some.expand("MS", lambda text: False)
    assert [entry.text for entry in found] == ["multiple sclerosis", "mitral stenosis"]
    assert found[0].weight > 3 * found[1].weight
    assert sum(entry.weight for entry in found) < 1  # the rest is for what nobody listed
    assert found[0].written_out == (("MS", "multiple sclerosis"),)


def test_small_letters_that_are_words_stay(some):
    assert not any("HIV" in text for text in texts(some, "burn of hand"))
    assert texts(some, "HAND, known")[0].startswith("HIV")
    assert texts(some, "BURN OF HAND, LEFT, SEVERE")[0] == "BURN OF HAND, LEFT, SEVERE"


def test_the_language_of_other_words_counts(some):
    assert texts(some, "IC")[0] == "interstitial cystitis"
    assert texts(some, "IC décompensée chez patient")[0].startswith("insuffisance cardiaque")


def test_a_name_of_its_own_language_goes_before_english(some):
    assert texts(some, "HWI", names=["Harnwegsinfekt"]) == ["Harnwegsinfekt"]


def test_at_most_as_many_ways(some):
    assert len(some.expand("PD MS PD MS PD", lambda text: False, most=3)) == 3


def test_membership_whatever_the_case(some):
    assert "esrf" in some and "T.O.F." in some and "heart" not in some
    assert [entry.expansion for entry in some.senses_of("ms")] == [
        "multiple sclerosis", "mitral stenosis",
    ]  # fmt: skip


# What comes with the package


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_are_sound(file):
    lines = file.read_text(encoding="utf-8").split("\n")
    header = lines[0].split("\t")
    assert header == [name for name in COLUMNS if name != "english" or file.stem != "en"]
    assert lines[-1] == "" and len(lines) - 2 >= LEAST[file.stem]
    senses, sums = Counter(), defaultdict(int)
    for line in lines[1:-1]:
        row = dict(zip(header, line.split("\t"), strict=True))
        assert all(value and value == value.strip() for value in row.values()), line
        assert re.search(r"[^\W_]|#", row["abbreviation"]), line
        assert row["specialty"].isascii() and row["specialty"].islower(), line
        assert 1 <= int(row["share"]) <= 99, line
        assert fold(row["abbreviation"]) != fold(row["expansion"]), line
        senses[row["abbreviation"], fold(row["expansion"])] += 1
        sums[row["abbreviation"]] += int(row["share"])
    assert max(senses.values()) == 1
    assert max(sums.values()) <= 99


def test_all_languages_are_there():
    assert {file.stem for file in FILES} == set(LEAST)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("JIA", "juvenile idiopathic arthritis"),
        ("CML", "chronic myeloid leukemia"),
        ("ABPA", "allergic bronchopulmonary aspergillosis"),
        ("DMD", "Duchenne muscular dystrophy"),
        ("TTP", "thrombotic thrombocytopenic purpura"),
    ],
)
def test_bundled(text, meant):
    found = bundled_abbreviations().expand(text, lambda some: False)
    assert fold(found[0].text) == fold(meant)


def test_a_broken_file_is_an_error(tmp_path):
    file = tmp_path / "en.tsv"
    file.write_text("abbreviation\texpansion\tspecialty\tshare\nMS\tmitral stenosis\tx\tmany\n")
    with pytest.raises(ArtefactError, match="installing medcoder again"):
        read_senses(file)


def test_markup_has_no_abbreviations(some):
    assert some.expand("<ms>xvd</ms>", lambda text: False) == []
    assert not some.are_in("<MS>")
    assert some.are_in("< MS")
