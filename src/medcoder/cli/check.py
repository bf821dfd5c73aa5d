"""`medcoder check`: read all of a directory, and say whether it is what it was made as."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.cli.command import command, progress_bar
from medcoder.cli.console import errors, line, print_json
from medcoder.cli.options import AsJson, user_path
from medcoder.errors import ArtefactError, MedcoderError
from medcoder.manifest import META, check_file, check_files, check_meta, read_json
from medcoder.registry import Registry
from medcoder.types import silent

if TYPE_CHECKING:
    from medcoder.types import Progress

EXAMPLES = """
[bold]Examples[/bold]

  medcoder check umls.index

  medcoder check ward ~/.cache/medcoder --json
"""
# What is looked at beyond digests, by the kind that a directory says it is: a function of its path.
DEEP = Registry(
    "directory",
    {
        "knowledge graph": "medcoder.cli.check:_graph",
        "vectors": "medcoder.cli.check:_vectors",
        "index": "medcoder.cli.check:_index",
        "encoder": "medcoder.cli.check:_encoder",
    },
)
_PROJECT = "project.sqlite"
_NO_TERMS = "no.terms.tsv"  # those beside the index are not of it


@command
def check(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="A graph, vectors, an index, a model, a checkpoint, a project, or a folder of "
            "such.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Read all of a directory, and say whether it is sound: exit code 4 if not.

    Every file is compared with its digest, and every number with what it refers to. Directories
    inside are checked too. Nothing is changed.
    """
    checked: list[dict[str, Any]] = []
    wrong: MedcoderError | None = None
    with progress_bar() as progress:
        for path in paths:
            for folder in _directories(user_path(path)):
                entry, error = _check(folder, progress)
                checked.append(entry)
                wrong = wrong or error
    if as_json:
        print_json(checked)
    for entry in checked if not as_json else ():
        of = f"{entry['kind']}, {entry['files']:,} files, {entry['bytes']:,} bytes"
        if entry["sound"]:
            line(f"{entry['path']}: sound ({of})")
        else:
            line(("not sound:", "red"), f" {entry['error']}", console=errors())
    if wrong is not None:
        raise typer.Exit(wrong.exit_code)


def _directories(path: Path) -> Iterator[Path]:
    """The directory, or those in a folder that is none itself; those inside another go with it."""
    if path.suffix == ".sqlite" or (path / META).exists() or (path / _PROJECT).exists():
        yield path
        return
    found = sorted(
        folder
        for folder in (path.iterdir() if path.is_dir() else ())
        if not folder.name.startswith(".")
        and ((folder / META).exists() or (folder / _PROJECT).exists())
    )
    if not found:
        raise ArtefactError(
            "there is nothing of medcoder's here", where=path, remedy="Check the path"
        )
    yield from found


def examine(path: Path) -> None:
    """Raise what is wrong with a directory, if anything is."""
    _, wrong = _check(path, silent)
    if wrong is not None:
        raise wrong


def _check(path: Path, progress: Progress) -> tuple[dict[str, Any], MedcoderError | None]:
    """What is to be said of a directory, and what is wrong with it."""
    entry: dict[str, Any] = {"path": str(path), "kind": "unknown", "files": 0, "bytes": 0}
    try:
        if path.suffix == ".sqlite" or not (path / META).exists():
            _project(path, entry)
        else:
            _artefact(path, entry, progress)
    except MedcoderError as error:
        return entry | {"sound": False, "error": str(error)}, error
    except Exception as error:
        wrong = ArtefactError(
            "it cannot be used",
            where=path,
            values=f"{type(error).__name__}: {error}"[:300],
            remedy="Copy or build it again",
        )
        return entry | {"sound": False, "error": str(wrong)}, wrong
    return entry | {"sound": True}, None


def _artefact(path: Path, entry: dict[str, Any], progress: Progress) -> None:
    """Digests of all files, those of directories inside included; then what they hold."""
    try:
        meta = read_json(path / META)
    except (OSError, ValueError) as error:
        raise ArtefactError(
            "it cannot be read", where=path / META, values=error, remedy="Copy or build it again"
        ) from error
    if not (isinstance(meta, dict) and isinstance(meta.get("kind"), str)):
        raise ArtefactError("it is nothing of medcoder's", where=path, remedy="Check the path")
    check_meta(path, meta)
    check_files(path, meta)
    sizes = [file["size"] for file in meta["files"].values()]
    entry |= {"kind": meta["kind"], "files": len(sizes), "bytes": sum(sizes)}
    done, total = 0, sum(sizes)
    for name, file in meta["files"].items():
        check_file(path / name, file)
        done += file["size"]
        progress(f"reading {path.name}", done, total)
    if meta["kind"] in DEEP:
        DEEP.load(meta["kind"])(path)


def _graph(path: Path) -> None:
    from medcoder.kg import KG
    from medcoder.kg.soundness import check_graph

    check_graph(KG.open(path))


def _vectors(path: Path) -> None:
    from medcoder.vectors import Vectors

    Vectors.open(path).check()


def _encoder(path: Path) -> None:
    from medcoder.encode import load_exported

    load_exported(path).encode(["heart attack"])


def _index(path: Path) -> None:
    """The index, and the graph, the vectors and the model inside."""
    from medcoder.artefact import verify
    from medcoder.kg.soundness import check_graph
    from medcoder.normalize import Normalizer
    from medcoder.normalize.build import ENCODER, KG_PART, VECTORS, open_grams, open_parts

    for part, kind in ((KG_PART, "knowledge graph"), (ENCODER, "encoder"), (VECTORS, "vectors")):
        verify(path / part, kind=kind)
    _, kg, vectors = open_parts(path)
    check_graph(kg)
    vectors.check()
    open_grams(path, len(vectors)).check()
    Normalizer.load(path, terms=path / _NO_TERMS).normalize("heart attack")
    _encoder(path / ENCODER)


def _project(path: Path, entry: dict[str, Any]) -> None:
    """Pages of the file, then every value that it holds."""
    from medcoder.mapping import Project

    with Project.open(path) as project:
        entry |= {"kind": "project", "files": 1, "bytes": project.path.stat().st_size}
        project.verify()
        for _ in project.mappings():
            pass
        for _ in project.history():
            pass
        _ = project.meta, project.header, project.counts(), project.agreement()
