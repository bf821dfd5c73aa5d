"""A small Athena download, row by row."""

HEADERS = {
    "CONCEPT": "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept "
    "concept_code valid_start_date valid_end_date invalid_reason",
    "CONCEPT_SYNONYM": "concept_id concept_synonym_name language_concept_id",
    "CONCEPT_RELATIONSHIP": "concept_id_1 concept_id_2 relationship_id valid_start_date "
    "valid_end_date invalid_reason",
    "VOCABULARY": "vocabulary_id vocabulary_name vocabulary_reference vocabulary_version "
    "vocabulary_concept_id",
}
ENGLISH, SPANISH = "4180186", "4182511"


def concept(id, name, code, *, domain="Condition", vocabulary="SNOMED", standard="S", invalid=""):
    dates = "19700101\t20991231"
    return f"{id}\t{name}\t{domain}\t{vocabulary}\tClass\t{standard}\t{code}\t{dates}\t{invalid}"


def synonym(id, name, language=ENGLISH):
    return f"{id}\t{name}\t{language}"


def relationship(head, relation, tail, invalid=""):
    return f"{head}\t{tail}\t{relation}\t19700101\t20991231\t{invalid}"


CONCEPTS = (
    concept("4329847", "Myocardial infarction", "22298006"),
    concept("35207684", "Heart attack NOS", "I21.9", vocabulary="ICD10CM", standard=""),
    concept("44820001", "Old code", "410", vocabulary="ICD9CM", standard="", invalid="D"),
    concept("44820002", "Newer code", "410.1", vocabulary="ICD9CM", standard="", invalid="U"),
    concept("441840", "Clinical finding", "404684003", standard="C"),
)
SYNONYMS = (
    synonym("4329847", "Heart attack"),
    synonym("4329847", "Infarto de miocardio", SPANISH),
    synonym("44820001", "Older"),
    synonym("35207684", "AMI", "0"),
)
RELATIONSHIPS = (
    relationship("35207684", "Maps to", "4329847"),
    relationship("4329847", "Is a", "441840"),
    relationship("44820001", "Maps to", "4329847", "D"),
)
NAMES = ("CONCEPT", "CONCEPT_SYNONYM", "CONCEPT_RELATIONSHIP")


def write(folder, name, rows):
    text = "".join(f"{row}\n" for row in ["\t".join(HEADERS[name].split()), *rows])
    (folder / f"{name}.csv").write_bytes(text.encode())


def download(folder, concepts=CONCEPTS, synonyms=SYNONYMS, relationships=RELATIONSHIPS):
    for name, rows in zip(NAMES, (concepts, synonyms, relationships), strict=True):
        write(folder, name, rows)
    return folder
