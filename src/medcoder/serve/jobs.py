"""Tables that are being mapped: each in a folder of its own, gone on with after a restart."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from medcoder.errors import InputError, MedcoderError
from medcoder.files import disk_full, replacing
from medcoder.files import no_room as is_full
from medcoder.mapping import map_table
from medcoder.mapping.lookup import Mapper
from medcoder.mapping.project import FILE
from medcoder.mapping.project.decisions import now
from medcoder.mapping.project.records import UNSAID
from medcoder.serve.error_replies import (
    Refused,
    failure_place,
    input_message,
    library_reply,
    no_room,
    too_many,
)
from medcoder.serve.uploads import Upload
from medcoder.tables.limits import Limits

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]
LOGGER = logging.getLogger("medcoder.serve")
_DESCRIBED = "job.json"
_OUT, _GONE = "out", "gone"  # what was mapped; the same while it is deleted
_ID = re.compile(r"[0-9a-f]{32}")


class _Stopped(Exception):
    """Somebody cancelled the job, or the service goes down."""


@dataclass(kw_only=True)
class Job:
    """A table that is mapped, and how far it is."""

    id: str
    name: str
    options: dict[str, Any]  # of `map_table`
    created: str
    state: JobState = "waiting"
    what: str = ""
    done: int = 0
    total: int = 0
    error: str | None = None
    cancelled: bool = False  # somebody asked for it, whether or not it has stopped
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def active(self) -> bool:
        return self.state in ("waiting", "running")


class Jobs:
    """All jobs of a folder; a few run at a time."""

    def __init__(
        self,
        folder: Path,
        mapper: Callable[[], Mapper],
        *,
        limit: int,
        limits: Limits | None = None,
    ) -> None:
        """`limits`: of what a table may unpack to."""
        self.folder, self._mapper, self._limit = folder, mapper, limit
        self._limits = limits or Limits()
        self._lock, self._keeping = threading.Lock(), threading.Lock()
        self._pool = ThreadPoolExecutor(limit, thread_name_prefix="medcoder-job")
        self._closing = False
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _forget_undescribed(folder)
        self._jobs = {job.id: job for job in map(_read, sorted(folder.glob(f"*/{_DESCRIBED}")))}
        for job in self.all():
            self._tidy_left(job)
        self._left = [job for job in self.all() if job.active]

    def resume(self) -> None:
        """Go on with those that were not done when the service went down.

        Not with those that were started since: they run already.
        """
        while self._left:
            self._pool.submit(self._run, self._left.pop(0))

    def start(self, upload: Upload, name: str, options: dict[str, Any]) -> Job:
        number = uuid.uuid4().hex
        place = self.folder / number
        job = Job(
            id=number, name=name or upload.name, options=upload.reading | options, created=now()
        )
        with self._lock:
            active = sum(one.active for one in self._jobs.values())
            if active >= self._limit:
                raise too_many(
                    "too_many_jobs", f"{active} tables are being mapped. Wait for one of them",
                    limit=self._limit, seconds=10,
                )  # fmt: skip
            place.mkdir(mode=0o700)
            self._jobs[number] = job
        try:
            _copy(upload.file, place / f"table{upload.file.suffix}")
            self._keep(job)
        except BaseException:
            with self._lock:
                del self._jobs[number]
            shutil.rmtree(place, ignore_errors=True)
            raise
        self._pool.submit(self._run, job)
        return job

    def all(self) -> list[Job]:
        with self._lock:
            return sorted(self._jobs.values(), key=lambda job: (job.created, job.id))

    def get(self, number: str) -> Job:
        with self._lock:
            job = self._jobs.get(number)
        if job is None:
            raise Refused(404, "no_job", "there is no such job")
        return job

    def cancel(self, number: str) -> Job:
        """Stop a job at its next step; what it mapped is deleted. One that is done stays."""
        job = self.get(number)
        if job.active:
            job.cancelled = True  # kept, so that it holds if the service goes down before that step
            self._try_to_keep(job)
            job.stop.set()
        return job

    def projects(self) -> dict[str, Path]:
        """Project files by the id of their job, of those that have one."""
        found = {}
        for job in self.all():
            file = self.folder / job.id / _OUT / FILE
            if job.state in ("running", "done") and file.is_file():
                found[job.id] = file
        return found

    def close(self) -> None:
        """Stop at the next step of each; a new start goes on from there."""
        self._closing = True
        for job in self.all():
            job.stop.set()
        self._pool.shutdown()

    def _run(self, job: Job) -> None:
        place = self.folder / job.id
        try:
            self._check(job)
            job.state = "running"
            [table] = place.glob("table.*")

            def progress(what: str, done: int, total: int) -> None:
                self._check(job)
                job.what, job.done, job.total = what, done, total

            map_table(
                table, out=place / _OUT, normalizer=self._mapper(), progress=progress,
                limits=self._limits, **job.options,
            )  # fmt: skip
            job.state = "done"
        except _Stopped:
            if self._closing and not job.cancelled:
                return
            job.state = "cancelled"
        except InputError as error:
            job.state, job.error = "failed", input_message(error)
        except MedcoderError as error:
            job.state, job.error = "failed", library_reply(error).message
        except Exception as error:
            LOGGER.error("a job failed: %s", failure_place(error))
            job.state, job.error = "failed", "the table could not be mapped: see the log"
            if is_full(error):
                job.error = no_room().message
        self._end(job)

    def _end(self, job: Job) -> None:
        """Say on disk how a job ended, then delete what it needs no more.

        Without its table, one that is done but does not say so would be begun again and fail.
        """
        kept = self._try_to_keep(job)
        if kept or job.state != "done":
            _tidy(self.folder / job.id, job)
        if not kept and job.state != "done":
            self._try_to_keep(job)  # there may be room now

    def _tidy_left(self, job: Job) -> None:
        """What a process that was killed did not come to."""
        if job.active and job.cancelled:
            job.state = "cancelled"
            self._end(job)
        elif not job.active:
            _tidy(self.folder / job.id, job)

    def _check(self, job: Job) -> None:
        if job.stop.is_set():
            raise _Stopped

    def _try_to_keep(self, job: Job) -> bool:
        try:
            self._keep(job)
        except Exception as error:
            LOGGER.error("the state of a job cannot be written: %s", failure_place(error))
            return False
        return True

    def _keep(self, job: Job) -> None:
        names = ("id", "name", "options", "created", "state", "error", "cancelled", "done", "total")
        file = self.folder / job.id / _DESCRIBED
        with self._keeping, replacing(file) as partial:
            said = {name: getattr(job, name) for name in names}
            partial.write_text(json.dumps(said), encoding="utf-8")


def _read(file: Path) -> Job:
    said = json.loads(file.read_text(encoding="utf-8"))
    assert _ID.fullmatch(said["id"])
    if said["state"] == "running":
        said["state"] = "waiting"
    said["options"] = UNSAID | said["options"]
    return Job(**said)


def _forget_undescribed(folder: Path) -> None:
    """Delete what was left of jobs that did not come to be one."""
    for place in folder.iterdir():
        if _ID.fullmatch(place.name) and not (place / _DESCRIBED).is_file():
            shutil.rmtree(place, ignore_errors=True)


def _tidy(place: Path, job: Job) -> None:
    """Delete the table of a job that ended, and unless it is done, what was mapped of it."""
    if job.state != "done":
        # In one go: of a project that loses its files one by one, others would make new ones.
        with contextlib.suppress(OSError):
            (place / _OUT).rename(place / _GONE)
        for left in (_OUT, _GONE):
            shutil.rmtree(place / left, ignore_errors=True)
    for table in place.glob("table.*"):
        with contextlib.suppress(OSError):
            table.unlink()


def _copy(source: Path, target: Path) -> None:
    """A second name for the file where the disk has such: the upload may be forgotten."""
    try:
        os.link(source, target)
    except OSError:
        with disk_full(target):
            shutil.copyfile(source, target)
