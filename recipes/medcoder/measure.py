"""How often phrases and names that training does not see find their concept.

python recipes/medcoder/measure.py work MODEL... [--phrases data/eval/dev/phrases] [--json FILE]

Each is compared with the English names of all concepts (work/data/names.tsv). Right is the concept
or one of the same name. What equals a training term is left out. Asked are the phrases, `held.tsv`
(what data.py kept out), and tables of names (--names: a folder of ar.tsv, ... with the columns
concept, name, text). `MODEL@0.8` is a mean of weights: 0.8 of the model, the rest of work/init.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mix import mix

from medcoder import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.text import fold
from tables import read

FIRST, NEAREST = 5, 60
KINDS = ("lay", "chart")


class Asked(NamedTuple):
    group: str
    language: str
    concept: str
    text: str


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    data = options.work / "data"
    names = read(data / "names.tsv")[1]
    joined = dict(read(data / "joined.tsv")[1])
    known = {concept for _, concept in names}
    seen = {fold(row[0]) for row in read(data / "extra.tsv")[1]}
    terms = KG.open(data / "train.kg").terms
    seen |= {fold(text) for _, block in terms.blocks(1 << 16) for text in block.to_pylist()}
    every = [one._replace(concept=joined.get(one.concept, one.concept)) for one in asked(options)]
    left = [one for one in every if one.concept in known and fold(one.text) not in seen]
    print(f"{len(left):,} of {len(every):,}: of a concept with a name, and no training term")
    found = {str(model): measure(model, options, names, left) for model in options.models}
    for model, scores in found.items():
        print(f"\n{model}")
        groups = sorted({group for group, _ in scores})
        for group in groups:
            cells = [
                f"{tag} {first:.0f}/{five:.0f}"
                for (own, tag), (first, five, _) in sorted(scores.items())
                if own == group and tag not in ("all", "others")
            ]
            first, five, count = scores[group, "all"]
            others = scores.get((group, "others"), (np.nan, np.nan, 0))
            print(
                f"  {group}: all {first:.1f}/{five:.1f} ({count}), "
                f"others than English {others[0]:.1f}/{others[1]:.1f}"
            )
            print("    " + "  ".join(cells))
    if options.json:
        plain = {
            model: {f"{group} {tag}": values for (group, tag), values in scores.items()}
            for model, scores in found.items()
        }
        options.json.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def asked(options: argparse.Namespace) -> list[Asked]:
    found = []
    for folder in options.phrases:
        for path in sorted(folder.glob("*.tsv")):
            header, rows = read(path)
            for row in rows:
                fields = dict(zip(header, row, strict=True))
                found += [
                    Asked(kind, path.stem, fields["concept"], fields[kind])
                    for kind in KINDS
                    if fields.get(kind)
                ]
    for folder in options.names:
        for path in sorted(folder.glob("*.tsv")):
            found += [Asked("names", path.stem, row[0], row[2]) for row in read(path)[1]]
    if options.held:
        rows = read(options.work / "data" / "held.tsv")[1]
        found += [Asked(f"held {kind}", tag, concept, text) for text, concept, tag, kind in rows]
    return found


def measure(
    model: str, options: argparse.Namespace, names: list[list[str]], left: list[Asked]
) -> dict[tuple[str, str], tuple[float, float, int]]:
    folder, _, share = model.partition("@")
    encoder: Any
    if (Path(folder) / "graph.onnx").exists():
        from medcoder.model import load_encoder

        encoder = load_encoder(folder)
    else:
        encoder = TransformerEncoder.load(folder, pooling="mean", max_length=32).eval()
        if share:
            mix(encoder, options.work / "init", float(share))
        if torch.cuda.is_available():
            encoder.to("cuda")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    texts = [text for text, _ in names]
    blocks = [encoder.encode(texts[at : at + 50_000]) for at in range(0, len(texts), 50_000)]
    vectors = torch.from_numpy(np.concatenate(blocks)).to(device)
    queries = torch.from_numpy(encoder.encode([one.text for one in left])).to(device)
    number = {concept: at for at, concept in enumerate(dict.fromkeys(one for _, one in names))}
    owners = np.array([number[concept] for _, concept in names])
    hits: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for start in range(0, len(left), 512):
        near = (queries[start : start + 512] @ vectors.T).topk(min(NEAREST, len(names))).indices
        for one, row in zip(left[start : start + 512], near.cpu().numpy(), strict=True):
            ranked = list(dict.fromkeys(owners[row].tolist()))[:FIRST]
            hit = (ranked[0] == number[one.concept], number[one.concept] in ranked)
            for tag in (one.language, "all", *(["others"] if one.language != "en" else [])):
                hits[one.group, tag].append(hit)
    return {
        key: (*(100 * np.mean(some, axis=0)).round(2).tolist(), len(some))
        for key, some in hits.items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="folder of the recipe")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--phrases", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--names", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--held", action="store_true", help="what data.py kept out, too")
    parser.add_argument("--json", type=Path)
    return parser


if __name__ == "__main__":
    main()
