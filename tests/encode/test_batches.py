"""A string alone and the same string in a batch: the bundled encoder, and what is made of it."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from medcoder import KG, Normalizer
from medcoder.encode import load_exported
from medcoder.encode.onnx import TOLERANCE
from medcoder.kg.build import build_kg
from medcoder.kg.sources import open_source
from medcoder.normalize.build import build

WORDS = (
    "heart",
    "attack",
    "acute",
    "pain",
    "of",
    "the",
    "left",
    "arm,",
    "unspecified",
    "38.5",
    "cœur",
    "心筋梗塞",
    "боль",
    "dolor",
    "de",
    "cabeza",
)
TERMS = (
    "heart attack",
    "pain in the arm",
    "headache",
    "dolor de cabeza",
    "боль в груди",
    "心筋梗塞",
)
texts = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
batches = st.lists(texts, min_size=1, max_size=40)
# Of one length and of many, more than are encoded at a time, equal ones, one of no words.
MANY = [" ".join(WORDS[: n % 9 + 1]) for n in range(120)] + [f"pain {n}" for n in range(60)] + [""]


@pytest.fixture(scope="module")
def encoder():
    return load_exported("medcoder-all", threads=2)


@pytest.fixture(scope="module")
def normalizer(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    rows = "".join(f'C{number},"{term}"\n' for number, term in enumerate(TERMS))
    (folder / "terms.csv").write_text(f"concept,term\n{rows}", encoding="utf-8")
    build_kg([open_source(f"table={folder / 'terms.csv'}")], folder / "t.kg")
    build(KG.open(folder / "t.kg"), encoder, folder / "t.index")
    return Normalizer.load(folder / "t.index")


@settings(max_examples=10)
@given(batches)
@example(MANY)
def test_a_vector_alone_and_in_a_batch(encoder, batch):
    together = encoder.encode(batch)
    for position in range(0, len(batch), 7):
        alone = encoder.encode([batch[position]])[0]
        assert np.abs(alone - together[position]).max() <= TOLERANCE


@settings(max_examples=10)
@given(batches)
@example(MANY)
def test_an_answer_alone_and_in_a_batch(normalizer, batch):
    together = list(normalizer.normalize_many(batch, top=len(TERMS), threshold=0))
    for position in range(0, len(batch), 7):
        alone = normalizer.normalize(batch[position], top=len(TERMS), threshold=0)
        known = {match.concept: match for match in together[position].matches}
        assert {match.concept for match in alone.matches} == known.keys()
        for match in alone.matches:
            other = known[match.concept]
            assert match.stage == other.stage
            assert match.score == pytest.approx(other.score, abs=TOLERANCE)
            # A confidence rises by several times what a score does.
            assert match.confidence == pytest.approx(other.confidence, abs=20 * TOLERANCE)
