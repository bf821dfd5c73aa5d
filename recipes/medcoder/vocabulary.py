"""The pieces of the model, and what the new ones begin as.

The pieces are those of a tokenizer.json that we follow, and some for languages that it lacks. A
piece that the start has, too, begins as it is there. A new piece begins as the mean of the rows of
the English pieces that it is aligned with in sentences and names with their English (the first
model of IBM: Brown et al. 1993); one that is aligned with too little, as the mean of the pieces
that the start would cut it into.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, models, trainers

Array = npt.NDArray[Any]
KEPT_MARKS = "\\u0900-\\u097f"  # vowel signs of Devanagari, which are more than accents
DROPPED = "[\\p{Mn}&&[^"  # how the rule begins that drops marks
KEPT = 4  # English pieces that a new one begins as
SCRIPTS = {"ar": "\u0600-\u06ff", "hi": "\u0900-\u097f"}
LONGEST = 24  # pieces of a text that are aligned


def make_vocabulary(
    start: Path,
    follow: Path,
    texts: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    settings: dict[str, Any],
    out: Path,
) -> None:
    """tokenizer.json, and rows.npz: of which old rows each piece is the mean.

    texts: of the new languages. pairs: texts of any language with their English.
    """
    old = Tokenizer.from_file(str(start / "tokenizer.json"))
    about = json.loads(follow.read_text(encoding="utf-8"))
    pieces = in_order(about["model"]["vocab"])
    about = with_marks(about)
    about["padding"] = about["truncation"] = None
    spelling = Tokenizer.from_str(json.dumps(about))
    pieces += more_pieces(spelling, texts, set(pieces), settings)
    about["model"]["vocab"] = {piece: number for number, piece in enumerate(pieces)}
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    new = Tokenizer.from_str(json.dumps(about))
    index, weight, how = beginnings(new, old, pieces, pairs, settings)
    np.savez_compressed(out / "rows.npz", index=index, weight=weight)
    print(f"{len(pieces):,} pieces: {how}", flush=True)


def in_order(vocab: dict[str, int]) -> list[str]:
    return sorted(vocab, key=vocab.__getitem__)


def with_marks(about: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer that keeps the marks of Devanagari, if it says which others it drops."""
    text = json.dumps(about["normalizer"])
    begin = json.dumps(DROPPED)[1:-1]
    return about | {"normalizer": json.loads(text.replace(begin, begin + KEPT_MARKS))}


def more_pieces(
    spelling: Tokenizer, texts: Sequence[str], there: set[str], settings: dict[str, Any]
) -> list[str]:
    """Pieces of the scripts of the new languages, trained on their texts."""
    if not settings["new_pieces"]:
        return []
    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer, trained.pre_tokenizer = spelling.normalizer, spelling.pre_tokenizer
    size = settings["new_pieces"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=3, special_tokens=["[UNK]"], show_progress=False
    )
    trained.train_from_iterator(sorted(texts), trainer)
    scripts = [SCRIPTS[tag] for tag in settings["new_languages"]]
    ranges = [(ends[0], ends[-1]) for ends in scripts]
    return [
        piece
        for piece in in_order(trained.get_vocab())
        if piece not in there
        and all(
            any(low <= letter <= high for low, high in ranges)
            for letter in piece.removeprefix("##")
        )
    ]


def beginnings(
    new: Tokenizer,
    old: Tokenizer,
    pieces: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    settings: dict[str, Any],
) -> tuple[Array, Array, str]:
    """Of each piece: numbers of old ones (n, KEPT) and their weights, which sum to one or zero."""
    index = np.zeros((len(pieces), KEPT), np.int32)
    weight = np.zeros((len(pieces), KEPT), np.float32)
    vocab = old.get_vocab()
    fresh = np.array([piece not in vocab for piece in pieces])
    letters = [piece.removeprefix("##") for piece in pieces]
    for row, cut in enumerate(old.encode_batch_fast(letters, add_special_tokens=False)):
        parts = [number for number in cut.ids if number != vocab["[UNK]"]][:KEPT]
        parts = parts if fresh[row] else [vocab[pieces[row]]]
        index[row, : len(parts)] = parts
        weight[row, : len(parts)] = 1 / max(len(parts), 1)
    here, there, counts = aligned(new, old, pairs, fresh, settings["rounds"])
    order = np.lexsort((-counts, here))
    here, there, counts = here[order], there[order], counts[order]
    begins = np.flatnonzero(np.concatenate([[True], here[1:] != here[:-1]]))
    totals = np.add.reduceat(counts, begins)
    for begin, end, total in zip(begins, [*begins[1:], len(here)], totals, strict=True):
        if total >= settings["fewest"]:
            best = slice(begin, min(end, begin + KEPT))
            row, size = here[begin], best.stop - begin
            index[row], weight[row] = 0, 0
            index[row, :size] = there[best]
            weight[row, :size] = counts[best] / counts[best].sum()
    by_words = int((totals >= settings["fewest"]).sum())
    return index, weight, f"{int(fresh.sum()):,} new, {by_words:,} begin as English ones"


def aligned(
    new: Tokenizer, old: Tokenizer, pairs: Sequence[tuple[str, str]], fresh: Array, rounds: int
) -> tuple[Array, Array, Array]:
    """Numbers of new pieces and of English ones, and how often they are aligned.

    Each new piece of a text is said by one piece of its English, or by nothing.
    """
    here, begins = _ids(new, (text for text, _ in pairs))
    there, starts = _ids(old, (english for _, english in pairs))
    blocks = []
    for pair in range(len(pairs)):
        own = here[begins[pair] : begins[pair + 1]]
        own = own[fresh[own]]
        if len(own):
            blocks.append((own, there[starts[pair] : starts[pair + 1]]))
    sizes = np.array([len(english) + 1 for _, english in blocks])
    counts = np.array([len(own) for own, _ in blocks])
    foreign = np.concatenate([np.repeat(own, len(english) + 1) for own, english in blocks])
    # Nothing, which function words and what is not said come from, has the number after all.
    nothing = old.get_vocab_size()
    english = np.concatenate(
        [np.tile(np.append(english, nothing), len(own)) for own, english in blocks]
    )
    segments = np.concatenate([[0], np.cumsum(np.repeat(sizes, counts))[:-1]])
    lengths = np.repeat(sizes, counts)
    keys, place = np.unique(foreign.astype(np.int64) * (nothing + 1) + english, return_inverse=True)
    del foreign, english
    f, e = keys // (nothing + 1), keys % (nothing + 1)
    found = np.bincount(place, minlength=len(keys)).astype(np.float64)
    for _ in range(rounds):
        said = found / np.bincount(e, found, minlength=nothing + 1)[e]  # p(f | e)
        shares = said[place]
        shares /= np.repeat(np.add.reduceat(shares, segments), lengths)
        found = np.bincount(place, shares, minlength=len(keys))
    kept = (e != nothing) & (found > 1e-3)
    return f[kept], e[kept], found[kept]


def _ids(tokenizer: Tokenizer, texts: Iterable[str]) -> tuple[Array, Array]:
    """Numbers of pieces, end to end, and where those of each text begin."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    rows: list[list[int]] = []
    block: list[str] = []
    for text in texts:
        block.append(text)
        if len(block) == 50_000:
            rows += _cut(tokenizer, block)
            block = []
    rows += _cut(tokenizer, block)
    lengths = np.array([len(row) for row in rows], np.int64)
    flat = np.fromiter((one for row in rows for one in row), np.int32, int(lengths.sum()))
    return flat, np.concatenate([[0], np.cumsum(lengths)])


def _cut(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    if not texts:
        return []
    found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [one.ids[:LONGEST] for one in found]


def widen(start: Path, vocabulary: Path, out: Path) -> None:
    """The start with all pieces, as a Hugging Face folder."""
    import torch
    from transformers import AutoModel, PreTrainedTokenizerFast

    from medcoder.model.encoder import TransformerEncoder, save_encoder

    model = AutoModel.from_pretrained(start, dtype=torch.float32).float()
    old = model.embeddings.word_embeddings.weight.data.clone()
    rows = np.load(vocabulary / "rows.npz")
    index, weight = torch.from_numpy(rows["index"]).long(), torch.from_numpy(rows["weight"])
    mean = (old[index] * weight[:, :, None]).sum(1)  # (pieces, l)
    # A mean of several is as long as one is; what is a mean of nothing begins as that of all.
    norm, usual = mean.norm(dim=1, keepdim=True), old.norm(dim=1).mean()
    several = (weight > 0).sum(1, keepdim=True) > 1
    mean = torch.where(several, mean * usual / norm.clamp(min=1e-6), mean)
    mean = torch.where(norm > 0, mean, old.mean(0))
    model.resize_token_embeddings(len(mean), mean_resizing=False)
    model.embeddings.word_embeddings.weight.data.copy_(mean)
    file = vocabulary / "tokenizer.json"
    there = json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"]
    special = {f"{one}_token": f"[{one.upper()}]" for one in ("pad", "unk", "cls", "sep", "mask")}
    special = {name: piece for name, piece in special.items() if piece in there}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file), model_max_length=512, **special)
    save_encoder(TransformerEncoder(model.eval(), tokenizer, pooling="mean", max_length=32), out)
