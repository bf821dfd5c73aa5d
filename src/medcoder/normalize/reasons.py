"""What a candidate's features are called, for people who ask why."""

from __future__ import annotations

from collections.abc import Mapping

BASE = "base"  # what the confidence starts from, among the contributions
REASONS = {
    "cosine": "near in meaning to the term",
    "name": "near in meaning to the preferred name",
    "centre": "near in meaning to all names of the concept",
    "second": "near in meaning to a second name",
    "cosine_known": "near in meaning, of known words",
    "cosine_ahead": "nearer in meaning than any other",
    "centre_ahead": "nearer to all names than any other",
    "letters": "three letters at a time in common",
    "spelling": "spelt alike",
    "said": "words of the string that the term has",
    "covered": "words of the term that the string has",
    "said_known": "known words of the string that the term has",
    "covered_known": "words of the term that a string of known words has",
    "said_most": "a word of the string that the term lacks",
    "extra_most": "a word of the term that the string lacks",
    "numbers_lacking": "numbers that the term lacks",
    "numbers_extra": "numbers that the string lacks",
    "marks_lacking": "single letters that the term lacks",
    "marks_extra": "single letters that the string lacks",
    "side_other": "another side of the body",
    "side_extra": "a side of the body that the string does not say",
    "circumstance": "circumstances in the term that the string does not say",
    "name_circumstance": "circumstances in the preferred name that the string does not say",
    "aside": "a type that is no condition",
    "open": "a term that leaves something open",
    "preferred": "the preferred name",
    "derived": "a derived name",
    "includes": "a note on what is included",
    "names": "how many names the concept has",
    "slip": "the term but for a slip",
    "near": "the term but for a letter",
    "certain": "the term itself",
    "own_name": "a name of the concept as it stands",
    "known": "all words are known",
    "support": "several terms of the concept are near",
    "length": "longer or shorter than the string",
    "weight": "how often its abbreviations stand for this",
    "written": "abbreviations were written out",
    "readings": "how many readings the string has",
    "ahead": "ahead of every rival",
    "ahead_of_all": "ahead of every other concept",
    "share": "its share among all candidates",
    "share_alike": "the share of its name and its category",
    "kin": "the next is its parent or child",
    "share_in_few": "its share among few concepts",
    "alone": "few concepts to choose from",
    "lookalike": "a word that only looks like one of the string",
    "words": "how many words the string has",
    "signs": "how many letters the string has",
    "ideographs": "a script of signs",
    "other_script": "a script that is not Latin",
    "capitals": "capital letters",
    "digits": "digits in the string",
    BASE: "what every string starts from",
}


def in_words(weighed: Mapping[str, float], *, most: int = 6) -> list[tuple[float, str]]:
    """The features that count most for a candidate or against it, by size, with what they are
    called: parts of the log-odds of its confidence.

    >>> in_words({"cosine": 2.0, "side_other": -3.1, "kin": 0.01})
    [(-3.1, 'another side of the body'), (2.0, 'near in meaning to the term')]
    """
    counted = [(part, REASONS.get(name, name)) for name, part in weighed.items()]
    counted = [(part, name) for part, name in counted if abs(part) >= 0.05]
    return sorted(counted, key=lambda pair: -abs(pair[0]))[:most]
