"""A graph of thirty concepts, small enough to work out every answer by hand."""

from medcoder.types import Vocabulary
from support.memory import MemorySource

VOCABULARIES = (
    Vocabulary("SNOMEDCT_US", "2025_03_01", "SNOMED CT, US edition"),
    Vocabulary("MSH", "2025", "Medical Subject Headings"),
)

# concept, term, language, source, code, kind, rank
TERMS = [
    # A concept's rows need not lie together, nor the best name first.
    ("C0009443", "cold", "en", "SNOMEDCT_US", "82272006", "SY", 3),
    ("C0234192", "Cold", "en", "SNOMEDCT_US", "84162001", "PT", 0),
    ("C0009443", "Common Cold", "en", "MSH", "D003139", "PT", 0),
    ("C0009443", "Resfriado común", "es", "SNOMEDCT_US", "82272006", "PT", -5),
    ("C0009443", "かぜ", "ja", "MSH", "D003139", "PT", 0),
    ("C0009443", "catarro", "es", "SNOMEDCT_US", "82272006", "SY", 2),
    ("C0009443", "Common Cold", "en", "SNOMEDCT_US", "82272006", "SY", 1),
    ("C0234192", "Feeling cold", "en", "SNOMEDCT_US", "84162001", "SY", 1),
    ("C0018787", "Heart", "en", "SNOMEDCT_US", "80891009", "PT", 0),
    ("C0018787", "cœur", "fr", "MSH", "D006321", "PT", 0),
    ("C0018787", "심장", "ko", "MSH", "D006321", "PT", 0),
    ("C0027051", "Myocardial infarction", "en", "SNOMEDCT_US", "22298006", "PT", 0),
    ("C0027051", "Heart attack", "en", "MSH", "D009203", "ET", 1),
    ("C0027051", "Infarto de miocardio", "es", "SNOMEDCT_US", "22298006", "PT", 0),
    ("C0027051", "Έμφραγμα του μυοκαρδίου", "el", "MSH", "D009203", "PT", 0),
    ("C0018799", "Heart disease", "en", "SNOMEDCT_US", "56265001", "PT", 0),
    ("C0012634", "Disease", "en", "SNOMEDCT_US", "64572001", "PT", 0),
    ("C0012634", "Krankheit", "de", "MSH", "D004194", "PT", 0),
    ("C0010346", "Crohn's disease", "en", "SNOMEDCT_US", "34000006", "PT", 0),
    ("C0010346", "Crohn Disease", "en", "MSH", "D003424", "PT", 1),
    ("C0010346", "Maladie de Crohn", "fr", "MSH", "D003424", "PT", 0),
    ("C0021390", "Inflammatory bowel disease", "en", "SNOMEDCT_US", "24526004", "PT", 0),
    ("C0036572", "Seizure", "en", "HP", "HP:0001250", "name", 0),
    ("C0036572", "Épilepsie", "fr", "HP", "HP:0001250", "RELATED", 4),
    ("C0014544", "Epilepsy", "en", "MSH", "D004827", "PT", 0),
    ("C0014544", "Épilepsie", "fr", "MSH", "D004827", "PT", 0),
    ("C0011849", "Diabetes mellitus", "en", "ICD10CM", "E08-E13", "description", 0),
    ("C0011860", "Type 2 diabetes", "en", "ICD10CM", "E11", "description", 0),
    ("C0011860", "NIDDM", "en", "MSH", "D003924", "ET", 1),
    ("C0011854", "Type 1 diabetes", "en", "ICD10CM", "E10", "description", 0),
    ("C0018681", "Headache", "en", "ICD10CM", "R51.9", "description", 0),
    ("C0149931", "Migraine", "en", "ICD10CM", "G43", "description", 0),
    ("C0015967", "Fever", "en", "HP", "HP:0001945", "name", 0),
    ("C0010200", "Cough", "en", "HP", "HP:0012735", "name", 0),
    ("C0010200", "Husten", "de", "HP", "HP:0012735", "name", 0),
    ("C0010200", "Tos", "es", "HP", "HP:0012735", "name", 0),
    # No English at all: the first language by name, then the best rank.
    ("C0032285", "肺炎", "zh", "MSH", "D011014", "PT", 0),
    ("C0032285", "Pneumonie", "fr", "MSH", "D011014", "PT", 2),
    ("C0032285", "Pneumopathie", "fr", "MSH", "D011014", "ET", 1),
    # The evil ones: a term that looks like nothing, quotes, line ends of other worlds.
    ("C0000001", "NA", "en", "MSH", "NA", "PT", 0),
    ("C0000002", 'a "quoted" term', "en", "MSH", "", "PT", 0),
    ("C0000003", "one\u2028two\u0085three", "en", "MSH", "X:1", "PT", 0),
    ("C0000004", "痛", "en", "MSH", "Q4", "PT", 0),
    # Ids that are codes of other vocabularies.
    ("ICD10CM:T07", "Multiple injuries", "en", "ICD10CM", "T07", "description", 0),
    ("ICD10CM:T07.XXXA", "Multiple injuries, initial", "en", "ICD10CM", "T07.XXXA", "code", 0),
    ("HP:0000118", "Phenotypic abnormality", "en", "HP", "HP:0000118", "name", 0),
    ("HP:0000057", "obsolete Clitoromegaly", "en", "HP", "HP:0000057", "name", 0),
    # Fillers to make thirty, with neither type nor edge.
    *((f"C99900{n}", f"Filler {n}", "en", "MSH", f"F{n}", "PT", 0) for n in range(4)),
]  # fmt: skip

DISEASE, SYMPTOM, PART = "Disease or Syndrome", "Sign or Symptom", "Body Part"
TYPES = [
    ("C0009443", "T047", DISEASE),
    ("C0234192", "T184", SYMPTOM),
    ("C0018787", "T023", PART),
    *((c, "T047", DISEASE) for c in ("C0027051", "C0018799", "C0012634", "C0010346", "C0021390")),
    ("C0036572", "T184", SYMPTOM),
    ("C0036572", "T047", DISEASE),
    ("C0036572", "T184", SYMPTOM),  # said twice
    ("C7777777", "T999", "Of a concept without terms"),
]
XREFS = [
    ("C0036572", "UMLS", "C0036572", "xref"),
    ("C0036572", "SNOMEDCT_US", "91175000", "xref"),
    ("C0036572", "HP", "HP:0002279", "alt"),
    ("C0015967", "SNOMEDCT_US", "386661006", "xref"),
    ("C0015967", "SNOMEDCT_US", "386661006", "xref"),  # said twice
    ("C7777777", "MSH", "D000001", "xref"),
]
FLAGS = [
    ("ICD10CM:T07.XXXA", "extension"),
    ("HP:0000057", "invalid"),
    ("C0012634", "standard"),
    ("HP:0000057", "standard"),
    ("C7777777", "invalid"),
]
EDGES = [
    ("C0027051", "CHD|isa", "C0018799"),
    ("C0018799", "CHD|isa", "C0012634"),
    ("C0010346", "CHD|isa", "C0021390"),
    ("C0021390", "CHD|isa", "C0012634"),
    ("C0009443", "CHD|isa", "C0012634"),
    ("C0027051", "RO|has_finding_site", "C0018787"),
    ("C0018799", "RO|has_finding_site", "C0018787"),
    ("C0027051", "RO", "C0018799"),
    ("C0018799", "RO", "C0027051"),
    ("C0011860", "is_a", "C0011849"),
    ("C0011854", "is_a", "C0011849"),
    ("C0149931", "is_a", "C0018681"),
    ("ICD10CM:T07.XXXA", "is_a", "ICD10CM:T07"),
    ("C0036572", "is_a", "HP:0000118"),
    ("C0027051", "CHD|isa", "C0018799"),  # said twice
    ("C0012634", "RO", "C0012634"),  # of a concept to itself
    ("C0012634", "RB|inverse_isa", "C7777777"),  # to a concept without terms
    ("C7777777", "RO", "C0012634"),
]


def toy_source(**changes):
    rows = {"terms": TERMS, "types": TYPES, "xrefs": XREFS, "flags": FLAGS, "edges": EDGES}
    return MemorySource(
        **{"name": "toy", "namespace": "UMLS", "vocabularies": VOCABULARIES} | rows | changes
    )
