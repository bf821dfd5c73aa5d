"""Names as coders and clerks write them: "oth", "w/o", "fx", "NOS", "unspecified".

Written by hand, from what is common in hospital systems and in the short titles of classifications.
"""

from __future__ import annotations

import re

import numpy as np

TAILS = (", unspecified", " NOS", ", NOS", " unspecified", " nec", " (disorder)", " (finding)")
HEADS = ("unspecified ", "unsp ")
# A longer phrase comes before the words that it has.
SHORT: dict[str, tuple[str, ...]] = {
    "not elsewhere classified": ("NEC", "nec"),
    "not otherwise specified": ("NOS", "nos"),
    "chronic obstructive pulmonary disease": ("COPD",),
    "gastroesophageal reflux disease": ("GERD",),
    "coronary artery disease": ("CAD",),
    "congestive heart failure": ("CHF",),
    "urinary tract infection": ("UTI",),
    "upper respiratory infection": ("URI",),
    "end stage renal disease": ("ESRD",),
    "chronic kidney disease": ("CKD",),
    "deep vein thrombosis": ("DVT",),
    "traumatic brain injury": ("TBI",),
    "central nervous system": ("CNS",),
    "shortness of breath": ("SOB",),
    "myocardial infarction": ("MI", "myocard infarct"),
    "atrial fibrillation": ("AF", "afib", "a fib"),
    "pulmonary embolism": ("PE", "pulm embolism"),
    "rheumatoid arthritis": ("RA",),
    "multiple sclerosis": ("MS",),
    "diabetes mellitus": ("DM", "diab mell"),
    "malignant neoplasm": ("mal neo", "malig neopl", "CA"),
    "benign neoplasm": ("ben neo", "benign neopl"),
    "carcinoma in situ": ("CIS", "ca in situ"),
    "blood pressure": ("BP",),
    "status post": ("s/p",),
    "secondary to": ("2/2", "sec to"),
    "family history": ("FHx", "fam hx"),
    "history of": ("hx of", "h/o"),
    "personal history": ("pers hx",),
    "due to": ("d/t", "due 2"),
    "without": ("w/o", "wo"),
    "with": ("w/", "w"),
    "unspecified": ("unsp", "unspec", "unspcf", "nos"),
    "other": ("oth", "othr"),
    "disease": ("dis", "dz"),
    "diseases": ("dis", "dz"),
    "disorder": ("disord", "d/o"),
    "disorders": ("disord",),
    "syndrome": ("synd", "syn"),
    "fracture": ("fx", "fract"),
    "infection": ("infect", "inf", "infx"),
    "inflammation": ("inflam",),
    "abnormal": ("abn", "abnl", "abnorm"),
    "abnormality": ("abnormal",),
    "deficiency": ("defic", "def"),
    "congenital": ("congen", "cong"),
    "hereditary": ("hered",),
    "chronic": ("chr", "chron"),
    "acute": ("ac", "acut"),
    "bilateral": ("bilat", "bil"),
    "left": ("lt", "L", "l"),
    "right": ("rt", "R", "r"),
    "upper": ("up", "uppr"),
    "lower": ("low", "lwr"),
    "extremity": ("extrem", "ext"),
    "abdominal": ("abd", "abdom"),
    "pulmonary": ("pulm",),
    "respiratory": ("resp",),
    "cardiac": ("card",),
    "cerebral": ("cereb",),
    "gastrointestinal": ("GI", "gastroint"),
    "hypertension": ("HTN", "hypert"),
    "hypertensive": ("hyp", "hyperten"),
    "neoplasm": ("neopl", "neo", "tumor"),
    "metastatic": ("mets", "metast"),
    "carcinoma": ("ca", "carcin"),
    "poisoning": ("poison", "poisng"),
    "accidental": ("acc", "accid"),
    "complication": ("compl", "comp"),
    "complications": ("compl", "comp"),
    "pregnancy": ("preg", "pregn"),
    "treatment": ("tx", "treatm"),
    "therapy": ("tx", "ther"),
    "diagnosis": ("dx",),
    "symptoms": ("sx", "sympt"),
    "patient": ("pt",),
    "temperature": ("temp",),
    "examination": ("exam",),
    "multiple": ("mult",),
    "specified": ("spec", "spcf"),
    "elevated": ("elev",),
    "decreased": ("decr", "dec"),
    "increased": ("incr", "inc"),
    "and": ("&", "+"),
}
_WORDS = re.compile(
    r"\b(" + "|".join(map(re.escape, sorted(SHORT, key=len, reverse=True))) + r")\b", re.IGNORECASE
)


def styled(text: str, rng: np.random.Generator) -> str:
    """A name as it may stand in a hospital's table; the same where nothing applies."""

    def shorter(found: re.Match[str]) -> str:
        ways = SHORT[found[0].lower()]
        return found[0] if rng.random() < 0.2 else ways[int(rng.integers(len(ways)))]

    made = _WORDS.sub(shorter, text)
    if made == text or rng.random() < 0.2:
        if rng.random() < 0.75:
            made += TAILS[int(rng.integers(len(TAILS)))]
        else:
            made = HEADS[int(rng.integers(len(HEADS)))] + made
    way = rng.random()
    if way < 0.3:
        return made.upper()
    return made.lower() if way < 0.6 else made
