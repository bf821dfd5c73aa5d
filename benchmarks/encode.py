"""Terms a second of the exported encoder, next to sentence-transformers and plain transformers.

    python benchmarks/encode.py MODEL_DIR                        # terms of the embedded graph
    python benchmarks/encode.py MODEL_DIR --texts terms.txt --threads 1

All run the same weights in float32 on the same strings with the same number of threads, in turns,
and must give the same vectors. sentence-transformers is as it comes (batches of 32, sorted by
length); plain transformers takes batches of 32 as they come, padded to the longest. The forward
pass in numpy is that of numpy_forward.py, which also measures it without torch. The second table
says how many strings keep their nearest neighbour when the weights are stored smaller.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers.utils import logging

from medcoder.encode.onnx import OnnxEncoder
from medcoder.encode.weights import load_weights
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.export import agreement, export
from numpy_forward import NumpyForward, blocks, one_blas_thread, sampled

Encode = Callable[[Sequence[str]], Any]
BATCH = 32
LEAST = 0.9999  # cosine of what two engines make of one string
SMALLER = ("float16", "int8")


def padded(encoder: TransformerEncoder) -> Encode:
    """What a page of documentation would have you write."""

    @torch.inference_mode()
    def encode(texts: Sequence[str]) -> Any:
        parts = []
        for start in range(0, len(texts), BATCH):
            inputs = encoder.tokenizer(
                list(texts[start : start + BATCH]),
                padding=True,
                truncation=True,
                max_length=encoder.max_length,
                return_tensors="pt",
            )
            hidden = encoder.model(**inputs).last_hidden_state  # (n, t, d)
            real = inputs["attention_mask"][:, :, None]
            means = (hidden * real).sum(1) / real.sum(1)
            vectors = hidden[:, 0] if encoder.pooling == "cls" else means
            parts.append(torch.nn.functional.normalize(vectors, dim=1).numpy())
        return np.concatenate(parts)

    return encode


def packed(encoder: TransformerEncoder, exported: OnnxEncoder, threads: int) -> Encode | None:
    """The forward pass in numpy, of a BERT with mean pooling."""
    config = encoder.model.config
    if config.model_type != "bert" or encoder.pooling != "mean":
        return None
    one_blas_thread()
    weights = load_weights(exported.path / "weights.safetensors")
    forward = NumpyForward(weights, heads=config.num_attention_heads)

    def encode(texts: Sequence[str]) -> Any:
        tokens = exported.tokenize(texts)
        order = sorted(range(len(tokens)), key=lambda place: -len(tokens[place]))
        vectors = np.empty((len(texts), exported.width), np.float32)
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(forward.encode, blocks([tokens[place] for place in order]))
            vectors[order] = np.concatenate(list(parts))
        return vectors

    return encode


def in_turns(
    engines: dict[str, Encode], texts: Sequence[str], rounds: int
) -> dict[str, dict[str, Any]]:
    """Terms a second of wall clock and of CPU time, of each round, and the vectors."""
    found: dict[str, dict[str, Any]] = {name: {"wall": [], "cpu": []} for name in engines}
    for encode in engines.values():
        encode(texts[: 4 * BATCH])
    for _ in range(rounds):
        for name, encode in engines.items():
            wall, cpu = time.perf_counter(), time.process_time()
            found[name]["vectors"] = encode(texts)
            found[name]["cpu"].append(len(texts) / (time.process_time() - cpu))
            found[name]["wall"].append(len(texts) / (time.perf_counter() - wall))
    return found


@contextmanager
def exports(encoder: TransformerEncoder, threads: int) -> Iterator[dict[str, OnnxEncoder]]:
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for weights in ("float32", *SMALLER):
            export(encoder, Path(folder) / weights, weights=weights)
            made[weights] = OnnxEncoder.load(Path(folder) / weights, threads=threads)
        yield made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="folder that sentence-transformers can load")
    parser.add_argument("--texts", type=Path, help="file of strings, one a line")
    parser.add_argument("--sample", type=int, default=4000, help="strings to encode")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()

    os.environ["RAYON_NUM_THREADS"] = str(options.threads)  # of the tokenizers
    torch.set_num_threads(options.threads)
    logging.disable_progress_bar()
    texts = sampled(options.texts, options.sample, options.seed)
    encoder = TransformerEncoder.load(options.model)
    theirs = SentenceTransformer(options.model, device="cpu")
    theirs.max_seq_length = encoder.max_length
    with exports(encoder, options.threads) as ours:
        lengths = list(map(len, ours["float32"].tokenize(texts)))
        engines: dict[str, Encode] = {
            "transformers, padded": padded(encoder),
            "sentence-transformers": lambda some: theirs.encode(
                list(some), normalize_embeddings=True
            ),
            "medcoder": ours["float32"].encode,
        }
        if (forward := packed(encoder, ours["float32"], options.threads)) is not None:
            engines["numpy, packed"] = forward
        print(
            f"{len(texts):,} strings of {np.mean(lengths):.1f} tokens, "
            f"{options.threads} threads, median of {options.rounds} rounds"
        )
        found = in_turns(engines, texts, options.rounds)
        smaller = {
            name: agreement(found["medcoder"]["vectors"], ours[name].encode(texts))
            for name in SMALLER
        }
    show(found, smaller)
    if options.json:
        about = {"strings": len(texts), "tokens": float(np.mean(lengths))}
        for row in found.values():
            del row["vectors"]
        figures = about | vars(options) | {"engines": found, "nearest_kept": smaller}
        options.json.write_text(json.dumps(figures, indent=1, default=str) + "\n")


def show(found: dict[str, dict[str, Any]], smaller: dict[str, float]) -> None:
    reference = found["sentence-transformers"]
    print("\n| engine | terms/s | lowest - highest | ratio | terms per CPU-second | least cosine |")
    print("|---|---|---|---|---|---|")
    for name, row in found.items():
        least = np.einsum("nd,nd->n", row["vectors"], reference["vectors"]).min()
        ratio = median(row["wall"]) / median(reference["wall"])
        print(
            f"| {name} | {median(row['wall']):,.0f} | {min(row['wall']):,.0f} - "
            f"{max(row['wall']):,.0f} | {ratio:.2f} | {median(row['cpu']):,.0f} | {least:.6f} |"
        )
        if least < LEAST:
            raise SystemExit(f"{name} makes other vectors: a cosine of {least:.6f}")
    print("\n| stored weights | nearest neighbour kept |")
    print("|---|---|")
    for name, kept in smaller.items():
        print(f"| {name} | {kept:.2%} |")


if __name__ == "__main__":
    main()
