"""A last stage: what means the same, what belongs together, and how.

python recipes/medcoder-all/relate.py work/mean --work work --out work/near \\
    --test BENCH/similarity/*.tsv BENCH/relcls_open/test.tsv

A step draws pairs of synonyms out of train.kg and extra.tsv of `--work`, pairs of related terms out
of data/train/related, and edges out of both that and english/relations.parquet. InfoNCE pulls
synonyms together, and related terms less sharply; a linear classifier tells the label of an edge
from the first tokens of its ends. So the mean of the tokens of a term, which is its vector, says
what it means, and the first one also what it stands in relation to. Similarities of English
synonyms are kept near those of the start. Pairs of data/train/related that a file of `--test` asks
for are not trained on; graph.py leaves such edges out of english/.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from relations import Array, Edges, Item, Pairs, asked_for, read_related
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from medcoder import KG
from medcoder.model.encoder import TransformerEncoder, save_encoder
from medcoder.model.losses.info_nce import info_nce
from medcoder.model.packed import Packed, first_tokens, mean_tokens, pack
from medcoder.train.config import load as load_config
from medcoder.train.extra import Extra, read_extra
from medcoder.train.sampler import TripletSampler
from medcoder.train.tokens import TokenStore, tokenize_kg

SYNONYMS, RELATED, EDGES = 2560, 512, 768  # pairs a step
TEMPERATURE, RELATED_TEMPERATURE = 0.05, 0.1
SAME = 0.85  # cosine, by the start, of terms that may mean the same: no negatives of each other
RATE, HEAD_RATE, CLIP = 2e-4, 1e-3, 1.0
WARM = 0.1  # share of the steps until the rate is at its peak
AHEAD = 4  # batches that are made while the model computes
ENGLISH = ("en", "x-typo-en", "x-note-en")
SEED = 0
HERE = Path(__file__).parent
DATA = HERE.parents[1] / "data" / "train"


class Batch(NamedTuple):
    synonyms: Packed
    concepts: Tensor  # (2s,) of the synonyms: two of a pair after each other
    english: Tensor  # (2s,) which of them are English
    related: Packed  # (2r terms) firsts, then seconds
    negative: Tensor  # (2r, 2r)
    edges: Packed  # (2e terms) heads, then tails
    labels: Tensor  # (e,)


class Weights(NamedTuple):
    """Of the losses beside that of the synonyms."""

    related: float = 0.4
    edges: float = 0.5
    alike: float = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="Hugging Face folder to go on from")
    parser.add_argument(
        "--work", type=Path, required=True, help="what prepare.py made, and english/"
    )
    parser.add_argument("--test", type=Path, nargs="+", required=True, help="tables of pairs")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--steps", type=int, default=3200)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--weights", type=float, nargs=3, default=Weights(), metavar="W",
                        help="of related pairs, of edges, and of keeping similarities")  # fmt: skip
    options = parser.parse_args()
    torch.manual_seed(SEED)
    encoder = TransformerEncoder.load(options.model, pooling="mean", max_length=32).eval()
    encoder.to("cuda" if torch.cuda.is_available() else "cpu")
    items = read_related(DATA / "related", without=asked_for(options.test))
    tokens, log = (options.out.with_name(options.out.name + end) for end in (".tokens", ".jsonl"))
    draws = Draws(encoder, options.work, items, tokens)
    print(draws, flush=True)
    train(encoder, draws, options.steps, options.rate, Weights(*options.weights), log)
    save_encoder(encoder, options.out)


class Draws:
    """Batches: all terms of the graph, extra ones and those of items, in one store of tokens."""

    def __init__(
        self, encoder: TransformerEncoder, work: Path, items: list[Item], tokens: Path
    ) -> None:
        kg = KG.open(work / "train.kg")
        extra = read_extra(work / "extra.tsv", kg)
        texts = sorted({text for one in items for text in (one.term, one.item)})
        base = len(kg.terms) + len(extra.texts)
        number = {text: base + place for place, text in enumerate(texts)}
        self._device = next(encoder.parameters()).device
        self.store = _tokens(encoder, kg, [*extra.texts, *texts], tokens)
        options = load_config(HERE / "config.toml").sampler
        self.sampler = TripletSampler(
            kg,
            k=0,
            m=1,
            pairs=SYNONYMS,
            terms_per_language=options.terms_per_language,
            extra=extra.draws(len(kg.terms), ()),
            extra_share=options.extra_share,
            extra_anchored=options.extra_anchored,
            pair_power=options.pair_power,
            alike=self.store.alike(),
        )
        self.english = _english(kg, extra)
        self.pairs = Pairs(items, number)
        self.edges = _edges(kg, work / "english" / "relations.parquet", items, number)

    def __str__(self) -> str:
        kinds = f"{len(self.edges.labels)} labels of edges"
        return f"{len(self.store):,} terms, {len(self.pairs.terms):,} related pairs, {kinds}"

    def batch(self, step: int) -> Batch:
        rng = np.random.default_rng([SEED, step])
        synonyms = self.sampler.batch(SEED, step)
        related, negative = self.pairs.draw(rng, RELATED)
        ends, labels = self.edges.draw(rng, EDGES)
        return Batch(
            self._pack(synonyms.terms),
            self._send(synonyms.concepts),
            self._send(self.english[synonyms.terms]),
            self._pack(related),
            self._send(negative),
            self._pack(ends),
            self._send(labels),
        )

    def batches(self, steps: int) -> Iterator[Batch]:
        """Those of steps 1, 2, ..., each made while those before are worked on."""
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(self.batch, step) for step in range(1, min(AHEAD, steps) + 1)]
            for step in range(1, steps + 1):
                yield waiting.pop(0).result()
                if step + AHEAD <= steps:
                    waiting.append(pool.submit(self.batch, step + AHEAD))

    def _pack(self, terms: Array) -> Packed:
        tokens, lengths = self.store.gather(terms)
        return pack(tokens, lengths, device=self._device)

    def _send(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def _tokens(encoder: TransformerEncoder, kg: KG, extra: list[str], path: Path) -> TokenStore:
    tokenizer = encoder.tokenizer.backend_tokenizer
    tokenizer.enable_truncation(encoder.max_length)
    tokenizer.no_padding()
    length = encoder.max_length
    return tokenize_kg(kg, tokenizer, path, max_length=length, unknown=None, extra=extra)


def _english(kg: KG, extra: Extra) -> Array:
    """Which terms of the graph, and then which extra ones, are English."""
    of_graph = np.array([tag in ENGLISH for tag in kg.languages], bool)[kg.terms.info[:, 0]]
    return np.concatenate([of_graph, [tag in ENGLISH for tag in extra.languages]])


def _edges(kg: KG, relations: Path, items: list[Item], number: dict[str, int]) -> Edges:
    """Choices are concepts, by their English terms, and then terms of items."""
    english = np.array([tag == "en" for tag in kg.languages], bool)[kg.terms.info[:, 0]]
    concept = np.repeat(np.arange(len(kg)), np.diff(kg.terms.first))
    count = np.bincount(concept[english], minlength=len(kg))
    first = np.full(len(kg), len(concept))  # terms of a concept in a language follow each other
    np.minimum.at(first, concept[english], np.flatnonzero(english))
    texts = list(number)
    choice = {text: len(kg) + place for place, text in enumerate(texts)}
    edges = [(choice[one.term], one.label, choice[one.item]) for one in items]
    table = pq.read_table(relations, columns=["head", "relation", "tail"])
    for head, label, tail in zip(*(column.to_pylist() for column in table), strict=True):
        ends = kg.index(head), kg.index(tail)
        if all(count[end] for end in ends):
            edges.append((ends[0], label, ends[1]))
    first = np.concatenate([first, [number[text] for text in texts]])
    return Edges(edges, first, np.concatenate([count, np.ones(len(texts), np.int64)]))


def train(
    encoder: TransformerEncoder,
    draws: Draws,
    steps: int,
    peak: float,
    weights: Weights,
    log: Path,
) -> None:
    start = copy.deepcopy(encoder).requires_grad_(False)
    encoder.train()
    device = next(encoder.parameters()).device
    head = nn.Linear(2 * encoder.width, len(draws.edges.labels)).to(device)
    body = [weight for name, weight in encoder.model.named_parameters() if "pooler" not in name]
    fused = device.type == "cuda"
    optimiser = torch.optim.AdamW(
        [{"params": body}, {"params": head.parameters()}], weight_decay=0.01, fused=fused
    )
    begin = time.monotonic()
    with log.open("w", encoding="utf-8") as lines:
        for step, batch in enumerate(draws.batches(steps), 1):
            warm = min(step / WARM, (steps - step) / (1 - WARM)) / steps
            for group, rate in zip(optimiser.param_groups, (peak, HEAD_RATE), strict=True):
                group["lr"] = rate * warm
            with torch.autocast(device.type, torch.bfloat16, enabled=fused):
                with torch.no_grad():
                    before = mean_tokens(start.model, batch.synonyms)
                synonyms = mean_tokens(encoder.model, batch.synonyms)
                related = mean_tokens(encoder.model, batch.related)
                ends = first_tokens(encoder.model, batch.edges)
            losses = {
                "synonyms": alike_and_apart(synonyms, before, batch),
                "related": weights.related * near(related, batch.negative),
                "edges": weights.edges * told(head, ends.float(), batch.labels),
                "alike": weights.alike * kept(synonyms, before, batch.english),
            }
            optimiser.zero_grad()
            sum(losses.values()).backward()
            torch.nn.utils.clip_grad_norm_(body, CLIP)
            optimiser.step()
            if step % 20 == 0 or step == steps:
                said = {name: round(loss.item(), 4) for name, loss in losses.items()}
                said |= {"step": step, "seconds": round(time.monotonic() - begin, 1)}
                lines.write(json.dumps(said) + "\n")
                lines.flush()
    encoder.eval()


def alike_and_apart(vectors: Tensor, before: Tensor, batch: Batch) -> Tensor:
    """InfoNCE over the pairs of synonyms."""
    one, was = normalize(vectors.float(), dim=1), normalize(before.float(), dim=1)
    place = torch.arange(len(one), device=one.device)
    positive = place[:, None] == place ^ 1
    other = batch.concepts[:, None] != batch.concepts
    negative = other & (was @ was.T <= SAME)
    return info_nce(one @ one.T, positive, negative, temperature=TEMPERATURE)


def near(vectors: Tensor, negative: Tensor) -> Tensor:
    """InfoNCE over the related pairs."""
    one = normalize(vectors.float(), dim=1)
    half = len(one) // 2
    place = torch.arange(len(one), device=one.device)
    positive = (place[:, None] - place).abs() == half
    return info_nce(one @ one.T, positive, negative, temperature=RELATED_TEMPERATURE)


def told(head: nn.Linear, ends: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the labels, told from the two ends by softmax(W [e_h; e_t] + b)."""
    return cross_entropy(head(torch.cat(ends.chunk(2), 1)), labels)


def kept(vectors: Tensor, before: Tensor, english: Tensor) -> Tensor:
    """How far the similarities of the English terms have gone from those of the start."""
    one, was = (normalize(some[english].float(), dim=1) for some in (vectors, before))
    return (one @ one.T - was @ was.T).square().sum() / max(len(one), 1) ** 2


if __name__ == "__main__":
    main()
