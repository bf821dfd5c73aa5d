"""Small valid files of every kind that medcoder reads, and the command that reads each."""

import gzip
import random
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_RF2 = {
    "sct2_Concept_Snapshot_INT_20240101.txt": (
        "id effectiveTime active moduleId definitionStatusId",
        ["1001 2024 1 9 9", "1002 2024 1 9 9", "1003 2024 0 9 9"],
    ),
    "sct2_Description_Snapshot-en_INT_20240101.txt": (
        "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId",
        [
            f"{n} 2024 1 9 {1001 + n % 2} en 90000000000001{3 - n % 2}009 pain{n} 9"
            for n in (11, 12)
        ],
    ),
    "sct2_Relationship_Snapshot_INT_20240101.txt": (
        "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId "
        "characteristicTypeId modifierId",
        ["21 2024 1 9 1001 1002 0 116680003 9 9"],
    ),
    "der2_cRefset_LanguageSnapshot-en_INT_20240101.txt": (
        "id effectiveTime active moduleId refsetId referencedComponentId acceptabilityId",
        ["x 2024 1 9 900000000000509007 11 900000000000548007"],
    ),
}
_OMOP = {
    "CONCEPT.csv": (
        "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept "
        "concept_code valid_start_date valid_end_date invalid_reason",
        [f"{n} Pain{n} Condition T Class S C{n:05} 19700101 20991231 -" for n in (1, 2, 3, 5, 7)],
    ),
    "CONCEPT_SYNONYM.csv": (
        "concept_id concept_synonym_name language_concept_id",
        ["1 Dolor 4182511", "2 Ache 4180186"],
    ),
    "CONCEPT_RELATIONSHIP.csv": (
        "concept_id_1 concept_id_2 relationship_id valid_start_date valid_end_date invalid_reason",
        ["1 2 Isa 19700101 20991231 -"],
    ),
}
_OBO = """\
format-version: 1.2
data-version: hp/releases/2025-01-16
synonymtypedef: layperson "layperson term"
ontology: hp.obo

[Term]
id: HP:0001250
name: Seizure
alt_id: HP:0002279
def: "An intermittent abnormality." [PMID:1]
synonym: "Epilepsy" RELATED layperson []
synonym: "Epileptic seizure" EXACT [ORCID:0000-0001]
xref: UMLS:C0036572 "Seizures"
is_a: HP:0012638 {source="x"} ! Abnormal
relationship: part_of HP:0000707 ! Part

[Term]
id: HP:0012638
name: Abnormal nervous system physiology

[Term]
id: HP:0000057
name: obsolete
is_obsolete: true
replaced_by: HP:0012638

[Typedef]
id: part_of
name: part of
"""
_BABELON = """\
source_language\ttranslation_language\tsubject_id\tpredicate_id\tsource_value\ttranslation_value\ttranslation_status
en\tde\tHP:0001250\trdfs:label\tSeizure\tKrampfanfall\tOFFICIAL
en\tfr\tHP:0012638\toboInOwl:hasExactSynonym\tAbnormal\t"Anormal"\tCANDIDATE
"""
_SSSOM = """\
#sssom_version: "1.1"
#curie_map:
#  T: "http://example.org/t/"
#mapping_set_id: "urn:x"
#license: "https://w3id.org/sssom/license/unspecified"
subject_id\tsubject_label\tpredicate_id\tobject_id\tobject_label\tmapping_justification\tauthor_label\tmapping_date\tcomment
T:1\t{0}\tskos:exactMatch\tT:C00001\tone\tsemapv:ManualMappingCuration\tAnn\t2026-01-02\tsure
T:2\t{1}\tskos:broadMatch\tT:C00002\ttwo\tsemapv:ManualMappingCuration\tAnn\t2026-01-02\t
T:3\t{2}\tskos:exactMatch\tsssom:NoTermFound\t\tsemapv:ManualMappingCuration\tBob\t2026-01-03\t
"""
_USAGI = """\
sourceCode,sourceName,sourceFrequency,sourceAutoAssignedConceptIds,matchScore,mappingStatus,equivalence,statusSetBy,statusSetOn,conceptId,conceptName,domainId,mappingType,comment,createdBy,createdOn,assignedReviewer
0,{0},3,1;2,0.99,APPROVED,EQUIVALENT,Ann,1767323045006,1,Pain1,,MAPS_TO,sure,Ann,1767323045006,
1,{1},1,,0.5,APPROVED,WIDER,Bob,1767323045006,2,"Pain, 2",,MAPS_TO,,Bob,1767323045006,
2,{2},1,,0.5,UNCHECKED,,,,3,Pain3,,MAPS_TO,,,,
"""
_CONFIG = """\
# A run of two steps.
seed = 3
log_every = 1
[sampler]
k = 4
m = 2
languages = ["en"]
[optimiser]
learning_rate = 2e-3
accumulation = 1
[relation]
mu = 0.5
form = "diagonal"
[schedule]
unit = "steps"
warmup = 1
total = 2
"""
UPLOAD = "upload"  # the case is no command: its file is sent to a service
Command = Callable[[Path, Path, Path], Sequence[object]]  # of files, folder to write to, given


@dataclass(frozen=True)
class Case:
    """Files by name, and the command that reads them.

    links: what is needed of `given` in the folder to write to, since it is changed there
    """

    name: str
    files: dict[str, bytes]
    command: Command
    share: float = 1.0
    links: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()  # names that may be there after a failure
    damaged: tuple[str, ...] = ()  # files that are damaged; all of them if none is named
    torch: bool = False  # whether it needs torch
    full: bool = True  # needs an index, which CI's form does not make


def cases(folder: Path, texts: Sequence[str]) -> list[Case]:
    """All kinds of files; `texts` are those of the rows of the project that is given."""
    folder.mkdir()
    rng = random.Random(2)
    found = [
        _build("umls", _umls()),
        _build("umls.gz", {f"{name}.gz": gzip.compress(c) for name, c in _umls().items()}),
        _build("rf2", {name: _tabs(*table) for name, table in _RF2.items()}),
        _build("omop", omop_release()),
        _build("obo", {"hp.obo": _OBO.encode()}),
        _build("obo.babelon", {"hp.obo": _OBO.encode(), "de.babelon.tsv": _BABELON.encode()}),
    ]
    columns = {
        "concept": ["A", "A", "B", "C"],
        "term": ["heart attack", "MI", 'pain, "acute"', "心臓"],
        "language": ["en", "en", "en", "ja"],
        "rank": ["1", "2", "1", "1"],
    }
    relations = b"head\trelation\ttail\nA\tisa\tB\nB\tpart\tC\n"
    for kind, content in _tables(folder / "terms", columns).items():
        files = {f"terms.{kind}": content, "relations.tsv": relations}
        if kind != "xlsx":
            found.append(_build(f"table.{kind}", files))
    ward = {
        "id": [str(n) for n in range(12)],
        "text": [*rng.sample(list(texts), 8), "", "x", "=1+1", "fever, high"],
        "n": ["3", "1", "2"] * 4,
        "lang": ["en"] * 12,
    }
    tables = _tables(folder / "ward", ward)
    for kind, content in tables.items():
        files, command = {f"ward.{kind}": content}, _map(f"ward.{kind}")
        found.append(Case(f"map.{kind}", files, command, 1.5))
        found.append(Case(f"{UPLOAD}.{kind}", files, command))
    found += _imports(texts) + _others(folder, columns, texts)
    return found


def omop_release() -> dict[str, bytes]:
    """A few concepts of OMOP: files by name."""
    return {name: _tabs(*table) for name, table in _OMOP.items()}


def _build(name: str, files: dict[str, bytes]) -> Case:
    source = name.partition(".")[0]

    def command(files: Path, out: Path, given: Path) -> Sequence[object]:
        return ("kg", "build", f"{source}={files}", "--out", out / "new.kg", "--json")

    return Case(name, files, command, full=False)


def _map(name: str) -> Command:
    def command(files: Path, out: Path, given: Path) -> Sequence[object]:
        words = ("map", files / name, "--column", "text", "--code", "id", "--count", "n")
        return (*words, "--index", given / "small.index", "--out", out / "ward", "--json")

    return command


def _imports(texts: Sequence[str]) -> list[Case]:
    def sssom(files: Path, out: Path, given: Path) -> Sequence[object]:
        words = ("map", "import", out / "project", "sssom", files / "in.sssom.tsv")
        return (*words, "--kg", given / "small.kg", "--who", "ann", "--json")

    def usagi(files: Path, out: Path, given: Path) -> Sequence[object]:
        words = ("map", "import", out / "project", "usagi", files / "in.csv", "--who", "ann")
        return (*words, "--kg", given / "small.kg", "--concepts", files / "CONCEPT.csv", "--json")

    def omop(files: Path, out: Path, given: Path) -> Sequence[object]:
        words = ("map", "export", out / "project", "usagi", "--out", out / "x.csv")
        return (*words, "--concepts", files / "CONCEPT.csv")

    concepts = {"CONCEPT.csv": omop_release()["CONCEPT.csv"]}
    linked = {"links": ("project",), "leaves": ("project",)}
    return [
        Case("import.sssom", {"in.sssom.tsv": _SSSOM.format(*texts).encode()}, sssom, **linked),
        Case(
            "import.usagi", {"in.csv": _USAGI.format(*texts).encode(), **concepts}, usagi, **linked
        ),
        Case("export.concepts", concepts, omop, 0.5, **linked),
    ]


def _others(folder: Path, columns: dict[str, list[str]], texts: Sequence[str]) -> list[Case]:
    def terms(files: Path, out: Path, given: Path) -> Sequence[object]:
        words = ("terms", "add", "--file", files / "mine.csv")
        return (*words, "--index", out / "small.index", "--json")

    def stored(files: Path, out: Path, given: Path) -> Sequence[object]:
        shutil.copyfile(files / "small.index.terms.tsv", out / "small.index.terms.tsv")
        return ("normalize", texts[0], "my own pain", "--index", out / "small.index", "--json")

    def phrases(files: Path, out: Path, given: Path) -> Sequence[object]:
        words = ("embed", "--file", files / "phrases.txt", "--model", given / "bag.onnx")
        return (*words, "--out", out / "x.npy")

    def queries(files: Path, out: Path, given: Path) -> Sequence[object]:
        words = ("normalize", "--file", files / "phrases.txt", "--json")
        return (*words, "--index", given / "small.index")

    def train(files: Path, out: Path, given: Path) -> Sequence[object]:
        words = ("train", "--kg", given / "small.kg", "--init", given / "tiny", "--dry-run")
        words += ("--config", files / "run.toml", "--out", out / "run", "--json")
        return (*words, "--extra", files / "extra.csv", "--evaluate", files / "queries.tsv")

    def bench(kind: str, name: str) -> Command:
        def command(files: Path, out: Path, given: Path) -> Sequence[object]:
            words = ("bench", "run", "--models", f"{kind}:{files / name}", "--benches", "custom")
            words += ("--queries", files / "queries.tsv", "--dictionary", files / "words.tsv")
            return (*words, "--out", out / "bench", "--resamples", 0, "--json")

        return command

    mine = b"term,concept,language\nmy own pain,C00001,en\nticker trouble,C00002,\n"
    words = {"heart": [1.0, 2.0, 2.0], "attack": [0.0, 3.0, 4.0], "pain": [2.0, 0.0, 0.5]}
    rows = [b"%s %s" % (w.encode(), struct.pack("<3f", *v)) for w, v in words.items()]
    asked = {
        "queries.tsv": b"query\tgold_concept_ids\nheart pain\tA\nattack\tB\n",
        "words.tsv": b"concept_id\tterm\nA\theart\nB\theart attack\nB\tpain\n",
    }
    plain = "\n".join(" ".join([w, *map(str, v)]) for w, v in words.items()) + "\n"
    by_id = "\n".join(
        ",".join([w, *map(str, v)]) for w, v in zip("ABC", words.values(), strict=True)
    )
    np.save(folder / "rows.npy", np.ones((3, 3), np.float32))
    run = {
        "run.toml": _CONFIG.encode(),
        "extra.csv": b"term,concept,language,weight\nbad heart,C00003,en,4\nache,C00001,en,1\n",
        "queries.tsv": b"query\tconcept\nbad heart\tC00003\nache\tC00001\n",
    }
    text = "\n".join([*texts[:3], "心臓", "a\tb", ""]).encode()
    return [
        Case(
            "terms.csv", {"mine.csv": mine}, terms, links=("small.index",), leaves=("small.index",)
        ),
        Case(
            "terms.stored",
            {"small.index.terms.tsv": mine.replace(b",", b"\t")},
            stored,
            links=("small.index",),
            leaves=("small.index", "small.index.terms.tsv"),
        ),
        Case("phrases", {"phrases.txt": text}, phrases, 0.5),
        Case("queries", {"phrases.txt": text}, queries, 0.5),
        Case("train", run, train, leaves=("run",), torch=True),
        Case(
            "bench.bin",
            {"v.bin": b"3 3\n" + b"".join(rows), **asked},
            bench("word", "v.bin"),
            0.7,
            leaves=("bench",),
        ),
        Case(
            "bench.txt",
            {"v.txt": plain.encode(), **asked},
            bench("word", "v.txt"),
            0.7,
            leaves=("bench",),
        ),
        Case(
            "bench.concepts",
            {"v.csv": by_id.encode(), **asked},
            bench("concept", "v.csv"),
            0.7,
            leaves=("bench",),
        ),
    ]


def _tabs(header: str, rows: Sequence[str]) -> bytes:
    lines = (header, *rows)
    cells = (["" if cell == "-" else cell for cell in line.split()] for line in lines)
    return "".join("\t".join(row) + "\n" for row in cells).encode()


def _umls() -> dict[str, bytes]:
    names = [("C0000001", "Pain"), ("C0000001", "Ache"), ("C0000002", "心臓"), ("C0000003", '"NA"')]
    conso = [f"{cui}|ENG|P|L1|PF|S1|Y|A1||||MSH|PT|D{cui[1:]}|{text}|0|N||" for cui, text in names]
    rel = ["C0000001|A1|CUI|CHD|C0000002|A2|CUI|isa|R1||MSH|MSH|||N||"]
    sty = ["C0000001|T047|B2.2.1.2.1|Disease or Syndrome|AT1||"]
    sab = ["C1|C2|MSH2026|MSH|MeSH|MSH|2026" + "|" * 14 + "UTF-8|Y|Y|short|citation|"]
    files = {"CONSO": conso, "REL": rel, "STY": sty, "RANK": ["0300|MSH|PT|N|"], "SAB": sab}
    return {f"MR{name}.RRF": ("\n".join(rows) + "\n").encode() for name, rows in files.items()}


def _tables(stem: Path, columns: dict[str, list[str]]) -> dict[str, bytes]:
    """The same table in every format."""
    import csv
    import io

    import openpyxl

    made = {}
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    for kind, separator in (("csv", ","), ("tsv", "\t")):
        stream = io.StringIO(newline="")
        csv.writer(stream, delimiter=separator).writerows(rows)
        made[kind] = stream.getvalue().encode()
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(f"{stem}.xlsx")
    pq.write_table(pa.table(columns), f"{stem}.parquet")
    return made | {kind: Path(f"{stem}.{kind}").read_bytes() for kind in ("xlsx", "parquet")}
