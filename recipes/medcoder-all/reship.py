"""What ships, where only pieces and their rows have changed since the files that shipped before.

python recipes/medcoder-all/reship.py src/medcoder/models work/final --name medcoder-all \\
    --released 2026-11-16

`work/final` is what pieces.py made of the restored model of those files. All weights but the rows
that have changed stay as they are, byte for byte, so that whatever has none of these pieces keeps
its vector. Names of the embedded graph that have one are encoded again; the calibration stays, and
it is an error if they are more than one in a hundred.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from restore import named
from safetensors import safe_open
from safetensors.numpy import load_file, save
from tokenizers import Tokenizer

from medcoder import KG, default_kg
from medcoder.artefact import create, read_meta
from medcoder.model.encoder import TransformerEncoder
from medcoder.runtime.onnx import GRAPH, KIND, TOKENIZER, VERSION, WEIGHTS, OnnxEncoder
from medcoder.runtime.weights import load_weights, quantise
from medcoder.vectors.plan import text_hashes
from medcoder.vectors.seed import open_seed, save_seed

PIECES = "embeddings.word_embeddings.weight"
ROWS = f"model.{PIECES}"
SCALES = f"{ROWS}.scale"
MOST_NAMES = 0.01  # of the embedded graph that may have other vectors


class Few(NamedTuple):
    """Vectors of some names, as a directory of vectors has them."""

    rows: np.ndarray
    hashes: np.ndarray
    width: int
    encoder: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, help="folder of the models; files are replaced")
    parser.add_argument("model", type=Path, help="Hugging Face folder")
    parser.add_argument("--name", required=True)
    parser.add_argument("--released", required=True, help="date")
    options = parser.parse_args()
    folder = options.models / options.name
    seed = options.models / f"{options.name}.open.vectors.safetensors"
    meta = read_meta(folder, kind=KIND)
    if meta["weights"] != "int8" or open_seed(seed).encoder != meta["fingerprint"]:
        raise SystemExit(f"{folder} is no int8 export, or {seed.name} is of another. Use ship.py")
    encoder = TransformerEncoder.load(options.model, pooling=meta["pooling"])
    check_layers(folder, encoder)
    rows = encoder.model.embeddings.word_embeddings.weight.detach().numpy()
    stored, changed = with_rows(folder / WEIGHTS, rows)
    print(f"{len(changed):,} of {len(rows):,} rows have changed")
    new = Tokenizer.from_str(encoder.tokenizer.backend_tokenizer.to_str())
    new.no_padding()
    new.enable_truncation(encoder.max_length)
    old = Tokenizer.from_file(str(folder / TOKENIZER))
    kg = KG.open(default_kg())
    names = sorted({term.text for concept in kg for term in kg.terms_of(concept)})
    others = with_other_vectors(names, old, new, set(changed.tolist()))
    print(f"{len(others):,} of {len(names):,} names of the embedded graph have other vectors now")
    if len(others) > MOST_NAMES * len(names):
        raise SystemExit("these are too many for the calibration to hold. Use ship.py")
    kept = {name: meta[name] for name in ("made_by", "width", "pooling", "max_length", "pad")}
    graph = (folder / GRAPH).read_bytes()
    with create(folder, kind=KIND, version=VERSION, overwrite=True) as draft:
        (draft.path / GRAPH).write_bytes(graph)
        (draft.path / WEIGHTS).write_bytes(save(stored))
        new.save(str(draft.path / TOKENIZER))
        about = {"name": options.name, "released": options.released}
        draft.meta |= kept | {"weights": meta["weights"], **about}
    replace(seed, OnnxEncoder.load(folder), others)


def check_layers(folder: Path, encoder: TransformerEncoder) -> None:
    """It is an error if more than rows of pieces has changed."""
    weights = encoder.model.state_dict()
    for name, before in named(folder).items():
        if name != PIECES and not torch.equal(before.half().float(), weights[name]):
            raise SystemExit(f"{name} has changed, and not rows of pieces alone. Use ship.py")


def with_rows(file: Path, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What the file has, with other rows of pieces, and the numbers of those."""
    stored = load_file(file)
    before = load_weights(file)[ROWS].astype(np.float16)  # as restore.py gives them
    if before.shape != rows.shape:
        raise SystemExit(
            f"{len(rows):,} rows, but {file} has {len(before):,}. Is the model made from it?"
        )
    changed = np.flatnonzero((before.astype(np.float32) != rows).any(1))
    whole, scales = quantise(rows[changed])
    stored[ROWS][changed] = whole
    stored[SCALES].reshape(len(rows), -1)[changed] = scales.reshape(len(changed), -1)
    return stored, changed


def with_other_vectors(
    names: list[str], old: Tokenizer, new: Tokenizer, changed: set[int]
) -> list[str]:
    """Names that are cut otherwise than before, or have a piece whose row has changed."""
    found = []
    for start in range(0, len(names), 20_000):
        some = names[start : start + 20_000]
        pairs = zip(some, old.encode_batch(some), new.encode_batch(some), strict=True)
        found += [
            name
            for name, before, after in pairs
            if before.ids != after.ids or not changed.isdisjoint(after.ids)
        ]
    return found


def replace(file: Path, encoder: OnnxEncoder, names: list[str]) -> None:
    """Give the vectors of these names, and say that all are of this encoder."""
    with safe_open(file, framework="numpy") as stored:
        arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    hashes = text_hashes(pa.array(names, pa.large_string()))
    there = np.flatnonzero(np.isin(hashes, arrays["hash"]))  # extensions have no vector
    if len(there):
        rows = encoder.encode([names[place] for place in there]).astype(np.float16)
        with tempfile.TemporaryDirectory() as scratch:
            few = Path(scratch) / "few"
            save_seed(Few(rows, hashes[there], rows.shape[1], encoder.fingerprint), few)
            fresh = load_file(few)
        order = np.argsort(arrays["hash"])
        places = order[np.searchsorted(arrays["hash"], fresh["hash"], sorter=order)]
        for name, array in fresh.items():
            arrays[name][places] = array
    file.write_bytes(save(arrays, metadata={"encoder": encoder.fingerprint}))


if __name__ == "__main__":
    main()
