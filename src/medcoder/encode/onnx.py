"""The encoder without torch: onnxruntime and tokenizers.

Texts are encoded in batches of equal length, so that nothing is padded and no mask is needed, and
each batch by a single thread: at the size of a term, threads inside a batch wait for each other.

The vector of a string depends on its company by rounding alone: a matrix product of another size
adds up in another order. `TOLERANCE` is what a value may differ by; 1.3e-5 was seen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from medcoder.artefact import open_artefact
from medcoder.encode import load_onnxruntime
from medcoder.encode.onnx_graph import check_onnx
from medcoder.encode.weights import Arrays, load_weights
from medcoder.errors import ArtefactError, UsageError

ort = load_onnxruntime()

KIND = "encoder"
VERSION = 1
GRAPH, WEIGHTS, TOKENIZER = "graph.onnx", "weights.safetensors", "tokenizer.json"
INPUT = "tokens"
TOLERANCE = 5e-5  # between a string alone and in a batch
_TOKENS = 384  # tokens encoded at a time: what a layer makes of them stays in the cache
_CHUNK = 1 << 14  # texts tokenised at a time
_PLAUSIBLE = 1 << 24  # beyond widths, lengths and numbers of tokens of any model
_LONGEST = 1 << 16  # tokens of a text


class OnnxEncoder:
    """An exported encoder: a graph, its weights, its tokenizer.

    >>> encoder = OnnxEncoder.load("model.onnx.d")  # doctest: +SKIP
    >>> encoder.encode(["heart attack", "myocardial infarction"]).shape  # doctest: +SKIP
    (2, 384)
    """

    def __init__(self, folder: Path, meta: dict[str, Any], *, threads: int | None = None) -> None:
        """Use `OnnxEncoder.load`."""
        if threads is not None and threads < 1:
            raise UsageError("threads must be 1 or more", values=threads)
        self._threads = threads or _cores()
        self.path = folder
        try:
            self.fingerprint: str = meta["fingerprint"]
            self.width = _plausible(meta["width"])
            self._length = _plausible(meta["max_length"])
            pad = meta["pad"]  # of legacy pooling: fills up to the full length
            self._pad: int | None = None if pad is None else _plausible(pad, least=0)
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
            if self._tokenizer.padding is not None:  # to a length that would fill the memory
                raise ValueError("its tokenizer pads texts")
            self._session = _session(folder)
        except ArtefactError:
            raise
        except Exception as error:  # neither library has an error of its own for a bad file
            raise ArtefactError(
                "it cannot be loaded",
                where=folder,
                values=repr(error),
                remedy="Copy or export it again",
            ) from error

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None) -> OnnxEncoder:
        """Open a directory that `medcoder export` made; `threads` defaults to the cores."""
        folder = Path(path)
        meta = open_artefact(folder, kind=KIND, version=VERSION, needs=(GRAPH, TOKENIZER))
        return cls(folder, meta, threads=threads)

    def __repr__(self) -> str:
        return f"OnnxEncoder({str(self.path)!r}: width {self.width})"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors (n, d) in the order of the texts; texts with the same tokens cost once."""
        vectors = np.empty((len(texts), self.width), np.float32)
        for start in range(0, len(texts), _CHUNK):
            chunk = texts[start : start + _CHUNK]
            self._encode(chunk, vectors[start : start + len(chunk)])
        return vectors

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        # Half of a surrogate pair is no character, and the tokenizer takes none.
        sound = [text.encode(errors="replace").decode() for text in texts]
        tokens: list[list[int]] = [entry.ids for entry in self._tokenizer.encode_batch_fast(sound)]
        if self._pad is not None:
            return [ids + [self._pad] * (self._length - len(ids)) for ids in tokens]
        return tokens

    def pieces(self, text: str) -> list[list[str]]:
        """The pieces that the tokenizer cuts each word into."""
        sound = text.encode(errors="replace").decode()
        cut = self._tokenizer.encode(sound, add_special_tokens=False)
        words: dict[int | None, list[str]] = {}
        for word, (start, end) in zip(cut.word_ids, cut.offsets, strict=True):
            words.setdefault(word, []).append(sound[start:end])
        return list(words.values())

    def _encode(self, texts: Sequence[str], vectors: npt.NDArray[np.float32]) -> None:
        positions: dict[tuple[int, ...], list[int]] = {}
        for position, ids in enumerate(self.tokenize(texts)):
            positions.setdefault(tuple(ids), []).append(position)
        longest_first = sorted(positions, key=len, reverse=True)

        def run(batch: list[tuple[int, ...]]) -> None:
            made = self._run(np.array(batch, np.int64))
            for ids, vector in zip(batch, made, strict=True):
                vectors[positions[ids]] = vector

        if longest_first and len(longest_first[0]) > _LONGEST:
            raise _unfit(self.path, f"{len(longest_first[0]):,} tokens for one text")
        batches = _batches(longest_first)
        threads = min(self._threads, len(batches))
        if threads < 2:  # starting a thread takes some of the time of a string
            for batch in batches:
                run(batch)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for _ in pool.map(run, batches):
                    pass

    def _run(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The vectors (n, d) of texts of equal length (n, t), whatever the graph makes of them."""
        try:
            made: npt.NDArray[np.float32] = self._session.run(None, {INPUT: tokens})[0]
        except MemoryError:
            raise
        except Exception as error:  # the runtime has an error class for each of its reasons
            raise _unfit(self.path, repr(error)[:300]) from error
        if np.shape(made) != (len(tokens), self.width) or not np.isfinite(made).all():
            raise _unfit(self.path, f"vectors of shape {np.shape(made)}, or not finite")
        return made


def _unfit(folder: Path, values: str) -> ArtefactError:
    return ArtefactError(
        "the model does not make vectors of texts",
        where=folder,
        values=values,
        remedy="Copy or export it again",
    )


def _plausible(number: Any, *, least: int = 1) -> int:
    """A width, a length or a token that a model may have."""
    if type(number) is not int or not least <= number <= _PLAUSIBLE:
        raise ValueError(f"{number!r:.50} is no number that a model may have")
    return number


def _session(folder: Path) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    weights: Arrays = {}
    if (folder / WEIGHTS).exists():
        weights = load_weights(folder / WEIGHTS)
        values = [ort.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
    graph = (folder / GRAPH).read_bytes()
    check_onnx(folder / GRAPH, graph, weights)
    return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _batches(by_length: list[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Runs of equal length, of about `_TOKENS` tokens each."""
    batches: list[list[tuple[int, ...]]] = []
    for ids in by_length:
        last = batches[-1] if batches else []
        if last and len(last[0]) == len(ids) and (len(last) + 1) * len(ids) <= _TOKENS:
            last.append(ids)
        else:
            batches.append([ids])
    return batches


def _cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
