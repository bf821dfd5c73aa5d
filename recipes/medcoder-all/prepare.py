"""From a merged table of terms to what training reads: a graph, and a table of extra terms.

python recipes/medcoder-all/prepare.py TERMS.parquet --words work/words.tsv --out work

TERMS has the columns concept_id, term, lang and source. Which sources are taken says manifest.toml;
`--all` takes every one that it lists. Made are terms.parquet, train.kg/ and extra.tsv in `--out`.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from styles import styled

from medcoder import KG
from medcoder.kg.build import build_kg
from medcoder.kg.sources import open_source
from medcoder.normalize.calibration_queries import misspell
from medcoder.text import fold
from tables import Phrase, Row, read, read_lay, read_parallel, write

HERE = Path(__file__).parent
COLUMNS = ["concept_id", "term", "lang", "source"]
LAY, PARALLEL, CHANGED = "5", "3", "1"  # weights: 5 is drawn as often as five terms
MINED = "1"
MISSPELT, SHORTENED = 0.25, 0.15  # of the concepts
ANY = "mul"  # language of the mined words, which are of many and do not say of which
TYPO = "x-typo-"  # before the language of a misspelt term, so that a teacher can tell them apart
NOTE = "x-note-en"  # of English terms as a clerk shortens them, of which no teacher is asked
# Languages in which a letter more or less is a slip of the fingers.
ALPHABETIC = {
    "cs", "da", "de", "el", "en", "es", "fi", "fr", "hr", "hu", "it", "nb", "nl", "no", "pl", "pt",
    "ro", "ru", "sk", "sv", "tr", "uk", "vi",
}  # fmt: skip
SEED = 5


def main() -> None:
    options = _parser().parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    graph = take(pl.read_parquet(options.terms, columns=COLUMNS), all_sources=options.all)
    lay = read_lay(options.data)
    rows = read_parallel(options.data)
    known = set(graph["concept_id"].unique())
    owner = owners(graph)
    linked, new = split_parallel(rows, known, owner)
    english, mined = split_words(read(options.words)[1], owner)
    more = english + new
    more += [(one.concept, one.phrase, one.language, "lay") for one in orphans(lay, known)]
    graph = pl.concat([graph, pl.DataFrame(more, schema=COLUMNS, orient="row")])
    terms, built = options.out / "terms.parquet", options.out / "train.kg"
    graph.write_parquet(terms)
    build_kg([open_source(f"table={terms}")], built, overwrite=True)
    kg = KG.open(built)
    extra = [(one.phrase, one.concept, one.language, LAY) for one in lay]
    extra += linked + mined
    changed = list(misspelt(kg)), list(shortened(kg))
    extra += [row for rows in changed for row in rows]
    write(options.out / "extra.tsv", ["term", "concept", "language", "weight"], extra)
    print(kg)
    print(
        f"extra: {len(lay):,} lay, {len(linked):,} parallel, {len(mined):,} mined, "
        f"{len(changed[0]):,} misspelt, {len(changed[1]):,} shortened"
    )


def take(terms: pl.DataFrame, *, all_sources: bool) -> pl.DataFrame:
    """The terms of the sources that the manifest lets in."""
    with (HERE / "manifest.toml").open("rb") as file:
        sources = tomllib.load(file)["source"]
    unknown = set(terms["source"].unique()) - set(sources)
    if unknown:
        raise SystemExit(
            f"sources that manifest.toml does not list: {', '.join(sorted(unknown))}. Add them, "
            "with their licence and whether they are in"
        )
    wanted = [name for name, about in sources.items() if about["in"] or all_sources]
    kept = terms.filter(pl.col("source").is_in(wanted)).select(COLUMNS)
    # Some terms of EFO end in the two signs of an escaped line break.
    kept = kept.with_columns(pl.col("term").str.strip_suffix("\\n").str.strip_chars())
    print(f"{len(kept):,} of {len(terms):,} terms, of {len(wanted)} of {len(sources)} sources")
    return kept


def split_parallel(
    rows: Iterable[Row], known: set[str], owner: dict[str, str]
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Extra terms, and one term of each concept that is new in the graph, English if there is one.

    What is an extra term is drawn more often than one of the many concepts of the graph. A row
    whose first English term is of one concept of the graph alone is of that concept.
    """
    linked, new = [], []
    seen, found = set(known), {concept: concept for concept in known}
    for given, terms in rows:
        name = fold(terms["en"][0]) if "en" in terms else ""
        concept = found.setdefault(given, owner.get(name, given))  # a later file may lack English
        for language in sorted(terms, key=lambda tag: tag != "en"):
            for term in terms[language]:
                if concept in seen:
                    linked.append((term, concept, language, PARALLEL))
                else:
                    new.append((concept, term, language, "parallel"))
                    seen.add(concept)
    return linked, new


def owners(graph: pl.DataFrame) -> dict[str, str]:
    """The concept of each English term that has one alone, by its folded text."""
    found: dict[str, set[str]] = {}
    for concept, term in graph.filter(pl.col("lang") == "en").select(COLUMNS[:2]).iter_rows():
        found.setdefault(fold(term), set()).add(concept)
    return {term: min(concepts) for term, concepts in found.items() if len(concepts) == 1}


def split_words(
    rows: Iterable[Iterable[str]], owner: dict[str, str]
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """English words that are new in the graph, and as extra terms those of other languages."""
    concepts: dict[str, str] = {}
    english, mined = [], []
    for cluster, word in rows:  # the English word of a cluster comes first
        if cluster in concepts:
            mined.append((word, concepts[cluster], ANY, MINED))
        elif fold(word) in owner:
            concepts[cluster] = owner[fold(word)]
        else:
            concepts[cluster] = cluster
            english.append((cluster, word, "en", "words"))
    return english, mined


def orphans(lay: Iterable[Phrase], known: set[str]) -> Iterator[Phrase]:
    """One phrase of each concept that the graph lacks: extra terms need a concept that is there."""
    seen = set(known)
    for one in lay:
        if one.concept not in seen:
            seen.add(one.concept)
            yield one


def misspelt(kg: KG) -> Iterator[tuple[str, ...]]:
    """For a part of the concepts, one of their terms with a slip or two."""
    rng = np.random.default_rng(SEED)
    for concept in range(len(kg)):
        terms = [(text, kg.languages[tag]) for text, _, tag, *_ in kg.terms.of(concept)]
        terms = [
            (text, tag)
            for text, tag in terms
            if tag.partition("-")[0] in ALPHABETIC and 6 <= len(text) <= 60
        ]
        if not terms or rng.random() > MISSPELT:
            continue
        text, tag = terms[int(rng.integers(len(terms)))]
        wrong = misspell(text, rng)
        if rng.random() < 0.3:
            wrong = misspell(wrong, rng)
        wrong = " ".join(wrong.split())
        if wrong and wrong != text:
            yield wrong, kg.terms.id(concept), TYPO + tag, CHANGED


def shortened(kg: KG) -> Iterator[tuple[str, ...]]:
    """For a part of the concepts, one of their English terms as a clerk may write it."""
    rng = np.random.default_rng(SEED + 1)
    for concept in range(len(kg)):
        terms = [text for text, _, tag, *_ in kg.terms.of(concept) if kg.languages[tag] == "en"]
        terms = [text for text in terms if 5 <= len(text) <= 80]
        if not terms or rng.random() > SHORTENED:
            continue
        text = terms[int(rng.integers(len(terms)))]
        made = " ".join(styled(text, rng).split())
        if made.lower() != text.lower():
            yield made, kg.terms.id(concept), NOTE, CHANGED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("terms", type=Path, metavar="TERMS", help="merged table of terms, Parquet")
    parser.add_argument("--words", type=Path, required=True, help="what words.py made")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "data" / "train")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--strict", action="store_true", help="sources that are in: the default")
    which.add_argument("--all", action="store_true", help="all sources of the manifest")
    return parser


if __name__ == "__main__":
    main()
