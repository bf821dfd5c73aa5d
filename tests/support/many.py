"""A graph of eighty-six concepts made of thirty words, and an encoder that knows these words."""

import random

from medcoder.types import Vocabulary
from support.memory import MemorySource

WORDS = (
    "heart", "cardiac", "attack", "infarction", "failure", "fever", "pyrexia", "cold", "chill",
    "head", "pain", "ache", "acute", "chronic", "severe", "left", "right", "renal", "kidney",
    "skin", "rash", "burn", "cough", "dolor", "fiebre", "cabeza", "tos", "frio", "agudo", "disease",
)  # fmt: skip
LIKE = {"cardiac": "heart", "infarction": "attack", "pyrexia": "fever", "kidney": "renal",
        "ache": "pain", "fiebre": "fever", "dolor": "pain", "cabeza": "head"}  # fmt: skip
VOCABULARIES = ("SNOMEDCT_US", "MSH", "ICD10CM")
LANGUAGES = ("en", "es", "pt-br")
TYPES = (("T047", "Disease or Syndrome"), ("T184", "Sign or Symptom"), ("T023", "Body Part"))
QUERIES = (
    "heart attack", "Cardiac infarction!", "hart atack", "pyrexia", "fever cold", "acute kidney",
    "kidny desease", "cold", "dolor de cabeza", "rash", "心臓", "かぜ", "xy", "zzz qq", "left left",
    "heart attakc", "Renal faliure", "Chronic faliure, pyrxia", "HEART ATTAKC", "heads, chills",
    "nsclc rash",
)  # fmt: skip


def many_terms():
    """Eighty concepts of a few words each, with strings that several have."""
    draw = random.Random(4)
    rows = []
    for number in range(80):
        texts = {
            " ".join(draw.sample(WORDS, draw.randint(1, 3))) for _ in range(draw.randint(1, 4))
        }
        texts |= {text.title() for text in sorted(texts) if draw.random() < 0.3}
        for rank, text in enumerate(draw.sample(sorted(texts), len(texts))):
            source = draw.choice(VOCABULARIES)
            code = f"{number:03}"
            row = (f"C{code}", text, draw.choice(LANGUAGES), source, code, "PT", rank)
            rows.append(row)
    rows += [
        ("C900", "Cold", "en", "MSH", "900", "PT", 0),
        ("C901", "Common cold", "en", "MSH", "901", "PT", 0),
        ("C901", "cold", "en", "SNOMEDCT_US", "901", "SY", 1),
        ("C902", "COLD", "en", "ICD10CM", "902", "PT", 0),
        ("C902", "かぜ", "ja", "MSH", "902", "PT", 0),
        ("C903", "heart attack initial", "en", "ICD10CM", "903A", "PT", 0),  # gets no vector
        ("C904", "心臓", "ja", "MSH", "904", "PT", 0),
        ("C905", "痛", "en", "MSH", "905", "PT", 0),
    ]
    return rows


def small_source(terms, **parts):
    return MemorySource(
        vocabularies=[Vocabulary(name) for name in VOCABULARIES], terms=terms, **parts
    )


def many_source():
    draw = random.Random(5)
    return small_source(
        many_terms(),
        types=[(f"C{number:03}", *draw.choice(TYPES)) for number in range(80)]
        + [("C900", *TYPES[1]), ("C902", *TYPES[0]), ("C902", *TYPES[1])],
        xrefs=[(f"C{number:03}", "HP", f"HP:{number}", "alt") for number in range(0, 80, 9)]
        + [("C001", "LNC", "1-8", "xref")],
        flags=[("C903", "extension")],
    )
