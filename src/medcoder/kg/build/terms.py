"""Terms, semantic types, cross-references and flags of concepts: from parked rows to columns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from medcoder.arrays import Array, ArrayWriter, StringWriter, raw_strings
from medcoder.kg.build.numbering import Names
from medcoder.kg.build.spill import Grouped, SortedRuns
from medcoder.kg.columns import LINE
from medcoder.kg.keys import SEPARATOR, code_key, hash_strings, make_keys, vocabulary_key
from medcoder.prefetch import prefetch
from medcoder.text import fold_series, is_ascii, language_in, not_a_term
from medcoder.types import CONCEPT_FLAGS, Count

_LANGUAGE_BITS, _ORDINAL_BITS, _RANK_BITS = 10, 4, 22
_BLANKS = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"  # what str.strip takes away, in ASCII
_BRIEF, _AMOUNT = 12, 64  # characters of a unit, and of a number with one, at most
_BLOCK, _CHAPTER = r"^[A-Z0-9]+-[A-Z0-9]+$", 2  # a block's code; characters of a chapter's
LAST_ORDINAL = (1 << _ORDINAL_BITS) - 1  # sources after it rank together


def write_terms(
    folder: Path,
    grouped: Grouped,
    *,
    ids: pl.Series,
    languages: Names,
    vocabularies: Names,
    kinds: Names,
    bits: int,
    text_runs: SortedRuns,
    code_runs: SortedRuns,
    count: Count,
) -> Iterator[tuple[int, dict[str, Array]]]:
    """Write the terms, range by range; after each, give the rows done and counts by label."""
    order = _language_order(languages.labels)
    vocabulary_keys = [vocabulary_key(name) for name in vocabularies.labels]
    sizes = {"languages": languages, "vocabularies": vocabularies, "kinds": kinds}
    with contextlib.ExitStack() as files:
        data = files.enter_context((folder / "term.data").open("wb"))
        info = files.enter_context(ArrayWriter(folder, "term.info", "uint16"))
        first = files.enter_context(ArrayWriter(folder, "concept.terms", "int64"))
        first.append(np.zeros(2, np.int64))
        bounds = np.zeros(2, np.int64)  # terms and bytes written
        # Keys are made beside the writing, most of it outside the interpreter lock: a thread for
        # each kind, since a kind's keys go to the same runs.
        text_thread = files.enter_context(ThreadPoolExecutor(1))
        code_thread = files.enter_context(ThreadPoolExecutor(1))
        under_way: list[Future[None]] = []
        sorted_ranges = (
            (low, high, frame.height, _sorted_terms(frame, order))
            for low, high, frame in grouped.ranges()
        )
        for low, high, rows, frame in prefetch(sorted_ranges, depth=1):
            for future in under_way:
                future.result()
            under_way = [
                text_thread.submit(_add_text_keys, frame, text_runs, bits),
                code_thread.submit(_add_code_keys, frame, vocabulary_keys, code_runs, bits),
            ]
            count.drop("duplicate", rows - frame.height)
            count.kept += frame.height
            concept = frame["concept"].to_numpy()
            offsets, raw = raw_strings(large_strings(_lines(frame, ids)))
            data.write(raw.data)
            ends = np.cumsum(np.bincount(concept - low, minlength=high - low))  # terms, by concept
            first.append((np.stack([ends, offsets[ends] - offsets[0]], axis=1) + bounds).ravel())
            bounds += len(offsets) - 1, len(raw)
            columns = [frame[name].to_numpy() for name in ("language", "source", "kind")]
            info.append(np.stack(columns, axis=1).reshape(-1))
            counts = {
                name: np.bincount(column, minlength=len(names.labels))
                for (name, names), column in zip(sizes.items(), columns, strict=True)
            }
            yield rows, counts
        for future in under_way:
            future.result()


def write_xrefs(
    folder: Path,
    grouped: Grouped,
    *,
    vocabularies: Names,
    kinds: Names,
    bits: int,
    code_runs: SortedRuns,
    count: Count,
) -> None:
    vocabulary_keys = [vocabulary_key(name) for name in vocabularies.labels]
    alias = kinds.number("alias")
    with (
        StringWriter(folder, "xref.code") as codes,
        ArrayWriter(folder, "xref.info", "uint16") as info,
        Offsets(folder, "concept.xrefs") as first,
    ):
        for low, high, frame in grouped.ranges():
            rows = frame.height
            columns = ["concept", "kind", "source", "code"]
            frame = frame.select(columns).unique(maintain_order=False).sort(columns)
            count.drop("duplicate", rows - frame.height)
            count.kept += frame.height
            codes.append(large_strings(frame["code"]))
            pairs = [frame[name].to_numpy() for name in ("source", "kind")]
            info.append(np.stack(pairs, axis=1).reshape(-1))
            first.append(np.bincount(frame["concept"].to_numpy() - low, minlength=high - low))
            _add_code_keys(frame.filter(pl.col("kind") != alias), vocabulary_keys, code_runs, bits)


def write_types(folder: Path, keys: SortedRuns, concepts: int, count: Count) -> Array:
    """Types from keys (concept << 16 | type); gives counts by type."""
    by_concept = np.zeros(concepts, np.int64)
    by_type = np.zeros(1 << 16, np.int64)
    with ArrayWriter(folder, "type", "uint16") as types:
        for block in keys.ascending():
            kind = (block & np.uint64(0xFFFF)).astype(np.int64)
            types.append(kind.astype(np.uint16))
            count_ascending(by_concept, (block >> np.uint64(16)).astype(np.int64))
            by_type += np.bincount(kind, minlength=1 << 16)
        count.kept += types.length
    count.drop("duplicate", count.read - count.kept - count.left_out.total())
    with Offsets(folder, "concept.types") as first:
        first.append(by_concept)
    return by_type


def flag_bits(frame: pl.DataFrame, numbers: Array, flags: Array) -> None:
    """Set the flags of a frame (flag) on the concepts with these numbers."""
    for flag in frame["flag"].unique():
        flags[numbers[(frame["flag"] == flag).to_numpy()]] |= flag_bit(flag)


def flag_bit(flag: str) -> np.uint8:
    return np.uint8(1 << CONCEPT_FLAGS.index(flag))


def find_headings(
    frames: Iterable[tuple[pl.DataFrame, Array]], vocabularies: Sequence[str], concepts: int
) -> Array:
    """(concepts,) which are chapters or blocks of an ICD: all their codes are "A15-A19" or "IX".

    frames: terms, and the numbers of their concepts
    """
    keys = [vocabulary_key(name) for name in vocabularies]
    icd = [number for number, key in enumerate(keys) if "ICD" in key]
    headings, others = np.zeros(concepts, np.bool_), np.zeros(concepts, np.bool_)
    for frame, numbers in frames if icd else ():
        code = code_keys(frame, keys).str.extract(f"{SEPARATOR}(.*)$")
        above = code.str.contains(_BLOCK) | code.str.len_chars().is_between(1, _CHAPTER)
        of_icd = (above & frame["source"].is_in(icd)).fill_null(False).to_numpy()
        headings[numbers[of_icd]] = True
        others[numbers[~of_icd]] = True
    found: Array = headings & ~others
    return found


def _add_text_keys(frame: pl.DataFrame, keys: SortedRuns, bits: int) -> None:
    add_keys(fold_series(frame["term"]), frame["concept"], keys, bits)


def _add_code_keys(
    frame: pl.DataFrame, vocabulary_keys: list[str], keys: SortedRuns, bits: int
) -> None:
    add_keys(code_keys(frame, vocabulary_keys), frame["concept"], keys, bits)


class Offsets(ArrayWriter):
    """Where each concept's rows begin, written from the number of rows of each."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name, "int64")
        self._end = 0
        super().append(np.zeros(1, np.int64))

    def append(self, counts: Array) -> None:
        if len(counts):
            ends = np.cumsum(counts) + self._end
            self._end = int(ends[-1])
            super().append(ends)


def count_ascending(counts: Array, numbers: Array) -> None:
    """Add to `counts` how often each of the ascending numbers occurs."""
    if len(numbers):
        low = numbers[0]
        fresh = np.bincount(numbers - low)
        counts[low : low + len(fresh)] += fresh


def _sorted_terms(frame: pl.DataFrame, language_order: Array) -> pl.DataFrame:
    """By concept, English first, other languages by name; by source, by rank; equal rows once."""
    limit = 1 << (_RANK_BITS - 1)
    rank = frame["rank"].clip(-limit, limit - 1).cast(pl.Int64) + limit
    language = language_order[frame["language"].to_numpy()]
    key = frame["concept"].to_numpy().astype(np.uint64)  # 28 bits at the most, see relation_bits
    for bits, part in (
        (_LANGUAGE_BITS, language),
        (_ORDINAL_BITS, frame["ordinal"].to_numpy()),
        (_RANK_BITS, rank.to_numpy()),
    ):
        key = key << np.uint64(bits) | part.astype(np.uint64)
    return (
        frame.with_columns(key=pl.Series(key))
        .sort("key", "term", "source", "code", "kind")
        .unique(
            ["concept", "term", "language", "source", "code"], keep="first", maintain_order=True
        )
    )


def _lines(frame: pl.DataFrame, ids: pl.Series) -> pl.Series:
    """Text and code of each row on lines of their own; before a concept's first, its id."""
    line = pl.lit(LINE)
    concept = frame["concept"]
    first = (concept != concept.shift()).fill_null(True)
    heads = pl.Series("head", [""]).new_from_index(0, len(frame))
    heads = heads.scatter(first.arg_true(), ids.gather(concept.filter(first)) + LINE)
    rows = frame.select(heads.alias("head"), "term", "code")
    return rows.select(pl.concat_str("head", "term", line, "code", line)).to_series()


def _language_order(languages: list[str]) -> Array:
    order = np.empty(len(languages), np.int64)
    ranked = sorted(
        range(len(languages)), key=lambda n: (not language_in(languages[n], ["en"]), languages[n])
    )
    order[ranked] = np.arange(len(languages))
    return order


def not_terms(texts: pl.Series) -> pl.Series:
    """Which of the texts are not terms; only those that may be none are looked at in Python."""
    length = texts.str.len_chars()
    maybe = (
        ~texts.str.contains(r"\p{L}\p{L}")
        | (length <= _BRIEF)
        | (texts.str.contains(r"\p{N}") & (length <= _AMOUNT) & ~texts.str.contains(r"\p{L}{12}"))
    )
    places = maybe.arg_true()
    wrong = np.zeros(len(texts), np.bool_)
    wrong[places.to_numpy()] = [not_a_term(text) is not None for text in texts.gather(places)]
    return pl.Series(wrong)


# The keys that look-ups go by


def code_keys(frame: pl.DataFrame, vocabulary_keys: Sequence[str]) -> pl.Series:
    """`code_key` of the columns (source, code); a source is a position in `vocabulary_keys`.

    In polars where all is ASCII, in Python elsewhere: they differ in what is a capital or a blank.
    """
    code = frame["code"].str.strip_chars(_BLANKS).str.to_uppercase()
    keys_of = pl.Series(vocabulary_keys, dtype=pl.String)
    rows = pl.DataFrame({"vocabulary": keys_of.gather(frame["source"]), "code": code})
    if code.str.contains(":", literal=True).any():
        rows = rows.with_columns(code=_without_prefix(rows))
    if keys_of.str.starts_with("ICD").any():
        undotted = pl.col("code").str.replace_all(".", "", literal=True)
        icd = pl.col("vocabulary").str.starts_with("ICD")
        rows = rows.with_columns(code=pl.when(icd).then(undotted).otherwise("code"))
    keys = rows.select(pl.concat_str("vocabulary", "code", separator=SEPARATOR)).to_series()
    rest = np.flatnonzero(~is_ascii(frame["code"]).to_numpy())
    if len(rest) == 0:
        return keys
    pairs = zip(rows["vocabulary"].gather(rest), frame["code"].gather(rest), strict=True)
    return keys.scatter(rest, pl.Series([code_key(*pair) for pair in pairs], dtype=pl.String))


def add_keys(strings: pl.Series, concepts: pl.Series, keys: SortedRuns, bits: int) -> None:
    """Add the look-up keys of strings that stand for these concepts."""
    hashes = hash_strings(*raw_strings(large_strings(strings)))
    keys.add(make_keys(hashes, concepts.to_numpy(), bits))


def large_strings(strings: pl.Series) -> Any:
    """One contiguous Arrow array of large strings."""
    return strings.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())


def _without_prefix(rows: pl.DataFrame) -> pl.Series:
    """Codes without a leading "NAME:" where NAME is a spelling of the row's own vocabulary."""
    prefix = rows["code"].str.extract(r"^([^:]*):").fill_null("")
    names = prefix.unique()
    named = pl.Series([vocabulary_key(name) for name in names], dtype=pl.String)
    local = rows["code"].str.extract(r"(?s)^[^:]*:(.*)$")
    own = local.is_not_null() & (prefix.replace_strict(names, named) == rows["vocabulary"])
    return rows["code"].zip_with(~own, local)
