"""`medcoder embed`: vectors of strings, and of all terms of a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from medcoder.cli.command import INTERRUPTED, command, progress_bar
from medcoder.cli.console import errors, line, print_json, print_json_lines
from medcoder.cli.index import Model
from medcoder.cli.open import open_encoder, open_graph
from medcoder.cli.options import AsJson, user_path
from medcoder.cli.texts import File, Texts, given
from medcoder.errors import UsageError
from medcoder.files import replacing

if TYPE_CHECKING:
    from medcoder.types import Encoder

Write = Callable[[Sequence[str], Any], None]  # strings and their vectors (n, d)
_DIGITS = 7  # as many as float32 has
EXAMPLES = """
[bold]Examples[/bold]

  medcoder embed "heart attack" "myocardial infarction"

  medcoder embed --file terms.txt --out terms.npy

  medcoder embed --kg umls.kg --model eng.onnx --out umls.vectors
"""


@command
def embed(
    texts: Texts = None,
    file: File = None,
    kg: Annotated[
        Path | None, typer.Option("--kg", help="Directory of a graph: embed all of its terms.")
    ] = None,
    model: Model = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="A .npy or .parquet file; with --kg, a directory to make."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Encode strings, printed as JSON lines or written to a file; or all terms of a graph."""
    if to is not None:
        to = user_path(to)
    if kg is None:
        _embed_texts(texts, file, model, to, overwrite=overwrite, as_json=as_json)
    elif texts or file is not None:
        raise UsageError("--kg embeds the terms of a graph: leave out the strings and --file")
    elif to is None:
        raise UsageError("--kg needs --out, the directory to make")
    else:
        _embed_graph(kg, model, to, overwrite=overwrite, as_json=as_json)


def _embed_graph(kg: Path, model: str | None, to: Path, *, overwrite: bool, as_json: bool) -> None:
    from medcoder.vectors.embed import embed as embed_graph

    encoder = open_encoder(model)
    try:
        with open_graph(kg) as graph, progress_bar() as progress:
            made = embed_graph(graph, encoder, to, overwrite=overwrite, progress=progress)
    except KeyboardInterrupt as error:
        line("interrupted: the same command goes on from here", console=errors())
        raise typer.Exit(INTERRUPTED) from error
    if as_json:
        print_json({"path": str(to), "rows": len(made), "width": made.width})
    else:
        line(repr(made))


def _embed_texts(
    texts: Sequence[str] | None,
    file: Path | None,
    model: str | None,
    to: Path | None,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    if to is not None:
        _check(to, overwrite=overwrite)
    with given(texts, file, doing="embedding") as batches:
        encoder = open_encoder(model)
        if to is None:
            for batch in batches:
                print_json_lines(_entries(batch, encoder))
            return
        rows = 0
        with replacing(to) as partial, _WRITERS[to.suffix.lower()](partial, encoder.width) as write:
            for batch in batches:
                write(batch, encoder.encode(batch))
                rows += len(batch)
    if as_json:
        print_json({"path": str(to), "rows": rows, "width": encoder.width})
    else:
        line(f"{to}  {rows:,} rows of {encoder.width}")


def _entries(texts: Sequence[str], encoder: Encoder) -> Iterator[dict[str, Any]]:
    vectors = encoder.encode(texts).astype(np.float64).round(_DIGITS)
    for text, vector in zip(texts, vectors.tolist(), strict=True):
        yield {"text": text, "vector": vector}


@contextlib.contextmanager
def _npy(file: Path, width: int) -> Iterator[Write]:
    """An array (n, d) of float32. Its header has room for the number of rows, known at the end."""
    rows = 0

    def header() -> None:
        about = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(stream, about)

    def write(texts: Sequence[str], vectors: Any) -> None:
        nonlocal rows
        rows += len(texts)
        stream.write(np.ascontiguousarray(vectors, "<f4").data)

    with file.open("wb") as stream:
        header()
        yield write
        stream.seek(0)
        header()


@contextlib.contextmanager
def _parquet(file: Path, width: int) -> Iterator[Write]:
    """Columns text and vector."""
    import pyarrow as pa

    from medcoder.tables.parquet import open_writer

    schema = pa.schema({"text": pa.string(), "vector": pa.list_(pa.float32(), width)})

    def write(texts: Sequence[str], vectors: Any) -> None:
        sound = [text.encode(errors="replace").decode() for text in texts]
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width)
        writer.write_table(pa.table([pa.array(sound, pa.string()), column], schema=schema))

    with open_writer(file, schema) as writer:
        yield write


_WRITERS = {".npy": _npy, ".parquet": _parquet}


def _check(file: Path, *, overwrite: bool) -> None:
    if file.suffix.lower() not in _WRITERS:
        raise UsageError(f"{file}: name a file that ends in {' or '.join(_WRITERS)}")
    if file.exists() and not overwrite:
        remedy = "Choose another place, or allow it to be overwritten"
        raise UsageError("it exists", where=file, remedy=remedy)
