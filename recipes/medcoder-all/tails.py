"""What align.py trains on in the end: names with the words that lists of codes put after them.

python recipes/medcoder-all/tails.py work --out work/tails

"Backache, unspecified", "backache NOS": such names are to be found as those without. Asked are
English names with such words (styles.py) and the shortened ones of prepare.py; English texts and
terms of other languages are to keep their vectors. All of it is a part of what ask.py wrote into
work/ask: the stage is short.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
from prepare import NOTE
from styles import HEADS, TAILS

from tables import read

CONCEPTS = 9_000  # with two names or more, whose names are asked with tails
OTHERS = 0.03  # share of all other names that are there to be told apart
HEADED = 0.2  # share of the names that have the word before them
KEPT = 26_000  # English texts, and as many terms of other languages
SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="folder with extra.tsv and what ask.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    names, asked, english = (
        pl.read_parquet(options.work / "ask" / f"{name}.parquet")
        for name in ("names", "asked", "english")
    )
    shortened = {row[0] for row in read(options.work / "extra.tsv")[1] if row[2] == NOTE}
    several = names.group_by("owner").len().filter(pl.col("len") > 1)["owner"].to_list()
    chosen = set(rng.permutation(sorted(several))[:CONCEPTS].tolist())
    own = names["owner"].is_in(list(chosen))
    some = names.filter(own | pl.Series(rng.random(len(names)) < OTHERS))
    rows = [(with_tail(text, rng), owner) for text, owner in some.rows() if owner in chosen]
    there = pl.col("text").is_in(list(shortened)) & pl.col("owner").is_in(some["owner"].to_list())
    rows += asked.filter((pl.col("language") == "en") & there)["text", "owner"].rows()
    kept = [text for text in draw(english, rng) if text not in shortened]
    kept += draw(asked.filter(pl.col("language") != "en"), rng)
    texts, owners = zip(*rows, strict=True)
    tables = {
        "names": {"text": some["text"], "owner": some["owner"]},
        "asked": {"text": texts, "owner": owners, "share": [1.0] * len(rows)},
        "english": {"text": kept, "share": [1.0] * len(kept)},
    }
    for name, columns in tables.items():
        pl.DataFrame(columns).write_parquet(options.out / f"{name}.parquet")
        print(f"{name}: {len(columns['text']):,}")


def with_tail(name: str, rng: np.random.Generator) -> str:
    if rng.random() < HEADED:
        return HEADS[int(rng.integers(len(HEADS)))] + name
    return name + TAILS[int(rng.integers(len(TAILS)))]


def draw(table: pl.DataFrame, rng: np.random.Generator) -> list[str]:
    """Texts, by their shares."""
    shares = table["share"].to_numpy()
    places = rng.choice(len(table), KEPT, p=shares / shares.sum())
    return table["text"].gather(places).to_list()


if __name__ == "__main__":
    main()
