"""Teachers: encoders whose similarities the student keeps close to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medcoder.encode import exported
from medcoder.errors import MissingExtra, UsageError
from medcoder.kg import KG
from medcoder.model import load_encoder
from medcoder.model.encoder import TransformerEncoder
from medcoder.text import language_tag
from medcoder.train.extra import Extra, read_vectors, spoken
from medcoder.train.objective import Drawn, Embeddings, Labels, Own, Sources, Term
from medcoder.train.processes import device
from medcoder.train.sampler import Batch

Array = npt.NDArray[Any]
Encode = Callable[[Sequence[str]], Array]  # texts -> vectors (n, d), by torch, ONNX or anything


class TeacherTerm(Term):
    """The mean of (S_student - S_teacher)^2 over the pairs that a teacher speaks for.

    Similarities are compared, so a teacher may have another width.
    """

    column: ClassVar[str] = "teachers"

    def __init__(self, sources: Sources) -> None:
        self._teachers = sources.teachers

    def draw(self, batch: Batch, rng: np.random.Generator) -> Drawn:
        arrays: dict[str, Array] = {}
        for number, teacher in enumerate(self._teachers):
            units, known = teacher.judge(batch.terms)
            arrays |= {f"units {number}": units, f"known {number}": known}
        return Drawn(arrays)

    def __call__(self, batch: Labels, embeddings: Embeddings, own: Own) -> Tensor:
        total = torch.zeros_like(embeddings.vectors[0, 0, 0])
        for number, teacher in enumerate(self._teachers):
            units, known = own.arrays[f"units {number}"], own.arrays[f"known {number}"]
            target = units @ units.transpose(1, 2)  # (a, n, n)
            speaks = known[:, :, None] & known[:, None, :]
            squares = ((embeddings.similarity - target).square() * speaks).sum((1, 2))
            total = total + teacher.weight * (squares / speaks.sum((1, 2)).clamp(min=1)).mean()
        return total


class Teacher:
    """Similarities of terms by one teacher, for the languages it knows.

    It is live, and then gets the text of each term, or has a vector for every term.
    """

    def __init__(
        self,
        *,
        weight: float,
        speaks: Array,
        vectors: Array | None = None,
        encode: Encode | None = None,
        text: Callable[[int], str] | None = None,
    ) -> None:
        """`speaks` (terms,) says for which terms it is asked; `vectors` (terms, d) any scale."""
        if (vectors is None) == (encode is None or text is None):
            raise UsageError("a teacher has either vectors or a way to encode texts")
        if vectors is not None and len(vectors) != len(speaks):
            raise UsageError(
                "a teacher needs a vector for each term",
                values=f"{len(vectors):,} vectors for {len(speaks):,} terms",
                remedy="They were made from another graph or other extra terms: make them again",
            )
        if vectors is not None and vectors.ndim != 2:
            raise UsageError("a teacher needs an array (terms, width)", values=str(vectors.shape))
        self.weight, self._speaks = weight, speaks
        self._vectors, self._encode, self._text = vectors, encode, text

    def judge(self, terms: Array) -> tuple[Array, Array]:
        """Unit vectors (n, d) of the terms, and for which (n,) it speaks.

        The vectors of the others are zero. Similarities are left to the device that trains.
        """
        known = self._speaks[terms]
        # Where there is none, a term that it speaks for tells how wide its vectors are.
        units = self._units(terms[known] if known.any() else np.array([self._speaks.argmax()]))
        everything = np.zeros((len(terms), units.shape[1]), np.float32)
        everything[known] = units[: known.sum()]
        return everything, known

    def _units(self, terms: Array) -> Array:
        if self._vectors is not None:
            vectors = np.asarray(self._vectors[terms], np.float32)
        else:
            assert self._encode is not None and self._text is not None
            distinct, inverse = np.unique(terms, return_inverse=True)
            texts = [self._text(int(term)) for term in distinct]
            vectors = np.asarray(self._encode(texts), np.float32)[inverse]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        units: Array = vectors / np.maximum(norms, 1e-12)
        return units

    def __str__(self) -> str:
        return f"weight {self.weight:g} for {int(self._speaks.sum())} terms"


def open_teacher(spec: str, kg: KG, extra: Extra) -> Teacher:
    """PATH[,weight=20][,languages=en+fr]: a model, an exported encoder, or vectors as .npy."""
    name, *options = spec.split(",")
    settings = dict(option.partition("=")[::2] for option in options)
    try:
        weight = float(settings.pop("weight", "1"))
    except ValueError:
        weight = math.nan
    listed = settings.pop("languages", None)
    if settings or not name or not 0 < weight < math.inf or listed == "":
        raise UsageError(
            "is not a teacher with a weight above 0",
            where=f"--teacher {spec}",
            remedy="Write PATH,weight=20,languages=en+fr",
        )
    languages = None if listed is None else [language_tag(tag) for tag in listed.split("+")]
    speaks = spoken(kg, extra, languages)
    if not speaks.any():
        raise UsageError(
            "no term is of its languages",
            where=f"--teacher {spec}",
            remedy=f"The graph has: {', '.join(kg.languages)}",
        )
    if name.endswith(".npy"):
        return Teacher(weight=weight, speaks=speaks, vectors=read_vectors(Path(name)))
    encode = _encoder(name)

    def text(number: int) -> str:
        known = len(kg.terms)
        return kg.terms.text(number) if number < known else extra.texts[number - known]

    return Teacher(weight=weight, speaks=speaks, encode=encode, text=text)


def _encoder(name: str) -> Encode:
    """Of an exported encoder, or of a model that computes where training does."""
    if exported(name) is None:
        return TransformerEncoder.load(name).to(device()).eval().encode
    try:
        return load_encoder(name).encode
    except ModuleNotFoundError as error:  # training alone does not need it
        raise MissingExtra(
            f"an exported encoder needs {error.name}",
            where=f"--teacher {name}",
            remedy=f"Install it with: pip install {error.name}",
        ) from error
