"""A normaliser and mapping projects for programs (REST) and for people (a page)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from medcoder.errors import MissingExtra

if TYPE_CHECKING:
    from fastapi import FastAPI

    from medcoder.normalize import Normalizer
    from medcoder.serve.settings import Settings


def make_app(
    normalizer: Normalizer | Callable[[], Normalizer],
    *,
    folder: str | Path,
    projects: Mapping[str, Path] | None = None,
    settings: Settings | None = None,
) -> FastAPI:
    """The web application.

    normalizer: or a function that loads one, which is called when the application starts: until
        it is done, `/readyz` says no
    folder: for uploads and for the projects made of them
    projects: mapping projects that exist already, by the name that they go by here
    settings: limits, and the token that is asked for
    """
    try:
        from medcoder.serve.app import build
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("medcoder"):
            raise
        raise MissingExtra(
            f"serving needs {error.name}, which is not installed",
            remedy="Install it with: pip install 'medcoder[serve]'",
        ) from error
    return build(normalizer, Path(folder), dict(projects or {}), settings)


__all__ = ["make_app"]
