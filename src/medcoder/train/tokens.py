"""The terms of a graph as token ids, made once and memory-mapped: a step tokenises nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from medcoder.arrays import ArrayWriter, open_array
from medcoder.artefact import create, open_artefact
from medcoder.errors import ArtefactError
from medcoder.kg import KG
from medcoder.kg.keys import hash_strings
from medcoder.types import Progress

if TYPE_CHECKING:
    from medcoder.model.encoder import TransformerEncoder

KIND = "token store"
VERSION = 1
_BLOCK = 1 << 16  # texts tokenised at a time


class Tokenizer(Protocol):
    """A `tokenizers.Tokenizer`, or what looks like one."""

    def encode_batch_fast(self, texts: Sequence[str]) -> Any: ...
    def to_str(self) -> str: ...


class TokenStore:
    """Token ids of every term of a graph, then of extra terms."""

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        self.meta = meta
        self.offsets = open_array(path, "tokens.offsets", "int64")  # (terms + 1,)
        self.ids = open_array(path, "tokens", "int32")
        self.unknown: dict[str, list[int]] = meta["unknown"]  # language -> tokens, unknown ones

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        kg: KG,
        tokenizer: Tokenizer,
        max_length: int,
        extra: Sequence[str] = (),
    ) -> TokenStore:
        meta = open_artefact(path, kind=KIND, version=VERSION)
        if meta["parents"] != _parents(kg, tokenizer, max_length, extra):
            raise ArtefactError(
                "was made from another graph, tokenizer or length",
                where=path,
                remedy="Remove it: it is made again when it is needed",
            )
        return cls(path, meta)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def alike(self) -> npt.NDArray[np.uint64]:
        """A number for each term: terms with the same tokens have the same one."""
        hashes: npt.NDArray[np.uint64] = hash_strings(self.offsets * 4, self.ids.view(np.uint8))
        return hashes

    def gather(self, terms: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Ids of these terms end to end (t,), and how many each has (n,)."""
        begins = self.offsets[terms]
        lengths = self.offsets[terms + 1] - begins
        ends = np.cumsum(lengths)
        index = np.arange(ends[-1] if len(ends) else 0) + np.repeat(
            begins - ends + lengths, lengths
        )
        return self.ids[index], lengths


def tokenize_kg(
    kg: KG,
    tokenizer: Tokenizer,
    out: Path,
    *,
    max_length: int,
    unknown: int | None,
    extra: Sequence[str] = (),
    progress: Progress | None = None,
) -> TokenStore:
    """Tokenise every term of the graph, and `extra` ones after them.

    The tokenizer truncates to `max_length` itself. unknown: id of its unknown token.
    """
    counts = np.zeros((len(kg.languages) or 1, 2), np.int64)
    parents = _parents(kg, tokenizer, max_length, extra)
    with create(out, kind=KIND, version=VERSION, parents=parents, overwrite=True) as draft:
        with (
            ArrayWriter(draft.path, "tokens", "int32") as ids,
            ArrayWriter(draft.path, "tokens.offsets", "int64") as offsets,
        ):
            offsets.append(np.zeros(1, np.int64))
            done = 0
            for block in _texts(kg, extra):
                rows = [encoding.ids for encoding in tokenizer.encode_batch_fast(block)]
                lengths = np.array([len(row) for row in rows], np.int64)
                flat = np.fromiter((i for row in rows for i in row), np.int32, int(lengths.sum()))
                offsets.append(ids.length + np.cumsum(lengths))
                ids.append(flat)
                if done < len(kg.terms):
                    _count_unknown(
                        counts, kg.terms.info[done : done + len(rows), 0], flat, lengths, unknown
                    )
                done += len(rows)
                if progress:
                    progress("tokenising", done, len(kg.terms) + len(extra))
        draft.meta["unknown"] = {
            language: row.tolist() for language, row in zip(kg.languages, counts, strict=False)
        }
    return TokenStore(out, open_artefact(out, kind=KIND, version=VERSION))


def tokenize_texts(
    encoder: TransformerEncoder, texts: Sequence[str]
) -> list[npt.NDArray[np.int32]]:
    """Token ids of each text, truncated to what the encoder takes; faster than its own way."""
    tokenizer = encoder.tokenizer.backend_tokenizer
    tokenizer.enable_truncation(encoder.max_length)
    tokenizer.no_padding()
    blocks = (texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK))
    return [
        np.array(encoding.ids, np.int32)
        for block in blocks
        for encoding in tokenizer.encode_batch_fast(block)
    ]


def _texts(kg: KG, extra: Sequence[str]) -> Any:
    for _, block in kg.terms.blocks(1 << 16):
        yield block.to_pylist()
    for start in range(0, len(extra), 1 << 16):
        yield list(extra[start : start + (1 << 16)])


def _count_unknown(
    counts: npt.NDArray[Any],
    languages: npt.NDArray[Any],
    ids: npt.NDArray[Any],
    lengths: npt.NDArray[Any],
    unknown: int | None,
) -> None:
    """Tokens and unknown tokens by language, without the two that frame a term."""
    owner = np.repeat(languages, lengths)
    counts[:, 0] += np.bincount(languages, weights=lengths - 2, minlength=len(counts)).astype(int)
    if unknown is not None:
        counts[:, 1] += np.bincount(owner[ids == unknown], minlength=len(counts))


def _parents(
    kg: KG, tokenizer: Tokenizer, max_length: int, extra: Sequence[str] = ()
) -> dict[str, str]:
    digest = hashlib.blake2b(tokenizer.to_str().encode(), digest_size=16)
    for text in extra:
        digest.update(text.encode() + b"\0")
    return {"kg": kg.fingerprint, "tokenizer": f"{digest.hexdigest()}/{max_length}"}
