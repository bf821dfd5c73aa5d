"""The models that come with the package: weights, vectors of the bundled graph, confidences.

Their files lie in the folder `models` of the package.
"""

from __future__ import annotations

from pathlib import Path

from medcoder.artefact import META, fingerprint, verify
from medcoder.errors import ArtefactError
from medcoder.manifest import checksums

MODEL = "medcoder-all"  # that is used where no other is named
MODELS = Path(__file__).parent.parent / "models"
_ALIASES = {"medcoder-en": "medcoder-all"}  # the same model under both names
# Digests of what the list of files in a model's folder does not have: the list itself, and the
# files beside the folder. By the fingerprint of the model.
_RELEASED = {
    "147dc2405392408d195f3c84a198fa86": {
        f"medcoder-all/{META}": "08bca81a433e3a110bd16b7c15227bc9",
        "medcoder-all.open.vectors.safetensors": "dc9de7822d8afe6dce1736786e505c49",
        "medcoder-all.open.derived.vectors.safetensors": "07ea672e3c8841914f8ef277600e5391",
        "medcoder-all.open.calibration.json": "7cc7e50d0c7a627d1bbd06b6daee3f12",
    },
}


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


def bundled_vectors() -> tuple[Path, Path]:
    """The files of that model's vectors of the graph's strings: of names, and of derived ones."""
    stem = MODELS / f"{MODEL}.open"
    return Path(f"{stem}.vectors.safetensors"), Path(f"{stem}.derived.vectors.safetensors")


def bundled_calibration(encoder: str) -> Path | None:
    """The confidences of a bundled model on the graph, by the fingerprint of its encoder."""
    for name, folder in bundled_models().items():
        file = folder.parent / f"{name}.open.calibration.json"
        if file.exists() and fingerprint(folder, kind="encoder") == encoder:
            return file
    return None


def bundled_weights() -> Path:
    """The file of weights and confidences from which those of other models start."""
    return MODELS / f"{MODEL}.open.calibration.json"


def check_bundled(folder: Path) -> None:
    """Whether the bundled model and what lies beside it are what was released."""
    try:
        verify(folder, kind="encoder")
        released = _RELEASED.get(fingerprint(folder, kind="encoder"), {})
        for name, digest in released.items():
            if checksums(folder.parent / name).blake2b != digest:
                raise ArtefactError("it was changed or damaged", where=folder.parent / name)
    except (OSError, ArtefactError) as error:
        part = isinstance(error, ArtefactError)
        raise ArtefactError(
            "the model that comes with medcoder is damaged",
            where=error.where if part else folder,  # type: ignore[union-attr]
            values=error.what if part else error,  # type: ignore[union-attr]
            remedy="Install medcoder again",
        ) from error
