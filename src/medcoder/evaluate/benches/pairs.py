"""Any tables of pairs of terms: a figure for each file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medcoder.errors import InputError
from medcoder.evaluate.base import Context, Embedding, Linker, Result
from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.pairs import Similarity, pair_figures, read_pairs

CARD = Card(
    name="pairs",
    title="Pairs of terms",
    about=(
        "Any tables NAME.tsv with the columns term1, term2 and score, and id1 and id2 for "
        "embeddings that go by ids. Each file is a split."
    ),
    origin="you",
    licence="yours",
    files=(),
    metrics=("spearman",),
)


@dataclass(frozen=True)
class Pairs(Similarity):
    """All tables of a folder."""

    def files(self, data: Path, context: Context) -> list[Path]:
        folder = data / self.card.name
        found = sorted(folder.glob("*.tsv"))
        if not found:
            raise InputError(
                "there are no tables of pairs",
                file=folder,
                remedy="Put NAME.tsv there, with the columns term1, term2 and score",
            )
        return found

    def found(self, data: Path, context: Context) -> bool:
        return any((data / self.card.name).glob("*.tsv"))

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        assert not isinstance(system, Linker)
        return Result(
            [
                figure
                for file in self.files(data, context)
                for figure in pair_figures(file.stem, read_pairs(file), system, context)
            ]
        )


BENCH = Pairs(CARD)
