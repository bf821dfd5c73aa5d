"""Which relation holds between two concepts, from their vectors alone. Needs torch.

y = softmax(W [e_h; e_t] + b) with cross-entropy, (paper, Relation classification). Vectors stand
as they are ("frozen"), or are trained along ("fine-tuned"): the whole encoder of a contextual
embedding, the table of word and concept vectors. They are those of the pooling or table itself,
not made unit length; exported encoders give unit vectors only.

The optimiser is AdamW at a constant rate and torch's default weight decay: the paper gives rates,
batches and epochs, and not these.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from medcoder.errors import NonFiniteLoss, UsageError
from medcoder.evaluate.embeddings.contextual import (
    ContextualEmbedding,
    Pooling,
    encode,
    pack_terms,
)
from medcoder.evaluate.embeddings.static import Bags
from medcoder.evaluate.results import Embedding, Mask, Rows
from medcoder.model.encoder import TransformerEncoder
from medcoder.types import Progress

Triplet = tuple[str, str, str, str, str]  # head, relation, tail, id of the head, id of the tail
EPOCHS = 50  # (paper, Training parameters of DDBRC), and so are those below


class Recipe(NamedTuple):
    rate: float
    batch: int


FROZEN = Recipe(1e-3, 512)
TABLE = Recipe(1e-3, 512)  # word and concept vectors that are trained
ENCODER = Recipe(2e-5, 96)  # contextual embeddings that are trained
_PREDICTED = 4_096  # pairs at a time


class ClassifierResult(NamedTuple):
    accuracy: float  # share of the test triplets, those without a vector too
    correct: Mask  # (n,) of each test triplet
    predicted: list[str]  # relations


def trainable(embedding: Embedding) -> bool:
    """Whether it has weights to fine-tune."""
    return isinstance(embedding, ContextualEmbedding) or hasattr(embedding, "bags")


def classify(
    embedding: Embedding,
    train: Sequence[Triplet],
    test: Sequence[Triplet],
    *,
    fine_tune: bool = False,
    epochs: int = EPOCHS,
    seed: int = 0,
    pooling: Pooling | None = "cls",
    recipe: Recipe | None = None,
    max_steps: int | None = None,
    progress: Progress | None = None,
) -> ClassifierResult:
    """Train on some triplets and predict the relations of others.

    pooling: of contextual embeddings, [CLS] as in the paper; None takes the embedding's own.
    recipe: learning rate and batch; by default the paper's.
    max_steps: stop after so many, for a trial.
    """
    if not train or not test:
        raise UsageError("there must be triplets to train on and triplets to test")
    if fine_tune and not trainable(embedding):
        raise UsageError(
            f"{embedding.name} cannot be fine-tuned: it has no weights that torch can train. "
            "Name a Hugging Face checkpoint, word vectors or concept vectors"
        )
    if isinstance(embedding, ContextualEmbedding) and pooling is not None:
        embedding = embedding.pooled(pooling)
    relations = sorted({triplet[1] for triplet in train})
    numbers = {relation: number for number, relation in enumerate(relations)}
    pairs, items = _pairs([*train, *test])
    trained = int(pairs[: len(train)].max()) + 1  # items of the training triplets come first
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # Whoever calls keeps the random numbers that they had.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, usual = _model(embedding, items, trained, len(relations), fine_tune)
        model.to(device)
        _train(
            model,
            pairs[: len(train)],
            torch.tensor([numbers[triplet[1]] for triplet in train]),
            recipe or usual,
            epochs=epochs,
            max_steps=max_steps,
            progress=progress,
            device=device,
        )
    chosen = _predict(model, pairs[len(train) :])
    predicted = [relations[number] for number in chosen]
    correct = np.array(
        [identifier == triplet[1] for identifier, triplet in zip(predicted, test, strict=True)]
    )
    return ClassifierResult(float(correct.mean()), correct, predicted)


class Pairs(nn.Module):
    """W [e_h; e_t] + b over any module that gives the vectors of items.

    Numbers of items are on the CPU: most of these modules look into tables there.
    """

    def __init__(self, items: Any, width: int, relations: int) -> None:
        super().__init__()
        self.items = items
        self.linear = nn.Linear(2 * width, relations)

    def forward(self, pairs: Tensor) -> Tensor:
        heads, tails = self.items(pairs.T.reshape(-1)).chunk(2)  # (n, d) each
        scores: Tensor = self.linear(torch.cat([heads, tails], 1))  # (n, relations)
        return scores


class Fixed(nn.Module):
    """Vectors that stay."""

    vectors: Tensor

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors)

    def forward(self, items: Tensor) -> Tensor:
        return self.vectors[items.to(self.vectors.device)]


class SparsePairs(nn.Module):
    """The same as `Pairs` over `Fixed` for rows in CSR form, of which few columns are not 0."""

    def __init__(self, rows: Any, relations: int) -> None:
        super().__init__()
        self.starts = np.asarray(rows.indptr, np.int64)
        self.columns = np.asarray(rows.indices, np.int64)
        self.values = np.asarray(rows.data, np.float32)
        linear = nn.Linear(2 * rows.shape[1], relations)
        self.weight = nn.Parameter(linear.weight.detach().T.contiguous())  # (2d, relations)
        self.bias = nn.Parameter(linear.bias.detach())

    def forward(self, pairs: Tensor) -> Tensor:
        """Columns of the tail follow those of the head."""
        where, begins, sizes = _spans(self.starts, pairs.numpy().ravel())
        width = self.weight.shape[0] // 2
        shift = np.repeat(np.tile([0, width], len(pairs)), sizes)
        device = self.weight.device
        mixed = nn.functional.embedding_bag(
            torch.from_numpy(self.columns[where] + shift).to(device),
            self.weight,
            torch.from_numpy(begins[::2].copy()).to(device),
            mode="sum",
            per_sample_weights=torch.from_numpy(self.values[where]).to(device),
        )
        return mixed + self.bias


class Table(nn.Module):
    """Means of vectors that are trained; 0 where there are none."""

    def __init__(self, bags: Bags) -> None:
        super().__init__()
        self.starts, self.members = bags.starts, bags.members
        self.weight = nn.Parameter(torch.from_numpy(bags.table.copy()))

    def forward(self, items: Tensor) -> Tensor:
        where, begins, _ = _spans(self.starts, items.numpy())
        device = self.weight.device
        return nn.functional.embedding_bag(
            torch.from_numpy(self.members[where]).to(device),
            self.weight,
            torch.from_numpy(begins).to(device),
            mode="mean",
        )


class Encoded(nn.Module):
    """Terms through an encoder that is trained; each distinct one once a batch."""

    def __init__(self, encoder: TransformerEncoder, texts: Sequence[str]) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)  # what is given stays as it is
        self.texts = texts
        self.tokens = encoder.tokenize(texts)

    def forward(self, items: Tensor) -> Tensor:
        device = next(self.encoder.parameters()).device
        distinct, back = np.unique(items.numpy(), return_inverse=True)
        lengths = [len(self.tokens[item]) for item in distinct]
        order = np.argsort(lengths, kind="stable")
        packed = pack_terms([self.tokens[item] for item in distinct[order]], device=device)
        # On a GPU in half precision, as one trains encoders there; sums stay in float32.
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            vectors: Tensor = self.encoder(packed).float()
        return vectors[torch.from_numpy(np.argsort(order)[back]).to(device)]

    def fixed(self) -> Fixed:
        """What it has come to, in float32."""
        device = next(self.encoder.parameters()).device
        return Fixed(torch.from_numpy(encode(self.encoder, self.texts)).to(device))


def _spans(starts: Rows, chosen: Rows) -> tuple[Rows, Rows, Rows]:
    """Places that the spans chosen of many cover; where each begins among them; their sizes."""
    sizes = starts[chosen + 1] - starts[chosen]
    begins = np.cumsum(sizes) - sizes
    within = np.arange(int(sizes.sum())) - np.repeat(begins, sizes)
    return np.repeat(starts[chosen], sizes) + within, begins, sizes


def _pairs(triplets: Sequence[Triplet]) -> tuple[Tensor, list[tuple[str, str]]]:
    """Each triplet as two numbers (n, 2) of distinct items, which are terms with their ids."""
    numbers: dict[tuple[str, str], int] = {}
    pairs = [
        [
            numbers.setdefault((head, head_id), len(numbers)),
            numbers.setdefault((tail, tail_id), len(numbers)),
        ]
        for head, _, tail, head_id, tail_id in triplets
    ]
    return torch.tensor(pairs), list(numbers)


def _model(
    embedding: Any,
    items: list[tuple[str, str]],
    trained: int,
    relations: int,
    fine_tune: bool,
) -> tuple[nn.Module, Recipe]:
    """The classifier over the vectors of all items, and how it is trained by default."""
    texts, ids = [text for text, _ in items], [identifier for _, identifier in items]
    if fine_tune and isinstance(embedding, ContextualEmbedding):
        terms = Encoded(embedding.encoder, texts)
        return Pairs(terms, embedding.encoder.width, relations), ENCODER
    if fine_tune:
        bags: Bags = embedding.bags(texts, ids=ids)
        return Pairs(Table(bags), bags.table.shape[1], relations), TABLE
    if hasattr(embedding, "raw"):
        rows, _ = embedding.raw(texts, ids=ids)
    else:
        # A lexical space is fitted on what is trained on alone.
        rows, _ = embedding.embed(texts, ids=ids, corpus=texts[:trained])
    if hasattr(rows, "indptr"):
        return SparsePairs(rows, relations), FROZEN
    return Pairs(Fixed(torch.from_numpy(rows)), rows.shape[1], relations), FROZEN


def _train(
    model: nn.Module,
    pairs: Tensor,
    labels: Tensor,
    recipe: Recipe,
    *,
    epochs: int,
    max_steps: int | None,
    progress: Progress | None,
    device: torch.device,
) -> None:
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.rate, fused=device.type == "cuda")
    total = epochs * -(-len(pairs) // recipe.batch)
    total = total if max_steps is None else min(total, max_steps)
    loss = torch.zeros(())
    for step, batch in zip(range(1, total + 1), _batches(len(pairs), recipe.batch), strict=False):
        scores = model(pairs[batch])
        loss = cross_entropy(scores, labels[batch].to(device))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if progress is not None and (step % 20 == 0 or step == total):
            progress("relations", step, total)
    if not torch.isfinite(loss):
        raise NonFiniteLoss(
            f"the loss of the relation classifier is {loss.item()} after {total:,} steps at a "
            f"rate of {recipe.rate:g}. Check the vectors, or lower the rate"
        )


def _batches(count: int, size: int) -> Iterator[Tensor]:
    """All rows in a new order, again and again; the last batch of a round is what is left."""
    while True:
        yield from torch.split(torch.randperm(count), size)


@torch.no_grad()
def _predict(model: nn.Module, pairs: Tensor) -> list[int]:
    model.eval()
    if isinstance(model, Pairs) and isinstance(model.items, Encoded):
        model.items = model.items.fixed()
    labels: list[int] = []
    for some in torch.split(pairs, _PREDICTED):
        labels += model(some).argmax(1).tolist()
    return labels
