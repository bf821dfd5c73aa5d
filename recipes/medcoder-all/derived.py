"""Vectors of the strings of the embedded graph that the first file of vectors does not have.

These are derived names and notes, which came later than the model: the large file stays as it is.

python recipes/medcoder-all/derived.py --out medcoder-all.open.derived.vectors.safetensors

Prints the digest for `medcoder.bundled.models`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from medcoder import KG, bundled_kg
from medcoder.bundled.models import bundled_model, bundled_vectors
from medcoder.encode.onnx import OnnxEncoder
from medcoder.files import replacing
from medcoder.manifest import checksums
from medcoder.vectors.embed import embed
from medcoder.vectors.known import open_seed, save_seed


def main() -> None:
    first, derived = bundled_vectors()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=derived, help="file to write")
    options = parser.parse_args()
    kg, encoder = KG.open(bundled_kg()), OnnxEncoder.load(bundled_model())
    known = [open_seed(first)]
    with tempfile.TemporaryDirectory() as scratch, replacing(options.out) as partial:
        save_seed(embed(kg, encoder, Path(scratch) / "vectors", known=known), partial, known=known)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB")
    print(checksums(options.out).blake2b)


if __name__ == "__main__":
    main()
