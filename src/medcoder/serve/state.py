"""What the routes of one application share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from fastapi import Request

from medcoder.mapping import Project
from medcoder.mapping.lookup import Mapper
from medcoder.normalize import Normalizer
from medcoder.serve.batching import Batcher
from medcoder.serve.concepts import ConceptTables
from medcoder.serve.engine import Engine, EngineMapper
from medcoder.serve.jobs import Jobs
from medcoder.serve.lock import FolderLock
from medcoder.serve.metrics import Metrics
from medcoder.serve.refusals import Refused, busy
from medcoder.serve.settings import Settings
from medcoder.serve.uploads import Uploads
from medcoder.types import Answer

Vector = npt.NDArray[np.float32]


class Options(NamedTuple):
    """How strings are looked up; those with the same go together."""

    top: int = 5
    types: tuple[str, ...] = ()
    vocabularies: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    threshold: float | None = None


class Serving:
    """The index once it is loaded, the projects, uploads and jobs."""

    def __init__(
        self,
        normalizer: Normalizer | Callable[[], Normalizer],
        folder: Path,
        projects: dict[str, Path],
        settings: Settings,
    ) -> None:
        self._source = normalizer
        self._engine = None if callable(normalizer) else Engine(normalizer)
        self.folder, self.settings, self.metrics = folder, settings, Metrics()
        self._given = projects
        self.unlisted: set[str] = set()  # projects that are damaged, which the log has told of
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FolderLock(folder)  # before anything in it is touched
        self.exports = folder / "exports"
        self.exports.mkdir(exist_ok=True, mode=0o700)
        for left in self.exports.iterdir():  # of a process that was killed
            left.unlink()
        self.uploads = Uploads(folder / "uploads", settings)
        self.concepts = ConceptTables(folder / "concepts", settings)
        self.jobs = Jobs(folder / "jobs", self._mapper, limit=settings.jobs)
        shared: dict[str, Any] = {
            "together": settings.together,
            "batch": settings.batch,
            "queue": settings.queue,
        }
        self.answers: Batcher[Options, Answer] = Batcher(
            self._normalize, told=lambda *some: self.metrics.call("normalize", *some), **shared
        )
        self.vectors: Batcher[None, Vector] = Batcher(
            self._encode, told=lambda *some: self.metrics.call("embed", *some), **shared
        )

    # The index

    @property
    def ready(self) -> bool:
        return self._engine is not None

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise busy("loading", "the index is being loaded. Try again in a moment", 2)
        return self._engine

    @property
    def normalizer(self) -> Normalizer:
        return self.engine.normalizer

    def load(self) -> None:
        """Load the index and the encoder."""
        normalizer = self._source() if callable(self._source) else self._source
        engine = self._engine or Engine(normalizer)
        engine.prepare()
        self._engine = engine
        self.jobs.resume()

    async def close(self) -> None:
        """Finish what was asked for; jobs stop, to be gone on with."""
        try:
            await self.answers.close()
            await self.vectors.close()
            self.jobs.close()
            if self._engine is not None:
                self._engine.close()
        finally:
            self._lock.release()

    async def _normalize(self, texts: list[str], options: Options) -> list[Answer]:
        ask = self.normalizer.normalize_many

        def look_up() -> list[Answer]:
            return list(
                ask(
                    texts, top=options.top, types=options.types or None,
                    vocabularies=options.vocabularies or None,
                    languages=options.languages or None, threshold=options.threshold,
                )
            )  # fmt: skip

        return await self.engine.run(look_up)

    async def _encode(self, texts: list[str], options: None) -> list[Vector]:
        engine = self.engine
        return list(await engine.run(lambda: engine.normalizer.encoder.encode(texts)))

    def _mapper(self) -> Mapper:
        return EngineMapper(self.engine)

    # Projects

    def projects(self) -> dict[str, Path]:
        """Project files by their names here: those given, then those of jobs."""
        return self._given | self.jobs.projects()

    def name_of(self, project: str) -> str:
        return project if project in self._given else self.jobs.get(project).name

    def open(self, project: str) -> Project:
        """Open a project for one request."""
        file = self.projects().get(project)
        if file is None:
            raise Refused(404, "no_project", "there is no such project")
        return Project.open(file, wait=self.settings.wait)


def serving(request: Request) -> Serving:
    """What the routes of the application share."""
    found: Serving = request.app.state.serving
    return found
