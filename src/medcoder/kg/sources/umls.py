"""UMLS Metathesaurus release files (RRF).

MRCONSO gives terms, MRSTY semantic types, MRREL relations; MRRANK (which name is preferred) and
MRSAB (versions of the vocabularies) are used where present. Columns are those of the UMLS
reference manual, chapter 3: https://www.ncbi.nlm.nih.gov/books/NBK9685/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from medcoder.errors import InputError
from medcoder.kg.sources.ids import language_rule, leave_out, to_arrow
from medcoder.tables.unquoted import Unquoted
from medcoder.text import LANGUAGE_TAGS
from medcoder.types import Part, ReadOptions, Tally, Vocabulary

COLUMNS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRRANK": "RANK SAB TTY SUPPRESS",
    "MRSAB": "VCUI RCUI VSAB RSAB SON SF SVER VSTART VEND IMETA RMETA SLC SCC SRL TFR CFR CXTY "
    "TTYL ATNL LAT CENC CURVER SABIN SSN SCIT",
}
LARGEST_RANK = 99_999  # releases have four digits; far larger ones would not fit a graph
SHAPES = {len(columns.split()): f"{name}.RRF" for name, columns in COLUMNS.items()}


class UmlsSource:
    """A folder with MRCONSO, MRREL and MRSTY, plain or gzipped, possibly inside META/."""

    name = "umls"
    namespace = "UMLS"

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._options = options
        self._conso = _rrf(path, "MRCONSO")
        self._rel = _rrf(path, "MRREL")
        self._sty = _rrf(path, "MRSTY")
        self._rank = _optional(path, "MRRANK")
        self._sab = _optional(path, "MRSAB")

    def size(self) -> int:
        return self._conso.size + self._rel.size + self._sty.size

    def done(self) -> int:
        return self._conso.done + self._rel.done + self._sty.done

    def vocabularies(self) -> Iterable[Vocabulary]:
        if self._sab is None:
            return
        for frame in self._sab.read(["RSAB", "SON", "SVER", "CURVER"]):
            for sab, title, version, current in frame.iter_rows():
                if current == "Y":
                    yield Vocabulary(sab, version, title)

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        ranks = self._ranks()
        keep = ["CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "TTY", "CODE", "STR", "SUPPRESS"]
        for frame in self._conso.read(keep):
            _check_ids(self._conso, frame, ["CUI"])
            frame = self._filter(frame, self._conso, tally)
            yield "terms", _terms(frame, ranks)
        for frame in self._sty.read(["CUI", "TUI", "STY"]):
            _check_ids(self._sty, frame, ["CUI"])
            count = tally[self._sty.path.name]
            count.read += frame.height
            count.kept += frame.height
            yield "types", to_arrow(frame.select(concept="CUI", type="TUI", name="STY"))

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        keep = ["CUI1", "REL", "CUI2", "RELA", "SUPPRESS"]
        keep += ["SAB"] if self._options.vocabularies is not None else []
        for frame in self._rel.read(keep):
            _check_ids(self._rel, frame, ["CUI1", "CUI2"])
            frame = self._filter(frame, self._rel, tally)
            # MRREL says what the second concept is to the first: "CUI2 RELA CUI1" reads true.
            yield to_arrow(frame.select(head="CUI2", relation=relation_label(), tail="CUI1"))

    def _filter(self, frame: pl.DataFrame, file: Unquoted, tally: Tally) -> pl.DataFrame:
        """Apply the options; count each row under the first reason that leaves it out."""
        options, count = self._options, tally[file.path.name]
        count.read += frame.height
        rules: list[tuple[str, pl.Expr]] = []
        if not options.obsolete:
            rules.append(("obsolete", pl.col("SUPPRESS") != "O"))
        if not options.suppressed:
            rules.append(("suppressed", ~pl.col("SUPPRESS").is_in(["E", "Y"])))
        if options.vocabularies is not None:
            rules.append(("vocabulary", pl.col("SAB").is_in(sorted(options.vocabularies))))
        if options.languages is not None and "LAT" in frame.columns:
            rules.append(("language", language_rule(options.languages, _language())))
        if "STR" in frame.columns:
            rules.append(("empty term", pl.col("STR").str.strip_chars() != ""))
        frame = leave_out(frame, count, rules)
        count.kept += frame.height
        return frame

    def _ranks(self) -> pl.DataFrame | None:
        """MRRANK as (SAB, TTY, SUPPRESS) -> rank; a higher RANK there is a better name."""
        if self._rank is None:
            return None
        frame = pl.concat(self._rank.read(["RANK", "SAB", "TTY", "SUPPRESS"]))
        rank = frame["RANK"].cast(pl.Int32, strict=False)
        good = rank.is_between(0, LARGEST_RANK).fill_null(False)
        if not good.all():
            position = good.index_of(False) or 0
            raise InputError(
                f"RANK is not a number from 0 to {LARGEST_RANK:,}",
                values=repr(frame["RANK"][position]),
                file=self._rank.path,
                row=position + 1,
                remedy="Check that this is the file that its name says, and that it is intact",
            )
        return frame.with_columns(RANK=-rank).unique(["SAB", "TTY", "SUPPRESS"], keep="first")


def relation_label() -> pl.Expr:
    """REL and RELA joined by a bar: "CHD|isa", "RO" without RELA, "|isa" without REL."""
    bare = pl.col("RELA") == ""
    return pl.when(bare).then("REL").otherwise(pl.concat_str("REL", "RELA", separator="|"))


def _terms(frame: pl.DataFrame, ranks: pl.DataFrame | None) -> pa.Table:
    # Without MRRANK: preferred lexical form, preferred string of it, preferred atom of that.
    fallback = (
        4 * (pl.col("TS") != "P").cast(pl.Int32)
        + 2 * (pl.col("STT") != "PF").cast(pl.Int32)
        + (pl.col("ISPREF") != "Y").cast(pl.Int32)
    )
    rank = fallback
    if ranks is not None:
        frame = frame.join(ranks, on=["SAB", "TTY", "SUPPRESS"], how="left", maintain_order="left")
        # Eight steps of the fallback fit between two ranks, so it breaks ties among equals.
        rank = 8 * pl.col("RANK").fill_null(1) + fallback
    return to_arrow(
        frame.select(
            concept="CUI",
            term="STR",
            language=_language(),
            source="SAB",
            code="CODE",
            kind="TTY",
            rank=rank,
        )
    )


def _language() -> pl.Expr:
    other = pl.col("LAT").str.to_lowercase()
    return pl.col("LAT").replace_strict(LANGUAGES, default=other, return_dtype=pl.String)


LANGUAGES = {code.upper(): tag for code, tag in LANGUAGE_TAGS.items()}


def _rrf(folder: Path, name: str) -> Unquoted:
    file = _optional(folder, name)
    if file is None:
        raise InputError(
            f"no {name}.RRF, {name}.RRF.gz or META/{name}.RRF here",
            file=folder,
            remedy="Point at the folder of the release that holds the RRF files",
        )
    return file


def _optional(folder: Path, name: str) -> Unquoted | None:
    for inside in (folder, folder / "META"):
        for suffix in (".RRF", ".RRF.gz"):
            path = inside / (name + suffix)
            if path.exists():
                columns = COLUMNS[name].split()
                return Unquoted(path, columns, separator="|", trailing=True, looks_like=SHAPES)
    return None


def _check_ids(file: Unquoted, frame: pl.DataFrame, columns: list[str]) -> None:
    """No id is empty, and the first of a file are concept ids: the file is what its name says."""
    for column in columns:
        ids = frame[column]
        good = ids != ""
        if file.before == 0:
            good = ids.head(100).str.contains(r"^C[0-9A-Z]+$").extend(good[100:])
        if not good.all():
            position = good.index_of(False) or 0
            raise InputError(
                f"{column} is not a concept id such as C0002502",
                values=repr(ids[position][:40]),
                file=file.path,
                row=file.before + position + 1,
                remedy="Check that this is the file that its name says, and that it is intact",
            )
