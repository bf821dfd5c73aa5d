"""A small mapped project: rows of every status, and decisions of every equivalence."""

import csv
import warnings

from medcoder.mapping import Project, map_table
from medcoder.types import Answer, Code, Match

MI = ("HP:0001658", "Myocardial infarction", (Code("HP", "HP:0001658"),))
FEVER = ("R50.9", "Fever, unspecified", (Code("ICD10CM", "R50.9"),))
COLD = ("J00", "Acute nasopharyngitis", (Code("ICD10CM", "J00"),))
PAIN = ("R52", "Pain, unspecified", (Code("ICD10CM", "R52"),))
HEAD = ("R51.9", "Headache, unspecified", (Code("ICD10CM", "R51.9"),))
# What each string is answered with: concept, confidence and stage, best first.
ANSWERS = {
    "heart attack": [(MI, 0.999, "exact"), (PAIN, 0.01, "dense")],
    "fever": [(FEVER, 0.995, "dense")],
    "cold": [(COLD, 0.55, "dense"), (FEVER, 0.3, "ngram")],
    "ache": [(PAIN, 0.6, "dense"), (HEAD, 0.3, "dense")],
    "puzzle": [(HEAD, 0.05, "ngram")],
}
HEADER = ("id", "term", "n", "lang", "unit")
ROWS = [
    ("A1", "heart attack", "3", "en", ""),
    ("A2", "fever", "5", "en", ""),
    ("A3", "cold", "7", "en", "C"),
    ("A3", "cold", "1", "en", "F"),
    ("A4", "ache", "2", "en", ""),
    ("A5", "puzzle", "1", "de", ""),
    ("", "=1+1", "1", "", ""),
    ("A2", "fever", "4", "en", ""),
    ("", "NA", "1", "", ""),
    ("A 6|", 'a "b", c\\d', "1", "", ""),
]
CONCEPT = [
    ["concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id",
     "standard_concept", "concept_code", "valid_start_date", "valid_end_date", "invalid_reason"],
    ["11", "Old infarction", "Condition", "HPO", "x", "", "HP:0001658", "", "", "D"],
    ["12", "Myocardial infarction", "Condition", "HPO", "x", "S", "HP:0001658", "", "", ""],
    ["13", "Fever", "Condition", "ICD10CM", "x", "", "R50.9", "", "", ""],
    ["14", "Fever in another", "Condition", "ICD10", "x", "", "R50.9", "", "", ""],
    ["15", "Pain", "Condition", "ICD10CM", "x", "", "R52", "", "", ""],
    ["16", "Headache", "Condition", "ICD10CM", "x", "", "R51.9", "", "", ""],
    ["17", "Cold", "Condition", "ICD10CM", "x", "", "J00", "", "", ""],
]  # fmt: skip
WHEN = "2026-01-02T03:04:05.006Z"


class Machine:
    """Answers from a table."""

    vocabularies: dict = {"HP": "2025-01-16", "ICD10CM": "2026"}  # noqa: RUF012

    def describe(self):
        known = {"fingerprint": "t1", "vocabularies": self.vocabularies, "custom_terms": ""}
        return {"terminology": known, "model": {"name": "fake", "fingerprint": "m1"}}

    def normalize_many(
        self, texts, *, top, types, vocabularies, languages, targets="any", split=False
    ):
        for text in texts:
            found = tuple(self.match(text, *one) for one in ANSWERS.get(text, [])[:top])
            sure = bool(found) and found[0].confidence >= 0.1
            yield Answer(
                query=text, matches=found if sure else (), rejected=() if sure else found,
                threshold=0.1,
            )  # fmt: skip

    def match(self, text, target, confidence, stage):
        concept, name, codes = target
        return Match(
            concept=concept, name=name, codes=codes, term=text, language="en", vocabulary="x",
            cosine=confidence, similarity=None, score=confidence, confidence=confidence,
            stage=stage,
        )  # fmt: skip

    def knows(self, role, value):
        return True

    def name_of(self, concept):
        return None

    def codes_of(self, concept):
        return ()


class OmopMachine(Machine):
    """The same, as a graph of OMOP vocabularies has it: ids are whole numbers."""

    vocabularies: dict = {"OMOP": "v5", "SNOMED": "2025"}  # noqa: RUF012

    def match(self, text, target, confidence, stage):
        number = str(1000 + [MI, FEVER, COLD, PAIN, HEAD].index(target))
        codes = (Code("SNOMED", f"9{number}"), Code("OMOP", number))
        return super().match(text, (number, target[1], codes), confidence, stage)


def make(folder, *, rows=ROWS, header=HEADER, machine=None, **options):
    """A project of these rows, on which nothing is decided."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "ward.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    settings = {
        "column": "term", "code": "id", "count": "n", "language": "lang",
        "context": {"unit": "hint"}, "top": 3, "precision": 0.98,
    }  # fmt: skip
    made = map_table(
        file, out=folder / "out", normalizer=machine or Machine(), **settings | options
    )
    return Project.open(made.path)


def decide(project):
    """One decision of each equivalence; "fever" stays automatic, row 4 to be reviewed."""
    first = project.mapping(1).candidates[0]
    project.decide(1, first.concept, who="Ann", note="sure", when=WHEN)
    other = project.mapping(3).candidates[1]
    project.decide(3, other.concept, equivalence="related", who="Bob|Ö=%", when=WHEN, note="=2+2")
    best = project.mapping(5).candidates[0]
    project.decide(5, best.concept, equivalence="broader", who="Ann", when=WHEN)
    project.decide(6, project.mapping(6).candidates[0].concept, equivalence="narrower", who="Ann",
                   when=WHEN)  # fmt: skip
    project.decide(7, None, who="Ann", when=WHEN, note='no such "thing",\nreally')
    project.decide(9, None, who="Ann", when=WHEN)
    project.decide(10, best.concept, name=best.name, codes=best.codes, who="Ann", when=WHEN)
    return project


def decisions(project):
    """What is decided, by row, without versions."""
    found = {}
    for mapping in project.terms():
        if mapping.decision is not None:
            made = {k: v for k, v in vars(mapping.decision).items() if k != "version"}
            found[mapping.row.number] = {**made, "status": mapping.status, "flag": mapping.flag}
    return found


def write_concepts(folder, rows=CONCEPT):
    """A CONCEPT table as Athena has it."""
    path = folder / "CONCEPT.csv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_sssom(path):
    """As the library of SSSOM reads it."""
    with warnings.catch_warnings():  # of pandas, about what it calls
        warnings.simplefilter("ignore")
        from sssom.parsers import parse_sssom_table

        return parse_sssom_table(path)


USAGI = (
    "sourceCode,sourceName,sourceFrequency,sourceAutoAssignedConceptIds,matchScore,mappingStatus,"
    "equivalence,statusSetBy,statusSetOn,conceptId,conceptName,domainId,mappingType,comment,"
    "createdBy,createdOn,assignedReviewer"
)
SSSOM = "subject_id\tsubject_label\tpredicate_id\tobject_id\tmapping_justification"
MANUAL = "semapv:ManualMappingCuration"


class Graph:
    """A terminology of two concepts."""

    names = {"R52": "Pain, unspecified", "X1": "Another thing"}  # noqa: RUF012

    def __contains__(self, concept):
        return concept in self.names

    def preferred(self, concept):
        return self.names[concept]

    def codes_of(self, concept, vocabularies=None):
        return [Code("ICD10CM", concept)]

    def find_code(self, vocabulary, code):
        return [code] if vocabulary == "ICD10CM" and code in self.names else []


def write_lines(folder, name, *lines):
    """A file of these lines."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
