"""A last stage on data/related: what belongs together, beside what means the same.

python recipes/medcoder-all/relate.py work/mean --work work --out work/near \\
    --test BENCH/similarity/*.tsv BENCH/relcls_open/test.tsv

A step draws pairs of related terms and, so that nothing is forgotten, pairs of synonyms out of
train.kg and extra.tsv of `--work`. InfoNCE pulls both kinds together, the related ones less
sharply; of the synonyms, the vectors and their similarities are kept near those of the start.
Pairs that a file of `--test` asks for are not trained on. No GPU is needed: half an hour on two
cores.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from relations import Related, asked_for, read_related
from tables import read
from torch import Tensor
from torch.nn.functional import normalize

from medcoder import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.losses.info_nce import info_nce
from medcoder.model.packed import pack
from medcoder.model.save import save_encoder
from medcoder.text import fold

RELATED, SYNONYMS = 96, 80  # pairs a step
RELATED_TEMPERATURE, TEMPERATURE = 0.1, 0.05
CLOSE, ALIKE = 40.0, 400.0  # weights of keeping vectors, and their similarities
SAME = 0.85  # cosine of synonym pairs that may be of one concept: no negatives of each other
POOL = 16_000  # pairs of synonyms to draw from
EXTRA = 0.75  # share of them with a term of extra.tsv
RATE, CLIP = 1e-4, 1.0
WARM = 0.1  # share of the steps until the rate is at its peak
SEED = 0
DATA = Path(__file__).parents[2] / "data"


class Batch(NamedTuple):
    """Firsts of the related pairs, their seconds, then the same of the synonyms."""

    texts: list[str]
    known: Tensor  # (n, n) whether two of them are related, the same, or one
    start: Tensor  # (2 * SYNONYMS, width) vectors that the start gives the synonyms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="Hugging Face folder to go on from")
    parser.add_argument("--work", type=Path, required=True, help="what prepare.py made")
    parser.add_argument("--test", type=Path, nargs="+", required=True, help="tables of pairs")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--steps", type=int, default=1400)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    related = read_related(DATA / "related", without=asked_for(options.test))
    pool = synonyms(options.work, random.Random(SEED))
    print(f"{len(related):,} related pairs, {len(pool):,} of synonyms", flush=True)
    encoder = TransformerEncoder.load(options.model, pooling="mean", max_length=32).eval()
    train(encoder, related, pool, options.steps, options.out.with_suffix(".jsonl"))
    save_encoder(encoder, options.out)


def synonyms(work: Path, draw: random.Random) -> list[tuple[str, str]]:
    """Pairs of terms of one concept; most are an extra term and one of the graph."""
    kg = KG.open(work / "train.kg")
    extra = read(work / "extra.tsv")[1]
    weights = [float(weight) for *_, weight in extra]
    pairs = []
    for term, concept, *_ in draw.choices(extra, weights, k=round(POOL * EXTRA)):
        pairs.append((term, draw.choice(list(kg.terms.of(kg.index(concept))))[0]))
    while len(pairs) < POOL:
        terms = [text for text, *_ in kg.terms.of(draw.randrange(len(kg)))]
        if len(terms) > 1:
            pairs.append((draw.choice(terms), draw.choice(terms)))
    return [pair for pair in pairs if fold(pair[0]) != fold(pair[1])]


def train(
    encoder: TransformerEncoder,
    related: Related,
    pool: Sequence[tuple[str, str]],
    steps: int,
    log: Path,
) -> None:
    body, pieces = trainable(encoder)
    optimisers = [torch.optim.AdamW(body, weight_decay=0.01), torch.optim.SparseAdam([pieces])]
    begin = time.monotonic()
    with log.open("w", encoding="utf-8") as lines:
        for step, batch in enumerate(batches(encoder, related, pool, steps), 1):
            rate = RATE * min(step / WARM, (steps - step) / (1 - WARM)) / steps
            for optimiser in optimisers:
                optimiser.param_groups[0]["lr"] = rate
                optimiser.zero_grad()
            losses = objective(forward(encoder, batch.texts), batch)
            sum(losses.values()).backward()
            torch.nn.utils.clip_grad_norm_(body, CLIP)
            for optimiser in optimisers:
                optimiser.step()
            said = {name: round(loss.item(), 4) for name, loss in losses.items()}
            said |= {"step": step, "seconds": round(time.monotonic() - begin, 1)}
            lines.write(json.dumps(said) + "\n")
            lines.flush()
    encoder.model.get_input_embeddings().sparse = False


def trainable(encoder: TransformerEncoder) -> tuple[list[Tensor], Tensor]:
    """Weights of the layers, and the rows of the pieces, of which a step moves those it saw."""
    encoder.model.embeddings.requires_grad_(False)
    pieces = encoder.model.get_input_embeddings()
    pieces.sparse = True
    body = list(encoder.model.encoder.parameters())
    pieces.weight.requires_grad_(True)
    return body, pieces.weight


def batches(
    encoder: TransformerEncoder, related: Related, pool: Sequence[tuple[str, str]], steps: int
) -> Iterator[Batch]:
    draw = random.Random(SEED + 1)
    texts = sorted({text for pair in pool for text in pair})
    number = {text: place for place, text in enumerate(texts)}
    vectors = torch.from_numpy(encoder.encode(texts))
    for _ in range(steps):
        first, second = zip(*related.draw(draw, RELATED), strict=True)
        one, other = zip(*draw.sample(pool, SYNONYMS), strict=True)
        start = vectors[[number[text] for text in (*one, *other)]]
        together = [*first, *second, *one, *other]
        known = torch.from_numpy(related.known([fold(text) for text in together]))
        known[2 * RELATED :, 2 * RELATED :] |= start @ start.T > SAME
        yield Batch(together, known, start)


def forward(encoder: TransformerEncoder, texts: Sequence[str]) -> Tensor:
    """Unit vectors, with their gradients."""
    tokens = encoder.tokenize(texts)
    lengths = np.array([len(ids) for ids in tokens])
    return normalize(encoder(pack(np.concatenate(tokens), lengths)), dim=1)


def objective(vectors: Tensor, batch: Batch) -> dict[str, Tensor]:
    edge = 2 * RELATED
    positive = torch.zeros_like(batch.known)
    for begin, pairs in ((0, RELATED), (edge, SYNONYMS)):
        first = torch.arange(begin, begin + pairs)
        positive[first, first + pairs] = positive[first + pairs, first] = True
    negative = ~(batch.known | positive)
    similarity = vectors @ vectors.T
    near, same = (
        info_nce(similarity[rows], positive[rows], negative[rows], temperature=temperature)
        for rows, temperature in (
            (slice(edge), RELATED_TEMPERATURE),
            (slice(edge, None), TEMPERATURE),
        )
    )
    kept = vectors[edge:]
    close = 1 - (kept * batch.start).sum(1).mean()
    alike = (similarity[edge:, edge:] - batch.start @ batch.start.T).square().mean()
    return {"related": near, "synonyms": same, "close": CLOSE * close, "alike": ALIKE * alike}


if __name__ == "__main__":
    main()
