"""OMOP vocabularies as Athena offers them for download.

CONCEPT gives names, domains and flags, CONCEPT_SYNONYM further terms, CONCEPT_RELATIONSHIP
relations; VOCABULARY (names and versions) is used where present. A concept is named by its
concept_id, which is also its code in the vocabulary "OMOP"; its terms have the concept_code of
their own vocabulary. Tables: https://ohdsi.github.io/CommonDataModel/cdm54.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from medcoder.errors import InputError
from medcoder.kg.sources.ids import Rules, language_rule, leave_out, look_up, read_ids, to_arrow
from medcoder.tables.unquoted import Unquoted, open_unquoted
from medcoder.types import Part, ReadOptions, Tally, Vocabulary

COLUMNS = {
    "CONCEPT": "concept_id concept_name domain_id vocabulary_id standard_concept concept_code "
    "invalid_reason",
    "CONCEPT_SYNONYM": "concept_id concept_synonym_name language_concept_id",
    "CONCEPT_RELATIONSHIP": "concept_id_1 concept_id_2 relationship_id invalid_reason",
    "VOCABULARY": "vocabulary_id vocabulary_name vocabulary_version",
}

# Languages that the OHDSI vocabulary team has loaded synonyms in.
LANGUAGES = {
    "4180186": "en",
    "4182511": "es",
    "4180190": "fr",
    "4182504": "de",
    "4182507": "it",
    "4182503": "nl",
    "4181536": "pt",
    "4182948": "zh",
    "4175771": "ko",
}
UNKNOWN_LANGUAGE = "und"
VOCABULARY = "OMOP"
# The row of VOCABULARY that stands for the release as a whole.
RELEASE = "None"


class OmopSource:
    """A folder with CONCEPT.csv, CONCEPT_SYNONYM.csv and CONCEPT_RELATIONSHIP.csv."""

    name = "omop"
    namespace = "OMOP"

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._options = options
        self._concept = _table(path, "CONCEPT")
        self._synonym = _table(path, "CONCEPT_SYNONYM")
        self._relationship = _table(path, "CONCEPT_RELATIONSHIP")
        self._vocabulary = _optional(path, "VOCABULARY")

    def size(self) -> int:
        return self._concept.size + self._synonym.size + self._relationship.size

    def done(self) -> int:
        return self._concept.done + self._synonym.done + self._relationship.done

    def vocabularies(self) -> Iterable[Vocabulary]:
        if self._vocabulary is None:
            return
        columns = COLUMNS["VOCABULARY"].split()
        for frame in self._vocabulary.read(columns):
            for name, title, version in frame.select(columns).iter_rows():
                yield Vocabulary(name, version, title)
                if name == RELEASE:
                    yield Vocabulary(VOCABULARY, version, title)

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        # About 30 bytes a concept: synonyms name neither their vocabulary nor their code.
        kept: list[pl.DataFrame] = []
        count = tally[self._concept.path.name]
        for frame in read_ids(self._concept, COLUMNS["CONCEPT"].split(), ["concept_id"]):
            count.read += frame.height
            frame = leave_out(frame, count, self._concept_rules())
            kept.append(
                frame.select(
                    id=pl.col("concept_id").cast(pl.Int64),
                    vocabulary_id=pl.col("vocabulary_id").cast(pl.Categorical),
                    concept_code="concept_code",
                )
            )
            yield from _about(frame)
            # A concept whose name is left out stays: its synonyms may be wanted.
            frame = frame.with_columns(language=pl.lit("en"))
            frame = leave_out(frame, count, self._term_rules("concept_name"))
            count.kept += frame.height
            yield "terms", _terms(frame, "concept_name", "name", 0)
        yield from self._synonyms(_sorted(kept), tally)

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        count = tally[self._relationship.path.name]
        keep = COLUMNS["CONCEPT_RELATIONSHIP"].split()
        rules = [("empty relation", pl.col("relationship_id") != "")]
        if not self._options.obsolete:
            rules.append(("obsolete", pl.col("invalid_reason") == ""))
        for frame in read_ids(self._relationship, keep, ["concept_id_1", "concept_id_2"]):
            count.read += frame.height
            frame = leave_out(frame, count, rules)
            count.kept += frame.height
            yield to_arrow(
                frame.select(head="concept_id_1", relation="relationship_id", tail="concept_id_2")
            )

    def _synonyms(self, known: pl.DataFrame, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        count = tally[self._synonym.path.name]
        language = pl.col("language_concept_id").replace_strict(LANGUAGES, default=UNKNOWN_LANGUAGE)
        rules = [
            ("absent concept", pl.col("vocabulary_id").is_not_null()),
            *self._term_rules("concept_synonym_name"),
        ]
        for frame in read_ids(self._synonym, COLUMNS["CONCEPT_SYNONYM"].split(), ["concept_id"]):
            count.read += frame.height
            frame = look_up(frame, known, "concept_id").with_columns(language=language)
            frame = leave_out(frame, count, rules)
            count.kept += frame.height
            yield "terms", _terms(frame, "concept_synonym_name", "synonym", 1)

    def _concept_rules(self) -> Rules:
        options = self._options
        rules: list[tuple[str, pl.Expr]] = []
        if not options.obsolete:
            rules.append(("obsolete", ~_invalid()))
        if options.standard_only:
            rules.append(("not standard", _standard()))
        if options.vocabularies is not None:
            rules.append(
                ("vocabulary", pl.col("vocabulary_id").is_in(sorted(options.vocabularies)))
            )
        return rules

    def _term_rules(self, term: str) -> Rules:
        rules: list[tuple[str, pl.Expr]] = []
        if self._options.languages is not None:
            rules.append(("language", language_rule(self._options.languages)))
        return [*rules, ("empty term", pl.col(term).str.strip_chars() != "")]


def _about(frame: pl.DataFrame) -> Iterator[tuple[Part, pa.Table]]:
    """Codes, domains and flags of concepts."""
    concept = pl.col("concept_id")
    yield (
        "xrefs",
        to_arrow(
            frame.select(
                concept=concept, source=pl.lit(VOCABULARY), code=concept, kind=pl.lit("alt")
            )
        ),
    )
    typed = frame.filter(pl.col("domain_id") != "")
    yield "types", to_arrow(typed.select(concept=concept, type="domain_id", name="domain_id"))
    for flag, holds in (("standard", _standard()), ("invalid", _invalid())):
        flagged = frame.filter(holds)
        yield "flags", to_arrow(flagged.select(concept=concept, flag=pl.lit(flag)))


def _standard() -> pl.Expr:
    return pl.col("standard_concept") == "S"


def _invalid() -> pl.Expr:
    """Deleted, or replaced with an update."""
    return pl.col("invalid_reason").is_in(["D", "U"])


def _terms(frame: pl.DataFrame, term: str, kind: str, rank: int) -> pa.Table:
    return to_arrow(
        frame.select(
            concept="concept_id",
            term=term,
            language="language",
            source=pl.col("vocabulary_id").cast(pl.String),
            code="concept_code",
            kind=pl.lit(kind),
            rank=pl.lit(rank, pl.Int32),
        )
    )


def _sorted(kept: list[pl.DataFrame]) -> pl.DataFrame:
    """One table sorted by id; empties the list, so as not to hold everything twice."""
    if not kept:
        return pl.DataFrame(
            schema={"id": pl.Int64, "vocabulary_id": pl.String, "concept_code": pl.String}
        )
    table = pl.concat(kept)
    kept.clear()
    return table.sort("id")


def _table(folder: Path, name: str) -> Unquoted:
    file = _optional(folder, name)
    if file is None:
        raise InputError(
            f"no {name}.csv or {name}.csv.gz here",
            file=folder,
            remedy="Point at the folder that the download from Athena was unpacked to",
        )
    return file


def _optional(folder: Path, name: str) -> Unquoted | None:
    """The table of that name, in upper or lower case, the plain file first."""
    names = (f"{name}.csv".lower(), f"{name}.csv.gz".lower())
    paths = [path for path in folder.glob("*") if path.name.lower() in names]
    if not paths:
        return None
    path = min(paths, key=lambda path: (path.suffix == ".gz", path.name))
    return open_unquoted(path, COLUMNS[name].split(), separator="\t")
