"""A small SNOMED CT snapshot, row by row."""

from medcoder.kg.sources.rf2 import (
    ACCEPTABLE,
    FSN,
    IS_A,
    PREFERRED,
    SYNONYM,
    US_ENGLISH,
)

CONCEPT = "sct2_Concept_Snapshot_INT_20200731.txt"
DESCRIPTION = "sct2_Description_Snapshot-en_INT_20200731.txt"
LANGUAGE = "der2_cRefset_LanguageSnapshot-en_INT_20200731.txt"
RELATIONSHIP = "sct2_Relationship_Snapshot_INT_20200731.txt"

HEADERS = {
    "Concept_": "id effectiveTime active moduleId definitionStatusId",
    "Description_": "id effectiveTime active moduleId conceptId languageCode typeId term "
    "caseSignificanceId",
    "_Language": "id effectiveTime active moduleId refsetId referencedComponentId acceptabilityId",
    "Relationship_": "id effectiveTime active moduleId sourceId destinationId relationshipGroup "
    "typeId characteristicTypeId modifierId",
}
MI, HEART, SITE, OLD = "22298006", "80891009", "363698007", "155304006"


def concept(id, active="1"):
    return f"{id}\t20020131\t{active}\t900000000000207008\t900000000000074008"


def description(id, concept, term, kind=SYNONYM, language="en", active="1"):
    module = "900000000000207008"
    case = "900000000000448009"
    return f"{id}\t20170731\t{active}\t{module}\t{concept}\t{language}\t{kind}\t{term}\t{case}"


def listed(description, acceptability=PREFERRED, refset=US_ENGLISH, active="1"):
    uuid = "80000517-8513-5ca0-a44c-dc66f3c3a1c6"
    module = "900000000000207008"
    return f"{uuid}\t20170731\t{active}\t{module}\t{refset}\t{description}\t{acceptability}"


def relationship(id, source, kind, target, active="1"):
    inferred = "900000000000011006\t900000000000451002"
    return (
        f"{id}\t20170731\t{active}\t900000000000207008\t{source}\t{target}\t0\t{kind}\t{inferred}"
    )


def write(folder, name, rows):
    header = next(columns for part, columns in HEADERS.items() if part in name)
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{row}\r\n" for row in ["\t".join(header.split()), *rows])
    (folder / name).write_bytes(text.encode())


CONCEPTS = (concept(MI), concept(HEART), concept(SITE), concept(OLD, "0"))
DESCRIPTIONS = (
    description("751689013", MI, "Myocardial infarction (disorder)", FSN),
    description("37436014", MI, "Myocardial infarction"),
    description("37442013", MI, "Heart attack"),
    description("37443015", MI, "Cardiac infarction"),
    description("818983011", HEART, "Heart structure (body structure)", FSN),
    description("133844014", HEART, "Heart"),
    description("900010015", SITE, "Finding site (attribute)", FSN),
)
LANGUAGES = (
    listed("751689013"),
    listed("37436014"),
    listed("37442013", ACCEPTABLE),
    listed("133844014"),
)
RELATIONSHIPS = (
    relationship("1001021", MI, IS_A, HEART),
    relationship("1002021", MI, SITE, HEART),
    relationship("1003021", MI, "246075003", HEART),
)


def release(
    folder,
    *,
    concepts=CONCEPTS,
    descriptions=DESCRIPTIONS,
    languages=LANGUAGES,
    relationships=RELATIONSHIPS,
):
    write(folder, CONCEPT, concepts)
    write(folder, DESCRIPTION, descriptions)
    write(folder, LANGUAGE, languages)
    write(folder, RELATIONSHIP, relationships)
    return folder
