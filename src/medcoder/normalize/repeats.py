"""Equal strings are looked up once: columns of a hospital hold few of them, many times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from medcoder.types import Answer

_KEPT = 1 << 14  # answers that are remembered, the latest asked for


def answered(
    batches: Iterable[Sequence[str]], look_up: Callable[[Sequence[str]], Iterable[Answer]]
) -> Iterator[list[Answer]]:
    """The answers of each batch; `look_up` is asked for the strings not met lately, each once."""
    known: dict[str, Answer] = {}
    for batch in batches:
        new = [text for text in dict.fromkeys(batch) if text not in known]
        known |= zip(new, look_up(new), strict=True)
        for text in dict.fromkeys(batch):
            known[text] = known.pop(text)  # to the end, as the latest
        yield [known[text] for text in batch]
        for text in list(islice(known, max(len(known) - _KEPT, 0))):
            del known[text]
