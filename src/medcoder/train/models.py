"""Models as a run loads and writes them: on its device, without the bars of other libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from transformers.utils import logging

from medcoder.errors import ArtefactError, MedcoderError, UsageError
from medcoder.model.encoder import Pooling, TransformerEncoder
from medcoder.train.processes import device


def load_encoder(
    name: str, *, pooling: Pooling | None = None, max_length: int | None = None
) -> TransformerEncoder:
    # A download may show how far it is.
    bars = no_bars() if Path(name).exists() else contextlib.nullcontext()
    try:
        with bars:
            encoder = TransformerEncoder.load(name, pooling=pooling, max_length=max_length)
    except MedcoderError:
        raise
    except Exception as error:  # other libraries make all kinds of a damaged file
        raise ArtefactError(
            f"{name} cannot be loaded as a model: {type(error).__name__}: {error}. Name a folder "
            "with config.json, model.safetensors and tokenizer.json"
        ) from error
    places = getattr(encoder.model.config, "max_position_embeddings", None)
    if places is not None and encoder.max_length > places:
        raise UsageError(
            f"max_length is {encoder.max_length}, but {name} knows {places} places. Lower it"
        )
    return encoder.to(device())


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """transformers draws a bar for every model that it reads or writes."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
