"""The graph, concept by concept and by look-up; every answer worked out by hand from the toy."""

import pytest

from medcoder.errors import ArtefactError, NotFound
from medcoder.kg import KG
from medcoder.text import fold
from medcoder.types import Code, Edge, SemanticType, Term, Vocabulary

IDS = [
    "C0000001", "C0000002", "C0000003", "C0000004", "C0009443", "C0010200", "C0010346", "C0011849",
    "C0011854", "C0011860", "C0012634", "C0014544", "C0015967", "C0018681", "C0018787", "C0018799",
    "C0021390", "C0027051", "C0032285", "C0036572", "C0149931", "C0234192", "C999000", "C999001",
    "C999002", "C999003", "HP:0000057", "HP:0000118", "ICD10CM:T07", "ICD10CM:T07.XXXA",
]  # fmt: skip
DISEASE = SemanticType("T047", "Disease or Syndrome")
SYMPTOM = SemanticType("T184", "Sign or Symptom")


def test_concepts_come_in_the_order_of_their_ids(toy_kg):
    assert list(toy_kg) == IDS
    assert len(toy_kg) == 30


def test_membership(toy_kg):
    assert all(concept in toy_kg for concept in IDS)
    for other in ("C7777777", "c0009443", "C0009443 ", "", "\udcff", 5, None):
        assert other not in toy_kg


def test_repr(toy_kg, toy_path):
    assert repr(toy_kg) == f"KG({str(toy_path)!r}: 30 concepts, 51 terms, 14 edges)"


def test_the_preferred_name_is_the_best_english_one(toy_kg):
    assert toy_kg.preferred("C0009443") == "Common Cold"
    assert toy_kg.preferred("C0010346") == "Crohn's disease"
    assert toy_kg.preferred("C0000001") == "NA"


def test_without_english_it_is_of_the_first_language_by_name(toy_kg):
    assert toy_kg.preferred("C0032285") == "Pneumopathie"


def test_terms_english_first_then_languages_by_name_then_ranks(toy_kg):
    assert toy_kg.terms_of("C0009443") == [
        Term("Common Cold", "en", "MSH", "D003139", "PT"),
        Term("Common Cold", "en", "SNOMEDCT_US", "82272006", "SY"),
        Term("cold", "en", "SNOMEDCT_US", "82272006", "SY"),
        Term("Resfriado común", "es", "SNOMEDCT_US", "82272006", "PT"),
        Term("catarro", "es", "SNOMEDCT_US", "82272006", "SY"),
        Term("かぜ", "ja", "MSH", "D003139", "PT"),
    ]
    assert [(term.text, term.language) for term in toy_kg.terms_of("C0010200")] == [
        ("Cough", "en"),
        ("Husten", "de"),
        ("Tos", "es"),
    ]
    assert [term.text for term in toy_kg.terms_of("C0032285")] == [
        "Pneumopathie",
        "Pneumonie",
        "肺炎",
    ]


def test_terms_are_named_tuples(toy_kg):
    (term,) = toy_kg.terms_of("C0000002")
    assert type(term) is Term
    assert term._asdict() == {
        "text": 'a "quoted" term',
        "language": "en",
        "vocabulary": "MSH",
        "code": "",
        "kind": "PT",
    }


def test_evil_terms_are_whole(toy_kg):
    assert toy_kg.preferred("C0000003") == "one\u2028two\u0085three"
    assert toy_kg.preferred("C0000004") == "痛"


def test_types(toy_kg):
    assert toy_kg.types_of("C0009443") == [DISEASE]
    assert toy_kg.types_of("C0036572") == [DISEASE, SYMPTOM]
    assert toy_kg.types_of("C0011849") == []
    assert toy_kg.types_of("ICD10CM:T07.XXXA") == []


def test_codes_are_those_of_terms_then_alternative_ones(toy_kg):
    assert toy_kg.codes_of("C0009443") == [Code("MSH", "D003139"), Code("SNOMEDCT_US", "82272006")]
    assert toy_kg.codes_of("C0036572") == [Code("HP", "HP:0001250"), Code("HP", "HP:0002279")]
    assert toy_kg.codes_of("C0009443", ["SNOMEDCT_US"]) == [Code("SNOMEDCT_US", "82272006")]
    assert toy_kg.codes_of("C0009443", ["HP"]) == []
    assert toy_kg.codes_of("C0009443", []) == []


def test_alternative_codes(toy_kg):
    assert toy_kg.alternatives_of("C0036572") == [Code("HP", "HP:0002279")]
    assert toy_kg.alternatives_of("C0009443") == []


def test_cross_references(toy_kg):
    assert sorted(toy_kg.xrefs_of("C0036572")) == [
        Code("SNOMEDCT_US", "91175000"),
        Code("UMLS", "C0036572"),
    ]
    assert toy_kg.xrefs_of("C0015967") == [Code("SNOMEDCT_US", "386661006")]
    assert toy_kg.xrefs_of("C0009443") == []


def test_flags(toy_kg):
    assert toy_kg.flags_of("HP:0000057") == ["standard", "invalid"]
    assert toy_kg.flags_of("ICD10CM:T07.XXXA") == ["extension"]
    assert toy_kg.flags_of("C0012634") == ["standard"]
    assert toy_kg.flags_of("C0009443") == []


MI_OUT = [
    Edge("C0027051", "CHD|isa", "C0018799"),
    Edge("C0027051", "RO|has_finding_site", "C0018787"),
    Edge("C0027051", "RO", "C0018799"),
]
MI_IN = [Edge("C0018799", "RO", "C0027051")]


def test_neighbours(toy_kg):
    assert toy_kg.neighbours("C0027051", direction="out") == MI_OUT
    assert toy_kg.neighbours("C0027051", direction="in") == MI_IN
    assert toy_kg.neighbours("C0027051") == MI_OUT + MI_IN
    assert toy_kg.neighbours("C999000") == []
    assert toy_kg.neighbours("C0012634", direction="out") == []
    assert toy_kg.neighbours("C0012634", direction="in") == [
        Edge("C0009443", "CHD|isa", "C0012634"),
        Edge("C0018799", "CHD|isa", "C0012634"),
        Edge("C0021390", "CHD|isa", "C0012634"),
    ]


def test_neighbours_of_the_last_concept(toy_kg):
    last = Edge("ICD10CM:T07.XXXA", "is_a", "ICD10CM:T07")
    assert toy_kg.neighbours("ICD10CM:T07.XXXA") == [last]
    assert toy_kg.neighbours("ICD10CM:T07") == [last]


def test_neighbours_by_relation_and_up_to_a_limit(toy_kg):
    assert toy_kg.neighbours("C0027051", relation="RO") == [MI_OUT[2], *MI_IN]
    assert toy_kg.neighbours("C0027051", relation="is_a") == []
    assert toy_kg.neighbours("C0027051", limit=1) == [MI_OUT[0], *MI_IN]
    assert toy_kg.neighbours("C0027051", limit=0) == []
    assert toy_kg.neighbours("C0027051", relation="RO", direction="out", limit=5) == [MI_OUT[2]]
    with pytest.raises(NotFound, match="no such relation: 'isa'"):
        toy_kg.neighbours("C0027051", relation="isa")


@pytest.mark.parametrize(
    "method",
    [
        "preferred",
        "terms_of",
        "types_of",
        "codes_of",
        "xrefs_of",
        "flags_of",
        "neighbours",
        "index",
    ],
)
def test_an_unknown_concept(toy_kg, method):
    for concept in ("C7777777", "", "Heart", "\udcff"):
        with pytest.raises(
            NotFound, match=r"no such concept: .* Look it up with `kg find`"
        ) as caught:
            getattr(toy_kg, method)(concept)
        assert repr(concept) in str(caught.value)
    assert caught.value.exit_code == 4


# Look-up


def test_finding_terms_equals_a_look_at_all_of_them(toy_kg):
    texts = {term.text for concept in toy_kg for term in toy_kg.terms_of(concept)}
    for text in (*texts, "COLD", "epilepsie", "nowhere"):
        expected = [
            (concept, number)
            for concept in range(len(toy_kg))
            for number in range(*map(int, toy_kg.terms.first[concept : concept + 2]))
            if fold(toy_kg.terms.text(number)) == fold(text)
        ]
        assert sorted(toy_kg.find_terms(text)) == expected
        assert expected or text == "nowhere"
    assert len(toy_kg.find_terms("common cold")) == 2  # of one concept, from two vocabularies
    assert len({concept for concept, _ in toy_kg.find_terms("epilepsie")}) == 2


def test_an_ambiguous_term_finds_all_its_concepts_those_it_is_the_name_of_first(toy_kg):
    assert toy_kg.find("cold") == ["C0234192", "C0009443"]
    assert toy_kg.find("COLD") == toy_kg.find(" cold. ") == toy_kg.find("cold")


@pytest.mark.parametrize(
    ("term", "concepts"),
    [
        ("Common Cold", ["C0009443"]),
        ("common-cold", ["C0009443"]),
        ("resfriado comun", ["C0009443"]),
        ("RESFRIADO COMÚN", ["C0009443"]),
        ("かぜ", ["C0009443"]),
        ("かせ", []),
        ("epilepsie", ["C0014544", "C0036572"]),
        ("crohn\u2019s disease", ["C0010346"]),
        ("Crohns disease", ["C0010346"]),
        ("crohn disease", ["C0010346"]),
        ("Crohn s disease", []),
        ("έμφραγμα του μυοκαρδιου", ["C0027051"]),
        ("na", ["C0000001"]),
        ('a "quoted" term', ["C0000002"]),
        ("a quoted term", ["C0000002"]),
        ("one two three", ["C0000003"]),
        ("痛", ["C0000004"]),
        ("--", []),
        ("심장", ["C0018787"]),
        ("Cœur", ["C0018787"]),
        ("heart disease", ["C0018799"]),
        ("heart  disea", []),
        ("C0009443", []),
        ("", []),
        ("\udcff", []),
        ("x" * 5000, []),
    ],
)
def test_find(toy_kg, term, concepts):
    assert toy_kg.find(term) == concepts


@pytest.mark.parametrize(
    ("vocabulary", "code", "concepts"),
    [
        ("SNOMEDCT_US", "22298006", ["C0027051"]),
        ("SNOMED", "22298006", ["C0027051"]),
        ("sctid", " 22298006 ", ["C0027051"]),
        ("MSH", "D009203", ["C0027051"]),
        ("MeSH", "d009203", ["C0027051"]),
        ("MeSH", "22298006", []),
        ("HP", "HP:0001250", ["C0036572"]),
        ("HPO", "0001250", ["C0036572"]),
        ("HP", "hp:0002279", ["C0036572"]),  # an alternative code
        ("HP", "UMLS:0001250", []),
        ("ICD10CM", "R51.9", ["C0018681"]),
        ("ICD-10-CM", "R519", ["C0018681"]),
        ("ICD10CM", "ICD10CM:R51.9", ["C0018681"]),
        ("ICD10CM", "r51.9", ["C0018681"]),
        ("ICD10CM", "R51", []),
        ("ICD10CM", "E08-E13", ["C0011849"]),
        ("icd10cm", "T07XXXA", ["ICD10CM:T07.XXXA"]),
        ("UMLS", "C0009443", ["C0009443"]),  # the concept's own id
        ("UMLS_CUI", "umls:c0009443", ["C0009443"]),
        ("UMLS", "C7777777", []),
        ("MSH", "X:1", ["C0000003"]),
        ("MSH", "NA", ["C0000001"]),
        ("nonsense", "D009203", []),
        ("", "", []),
    ],
)
def test_find_code(toy_kg, vocabulary, code, concepts):
    assert toy_kg.find_code(vocabulary, code) == concepts


def test_find_code_among_cross_references_when_asked_for(toy_kg):
    assert toy_kg.find_code("SNOMEDCT_US", "386661006") == []
    assert toy_kg.find_code("SNOMED", "386661006", xrefs=True) == ["C0015967"]
    assert toy_kg.find_code("UMLS", "C0036572", xrefs=True) == ["C0036572"]
    assert toy_kg.find_code("MSH", "D000001", xrefs=True) == []


# What there is


def test_labels(toy_kg):
    assert toy_kg.vocabularies == (
        Vocabulary("SNOMEDCT_US", "2025_03_01", "SNOMED CT, US edition"),
        Vocabulary("MSH", "2025", "Medical Subject Headings"),
        Vocabulary("HP"),
        Vocabulary("ICD10CM"),
        Vocabulary("UMLS"),
    )
    assert toy_kg.languages == ("en", "es", "ja", "fr", "ko", "el", "de", "zh")
    assert toy_kg.relations == ("CHD|isa", "RO|has_finding_site", "RO", "is_a")
    assert toy_kg.types[:2] == (DISEASE, SYMPTOM)


def test_the_report_says_what_was_left_out(toy_kg):
    report = toy_kg.report()
    assert report["graph"] == {
        "terms": {"read": 51, "kept": 51, "left_out": {}},
        "types": {"read": 12, "kept": 10, "left_out": {"absent concept": 1, "duplicate": 1}},
        "xrefs": {"read": 6, "kept": 4, "left_out": {"absent concept": 1, "duplicate": 1}},
        "flags": {"read": 5, "kept": 4, "left_out": {"absent concept": 1}},
        "edges": {
            "read": 18,
            "kept": 14,
            "left_out": {"absent concept": 2, "concept to itself": 1, "duplicate": 1},
        },
    }
    assert report["files"]["toy edges"] == {"read": 18, "kept": 18, "left_out": {}}
    assert (report["merged"], report["refused"]) == (0, 0)


def test_meta(toy_kg):
    assert toy_kg.meta["sources"] == ["toy"]
    assert toy_kg.meta["namespaces"] == ["UMLS"]
    assert len(toy_kg.fingerprint) == 32


def test_open_takes_a_string(toy_path):
    assert len(KG.open(str(toy_path))) == 30


def test_no_graph_here(tmp_path):
    with pytest.raises(ArtefactError, match=r"is not a knowledge graph: it has no meta\.json"):
        KG.open(tmp_path)
