"""Systems and tables for tests of the evaluation room."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from medcoder.evaluate import BENCHES, Context, Ranked, Score, Vectors


class Letters:
    """Counts of the letters a to d; a string without any of them has no vector."""

    fingerprint = "letters-1"

    def __init__(self, *, name: str = "letters", kind: Any = "word") -> None:
        self.name, self.kind = name, kind
        self.settings: dict[str, Any] = {"dimension": 4}
        self.runs = 0

    def embed(self, texts, *, ids=None, corpus=None):
        self.runs += 1
        keys = ids if self.kind == "concept" else texts
        counts = np.array([[key.count(x) for x in "abcd"] for key in keys], np.float32)
        counts = counts.reshape(-1, 4)
        norm = np.linalg.norm(counts, axis=1)
        return Vectors(counts / np.where(norm > 0, norm, 1)[:, None], norm > 0)


class First:
    """A system that answers with the first entries of the dictionary."""

    name, kind, fingerprint = "first", "system", "first-1"

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}

    def link(self, queries, terms, concepts, k):
        first = list(dict.fromkeys(concepts))[:k]
        rows = np.full((len(queries), k), -1)
        rows[:, : len(first)] = [concepts.index(concept) for concept in first]
        return Ranked(rows, np.where(rows >= 0, 1, -np.inf).astype(np.float32))


def write_table(file: Path, *rows: str) -> Path:
    """Rows with | for tabs, so that they can be read; \\p stands for the sign itself."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (row.replace("|", "\t").replace("\\p", "|") for row in rows)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def linking_data(folder: Path, *queries: str, dictionary=("A|a", "B|b", "C|c")) -> Path:
    """A folder with the two tables."""
    write_table(folder / "queries.tsv", "query|lang|gold_concept_ids|split", *queries)
    write_table(folder / "dictionary.tsv", "concept_id|term", *dictionary)
    return folder.parent


def score(
    embedding: str, value: float, *, kind: str = "contextual", width: float = 0.02, **changes: Any
) -> Score:
    """A line of scores with its interval."""
    fields = {
        "bench": "cadec",
        "split": "all",
        "metric": "acc@1",
        "low": value - width,
        "high": value + width,
        "n": 100,
        "coverage": 1.0,
        "model": "0123456789abcdef",
        "data": "d",
        "seconds": 1.0,
        "made": "2026-01-01T00:00:00Z",
        "settings": {},
    }
    return Score(embedding=embedding, kind=kind, value=value, **fields | changes)


ANY = Context(pinned=False, resamples=20)


def bench(name):
    return BENCHES.load(name)


def figures(result):
    return {(found.split, found.metric): found for found in result.figures}


def values(result):
    return {key: found.value for key, found in figures(result).items()}


def said(path):
    """All words of an SVG."""
    text = path.read_text(encoding="utf-8")
    return [re.sub("<[^>]*>", "", found) for found in re.findall(r"<text.*?</text>", text, re.S)]
