"""Other spellings of the same English name: oesophageal, esophageal; renal stones, renal stone."""

from __future__ import annotations

import re

# British to American, where medicine writes them. Parts of words, longest first.
_AMERICAN = {
    "haemorrh": "hemorrh", "haem": "hem", "aemi": "emi", "aemo": "emo", "oedem": "edem",
    "oesoph": "esoph", "oestr": "estr", "paed": "ped", "anaesth": "anesth", "rrhoea": "rrhea",
    "pnoea": "pnea", "foet": "fet", "tumour": "tumor", "gynaec": "gynec", "caec": "cec",
    "coeliac": "celiac", "faec": "fec", "aetiolog": "etiolog", "caesar": "cesar",
    "leucocyt": "leukocyt", "leucopen": "leukopen", "sulph": "sulf", "goitre": "goiter",
    "behaviour": "behavior", "colour": "color", "labour": "labor", "fibre": "fiber",
    "synaesth": "synesth", "amoeb": "ameb", "homoeo": "homeo",
    "manoeuv": "maneuv", "diarrhoe": "diarrhe", "dyspnoe": "dyspne", "apnoe": "apne",
    "faecal": "fecal", "ischaem": "ischem", "anaem": "anem", "uraem": "urem", "glycaem": "glycem",
    "orthopaed": "orthoped", "ageing": "aging", "judgement": "judgment",
    "odour": "odor", "vapour": "vapor", "mould": "mold", "grey": "gray", "sceptic": "skeptic",
    "practise": "practice", "appendicectomy": "appendectomy", "centre": "center",
}  # fmt: skip
_BRITISH = re.compile("|".join(sorted(_AMERICAN, key=len, reverse=True)), re.IGNORECASE)
_PLURAL = re.compile(r"(?<=[a-z]{3})(?:(?<=[^aiosu])s|(?<=[rtlnk]o)es|(?<=[sxz])es|ies)\b")


def spellings(text: str) -> tuple[str, ...]:
    """Other spellings of a string, the likeliest first; some are no words.

    >>> spellings("Oesophageal varices"), spellings("renal stones")
    (('Esophageal varices', 'Esophageal varice'), ('renal stone',))
    """
    american = _BRITISH.sub(_american, text)
    single = _PLURAL.sub(lambda plural: "y" if plural[0] == "ies" else "", american)
    return tuple(other for other in dict.fromkeys((american, single)) if other != text)


def _american(part: re.Match[str]) -> str:
    american = _AMERICAN[part[0].lower()]
    return american.capitalize() if part[0][0].isupper() else american
