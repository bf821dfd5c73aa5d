"""The same model with other pieces: words that people use, for pieces that hardly any text has.

python recipes/medcoder-all/recut.py work/respelt --work work --out work/recut

Candidates are the pieces that are there, the words of the training terms of each language but
English, and pieces that are trained on Chinese and Japanese. What a piece is worth is how often it
is needed, in texts weighted so that small languages count, times the pieces that it saves. Those
that are worth least go, in rounds, until as many are left as there were. MiniLM's own stay in any
case, and no new one may cut a common English word otherwise than before.

A new piece begins as the mean of those that it was cut into.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Container
from pathlib import Path

import numpy as np
from ask import DATA, ENGLISH, related
from prepare import TYPO
from respell import (
    JOINED,
    MARKER,
    MINILM,
    Text,
    begin,
    harmless,
    made,
    save_spelling,
    train,
    training_texts,
)
from tokenizers import Tokenizer
from vocabulary import ENGLISH_WORDS, in_order
from wordfreq import top_n_list, zipf_frequency

from medcoder.model.encoder import TransformerEncoder, save_encoder

# Frequencies are those of wordfreq, the logarithm of a count in 10^9 words.
RARE = 2.5  # below it, an English word may be cut otherwise than before
OFTEN_SAID, LESS_RARE = 5.0, 3.3  # for a word so common elsewhere, it is more
COMMON = 4.0  # such a word is English whatever other languages have
OFTEN = 3  # a word is a candidate if it counts so much in a language; once in extra.tsv is enough
BALANCE = 0.5  # a language with n words counts as n to this power
RUN = 2.0  # words of Chinese and Japanese that stand together, about
SPEECH = 4.0  # texts of extra.tsv count as so many
LEAST = 4.0  # a word of another language is at least so common there,
MORE = 1.0  # and so much more than in English
OTHERS = ("de", "es", "fr", "it", "nl", "pt", "pl", "cs", "tr", "fi", "hu", "sv", "nb", "sh", "ro")
UNSEEN = 3.0  # of a word's count, what is taken for words like it that were not seen
ROUNDS = (0.5, 0.3, 0.15, 0.0)  # of what is too much, how much is left after each round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="Hugging Face folder, spelt by respell.py")
    parser.add_argument("--work", type=Path, required=True, help="folder that prepare.py wrote to")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    options = parser.parse_args()
    old = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    old.no_truncation()
    old.no_padding()
    pieces = in_order(old)
    new = recut(pieces, old, training_texts(options.work))
    encoder = TransformerEncoder.load(options.model, pooling="mean")
    rows = encoder.model.embeddings.word_embeddings.weight.data
    begin(rows, rows.clone(), old, pieces, new)
    save_encoder(encoder, options.out)
    save_spelling(options.out, new, old.normalizer)
    print(f"{len(set(new) - set(pieces)):,} of {len(new):,} pieces are new")


def recut(pieces: list[str], old: Tokenizer, texts: list[Text]) -> list[str]:
    """The new pieces: what stays is in its place."""
    words, spoken = count_words(old, texts), english(old, texts, RARE)
    there = set(pieces)
    some = candidates(words, there)
    added = sorted(harmless(some, pieces, old.normalizer, spoken))
    often = [word for word in set(some) - set(added) if _elsewhere(word) >= OFTEN_SAID]
    rarer = english(old, texts, LESS_RARE)
    added += sorted(harmless(often, [*pieces, *added], old.normalizer, rarer))
    trained = [
        piece for piece in train(old.normalizer, texts) if JOINED.match(piece.removeprefix("##"))
    ]
    added += [piece for piece in trained if piece not in there]
    print(f"{len(added):,} candidates beside {len(pieces):,} pieces", flush=True)
    fixed = {*pieces[:MINILM], *(piece for piece in pieces if len(piece.removeprefix("##")) == 1)}
    for found in made(pieces, old.normalizer).encode_batch(spoken, add_special_tokens=False):
        fixed.update(found.tokens)
    kept = prune(pieces, added, fixed, old, worth_of(words))
    stay = set(kept)
    room = [place for place, piece in enumerate(pieces) if piece not in stay]
    fresh = [piece for piece in kept if piece not in there]
    result = list(pieces)
    for place, piece in zip(room, fresh, strict=True):
        result[place] = piece
    return result


def count_words(old: Tokenizer, texts: list[Text]) -> dict[str, Counter[str]]:
    """Weighted counts of the words of each language, as they are spelt."""
    found: dict[str, Counter[str]] = {}
    for text, tag, extra in texts:
        language = "en" if tag in ENGLISH else tag.removeprefix(TYPO)
        counts = found.setdefault(language, Counter())
        for word, _ in old.pre_tokenizer.pre_tokenize_str(old.normalizer.normalize_str(text)):
            counts[word] += SPEECH if extra else 1.0
    return found


def candidates(words: dict[str, Counter[str]], there: set[str]) -> list[str]:
    """Words that come often in a language other than English."""
    found = {
        word
        for language, counts in words.items()
        if language != "en"
        for word, count in counts.items()
        if count >= OFTEN and word.isalpha() and not JOINED.search(word) and MARKER not in word
    }
    return sorted(found - there)


def english(old: Tokenizer, texts: list[Text], least: float) -> list[str]:
    """English words that are to be cut as before: common ones, and those of data/.

    Common words of another language that some list has for English, too ("jag"), are none.
    """
    said = [text for text, tag, extra in texts if extra and tag == "en"] + related(DATA / "related")
    common = [one for one in top_n_list("en", ENGLISH_WORDS) if zipf_frequency(one, "en") >= least]
    spelt = (old.normalizer.normalize_str(text) for text in [*said, *common])
    words = {word for text in spelt for word, _ in old.pre_tokenizer.pre_tokenize_str(text)}
    return sorted(word for word in words if not _foreign(word))


def _foreign(word: str) -> bool:
    here = zipf_frequency(word, "en")
    return here < COMMON and _elsewhere(word) >= max(here + MORE, LEAST)


def _elsewhere(word: str) -> float:
    return max(zipf_frequency(word, tag) for tag in OTHERS)


def worth_of(words: dict[str, Counter[str]]) -> dict[str, tuple[float, float]]:
    """What each word counts, in small languages more: as itself, and for others like it."""
    own, like = Counter[str](), Counter[str]()
    for language, counts in words.items():
        share = sum(counts.values()) ** (BALANCE - 1) * (RUN if language in ("ja", "zh") else 1.0)
        for word, count in counts.items():
            own[word] += share * max(0.0, count - UNSEEN)
            like[word] += share * min(count, UNSEEN)
    return {word: (own[word], like[word]) for word in own}


def prune(
    pieces: list[str],
    added: list[str],
    fixed: set[str],
    old: Tokenizer,
    worth: dict[str, tuple[float, float]],
) -> list[str]:
    """As many as there were: those that are worth most."""
    current = [*pieces, *added]
    for share in ROUNDS:
        value = values(current, old, worth)
        most = len(pieces) + int(len(added) * share)
        free = [place for place in np.argsort(value, kind="stable") if current[place] not in fixed]
        gone = set(free[: len(current) - most])
        print(f"{most:,} are left; the next is worth {value[free[len(gone)]]:.3g}", flush=True)
        current = [piece for place, piece in enumerate(current) if place not in gone]
    return current


def values(pieces: list[str], old: Tokenizer, worth: dict[str, tuple[float, float]]) -> np.ndarray:
    """What is lost without each piece. A word that is a piece also counts for its parts."""
    tokenizer, place = made(pieces, old.normalizer), {one: at for at, one in enumerate(pieces)}
    use, words = np.zeros(len(pieces)), list(worth)
    for start in range(0, len(words), 50_000):
        some = words[start : start + 50_000]
        cut = tokenizer.encode_batch_fast(some, add_special_tokens=False)
        for word, found in zip(some, cut, strict=True):
            own, like = worth[word]
            if len(found.ids) > 1:
                own, like = own + like, 0.0
            use[found.ids] += own
            if like:
                use[[place[part] for part in parts(word, place) if part in place]] += like
    saved = np.array([max(2, len(parts(piece, place))) - 1 for piece in pieces])
    return use * saved


def parts(piece: str, there: Container[str]) -> list[str]:
    """What others a piece would be cut into, greedily; a letter that none has stands alone."""
    inner, letters = piece.startswith("##"), piece.removeprefix("##")
    found, start = [], 0
    while start < len(letters):
        head = "##" if inner or start else ""
        for end in range(len(letters), start, -1):
            part = head + letters[start:end]
            if part in there and part != piece:
                break
        found.append(part)
        start = end
    return found


if __name__ == "__main__":
    main()
