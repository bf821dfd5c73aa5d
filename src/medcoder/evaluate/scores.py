"""scores.jsonl: one line for each embedding, bench, split and metric; running again replaces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medcoder.errors import InputError
from medcoder.files import locked, write_text

NAME = "scores.jsonl"


@dataclass(frozen=True, kw_only=True)
class Score:
    """A figure, what made it and of what."""

    embedding: str  # name of the row
    kind: str
    bench: str
    split: str
    metric: str
    value: float
    low: float
    high: float
    n: int
    coverage: float
    model: str  # fingerprint
    data: str  # fingerprint
    seconds: float  # of the whole bench
    made: str  # when, UTC
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.embedding, self.bench, self.split, self.metric


def read_scores(path: Path) -> list[Score]:
    """All lines of a file, or of the file in a folder; none if it is not there."""
    file = path / NAME if path.is_dir() else path
    if not file.exists():
        return []
    return [_score(file, row, text) for row, text in enumerate(_lines(file), 1) if text.strip()]


def add_scores(path: Path, scores: Iterable[Score]) -> None:
    """Put these in: all lines of an embedding and bench among them are replaced at once."""
    new = list(scores)
    again = {(score.embedding, score.bench) for score in new}
    with locked(path):
        kept = [score for score in read_scores(path) if (score.embedding, score.bench) not in again]
        text = "".join(json.dumps(asdict(score), ensure_ascii=False) + "\n" for score in kept + new)
        write_text(path, text)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n")


def _score(file: Path, row: int, text: str) -> Score:
    try:
        return Score(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"it is not a line of scores: {error}",
            file=file,
            row=row,
            remedy="Remove the line, or the file, and run the bench again",
        ) from None
