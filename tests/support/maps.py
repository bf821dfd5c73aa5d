"""A machine that maps a few words, small enough to know every answer of it."""

import csv

from medcoder.errors import StaleDecision, UnknownName
from medcoder.mapping import Project, map_table
from medcoder.types import Answer, Code, Match

NAMES = {
    "C1": "Heart attack",
    "C2": "Fever",
    "C3": "Common cold",
    "C4": "Cold sensation",
    "C5": "Headache",
}
TYPES = {"C1": "disease", "C2": "symptom", "C3": "disease", "C4": "symptom", "C5": "symptom"}
# What each string is answered with: concepts and confidences, best first.
ANSWERS = {
    "heart attack": [("C1", 0.999), ("C2", 0.01)],
    "mi": [("C1", 0.93), ("C3", 0.2)],
    "fever": [("C2", 0.99)],
    "cold": [("C3", 0.55), ("C4", 0.45)],
    "cold feeling": [("C4", 0.9), ("C3", 0.1)],
    "cefalea": [("C5", 0.97)],
    "puzzle": [("C5", 0.05)],
}
TEXTS = ["heart attack", "MI", "fever", "cold", "puzzle", "=cmd()", "", "cefalea", "heart attack"]
LEAST = 0.1  # confidence of an answer


class FakeMapper:
    """Answers from a table, and counts what it was asked."""

    def __init__(self, *, answers=None, names=None, version="1", model="fake"):
        self.answers = ANSWERS if answers is None else answers
        self.names = NAMES if names is None else names
        self.version, self.model = version, model
        self.asked = []

    def describe(self):
        vocabularies = {"MSH": self.version, "ICD10CM": ""}
        return {
            "terminology": {
                "fingerprint": f"t{self.version}", "vocabularies": vocabularies, "custom_terms": ""
            },
            "model": {"name": self.model, "fingerprint": f"{self.model}-{self.version}"},
        }  # fmt: skip

    def normalize_many(
        self, texts, *, top, types, vocabularies, languages, targets="any", split=False
    ):
        for name in vocabularies or ():
            if not self.knows("vocabulary", name):
                raise UnknownName(f"no vocabulary {name!r} in this graph")
        return self._answers(texts, top, types, vocabularies)

    def _answers(self, texts, top, types, vocabularies):
        for text in texts:
            self.asked.append(text)
            found = self.answers.get(text.lower(), [])
            if types:
                found = [one for one in found if TYPES[one[0]] in types]
            matches = tuple(self._match(text, *one, vocabularies) for one in found[:top])
            sure = bool(matches) and matches[0].confidence >= LEAST
            yield Answer(
                query=text, matches=matches if sure else (), rejected=() if sure else matches,
                threshold=LEAST,
            )  # fmt: skip

    def _match(self, text, concept, confidence, vocabularies):
        codes = [code for code in self.codes_of(concept)
                 if not vocabularies or code.vocabulary in vocabularies]  # fmt: skip
        return Match(
            concept=concept, name=self.names[concept], codes=tuple(codes), term=text,
            language="en", vocabulary="MSH", cosine=confidence, similarity=None, score=confidence,
            confidence=confidence, stage="dense",
        )  # fmt: skip

    def knows(self, role, value):
        known = {"type": set(TYPES.values()), "vocabulary": {"MSH", "ICD10CM"}, "language": {"en"}}
        return value in known[role]

    def name_of(self, concept):
        return self.names.get(concept)

    def codes_of(self, concept):
        return (Code("MSH", f"D{concept[1:]}"), Code("ICD10CM", f"I{concept[1:]}"))

    def terms_like(self, text):
        return [key for key, name in self.names.items() if name.lower() == text.lower()]


class Stops(FakeMapper):
    """Is interrupted after some strings."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def _answers(self, texts, *rest):
        for answer in super()._answers(texts, *rest):
            if len(self.asked) > self.after:
                raise KeyboardInterrupt
            yield answer


def mapped(source, out, mapper=None, **options):
    options = {"column": "text"} | options
    return map_table(source, out=out, normalizer=mapper or FakeMapper(), **options)


def write_rows(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def read_rows(path):
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


def decide_many(path, who, rows, answers):
    """Decide with retries, as a person does who looks again."""
    with Project.open(path) as project:
        for number in rows:
            while True:
                seen = project.mapping(number).version
                try:
                    made = project.decide(number, "C1", who=who, expected_version=seen)
                except StaleDecision:
                    continue
                break
            answers.put((number, who, made.version))
