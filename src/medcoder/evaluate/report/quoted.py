"""Every table of the CODER paper as it is printed there, misprints and all.

A row is "name kind value value...", with "-" where the paper has none. `e` is the vector of
[CLS], `e_avg` the mean over tokens. Nothing here was measured by medcoder.
"""

from __future__ import annotations

from dataclasses import dataclass

CITATION = "Yuan et al., CODER (2021), arXiv:2011.02947"
SIZES = (
    "Quoted rows of Cadec and PsyTar: the paper's text gives 6,754 terms / 1,029 targets and "
    "6,556 / 618, the folds published with its code hold 2,159 / 181 and 2,591 / 167. Measured "
    "rows are of the published folds, so the two are not figures of one set."
)
ENG, ALL = "CODER_ENG", "CODER_ALL"
LANGUAGES = ("es", "fr", "nl", "de")  # the columns of its MANTRA table
TYPES = {  # the columns of its MCSM tables
    "PS": "Pharmacologic Substance",
    "DS": "Disease or Syndrome",
    "NP": "Neoplastic Process",
    "CD": "Clinical Drug",
    "FD": "Finding",
    "IP": "Injury or Poisoning",
}


@dataclass(frozen=True)
class Quoted:
    """One row of the paper."""

    name: str
    kind: str
    values: tuple[str, ...]  # as printed, "" where there is none


def _rows(text: str) -> tuple[Quoted, ...]:
    lines = [line.split() for line in text.strip().splitlines()]
    return tuple(
        Quoted(name, kind, tuple("" if value == "-" else value for value in values))
        for name, kind, *values in lines
    )


# Table "Acc@k for different embeddings": Cadec acc@1, acc@3, PsyTar acc@1, acc@3; e_avg
CADEC_PSYTAR = _rows("""
GoogleNews-vectors  word       39.15 52.41 29.75 47.52
Wiki-pubmed-PMC     word       35.04 47.14 23.97 36.02
BioNLP-2016-win-2   word       35.47 48.30 25.29 37.70
BioNLP-2016-win-30  word       38.78 51.64 28.27 43.26
BERT-base-cased     contextual 19.64 25.65 15.16 19.84
BioBERT             contextual  3.62 17.62  7.64 10.98
ClinicalBERT(Huang) contextual 17.04 23.25 13.97 19.40
ClinicalBERT        contextual 13.77 18.40 11.12 15.47
SciBERT             contextual 12.50 17.95 11.04 15.12
BlueBERT            contextual 14.64 20.62 13.24 18.07
PubMedBERT          contextual 11.50 15.88  9.76 13.78
SapBERT             contextual 54.05 71.42 52.45 66.04
CODER_ENG           contextual 59.77 76.24 53.92 71.12
CODER_ALL           contextual 56.02 72.11 43.86 60.20
""")

# Appendix, the same with e
CADEC_PSYTAR_CLS = _rows("""
BERT-base-cased     contextual  8.03 11.03  7.07  9.66
BioBERT             contextual  8.33 11.58  4.36  6.38
ClinicalBERT(Huang) contextual  9.91 14.78  9.02 12.60
ClinicalBERT        contextual  7.18  8.84  5.92  7.83
SciBERT             contextual 10.61 14.66  8.79 12.55
BlueBERT            contextual 11.42 15.13  9.08 12.10
PubMedBERT          contextual 11.32 14.79  8.93 13.32
SapBERT             contextual 49.26 62.61 44.22 58.62
CODER_ENG           contextual 58.53 75.96 55.27 73.31
CODER_ALL           contextual 52.93 66.53 38.36 52.48
""")

# Table "F1-score of the MANTRA GSC": es, fr, nl, de
MANTRA = {
    "MEDLINE": _rows("""
BTM              system     69.1 67.4 61.4 66.3
GB               system     68.7 68.6 64.8 67.9
mBERT(e)         contextual 13.6 16.7 16.3 17.3
mBERT(e_avg)     contextual 20.6 19.8 17.1 21.4
CODER_ALL(e)     contextual 70.1 58.6 58.6 69.0
CODER_ALL(e_avg) contextual 70.4 58.9 59.5 68.4
"""),
    "EMEA": _rows("""
mBERT(e)         contextual 17.9 25.5 16.3 14.3
mBERT(e_avg)     contextual 22.2 29.0 20.1 18.4
CODER_ALL(e)     contextual 68.1 62.9 61.7 65.3
CODER_ALL(e_avg) contextual 68.1 61.1 62.9 65.6
"""),
    "Patent": _rows("""
mBERT(e)         contextual - 25.6 - 19.8
mBERT(e_avg)     contextual - 32.4 - 24.3
CODER_ALL(e)     contextual - 70.8 - 69.0
CODER_ALL(e_avg) contextual - 71.1 - 70.2
"""),
}

# Table "MCSM scores for different embeddings": PS, DS, NP, CD, FD, IP; e_avg
MCSM = _rows("""
cui2vec             concept     4.2 7.2  7.6  4.3 7.2  8.4
DeVine-etal-200     concept     7.3 6.9  6.3  1.2 4.6  2.5
claims-codes-hs-300 concept     9.4 7.7  7.5    - 3.4  8.6
GoogleNews-vectors  word        9.1 9.3  9.6 10.0 8.5 10.3
Wiki-pubmed-PMC     word        8.6 9.4 10.0  9.8 8.9 10.3
BioNLP-2016-win-2   word        9.1 9.4 10.0 10.2 8.9 10.4
BioNLP-2016-win-30  word        8.3 9.3 10.0  9.6 8.8 10.3
BERT-base-cased     contextual  8.6 8.4  8.7  9.7 8.4  9.3
BioBERT             contextual  8.7 8.8  9.3  9.5 7.8  9.3
ClinicalBERT(Huang) contextual  8.3 7.5  7.8  9.7 7.5  9.3
ClinicalBERT        contextual  8.4 8.5  8.9  9.6 7.5  9.6
SciBERT             contextual  7.6 6.9  6.2  8.5 6.3  7.5
BlueBERT            contextual  8.1 7.4  8.5  9.3 7.4  9.2
PubMedBERT          contextual  9.4 9.4  9.5 10.0 8.7 10.2
SapBERT             contextual  8.2 8.3  8.5  7.9 8.6  9.1
CODER_ENG           contextual 10.2 9.4  9.4 10.7 9.6 10.1
CODER_ALL           contextual 10.2 9.5 10.1 10.6 9.8 10.3
""")

# Appendix, the same with e
MCSM_CLS = _rows("""
BERT-base-cased     contextual  8.1 7.2 6.2  9.0 6.3  8.2
BioBERT             contextual  8.6 8.3 8.5  9.2 6.9  9.0
ClinicalBERT(Huang) contextual  7.5 6.4 5.7  8.6 5.5  8.5
ClinicalBERT        contextual  7.0 7.1 7.2  8.9 5.9  8.0
SciBERT             contextual  7.6 6.9 6.2  8.5 6.3  7.5
BlueBERT            contextual  7.0 6.3 6.4  8.4 5.9  7.7
PubMedBERT          contextual  9.3 9.4 9.1 10.0 8.4 10.0
SapBERT             contextual  9.4 8.8 9.3  9.7 9.1  9.8
CODER_ENG           contextual 10.3 9.5 9.6 10.7 9.5 10.1
CODER_ALL           contextual 10.4 9.5 9.8 10.7 9.7 10.1
""")

# Table "Testing accuracy of DDBRC": frozen, fine-tuned; e
DDBRC = _rows("""
cui2vec             concept    88.95 88.92
DeVine-etal-200     concept    80.42 80.44
claims-codes-hs-300 concept    72.02 71.99
GoogleNews-vectors  word       90.96 90.85
Wiki-pubmed-PMC     word       91.67 91.16
BioNLP-2016-win-2   word       91.94 92.00
BioNLP-2016-win-30  word       92.00 91.46
BERT-base-cased     contextual 78.22 98.74
BioBERT             contextual 83.47 98.73
ClinicalBERT(Huang) contextual 75.82 98.77
ClinicalBERT        contextual 76.12 98.76
SciBERT             contextual 77.79 98.80
BlueBERT            contextual 79.70 98.78
PubMedBERT          contextual 75.93 98.81
SapBERT             contextual 91.80 98.79
CODER_ENG           contextual 96.05 98.85
CODER_ALL           contextual 95.82 98.81
""")

# Table "Ablation results": Cadec acc@1, acc@3, PsyTar acc@1, acc@3; e_avg
ABLATION = (
    Quoted("CODER_ENG, full", "contextual", ("59.77", "76.24", "53.92", "71.12")),
    Quoted("CODER_ENG, no relation", "contextual", ("54.18", "71.40", "50.58", "67.22")),
    Quoted("CODER_ENG, TransE", "contextual", ("57.35", "73.61", "51.35", "69.23")),
)

# Appendix, "Summary of compared medical embeddings": vocabulary, dimension
SUMMARY = _rows("""
cui2vec             concept    108,477 500
DeVine-etal-200     concept     52,102 200
claims-codes-hs-300 concept     14,852 300
GoogleNews-vectors  word          3.0M 300
Wiki-pubmed-PMC     word          5.5M 200
BioNLP-2016-win-2   word          2.2M 200
BioNLP-2016-win-30  word          2.2M 200
BERT-base-cased     contextual       - 768
BioBERT             contextual       - 768
ClinicalBERT(Huang) contextual       - 768
ClinicalBERT        contextual       - 768
SciBERT             contextual       - 768
BlueBERT            contextual       - 768
PubMedBERT          contextual       - 768
SapBERT             contextual       - 768
""")

# Table "The closest term of C0004604 (dorsalgia)", by CODER_ALL: language, term, English term
DORSALGIA = (
    ("es", "dolor de espalda", "dorsalgia"),
    ("hu", "Hátfájás", "dorsalgia"),
    ("ja", "背部痛", "dorsalgia"),
    ("ja", "はいぶつう", "puberty"),
    ("cs", "bolesti zad", "dorsalgia"),
    ("de", "Rückenschmerzen", "dorsalgia"),
    ("it", "Dolore dorsale", "dorsalgia"),
    ("ko", "배통", "benign neoplasm of ureter"),
    ("fi", "Selkäkipu", "dorsalgia"),
    ("fr", "Dorsalgie", "dorsalgia"),
    ("nl", "Pijn, rug-", "dorsalgia"),
    ("no", "Ryggsmerter", "dorsalgia"),
    ("hr", "BOL U LEĐIMA", "dorsalgia"),
    ("sv", "Ryggsmärta", "dorsalgia"),
    ("zh", "背痛", "dorsalgia"),
)

# Table "Top 5 similar terms searched from ICD-9-CM": query, full, no relation
TOP_FIVE = {
    "pufferfish poisoning": {
        "CODER_ENG, full": (
            "toxic eff fish/shellfish",
            "poisoning by saluretics",
            "toxic effect of fusel oil",
            "poisoning by paraldehyde",
            "poisoning by succinimides",
        ),
        "CODER_ENG, no relation": (
            "poisoning by saluretics",
            "poison antivaricose drug",
            "poisoning by paraldehyde",
            "anphylct reaction fish",
            "louping ill",
        ),
    },
    "angina": {
        "CODER_ENG, full": (
            "angina pectoris",
            "chest pain",
            "prinzmetal angina",
            "vincent's angina",
            "angina decubitus",
        ),
        "CODER_ENG, no relation": (
            "angina pectoris",
            "vincent's angina",
            "prinzmetal angina",
            "angina decubitus",
            "pois coronary vasodilat",
        ),
    },
}
