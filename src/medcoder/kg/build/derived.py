"""Names without what they leave open: "Leukemia, unspecified" is called "leukemia" as well.

Releases name a code by what it does not say, and nobody writes that. English names of
vocabularies that begin with ICD are also kept without these parts, as terms of the kind "derived":

    - ", unspecified", "unspecified" in front or after "of", ", unspecified organism", "of
      unspecified cell type", and "NOS"
    - ", uncomplicated", "without complications", ", not intractable", ", active", "without status
      migrainosus" or "epilepticus"
    - round brackets, which hold words that may be there or not: "Sinusitis (chronic) NOS" gives
      "Sinusitis" and "Sinusitis (chronic)"; and square ones, which hold abbreviations
    - all but one of several single words that are left open together: "Encephalitis and
      encephalomyelitis, unspecified" gives "Encephalitis" and "encephalomyelitis"

"Of unspecified" goes with its noun only where that is no part of the body: a neoplasm of
unspecified ovary is one of the ovary. "Not elsewhere classified", "without mention of" and "other"
stay: they say another thing. Of SNOMED, a fully specified name is kept without its "(disorder)".

A name is meant by one concept of a vocabulary, compared as `fold` has it:

    - one that another concept has by itself is left out: a derived name never beats a real one.
      The name of a heading does not count, since a heading is no answer
    - one that several would have goes to the only one whose own name says "unspecified" or "NOS"
      and nothing else that was taken off: "Syphilis, unspecified" before "Syphilis (of) central
      nervous system NOS"
    - if there are several such or none, it is left out, unless the code of one begins those of all
      others. Then the unspecified child has it, since that is what is coded: the one with the
      shortest code that ends in 9 or 90; if there is none, the parent.

Extensions and headings have no derived names. Where a source gives terms of the kind "derived", as
a graph that was exported does, nothing is derived for their vocabulary. Terms of the kind
"includes" are kept by the same rule, after the derived names, and nothing is derived from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from medcoder.arrays import Array, raw_strings
from medcoder.kg.build.spill import TERM_ROWS
from medcoder.kg.build.terms import large_strings, not_terms
from medcoder.kg.keys import hash_strings, vocabulary_key
from medcoder.text import fold_series, language_in
from medcoder.types import DERIVED, INCLUDES, USUAL, Count

SNOMED = "SNOMEDCT"
LAST_RANK = (1 << 21) - 1  # behind all names, in the largest that a graph tells apart

_NOUN = (
    r"(?:cell type|body region|types?|sites?|organism|cause|etiology|nature|origin|degree|severity|"
    r"duration|behavior|trimester|stage|grade|course|location|laterality|side|agent)"
)
_STOP = r"(?:as|not|with|without|in|due|having|and|or|by|of|to|for|when|following)"
# What says that something is not said, alone; then with what is not said.
_OPEN = re.compile(
    r",? *[(\[]NOS[)\]]|,? +NOS\b(?=[ ,;)\]]|$)"
    rf"|, unspecified(?=$|[,;)\]]| (?!as\b){_STOP}\b)"
    r"|^unspecified +",
    re.IGNORECASE,
)
_OPEN_THING = re.compile(
    rf",? of unspecified {_NOUN}\b(?= of\b|$|[,;])"
    r"|(?<= of) unspecified parts? of\b"
    r"|(?<= of) unspecified\b"
    r"|, unspecified whether\b.*$|, unspecified as\b[^,]*"
    rf"|, unspecified (?!{_STOP}\b)[\w-]+(?: (?!{_STOP}\b)[\w-]+){{0,3}}(?=$|[,;])",
    re.IGNORECASE,
)
_PLAIN_COURSE = re.compile(
    r", uncomplicated\b|,? without complications?\b|, not intractable\b|, active$"
    r"|,? without status (?:migrainosus|epilepticus)\b",
    re.IGNORECASE,
)
_ROUND = re.compile(r" ?\((?=[^()]*[^\W\d_])[^()]*\)")
_SQUARE = re.compile(r" ?\[(?=[^\[\]]*[^\W\d_])[^\[\]]*\]")
_MAYBE = (
    r"(?i)unspecified|\bNOS\b|uncomplicated|without complication|not intractable|"
    r"without status|, active$|[(\[]"
)
_TAG = (
    r" \((?:disorder|finding|procedure|situation|event|observable entity|body structure|"
    r"morphologic abnormality|organism|substance|product|medicinal product|medicinal product form|"
    r"clinical drug|physical object|regime/therapy|qualifier value|cell|cell structure|person|"
    r"occupation|environment|social concept|assessment scale|specimen|tumor staging|staging scale|"
    r"record artifact|attribute|physical force|ethnic group|life style|navigational concept)\)$"
)
_SEVERAL = re.compile(r"(?:[^\W\d_]+, )*[^\W\d_]+,? and [^\W\d_]+")
_LETTERS = re.compile(r"[^\W\d_]")

# Candidates: rows with the number of their concept, the first number of their vocabulary's
# spellings, and the hash of the folded text.
_NONE = pl.DataFrame(
    schema=TERM_ROWS
    | {"concept": pl.Int64, "group": pl.UInt16, "key": pl.UInt64, "open_only": pl.Boolean}
)
_REAL = ["concept", "group", "key"]


class Form(NamedTuple):
    """A name that was made of another."""

    text: str
    open_only: bool  # whether nothing was taken off but "unspecified" or "NOS"


def forms(name: str) -> list[Form]:
    """What a name of ICD is called without what it leaves open: up to three forms, barest first;
    and each of several words that are left open together.

    >>> [text for text, _ in forms("Sinusitis (chronic) NOS")]
    ['Sinusitis', 'Sinusitis (chronic)']
    >>> forms("Pneumonia, unspecified organism"), forms("Other disorders of lung")
    ([Form(text='Pneumonia', open_only=False)], [])
    """
    said = _tidy(_OPEN.sub("", name), name)
    closed = _tidy(_PLAIN_COURSE.sub("", _OPEN_THING.sub("", said)), name)
    square = _tidy(_SQUARE.sub("", closed), name)
    bare = _tidy(_SQUARE.sub("", _ROUND.sub("", _ROUND.sub("", square))), name)
    texts = dict.fromkeys([bare, square, closed, said])
    made = [Form(text, text == said) for text in texts if text != name and _is_name(text)][:3]
    if said != name and _SEVERAL.fullmatch(said):
        words = re.split(r",? and |, ", said)
        made += [Form(word, False) for word in words if _is_name(word)]
    return made


def _tidy(text: str, name: str) -> str:
    """Single spaces, no commas left over, and a capital where the name has one."""
    text = re.sub(r"\s+([,;])", r"\1", " ".join(text.split()))
    text = re.sub(r"(?:, *)+,", ",", text).strip(" ,;")
    return text[:1].upper() + text[1:] if name[:1].isupper() else text


def _is_name(text: str) -> bool:
    return len(_LETTERS.findall(text)) >= 3


class Added(NamedTuple):
    """Terms that were made of names, and notes that are kept, as rows by concept."""

    rows: pl.DataFrame
    names: Count
    notes: Count


class Labels(NamedTuple):
    """What the numbers in parked rows stand for."""

    vocabularies: Sequence[str]
    languages: Sequence[str]
    kinds: Sequence[str]

    def kind(self, name: str) -> int:
        """The number of a kind; one that no row has if there is none."""
        return self.kinds.index(name) if name in self.kinds else len(self.kinds)


Rows = Callable[[], Iterable[tuple[pl.DataFrame, Array]]]  # parked frames and their concepts


def derive(read: Rows, labels: Labels, *, without: Array, headings: Array) -> Added:
    """The derived names and the notes of a graph, whose rows go by twice.

    without: (concepts,) which have no derived names
    headings: (concepts,) whose own names keep no other from a derived one
    """
    found = _Rows(read, labels)
    made, notes = found.candidates(pl.Series(without))
    added = Added(_NONE, Count(), Count())
    if made.is_empty() and notes.is_empty():
        return added
    real = found.real(pl.concat([made, notes]), pl.Series(headings))
    kept = _not_named(_said_once(made, added.names), real, added.names)
    wrong = not_terms(kept["term"])
    added.names.drop("not a term", int(wrong.sum()))
    kept = _one_owner(kept.filter(~wrong), added.names, codes=True)
    kept = kept.with_columns(
        kind=pl.lit(labels.kind(DERIVED), pl.UInt16), rank=pl.lit(LAST_RANK, pl.Int32)
    )
    real = pl.concat([real, kept.select(_REAL)])
    told = _not_named(_said_once(notes, added.notes), real, added.notes)
    told = _one_owner(told, added.notes, codes=False)
    added.names.kept, added.notes.kept = kept.height, told.height
    rows = pl.concat([kept, told]).sort("concept", "rank", "source", "term")
    return added._replace(rows=rows)


def weave(
    frames: Iterable[tuple[pl.DataFrame, Array]], rows: pl.DataFrame, *, notes: int
) -> Iterator[tuple[pl.DataFrame, Array]]:
    """Parked frames and their concepts with `rows` in place of their terms of the kind `notes`.

    Frames in the order of their concepts stay so.
    """
    done = 0
    for frame, numbers in frames:
        joined = frame.with_columns(concept=pl.Series(numbers, dtype=pl.Int64))
        joined = joined.filter(pl.col("kind") != notes).select(list(TERM_ROWS))
        last = int(numbers.max(initial=-1))
        stop = int(rows["concept"].search_sorted(last, side="right"))
        if stop > done:
            more = rows[done:stop].select(list(TERM_ROWS))
            joined = pl.concat([joined, more]).sort("concept", maintain_order=True)
            done = stop
        yield joined, joined["concept"].to_numpy()


class _Rows:
    """English rows of the vocabularies that names are derived in."""

    def __init__(self, read: Rows, labels: Labels) -> None:
        self._read = read
        keys = [vocabulary_key(name) for name in labels.vocabularies]
        self._group = pl.Series([keys.index(key) for key in keys], dtype=pl.UInt16)
        self._icd = [n for n, key in enumerate(keys) if key.startswith("ICD")]
        self._snomed = [n for n, key in enumerate(keys) if key == SNOMED]
        self._english = [n for n, tag in enumerate(labels.languages) if language_in(tag, {"en"})]
        self._derived, self._notes, self._usual = map(labels.kind, (DERIVED, INCLUDES, USUAL))

    def candidates(self, without: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What may be derived of the names, and the notes."""
        made, notes = [_NONE], [_NONE]
        given: set[int] = set()  # vocabularies that a source derived names for
        for frame, numbers in self._read() if self._icd or self._snomed else ():
            rows = self._rows(frame, numbers).filter(self._wanted)
            given.update(rows.filter(pl.col("kind") == self._derived)["group"].unique())
            notes.append(_candidates(rows.filter(pl.col("kind") == self._notes)))
            added = pl.col("kind").is_in([self._derived, self._notes, self._usual])
            names = rows.filter(~added & ~without.gather(rows["concept"]))
            made += [self._of_icd(names), self._of_snomed(names)]
        return pl.concat(made).filter(~pl.col("group").is_in(sorted(given))), pl.concat(notes)

    def real(self, candidates: pl.DataFrame, headings: pl.Series) -> pl.DataFrame:
        """Names that equal a candidate, of its vocabulary or of its concept, but of headings."""
        frames = [_NONE.select(_REAL)]
        keys, concepts = (candidates[name].unique().implode() for name in ("key", "concept"))
        for frame, numbers in self._read():
            rows = self._rows(frame, numbers).filter(pl.col("kind") != self._notes)
            rows = rows.filter(~headings.gather(rows["concept"]))
            rows = rows.filter(self._wanted | pl.col("concept").is_in(concepts))
            frames.append(_keyed(rows).filter(pl.col("key").is_in(keys)).select(_REAL).unique())
        return pl.concat(frames).unique()

    @property
    def _wanted(self) -> pl.Expr:
        return pl.col("source").is_in([*self._icd, *self._snomed])

    def _rows(self, frame: pl.DataFrame, numbers: Array) -> pl.DataFrame:
        rows = frame.with_columns(
            concept=pl.Series(numbers, dtype=pl.Int64), group=self._group.gather(frame["source"])
        )
        return rows.filter(pl.col("language").is_in(self._english))

    def _of_icd(self, names: pl.DataFrame) -> pl.DataFrame:
        maybe = pl.col("source").is_in(self._icd) & pl.col("term").str.contains(_MAYBE)
        names = names.filter(maybe)
        made = [forms(name) for name in names["term"]]
        position = [number for number, some in enumerate(made) for _ in some]
        form = [form for some in made for form in some]
        return _candidates(
            names[position].with_columns(
                term=pl.Series([text for text, _ in form], dtype=pl.String),
                open_only=pl.Series([open_only for _, open_only in form], dtype=pl.Boolean),
            )
        )

    def _of_snomed(self, names: pl.DataFrame) -> pl.DataFrame:
        """Names without a tag, but those that a row of the same frame has: most of them."""
        snomed = names.filter(pl.col("source").is_in(self._snomed))
        bare = pl.col("term").str.replace(_TAG, "")
        tagged = snomed.filter(pl.col("term") != bare).with_columns(term=bare)
        own = names.select("concept", "term")
        return _candidates(tagged.join(own, on=["concept", "term"], how="anti"))


def _candidates(rows: pl.DataFrame) -> pl.DataFrame:
    if "open_only" not in rows.columns:
        rows = rows.with_columns(open_only=pl.lit(False))
    return _keyed(rows).select(_NONE.columns).cast(_NONE.schema)


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """With the hash that texts that fold alike share."""
    hashes = hash_strings(*raw_strings(large_strings(fold_series(rows["term"]))))
    return rows.with_columns(key=pl.Series(hashes, dtype=pl.UInt64))


def _said_once(candidates: pl.DataFrame, count: Count) -> pl.DataFrame:
    """Each text once for a concept, where least was taken off."""
    count.read += candidates.height
    order = ["concept", "group", "key", pl.col("open_only").not_(), "code", "term"]
    once = candidates.sort(order).unique(
        ["concept", "group", "key"], keep="first", maintain_order=True
    )
    count.drop("said twice", candidates.height - once.height)
    return once


def _not_named(candidates: pl.DataFrame, real: pl.DataFrame, count: Count) -> pl.DataFrame:
    """Those that are no name yet, neither of their concept nor of another of the vocabulary."""
    for reason, on in (
        ("a name of the concept", ["concept", "key"]),
        ("a name of another concept", ["group", "key"]),
    ):
        left = candidates.join(real, on=on, how="anti", maintain_order="left")
        count.drop(reason, candidates.height - left.height)
        candidates = left
    return candidates


def _one_owner(candidates: pl.DataFrame, count: Count, *, codes: bool) -> pl.DataFrame:
    """Those that one concept alone would have, or that its code gives to one of several."""
    shared = pl.len().over("group", "key") > 1
    kept = [candidates.filter(~shared)]
    for _, group in candidates.filter(shared).group_by("group", "key", maintain_order=True):
        owner = _owner(group["code"].to_list(), group["open_only"].to_list()) if codes else None
        if owner is None:
            count.drop("shared by concepts", group.height)
        else:
            kept.append(group[owner])
            count.drop("another code has it", group.height - 1)
    return pl.concat(kept)


def _owner(codes: Sequence[str], open_only: Sequence[bool]) -> int | None:
    """Which of the codes that would share a name has it, by the rule of this module.

    >>> _owner(["C95", "C95.9", "C95.90"], [False, True, True]), _owner(["A1", "B1"], [True, True])
    (1, None)
    """
    silent = [number for number, only in enumerate(open_only) if only]
    if len(silent) == 1:
        return silent[0]
    plain = [code.replace(".", "").upper() for code in codes]
    parent = min(range(len(plain)), key=lambda n: len(plain[n]))
    if not all(code.startswith(plain[parent]) for code in plain):
        return None
    nines = [number for number, code in enumerate(plain) if code.endswith(("9", "90"))]
    return min(nines, key=lambda n: (len(plain[n]), plain[n]), default=parent)
