"""Other languages learn to find English names; English stays where it is.

python recipes/medcoder-all/align.py work/recut --before work/whole --ask work/ask \\
    --out work/aligned

Names, terms and English texts are those of ask.py. A term is asked against the names of all
concepts, whose vectors are those of `--before` and do not move: InfoNCE over all names, half of it
of what the names of the right concept have of the softmax together, half the mean of what each has.
English texts keep the vectors, and others the first tokens, that they had before. In the beginning
the terms, too, are held to what was said of them before, so that new pieces come to mean something.

All weights are trained, rows of pieces at a higher rate. Minutes on a large GPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from medcoder.model.encoder import TransformerEncoder, save_encoder
from medcoder.model.packed import Packed, first_tokens, mean_tokens, pack

SIZES = 3072, 2048, 512  # texts a step: terms, English ones, and those whose first token counts
TEMPERATURE = 0.05
EACH = 0.5  # share of the loss that asks for every name of a concept
RATE, ROWS_RATE, CLIP = 2e-4, 1.5e-3, 1.0
BETAS = (0.9, 0.98)
WARM = 0.05  # share of the steps until the rate is at its peak
HELD = 0.25  # share of the steps in which terms are held, less and less, to what was said before
AHEAD = 4  # batches that are made while the model computes
MOST_NAMES = 64  # of one concept
SHOWN = 50  # steps
ROWS = "embeddings.word_embeddings.weight"


class Weights(NamedTuple):
    """Of the losses beside that of the terms."""

    english: float = 40.0
    first: float = 4.0
    held: float = 4.0
    each: float = EACH


class Pair(NamedTuple):
    """The same texts as the two tokenizers cut them."""

    now: Packed
    before: Packed


class Batch(NamedTuple):
    terms: Packed
    terms_before: Packed | None
    owners: Tensor  # (n,)
    english: Pair
    first: Pair  # English, too


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="Hugging Face folder to go on from")
    parser.add_argument("--before", type=Path, required=True, help="folder of what it was made of")
    parser.add_argument("--ask", type=Path, required=True, help="folder that ask.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--sizes",
        type=int,
        nargs=3,
        default=SIZES,
        metavar="N",
        help="a step: terms, English texts, and English texts of which the first token counts",
    )
    parser.add_argument(
        "--rates",
        type=float,
        nargs=2,
        default=(RATE, ROWS_RATE),
        metavar="R",
        help="of the layers, and of the rows of pieces",
    )
    parser.add_argument(
        "--weights",
        type=float,
        nargs=4,
        default=Weights(),
        metavar="W",
        help="of English texts, their first tokens, terms as before; share of each name",
    )
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder, before = (
        TransformerEncoder.load(folder, pooling="mean", max_length=32).to(device)
        for folder in (options.model, options.before)
    )
    draws = Draws(encoder, before.eval(), options.ask, options.steps, options.sizes, options.seed)
    print(draws, flush=True)
    log = options.out.with_name(options.out.name + ".jsonl")
    train(encoder, before, draws, options.rates, Weights(*options.weights), log)
    save_encoder(encoder.eval(), options.out)


class Tokens:
    """Token ids of many texts, end to end."""

    def __init__(self, encoder: TransformerEncoder, texts: list[str]) -> None:
        tokenizer = encoder.tokenizer.backend_tokenizer
        tokenizer.enable_truncation(encoder.max_length)
        tokenizer.no_padding()
        found = [
            np.array(one.ids, np.int32)
            for start in range(0, len(texts), 100_000)
            for one in tokenizer.encode_batch_fast(texts[start : start + 100_000])
        ]
        self.lengths = np.array([len(some) for some in found])
        self.begins = np.cumsum(self.lengths) - self.lengths
        self.ids = np.concatenate(found)

    def __len__(self) -> int:
        return len(self.lengths)

    def pack(self, chosen: np.ndarray, device: Any) -> Packed:
        lengths = self.lengths[chosen]
        ends = np.cumsum(lengths)
        place = np.arange(ends[-1]) + np.repeat(self.begins[chosen] - ends + lengths, lengths)
        return pack(self.ids[place], lengths, device=device)


class Draws:
    """Batches of terms and of English texts, and the vectors of all names."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        before: TransformerEncoder,
        ask: Path,
        steps: int,
        sizes: Sequence[int],
        seed: int,
    ) -> None:
        names, asked, english = (
            pq.read_table(ask / f"{name}.parquet") for name in ("names", "asked", "english")
        )
        self.device = next(encoder.parameters()).device
        self.steps, self.holding = steps, int(HELD * steps)
        self.sizes, self.seed = sizes, seed
        terms, texts = asked["text"].to_pylist(), english["text"].to_pylist()
        self.terms, self.terms_before = Tokens(encoder, terms), Tokens(before, terms)
        self.english, self.english_before = Tokens(encoder, texts), Tokens(before, texts)
        self.owners = asked["owner"].to_numpy()
        self._terms_ends, self._english_ends = (
            np.cumsum(table["share"].to_numpy()) for table in (asked, english)
        )
        self.names = name_vectors(before, names["text"].to_pylist())  # (names, d)
        owners = names["owner"].to_numpy()  # ascending
        if np.bincount(owners).max() > MOST_NAMES:
            raise SystemExit(f"{ask}: a concept has more than {MOST_NAMES} names")
        first = np.searchsorted(owners, np.arange(owners[-1] + 2))
        self.first = torch.from_numpy(first).to(self.device)

    def __str__(self) -> str:
        return f"{len(self.terms):,} terms, {len(self.names):,} names, {len(self.english):,} texts"

    def batch(self, step: int) -> Batch:
        rng = np.random.default_rng([self.seed, step])
        asked, *english = self.sizes
        terms = _draw(rng, self._terms_ends, asked, self.terms.lengths)
        pairs = [self._english(rng, count) for count in english]
        holding = step <= self.holding
        return Batch(
            self.terms.pack(terms, self.device),
            self.terms_before.pack(terms, self.device) if holding else None,
            torch.from_numpy(self.owners[terms]).to(self.device),
            *pairs,
        )

    def _english(self, rng: np.random.Generator, count: int) -> Pair:
        texts = _draw(rng, self._english_ends, count, self.english.lengths)
        both = self.english, self.english_before
        return Pair(*(some.pack(texts, self.device) for some in both))

    def batches(self) -> Iterator[Batch]:
        """Those of steps 1, 2, ..., each made while those before are worked on."""
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(self.batch, step) for step in range(1, AHEAD + 1)]
            for step in range(1, self.steps + 1):
                yield waiting.pop(0).result()
                waiting.append(pool.submit(self.batch, step + AHEAD))


def _draw(
    rng: np.random.Generator, ends: np.ndarray, count: int, lengths: np.ndarray
) -> np.ndarray:
    found = np.searchsorted(ends, rng.random(count) * ends[-1], "right").clip(max=len(ends) - 1)
    return found[np.argsort(lengths[found], kind="stable")]


def name_vectors(before: TransformerEncoder, names: list[str]) -> Tensor:
    found = [before.encode(names[start : start + 50_000]) for start in range(0, len(names), 50_000)]
    return torch.from_numpy(np.concatenate(found)).to(next(before.parameters()).device)


def train(
    encoder: TransformerEncoder,
    before: TransformerEncoder,
    draws: Draws,
    rates: tuple[float, float],
    weights: Weights,
    log: Path,
) -> None:
    named = [(name, one) for name, one in encoder.model.named_parameters() if "pooler" not in name]
    groups = [
        {"params": [one for name, one in named if name != ROWS], "weight_decay": 0.01},
        {"params": [one for name, one in named if name == ROWS], "weight_decay": 0.0},
    ]
    cuda = draws.device.type == "cuda"
    optimiser = torch.optim.AdamW(groups, betas=BETAS, fused=cuda)
    before.requires_grad_(False)
    begin = time.monotonic()
    with log.open("w", encoding="utf-8") as lines:
        for step, batch in enumerate(draws.batches(), 1):
            share = min(step / WARM, (draws.steps - step) / (1 - WARM)) / draws.steps
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * share
            with torch.autocast(draws.device.type, torch.bfloat16, enabled=cuda):
                losses = losses_of(encoder, before, draws, batch, weights, step)
            optimiser.zero_grad()
            sum(losses.values()).backward()
            torch.nn.utils.clip_grad_norm_([one for _, one in named], CLIP)
            optimiser.step()
            if step % SHOWN == 0 or step == draws.steps:
                said = {name: round(one.item(), 4) for name, one in losses.items()}
                said |= {"step": step, "seconds": round(time.monotonic() - begin, 1)}
                lines.write(json.dumps(said) + "\n")
                lines.flush()


def losses_of(
    encoder: TransformerEncoder,
    before: TransformerEncoder,
    draws: Draws,
    batch: Batch,
    weights: Weights,
    step: int,
) -> dict[str, Tensor]:
    losses = {}
    encoder.train()
    terms = mean_tokens(encoder.model, batch.terms).float()
    losses["terms"] = name_loss(
        normalize(terms, dim=1), batch.owners, draws.names, draws.first, weights.each
    )
    if batch.terms_before is not None:
        with torch.no_grad():
            was = mean_tokens(before.model, batch.terms_before)
        share = 1 - step / draws.holding
        losses["held"] = weights.held * share * apart(terms, was)
    encoder.eval()  # what is to stay is compared without dropout
    kinds = ("english", weights.english, mean_tokens), ("first", weights.first, first_tokens)
    for (name, weight, pool), pair in zip(kinds, (batch.english, batch.first), strict=True):
        with torch.no_grad():
            was = pool(before.model, pair.before)
        losses[name] = weight * apart(pool(encoder.model, pair.now), was)
    return losses


def apart(vectors: Tensor, before: Tensor) -> Tensor:
    return (1 - cosine_similarity(vectors.float(), before.float())).mean()


def name_loss(
    terms: Tensor, owners: Tensor, names: Tensor, first: Tensor, each_share: float = EACH
) -> Tensor:
    """-log of what the names of the right concept have of the softmax over all names.

    In part of all of them together, in part the mean of what each has: the first lets a term choose
    a name, the second draws it to the middle of them. terms (n, d) and names (m, d) are unit
    vectors; names of concept c are those from first[c] up to first[c + 1].
    """
    with torch.autocast(terms.device.type, enabled=False):
        scores = terms @ names.T / TEMPERATURE  # (n, m)
    begin, end = first[owners], first[owners + 1]
    place = begin[:, None] + torch.arange(MOST_NAMES, device=terms.device)
    own = place < end[:, None]
    hits = scores.gather(1, place.clamp(max=len(names) - 1))
    any_one = hits.masked_fill(~own, float("-inf")).logsumexp(1)
    each = hits.masked_fill(~own, 0.0).sum(1) / own.sum(1)
    return (scores.logsumexp(1) - (1 - each_share) * any_one - each_share * each).mean()


if __name__ == "__main__":
    main()
