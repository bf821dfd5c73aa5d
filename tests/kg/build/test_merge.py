"""Several sources in one graph, joined by cross-references."""

import pytest

from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.types import Code, Edge, SemanticType, Term
from support.memory import MemorySource
from support.scarcity import scarcity


def term(concept, text, source, code, language="en", rank=0):
    return concept, text, language, source, code, "PT", rank


def hpo(*xrefs, **changes):
    """Two concepts of HP: Seizure and Fever."""
    rows = {
        "terms": [
            term("HP:0001250", "Seizure", "HP", "HP:0001250"),
            term("HP:0001945", "Fever", "HP", "HP:0001945"),
        ],
        "types": [("HP:0001250", "HP:0000707", "Nervous system")],
        "flags": [("HP:0001250", "standard")],
        "edges": [("HP:0001250", "is_a", "HP:0001945")],
        "xrefs": list(xrefs),
    }
    return MemorySource(**{"name": "hpo"} | rows | changes)


def mesh(*xrefs, **changes):
    """Two concepts of MSH: Seizures and Epilepsy."""
    rows = {
        "terms": [
            term("M:D012640", "Seizures", "MSH", "D012640"),
            term("M:D012640", "Convulsion", "MSH", "D012640", rank=1),
            term("M:D004827", "Epilepsy", "MSH", "D004827"),
        ],
        "types": [("M:D012640", "T184", "Sign or Symptom")],
        "flags": [("M:D012640", "invalid")],
        "edges": [("M:D004827", "broader", "M:D012640")],
        "xrefs": list(xrefs),
    }
    return MemorySource(**{"name": "mesh"} | rows | changes)


def umls(*terms, **changes):
    """Concepts whose ids are codes of UMLS; their terms are of other vocabularies."""
    return MemorySource(name="umls", namespace="UMLS", terms=terms, **changes)


def build(folder, *sources, by=("xrefs",), **options):
    report = build_kg(sources, folder / "kg", merge_by=by, **options)
    table = (folder / "kg" / "merges.tsv").read_text(encoding="utf-8").splitlines()
    assert table[0] == "status\tconcept\tother\treference\treason"
    merges = [tuple(line.split("\t")) for line in table[1:]]
    assert report["merged"] == sum(row[0] == "merged" for row in merges)
    assert report["refused"] == sum(row[0] == "refused" for row in merges)
    for count in report["graph"].values():
        assert count["read"] == count["kept"] + sum(count["left_out"].values())
    return KG.open(folder / "kg"), merges


TO_MESH = ("HP:0001250", "MESH", "D012640", "xref")


def test_nothing_is_merged_unasked(tmp_path):
    kg, merges = build(tmp_path, hpo(TO_MESH), mesh(), by=())
    assert list(kg) == ["HP:0001250", "HP:0001945", "M:D004827", "M:D012640"]
    assert merges == []


def test_a_direct_reference(tmp_path):
    kg, merges = build(tmp_path, hpo(TO_MESH), mesh())
    assert merges == [("merged", "HP:0001250", "M:D012640", "MESH:D012640", "")]
    assert list(kg) == ["HP:0001250", "HP:0001945", "M:D004827"]
    # Every term keeps its source and its code there.
    assert kg.terms_of("HP:0001250") == [
        Term("Seizure", "en", "HP", "HP:0001250", "PT"),
        Term("Seizures", "en", "MSH", "D012640", "PT"),
        Term("Convulsion", "en", "MSH", "D012640", "PT"),
    ]
    assert kg.types_of("HP:0001250") == [
        SemanticType("HP:0000707", "Nervous system"),
        SemanticType("T184", "Sign or Symptom"),
    ]
    assert kg.flags_of("HP:0001250") == ["standard", "invalid"]
    assert kg.codes_of("HP:0001250") == [Code("HP", "HP:0001250"), Code("MSH", "D012640")]
    assert kg.xrefs_of("HP:0001250") == [Code("MESH", "D012640")]
    assert kg.neighbours("HP:0001250", direction="in") == [
        Edge("M:D004827", "broader", "HP:0001250")
    ]
    assert kg.find("convulsion") == kg.find("seizure") == ["HP:0001250"]
    assert kg.find_code("MeSH", "d012640") == ["HP:0001250"]


def test_the_id_that_is_gone_still_leads_to_the_concept(tmp_path):
    kg, _ = build(tmp_path, hpo(TO_MESH), mesh())
    assert "M:D012640" in kg
    assert kg.index("M:D012640") == kg.index("HP:0001250")
    assert kg.indices(["M:D012640", "HP:0001250", "M:D004827"]).tolist() == [0, 0, 2]
    assert kg.preferred("M:D012640") == "Seizure"
    assert kg.contains("M:D004827", "broader", "M:D012640")
    assert kg.contains(["M:D004827"], "broader", ["HP:0001250"]).tolist() == [True]
    assert kg.codes_of("M:D012640") == kg.codes_of("HP:0001250")  # an id is no code
    assert [vocabulary.name for vocabulary in kg.vocabularies] == ["HP", "MESH", "MSH"]


def test_the_id_of_the_source_named_first_stays(tmp_path):
    kg, merges = build(tmp_path, mesh(), hpo(TO_MESH))
    assert merges == [("merged", "M:D012640", "HP:0001250", "MESH:D012640", "")]
    assert list(kg) == ["HP:0001945", "M:D004827", "M:D012640"]
    assert kg.terms_of("HP:0001250")[0].text == "Seizures"  # of the source named first


def test_a_reference_from_either_side(tmp_path):
    back = ("M:D012640", "HPO", "0001250", "xref")
    kg, merges = build(tmp_path, hpo(), mesh(back))
    assert merges == [("merged", "HP:0001250", "M:D012640", "HP:0001250", "")]
    assert len(kg) == 3


def test_a_reference_to_an_alternative_code(tmp_path):
    alt = ("M:D012640", "MSH", "D999999", "alt")
    kg, merges = build(tmp_path, hpo(("HP:0001250", "MSH", "D999999", "xref")), mesh(alt))
    assert merges == [("merged", "HP:0001250", "M:D012640", "MESH:D999999", "")]
    assert Code("MSH", "D999999") in kg.codes_of("HP:0001250")


def test_references_to_nothing_here(tmp_path):
    xrefs = [
        ("HP:0001250", "MSH", "D000000", "xref"),
        ("HP:0001250", "NOWHERE", "D012640", "xref"),
        ("HP:0001250", "HP", "HP:0001250", "xref"),  # to itself
        ("HP:7777777", "MSH", "D012640", "xref"),  # of a concept without terms
    ]
    kg, merges = build(tmp_path, hpo(*xrefs), mesh())
    assert (len(kg), merges) == (4, [])


def test_edges_between_merged_concepts_are_of_a_concept_to_itself(tmp_path):
    edges = [("HP:0001250", "same_as", "M:D012640"), ("M:D004827", "broader", "M:D012640")]
    kg, _ = build(tmp_path, hpo(TO_MESH), mesh(edges=edges))
    assert kg.report()["graph"]["edges"] == {
        "read": 3,
        "kept": 2,
        "left_out": {"concept to itself": 1},
    }
    assert kg.relations == ("is_a", "broader")


def test_a_vocabulary_that_both_refer_to(tmp_path):
    both = [
        hpo(("HP:0001250", "UMLS", "C0036572", "xref")),
        mesh(("M:D012640", "UMLS_CUI", "UMLS:C0036572", "xref")),
    ]
    kg, merges = build(tmp_path, *both, by=["UMLS"])
    assert merges == [("merged", "HP:0001250", "M:D012640", "UMLS:C0036572", "")]
    assert len(kg) == 3
    assert kg.find_code("UMLS", "C0036572", xrefs=True) == ["HP:0001250"]


def test_only_vocabularies_that_were_named_are_shared(tmp_path):
    sources = [
        hpo(("HP:0001250", "UMLS", "C0036572", "xref")),
        mesh(("M:D012640", "UMLS", "C0036572", "xref")),
    ]
    for number, by in enumerate([["xrefs"], ["HP"], ["xrefs", "MSH"]]):
        _, merges = build(tmp_path / str(number), *sources, by=by)
        assert merges == []


# Refusals


def test_two_concepts_of_one_vocabulary_are_never_joined(tmp_path):
    xrefs = [
        ("HP:0001250", "MSH", "D012640", "xref"),
        ("HP:0001945", "MSH", "D012640", "xref"),
    ]
    kg, merges = build(tmp_path, hpo(*xrefs), mesh())
    assert merges == [
        ("merged", "HP:0001250", "M:D012640", "MESH:D012640", ""),
        ("refused", "HP:0001945", "M:D012640", "MESH:D012640", "would join two concepts of HP"),
    ]
    assert list(kg) == ["HP:0001250", "HP:0001945", "M:D004827"]


def test_the_surest_references_come_first(tmp_path):
    """M1 has three partners, so HP1, which refers to it and to M2, is M2 more surely."""
    one = MemorySource(
        terms=[term(f"HP:{n}", f"h{n}", "HP", f"HP:{n}") for n in (1, 2, 3)],
        xrefs=[(f"HP:{n}", "MSH", m, "xref") for n, m in ((1, "1"), (2, "1"), (3, "1"), (1, "2"))],
    )
    other = MemorySource(terms=[term(f"M:{n}", f"m{n}", "MSH", str(n)) for n in (1, 2)])
    _, merges = build(tmp_path, one, other)
    assert merges == [
        ("merged", "HP:1", "M:2", "MESH:2", ""),
        ("merged", "HP:2", "M:1", "MESH:1", ""),
        ("refused", "HP:1", "M:1", "MESH:1", "would join two concepts of MESH"),
        ("refused", "HP:3", "M:1", "MESH:1", "would join two concepts of HP"),
    ]


def test_references_within_a_vocabulary_are_refused(tmp_path):
    _, merges = build(tmp_path, hpo(("HP:0001250", "HP", "HP:0001945", "xref")))
    assert merges == [
        ("refused", "HP:0001250", "HP:0001945", "HP:0001945", "would join two concepts of HP")
    ]


def test_chains_are_one_concept_unless_two_ends_are_of_one_vocabulary(tmp_path):
    snomed = MemorySource(
        terms=[term("S1", "Fit", "SNOMEDCT_US", "91175000")],
        xrefs=[("S1", "MSH", "D012640", "xref")],
    )
    kg, merges = build(tmp_path, hpo(("HP:0001250", "SCTID", "91175000", "xref")), mesh(), snomed)
    assert [row[:3] for row in merges] == [
        ("merged", "HP:0001250", "S1"),
        ("merged", "HP:0001250", "M:D012640"),
    ]
    assert {kg.index(id) for id in ("HP:0001250", "S1", "M:D012640")} == {0}
    assert {t.vocabulary for t in kg.terms_of("S1")} == {"HP", "MSH", "SNOMEDCT_US"}


# Concepts that bear codes of other vocabularies, as those of UMLS do


SEIZURES = [
    term("C0036572", "Seizures", "MSH", "D012640"),
    term("C0036572", "Seizure", "HPO", "HP:0001250"),
    term("C0014544", "Epilepsy", "MSH", "D004827"),
]


def test_an_id_that_is_a_code(tmp_path):
    xref = ("HP:0001250", "UMLS", "C0036572", "xref")
    kg, merges = build(tmp_path, umls(SEIZURES[0]), hpo(xref))
    assert merges == [("merged", "C0036572", "HP:0001250", "UMLS:C0036572", "")]
    assert kg.find_code("UMLS", "C0036572") == ["C0036572"]
    assert [t.vocabulary for t in kg.terms_of("HP:0001250")] == ["MSH", "HP"]  # as they were named


def test_a_concept_that_bears_the_very_code_is_the_same_one(tmp_path):
    """UMLS holds HPO: its concept of HP:0001250 and that of HPO itself are not two of HP."""
    xref = ("HP:0001250", "UMLS", "C0036572", "xref")
    kg, merges = build(tmp_path, umls(*SEIZURES), hpo(xref))
    assert merges == [("merged", "C0036572", "HP:0001250", "UMLS:C0036572", "")]
    assert list(kg) == ["C0014544", "C0036572", "HP:0001945"]


def test_a_concept_that_bears_another_code_of_the_vocabulary_is_refused(tmp_path):
    xref = ("HP:0001945", "UMLS", "C0036572", "xref")
    _, merges = build(tmp_path, umls(*SEIZURES), hpo(xref))
    assert merges == [
        ("refused", "C0036572", "HP:0001945", "UMLS:C0036572", "would join two concepts of HP")
    ]


def test_a_concept_that_bears_two_codes_is_joined_with_one_of_them(tmp_path):
    both = [*SEIZURES, term("C0036572", "Fever", "HPO", "HP:0001945")]
    xrefs = [(id, "UMLS", "C0036572", "xref") for id in ("HP:0001250", "HP:0001945")]
    _, merges = build(tmp_path, umls(*both), hpo(*xrefs))
    assert [row[:3] for row in merges] == [
        ("merged", "C0036572", "HP:0001250"),
        ("refused", "C0036572", "HP:0001945"),
    ]


def test_two_concepts_of_umls_are_never_joined(tmp_path):
    xrefs = [("HP:0001250", "UMLS", id, "xref") for id in ("C0036572", "C0014544")]
    terms = [SEIZURES[0], term("C0014544", "Epilepsy", "NCI", "C3020")]
    _, merges = build(tmp_path, umls(*terms), hpo(*xrefs))
    assert [(row[0], row[1], row[2], row[4]) for row in merges] == [
        ("merged", "C0014544", "HP:0001250", ""),
        ("refused", "C0036572", "HP:0001250", "would join two concepts of UMLS"),
    ]


# How it is built


def test_little_memory_gives_the_same_graph(tmp_path):
    sources = [hpo(TO_MESH, chunk=1), mesh(chunk=1)]
    kg, _ = build(tmp_path / "large", *sources)
    with scarcity() as setting:
        small, _ = build(tmp_path / "small", *sources, **setting)
    assert small.fingerprint == kg.fingerprint


def test_the_same_id_in_two_sources_is_one_concept(tmp_path):
    again = MemorySource(name="again", terms=[term("HP:0001250", "Attack", "MORE", "1")])
    kg, merges = build(tmp_path, hpo(), again)
    assert merges == []
    assert [t.text for t in kg.terms_of("HP:0001250")] == ["Seizure", "Attack"]


def test_merging_where_there_are_no_references(tmp_path):
    kg, merges = build(tmp_path, hpo(), mesh())
    assert (len(kg), merges) == (4, [])


@pytest.mark.parametrize("name", ["xref", "SNOMEDCT_US"])
def test_a_vocabulary_that_nothing_refers_to_is_a_mistake(tmp_path, name):
    with pytest.raises(UsageError, match=f"--merge-by {name}: .* There are: xrefs, HP, MESH$"):
        build(tmp_path, hpo(), mesh(), by=["xrefs", name])
    assert list(tmp_path.iterdir()) == []
