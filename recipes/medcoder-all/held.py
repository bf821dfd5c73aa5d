"""How often phrases that no training sees find their concept, by language.

python recipes/medcoder-all/held.py data/eval/dev/phrases --terms TERMS --work work --model MODEL

Each phrase is compared with English names of all concepts, those that ask.py has. Right is the
concept or one of the same name. Phrases that equal a training term are left out.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from ask import english_names, preferred

from medcoder.encode import exported
from medcoder.model import load_encoder
from medcoder.text import fold
from medcoder.train.processes import device
from tables import read

Encode = Callable[[list[str]], np.ndarray]
FIRST = 5
NEAREST = 60  # names, among which five concepts are looked for
KINDS = ("lay", "chart")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("held", type=Path, help="folder of tables: concept, name, lay, chart")
    parser.add_argument(
        "--terms", type=Path, required=True, help="as prepare.py has it, with is_preferred"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder that prepare.py wrote to")
    parser.add_argument("--model", required=True, help="folder of a model, exported or not")
    parser.add_argument("--vectors", type=Path, help="file to keep the vectors of the names in")
    options = parser.parse_args()
    graph = pl.read_parquet(options.work / "terms.parquet")
    extra = read(options.work / "extra.tsv")[1]
    names = english_names(graph, extra, preferred(options.terms))
    seen = {fold(text) for text in [*graph["term"], *(row[0] for row in extra)]}
    every = phrases(options.held)
    asked = [one for one in every if one[2] in names.numbers]
    new = [one for one in asked if fold(one[3]) not in seen]
    print(f"{len(every) - len(asked):,} of {len(every):,} phrases: concept without an English name")
    print(f"{len(asked) - len(new):,} are training terms. Both are left out")
    encoder: Any = load_encoder(options.model)
    if not exported(options.model):
        encoder.to(device())
    encode = encoder.encode
    vectors = kept(options.vectors, names.texts, encode)
    queries = encode([phrase for *_, phrase in new])
    found: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for (tag, kind, concept, _), query in zip(new, queries, strict=True):
        place = names.numbers[concept]
        near = np.argsort(-(vectors @ query), kind="stable")[:NEAREST]
        ranked = list(dict.fromkeys(names.owners[near].tolist()))[:FIRST]
        hit = (ranked[0] == place, place in ranked)
        found[tag, kind].append(hit)
        found["all", kind].append(hit)
    print(f"language, then @1 and @{FIRST} of {' and of '.join(KINDS)}")
    for tag in sorted({tag for tag, _ in found}, key=lambda tag: (tag == "all", tag)):
        cells = [f"{100 * value:5.1f}" for kind in KINDS for value in _mean(found[tag, kind])]
        print(tag, *cells, f"({len(found[tag, KINDS[0]])} and {len(found[tag, KINDS[1]])})")


def kept(file: Path | None, texts: list[str], encode: Encode) -> np.ndarray:
    """Vectors of these texts, as float16 has them; from the file, or into it if it is not there."""
    if file and file.exists():
        found = np.load(file)
        some = min(8, len(texts))
        if len(found) != len(texts) or not np.allclose(
            found[:some], encode(texts[:some]), atol=2e-3
        ):
            raise SystemExit(f"{file} has vectors of other names or of another model. Remove it")
    else:
        found = encode(texts).astype(np.float16)
        if file:
            np.save(file, found)
    return found.astype(np.float32)


def phrases(folder: Path) -> list[tuple[str, str, str, str]]:
    """Language, kind, concept and phrase of what the tables have."""
    found = []
    for path in sorted(folder.glob("*.tsv")):
        header, rows = read(path)
        if header != ["concept", "name", *KINDS]:
            raise SystemExit(
                f"{path}: columns {header}, expected concept, name, {', '.join(KINDS)}"
            )
        for row in rows:
            fields = dict(zip(header, row, strict=True))
            found += [
                (path.stem, kind, fields["concept"], fields[kind]) for kind in KINDS if fields[kind]
            ]
    if not found:
        raise SystemExit(f"{folder} has no phrases: expected tables such as en.tsv")
    return found


def _mean(hits: list[tuple[bool, bool]]) -> np.ndarray:
    return np.mean(hits, axis=0) if hits else np.full(2, np.nan)


if __name__ == "__main__":
    main()
