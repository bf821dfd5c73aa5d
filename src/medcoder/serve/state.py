"""What the routes of one application share."""

from __future__ import annotations

import contextlib
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from fastapi import Request

from medcoder.errors import UsageError
from medcoder.files import disk_full, locked
from medcoder.kg.masks import TARGETS, with_flag
from medcoder.mapping import Project
from medcoder.mapping.lookup import Mapper
from medcoder.normalize import Normalizer
from medcoder.serve.engine import Batcher, Engine, EngineMapper
from medcoder.serve.error_replies import Refused, busy
from medcoder.serve.jobs import Jobs
from medcoder.serve.metrics import Metrics
from medcoder.serve.settings import Settings
from medcoder.serve.uploads import ConceptTables, Uploads
from medcoder.types import CONCEPT_FLAGS, Answer

_TRIED = "fever of unknown origin"
Vector = npt.NDArray[np.float32]


class LookupOptions(NamedTuple):
    """How strings are looked up; those with the same go together."""

    top: int = 5
    types: tuple[str, ...] = ()
    vocabularies: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    threshold: float | None = None
    targets: str = "any"
    split: bool = False


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
        try:
            with disk_full(folder):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                (folder / "exports").mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise UsageError(
                "uploads and projects cannot be kept",
                where=folder,
                values=error.strerror or error,
                remedy="Give a folder that you may write to with --folder, or set MEDCODER_HOME",
            ) from error
        # One service a folder, before anything in it is touched: two would delete what the other
        # is writing, and map its tables twice. Let go of at the end of the process at the latest.
        held = contextlib.ExitStack()
        held.enter_context(locked(folder, busy=_in_use(folder)))
        self.release = weakref.finalize(self, held.close)
        self.exports = folder / "exports"
        for left in self.exports.iterdir():  # of a process that was killed
            left.unlink()
        self.uploads = Uploads(folder / "uploads", settings)
        self.concepts = ConceptTables(folder / "concepts", settings)
        self.jobs = Jobs(folder / "jobs", self._mapper, limit=settings.jobs, limits=settings.limits)
        self.answers: Batcher[LookupOptions, Answer] = self._batcher("normalize", self._normalize)
        self._targets: list[str] | None = None
        self._known: OrderedDict[tuple[str, LookupOptions], Answer] = OrderedDict()
        self.vectors: Batcher[None, Vector] = self._batcher("embed", self._encode)

    def _batcher(self, call: str, look_up: Callable[..., Awaitable[Any]]) -> Batcher[Any, Any]:
        return Batcher(
            look_up,
            together=self.settings.together,
            batch=self.settings.batch,
            queue=self.settings.queue,
            count=partial(self.metrics.count_call, call),
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
        # All of a look-up: it is not ready if every one fails.
        engine.call(lambda: normalizer.normalize(_TRIED, top=1))
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
            self.release()

    async def look_up(self, texts: Sequence[str], options: LookupOptions) -> list[Answer]:
        """Answers in order; those given lately are given again, which an index never changes."""
        known = {text: self._remembered((text, options)) for text in texts}
        new = [text for text, answer in known.items() if answer is None]
        if new:
            known.update(zip(new, await self.answers.ask(new, options), strict=True))
        for text in new:
            self._remember((text, options), known[text])
        return [answer for text in texts if (answer := known[text]) is not None]

    def _remembered(self, asked: tuple[str, LookupOptions]) -> Answer | None:
        answer = self._known.get(asked)
        if answer is not None:
            self._known.move_to_end(asked)
        return answer

    def _remember(self, asked: tuple[str, LookupOptions], answer: Answer | None) -> None:
        if answer is not None and self.settings.answers:
            self._known[asked] = answer
            while len(self._known) > self.settings.answers:
                self._known.popitem(last=False)

    async def _normalize(self, texts: list[str], options: LookupOptions) -> list[Answer]:
        ask = self.normalizer.normalize_many

        def look_up() -> list[Answer]:
            return list(
                ask(
                    texts, top=options.top, types=options.types or None,
                    vocabularies=options.vocabularies or None,
                    languages=options.languages or None, threshold=options.threshold,
                    targets=options.targets, split=options.split,
                )
            )  # fmt: skip

        return await self.engine.run(look_up)

    async def _encode(self, texts: list[str], options: None) -> list[Vector]:
        engine = self.engine
        return list(await engine.run(lambda: engine.normalizer.encoder.encode(texts)))

    def targets(self) -> list[str]:
        """Which targets there are: what the graph does not say of its concepts is none."""
        kg = self.normalizer.kg
        if self._targets is None:
            self._targets = [
                name for name in TARGETS
                if name not in CONCEPT_FLAGS or bool(with_flag(kg, name).any())
            ]  # fmt: skip
        return self._targets

    def check_targets(self, name: str) -> None:
        if name not in self.targets():
            raise Refused(
                404,
                "no_targets",
                "this index does not say which concepts are such. See /v1/filters",
            )

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
    state: Serving = request.app.state.serving
    return state


def _in_use(folder: Path) -> UsageError:
    return UsageError(
        "it is in use by another medcoder serve",
        where=folder,
        remedy="Stop that one, or give this one another folder with --folder",
    )
