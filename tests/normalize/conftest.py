"""A small graph of what wards write about, with the names that once answered too much."""

import pytest

from medcoder import Normalizer
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.build import build
from support.bag import write_bag
from support.many import small_source

DISEASE, SYMPTOM, DRUG = (
    ("T047", "Disease or Syndrome"),
    ("T184", "Sign or Symptom"),
    ("T121", "Pharmacologic Substance"),
)
# Of each concept its type, its vocabulary, and its names, the preferred one first.
NAMES = {
    "asthma": (DISEASE, "HP", "Asthma"),
    "asthma-icd": (DISEASE, "ICD10CM", "Asthma", "Bronchial asthma"),
    "asthma-family": (DISEASE, "ICD10CM", "Family history of asthma"),
    "tia": (DISEASE, "ICD10CM", "Transient ischemic attack", "TIA"),
    "aml": (DISEASE, "MSH", "Acute myeloid leukemia", "AML"),
    "ptp": (DISEASE, "MSH", "Post-transfusion purpura", "PTP"),
    "tmd": (DISEASE, "MSH", "Temporomandibular disorder", "TMD"),
    "dropsy": (SYMPTOM, "MSH", "Dropsy"),
    "miosis": (SYMPTOM, "HP", "Miosis"),
    "hypertension": (DISEASE, "ICD10CM", "Hypertension", "High blood pressure"),
    "afib": (DISEASE, "ICD10CM", "Atrial fibrillation"),
    "ms": (DISEASE, "MSH", "Multiple sclerosis"),
    "mitral": (DISEASE, "MSH", "Mitral stenosis"),
    "pancreatitis": (DISEASE, "MSH", "Pancreatitis"),
    "pancreatitis-acute": (DISEASE, "MSH", "Acute pancreatitis"),
    "testis": (DISEASE, "ICD10CM", "Malignant neoplasm of testis", "Testicular cancer"),
    "testis-past": (DISEASE, "ICD10CM", "Personal history of malignant neoplasm of testis",
                    "Personal history of testicular cancer"),
    "nausea": (SYMPTOM, "HP", "Nausea"),
    "vomiting": (SYMPTOM, "HP", "Vomiting"),
    "nausea-vomiting": (SYMPTOM, "ICD10CM", "Nausea and vomiting"),
    "headache": (SYMPTOM, "HP", "Headache"),
    "fever": (SYMPTOM, "HP", "Fever"),
    "cough": (SYMPTOM, "HP", "Cough"),
    "hip": (SYMPTOM, "HP", "Hip pain"),
    "knee": (SYMPTOM, "HP", "Knee pain"),
    "gout": (DISEASE, "ICD10CM", "Gout"),
    "epilepsy": (DISEASE, "ICD10CM", "Epilepsy"),
    "migraine": (DISEASE, "ICD10CM", "Migraine without aura"),
    "varices": (DISEASE, "ICD10CM", "Esophageal varices"),
    "stone": (DISEASE, "HP", "Renal stone"),
    "crohn": (DISEASE, "MSH", "Crohn's disease"),
    "pneumonia": (DISEASE, "ICD10CM", "Pneumonia"),
    "pneumonia-below": (DISEASE, "ICD10CM", "Pneumonia"),
    "mumps": (DISEASE, "MSH", "Mumps"),
    "mumps-other": (DISEASE, "MSH", "Mumps"),
    "digitalis": (DRUG, "MSH", "Digitalis"),
    "digitalis-poisoning": (DISEASE, "ICD10CM", "Digitalis"),
    "diseases": (DISEASE, "ICD10CM", "Diseases of the joints"),
}  # fmt: skip
# Words that the encoder tells apart, so that nothing but their letters is alike.
ALIKE = {"jia", "cml", "itp", "ttp", "dmd", "drowsy", "micosis", "htn", "utn", "htm", "hfn"}
EDGES = [("pneumonia-below", "is_a", "pneumonia"), ("gout", "is_a", "diseases")]


@pytest.fixture(scope="session")
def ward_index(tmp_path_factory, calibration):
    """Its index, not to be written to nor beside."""
    folder = tmp_path_factory.mktemp("ward")
    rows = [
        (concept, text, "en", vocabulary, f"W{number:02}", "PT", rank)  # no code is a word
        for number, (concept, (_, vocabulary, *texts)) in enumerate(NAMES.items())
        for rank, text in enumerate(texts)
    ]
    types = [(concept, *kind) for concept, (kind, *_) in NAMES.items()]
    flags = [("diseases", "heading")]
    source = small_source(rows, types=types, edges=EDGES, flags=flags)
    build_kg([source], folder / "ward.kg")
    words = {word.lower() for _, text, *_ in rows for word in text.replace("'s", " s").split()}
    encoder = write_bag(folder / "ward.onnx", sorted(words | ALIKE))
    build(KG.open(folder / "ward.kg"), encoder, folder / "ward.index", calibration=calibration)
    return folder / "ward.index"


@pytest.fixture(scope="session")
def ward(ward_index):
    return Normalizer.load(ward_index)
