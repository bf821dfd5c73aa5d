"""The trained parts: encoder, relations, losses.

`load_encoder` opens any model: an exported one without torch, a Hugging Face checkpoint with it.
"""

from __future__ import annotations

import re
from pathlib import Path

from medcoder.artefact import META
from medcoder.bundled.models import bundled_model, bundled_models
from medcoder.encode import CHECKPOINT, exported, load_exported
from medcoder.errors import ArtefactError, MissingExtra
from medcoder.registry import Registry
from medcoder.types import Encoder

RELATIONS = Registry(
    "relation form",
    {
        "bilinear": "medcoder.model.relations:Bilinear",
        "diagonal": "medcoder.model.relations:Diagonal",
        "low-rank": "medcoder.model.relations:LowRank",
        "translation": "medcoder.model.relations:Translation",
    },
    extras=dict.fromkeys(("bilinear", "diagonal", "low-rank", "translation"), "train"),
)

__all__ = ["RELATIONS", "load_encoder"]

_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)


def load_encoder(name_or_path: str | Path | None = None, *, threads: int | None = None) -> Encoder:
    """The encoder of a bundled model, an exported directory, or a Hugging Face checkpoint.

    Without a name, it is the bundled model that everything uses where no other is named.
    The last needs the extra `train`; a name that is no folder is looked up on the hub.
    `encode(texts)` gives a float32 array (n, d) of unit rows in the order of the texts.
    """
    if name_or_path is None:
        name_or_path = bundled_model()
    if exported(name_or_path) is not None:
        return load_exported(name_or_path, threads=threads)
    folder = Path(name_or_path).expanduser()
    if folder.exists() and not (folder / CHECKPOINT).exists():
        raise ArtefactError(
            f"it is not a model: it has neither {META} nor {CHECKPOINT}",
            where=folder,
            remedy="Check the path",
        )
    if not folder.exists() and not _HUB_NAME.fullmatch(str(name_or_path)):
        raise ArtefactError("there is no such folder", where=folder, remedy="Check the path")
    try:
        from medcoder.model.encoder import TransformerEncoder
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("medcoder"):
            raise
        known = ", ".join(bundled_models()) or "none"
        raise MissingExtra(
            f"it is not an exported encoder (there are: {known}), and loading a Hugging Face "
            f"checkpoint needs {error.name}, which is not installed",
            where=name_or_path,
            remedy="Install it with: pip install 'medcoder[train]'",
        ) from error
    return TransformerEncoder.load(folder if folder.exists() else str(name_or_path))
