"""The bundled encoder in numpy, next to onnxruntime: what the second is worth.

    python benchmarks/numpy_forward.py                   # terms of the embedded graph
    python benchmarks/numpy_forward.py --sample 400 --rounds 5

Both encode the same tokens with the same number of threads, in turns; what counts on a machine
that does other work is strings per CPU-second. A process of its own for each then says how long
the first string takes, how long one string takes, and how much memory there is.

Tokens of all strings of a block lie in one matrix, so that nothing is padded. Three products have
no bias: that of keys changes nothing in a softmax, that of values and those of layer norms go
into the next bias. In the first layer, equal tokens at equal places are multiplied once.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder import KG, bundled_kg
from medcoder.bundled.models import bundled_models
from medcoder.encode.weights import load_weights
from medcoder.vectors.embed import make_plan, row_texts

Array = npt.NDArray[np.float32]
Groups = list[tuple[int, int, int]]  # first token, strings, tokens of each
TOKENS = 1024  # of a block: fewer, and BLAS copies the weights too often
NORM_ROWS, GELU_ROWS = 128, 48  # at a time: they stay in the cache
EPSILON = 1e-12
LARGEST = 80.0  # of a score whose exponential is finite with room for a sum
# x * sigmoid(x * (A + B x^2 + C x^4)) is x * Phi(x) within 2.5e-5 where x^2 is cut at CUT.
A, B, C, CUT = 1.59501569, 7.40113581e-02, -7.03043371e-04, 50.0
SCALE = (-C) ** 0.2  # of what goes into it: then the polynomial is PEAK - (x^2 + HALF)^2
HALF = np.float32(-B / SCALE**3 / 2)
PEAK = np.float32(A / SCALE + (B / SCALE**3) ** 2 / 4)
ONE = np.float32(1)


class NumpyForward:
    """A BERT with mean pooling, from the weights of an exported encoder."""

    def __init__(self, weights: dict[str, Array], *, heads: int) -> None:
        # The exporter numbers matrices in the order of their use: six a layer.
        matrices = sorted(
            (name for name in weights if re.fullmatch(r"val_\d+", name)),
            key=lambda name: int(name[4:]),
        )
        front = "model.embeddings."
        self.words = weights[f"{front}word_embeddings.weight"]
        self.width = self.words.shape[1]
        self.heads = heads
        self.places = weights[f"{front}position_embeddings.weight"]
        self.places = self.places + weights[f"{front}token_type_embeddings.weight"][0]
        self.gain = weights[f"{front}LayerNorm.weight"]
        self.mean = np.full(self.width, 1 / self.width, np.float32)
        self.layers = []
        shift = weights[f"{front}LayerNorm.bias"]
        scaling = np.float32((self.width // heads) ** -0.5)
        for number in range(len(matrices) // 6):
            query, key, value, out, up, down = (
                weights[name] for name in matrices[6 * number : 6 * number + 6]
            )
            name = f"model.encoder.layer.{number}."
            said = {entry[len(name) :]: weights[entry] for entry in weights if name in entry}
            after = said["attention.output.LayerNorm.bias"]
            through = (said["attention.self.value.bias"] + shift @ value) @ out
            self.layers.append(
                {
                    "qkv": np.concatenate([query * scaling, key, value], 1),
                    "query_bias": (said["attention.self.query.bias"] + shift @ query) * scaling,
                    "out": out,
                    "out_bias": said["attention.output.dense.bias"] + through + shift,
                    "out_gain": said["attention.output.LayerNorm.weight"],
                    "up": up * np.float32(SCALE),
                    "up_bias": (said["intermediate.dense.bias"] + after @ up) * np.float32(SCALE),
                    "down": down * np.float32(1 / SCALE),
                    "down_bias": said["output.dense.bias"] + after,
                    "down_gain": said["output.LayerNorm.weight"],
                }
            )
            shift = said["output.LayerNorm.bias"]
        self.shift = shift
        self._buffers = threading.local()

    def encode(self, block: Sequence[Sequence[int]]) -> Array:
        """Unit vectors of strings, given as tokens; equal lengths lie together."""
        groups: Groups = []
        total = 0
        for length, some in groupby(map(len, block)):
            number = len(list(some))
            groups.append((total, number, length))
            total += number * length
        x, y, a, qkv, u, spare = self._memory(total)
        unique, inverse = self._embed(block, groups, y)
        np.take(y[:unique], inverse, axis=0, out=x, mode="clip")
        for number, layer in enumerate(self.layers):
            if number == 0:
                some = u.reshape(-1)[: unique * qkv.shape[1]].reshape(unique, -1)
                np.matmul(y[:unique], layer["qkv"], out=some)
                np.take(some, inverse, axis=0, out=qkv, mode="clip")
            else:
                np.matmul(x, layer["qkv"], out=qkv)
            qkv[:, : self.width] += layer["query_bias"]
            self._attend(qkv, a, groups)
            np.matmul(a, layer["out"], out=y)
            self._add_and_norm(y, x, layer["out_bias"], layer["out_gain"])
            np.matmul(y, layer["up"], out=u)
            for start in range(0, total, GELU_ROWS):
                part = u[start : start + GELU_ROWS]
                part += layer["up_bias"]
                _gelu(part, spare[: len(part)])
            np.matmul(u, layer["down"], out=x)
            self._add_and_norm(x, y, layer["down_bias"], layer["down_gain"])
        means = [x[s : s + n * t].reshape(n, t, -1).mean(1) for s, n, t in groups]
        vectors = np.concatenate(means) + self.shift
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _memory(self, total: int) -> list[Array]:
        """Buffers of this thread, which the next block uses again."""
        sizes = [self.width] * 3 + [3 * self.width, self.layers[0]["up"].shape[1]]
        if getattr(self._buffers, "rows", 0) < total:
            self._buffers.rows = max(total, TOKENS)
            self._buffers.all = [np.empty((self._buffers.rows, n), np.float32) for n in sizes]
            self._buffers.all.append(np.empty((GELU_ROWS, sizes[-1]), np.float32))
        *large, spare = self._buffers.all
        return [*(buffer[:total] for buffer in large), spare]

    def _embed(
        self, block: Sequence[Sequence[int]], groups: Groups, out: Array
    ) -> tuple[int, npt.NDArray[np.intp]]:
        """Rows of distinct tokens and places, how many there are, and which each token has."""
        most = len(self.places)
        tokens = np.concatenate([np.asarray(ids, np.int64) for ids in block])
        places = np.concatenate([np.tile(np.arange(t), n) for _, n, t in groups])
        keys, inverse = np.unique(tokens * most + places, return_inverse=True)
        rows = out[: len(keys)]
        np.take(self.words, keys // most, axis=0, out=rows, mode="clip")
        self._add_and_norm(rows, self.places[keys % most], np.float32(0), self.gain)
        return len(keys), inverse

    def _attend(self, qkv: Array, out: Array, groups: Groups) -> None:
        for start, number, length in groups:
            rows = slice(start, start + number * length)
            parts = qkv[rows].reshape(number, length, 3, self.heads, -1)
            query, key, value = (parts[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
            scores = query @ key.transpose(0, 1, 3, 2)  # (n, heads, t, t)
            if scores.max() > LARGEST or scores.min() < -LARGEST:
                scores -= scores.max(-1, keepdims=True)
            np.exp(scores, out=scores)
            sums = scores.reshape(-1, length) @ np.ones(length, np.float32)
            scores /= sums.reshape(number, self.heads, length, 1)
            heads = out[rows].reshape(number, length, self.heads, -1).transpose(0, 2, 1, 3)
            np.matmul(scores, value, out=heads)

    def _add_and_norm(self, all_rows: Array, residual: Array, bias: Any, gain: Array) -> None:
        for start in range(0, len(all_rows), NORM_ROWS):
            rows = all_rows[start : start + NORM_ROWS]
            rows += residual[start : start + NORM_ROWS]
            rows += bias
            rows -= (rows @ self.mean)[:, None]
            variance = np.einsum("ij,ij->i", rows, rows) / np.float32(self.width)
            rows *= (ONE / np.sqrt(variance + np.float32(EPSILON)))[:, None]
            rows *= gain


def _gelu(x: Array, spare: Array) -> None:
    """In place, of what is scaled by `SCALE`."""
    np.multiply(x, x, out=spare)
    np.minimum(spare, np.float32(CUT * SCALE**2), out=spare)
    spare += HALF
    np.multiply(spare, spare, out=spare)
    spare -= PEAK
    spare *= x
    with np.errstate(over="ignore"):  # then the quotient is zero, as it should be
        np.exp(spare, out=spare)
    spare += ONE
    x /= spare


def blocks(tokens: Sequence[Sequence[int]]) -> list[list[Sequence[int]]]:
    """Runs of about `TOKENS` tokens."""
    made: list[list[Sequence[int]]] = [[]]
    size = 0
    for ids in tokens:
        if made[-1] and size + len(ids) > TOKENS:
            made.append([])
            size = 0
        made[-1].append(ids)
        size += len(ids)
    return made


def sampled(file: Path | None, size: int, seed: int) -> list[str]:
    """Distinct strings of a file, one a line, or those of the embedded graph that get a vector."""
    if file is not None:
        texts = file.read_text(encoding="utf-8").split("\n")
    else:
        kg = KG.open(bundled_kg())
        texts = [text for _, some in row_texts(kg, make_plan(kg).first_term) for text in some]
    distinct = sorted({text for text in texts if text.strip()})
    places = np.random.default_rng(seed).permutation(len(distinct))[:size]
    return [distinct[place] for place in places]


def one_blas_thread() -> None:
    """As many threads as there are blocks at a time multiply already."""
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    for file in folder.glob("libscipy_openblas64_*.so"):
        ctypes.CDLL(str(file)).scipy_openblas_set_num_threads64_(1)


FIRST = """
import pathlib, re, sys, time
start = time.perf_counter()
if sys.argv[1] == "numpy":
    from numpy_forward import *
    from tokenizers import Tokenizer
    one_blas_thread()
    folder = bundled_models()["medcoder-all"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    forward = NumpyForward(load_weights(folder / "weights.safetensors"), heads=12)
    encode = lambda text: forward.encode([tokenizer.encode(text).ids])
else:
    from medcoder.encode import load_exported
    encoder = load_exported("medcoder-all", threads=1)
    encode = lambda text: encoder.encode([text])
encode("heart attack")
first, cpu = time.perf_counter() - start, time.process_time()
for number in range(100):
    encode(f"pain in the left arm {number}")
each = (time.process_time() - cpu) / 100
said = pathlib.Path("/proc/self/status").read_text()
peak = int(re.search(r"VmHWM:\\s+(\\d+)", said)[1]) / 1024
print(first, cpu, 1000 * each, peak)
"""


def main() -> None:
    from medcoder.encode.onnx import INPUT, OnnxEncoder, _batches

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, help="file of strings, one a line")
    parser.add_argument("--sample", type=int, default=4000, help="strings to encode")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    one_blas_thread()
    folder = bundled_models()["medcoder-all"]
    encoder = OnnxEncoder.load(folder)
    forward = NumpyForward(load_weights(folder / "weights.safetensors"), heads=12)
    found = encoder.tokenize(sampled(options.texts, options.sample, 0))
    tokens = sorted({tuple(ids) for ids in found}, key=lambda ids: (-len(ids), ids))

    def by_onnxruntime(batch: Any) -> Any:
        return encoder._session.run(None, {INPUT: np.array(batch, np.int64)})[0]

    engines: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
        "onnxruntime": (by_onnxruntime, _batches(tokens)),
        "numpy": (forward.encode, blocks(tokens)),
    }
    wall: dict[str, list[float]] = {name: [] for name in engines}
    cpu: dict[str, list[float]] = {name: [] for name in engines}
    vectors = {}
    with ThreadPoolExecutor(options.threads) as pool:
        for _ in range(options.rounds):
            for name, (encode, parts) in engines.items():
                started, used = time.perf_counter(), time.process_time()
                vectors[name] = np.concatenate(list(pool.map(encode, parts)))
                cpu[name].append(len(tokens) / (time.process_time() - used))
                wall[name].append(len(tokens) / (time.perf_counter() - started))
    length = np.mean([len(ids) for ids in tokens])
    print(f"{len(tokens):,} strings of {length:.1f} tokens, {options.threads} threads, "
          f"median of {options.rounds} rounds, load {os.getloadavg()[0]:.0f}")  # fmt: skip
    apart = np.abs(vectors["numpy"] - vectors["onnxruntime"]).max()
    print(f"largest difference of a value: {apart:.1e}\n")
    print("| engine | strings/s | per CPU-second | lowest - highest | first string, s (CPU) "
          "| one string, CPU ms | peak MB |\n|---|---|---|---|---|---|---|")  # fmt: skip
    for name in engines:
        words = [sys.executable, "-c", FIRST, name]
        runs = [
            subprocess.run(words, cwd=Path(__file__).parent, check=True, capture_output=True)
            for _ in range(3)
        ]
        first, used, one, peak = np.median(
            [list(map(float, run.stdout.split())) for run in runs], axis=0
        )
        print(f"| {name} | {median(wall[name]):,.0f} | {median(cpu[name]):,.0f} | "
              f"{min(cpu[name]):,.0f} - {max(cpu[name]):,.0f} | {first:.2f} ({used:.2f}) | "
              f"{one:.1f} | {peak:,.0f} |")  # fmt: skip
    ratios = [ours / theirs for ours, theirs in zip(cpu["numpy"], cpu["onnxruntime"], strict=True)]
    print(f"\nnumpy to onnxruntime, per CPU-second: {median(ratios):.3f} "
          f"({min(ratios):.3f} - {max(ratios):.3f})")  # fmt: skip


if __name__ == "__main__":
    main()
