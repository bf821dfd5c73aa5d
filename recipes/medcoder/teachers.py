"""What the start says of English: of terms, and of the sentences that others are to match."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import normalize

from medcoder import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.packed import pack
from medcoder.train.extra import read_extra, spoken
from medcoder.train.tokens import tokenize_texts
from tables import read

BLOCK = 20_000


def make_vectors(start: Path, data: Path, languages: Collection[str], out: Path) -> None:
    """terms.npy, zero where the teacher is not asked, and sentences.npy, of each row's English."""
    teacher = TransformerEncoder.load(start, pooling="mean", max_length=32).eval()
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        teacher.to("cuda")
    kg = KG.open(data / "train.kg")
    extra = read_extra(data / "extra.tsv", kg)
    known = spoken(kg, extra, languages)
    texts = [*(kg.terms.text(number) for number in range(len(kg.terms))), *extra.texts]
    vectors = np.lib.format.open_memmap(
        out / "terms.npy", "w+", np.float16, (len(texts), teacher.width)
    )
    asked = np.flatnonzero(known)
    vectors[asked] = encode(teacher, [texts[number] for number in asked])
    vectors.flush()
    others = [row[1] for row in read(data / "sentences.tsv")[1]]
    np.save(out / "sentences.npy", encode(teacher, others))


def encode(teacher: TransformerEncoder, texts: Sequence[str]) -> npt.NDArray[Any]:
    """Vectors in half precision; what comes twice is encoded once."""
    distinct = list(dict.fromkeys(texts))
    place = {text: number for number, text in enumerate(distinct)}
    tokens = tokenize_texts(teacher, distinct)
    lengths = np.array([len(ids) for ids in tokens], np.int64)
    device = next(teacher.parameters()).device
    order = np.argsort(lengths, kind="stable")
    vectors = np.zeros((len(distinct), teacher.width), np.float16)
    with torch.inference_mode():
        for begin in range(0, len(order), BLOCK):
            some = order[begin : begin + BLOCK]
            flat = np.concatenate([tokens[row] for row in some])
            packed = pack(flat, lengths[some], device=device)
            vectors[some] = normalize(teacher(packed).float(), dim=1).half().cpu().numpy()
    return vectors[[place[text] for text in texts]]
