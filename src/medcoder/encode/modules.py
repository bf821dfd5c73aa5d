"""The small files that make a folder of Hugging Face one of sentence-transformers, and of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medcoder.files import write_json

SETTINGS = "medcoder.json"
_KINDS = "sentence_transformers.models"


def write_modules(
    folder: Path, *, width: int, pooling: str, max_length: int, about: dict[str, Any]
) -> None:
    """Say how vectors are made: pooling, length 1, and how many tokens a text may have."""
    modules = [("", f"{_KINDS}.Transformer"), ("1_Pooling", f"{_KINDS}.Pooling")]
    modules.append(("2_Normalize", f"{_KINDS}.Normalize"))
    write_json(
        folder / "modules.json",
        [
            {"idx": position, "name": str(position), "path": path, "type": kind}
            for position, (path, kind) in enumerate(modules)
        ],
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "2_Normalize").mkdir(exist_ok=True)
    modes: dict[str, Any] = {
        "word_embedding_dimension": width,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    if pooling == "legacy":  # unknown to sentence-transformers: an error, and not its mean
        modes["pooling_mode"] = "legacy"
    write_json(folder / "1_Pooling" / "config.json", modes)
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False}
    )
    write_json(folder / SETTINGS, {"pooling": pooling, "max_length": max_length, **about})
