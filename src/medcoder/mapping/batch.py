"""Map a table: read it into a project, look every string up once, say what may be trusted."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medcoder import __version__
from medcoder.errors import ArtefactError, UsageError
from medcoder.mapping.auto_threshold import auto_threshold
from medcoder.mapping.lookup import IndexMapper, Mapper, look_up
from medcoder.mapping.project import Project, project_file
from medcoder.mapping.project.decisions import now
from medcoder.mapping.project.records import UNSAID, Role
from medcoder.mapping.project.rows import Adder, Columns, Settings, differences
from medcoder.mapping.project_table import Mapped, write
from medcoder.tables import Reading, Table, grouped, open_table, row_length
from medcoder.tables.limits import Limits, usual
from medcoder.types import Progress

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer

_BATCH = 10_000  # rows of a transaction
_OF_THE_MACHINE = ("terminology", "model")


def map_table(
    source: Any,
    *,
    column: str,
    out: str | Path,
    normalizer: Normalizer | Mapper | None = None,
    code: str = "",
    count: str = "",
    language: str = "",
    context: Mapping[str, Role] | None = None,
    top: int = 5,
    vocabularies: Collection[str] = (),
    precision: float = 0.98,
    targets: str = "any",
    split: bool | None = None,
    source_vocabulary: Mapping[str, str] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    keep_bad_rows: bool = False,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Mapped:
    """Map a column of a table; the folder `out` gets the project, the results and a report.

    If it was interrupted, the same call goes on where it was. If it is done, the same call writes
    results and report again, with what people decided since.

    source: a path (CSV, TSV, XLSX, Parquet), or a frame of pandas, polars or Arrow
    column: holds the strings; code, count, language: columns that hold their local code, how
        often they occur, and their language, which is kept and restricts nothing
    normalizer: by default that of the bundled index
    context: role by column. "type", "vocabulary" and "language" restrict the answers for a row to
        what the column says, which may be several between |; "hint" (a unit, a specimen)
        re-ranks them. Values that the index does not know are counted, and restrict nothing.
    top: candidates of a row; vocabularies: only concepts with a code in one of these
    precision: of automatic mappings; `medcoder.mapping.auto_threshold` says what that means
    targets: "leaf", "billable", "standard": only such concepts; or "any"
    split: several things in a cell are answered one by one, and mapped to a concept each; by
        default they are, and a project that is gone on with stays as it is
    source_vocabulary: name, uri and version of the local codes, for exports
    encoding, delimiter, sheet: how to read the file, where its format leaves that open
    keep_bad_rows: take rows with a wrong number of fields, unmapped, instead of stopping
    limits: of what the file may unpack to; by default those of the command line
    """
    settings = Settings(
        column=column, code=code, count=count, language=language, context=dict(context or {}),
        top=top, vocabularies=tuple(vocabularies), precision=precision, targets=targets,
        split=split,
    )  # fmt: skip
    reading = Reading(
        encoding=encoding, delimiter=delimiter, sheet=sheet, keep_bad_rows=keep_bad_rows,
        limits=limits or usual(),
    )  # fmt: skip
    table = open_table(source, reading)
    columns = Columns.of(table, settings)
    table.check()
    mapper = as_mapper(normalizer)
    # Checks the names of the vocabularies and the targets before anything is made.
    list(_ask_nothing(mapper, settings))
    start = time.perf_counter()
    with Project.create(out) as project:
        _begin(project, table, settings, mapper, dict(source_vocabulary or {}))
        rows = _read(project, table, columns, settings, mapper, progress)
        strings = look_up(project, mapper, top=top, run=project.meta["run"], progress=progress)
        finish(project, precision)
        seconds = time.perf_counter() - start
        timing = {"seconds": seconds, "rows": rows, "strings": strings}
        file = write(project, table, timing=timing, progress=progress)
    return Mapped(path=project_file(out), file=file, source=source, table=table)


def as_mapper(normalizer: Normalizer | Mapper | None) -> Mapper:
    """A normaliser as mapping sees it; by default, that of the bundled index."""
    from medcoder.normalize import Normalizer

    if normalizer is None:
        normalizer = Normalizer.load()
    return IndexMapper(normalizer) if isinstance(normalizer, Normalizer) else normalizer


def finish(project: Project, precision: float) -> None:
    """All strings are mapped: choose the threshold."""
    with project.transaction():
        made = auto_threshold(project, precision)
        project.put(**made, complete=True, settled=project.meta["run"], updated=now())


def _ask_nothing(mapper: Mapper, settings: Settings) -> Any:
    return mapper.normalize_many(
        [], top=1, types=None, vocabularies=settings.vocabularies or None, languages=None,
        targets=settings.targets, split=settings.split is not False,
    )  # fmt: skip


def _begin(
    project: Project,
    table: Table,
    settings: Settings,
    mapper: Mapper,
    vocabulary: dict[str, str],
) -> None:
    """Say in a new project what it is of; check that an old project is of the same."""
    wanted = {"sha256": table.fingerprint(), **settings.as_meta(), **mapper.describe()}
    with project.transaction():
        known = project.meta
        if settings.split is None:
            wanted["split"] = bool((UNSAID | known)["split"]) if known else True
        if known:
            _check_same(project, known, wanted)
        else:
            made = now()
            project.put(
                **wanted,
                header=table.header,
                file=table.name,
                format=table.format,
                delimiter=getattr(table, "delimiter", ""),
                marked=getattr(table, "marked", False),
                source_vocabulary={"name": "", "uri": "", "version": ""} | vocabulary,
                medcoder=__version__,
                created=made,
                updated=made,
                precision=settings.precision,
                threshold=None,
                expected={"terms": None, "rows": None, "count": None},
                unknown_context={},
                bad_rows=0,
                rows=0,
                read=False,
                run=1,
                settled=0,
                complete=False,
            )


def _check_same(project: Project, known: dict[str, Any], wanted: dict[str, Any]) -> None:
    if known.get("refreshing"):
        raise UsageError(
            "a refresh of the project is not done",
            where=project.path.parent,
            remedy=f"Go on with it first: medcoder map refresh {project.path.parent}",
        )
    reasons = differences(known, wanted)
    if not reasons:
        return
    said = UNSAID | known
    changed = [key for key in wanted if said.get(key) != wanted[key]]
    if set(changed) <= set(_OF_THE_MACHINE):
        remedy = f"Bring it up to date with: medcoder map refresh {project.path.parent}"
        if not known["complete"]:
            remedy = "Choose another folder for --out, or use the index that it was begun with"
    elif changed == ["split"]:
        option = "--split" if said["split"] else "--no-split"
        remedy = f"Go on with it with {option}, or choose another folder for --out"
    else:
        remedy = "Choose another folder for --out"
    raise UsageError(
        "the folder holds a project that cannot be gone on with",
        where=project.path.parent,
        values="; ".join(reasons),
        remedy=remedy,
    )


def _read(
    project: Project,
    table: Table,
    columns: Columns,
    settings: Settings,
    mapper: Mapper,
    progress: Progress | None,
) -> int:
    """Add the rows that are not in the project yet; says how many there were."""
    meta = project.meta
    done = before = int(meta["rows"])
    if meta["read"]:
        return 0
    adder = Adder(
        project.base, columns, settings, mapper, file=table.name or None,
        unknown=meta["unknown_context"],
    )  # fmt: skip
    bad = meta["bad_rows"]
    stream = table.rows(skip=done)
    for rows in grouped(stream, _BATCH, row_length):
        with project.transaction():
            if project.meta["rows"] != done:
                raise ArtefactError(
                    "another process is mapping into this folder",
                    where=project.path.parent,
                    remedy="Wait until it is done",
                )
            bad += adder.add(done + 1, rows)
            done += len(rows)
            project.put(rows=done, bad_rows=bad, unknown_context=adder.unknown)
        if progress is not None:
            progress("reading", done, max(table.size(), done))
    project.put(read=True)
    return done - before
