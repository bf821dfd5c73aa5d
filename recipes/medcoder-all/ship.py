"""What ships, from a trained model: the encoder, its vectors of the embedded graph, a calibration.

python recipes/medcoder-all/ship.py work/final --name medcoder-all --released 2026-11-16 \\
    --out src/medcoder/models

Files of that name in the folder are replaced.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from medcoder import KG, bundled_kg
from medcoder.encode.onnx import OnnxEncoder
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.export import export
from medcoder.normalize.build import CALIBRATION, build
from medcoder.vectors.embed import embed
from medcoder.vectors.known import open_seed, save_seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="Hugging Face folder")
    parser.add_argument("--name", required=True)
    parser.add_argument("--released", required=True, help="date")
    parser.add_argument("--out", type=Path, required=True, help="folder of the models")
    options = parser.parse_args()
    folder = options.out / options.name
    about = {"name": options.name, "released": options.released}
    export(
        TransformerEncoder.load(options.model), folder, weights="int8", about=about, overwrite=True
    )
    seed = options.out / f"{options.name}.open.vectors.safetensors"
    calibration = options.out / f"{options.name}.open.calibration.json"
    kg, encoder = KG.open(bundled_kg()), OnnxEncoder.load(folder)
    with tempfile.TemporaryDirectory() as scratch:
        save_seed(embed(kg, encoder, Path(scratch) / "vectors"), seed)
        # Calibrated on the vectors as they ship.
        vectors = embed(kg, encoder, Path(scratch) / "shipped", known=[open_seed(seed)])
        build(kg, encoder, Path(scratch) / "index", kind="exact", vectors=vectors)
        shutil.copy(Path(scratch) / "index" / CALIBRATION, calibration)
    for path in (folder, seed, calibration):
        files = [path] if path.is_file() else list(path.iterdir())
        print(f"{path}: {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
