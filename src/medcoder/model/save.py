"""A model directory that Hugging Face, sentence-transformers and medcoder open alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medcoder.files import write_json
from medcoder.model.encoder import SETTINGS, TransformerEncoder, no_bars

_KINDS = "sentence_transformers.models"


def save_encoder(
    encoder: TransformerEncoder, folder: Path, *, about: dict[str, Any] | None = None
) -> None:
    """Write weights, tokenizer, the sentence-transformers files and medcoder.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with no_bars():
        encoder.model.save_pretrained(folder)
        encoder.tokenizer.save_pretrained(folder)
    modules = [("", f"{_KINDS}.Transformer"), ("1_Pooling", f"{_KINDS}.Pooling")]
    modules.append(("2_Normalize", f"{_KINDS}.Normalize"))
    write_json(
        folder / "modules.json",
        [
            {"idx": place, "name": str(place), "path": path, "type": kind}
            for place, (path, kind) in enumerate(modules)
        ],
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "2_Normalize").mkdir(exist_ok=True)
    pooling: dict[str, Any] = {
        "word_embedding_dimension": encoder.width,
        "pooling_mode_cls_token": encoder.pooling == "cls",
        "pooling_mode_mean_tokens": encoder.pooling == "mean",
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    if encoder.pooling == "legacy":  # unknown to sentence-transformers: an error, and not its mean
        pooling["pooling_mode"] = "legacy"
    write_json(folder / "1_Pooling" / "config.json", pooling)
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": encoder.max_length, "do_lower_case": False},
    )
    write_json(
        folder / SETTINGS,
        {"pooling": encoder.pooling, "max_length": encoder.max_length, **(about or {})},
    )
