"""The models that come with the package: weights, vectors of the bundled graph, confidences.

Their files lie in the folder `models` of the package.
"""

from __future__ import annotations

from pathlib import Path

from medcoder.artefact import META, fingerprint
from medcoder.errors import ArtefactError

MODEL = "medcoder-all"  # that is used where no other is named
MODELS = Path(__file__).parent.parent / "models"
_ALIASES = {"medcoder-en": "medcoder-all"}  # the same model under both names


def bundled_models() -> dict[str, Path]:
    """Names and folders of the models that come with the package."""
    if not MODELS.is_dir():
        return {}
    folders = {path.name: path for path in sorted(MODELS.iterdir()) if (path / META).exists()}
    return folders | {name: folders[same] for name, same in _ALIASES.items() if same in folders}


def bundled_model() -> Path:
    """The folder of the model that is used where no other is named."""
    folder = bundled_models().get(MODEL)
    if folder is None:
        raise ArtefactError(f"the model {MODEL} is missing", remedy="Install medcoder again")
    return folder


def bundled_vectors() -> Path:
    """The file of that model's vectors of the graph's strings."""
    return MODELS / f"{MODEL}.open.vectors.safetensors"


def bundled_calibration(encoder: str) -> Path | None:
    """The confidences of a bundled model on the graph, by the fingerprint of its encoder."""
    for name, folder in bundled_models().items():
        file = folder.parent / f"{name}.open.calibration.json"
        if file.exists() and fingerprint(folder, kind="encoder") == encoder:
            return file
    return None
