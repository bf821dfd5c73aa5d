"""What align.py trains on, as tables that need nothing but pyarrow to read.

python recipes/medcoder-all/ask.py work --terms TERMS.parquet --out work/ask

names.parquet has English names of all concepts, asked.parquet the terms that are to find them, and
english.parquet English texts whose vectors are to stay. Out of what prepare.py made,
data/train/related and common English words (wordfreq).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from prepare import LAY, NOTE, PARALLEL, TYPO
from relations import BETWEEN
from vocabulary import ENGLISH_WORDS

from medcoder.text import fold
from tables import read

ENGLISH = ("en", NOTE, f"{TYPO}en")
NAMES, NAMES_ASKED, NAMES_SPOKEN = 1, 2, 4  # of a concept: English alone, other languages, ours
USUAL = 18  # letters of a name; nearer to it comes first, after the preferred one
POWER = 0.6  # below one, small languages are asked more often than their terms would
SHARES = {"graph": 0.45, "extra": 0.25, "related": 0.15, "words": 0.15}  # of English texts
DATA = Path(__file__).parents[2] / "data" / "train"


class Names(NamedTuple):
    """English names, in the order of the numbers of their concepts."""

    texts: list[str]
    owners: np.ndarray  # number of the concept, or of those that share a name
    numbers: dict[str, int]  # of each concept


class Asked(NamedTuple):
    """Terms to ask, with their language, what they mean and how often they are drawn."""

    texts: list[str]
    languages: list[str]
    owners: np.ndarray
    shares: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="folder that prepare.py wrote to")
    parser.add_argument(
        "--terms", type=Path, required=True, help="as prepare.py has it, with is_preferred"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    graph = pl.read_parquet(options.work / "terms.parquet")
    extra = read(options.work / "extra.tsv")[1]
    names = english_names(graph, extra, preferred(options.terms))
    asked = terms_to_ask(graph, extra, names)
    texts, shares = english_texts(graph, extra)
    tables = {
        "names": {"text": names.texts, "owner": names.owners},
        "asked": {
            "text": asked.texts,
            "language": asked.languages,
            "owner": asked.owners,
            "share": asked.shares,
        },
        "english": {"text": texts, "share": shares},
    }
    for name, columns in tables.items():
        pl.DataFrame(columns).write_parquet(options.out / f"{name}.parquet", compression="zstd")
        print(f"{name}: {len(columns['text']):,}")


def preferred(terms: Path) -> set[tuple[str, str]]:
    table = pl.scan_parquet(terms).filter(pl.col("is_preferred") & (pl.col("lang") == "en"))
    return set(table.select("concept_id", "term").collect().iter_rows())


def english_names(
    graph: pl.DataFrame, extra: Sequence[Sequence[str]], first: set[tuple[str, str]]
) -> Names:
    """A few names of each concept. Concepts that share one of these count as one."""
    spoken = {concept for _, concept, _, weight in extra if float(weight) >= float(PARALLEL)}
    foreign = set(graph.filter(pl.col("lang") != "en")["concept_id"])
    by_concept: dict[str, dict[str, None]] = {}
    for concept, term in graph.filter(pl.col("lang") == "en").select("concept_id", "term").rows():
        by_concept.setdefault(concept, {})[term] = None
    texts, concepts = [], []
    owner: dict[str, str] = {}  # of a folded name: the concept that had it first
    same: dict[str, str] = {}
    for concept, terms in by_concept.items():
        most = NAMES_SPOKEN if concept in spoken else NAMES_ASKED if concept in foreign else NAMES
        ranked = sorted(
            terms, key=lambda term: ((concept, term) not in first, abs(len(term) - USUAL))
        )
        for term in ranked[:most]:
            texts.append(term)
            concepts.append(concept)
            same[_root(same, concept)] = _root(same, owner.setdefault(fold(term), concept))
    roots = {concept: _root(same, concept) for concept in by_concept}
    numbered = {root: number for number, root in enumerate(dict.fromkeys(roots.values()))}
    numbers = {concept: numbered[root] for concept, root in roots.items()}
    owners = np.array([numbers[concept] for concept in concepts])
    order = np.argsort(owners, kind="stable")
    return Names([texts[place] for place in order], owners[order], numbers)


def _root(same: dict[str, str], concept: str) -> str:
    while same.setdefault(concept, concept) != concept:
        concept = same[concept]
    return concept


def terms_to_ask(graph: pl.DataFrame, extra: Sequence[Sequence[str]], names: Names) -> Asked:
    """All terms of other languages, and what people say, misspell and shorten in English."""
    rows = [(term, concept, tag, 1.0) for concept, term, tag, _ in graph.iter_rows() if tag != "en"]
    rows += [
        (term, concept, tag, float(weight))
        for term, concept, tag, weight in extra
        if tag != "en" or weight == LAY
    ]
    rows = [row for row in rows if row[1] in names.numbers]
    tags = ["en" if tag in ENGLISH else tag.removeprefix(TYPO) for _, _, tag, _ in rows]
    shares, languages = np.array([weight for *_, weight in rows]), np.array(tags)
    for tag in np.unique(languages):
        own = languages == tag
        shares[own] *= shares[own].sum() ** (POWER - 1)
    owners = np.array([names.numbers[concept] for _, concept, _, _ in rows])
    return Asked([term for term, *_ in rows], tags, owners, shares / shares.sum())


def english_texts(
    graph: pl.DataFrame, extra: Sequence[Sequence[str]]
) -> tuple[list[str], np.ndarray]:
    """English texts, and how often each is drawn."""
    from wordfreq import top_n_list

    kinds = {
        "graph": graph.filter(pl.col("lang") == "en")["term"].unique(maintain_order=True).to_list(),
        "extra": list(dict.fromkeys(row[0] for row in extra if row[2] in ENGLISH)),
        "related": related(DATA / "related"),
        "words": top_n_list("en", ENGLISH_WORDS),
    }
    shares = [np.full(len(some), SHARES[kind] / len(some)) for kind, some in kinds.items()]
    return [text for some in kinds.values() for text in some], np.concatenate(shares)


def related(folder: Path) -> list[str]:
    """Terms and items of the tables of related terms."""
    rows = [row for file in sorted(folder.glob("*.tsv")) for row in read(file)[1]]
    items = (item for row in rows for field in row for item in field.split(BETWEEN))
    return list(dict.fromkeys(item for item in items if item))


if __name__ == "__main__":
    main()
