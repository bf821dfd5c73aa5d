"""SNOMED CT release files (RF2), snapshot type.

The concept file says which concepts are active, description files give terms, language reference
sets which of them are preferred, the relationship file (the inferred view) relations. Layout and
file names: https://confluence.ihtsdotools.org/display/DOCRELFMT

An extension comes without the edition that it extends: put both in one folder. A concept, a
description or a relationship that two files state counts as the file of the later date has it.

Ranks of terms, and so the preferred name, from best to worst:

0, 1, 2   synonym preferred in US English, in GB English, in another reference set
3, 4, 5   synonym acceptable in US English, in GB English, in another reference set
6         fully specified name
7         synonym in no reference set
8         inactive description
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from medcoder.errors import InputError
from medcoder.kg.sources.ids import (
    Rules,
    language_rule,
    leave_out,
    look_up,
    positions,
    read_ids,
    to_arrow,
)
from medcoder.tables.unquoted import open_unquoted
from medcoder.text import language_tag
from medcoder.types import Count, Part, ReadOptions, Tally, Vocabulary

COLUMNS = {
    # The last is not used: it tells a concept file from any other.
    "Concept": "id active definitionStatusId",
    "Description": "id active conceptId languageCode typeId term",
    "Relationship": "id active sourceId destinationId typeId",
    "Language": "active refsetId referencedComponentId acceptabilityId",
}
VOCABULARY = "SNOMEDCT"

FSN = "900000000000003001"
SYNONYM = "900000000000013009"
DEFINITION = "900000000000550004"
PREFERRED = "900000000000548007"
ACCEPTABLE = "900000000000549004"
US_ENGLISH = "900000000000509007"
GB_ENGLISH = "900000000000508004"
IS_A = "116680003"

RANK_ACCEPTABLE, RANK_FSN, RANK_UNLISTED, RANK_INACTIVE = 3, 6, 7, 8

# sct2_Description_Snapshot-en_INT_20200731.txt; extensions put their name before "Snapshot", and
# an x before everything marks a trial release.
_NAME = re.compile(
    r"x?(?:sct2_(?P<kind>Concept|Description|Relationship)_|der2_cRefset_(?P<refset>Language))"
    r"(?P<edition>[A-Za-z0-9]*?)(?P<release>Snapshot|Full|Delta)"
    r"(?P<rest>[-_].*?)?(?:_(?P<date>[0-9]{8})[0-9TZ]*)?\.txt(?:\.gz)?"
)


class Rf2Source:
    """A folder that holds snapshot files of one release, at any depth."""

    name = "rf2"
    namespace = "SNOMEDCT"

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._options = options
        dated = _find(path)
        self._version = max(date for date, _ in dated["Concept"])
        self._files = {
            kind: [open_unquoted(file, columns.split(), separator="\t") for _, file in dated[kind]]
            for kind, columns in COLUMNS.items()
        }
        self._labels = pl.DataFrame(schema={"id": pl.Int64, "label": pl.String})

    def size(self) -> int:
        return sum(file.size for files in self._files.values() for file in files)

    def done(self) -> int:
        return sum(file.done for files in self._files.values() for file in files)

    def vocabularies(self) -> Iterable[Vocabulary]:
        yield Vocabulary(VOCABULARY, self._version, "SNOMED CT")

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        known = self._known(tally)
        if self._options.obsolete:
            inactive = known.filter(~pl.col("concept_active"))
            flags = inactive.select(concept=pl.col("id").cast(pl.String), flag=pl.lit("invalid"))
            yield "flags", to_arrow(flags)
        ranks = self._ranks(tally)
        names: list[pl.DataFrame] = []
        for count, frame in self._rows("Description", ["conceptId"], tally):
            frame = look_up(frame, known, "conceptId").with_columns(language=_language(frame))
            frame = leave_out(frame, count, self._concept_rules())
            names.append(_fully_specified(frame))
            frame = leave_out(frame, count, self._term_rules())
            count.kept += frame.height
            yield "terms", _terms(look_up(frame, ranks, "id"))
        if names:
            specified = pl.concat(names)
            english = specified.filter("english").sort("id", maintain_order=True)
            self._labels = english.select("id", "label")
            yield "types", _types(specified, english)

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        relation = (
            pl.when(pl.col("typeId") == IS_A)
            .then(pl.lit("is_a"))
            .otherwise(pl.coalesce("label", "typeId"))
        )
        ids = ["sourceId", "destinationId", "typeId"]
        for count, frame in self._rows("Relationship", ids, tally):
            frame = leave_out(frame, count, self._row_rules())
            count.kept += frame.height
            frame = look_up(frame, self._labels, "typeId")
            yield to_arrow(frame.select(head="sourceId", relation=relation, tail="destinationId"))

    def _rows(
        self, kind: str, ids: list[str], tally: Tally
    ) -> Iterator[tuple[Count, pl.DataFrame]]:
        """Rows of all files of a kind, less those that a file of a later date has stated."""
        files = self._files[kind]
        stated = pl.Series(dtype=pl.Int64)
        for file in files:
            count = tally[file.path.name]
            numbers = [stated]
            for frame in read_ids(file, COLUMNS[kind].split(), ["id", *ids]):
                count.read += frame.height
                if len(files) > 1:
                    numbers.append(frame["id"].cast(pl.Int64))
                    again = positions(numbers[-1], stated).is_not_null()
                    frame = leave_out(frame, count, [("stated again", pl.lit(~again))])
                yield count, frame
            if len(files) > 1:
                stated = pl.concat(numbers).sort()

    def _known(self, tally: Tally) -> pl.DataFrame:
        """All concepts, and whether each is active."""
        rules = self._row_rules()
        frames = [pl.DataFrame(schema={"id": pl.Int64, "concept_active": pl.Boolean})]
        for count, frame in self._rows("Concept", [], tally):
            count.kept += leave_out(frame, count, rules).height
            frames.append(frame.select(pl.col("id").cast(pl.Int64), concept_active=_active()))
        return pl.concat(frames).sort("id")

    def _ranks(self, tally: Tally) -> pl.DataFrame:
        """The best rank that any language reference set gives to a description."""
        rules = [
            ("inactive", _active()),
            ("unknown acceptability", pl.col("acceptabilityId").is_in([PREFERRED, ACCEPTABLE])),
        ]
        refset = pl.col("refsetId")
        rank = (
            pl.when(refset == US_ENGLISH).then(0).when(refset == GB_ENGLISH).then(1).otherwise(2)
        ) + pl.when(pl.col("acceptabilityId") == PREFERRED).then(0).otherwise(RANK_ACCEPTABLE)
        frames = [pl.DataFrame(schema={"id": pl.Int64, "rank": pl.Int8})]
        for file in self._files["Language"]:
            count = tally[file.path.name]
            for frame in read_ids(file, COLUMNS["Language"].split(), ["referencedComponentId"]):
                count.read += frame.height
                frame = leave_out(frame, count, rules)
                count.kept += frame.height
                component = pl.col("referencedComponentId").cast(pl.Int64)
                frames.append(frame.select(id=component, rank=rank.cast(pl.Int8)))
        return pl.concat(frames).group_by("id").min().sort("id")

    def _row_rules(self) -> Rules:
        options = self._options
        rules: list[tuple[str, pl.Expr]] = []
        if options.vocabularies is not None and VOCABULARY not in options.vocabularies:
            rules.append(("vocabulary", pl.lit(False)))
        if not options.obsolete:
            rules.append(("inactive", _active()))
        return rules

    def _concept_rules(self) -> Rules:
        state = pl.col("concept_active")
        rules = [*self._row_rules(), ("absent concept", state.is_not_null())]
        return rules if self._options.obsolete else [*rules, ("inactive concept", state)]

    def _term_rules(self) -> Rules:
        rules = [
            ("definition", pl.col("typeId") != DEFINITION),
            ("unknown type", pl.col("typeId").is_in([FSN, SYNONYM])),
            ("empty term", pl.col("term").str.strip_chars() != ""),
        ]
        if self._options.languages is not None:
            rules.insert(2, ("language", language_rule(self._options.languages)))
        return rules


def _active() -> pl.Expr:
    return pl.col("active") == "1"


def _language(frame: pl.DataFrame) -> pl.Series:
    codes = frame["languageCode"]
    return codes.replace_strict({code: language_tag(code) or "und" for code in codes.unique()})


def _fully_specified(frame: pl.DataFrame) -> pl.DataFrame:
    """Tags of active fully specified names, and what a relation of that name is called.

    Two types of relation may share a synonym, never a fully specified name.
    """
    cut = pl.col("term").str.extract_groups(r"^(?s)(.*?)\s*(?:\(([^()]+)\)\s*)?$")
    label = cut.struct.field("1").str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", "_")
    return frame.filter(_active() & (pl.col("typeId") == FSN)).select(
        id=pl.col("conceptId").cast(pl.Int64),
        label=label.str.strip_chars("_").replace("", None),
        tag=cut.struct.field("2").str.strip_chars(),
        english=pl.col("language") == "en",
    )


def _types(specified: pl.DataFrame, english: pl.DataFrame) -> pa.Table:
    """Tags of English names; those of another language where a concept has no English one."""
    foreign = specified.filter(positions(specified["id"], english["id"]).is_null())
    tagged = pl.concat([english, foreign]).filter(pl.col("tag").fill_null("") != "")
    tagged = tagged.unique(["id", "tag"], maintain_order=True)
    return to_arrow(tagged.select(concept=pl.col("id").cast(pl.String), type="tag", name="tag"))


def _terms(frame: pl.DataFrame) -> pa.Table:
    fsn, rank = pl.col("typeId") == FSN, pl.col("rank").cast(pl.Int32)
    return to_arrow(
        frame.select(
            concept="conceptId",
            term="term",
            language="language",
            source=pl.lit(VOCABULARY),
            code="conceptId",
            kind=pl.when(fsn)
            .then(pl.lit("FSN"))
            .when(rank < RANK_ACCEPTABLE)
            .then(pl.lit("preferred"))
            .when(rank.is_not_null())
            .then(pl.lit("acceptable"))
            .otherwise(pl.lit("synonym")),
            rank=pl.when(~_active())
            .then(RANK_INACTIVE)
            .when(fsn)
            .then(RANK_FSN)
            .otherwise(rank.fill_null(RANK_UNLISTED)),
        )
    )


def _find(folder: Path) -> dict[str, list[tuple[str, Path]]]:
    """Snapshot files by kind, each with its date, the latest first."""
    snapshots: dict[tuple[str, str, str], tuple[str, Path]] = {}
    others: set[str] = set()
    for path in sorted(folder.rglob("*_*.txt*")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        if match["release"] != "Snapshot":
            others.add(match["release"])
            continue
        key = (match["kind"] or match["refset"], match["edition"], match["rest"] or "")
        _, earlier = snapshots.setdefault(key, (match["date"] or "", path))
        if path not in (earlier, earlier.with_name(f"{earlier.name}.gz")):
            raise InputError(
                "two releases of one file",
                file=folder,
                values=f"{earlier.relative_to(folder)} and {path.relative_to(folder)}",
                remedy="Point at the folder of one release",
            )
    kinds: dict[str, list[tuple[str, Path]]] = {kind: [] for kind in COLUMNS}
    for (kind, *_), dated in snapshots.items():
        kinds[kind].append(dated)
    for kind, files in kinds.items():
        if not files:
            raise _missing(folder, kind, others)
        files.sort(key=lambda dated: dated[0], reverse=True)
    return kinds


def _missing(folder: Path, kind: str, others: set[str]) -> InputError:
    prefix = "der2_cRefset_Language" if kind == "Language" else f"sct2_{kind}_"
    what = f"no {prefix}Snapshot file (.txt or .txt.gz) here or in a folder below"
    remedy = "Point at the folder of an unpacked RF2 release"
    if others:
        what += f", only {' and '.join(sorted(others))}"
        remedy = "Point at the Snapshot folder of the release, or at the folder above it"
    return InputError(what, file=folder, remedy=remedy)
