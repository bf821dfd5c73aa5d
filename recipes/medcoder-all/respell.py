"""The same model with pieces that spell Vietnamese, Japanese and Chinese as they are written.

python recipes/medcoder-all/respell.py work/whole --work work --out work/respelt

BERT drops all accents and cuts each Chinese character off its neighbours. So Vietnamese "đau đầu",
headache, became "pain pain", and no word of Chinese was a piece. Here

- the hook, the horn and the dot below of Vietnamese vowels stay, and all marks of a vowel that has
  two, as in no other language; other accents are dropped as before;
- the voicing marks of Japanese stay;
- a run of Chinese and Japanese characters is one word, which begins with the piece MARKER. All
  others of its pieces are then of the inner kind ("##..."), and need not be there twice. Characters
  that no piece has stand alone, so that they take no other text with them.

Room is made by pieces that no training term and no common word has, none of them MiniLM's. A new
piece that leaves other languages as they are begins as the mean of those that it was cut into.

Some pieces come out differently each time; `--pieces-of` takes pieces and spelling of a
tokenizer.json, such as that of the shipped model, instead.
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import polars as pl
import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from vocabulary import ENGLISH_WORDS, EXTRA_REPEATS, SPECIAL, in_order

from medcoder.model.encoder import TransformerEncoder, save_encoder
from tables import read

MARKER = "\u2e80"  # no text has it
MINILM = 30_522  # pieces that come first, and stay
SPELT = ("vi", "ja", "zh")
REPEATS = {"vi": 4, "ja": 2, "zh": 1}
COMMON = (
    "de", "es", "fr", "it", "nl", "pt", "pl", "cs", "tr", "fi", "hu", "sv", "nb", "sh", "ro", "ru",
    "uk", "el", "ko",
)  # fmt: skip
COMMON_WORDS = 8_000  # of each; those of English are many more
LONGEST = 300  # characters of a word; BERT has 100, but here a sentence may be one
MOST = 40_000  # pieces to train, of which as many are taken as there is room for
KANA = "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
JOINED = re.compile(f"[{KANA}{IDEOGRAPHS}]")
# After decomposition, a vowel of Vietnamese has a horn, a dot or a hook, or two marks: one of the
# letter (circumflex, breve) and one of the tone.
DROPPED = "|".join(
    [
        "[\u0302\u0306](?<!\u0323[\u0302\u0306])(?![\u0300\u0301\u0303\u0309])",
        "(?<![\u0302\u0306\u031b])[\u0300\u0301\u0303]",
        "(?<![aeiouyAEIOUY\u031b])\u0323",  # of transliterations
        "[\u0304\u0305\u0307\u0308\u030a-\u031a\u031c-\u0322\u0324-\u036f]",
        r"[\p{Mn}&&[^" + "\u0300-\u036f\u3099\u309a]]",
    ]
)
KEPT = "\u0300\u0301\u0302\u0303\u0306\u0309\u031b\u0323\u3099\u309a"
Text = tuple[str, str, bool]  # a term, its language, whether it is an extra one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="Hugging Face folder")
    parser.add_argument("--work", type=Path, required=True, help="folder that prepare.py wrote to")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--pieces-of", type=Path, metavar="FILE", help="tokenizer.json to follow")
    options = parser.parse_args()
    old = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    old.no_truncation()
    old.no_padding()
    pieces = in_order(old)
    if options.pieces_of:
        like = Tokenizer.from_file(str(options.pieces_of))
        new, spelling = in_order(like), like.normalizer
    else:
        texts = training_texts(options.work)
        known = joined_letters(pieces, texts)
        spelling = normalizer(known)
        new = respelt(pieces, known, spelling, texts)
    encoder = TransformerEncoder.load(options.model, pooling="mean")
    before = encoder.model.embeddings.word_embeddings.weight.data.clone()
    encoder.model.resize_token_embeddings(len(new), mean_resizing=False)
    begin(encoder.model.embeddings.word_embeddings.weight.data, before, old, pieces, new)
    save_encoder(encoder, options.out)
    save_spelling(options.out, new, spelling)
    changed = len(set(new) - set(pieces))
    print(f"{changed:,} of {len(new):,} pieces are new")


def save_spelling(
    folder: Path, pieces: Sequence[str], spelling: normalizers.Normalizer | None
) -> None:
    """Put the pieces and the spelling into the tokenizer of a folder."""
    file, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["normalizer"] = json.loads(made(pieces, spelling).to_str())["normalizer"]
    content["model"]["vocab"] = {piece: at for at, piece in enumerate(pieces)}
    content["model"]["max_input_chars_per_word"] = LONGEST
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    about = json.loads(config.read_text(encoding="utf-8"))
    about["tokenizer_class"] = "PreTrainedTokenizerFast"  # that of BERT would spell as BERT does
    config.write_text(json.dumps(about, indent=1), encoding="utf-8")


def training_texts(work: Path) -> list[Text]:
    terms = pl.read_parquet(work / "terms.parquet", columns=["term", "lang"])
    texts = [(term, language, False) for term, language in terms.iter_rows()]
    return texts + [(term, tag, True) for term, _, tag, _ in read(work / "extra.tsv")[1]]


def joined_letters(pieces: Iterable[str], texts: Iterable[Text]) -> set[str]:
    """Characters of Chinese and Japanese that pieces or training terms have."""
    spelt = (unicodedata.normalize("NFD", text) for text, tag, _ in texts if tag in SPELT)
    return set(JOINED.findall("".join(pieces) + "".join(spelt)))


def normalizer(known: Collection[str]) -> normalizers.Normalizer:
    """Spelling as above. Only the known characters join a run; others stand alone."""
    joined = _ranges(known)
    strange = f"[[{KANA}{IDEOGRAPHS}]&&[^{joined}]]"
    return normalizers.Sequence(
        [
            normalizers.BertNormalizer(
                clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=True
            ),
            normalizers.NFD(),
            normalizers.Replace(Regex(DROPPED), ""),
            normalizers.Replace(Regex(f"(?<={strange})|(?={strange})"), " "),
            normalizers.Replace(Regex(f"(?<![{joined}])(?=[{joined}])"), f" {MARKER}"),
            normalizers.Replace(Regex(f"(?<=[{joined}])(?![{joined}])"), " "),
        ]
    )


def _ranges(letters: Iterable[str]) -> str:
    """Of a character class: neighbours as a range."""
    found: list[list[int]] = []
    for code in sorted(ord(letter) for letter in letters):
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(f"{chr(low)}-{chr(high)}" if high > low else chr(low) for low, high in found)


def made(pieces: Sequence[str], spelling: normalizers.Normalizer | None) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece(
            {piece: at for at, piece in enumerate(pieces)},
            unk_token="[UNK]",
            max_input_chars_per_word=LONGEST,
        )
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = spelling, pre_tokenizers.BertPreTokenizer()
    return tokenizer


def respelt(
    pieces: list[str], known: set[str], spelling: normalizers.Normalizer, texts: list[Text]
) -> list[str]:
    """The new pieces: each old one, or what becomes of it, in its place, and new ones instead."""
    there = set(pieces)
    names = [_inner(piece, there) for piece in pieces]
    had = set(names)
    needed = [MARKER, *(f"##{letter}" for letter in sorted({*KEPT, *known}))]
    needed = [piece for piece in needed if piece not in had]
    words = common_words()
    used = numbers_of([*names, *needed], spelling, [*(text for text, _, _ in texts), *words])
    trained = dict.fromkeys(train(spelling, texts))
    room = [
        place
        for place, piece in enumerate(names)
        if place >= MINILM
        and not (place in used or piece in trained or len(piece.removeprefix("##")) == 1)
    ]
    if len(room) < len(needed):
        raise SystemExit(f"{len(needed):,} pieces are needed, and there is room for {len(room):,}")
    gone = set(room)
    kept = {piece for place, piece in enumerate(names) if place not in gone} | set(needed)
    words += [word for text, tag, _ in texts if tag not in SPELT for word in text.split()]
    wanted = [piece for piece in trained if piece not in kept]
    added = [*needed, *sparing(wanted, kept, spelling, words)]
    print(f"room for {len(room):,} pieces; {len(added):,} were there for it")
    for place, piece in zip(room, added, strict=False):
        names[place] = piece
    return names


def _inner(piece: str, there: set[str]) -> str:
    """Pieces of Chinese and Japanese are of the inner kind."""
    return f"##{piece}" if JOINED.match(piece) and f"##{piece}" not in there else piece


def common_words() -> list[str]:
    from wordfreq import top_n_list

    words = list(top_n_list("en", ENGLISH_WORDS))
    return words + [word for tag in COMMON for word in top_n_list(tag, COMMON_WORDS)]


def numbers_of(
    pieces: Sequence[str], spelling: normalizers.Normalizer, texts: Sequence[str]
) -> set[int]:
    """Places of the pieces that these texts have."""
    tokenizer, used = made(pieces, spelling), set[int]()
    for start in range(0, len(texts), 20_000):
        some = texts[start : start + 20_000]
        for found in tokenizer.encode_batch_fast(some, add_special_tokens=False):
            used.update(found.ids)
    return used


def train(spelling: normalizers.Normalizer, texts: Iterable[Text]) -> list[str]:
    """Pieces of the languages that are spelt anew, the most useful first."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=LONGEST))
    tokenizer.normalizer = spelling
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(MARKER, "isolated")]
    )
    some = [
        text
        for text, language, extra in texts
        if language in SPELT
        for _ in range(REPEATS[language] * (EXTRA_REPEATS if extra else 1))
    ]
    trainer = trainers.WordPieceTrainer(
        vocab_size=MOST,
        min_frequency=4,
        special_tokens=SPECIAL,
        limit_alphabet=8_000,
        show_progress=False,
    )
    tokenizer.train_from_iterator(some, trainer)
    found = []
    for piece in in_order(tokenizer):
        letters = piece.removeprefix("##")
        marked = any(unicodedata.combining(letter) for letter in letters[1:])
        if JOINED.match(letters):
            found.append(f"##{letters}")
        elif marked or (piece.isalpha() and len(piece) > 1):
            found.append(piece)
    return list(dict.fromkeys(found))


def sparing(
    added: list[str], kept: set[str], spelling: normalizers.Normalizer, words: Iterable[str]
) -> list[str]:
    """Those that leave words of other languages as they are."""
    some = sorted({word for word in words if not JOINED.search(word)})
    left = {
        piece
        for piece in added
        if not JOINED.search(piece) and not any(map(unicodedata.combining, piece))
    }
    good = harmless(left, kept, spelling, some)
    return [piece for piece in added if piece in good or piece not in left]


def harmless(
    added: Collection[str],
    kept: Collection[str],
    spelling: normalizers.Normalizer,
    words: Sequence[str],
) -> set[str]:
    """The added pieces beside which these words are cut as by the kept ones alone."""
    left = set(added)
    before = made(sorted(kept), spelling).encode_batch(words, add_special_tokens=False)
    while True:
        after = made(sorted({*kept, *left}), spelling).encode_batch(words, add_special_tokens=False)
        cutting = {
            piece
            for were, are in zip(before, after, strict=True)
            if were.tokens != are.tokens
            for piece in are.tokens
        }
        if not left & cutting:
            return left
        left -= cutting


def begin(
    rows: torch.Tensor, before: torch.Tensor, old: Tokenizer, pieces: list[str], new: list[str]
) -> None:
    """Give each piece the row that it had, or the mean of the pieces that it was cut into."""
    was = {_inner(piece, set()): place for place, piece in enumerate(pieces)}
    was |= {piece: place for place, piece in enumerate(pieces)}
    usual = before.mean(0)
    for place, piece in enumerate(new):
        if piece in was:
            rows[place] = before[was[piece]]
        else:
            cut = old.encode(piece.removeprefix("##"), add_special_tokens=False).tokens
            found = [was[one] for one in cut if one not in ("[UNK]", MARKER)]
            rows[place] = before[found].mean(0) if found else usual


if __name__ == "__main__":
    main()
