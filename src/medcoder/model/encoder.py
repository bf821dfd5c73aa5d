"""The term encoder: any Hugging Face encoder, a pooling, unit vectors out."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from medcoder.encode.modules import SETTINGS, write_modules
from medcoder.errors import ArtefactError, UsageError
from medcoder.model.packed import Packed, first_tokens, mean_tokens, pack, unpack

Pooling = Literal["cls", "mean", "legacy"]
_TOKENS = 16_384  # tokens encoded at a time


class TransformerEncoder(nn.Module):
    """A model with its tokenizer.

    pooling: "cls" takes the last hidden state of the first token; "mean" that of all real tokens,
        [CLS] and [SEP] too; "legacy" does as the published reference code does, for comparison
        with embeddings made by it: padded to `max_length`, no attention mask, the tanh pooler.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, pooling: Pooling = "cls", max_length: int = 32
    ) -> None:
        super().__init__()
        if pooling not in get_args(Pooling):
            raise UsageError(
                "no such pooling",
                values=repr(pooling),
                remedy=f"There are: {', '.join(get_args(Pooling))}",
            )
        if pooling == "legacy" and getattr(model, "pooler", None) is None:
            raise UsageError("legacy pooling needs a model with a pooler, such as BERT")
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.max_length = max_length
        self.train(model.training)

    @classmethod
    def load(
        cls, path: str | Path, *, pooling: Pooling | None = None, max_length: int | None = None
    ) -> TransformerEncoder:
        """Any Hugging Face checkpoint, by folder or name, in float32 whatever its file holds.

        Pooling and length default to what a model directory of ours or of sentence-transformers
        says, then to cls and 32.
        """
        # A download may show how far it is.
        bars = no_bars() if Path(path).exists() else contextlib.nullcontext()
        try:
            settings = _settings(Path(path))
            with bars:
                model = AutoModel.from_pretrained(path, dtype=torch.float32).float()
                _check_encoder(model, path)
                tokenizer = AutoTokenizer.from_pretrained(path)
            if len(tokenizer) <= len(tokenizer.all_special_ids):  # made up, for want of a file
                raise ValueError("it has no tokenizer")
        except ArtefactError:
            raise
        except Exception as error:  # other libraries raise anything for a damaged file
            known = isinstance(error, (OSError, ValueError, SafetensorError))
            kind = "" if known else f"{type(error).__name__}: "
            raise ArtefactError(
                "cannot be loaded as a model",
                where=path,
                values=f"{kind}{error}",
                remedy="Name a folder with config.json, model.safetensors and tokenizer.json",
            ) from error
        length = max_length or settings.get("max_length", 32)
        positions = getattr(model.config, "max_position_embeddings", None)
        if positions is not None and length > positions:
            raise UsageError(
                "is longer than the model can take",
                where="max_length",
                values=f"{length}, {path} takes {positions}",
                remedy="Lower it",
            )
        return cls(
            model,
            tokenizer,
            pooling=pooling or settings.get("pooling", "cls"),
            max_length=length,
        )

    @property
    def width(self) -> int:
        return int(self.model.config.hidden_size)

    @property
    def fingerprint(self) -> str:
        """What identifies the weights, the tokenizer and the pooling."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(f"{self.pooling} {self.max_length} ".encode())
        tokenizer = json.loads(self.tokenizer.backend_tokenizer.to_str())
        # Encoding sets these two as it goes; what counts of them is the length above.
        tokenizer |= {"truncation": None, "padding": None}
        digest.update(json.dumps(tokenizer).encode())
        for name, weight in sorted(self.model.state_dict().items()):
            digest.update(name.encode() + weight.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def forward(self, packed: Packed) -> Tensor:
        """Embeddings (n, l), not normalised."""
        return self.pooled(packed, self.pooling)

    def pooled(self, packed: Packed, pooling: Pooling) -> Tensor:
        """The same by any pooling."""
        if pooling == "legacy":
            tokens, _ = unpack(packed, width=self.max_length, fill=self.tokenizer.pad_token_id)
            output: Tensor = self.model(input_ids=tokens).pooler_output
            return output
        pool = first_tokens if pooling == "cls" else mean_tokens
        return pool(self.model, packed)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) == 0:  # which the tokenizer cannot do
            return []
        # Half of a surrogate pair is no character, and the tokenizer takes none.
        sound = [text.encode(errors="replace").decode() for text in texts]
        ids: list[list[int]] = self.tokenizer(sound, truncation=True, max_length=self.max_length)[
            "input_ids"
        ]
        return ids

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors (n, l) in the order of the texts."""
        training = self.training
        self.eval()
        device = next(self.parameters()).device
        tokens = self.tokenize(texts)
        order = sorted(range(len(tokens)), key=lambda position: len(tokens[position]))
        vectors = np.empty((len(tokens), self.width), np.float32)
        start = 0
        while start < len(order):
            stop, total = start, 0
            while stop < len(order) and (total < _TOKENS or stop == start):
                total += len(tokens[order[stop]])
                stop += 1
            some = [tokens[position] for position in order[start:stop]]
            lengths = np.array([len(ids) for ids in some])
            batch = pack(np.concatenate([np.array(ids) for ids in some]), lengths, device=device)
            vectors[order[start:stop]] = normalize(self(batch).float(), dim=1).cpu().numpy()
            start = stop
        self.train(training)
        return vectors


def save_encoder(
    encoder: TransformerEncoder, folder: Path, *, about: dict[str, Any] | None = None
) -> None:
    """Write weights, tokenizer, the sentence-transformers files and medcoder.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with no_bars():
        encoder.model.save_pretrained(folder)
        encoder.tokenizer.save_pretrained(folder)
    write_modules(
        folder,
        width=encoder.width,
        pooling=encoder.pooling,
        max_length=encoder.max_length,
        about=about or {},
    )


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """Without the bar that transformers draws for every model that it reads or writes."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@torch.inference_mode()
def _check_encoder(model: Any, path: str | Path) -> None:
    """Refuse what writes texts: from left to right, the first token is the same in every text."""
    if getattr(model.config, "is_encoder_decoder", False) or hasattr(model, "decoder"):
        wrong = "it has a decoder"
    else:
        tokens = torch.tensor([[0, 1], [0, 2]])
        one, other = model(input_ids=tokens).last_hidden_state[:, 0]
        if not torch.allclose(one, other, atol=1e-6):
            return
        wrong = "it reads from left to right, so that no token knows what follows"
    raise ArtefactError(
        "it is not an encoder",
        where=path,
        values=f"{wrong} ({model.config.model_type})",
        remedy="Name a model that reads whole texts, such as BERT, RoBERTa or MPNet",
    )


def _settings(path: Path) -> dict[str, Any]:
    """Pooling and length, as far as the folder says."""
    settings = _read(path / SETTINGS)
    if settings or not (path / "modules.json").exists():
        return settings
    words, tokenizer, model = (
        _read(path / f"{name}.json")
        for name in ("sentence_bert_config", "tokenizer_config", "config")
    )
    # Newer versions of sentence-transformers leave the length to the tokenizer.
    length = words.get("max_seq_length") or tokenizer.get("model_max_length")
    known = {
        "pooling": _pooling(_read(path / "1_Pooling" / "config.json")),
        "max_length": length and min(length, model.get("max_position_embeddings", length)),
    }
    return {name: value for name, value in known.items() if value}


def _pooling(modes: dict[str, Any]) -> Any:
    """What sentence-transformers calls it; of those that we have none, an error comes of it."""
    before = "pooling_mode_"  # older versions have a switch for each instead of a name
    switches = [key for key, on in modes.items() if key.startswith(before) and on is True]
    names = [re.sub("_tokens?$", "", key.removeprefix(before)) for key in switches]
    return modes.get("pooling_mode") or "+".join(names)


def _read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return content
