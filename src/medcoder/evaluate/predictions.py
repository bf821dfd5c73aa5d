"""What each query got, on disk: OUT/predictions/EMBEDDING/BENCH.jsonl, a line for each query."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from medcoder.errors import InputError
from medcoder.evaluate.base import Prediction
from medcoder.files import replacing

FOLDER = "predictions"
_UNSAFE = re.compile(r"[^\w.,=+ -]+")


def predictions_file(out: Path, embedding: str, bench: str) -> Path:
    """Where they lie; a name that is no file name is changed to one."""
    return out / FOLDER / (_UNSAFE.sub("_", embedding).strip(". ") or "_") / f"{bench}.jsonl"


def write_predictions(file: Path, predictions: Iterable[Prediction]) -> None:
    """Replace the file by these, at once."""
    with replacing(file) as partial, partial.open("w", encoding="utf-8") as stream:
        for prediction in predictions:
            stream.write(json.dumps(prediction._asdict(), ensure_ascii=False) + "\n")


def read_predictions(file: Path) -> list[Prediction]:
    """All of a file."""
    if not file.exists():
        raise InputError(
            "there are no predictions",
            file=file,
            remedy="Make them with: medcoder bench run; scores of pairs and types have none",
        )
    text = file.read_text(encoding="utf-8")
    return [
        _prediction(file, row, line) for row, line in enumerate(text.split("\n"), 1) if line.strip()
    ]


def _prediction(file: Path, row: int, line: str) -> Prediction:
    try:
        entry: dict[str, Any] = json.loads(line)
        for name in ("concepts", "names", "scores"):
            entry[name] = tuple(entry[name])
        return Prediction(**entry)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"it is not a prediction: {error}",
            file=file,
            row=row,
            remedy="Remove the file and run the bench again",
        ) from None
