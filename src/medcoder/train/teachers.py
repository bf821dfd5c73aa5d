"""Teachers: encoders whose similarities the student keeps close to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.encode import exported
from medcoder.encode import load_encoder as load_exported
from medcoder.errors import InputError, MissingExtra, UsageError
from medcoder.kg import KG
from medcoder.text import language_in, language_tag
from medcoder.train.extra import Extra
from medcoder.train.models import load_encoder

Array = npt.NDArray[Any]
Encode = Callable[[Sequence[str]], Array]  # texts -> vectors (n, d), by torch, ONNX or anything


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
                f"a teacher has {len(vectors):,} vectors for {len(speaks):,} terms: they were made "
                "from another graph or other extra terms"
            )
        if vectors is not None and vectors.ndim != 2:
            raise UsageError(f"a teacher has an array {vectors.shape}: expected (terms, width)")
        self._weight, self._speaks = weight, speaks
        self._vectors, self._encode, self._text = vectors, encode, text

    def judge(self, terms: Array) -> tuple[Array, Array, float]:
        """Unit vectors (n, d) of the terms, for which (n,) it speaks, and its weight.

        The vectors of the others are zero. Similarities are left to the device that trains.
        """
        known = self._speaks[terms]
        # Where there is none, a term that it speaks for tells how wide its vectors are.
        units = self._units(terms[known] if known.any() else np.array([self._speaks.argmax()]))
        everything = np.zeros((len(terms), units.shape[1]), np.float32)
        everything[known] = units[: known.sum()]
        return everything, known, self._weight

    def _units(self, terms: Array) -> Array:
        if self._vectors is not None:
            vectors = np.asarray(self._vectors[terms], np.float32)
        else:
            assert self._encode is not None and self._text is not None
            distinct, place = np.unique(terms, return_inverse=True)
            texts = [self._text(int(term)) for term in distinct]
            vectors = np.asarray(self._encode(texts), np.float32)[place]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        units: Array = vectors / np.maximum(norms, 1e-12)
        return units

    def __str__(self) -> str:
        return f"weight {self._weight:g} for {int(self._speaks.sum())} terms"


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
            f"--teacher {spec}: write PATH,weight=20,languages=en+fr with a weight above 0"
        )
    languages = None if listed is None else [language_tag(tag) for tag in listed.split("+")]
    known = [languages is None or language_in(tag, languages) for tag in kg.languages]
    of_graph = np.array(known, bool)[kg.terms.info[:, 0]]
    speaks = np.concatenate([of_graph, extra.speaks(languages)])
    if not speaks.any():
        raise UsageError(
            f"--teacher {spec}: no term is of its languages. The graph has: "
            f"{', '.join(kg.languages)}"
        )
    if name.endswith(".npy"):
        return Teacher(weight=weight, speaks=speaks, vectors=_vectors(Path(name)))
    encode = _encoder(name)

    def text(number: int) -> str:
        known = len(kg.terms)
        return kg.terms.text(number) if number < known else extra.texts[number - known]

    return Teacher(weight=weight, speaks=speaks, encode=encode, text=text)


def _encoder(name: str) -> Encode:
    """Of an exported encoder, or of a model that computes where training does."""
    if exported(name) is None:
        return load_encoder(name).eval().encode
    try:
        return load_exported(name).encode
    except ModuleNotFoundError as error:  # training alone does not need it
        raise MissingExtra(
            f"--teacher {name} is an exported encoder, which needs {error.name}. Install it with: "
            f"pip install {error.name}"
        ) from error


def _vectors(path: Path) -> Array:
    try:
        vectors: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read as vectors: {error}", file=path, remedy="Write it with numpy.save"
        ) from error
    if vectors.dtype.kind != "f":
        raise InputError(f"holds {vectors.dtype}", file=path, remedy="Write it as floats")
    return vectors
