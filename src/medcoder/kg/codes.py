"""Codes of vocabularies, compared as people write them.

"SNOMEDCT_US", "SNOMED" and "SCTID" name one vocabulary; "HP:0001250" and "0001250" are one code of
HP; ICD codes are written with and without their dot.
"""

from __future__ import annotations

import re

_OTHER = re.compile(r"[^A-Z0-9]+")
_SNOMED = re.compile(r"^(SNOMED(CT)?(US|INT)?[0-9]*|SCT(ID)?)$")
_ALIASES = {
    "MSH": "MESH",
    "HPO": "HP",
    "UMLSCUI": "UMLS",
    "ORPHANET": "ORPHA",
    "ORDO": "ORPHA",
    "NCI": "NCIT",
    "LNC": "LOINC",
    "MEDDRA": "MDR",
    "MIM": "OMIM",
    "DO": "DOID",
}
SEPARATOR = "\x1f"  # stands in no vocabulary and no code


def vocabulary_key(name: str) -> str:
    """The name that all spellings of a vocabulary share.

    >>> [vocabulary_key(name) for name in ("SNOMEDCT_US", "sctid", "ICD-10-CM", "MSH")]
    ['SNOMEDCT', 'SNOMEDCT', 'ICD10CM', 'MESH']
    """
    plain = _OTHER.sub("", name.upper())
    if _SNOMED.match(plain):
        return "SNOMEDCT"
    return _ALIASES.get(plain, plain)


def code_key(vocabulary: str, code: str) -> str:
    """The string that stands for a code in look-ups and comparisons.

    >>> code_key("HP", "HP:0001250") == code_key("HPO", "0001250")
    True
    """
    key = vocabulary_key(vocabulary)
    plain = code.strip().upper()
    prefix, colon, local = plain.partition(":")
    if colon and vocabulary_key(prefix) == key:
        plain = local
    if key.startswith("ICD"):
        plain = plain.replace(".", "")
    return f"{key}{SEPARATOR}{plain}"
