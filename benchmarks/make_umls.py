"""Write a UMLS-shaped release of any size, to measure and to break the reader with.

    python benchmarks/make_umls.py OUT --scale 0.1

Scale 1 is UMLS 2020AA: 4.27M concepts, 15.48M terms, 87.89M relations. Synonym
counts, words and relation labels are Zipf-like, names are in 15 languages, and the
release opens with rows that broke other readers: the term "NA", lone quotes, U+2028,
U+0085, an ambiguous "cold", a concept without a semantic type, relations of a concept
to itself and to concepts that are not there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

CONCEPTS, TERMS, RELATIONS = 4_270_000, 15_480_000, 87_890_000
CHUNK = 1_000_000

LANGUAGES = ["ENG", "SPA", "FRE", "POR", "DUT", "GER", "ITA", "CZE", "SWE", "HUN"]
LANGUAGES += ["TUR", "RUS", "JPN", "CHI", "KOR"]
SHARES = [0.66, 0.10, 0.04, 0.04, 0.03, 0.03, 0.02, 0.015, 0.01, 0.01]
SHARES += [0.005, 0.02, 0.01, 0.005, 0.005]
ALPHABETS = {
    "RUS": "абвгдежзиклмнопрстуфх",
    "JPN": "アイウエオ心臓肝腎炎症病",
    "CHI": "心肝脾肺肾炎症病痛热",
    "KOR": "가나다라마바사심장간염",
    "FRE": "abcdeéèêfghiîlmnoprstuç",
    "GER": "abcdeäöüfghilmnoprstuß",
}
SOURCES = ["SNOMEDCT_US", "MSH", "ICD10CM", "LNC", "RXNORM", "NCI", "MDR", "OMIM", "MTH"]
SOURCES += ["HPO", "GO", "NCBI", "FMA", "CHV", "DRUGBANK", "ICD9CM", "ICPC", "MEDCIN"]
RELS = ["CHD", "PAR", "RB", "RN", "RO", "RQ", "SY", "SIB", "AQ", "QB", "RL", "RU", "XR", "SUBX"]
TYPES = [(f"T{i:03d}", f"A1.{i // 10}.{i % 10}", f"Semantic Type {i}") for i in range(1, 128)]

EVIL_NAMES = [
    ("C0000005", "ENG", "NA"),
    ("C0000005", "ENG", 'an "unbalanced quote'),
    ("C0000005", "ENG", '"'),
    ("C0000005", "ENG", "line\u2028separator"),
    ("C0000005", "ENG", "next\u0085line"),
    ("C0000005", "ENG", "1-(2-chlorophenyl)-3-methylurea"),
    ("C0000009", "ENG", "cold"),
    ("C0000010", "ENG", "cold"),
    ("C0000010", "ENG", "null"),
    ("C0000010", "JPN", "感冒"),
    ("C0000011", "ENG", "not typed at all"),
]


def cuis(indices: np.ndarray) -> pl.Series:
    """C0000100 upwards: the first numbers belong to the evil rows."""
    return "C" + (pl.Series(indices.astype(np.int64)) + 100).cast(pl.String).str.zfill(7)


def words(rng: np.random.Generator, alphabet: str, count: int) -> pl.Series:
    letters = np.array(list(alphabet))
    lengths = rng.integers(3, 11, count)
    flat = letters[rng.integers(0, len(letters), lengths.sum())]
    ends = np.cumsum(lengths)
    made = ["".join(flat[end - size : end]) for end, size in zip(ends, lengths, strict=True)]
    return pl.Series(made)


def zipf(rng: np.random.Generator, size: int, top: int) -> np.ndarray:
    """Indices in [0, top) whose frequency falls about as one over their rank."""
    return (np.exp(rng.random(size) * np.log(top + 1.0)) - 1.0).astype(np.int64).clip(0, top - 1)


def phrases(rng: np.random.Generator, vocabulary: pl.Series, size: int) -> pl.Series:
    """One to seven Zipf-like words a term, three on average."""
    count = 1 + rng.binomial(6, 0.35, size)
    columns = []
    for place in range(7):
        picked = vocabulary.gather(zipf(rng, size, len(vocabulary)))
        columns.append(picked.set(pl.Series(count <= place), None).alias(str(place)))
    frame = pl.DataFrame(columns)
    return frame.select(pl.concat_str(pl.all(), separator=" ", ignore_nulls=True)).to_series()


def rows(frame: pl.DataFrame) -> bytes:
    line = pl.concat_str(pl.all(), separator="|") + "|"
    return ("\n".join(frame.select(line).to_series()) + "\n").encode()


def conso(rng: np.random.Generator, concepts: int, terms: int) -> Iterator[bytes]:
    evil = pl.DataFrame(EVIL_NAMES, schema=["cui", "lat", "name"], orient="row")
    frame = conso_frame(evil["cui"], evil["lat"], evil["name"], 0, np.random.default_rng(0))
    yield rows(frame.with_columns(SUPPRESS=pl.lit("N")))
    extra = np.bincount(zipf(rng, max(terms - concepts, 0), concepts), minlength=concepts)
    extra = rng.permutation(extra)
    # Zipf puts millions on a few concepts; UMLS stops near a few hundred names a concept.
    spill = int((extra - extra.clip(0, 300)).sum())
    extra = extra.clip(0, 300) + np.bincount(rng.integers(0, concepts, spill), minlength=concepts)
    owner = np.repeat(np.arange(concepts), 1 + extra)
    vocabularies = {
        lang: words(rng, ALPHABETS.get(lang, "abcdefghilmnoprstuvxyz"), 20_000)
        for lang in LANGUAGES
    }
    for start in range(0, len(owner), CHUNK):
        part = owner[start : start + CHUNK]
        size = len(part)
        lang = rng.choice(len(LANGUAGES), size, p=np.array(SHARES) / sum(SHARES))
        names = pl.Series([""], dtype=pl.String).extend_constant("", size - 1)
        for code, language in enumerate(LANGUAGES):
            where = np.flatnonzero(lang == code)
            if len(where):
                names = names.scatter(where, phrases(rng, vocabularies[language], len(where)))
        yield rows(conso_frame(cuis(part), pl.Series(LANGUAGES).gather(lang), names, start, rng))


def conso_frame(
    cui: pl.Series, lat: pl.Series, name: pl.Series, start: int, rng: np.random.Generator
) -> pl.DataFrame:
    size = len(cui)
    number = pl.Series(np.arange(start, start + size)).cast(pl.String).str.zfill(8)
    suppressed = pl.Series(["N", "O", "Y", "E"]).gather(
        rng.choice(4, size, p=[0.92, 0.05, 0.02, 0.01])
    )
    return pl.DataFrame(
        {
            "CUI": cui,
            "LAT": lat,
            "TS": pl.Series(["P", "S"]).gather(rng.integers(0, 2, size)),
            "LUI": "L" + number,
            "STT": pl.Series(["PF", "VO", "VC"]).gather(rng.integers(0, 3, size)),
            "SUI": "S" + number,
            "ISPREF": pl.Series(["Y", "N"]).gather(rng.integers(0, 2, size)),
            "AUI": "A" + number,
            "SAUI": pl.Series([""]).extend_constant("", size - 1),
            "SCUI": number,
            "SDUI": pl.Series([""]).extend_constant("", size - 1),
            "SAB": pl.Series(SOURCES).gather(zipf(rng, size, len(SOURCES))),
            "TTY": pl.Series(["PT", "SY", "AB", "FN"]).gather(rng.integers(0, 4, size)),
            "CODE": number,
            "STR": name,
            "SRL": pl.Series(["0"]).extend_constant("0", size - 1),
            "SUPPRESS": suppressed,
            "CVF": pl.Series(["256"]).extend_constant("256", size - 1),
        }
    )


def rel(rng: np.random.Generator, concepts: int, relations: int) -> Iterator[bytes]:
    attributes = words(rng, "abcdefghilmnoprst_", 900).to_list()
    labels = [(RELS[i % len(RELS)], "" if i < len(RELS) else attributes[i]) for i in range(900)]
    label_rel = pl.Series([rel for rel, _ in labels])
    label_rela = pl.Series([rela for _, rela in labels])
    evil = np.array([[0, 0], [0, concepts + 5], [concepts + 9, 1]])  # itself; absent; absent
    yield rows(rel_frame(evil[:, 0], evil[:, 1], np.zeros(3, int), label_rel, label_rela, 0, rng))
    for start in range(0, relations, CHUNK):
        size = min(CHUNK, relations - start)
        low, high = start * concepts // relations, (start + size) * concepts // relations
        first = np.sort(rng.integers(low, max(high, low + 1), size))
        second = np.where(
            rng.random(size) < 0.5, zipf(rng, size, concepts), rng.integers(0, concepts, size)
        )
        label = zipf(rng, size, len(labels))
        yield rows(rel_frame(first, second, label, label_rel, label_rela, start, rng))


def rel_frame(
    first: np.ndarray,
    second: np.ndarray,
    label: np.ndarray,
    label_rel: pl.Series,
    label_rela: pl.Series,
    start: int,
    rng: np.random.Generator,
) -> pl.DataFrame:
    size = len(first)
    number = pl.Series(np.arange(start, start + size)).cast(pl.String).str.zfill(9)
    blank = pl.Series([""]).extend_constant("", size - 1)
    return pl.DataFrame(
        {
            "CUI1": cuis(first),
            "AUI1": "A" + number,
            "STYPE1": pl.Series(["SCUI"]).extend_constant("SCUI", size - 1),
            "REL": label_rel.gather(label),
            "CUI2": cuis(second),
            "AUI2": "A" + number.reverse(),
            "STYPE2": pl.Series(["SCUI"]).extend_constant("SCUI", size - 1),
            "RELA": label_rela.gather(label),
            "RUI": "R" + number,
            "SRUI": blank.rename("SRUI"),
            "SAB": pl.Series(SOURCES).gather(zipf(rng, size, len(SOURCES))),
            "SL": pl.Series(SOURCES).gather(zipf(rng, size, len(SOURCES))),
            "RG": blank.rename("RG"),
            "DIR": pl.Series(["", "Y", "N"]).gather(rng.integers(0, 3, size)),
            "SUPPRESS": pl.Series(["N", "O"]).gather(rng.choice(2, size, p=[0.95, 0.05])),
            "CVF": blank.rename("CVF"),
        }
    )


def sty(rng: np.random.Generator, concepts: int) -> Iterator[bytes]:
    typed = [("C0000005", 1), ("C0000009", 2), ("C0000009", 3), ("C0000010", 2)]  # C0000011: none
    for cui, place in typed:
        yield f"{cui}|{'|'.join(TYPES[place])}|AT{place}||\n".encode()
    for start in range(0, concepts, CHUNK):
        owner = np.arange(start, min(start + CHUNK, concepts))
        owner = np.sort(np.concatenate([owner, owner[rng.random(len(owner)) < 0.1]]))
        kind = rng.integers(0, len(TYPES), len(owner))
        columns = {
            name: pl.Series([t[place] for t in TYPES]).gather(kind)
            for place, name in enumerate(("TUI", "STN", "STY"))
        }
        atui = "AT" + pl.Series(np.arange(len(owner)) + start).cast(pl.String)
        blank = pl.Series([""]).extend_constant("", len(owner) - 1)
        yield rows(pl.DataFrame({"CUI": cuis(owner), **columns, "ATUI": atui, "CVF": blank}))


def write(path: Path, chunks: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)


def make(out: Path, scale: float, seed: int = 0) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    concepts = max(int(CONCEPTS * scale), 50)
    write(out / "MRCONSO.RRF", conso(rng, concepts, max(int(TERMS * scale), concepts)))
    write(out / "MRSTY.RRF", sty(rng, concepts))
    write(out / "MRREL.RRF", rel(rng, concepts, int(RELATIONS * scale)))
    ranks = [f"{400 - i:04d}|{sab}|PT|N|" for i, sab in enumerate(SOURCES)]
    (out / "MRRANK.RRF").write_text("\n".join(ranks) + "\n")
    sab = [
        f"|C1|{s}_2020|{s}|{s} full name|{s}|2020|||2020AA||||0|1|1|||||UTF-8|Y|Y|{s}||"
        for s in SOURCES
    ]
    (out / "MRSAB.RRF").write_text("\n".join(sab) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", type=float, default=0.01, help="1 is the size of UMLS 2020AA")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = time.perf_counter()
    make(options.out, options.scale, options.seed)
    size = sum(file.stat().st_size for file in options.out.glob("*.RRF")) / 1e9
    print(f"{options.out}: {size:.2f} GB in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
