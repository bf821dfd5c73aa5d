"""What training reads, out of a merged graph, the tables of data/train and sentences.

Made in the folder that is asked for:

graph/          terms and relations of the sources that are in, as tables
train.kg/       the same, built
extra.tsv       terms beside it: phrases, parallel names, what is misspelt, shortened or qualified
names.tsv       some English names of each concept, which others are to find
pairs.tsv       pairs of terms that belong together, and how much each is drawn
sentences.tsv   sentences with their English, and how much each is drawn
held.tsv        phrases and names that were kept out of all of it, to choose by
joined.tsv      concepts that are another here, as they share one of its names

Nothing in extra.tsv or sentences.tsv equals a query of a bench; no pair and no relation is one
that a bench asks for. Concepts that share one of their chosen names are one concept.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from augment import misspelt, qualified, shortened
from related import asked_for, read_related

from medcoder import KG
from medcoder.kg.build import build_kg
from medcoder.kg.sources import open_source
from medcoder.text import fold
from tables import parallel_rows, read, read_lay, read_parallel, write

COLUMNS = ["concept_id", "term", "lang", "source", "is_preferred"]
EXTRA = ["term", "concept", "language", "weight"]
NAMES, NAMES_ASKED, NAMES_SPOKEN = 1, 2, 4  # of a concept: English alone, other languages, ours
USUAL = 18  # letters of a name; nearer to it comes first, after the preferred one
MORE = Path(__file__).parent / "arabic_hindi.tsv"  # words of languages that data/train lacks
TYPO, NOTE = "x-typo-", "x-note-en"  # languages that no teacher is asked about
WARD_KINDS = ("acronym", "shorthand", "formal", "lay")


class Inputs(NamedTuple):
    terms: Path  # merged table of terms, Parquet
    relations: Path  # head, relation, tail
    xrefs: Path | None  # concept_id, xref: which concepts the categories of wards are
    bench: Path  # folder of the benches
    sentences: Path  # folder of Parquet tables: lang, en, text
    manifest: Path  # which sources are in
    own: Path  # data/train


def make_data(inputs: Inputs, settings: dict[str, Any], out: Path) -> None:
    graph = take(pl.read_parquet(inputs.terms, columns=COLUMNS), inputs.manifest)
    queries = bench_queries(inputs.bench)
    lay = read_lay(inputs.own)
    rows = [*read_parallel(inputs.own), *parallel_rows(MORE)]
    known = set(graph["concept_id"].unique())
    linked, new = split_parallel(rows, known, owners(graph), queries)
    new += [(one.concept, one.phrase, one.language, "lay", False) for one in orphans(lay, known)]
    graph = pl.concat([graph, pl.DataFrame(new, schema=graph.schema, orient="row")])
    extra = [(one.phrase, one.concept, one.language, "lay") for one in lay]
    extra += [(*row, "parallel") for row in linked]
    if inputs.xrefs:
        categories = icd_categories(pl.read_parquet(inputs.xrefs), set(graph["concept_id"]))
        extra += [(*row, "ward") for row in ward(inputs.own / "ward", categories)]
    spoken = {concept for _, concept, _, _ in extra}
    names = english_names(graph, spoken)
    root = names.root
    graph = graph.with_columns(pl.col("concept_id").replace(root))
    extra = [(text, root.get(concept, concept), *rest) for text, concept, *rest in extra]
    extra, held = split_held(without_queries(extra, queries), graph, settings["held"])
    write_graph(graph, relations(inputs, graph, root), out / "graph")
    build_kg([open_source(f"table={out / 'graph'}")], out / "train.kg", overwrite=True)
    there = KG.open(out / "train.kg")  # it leaves out what is no name, such as "-"
    extra = [row for row in extra if row[1] in there]
    graph = graph.filter(pl.col("concept_id").is_in(list(there)))
    made = augmented(graph, extra, settings)
    extra = weighted(extra, settings) + [row for row in made if fold(row[0]) not in queries]
    write(out / "extra.tsv", EXTRA, extra)
    write(out / "names.tsv", ["term", "concept"], [row for row in names.rows if row[1] in there])
    write(out / "held.tsv", ["phrase", "concept", "language", "kind"], held)
    write(out / "joined.tsv", ["concept", "as"], sorted(root.items()))
    write(out / "pairs.tsv", ["text", "other", "share"], related_pairs(inputs))
    found = sentences(inputs.sentences, queries, settings)
    write(out / "sentences.tsv", ["text", "other", "share"], found)
    print(
        f"{len(graph):,} terms, {len(extra):,} extra, {len(names.rows):,} names, "
        f"{len(held):,} held, {len(found):,} sentences, {len(root):,} concepts joined",
        flush=True,
    )


def take(terms: pl.DataFrame, manifest: Path) -> pl.DataFrame:
    """The terms of the sources that the manifest lets in."""
    sources = tomllib.loads(manifest.read_text(encoding="utf-8"))["source"]
    if unknown := set(terms["source"].unique()) - set(sources):
        raise SystemExit(
            f"sources that {manifest} does not list: {', '.join(sorted(unknown))}. Add them, "
            "with their licence and whether they are in"
        )
    wanted = [name for name, about in sources.items() if about["in"]]
    kept = terms.filter(pl.col("source").is_in(wanted)).select(COLUMNS)
    # Some terms of EFO end in the two signs of an escaped line break.
    return kept.with_columns(pl.col("term").str.strip_suffix("\\n").str.strip_chars())


def bench_queries(bench: Path) -> set[str]:
    """What benches ask, folded, of all splits."""
    files = sorted(bench.glob("*/queries.tsv"))
    return {fold(row[0]) for file in files for row in read(file)[1]}


def without_queries(rows: Iterable[Sequence[str]], queries: set[str]) -> list[Any]:
    return [tuple(row) for row in rows if fold(row[0]) not in queries]


def split_parallel(
    rows: Iterable[Any], known: set[str], owner: dict[str, str], queries: set[str]
) -> tuple[list[tuple[str, str, str]], list[tuple[Any, ...]]]:
    """Extra terms, and one term of each concept that is new in the graph, English if there is one.

    A row whose first English term is of one concept of the graph alone is of that concept.
    """
    linked, new = [], []
    seen, found = set(known), {concept: concept for concept in known}
    for given, terms in rows:
        name = fold(terms["en"][0]) if "en" in terms else ""
        concept = found.setdefault(given, owner.get(name, given))  # a later file may lack English
        for language in sorted(terms, key=lambda tag: tag != "en"):
            for term in terms[language]:
                if concept in seen:
                    linked.append((term, concept, language))
                elif fold(term) not in queries:
                    new.append((concept, term, language, "parallel", language == "en"))
                    seen.add(concept)
    return linked, new


def owners(graph: pl.DataFrame) -> dict[str, str]:
    """The concept of each English term that has one alone, by its folded text."""
    found: dict[str, set[str]] = defaultdict(set)
    english = graph.filter(pl.col("lang") == "en").select("concept_id", "term")
    for concept, term in english.iter_rows():
        found[fold(term)].add(concept)
    return {term: min(concepts) for term, concepts in found.items() if len(concepts) == 1}


def orphans(lay: Iterable[Any], known: set[str]) -> Iterator[Any]:
    """One phrase of each concept that the graph lacks: extra terms need a concept that is there."""
    seen = set(known)
    for one in lay:
        if one.concept not in seen:
            seen.add(one.concept)
            yield one


class Names(NamedTuple):
    """English names with their concepts, and which concepts are another by a shared name."""

    rows: list[tuple[str, str]]
    root: dict[str, str]


def english_names(graph: pl.DataFrame, spoken: set[str]) -> Names:
    """A few names of each concept. Concepts that share one of these are one."""
    foreign = set(graph.filter(pl.col("lang") != "en")["concept_id"])
    english = graph.filter(pl.col("lang") == "en").select("concept_id", "term", "is_preferred")
    by_concept: dict[str, dict[str, bool]] = defaultdict(dict)
    for concept, term, preferred in english.iter_rows():
        by_concept[concept][term] = by_concept[concept].get(term, False) or bool(preferred)
    owner: dict[str, str] = {}  # of a folded name: the concept that had it first
    same: dict[str, str] = {}

    def root(concept: str) -> str:
        while same.setdefault(concept, concept) != concept:
            concept = same[concept]
        return concept

    rows = []
    for concept, terms in by_concept.items():
        most = NAMES_SPOKEN if concept in spoken else NAMES_ASKED if concept in foreign else NAMES
        ranked = sorted(terms, key=lambda term: (not terms[term], abs(len(term) - USUAL)))
        for term in ranked[:most]:
            rows.append((term, concept))
            same[root(concept)] = root(owner.setdefault(fold(term), concept))
    moved = {one: root(one) for one in by_concept if root(one) != one}
    return Names(list(dict.fromkeys((term, root(one)) for term, one in rows)), moved)


def split_held(
    rows: Sequence[Any], graph: pl.DataFrame, share: float
) -> tuple[list[Any], list[Any]]:
    """Extra terms without a share of the texts, by their hash, and what was kept out."""
    seen = {fold(term) for term in graph["term"]}
    out = {
        text for text in {fold(row[0]) for row in rows} if text not in seen and _low(text, share)
    }
    kept = [row for row in rows if fold(row[0]) not in out]
    return kept, [row for row in rows if fold(row[0]) in out]


def _low(text: str, share: float) -> bool:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest()) < share * 2**32


def icd_categories(xrefs: pl.DataFrame, known: set[str]) -> dict[str, str]:
    """The one concept of each category of ICD-10-CM."""
    found: dict[str, set[str]] = defaultdict(set)
    for concept, xref in xrefs.select("concept_id", "xref").iter_rows():
        if xref.startswith("ICD10CM:") and concept in known:
            found[xref.removeprefix("ICD10CM:")].add(concept)
    own = {one.removeprefix("ICD10CM:"): one for one in known if one.startswith("ICD10CM:")}
    return {code: min(some) for code, some in found.items() if len(some) == 1} | own


def ward(folder: Path, categories: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Ward strings that are one thing, without a qualifier, of a category that is a concept."""
    for file in sorted(folder.glob("*.tsv")):
        for text, kind, codes, attributes in read(file)[1]:
            if kind in WARD_KINDS and codes in categories and not attributes:
                yield text, categories[codes], file.stem


def relations(inputs: Inputs, graph: pl.DataFrame, root: dict[str, str]) -> pl.DataFrame:
    """Relations between concepts with English terms, without those that a bench asks for."""
    named: dict[str, set[str]] = defaultdict(set)
    english = graph.filter(pl.col("lang") == "en").select("concept_id", "term")
    for concept, term in english.iter_rows():
        named[fold(term)].add(concept)
    asked = set()
    for pair in asked_for(pair_tables(inputs.bench)):
        one, other = min(pair), max(pair)
        asked |= {(a, b) for a in named.get(one, ()) for b in named.get(other, ())}
    known = set(english["concept_id"])
    table = pl.read_parquet(inputs.relations, columns=["head", "relation", "tail"])
    table = table.with_columns(pl.col("head", "tail").replace(root)).unique(maintain_order=True)
    kept = [
        head != tail
        and head in known
        and tail in known
        and (head, tail) not in asked
        and (tail, head) not in asked
        for head, tail in table.select("head", "tail").iter_rows()
    ]
    return table.filter(pl.Series(kept, dtype=pl.Boolean))


def pair_tables(bench: Path) -> list[Path]:
    return [
        file
        for file in [*bench.glob("similarity/*.tsv"), *bench.glob("relcls_open/test*.tsv")]
        if {"term1", "head"} & set(read(file)[0])
    ]


def write_graph(graph: pl.DataFrame, relations: pl.DataFrame, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    columns = ["concept_id", "term", "lang", "source", "is_preferred"]
    graph.select(columns).write_parquet(out / "concepts_terms.parquet")
    if len(relations):
        relations.write_parquet(out / "relations.parquet")


def weighted(rows: Iterable[Any], settings: dict[str, Any]) -> list[tuple[str, ...]]:
    """Extra terms with their weights: by kind, and more for a language with few of them."""
    rows = list(dict.fromkeys(rows))
    counts: dict[str, float] = defaultdict(float)
    for _, _, language, kind in rows:
        counts[language] += settings["weights"][kind]
    most = max(counts.values())
    found = []
    for text, concept, language, kind in rows:
        more = min((most / counts[language]) ** settings["balance"], settings["most_more"])
        more = 1.0 if language == "en" else more
        weight = max(1, round(settings["weights"][kind] * more))
        found.append((text, concept, language, str(weight)))
    return found


def augmented(
    graph: pl.DataFrame, extra: Sequence[Any], settings: dict[str, Any]
) -> list[tuple[str, ...]]:
    """Terms of the graph and phrases, changed as people change them."""
    rng = np.random.default_rng(settings["seed"])
    by_concept: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for concept, term, language in graph.select("concept_id", "term", "lang").iter_rows():
        by_concept[concept].append((term, language))
    spoken = sorted({concept for _, concept, _, _ in extra})
    wrong = misspelt(by_concept, settings["misspelt"], rng)
    notes = shortened(by_concept, settings["shortened"], rng)
    with_more = qualified({one: by_concept[one] for one in spoken}, settings["qualified"], rng)
    found = [(text, concept, TYPO + tag, "1") for text, concept, tag in wrong]
    found += [(text, concept, NOTE, "1") for text, concept, _ in notes]
    found += [
        (text, concept, NOTE if tag == "en" else tag, "1") for text, concept, tag in with_more
    ]
    return list(dict.fromkeys(found))


def related_pairs(inputs: Inputs) -> list[tuple[str, str, str]]:
    items = read_related(inputs.own / "related", without=asked_for(pair_tables(inputs.bench)))
    return [(one.term, one.item, f"{one.weight:.4g}") for one in items]


def sentences(
    folder: Path, queries: set[str], settings: dict[str, Any]
) -> list[tuple[str, str, str]]:
    """Sentences with their English, small languages more; English ones with themselves."""
    chosen = settings["sentences"]
    rows = []
    for name in chosen["files"]:
        table = pl.read_parquet(folder / f"{name}.parquet", columns=["lang", "en", "text"])
        table = table.filter(pl.col("lang").is_in(chosen["languages"]))
        rows += [(*row, chosen["shares"].get(name, 1.0)) for row in table.iter_rows()]
    rows = [
        (tag, *(" ".join(text.split()) for text in (english, text)), share)
        for tag, english, text, share in rows
    ]
    rows = [row for row in rows if not {fold(row[1]), fold(row[2])} & queries]
    totals: dict[str, float] = defaultdict(float)
    for tag, *_, share in rows:
        totals[tag] += share
    power = chosen["power"] - 1
    found = [(text, en, f"{share * totals[tag] ** power:.4g}") for tag, en, text, share in rows]
    english = list(dict.fromkeys(en for _, en, _, _ in rows))
    whole = sum(float(share) for *_, share in found)
    own = whole * chosen["english"] / (1 - chosen["english"]) / max(len(english), 1)
    return list(dict.fromkeys(found)) + [(text, text, f"{own:.4g}") for text in english]
