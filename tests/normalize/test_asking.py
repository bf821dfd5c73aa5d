"""All that strings may say is looked up at once."""

import random

import pytest

from medcoder import Normalizer
from medcoder.normalize.custom_terms import CustomTerm, add_terms
from medcoder.normalize.stages import STAGES

AS_WRITTEN = [name for name in STAGES if name != "abbreviation"]


@pytest.fixture
def looked_up(ward, monkeypatch):
    """The strings that the ranking is asked for, in lists as they come."""
    calls = []
    find = ward._ranker.find

    def count(queries, *rest, **more):
        calls.append(list(queries))
        return find(queries, *rest, **more)

    monkeypatch.setattr(ward._ranker, "find", count)
    return calls


# One look-up


def test_a_batch_is_looked_up_at_once(ward, looked_up):
    texts = ["gout", "MS", "h/o gout, fever", "n/a", "", "severe gout", "gout, TIA and fever"]
    list(ward.normalize_many(texts, split=True))
    assert len(looked_up) == 1


def test_equal_texts_are_looked_up_once(ward, looked_up):
    texts = ["gout", "severe gout", "GOUT", "left gout", " gout.", "gout, fever", "fever and gout"]
    list(ward.normalize_many(texts, split=True))
    [asked] = looked_up
    assert len(set(asked)) == len(asked)
    assert asked.count("gout") == 1
    assert asked.count("fever") == 1


def test_the_parts_of_a_name_are_not_looked_up(ward, looked_up):
    ward.normalize("Nausea and vomiting", split=True)
    assert looked_up == [["Nausea and vomiting"]]


def test_nothing_is_looked_up_for_nothing(ward, looked_up, encoded_texts):
    list(ward.normalize_many(["n/a", "", " ", "k.A."]))
    assert looked_up == [[]]
    assert encoded_texts == []


def test_all_senses_and_what_was_are_looked_up(ward, looked_up):
    ward.normalize("h/o MS")
    [asked] = looked_up
    assert asked[0] == "multiple sclerosis"
    assert "mitral stenosis" in asked
    assert "personal history of multiple sclerosis" in asked
    assert "MS" not in asked  # nothing here is called so


def test_without_abbreviations_none_is_written_out(ward, looked_up):
    found = ward.normalize("MS", stages=AS_WRITTEN, threshold=0)
    assert looked_up == [["MS"]]
    assert "abbreviation" not in {match.stage for match in found}
    left = ward.normalize("left MS", stages=AS_WRITTEN, threshold=0)  # cues are taken off
    assert not any("sclerosis" in step for step in left.steps)
    with_them = ward.normalize("MS")
    assert (with_them[0].concept, with_them[0].stage) == ("ms", "abbreviation")


# What is not read


def test_names_are_not_encoded(ward, encoded_texts):
    for text in ("gout", "Gout.", "severe gout", "TIA", "headachee"):
        assert ward.normalize(text, stages=AS_WRITTEN).candidates
    assert encoded_texts == []
    ward.normalize("gout of (the) knee-joint.")
    assert encoded_texts == [["gout of the knee joint"]]  # as it is spoken


def test_a_name_has_the_vector_of_its_row(ward, monkeypatch):
    """However it is typed, and whatever the encoder would make of that."""
    near = {
        tuple((match.concept, match.cosine) for match in ward.normalize(text, threshold=0))
        for text in ("Crohn's disease", "crohns disease", "CROHN\u2019S  DISEASE.")
    }
    assert len(near) == 1


def test_codes_are_not_read(ward, looked_up):
    [code] = ward.kg.codes_of("gout")
    found = ward.normalize(code.code)
    assert (found[0].concept, found[0].stage) == ("gout", "code")
    assert looked_up == [[code.code]]
    assert found.steps == ()


def test_own_terms_are_not_read(ward, ward_index, tmp_path):
    file = tmp_path / "own.tsv"
    own = {"no fever": "cough", "MS": "mitral", "n/a": "gout", "severe pain": "knee", "12": "hip"}
    add_terms(file, ward.kg, [CustomTerm(*pair) for pair in own.items()])
    normalizer = Normalizer.load(ward_index, terms=file)
    for text, concept in own.items():
        found = normalizer.normalize(text)
        assert (found[0].concept, found[0].vocabulary) == (concept, "local")
        assert (found.steps, found[0].attributes, found.review, found.reason) == ((), (), "", "")


def test_an_own_term_that_a_filter_leaves_out_is_none(ward, ward_index, tmp_path):
    file = tmp_path / "own.tsv"
    add_terms(file, ward.kg, [CustomTerm("no fever", "gout")])
    normalizer = Normalizer.load(ward_index, terms=file)
    assert normalizer.normalize("no fever")[0].concept == "gout"
    found = normalizer.normalize("no fever", vocabularies="HP")  # gout is of ICD-10-CM
    assert (found.status, found.candidates[0].concept) == ("none", "fever")
    assert found.reason.startswith("negated")


def test_a_name_that_a_filter_leaves_out_is_not_answered_with_a_part_of_it(ward):
    found = ward.normalize("acute pancreatitis", vocabularies="HP")
    assert all(match.attributes == () for match in found.candidates)
    assert found.steps == ()


# One string, one answer

STRINGS = (
    "asthma", "bronchial asthma", "transient ischemic attack", "acute myeloid leukemia",
    "post-transfusion purpura", "temporomandibular disorder", "dropsy", "miosis", "hypertension",
    "high blood pressure", "atrial fibrillation", "multiple sclerosis", "mitral stenosis",
    "pancreatitis", "acute pancreatitis", "malignant neoplasm of testis", "testicular cancer",
    "personal history of testicular cancer", "family history of asthma", "nausea", "vomiting",
    "nausea and vomiting", "headache", "fever", "cough", "hip pain", "knee pain", "gout",
    "epilepsy", "migraine without aura", "esophageal varices", "renal stone", "crohn's disease",
    "pneumonia", "mumps", "digitalis", "severe gout", "left hip pain", "no fever", "h/o gout",
    "mother has asthma", "possible gout", "chronic knee pain", "known epilepsy",
)  # fmt: skip


def ways_of_typing(text):
    """A dozen, of which none says anything else."""
    spaced = text.replace(" ", "  ") + "\t"
    return [
        text, text.capitalize(), text.upper(), f" {text}  ", f"{text}.", f"- {text}", f"({text})",
        f'"{text}"', spaced, f"{text};", f"\u2022 {text}", text.replace("'", "\u2019") + " \u200b",
    ]  # fmt: skip


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_ways_of_typing_have_one_answer(ward, split):
    texts = [typed for text in STRINGS for typed in ways_of_typing(text)]
    shuffled = random.Random(3).sample(texts, len(texts))
    found = dict(zip(shuffled, ward.normalize_many(shuffled, split=split), strict=True))
    for text in STRINGS:
        answers = {
            typed: (
                found[typed].candidates[0].concept,
                found[typed].status,
                round(found[typed].confidence, 6),
                found[typed].namesakes,
            )
            for typed in ways_of_typing(text)
        }
        assert len(answers) == 12
        assert set(answers.values()) == {answers[text]}, answers


@pytest.mark.parametrize(
    "text", ["T.I.A.", "T.I.A", "TIA.", "(TIA)", "A.M.L.", "A.F.", "A.F", "AF;"]
)
def test_full_stops_of_abbreviations_do_not_count(ward, text):
    bare = "".join(filter(str.isalpha, text))
    same, other = ward.normalize(bare), ward.normalize(text)
    assert same.matches
    assert (same[0].concept, same.status) == (other[0].concept, other.status)
    assert other.confidence == pytest.approx(same.confidence, abs=0.05)
