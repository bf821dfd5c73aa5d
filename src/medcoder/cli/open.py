"""Opening what commands work on; where it is damaged, the error says which file of it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from medcoder.bundled.graph import bundled_kg
from medcoder.cli.command import progress_bar
from medcoder.cli.options import user_path
from medcoder.errors import ArtefactError, UsageError
from medcoder.kg import KG

if TYPE_CHECKING:
    from medcoder.encode.onnx import OnnxEncoder
    from medcoder.normalize import Normalizer
    from medcoder.types import Encoder

T = TypeVar("T")

# What reading a file that is not as it was written may lead to.
_SIGNS_OF_DAMAGE = (
    ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError
)  # fmt: skip


@contextlib.contextmanager
def open_graph(path: Path | None) -> Iterator[KG]:
    """The graph; without a path, the bundled one."""
    with _checked(graph_path(path), KG.open) as graph:
        yield graph


@contextlib.contextmanager
def open_index(path: Path | None) -> Iterator[Normalizer]:
    """The normaliser of an index; without a path, of the bundled one."""
    from medcoder.bundled.graph import bundled_terms
    from medcoder.normalize import Normalizer

    folder, terms = index_path(path), bundled_terms() if path is None else None
    with _checked(folder, lambda path: Normalizer.load(path, terms=terms)) as normalizer:
        yield normalizer


def graph_path(path: Path | None) -> Path:
    """Where the graph lies; the bundled one is built if need be."""
    if path is not None:
        return user_path(path)
    with progress_bar() as progress:
        return bundled_kg(progress)


def index_path(path: Path | None) -> Path:
    """Where the index lies; the bundled one is built if need be."""
    if path is not None:
        return user_path(path)
    from medcoder.normalize.build import bundled_index

    with progress_bar() as progress:
        return bundled_index(progress)


def open_encoder(model: str | None) -> Encoder:
    """An encoder by the name or the folder of its model; without one, the bundled one."""
    from medcoder.bundled.models import bundled_model
    from medcoder.encode import exported
    from medcoder.model import load_encoder

    folder = bundled_model() if model is None else user_path(Path(model))
    if exported(folder) is None:
        with contextlib.suppress(ImportError):  # what is missing, loading says
            no_bars()
    return load_encoder(str(folder))


def no_bars() -> None:
    """Loading a checkpoint shows none: they would come whether anybody is looking or not."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]


def exported_encoder(model: str | None) -> OnnxEncoder:
    """An encoder that runs without torch, as an index needs it."""
    from medcoder.bundled.models import bundled_model, bundled_models
    from medcoder.encode import exported
    from medcoder.encode.onnx import OnnxEncoder

    folder = bundled_model() if model is None else user_path(Path(model))
    path = exported(folder)
    if path is not None:
        return OnnxEncoder.load(path)
    if not folder.is_dir():
        known = ", ".join(bundled_models()) or "none"
        raise UsageError(
            f"there is no model {model}: name a folder, or one that comes with medcoder ({known})"
        )
    raise UsageError(
        f"{folder} is not an exported model. Export it with: medcoder export {folder} --out DIR"
    )


@contextlib.contextmanager
def _checked(path: Path, open_it: Callable[[Path], T]) -> Iterator[T]:
    opened = None
    try:
        opened = open_it(path)
        yield opened
    except OSError as error:
        if not (error.filename and Path(error.filename).is_relative_to(path)):
            raise
        reason = f"{error.filename} cannot be read: {error.strerror}"
        raise ArtefactError(f"{reason}. Check that you may read it") from error
    except _SIGNS_OF_DAMAGE as error:
        from medcoder.cli.check import examine

        examine(path)
        if opened is not None:
            raise
        raise ArtefactError(f"{path} cannot be opened: {error}. Copy or build it again") from error
