"""What other formats call vocabularies and equivalences."""

from fhir.resources.R4B.conceptmap import ConceptMap, ConceptMapGroupElementTarget

from medcoder.mapping.formats import export
from medcoder.mapping.formats.systems import (
    EQUIVALENCE_WORDS,
    curie,
    from_sssom,
    from_usagi,
    system_of,
    written_codes,
)
from medcoder.mapping.project.records import EQUIVALENCES, Target
from medcoder.types import Code
from support.mapped import (
    make,
    read_sssom,
)


def test_the_table_says_what_the_target_is_to_the_source():
    # FHIR R4: "wider: the target mapping is wider in meaning than the source concept". SKOS: the
    # object of broadMatch is the broader concept.
    assert {ours: tuple(words) for ours, words in EQUIVALENCE_WORDS.items()} == {
        "equivalent": ("skos:exactMatch", "equivalent", "EQUIVALENT"),
        "broader": ("skos:broadMatch", "wider", "WIDER"),
        "narrower": ("skos:narrowMatch", "narrower", "NARROWER"),
        "related": ("skos:relatedMatch", "relatedto", "INEXACT"),
        "no match": ("skos:exactMatch", "unmatched", "UNMATCHED"),
    }
    assert tuple(EQUIVALENCE_WORDS) == EQUIVALENCES


def test_the_table_read_backwards():
    for ours, words in EQUIVALENCE_WORDS.items():
        found = "sssom:NoTermFound" if ours == "no match" else "HP:0001658"
        assert from_sssom(words.sssom, found) == ours
        assert from_usagi(words.usagi) == ours
    assert from_sssom("skos:closeMatch", "x:1") == "equivalent"
    assert from_sssom("x:unknown", "x:1") is None


def test_fhir_knows_every_word_of_the_table():
    field = ConceptMapGroupElementTarget.model_fields["equivalence"]
    assert {words.fhir for words in EQUIVALENCE_WORDS.values()} <= set(
        field.json_schema_extra["enum_values"]
    )


def test_codes_of_the_vocabularies_asked_for_are_written():
    codes = (Code("MSH", "D1"), Code("ICD10CM", "I21"), Code("SNOMEDCT_US", "22298006"))
    target = Target("C0027051", "Myocardial infarction", codes)
    assert written_codes(target) == [codes[0]]
    assert written_codes(target, ("SNOMED", "ICD10CM")) == [codes[2], codes[1]]
    assert written_codes(Target("C0027051", "x", ())) == [Code("UMLS", "C0027051")]
    assert written_codes(Target("HP:1", "x", ())) == [Code("HP", "HP:1")]
    assert curie(codes[2]) == "SNOMEDCT:22298006"
    assert system_of("HPO") == system_of("HP")


def test_vocabularies_without_a_uri_get_a_urn(tmp_path):
    with make(tmp_path) as made:
        codes = (Code("Ward 7", "x y"),)
        made.decide(1, "W1", name="Own", codes=codes, who="Ann")
        notes = export(made, "fhir", tmp_path / "x.json")
        more = export(made, "sssom", tmp_path / "x.sssom.tsv")
    read = ConceptMap.model_validate_json((tmp_path / "x.json").read_bytes())
    assert read.group[0].target == "urn:medcoder:vocabulary:Ward%207"
    assert "FHIR has no URI for Ward 7: a urn stands for it" in notes
    assert "no web address is known for Ward 7: a urn stands for it" in more
    row = next(row for row in read_sssom(tmp_path / "x.sssom.tsv").df.to_dict("records")
               if row["subject_label"] == "heart attack")  # fmt: skip
    assert (row["object_id"], row["object_source"]) == ("Ward_7:x%20y", "medcoder:Ward%207")
