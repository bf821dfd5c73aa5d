"""FHIR R4 ConceptMap as JSON. https://hl7.org/fhir/R4/conceptmap.html

A group holds the elements of a source and a target system. Elements are kept in a file for each
group while the project is read, so memory does not grow with it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import IO, Any

from medcoder.files import replacing
from medcoder.mapping.columns import said
from medcoder.mapping.formats import Format, Seen, confidence_of, is_unchecked, many, terms
from medcoder.mapping.formats.systems import (
    EQUIVALENCE_WORDS,
    asked,
    from_time,
    local,
    prefix_of,
    project_urn,
    source_name,
    system_of,
    to_time,
    versions,
    written_codes,
)
from medcoder.mapping.project import Project
from medcoder.mapping.project.records import TermMapping
from medcoder.text import clean
from medcoder.types import Code, Progress
from medcoder.unfinished import unfinished


def export(
    project: Project, path: Path, *, url: str = "", progress: Progress | None = None
) -> list[str]:
    """Write decisions and automatic mappings.

    url: the canonical address of the map; made of the input and the terminology if not given
    """
    with replacing(path) as partial, contextlib.ExitStack() as stack:
        folder = stack.enter_context(unfinished(partial.with_name(path.name)))
        folder.mkdir()
        writer = _Writer(project, folder, stack)
        for mapping in terms(project, progress):
            writer.add(mapping)
        with partial.open("w", encoding="utf-8") as stream:
            writer.finish(stream, _about(project, url))
    return writer.notes()


class _Writer:
    """Spreads elements over groups."""

    def __init__(self, project: Project, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._source = _source(project)
        self._asked, self._versions = asked(project), versions(project)
        self._groups: dict[str, IO[str]] = {}  # by vocabulary; "" for terms without a match
        self._seen = Seen()
        self._nameless = self._changed = self._codes = 0

    def add(self, mapping: TermMapping) -> None:
        self._seen(mapping)
        if is_unchecked(mapping):
            return
        row = mapping.row
        code = clean(row.code or row.text)
        if not code:
            self._nameless += 1
            return
        self._changed += code != (row.code or row.text)
        element = {"code": code, **({"display": row.text} if clean(row.text) else {})}
        targets: dict[str, list[dict[str, str]]] = {}  # by vocabulary
        for record in mapping.records():
            target = record.target
            codes = written_codes(target, self._asked) if target else [Code("", "")]
            self._codes += target is not None and len(target.codes) > len(codes)
            for entry in codes:
                targets.setdefault(entry.vocabulary, []).append(_target(record, entry))
        for vocabulary, some in targets.items():
            self._put(vocabulary, {**element, "target": some})

    def finish(self, stream: IO[str], about: dict[str, Any]) -> None:
        # The groups come last, so that they can be copied in.
        start = json.dumps(about, ensure_ascii=False, indent=1).removesuffix("\n}")
        stream.write(start)
        for position, (vocabulary, file) in enumerate(self._groups.items()):
            group = json.dumps(self._group(vocabulary), ensure_ascii=False).removesuffix("}")
            stream.write(',\n "group": [' if position == 0 else "]},")
            stream.write(f'\n{group}, "element": [\n')
            file.seek(0)
            shutil.copyfileobj(file, stream)
        stream.write("]}]\n}\n" if self._groups else "\n}\n")

    def notes(self) -> list[str]:
        notes = [*self._seen.single(), *self._seen.undecided()]
        notes.append("who decided and when stands in comments, as text")
        if self._seen.counts["context"]:
            count = many(self._seen.counts["context"], "term")
            notes.append(f"language and context of {count} are not in the file")
        notes += self._seen.flagged("with the reason in their comments")
        notes += self._seen.split("a target for each, with the text of its part in the comment")
        if self._nameless:
            notes.append(f"terms with neither text nor code, left out: {self._nameless:,}")
        if self._changed:
            notes.append(f"codes whose spaces were made single: {self._changed:,}")
        if self._codes:
            notes.append(f"targets with further codes, which are not in the file: {self._codes:,}")
        unknown = sorted(name for name in self._groups if name and not system_of(name).known)
        if unknown:
            notes.append(f"FHIR has no URI for {', '.join(unknown)}: a urn stands for it")
        return notes

    def _put(self, vocabulary: str, element: dict[str, Any]) -> None:
        file = self._groups.get(vocabulary)
        if file is None:
            path = self._folder / str(len(self._groups))
            file = self._stack.enter_context(path.open("w+", encoding="utf-8"))
            self._groups[vocabulary] = file
        else:
            file.write(",\n")
        json.dump(element, file, ensure_ascii=False)

    def _group(self, vocabulary: str) -> dict[str, str]:
        group = dict(self._source)
        if vocabulary:
            group["target"] = system_of(vocabulary).uri
            if version := self._versions.get(vocabulary):
                group["targetVersion"] = version
        return group


def _target(mapping: TermMapping, code: Code) -> dict[str, str]:
    decision, target = mapping.decision, mapping.target
    made = {"code": local(code), "display": target.name} if target else {}
    made = {key: value for key, value in made.items() if value}
    if vocabulary_keeps_prefix(code) and target:
        made["code"] = code.code
    made["equivalence"] = EQUIVALENCE_WORDS[decision.equivalence if decision else "equivalent"].fhir
    if decision is None:
        confidence = confidence_of(mapping) or 0.0
        made["comment"] = _joined(
            f"for the part {mapping.part.text!r}" if mapping.part else "",
            f"mapped automatically with confidence {confidence:.3f}, not reviewed",
            said(mapping),
        )
        return made
    # A comment is what the standard asks for where the target is narrower.
    made["comment"] = _joined(
        decision.note,
        f"{decision.equivalence}, decided by {decision.who}, {decision.when}",
        f"flagged: {mapping.flag}" if mapping.flag else "",
        said(mapping),
    )
    return made


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part.strip())


def vocabulary_keeps_prefix(code: Code) -> bool:
    """Whether FHIR writes the codes of a vocabulary with its name before them, as HP:0001658."""
    return system_of(code.vocabulary).prefix in ("HP", "MONDO", "DOID")


def _source(project: Project) -> dict[str, str]:
    own = project.meta.get("source_vocabulary") or {}
    made = {"source": str(own.get("uri") or system_of(source_name(project)).uri)}
    if own.get("version"):
        made["sourceVersion"] = str(own["version"])
    return made


def _about(project: Project, url: str) -> dict[str, Any]:
    meta, name = project.meta, source_name(project)
    updated = meta.get("updated") or meta.get("created")
    about = {
        "resourceType": "ConceptMap",
        "url": url or project_urn(project),
        "name": prefix_of(name).strip("_").capitalize() or "Mapping",
        "title": f"{name}, mapped by medcoder",
        "status": "draft",
        "date": from_time(to_time(str(updated))) if updated else "",
        "description": f"Made by medcoder {meta.get('medcoder') or ''} from {meta.get('file')}, "
        f"column {meta.get('column')}",
    }
    return {key: value for key, value in about.items() if value}


FORMAT = Format(ending=".json", export=export)
