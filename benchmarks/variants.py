"""Whether one string has one answer: groups of variants that differ by how they are typed.

python benchmarks/variants.py [--groups 1000] [--seed 0] [--shown 20] [--index DIR]

A group is a phrase of data/train/lay, a string of data/eval/dev/ward or a name of the bundled
graph, and ways to type it: in other case, with a full stop or other signs around it, with hyphens
for spaces, with more spaces, without accents. Where case decides (an abbreviation, capitals) it is
kept. Of each group, the share of variants whose first candidate is that of the first way of typing,
and of those whose status is; a group agrees if all of its variants do.
"""

from __future__ import annotations

import argparse
import random
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from medcoder import Normalizer
from medcoder.normalize.abbreviations import bundled_abbreviations
from medcoder.types import Answer

DATA = Path(__file__).resolve().parent.parent / "data"
LANGUAGES = ("en", "de", "es", "fr", "nl", "it", "pt", "pl")


def strings(normalizer: Normalizer, count: int, random_: random.Random) -> list[str]:
    """A third of phrases, a third of ward strings, a third of names."""
    phrases = [
        line.split("\t")[2]
        for language in LANGUAGES
        for line in (DATA / f"train/lay/{language}.tsv").read_text("utf-8").split("\n")[1:-1]
    ]
    wards = [
        line.split("\t")[0]
        for file in sorted((DATA / "eval/dev/ward").glob("*.tsv"))
        for line in file.read_text("utf-8").split("\n")[1:-1]
    ]
    kg = normalizer.kg
    names = [kg.terms.text(random_.randrange(len(kg.terms))) for _ in range(4 * count)]
    names = [name for name in names if len(name) < 80]
    drawn = [
        text
        for some in (phrases, wards, names)
        for text in random_.sample(some, min(-(-count // 3), len(some)))
    ]
    return list(dict.fromkeys(drawn))[:count]


def variants(text: str) -> Iterator[str]:
    """Ways to type a string; itself first."""
    yield text
    yield f"{text}."
    yield f"  {text.replace(' ', '  ')} "
    yield f'"{text}"'
    yield f"({text})"
    yield f"- {text}"
    yield f"{text};"
    if not any(sign in text for sign in "-/"):
        yield text.replace(" ", "\u00a0")
    bare = "".join(
        char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char)
    )
    if bare != text:
        yield bare
    if not _decides(text):
        yield text.lower()
        yield text[:1].upper() + text[1:]
        yield text.title()


def _decides(text: str) -> bool:
    """Whether case may decide: capitals inside, or a word that may be an abbreviation."""
    words = "".join(char if char.isalnum() else " " for char in text).split()
    short = bundled_abbreviations()
    return any(word[1:] != word[1:].lower() or len(word) == 1 or word in short for word in words)


def key(answer: Answer) -> tuple[str, ...]:
    parts = answer.parts or (answer,)
    return tuple(part.candidates[0].concept if part.candidates else "" for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shown", type=int, default=20, help="variants that differ")
    parser.add_argument("--index", type=Path, help="default: the bundled one")
    asked = parser.parse_args()
    normalizer = Normalizer.load(asked.index)
    groups = [
        list(dict.fromkeys(variants(text)))
        for text in strings(normalizer, asked.groups, random.Random(asked.seed))
    ]
    texts = [text for group in groups for text in group]
    answers = iter(normalizer.normalize_many(texts, split=True))
    same = status = total = whole = 0
    for group in groups:
        first, *others = [next(answers) for _ in group]
        firsts = [key(answer) == key(first) for answer in others]
        statuses = [answer.status == first.status for answer in others]
        same, status, total = same + sum(firsts), status + sum(statuses), total + len(others)
        whole += all(firsts)
        for answer, agrees, alike in zip(others, firsts, statuses, strict=True):
            if asked.shown > 0 and not (agrees and alike):
                asked.shown -= 1
                sys.stdout.write(
                    f"{first.query!r} {key(first)} {first.status} {first.confidence:.3f}\n"
                    f"  {answer.query!r} {key(answer)} {answer.status} {answer.confidence:.3f}\n"
                )
    sys.stdout.write(
        f"{len(groups):,} groups, {total:,} variants: the first candidate agrees in "
        f"{100 * same / total:.2f}%, the status in {100 * status / total:.2f}%; "
        f"{100 * whole / len(groups):.1f}% of the groups agree in all of their first candidates\n"
    )


if __name__ == "__main__":
    main()
