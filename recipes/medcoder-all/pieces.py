"""Train the rows of word pieces that no English text has, and nothing else.

python recipes/medcoder-all/pieces.py work/respelt --before work/whole --terms TERMS.parquet \\
    --work work --out work/final

The English terms of the tables and common English words keep their vectors to the last bit. Terms
of other languages learn to find them: those of work/terms.parquet and work/extra.tsv are asked
against English names of all concepts, whose vectors are made once. InfoNCE over the names of a
step: all of the concepts that are asked for, and some drawn from all others; what the names of the
right concept have of the softmax, taken together, counts.

The layers do not change either: two CPU cores are enough.

With `--before`, the model that respell.py was given, new pieces of two letters or more first learn
to say what the old ones said of the same letters, and of some terms.
"""

from __future__ import annotations

import argparse
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from prepare import NOTE, PARALLEL, TYPO
from respell import MINILM
from tables import read
from torch.nn import functional
from vocabulary import ENGLISH_WORDS

from medcoder.model.encoder import TransformerEncoder
from medcoder.model.save import save_encoder
from medcoder.text import fold

Encode = Callable[[list[str]], np.ndarray]
ENGLISH = ("en", NOTE, f"{TYPO}en")
NAMES, NAMES_ASKED, NAMES_SPOKEN = 1, 2, 4  # of a concept: English alone, other languages, ours
USUAL = 18  # letters of a name; nearer to it comes first, after the preferred one
OTHERS = 32_768  # names a step of other concepts
BATCH, POOL = 256, 64  # terms of a step; batches that are sorted by length together
TEMPERATURE = 0.05
RATE, WARM_UP, LEAST = 1e-3, 50, 0.05
DROPOUT = 0.1  # of what a row says
POWER = 0.6  # below one, small languages are asked more often than their terms would
MORE = {"vi": 2.0, "ja": 2.0, "zh": 2.0}  # which respell.py has cut anew
SHOWN = 50  # steps
SAID = {"vi": 6_000, "ja": 16_000, "zh": 16_000}  # terms of which the model before is asked
FIRST_RATES = (5e-3, 5e-3, 3e-3, 2e-3)  # of rounds over the new pieces alone
THEN_RATES = (1.5e-3, 6e-4)  # of rounds over them and the terms


class Names(NamedTuple):
    """English names, in the order of the numbers of their concepts."""

    texts: list[str]
    owners: np.ndarray  # number of the concept, or of those that share a name
    numbers: dict[str, int]  # of each concept


class Asked(NamedTuple):
    """Terms to ask, with the number of what they mean and how often they are drawn."""

    texts: list[str]
    owners: np.ndarray
    shares: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="Hugging Face folder")
    parser.add_argument(
        "--terms", type=Path, required=True, help="as prepare.py has it, with is_preferred"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder that prepare.py wrote to")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--before", type=Path, help="Hugging Face folder, before respell.py")
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vectors", type=Path, help="file to keep the vectors of the names in")
    options = parser.parse_args()
    graph = pl.read_parquet(options.work / "terms.parquet")
    extra = read(options.work / "extra.tsv")[1]
    names = english_names(graph, extra, preferred(options.terms))
    asked = terms_to_ask(graph, extra, names)
    encoder = TransformerEncoder.load(options.model, pooling="mean")
    print(f"{len(asked.texts):,} terms, {len(names.texts):,} English names", flush=True)
    vectors = torch.from_numpy(kept(options.vectors, names.texts, encoder.encode))
    free = free_rows(encoder, english_texts(graph, extra))
    print(f"{int(free.sum()):,} of {len(free):,} rows may change", flush=True)
    if options.before:
        before = TransformerEncoder.load(options.before, pooling="mean")
        mimic(encoder, before, graph, extra, free, seed=options.seed)
    train(encoder, names, vectors, asked, free, steps=options.steps, seed=options.seed)
    save_encoder(encoder, options.out)


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
    rows = [(term, concept, tag, 1.0) for concept, term, tag, _ in graph.iter_rows()]
    rows += [(term, concept, tag, float(weight)) for term, concept, tag, weight in extra]
    rows = [row for row in rows if row[2] not in ENGLISH and row[1] in names.numbers]
    tags = np.array([tag.removeprefix(TYPO) for _, _, tag, _ in rows])
    shares = np.array([weight for *_, weight in rows])
    for tag in np.unique(tags):
        own = tags == tag
        shares[own] *= MORE.get(str(tag), 1.0) * shares[own].sum() ** (POWER - 1)
    owners = np.array([names.numbers[concept] for _, concept, _, _ in rows])
    return Asked([term for term, *_ in rows], owners, shares / shares.sum())


def english_texts(graph: pl.DataFrame, extra: Sequence[Sequence[str]]) -> list[str]:
    from wordfreq import top_n_list

    texts = graph.filter(pl.col("lang") == "en")["term"].to_list()
    return texts + [row[0] for row in extra if row[2] in ENGLISH] + top_n_list("en", ENGLISH_WORDS)


def free_rows(encoder: TransformerEncoder, english: list[str]) -> torch.Tensor:
    """Which rows may change: none of a piece that English has, and of MiniLM's none in ASCII."""
    pieces = encoder.tokenizer.convert_ids_to_tokens(range(len(encoder.tokenizer)))
    free = torch.tensor(
        [place >= MINILM or not piece.isascii() for place, piece in enumerate(pieces)]
    )
    for tokens in _tokens(encoder, english):
        free[tokens] = False
    return free


def _tokens(encoder: TransformerEncoder, texts: list[str]) -> Iterator[list[int]]:
    for start in range(0, len(texts), 50_000):
        some = texts[start : start + 50_000]
        yield from encoder.tokenizer(some, truncation=True, max_length=encoder.max_length)[
            "input_ids"
        ]


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


class Rows:
    """The rows of an encoder's pieces, of which the free ones are trained."""

    def __init__(self, encoder: TransformerEncoder, free: torch.Tensor) -> None:
        self.model = encoder.model.eval().requires_grad_(False)
        self.free = free
        self.there = self.model.embeddings.word_embeddings.weight.data
        self.rows = torch.nn.Parameter(self.there.clone())
        self.optimiser = torch.optim.SparseAdam([self.rows])

    def encode(self, tokens: list[list[int]], *, dropout: float = 0.0) -> torch.Tensor:
        width = max(map(len, tokens))
        ids = torch.tensor([some + [0] * (width - len(some)) for some in tokens])  # (b, w)
        mask = torch.tensor([[1] * len(some) + [0] * (width - len(some)) for some in tokens])
        said = functional.dropout(functional.embedding(ids, self.rows, sparse=True), dropout)
        hidden = self.model(inputs_embeds=said, attention_mask=mask).last_hidden_state
        whole = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(whole, dim=1)  # (b, d)

    def step(self, loss: torch.Tensor, rate: float) -> None:
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.zero_grad()
        loss.backward()
        found = self.rows.grad.coalesce()
        places, values = found.indices()[0], found.values()
        some = self.free[places]
        self.rows.grad = torch.sparse_coo_tensor(
            places[some][None], values[some], self.rows.shape, check_invariants=False
        )
        self.optimiser.step()

    def put_back(self) -> None:
        self.there.copy_(self.rows.data)


def mimic(
    encoder: TransformerEncoder,
    before: TransformerEncoder,
    graph: pl.DataFrame,
    extra: Sequence[Sequence[str]],
    may: torch.Tensor,
    *,
    seed: int,
) -> None:
    """Have new pieces say what the old ones said of the same text."""
    rng = np.random.default_rng(seed)
    size = range(len(encoder.tokenizer))
    pairs = zip(
        before.tokenizer.convert_ids_to_tokens(size),
        encoder.tokenizer.convert_ids_to_tokens(size),
        strict=True,
    )
    new = {place: now for place, (then, now) in enumerate(pairs) if then != now}
    free = torch.zeros(len(size), dtype=torch.bool)
    free[list(new)] = True
    free &= may
    letters = [unicodedata.normalize("NFC", piece.removeprefix("##")) for piece in new.values()]
    texts = [text for text in letters if len(text) > 1]
    first = len(texts)
    for tag, most in SAID.items():
        own = graph.filter(pl.col("lang") == tag)["term"].to_list()
        own = sorted({*own, *(row[0] for row in extra if row[2] == tag)})
        texts += [own[place] for place in rng.permutation(len(own))[:most]]
    said, tokens = torch.from_numpy(before.encode(texts)), list(_tokens(encoder, texts))
    lengths = np.array([len(some) for some in tokens])
    rows = Rows(encoder, free)
    rounds = [(first, rate) for rate in FIRST_RATES] + [(len(texts), rate) for rate in THEN_RATES]
    for count, rate in rounds:
        losses: list[float] = []
        for pool in _cut(rng.permutation(count), POOL * BATCH):
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            for batch in _cut(pool, BATCH):
                here = rows.encode([tokens[place] for place in batch])
                loss = (1 - (here * said[batch]).sum(1)).mean()
                rows.step(loss, rate)
                losses.append(loss.item())
        mean = sum(losses) / max(1, len(losses))
        print(f"{count:,} texts as before: {mean:.3f}", flush=True)
    rows.put_back()


def _cut(places: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (places[start : start + size] for start in range(0, len(places), size))


def train(
    encoder: TransformerEncoder,
    names: Names,
    vectors: torch.Tensor,
    asked: Asked,
    free: torch.Tensor,
    *,
    steps: int,
    seed: int,
) -> None:
    """Change the free rows of the encoder's pieces."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    tokens = list(_tokens(encoder, asked.texts))
    rows, drawn = Rows(encoder, free), batches(tokens, asked.shares, rng)
    started, mean = time.monotonic(), 0.0
    for step in range(steps):
        batch = next(drawn)
        here = rows.encode([tokens[place] for place in batch], dropout=DROPOUT)
        loss = name_loss(here, asked.owners[batch], vectors, names.owners, rng)
        rows.step(loss, RATE * min(1.0, (step + 1) / WARM_UP) * max(LEAST, 1 - step / steps))
        mean += loss.item() / SHOWN
        if (step + 1) % SHOWN == 0:
            print(f"step {step + 1:,}, {time.monotonic() - started:,.0f} s: {mean:.3f}", flush=True)
            mean = 0.0
    rows.put_back()


def batches(
    tokens: list[list[int]], shares: np.ndarray, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Places of terms, of about one length in a batch."""
    lengths = np.array([len(some) for some in tokens])
    while True:
        drawn = rng.choice(len(tokens), POOL * BATCH, p=shares)
        drawn = drawn[np.argsort(lengths[drawn] + rng.random(len(drawn)))]
        for number in rng.permutation(POOL):
            yield drawn[number * BATCH : (number + 1) * BATCH]


def name_loss(
    here: torch.Tensor,
    meant: np.ndarray,
    vectors: torch.Tensor,
    owners: np.ndarray,
    rng: np.random.Generator,
) -> torch.Tensor:
    """-log of what the names of the right concept have of the softmax over all names of the step.

    `owners` ascends. Names of what other terms of the step mean count against a term, too.
    """
    wanted = np.unique(meant)
    low, high = (np.searchsorted(owners, wanted, side) for side in ("left", "right"))
    own = np.concatenate([np.arange(*pair) for pair in zip(low, high, strict=True)])
    others = rng.integers(0, len(owners), OTHERS)
    others = others[~np.isin(owners[others], wanted)]
    scores = here @ vectors[np.concatenate([own, others])].T / TEMPERATURE  # (b, names)
    right = torch.from_numpy(meant[:, None] == owners[own][None])
    hits = scores[:, : len(own)].masked_fill(~right, float("-inf"))
    return (scores.logsumexp(1) - hits.logsumexp(1)).mean()


if __name__ == "__main__":
    main()
