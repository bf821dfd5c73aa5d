"""The same thing in several vocabularies."""

import pytest

from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.twins import Twins, kind_of
from support.many import small_source

DISEASE, SYMPTOM = ("T047", "Disease or Syndrome"), ("T184", "Sign or Symptom")
DRUG, GENE = ("T121", "Pharmacologic Substance"), ("T028", "Gene or Genome")


@pytest.fixture
def twins(tmp_path):
    """Makes `of` for concepts, each as its vocabulary and its type."""

    def made(concepts, **parts):
        rows = [
            (concept, f"name {concept}", "en", vocabulary, f"Q{n}", "PT", 0)
            for n, (concept, (vocabulary, _)) in enumerate(concepts.items())
        ]
        types = [(concept, *kind) for concept, (_, kind) in concepts.items() if kind]
        build_kg([small_source(rows, types=types, **parts)], tmp_path / "t.kg")
        kg = KG.open(tmp_path / "t.kg")
        found = Twins(kg)

        def of(*names, called=None):
            numbers = [kg.index(name) for name in names]
            first = numbers if called is None else [kg.index(name) for name in called]
            others, things = found.of(numbers, first)
            return [kg.terms.id(other) for other in others], things

        return of

    return made


def test_a_disease_of_three_vocabularies_is_one_thing(twins):
    of = twins({"a": ("HP", DISEASE), "b": ("MSH", SYMPTOM), "c": ("ICD10CM", DISEASE)})
    assert of("a", "b", "c") == (["b", "c"], 1)
    assert of("c", "a", "b") == (["a", "b"], 1)
    assert of("b") == ([], 1)
    assert of() == ([], 0)


def test_a_synonym_alone_makes_no_twins(twins):
    of = twins({"a": ("HP", SYMPTOM), "b": ("MSH", DISEASE), "c": ("ICD10CM", DISEASE)})
    assert of("a", "b", "c", called="a") == ([], 3)
    assert of("a", "b", "c", called="ac") == (["c"], 2)
    assert of("a", "b", "c", called="bc") == ([], 3)


def test_two_of_a_vocabulary_are_two_things(twins):
    of = twins({"a": ("MSH", DISEASE), "b": ("MSH", DISEASE), "c": ("HP", DISEASE)})
    assert of("a", "b") == ([], 2)
    assert of("a", "b", "c") == ([], 3)  # which of them the third is, nobody knows
    assert of("a", "c") == (["c"], 1)


@pytest.mark.parametrize("edge", [("a", "is_a", "b"), ("b", "is_a", "a"), ("b", "CHD|isa", "a")])
def test_a_code_and_the_code_below_it_are_one_thing(twins, edge):
    of = twins({"a": ("ICD10CM", DISEASE), "b": ("ICD10CM", DISEASE), "c": ("HP", DISEASE)},
               edges=[edge])  # fmt: skip
    assert of("a", "b") == ([], 1)
    assert of("a", "b", "c") == (["c"], 1)
    assert of("b", "a", "c") == (["c"], 1)


def test_things_of_other_kinds_are_others(twins):
    of = twins({"a": ("MSH", DRUG), "b": ("ICD10CM", DISEASE), "c": ("HP", GENE)})
    assert of("a", "b", "c") == ([], 3)
    assert of("b", "a") == ([], 2)


def test_a_concept_without_a_type_is_a_condition(twins):
    of = twins({"a": ("MSH", None), "b": ("ICD10CM", DISEASE), "c": ("HP", DRUG)})
    assert of("a", "b", "c") == (["b"], 2)


@pytest.mark.parametrize("xref", [("a", "HP", "Q2", "xref"), ("c", "MSH", "Q0", "xref")])
def test_what_refers_to_the_other_is_a_twin_whatever_its_kind(twins, xref):
    of = twins({"a": ("MSH", DRUG), "b": ("ICD10CM", DISEASE), "c": ("HP", GENE)}, xrefs=[xref])
    assert of("a", "c") == (["c"], 1)
    assert of("a", "b", "c") == (["c"], 2)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Disease or Syndrome", "condition"),
        ("Diseases of the respiratory system", "condition"),
        ("Abnormality of the ear", "condition"),
        ("Symptoms, signs and abnormal clinical and laboratory findings", "condition"),
        ("Pharmacologic Substance", "drug"),
        ("Therapeutic or Preventive Procedure", "procedure"),
        ("Laboratory Procedure", "procedure"),
        ("Diagnostic test", "test"),
        ("Body Part, Organ, or Organ Component", "anatomy"),
        ("Bacterium", "organism"),
        ("Gene or Genome", "gene"),
        ("External causes of morbidity", "other"),
        ("", "condition"),
    ],
)
def test_kinds(name, kind):
    assert kind_of(name) == kind


@pytest.mark.parametrize("namespace", ["UMLS", "umls"])
def test_what_the_editors_of_umls_keep_apart_stays_apart(twins, namespace):
    concepts = {"a": ("HP", DISEASE), "b": ("MSH", DISEASE), "c": ("ICD10CM", DISEASE)}
    of = twins(concepts, namespace=namespace, xrefs=[("a", "ICD10CM", "Q2", "xref")])
    assert of("a", "b") == ([], 2)
    assert of("a", "b", "c") == (["c"], 2)  # unless one refers to the other
