"""The embeddings that are compared, each named by a line of text.

    medcoder-all                        a model that comes with the package, or was exported
    path/to/model                       a Hugging Face or sentence-transformers checkpoint
    org/model,pooling=cls,name=Ours     one of the hub, with options
    word:vectors.bin                    word vectors: word2vec or GloVe
    concept:cui2vec.csv                 vectors of concepts by id
    lexical:tfidf, lexical:exact        no vectors of meaning at all

What comes before the colon is a name in `EMBEDDINGS`; a new kind is a file with a function, whose
keyword-only arguments are its options, and a line in that table.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medcoder.artefact import META
from medcoder.bundled.models import bundled_models
from medcoder.encode import exported, load_exported
from medcoder.errors import ArtefactError, UsageError
from medcoder.evaluate.results import Embedding, Kind, Vectors
from medcoder.registry import Registry
from medcoder.types import Encoder

__all__ = ["EMBEDDINGS", "Spec", "check", "load", "parse"]

EMBEDDINGS = Registry(
    "embedding",
    {
        "contextual": "medcoder.evaluate.embeddings.contextual:load",
        "exported": "medcoder.evaluate.embeddings:open_exported",
        "word": "medcoder.evaluate.embeddings.static:load_words",
        "concept": "medcoder.evaluate.embeddings.static:load_concepts",
        "lexical": "medcoder.evaluate.embeddings.lexical:load",
    },
    extras={"contextual": "train", "lexical": "eval"},
)
FILES = ("word", "concept")  # kinds whose target is a file
_ABOUT = ("pooling", "max_length", "weights")  # what the folder says of itself
_OPTION = re.compile(r",(?=[a-z_]+=)")  # other commas belong to the path or the name
_TYPES: dict[str, Callable[[str], Any]] = {"max_length": int}  # other options are text


class Spec(NamedTuple):
    kind: str  # a name in EMBEDDINGS
    target: str  # a path, a name of the hub, or which lexical space
    options: dict[str, str]


def parse(spec: str) -> Spec:
    """Kind, target and options.

    >>> parse("word:a,b.bin,name=Mine")
    Spec(kind='word', target='a,b.bin', options={'name': 'Mine'})
    >>> parse("org/model,pooling=cls").kind
    'contextual'
    """
    where, *given = _OPTION.split(spec)
    options = dict(option.split("=", 1) for option in given)
    kind, colon, target = where.partition(":")
    if colon and not Path(where).exists() and re.fullmatch(r"\w+", kind):
        if kind not in EMBEDDINGS:
            EMBEDDINGS.load(kind)  # an error that names those that there are
    else:
        kind, target = "exported" if exported(where) is not None else "contextual", where
        if Path(target).expanduser().is_file():
            raise UsageError(
                "is a file, and a model is a folder",
                where=target,
                remedy=f"Write word:{target} or concept:{target} for a file of vectors",
            )
    if not target:
        raise UsageError(
            "names no embedding",
            where=repr(spec),
            remedy="Write a path or a name, as in word:PATH",
        )
    return Spec(kind, target, options)


def check(spec: str) -> None:
    """An error for a spec that cannot be right, without opening anything."""
    kind, target, _ = parse(spec)
    if kind in FILES and not Path(target).expanduser().is_file():
        raise UsageError(f"there is no file {target}", where=repr(spec))


def load(spec: str, *, threads: int | None = None) -> Embedding:
    """The embedding that a line of text names."""
    kind, target, options = parse(spec)
    factory = EMBEDDINGS.load(kind)
    accepted = set(inspect.signature(factory).parameters) - {"target", "threads"}
    for option in options:
        if option not in accepted:
            near = get_close_matches(option, accepted, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise UsageError(
                f"{spec!r}: no option of {kind} embeddings is called {option!r}{hint} "
                f"There are: {', '.join(sorted(accepted))}"
            )
    values = {option: _value(spec, option, text) for option, text in options.items()}
    embedding: Embedding = factory(target, threads=threads, **values)
    return embedding


def _value(spec: str, option: str, text: str) -> Any:
    try:
        return _TYPES.get(option, str)(text)
    except ValueError:
        raise UsageError(
            f"{option} must be a whole number", where=repr(spec), values=repr(text)
        ) from None


class ExportedEmbedding:
    """An exported encoder, whose vectors have length 1 already."""

    kind: Kind = "ours"

    def __init__(self, encoder: Encoder, *, name: str, about: dict[str, Any]) -> None:
        self.encoder = encoder
        self.name = name
        self.settings = {"runtime": "onnxruntime", "dimension": encoder.width, **about}

    @property
    def fingerprint(self) -> str:
        return self.encoder.fingerprint

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors:
        return Vectors(self.encoder.encode(texts), np.ones(len(texts), np.bool_))


def open_exported(
    target: str, *, name: str | None = None, threads: int | None = None
) -> ExportedEmbedding:
    """A name of a shipped model, or an exported folder."""
    folder = exported(target)
    if folder is None:
        known = ", ".join(bundled_models()) or "none"
        raise ArtefactError(
            f"is not an exported encoder: it has no {META}",
            where=target,
            remedy=f"Bundled are: {known}. Make one with medcoder export",
        )
    encoder = load_exported(target, threads=threads)
    meta = json.loads((folder / META).read_bytes())
    return ExportedEmbedding(
        encoder,
        name=name or Path(target).expanduser().absolute().name,
        about={key: meta[key] for key in _ABOUT if key in meta},
    )
