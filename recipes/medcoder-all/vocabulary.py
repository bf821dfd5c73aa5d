"""The model to start from: MiniLM with more word pieces.

python recipes/medcoder-all/vocabulary.py work --minilm MINILM --use RESOURCES --out work/init

Pieces are trained on the terms of work/terms.parquet and work/extra.tsv. Of those, MiniLM gets the
ones that it lacks and that are not ASCII or have six letters or more, and none that would cut a
common English word otherwise than MiniLM does: what it knows of English hangs on its own pieces.

A new piece begins as the mean of the old pieces that it was cut into. With `--use`, one that is a
word begins as what MiniLM has for the English words that are nearest to it by USE instead, where
USE finds near ones.

With `--others`, pieces are trained on the languages but those of LEARNT alone, may be shorter, and
leave common words of all of LEARNT as they are: a second round, for what the first had too few of.

The trainer breaks ties by chance, so that some fifty pieces differ from run to run; `--pieces-of`
takes those of a tokenizer.json, such as that of the shipped model, instead.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import torch
from prepare import ANY, NOTE, TYPO
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AutoModel, AutoTokenizer

from tables import read

if TYPE_CHECKING:
    from use import Use

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = 100_000  # to train; about half of them are chosen
MOST_ENGLISH = 150_000  # terms; more would crowd out the other languages
FEW = 40_000  # terms of a language below which they are repeated
MOST_REPEATS = 4
EXTRA_REPEATS = 3
SHORTEST_ASCII, SHORTEST_OTHER = 6, 4
ENGLISH_WORDS = 120_000  # the most frequent ones, whose pieces stay as they are
LEARNT = ("en", "de", "es", "fr", "it", "nl", "pt")
LEARNT_WORDS = 60_000  # of each but English
NEAR = 0.5  # least cosine by USE of a new word and an English one
NEIGHBOURS = 4
SHARPNESS = 20.0  # how much more a nearer neighbour counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="folder that prepare.py wrote to")
    parser.add_argument("--minilm", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--use", type=Path, help="folder with weights.npz and sp.model")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--others", action="store_true", help="pieces of other languages alone")
    parser.add_argument("--pieces-of", type=Path, metavar="FILE", help="tokenizer.json to follow")
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.minilm)
    known = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    if options.pieces_of:
        pieces = in_order(Tokenizer.from_file(str(options.pieces_of)))
        if options.others or pieces[: len(known)] != known:
            raise SystemExit(
                f"{options.pieces_of} does not begin with the pieces of {options.minilm}, or is "
                "asked for in the second round. It has those of both: give it to the first alone"
            )
        added = pieces[len(known) :]
    else:
        without = LEARNT if options.others else ()
        pieces = train(sample(options.work, without=without))
        shortest = SHORTEST_OTHER if options.others else SHORTEST_ASCII
        old = Tokenizer.from_file(str(options.minilm / "tokenizer.json"))
        added = sparing(chosen(pieces, known, shortest), old, common(without))
    model = AutoModel.from_pretrained(options.minilm, dtype=torch.float32).float()
    widen(model, tokenizer, added)
    if options.use:
        from use import Use

        near = translated(model, tokenizer, added, Use(options.use))
        model.embeddings.word_embeddings.weight.data[len(known) :][near.places] = near.rows
        print(f"{len(near.places):,} begin as English words")
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)
    _save_pieces(options.out / "tokenizer.json", [*known, *added])
    print(f"{len(known):,} pieces and {len(added):,} new ones: {len(known) + len(added):,}")


def sample(work: Path, *, without: Collection[str] = ()) -> list[str]:
    """Terms to train on, with rare languages repeated and English cut; none of `without`."""
    terms = pl.read_parquet(work / "terms.parquet", columns=["term", "lang"])
    rng, texts = random.Random(0), []
    groups = terms.unique(maintain_order=True).group_by("lang")
    for (language,), group in sorted(groups, key=lambda found: found[0]):
        if language in without:
            continue
        some = group["term"].to_list()
        repeats = max(1, min(MOST_REPEATS, round(FEW / len(some)))) if len(some) < FEW else 1
        if language == "en":
            rng.shuffle(some)
            some = some[:MOST_ENGLISH]
        texts += some * repeats
    rows = read(work / "extra.tsv")[1]
    out = {NOTE, *without, *([ANY] if without else [])}
    extra = [term for term, _, tag, _ in rows if tag not in out and not tag.startswith(TYPO)]
    return texts + extra * EXTRA_REPEATS


def train(texts: list[str]) -> list[str]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=PIECES,
        min_frequency=4,
        special_tokens=SPECIAL,
        limit_alphabet=6000,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return in_order(tokenizer)


def in_order(tokenizer: Tokenizer) -> list[str]:
    """Its pieces by their numbers."""
    return [piece for piece, _ in sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])]


def chosen(pieces: list[str], known: list[str], shortest: int) -> list[str]:
    """Of the trained pieces, those that are added."""
    old = set(known)
    found = []
    for piece in pieces:
        letters = piece.removeprefix("##")
        if piece not in old and (not letters.isascii() or len(letters) >= shortest):
            found.append(piece)
    return found


def common(languages: Iterable[str]) -> list[str]:
    """Common words of English, and of these."""
    from wordfreq import top_n_list

    words = {word for word in top_n_list("en", ENGLISH_WORDS) if word.isascii()}
    for language in languages:
        words |= set(top_n_list(language, LEARNT_WORDS))
    return sorted(word for word in words if word.isalpha())


def sparing(added: list[str], old: Tokenizer, words: list[str]) -> list[str]:
    """Those that leave the pieces of words as they are."""
    old.no_padding()
    old.no_truncation()
    before = [found.tokens for found in old.encode_batch(words, add_special_tokens=False)]
    known, kept = in_order(old), added
    while True:
        new = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate([*known, *kept])}))
        new.model.unk_token = "[UNK]"
        new.normalizer, new.pre_tokenizer = old.normalizer, old.pre_tokenizer
        after = [found.tokens for found in new.encode_batch(words, add_special_tokens=False)]
        cutting = {
            piece for were, are in zip(before, after, strict=True) if were != are for piece in are
        }
        left = [piece for piece in kept if piece not in cutting]
        if len(left) == len(kept):
            return kept
        kept = left


class Translated(NamedTuple):
    """New pieces, by their places among the new ones, and what they begin as."""

    places: list[int]
    rows: torch.Tensor


def translated(model: torch.nn.Module, tokenizer: object, added: list[str], use: Use) -> Translated:
    """What MiniLM has for the English words nearest to each new piece that is a word."""
    from wordfreq import zipf_frequency

    old = model.embeddings.word_embeddings.weight.data[: len(tokenizer)]
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    english = [
        number
        for number, piece in enumerate(pieces)
        if piece.isascii()
        and piece.isalpha()
        and len(piece) > 2
        and zipf_frequency(piece, "en") > 2
    ]
    there = torch.from_numpy(use.encode([pieces[number] for number in english]))  # (e, 512)
    asked = [at for at, piece in enumerate(added) if piece[0] != "#" and len(piece) > 1]
    here = torch.from_numpy(use.encode([added[at] for at in asked]))  # (a, 512)
    places, rows = [], []
    usual = old[english].norm(dim=1).mean()
    for start in range(0, len(asked), 1024):
        cosine, nearest = (here[start : start + 1024] @ there.T).topk(min(NEIGHBOURS, len(english)))
        for at, values, found in zip(asked[start:], cosine, nearest, strict=False):
            if values[0] < NEAR:
                continue
            weights = torch.softmax(SHARPNESS * values, 0)
            row = weights @ old[[english[number] for number in found]]
            places.append(at)
            rows.append(row * usual / row.norm())
    return Translated(places, torch.stack(rows) if rows else old[:0])


def widen(model: torch.nn.Module, tokenizer: object, added: list[str]) -> None:
    """A new piece begins as the mean of the old pieces that it was cut into."""
    old = model.embeddings.word_embeddings.weight.data  # (pieces, width)
    mean, spread = old.mean(0), old.std(0)
    noise = torch.Generator().manual_seed(0)
    rows = [old]
    for piece in added:
        ids = parts(tokenizer, piece)
        if ids:
            row = old[ids].mean(0)
        else:
            row = mean + 0.5 * spread * torch.randn(old.shape[1], generator=noise)
        rows.append(row[None])
    weights = torch.cat(rows)
    model.resize_token_embeddings(len(weights), mean_resizing=False)
    model.embeddings.word_embeddings.weight.data.copy_(weights)


def parts(tokenizer: object, piece: str) -> list[int]:
    """The numbers of the old pieces that a new one was cut into; none, if they were unknown."""
    cut = tokenizer(piece.removeprefix("##"), add_special_tokens=False)["input_ids"]
    return [number for number in cut if number != tokenizer.unk_token_id]


def _save_pieces(path: Path, pieces: list[str]) -> None:
    """The tokenizer as it was, with these pieces; how to cut and pad is up to who uses it."""
    about = json.loads(path.read_text(encoding="utf-8"))
    about["model"]["vocab"] = {piece: number for number, piece in enumerate(pieces)}
    about["padding"] = about["truncation"] = None
    path.write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
