"""Options and help that the commands of `medcoder bench` share, and what options stand for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.artefact import META
from medcoder.cli.open import exported_encoder, no_bars
from medcoder.cli.options import user_path
from medcoder.errors import UsageError

if TYPE_CHECKING:
    from medcoder.evaluate.results import Embedding, Linker
    from medcoder.types import Progress

SPECS = """
[bold]Models[/bold]

  medcoder-all             one that comes with medcoder, or was exported

  PATH,pooling=mean        Hugging Face folder or name; cls, mean, legacy

  word:vectors.bin         word2vec or GloVe

  concept:cui2vec.csv      vectors of concepts by id

  lexical:tfidf            character trigrams; lexical:exact: the string

  normalizer               the Normalizer over the dictionary of a bench

  normalizer:MODEL         the same, with an exported model or an index's

  SPEC,name=NAME           how its row is called
"""
RUN = """
[bold]Examples[/bold]

  medcoder bench run --data bench --models lexical:tfidf medcoder-all --out s

  medcoder bench run --data bench --benches cadec --models a/b,pooling=cls --out s

  medcoder bench run --queries q.tsv --dictionary d.tsv --models normalizer --out s
"""
ERRORS = """
[bold]Examples[/bold]

  medcoder bench errors scores --model medcoder-all --bench cadec --top 20

  medcoder bench errors scores --model medcoder-all --against all-MiniLM-L6-v2 --bench cadec
"""
PAPER = """
[bold]Examples[/bold]

  medcoder bench paper --data bench --models lexical:tfidf medcoder-all --out p
"""

Data = Annotated[
    Path | None,
    typer.Option(envvar="MEDCODER_BENCH", help="Folder with a folder of each bench's data."),
]
Models = Annotated[
    list[str], typer.Option("--models", metavar="SPEC...", help="What to measure; see below.")
]
To = Annotated[Path, typer.Option("--out", help="Folder of scores and predictions; may exist.")]
Names = Annotated[
    list[str] | None,
    typer.Option("--benches", metavar="NAME...", help="Default: all whose data is there."),
]
SeenIn = Annotated[
    list[Path] | None,
    typer.Option(
        "--seen",
        metavar="PATH...",
        help="Graphs, or tables with a column term, that a model was trained on: queries that are "
        "none of their terms get figures of their own.",
    ),
]
Queries = Annotated[
    Path | None, typer.Option(help="For custom: a table with query and gold_concept_ids.")
]
Terms = Annotated[Path | None, typer.Option(help="For custom: a table with concept_id and term.")]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="For relcls: epochs of training. Default: 50.")
]
Frozen = Annotated[
    bool, typer.Option("--frozen-only", help="For relcls: train the classifier alone.")
]
K = Annotated[int | None, typer.Option(min=1, help="For mcsm: neighbours that count. Default: 40.")]
OtherData = Annotated[
    bool,
    typer.Option("--other-data", help="Take files that are not the ones the cards pin."),
]
Resamples = Annotated[
    int, typer.Option(min=0, help="Of the bootstrap, for the 95% intervals; 0 for none.")
]
Seed = Annotated[int, typer.Option(help="Of the bootstrap and of training.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Default: all cores.")]
Force = Annotated[bool, typer.Option("--force", help="Run again what was done already.")]


def options_of_benches(
    queries: Path | None,
    dictionary: Path | None,
    epochs: int | None,
    k: int | None,
    *,
    frozen_only: bool,
) -> dict[str, Any]:
    """Options of benches that were given."""
    given: dict[str, Any] = {
        "queries": None if queries is None else str(user_path(queries)),
        "dictionary": None if dictionary is None else str(user_path(dictionary)),
        "epochs": epochs,
        "k": k,
        "modes": ["frozen"] if frozen_only else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def data_folder(data: Path | None, options: Mapping[str, Any]) -> Path:
    if data is None and "queries" in options:
        return Path()  # all that is read was named
    if data is None:
        raise UsageError("--data is missing: the folder with the data of the benches")
    folder = user_path(data)
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=f"--data {data}")
    return folder


def given_systems(
    models: Sequence[str], to: Path, *, threads: int | None, progress: Progress
) -> Iterator[Embedding | Linker]:
    """Systems by their specs. How a normaliser is made, the room of evaluation does not know."""
    from medcoder.evaluate.embeddings import parse
    from medcoder.evaluate.systems import (
        CACHE,
        NormalizerLinker,
        NormalizerSpec,
        is_normalizer,
        open_systems,
    )

    def normalizer(spec: NormalizerSpec) -> NormalizerLinker:
        from medcoder.bundled.models import MODEL
        from medcoder.normalize import Normalizer
        from medcoder.normalize.build import ENCODER, build
        from medcoder.normalize.stages import STAGES

        label = MODEL if spec.model is None else Path(spec.model).name
        inside = None if spec.model is None else user_path(Path(spec.model)) / ENCODER
        is_index = inside is not None and (inside / META).exists()
        return NormalizerLinker(
            exported_encoder(str(inside) if is_index else spec.model),
            name=spec.name or f"Normalizer ({label})",
            build=build,
            load=Normalizer.load,
            stages=STAGES,
            cache=to / CACHE,
            progress=progress,
        )

    if any(parse(spec).kind == "contextual" for spec in models if not is_normalizer(spec)):
        with contextlib.suppress(ImportError):  # what is missing, loading says
            no_bars()
    return open_systems(models, normalizer=normalizer, threads=threads)
