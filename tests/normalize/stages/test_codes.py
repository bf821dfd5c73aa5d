"""Codes as queries: which spellings are meant, what filters leave, and what is also a name."""

import pytest

from medcoder import Normalizer
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.sources import open_source
from medcoder.normalize.build import build
from medcoder.normalize.custom_terms import CustomTerm, add_terms, custom_terms_file

ROWS = """concept,term,language,source,code,type
A,heart attack,en,ICD10CM,I21.9,Disease
B,haemorrhage of newborn,en,ICD10CM,P53,Disease
C,tumour protein,en,HGNC,TP53,Gene
C,P53,en,HGNC,TP53,Gene
D,cystic fibrosis,en,ICD9CM,277,Disease
D,Mukoviszidose,de,ICD9CM,277,Disease
E,seizure,en,HP,HP:0001250,Sign
F,infarction,en,SNOMEDCT_US,22298006,Disease
G,other infarction,en,LOCAL,22298006,Disease
H,circulatory diseases,en,ICD10CM,9,Chapter
I,tuberculosis,en,ICD10CM,A15-A19,Chapter
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory, bag):
    folder = tmp_path_factory.mktemp("codes")
    (folder / "terms.csv").write_text(ROWS, encoding="utf-8")
    build_kg([open_source(f"table={folder / 'terms.csv'}")], folder / "t.kg")
    build(KG.open(folder / "t.kg"), bag, folder / "t.index")
    return folder / "t.index"


@pytest.fixture(scope="module")
def normalizer(index):
    return Normalizer.load(index)


def concepts(answer):
    return [match.concept for match in answer if match.stage == "code"]


@pytest.mark.parametrize(
    "query",
    ["I21.9", "I219", "i21.9", "i219", " I21.9 ", "ICD10CM:I21.9", "icd-10-cm I219",
     "ICD10CM: i219", "\uff29\uff12\uff11\uff0e\uff19"],
)  # fmt: skip
def test_spellings_of_a_code(query, normalizer):
    answer = normalizer.normalize(query)
    assert [(match.concept, match.stage, match.term) for match in answer] == [
        ("A", "code", "heart attack")
    ]


@pytest.mark.parametrize("query", ["HP:0001250", "hp:0001250", "HP_0001250", "HPO 0001250"])
def test_a_code_behind_its_vocabulary(query, normalizer):
    assert concepts(normalizer.normalize(query)) == ["E"]


def test_a_number_is_a_code_only_as_its_vocabulary_spells_it(normalizer):
    for query in ("277", "277.", " (277) ", "- 277;"):  # signs around a string do not count
        assert concepts(normalizer.normalize(query)) == ["D"]
    for query in ("0001250", "27", "2770", "2.77", "1250"):
        answer = normalizer.normalize(query)
        assert (answer.candidates, answer.reason) == ((), "not a term: a number or a date")


def test_a_code_of_two_vocabularies_is_two_candidates(normalizer):
    answer = normalizer.normalize("22298006")
    assert sorted(concepts(answer)) == ["F", "G"]
    assert answer.namesakes == 2
    assert concepts(normalizer.normalize("SNOMEDCT:22298006")) == ["F"]


@pytest.mark.parametrize("query", ["9", "ICD10CM:9", "A15-A19", "ICD10CM:A15-A19"])
def test_headings_over_codes_are_no_codes(query, normalizer):
    assert concepts(normalizer.normalize(query, threshold=0)) == []


def test_a_code_that_is_also_a_name_is_both_and_nobody_takes_it_without_a_look(normalizer):
    answer = normalizer.normalize("P53")
    assert [(match.concept, match.stage) for match in answer] == [("B", "code"), ("C", "exact")]
    assert answer.namesakes == 2
    # Small letters of three characters are no code, but a name in any case.
    assert [match.stage for match in normalizer.normalize("p53", threshold=0)[:1]] == ["exact"]


def test_a_term_of_ones_own_goes_before_a_code(index):
    file = custom_terms_file(index)
    add_terms(file, KG.open(index / "kg"), [CustomTerm("I21.9", "E")])
    try:
        answer = Normalizer.load(index).normalize("I21.9")
        assert [match.concept for match in answer] == ["E", "A"]
        assert answer.namesakes == 1
    finally:
        file.unlink()


def test_filters(normalizer):
    assert concepts(normalizer.normalize("I21.9", vocabularies=["ICD10CM"])) == ["A"]
    assert concepts(normalizer.normalize("I21.9", vocabularies=["HP"], threshold=0)) == []
    assert concepts(normalizer.normalize("I21.9", types=["Disease"])) == ["A"]
    assert concepts(normalizer.normalize("I21.9", languages=["de"], threshold=0)) == []
    [match] = normalizer.normalize("277", languages=["de"])
    assert match.term == "Mukoviszidose"


def test_without_the_stage_a_code_is_a_string(normalizer):
    found = normalizer.normalize("I21.9", stages=["exact", "ngram"], threshold=0)
    assert "code" not in {match.stage for match in found.candidates}


def test_codes_are_not_encoded(index):
    class Deaf:
        width, fingerprint = 1, ""

        def encode(self, texts):
            raise AssertionError(texts)

    normalizer = Normalizer.load(index)
    normalizer._encoder = Deaf()
    answers = normalizer.normalize_many(["I219", "5 mg", "x", "MRN 0048213"])
    assert [answer.reason for answer in answers] == [
        "", "not a term: a number with a unit", "not a term: a single letter",
        "not a term: an identifier",
    ]  # fmt: skip
