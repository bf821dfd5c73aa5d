"""Options and help that the commands of `medcoder bench` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
