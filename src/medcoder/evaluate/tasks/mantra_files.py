"""The MANTRA gold standard as it is released: brat files, or XML.

brat: LANGUAGE/CORPUS.../NAME.ann, where a span is `T1<TAB>C0030705 10 18<TAB>patients` and a note
on it `#1<TAB>AnnotatorNotes T1<TAB>("C0030705", "Patients", "Patient or Disabled Group", "LIVB")`,
in some files without the first of the four. XML: CORPUS_GSC_LANGUAGE_man.xml, where a unit has
`<e offset="10" len="8" cui="C0030705" ...>patients</e>`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from medcoder.errors import InputError
from medcoder.evaluate.linking import Dictionary
from medcoder.evaluate.tasks.queries import Query

LANGUAGES = {"dutch": "nl", "english": "en", "french": "fr", "german": "de", "spanish": "es"}
CORPORA = {"emea": "EMEA", "medline": "Medline", "patent": "Patents", "patents": "Patents"}
_XML = re.compile(r"([A-Za-z]+)_GSC_([a-z]{2})(?:_\w+)?\.xml")
_CUI = re.compile(r"C\d{7}")
_SPAN = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")


class Mention(NamedTuple):
    """One annotation: a place in a document, and one concept."""

    place: tuple[str, str]  # document or unit, and the offsets in it
    text: str
    cui: str
    name: str  # preferred name, where the release tells


def files(folder: Path) -> list[Path]:
    """All files of either release below a folder."""
    xml = [file for file in folder.rglob("*.xml") if _XML.fullmatch(file.name)]
    return sorted(xml) or sorted(file for file in folder.rglob("*.ann") if _corpus(file, folder))


def read(folder: Path) -> tuple[list[Query], dict[str, str]]:
    """One query for each span with all its concepts, and the names of the concepts."""
    queries: list[Query] = []
    names: dict[str, str] = {}
    for file in files(folder):
        language, corpus = _corpus(file, folder) or ("", "")
        spans: dict[tuple[str, str], tuple[str, dict[str, None]]] = {}
        for mention in _xml(file) if file.suffix == ".xml" else _brat(file):
            if mention.name:
                names.setdefault(mention.cui, mention.name)
            _, ids = spans.setdefault(mention.place, (mention.text, {}))
            ids[mention.cui] = None
        queries += [
            Query(text, language, "|".join(ids), f"{language}/{corpus}")
            for text, ids in spans.values()
        ]
    return queries, names


def closed_dictionary(folder: Path, names: dict[str, str]) -> Dictionary:
    """The concepts that are annotated, by the preferred names in the annotators' notes."""
    if not names:
        raise InputError(
            "the release gives no names of concepts, so that there is nothing to link to",
            file=folder / "dictionary.tsv",
            remedy="Add this table, with the columns concept_id and term, or use the brat release",
        )
    return Dictionary(list(names), list(names.values()))


def _corpus(file: Path, folder: Path) -> tuple[str, str] | None:
    """Language and corpus, by the name of the file or the folders that it is in."""
    named = _XML.fullmatch(file.name)
    if named:
        corpus = CORPORA.get(named[1].lower(), named[1])
        return named[2], corpus
    parts = [part.lower() for part in file.relative_to(folder).parts[:-1]]
    language = next((LANGUAGES[part] for part in parts if part in LANGUAGES), None)
    corpus = next(
        (
            CORPORA[word]
            for part in reversed(parts)
            for word in re.split(r"[_\W]+", part)[:1]
            if word in CORPORA
        ),
        "",
    )
    return (language, corpus) if language and corpus else None


def _xml(file: Path) -> Iterator[Mention]:
    try:
        root = ElementTree.parse(file).getroot()
    except ElementTree.ParseError as error:
        raise InputError(
            f"it is not XML: {error}", file=file, row=error.position[0], remedy="Unpack it again"
        ) from None
    for number, unit in enumerate(_units(root)):
        for entry in unit.findall("e"):
            cui, text = entry.get("cui", ""), "".join(entry.itertext())
            place = f"{entry.get('offset')} {entry.get('len')}"
            if not cui or not text:
                raise InputError(
                    f"an annotation of unit {unit.get('id')} has no concept or no text",
                    file=file,
                    remedy="Unpack it again",
                )
            yield Mention((unit.get("id") or str(number), place), text, cui, "")


def _units(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Elements that annotations are children of."""
    return (element for element in root.iter() if element.find("e") is not None)


def _brat(file: Path) -> Iterator[Mention]:
    spans: dict[str, tuple[str, str, str]] = {}  # by the name of the span: label, offsets, text
    notes: dict[str, tuple[str, ...]] = {}
    lines = file.read_text(encoding="utf-8-sig").replace("\r\n", "\n").split("\n")
    for row, line in enumerate(lines, 1):
        fields = line.split("\t")
        if line.startswith("T"):
            found = _SPAN.fullmatch(fields[1]) if len(fields) == 3 else None
            if found is None:
                raise InputError(
                    f"it is not a span: {line!r}",
                    file=file,
                    row=row,
                    remedy="brat writes NAME, tab, LABEL START END, tab, TEXT",
                )
            spans[fields[0]] = found[1], found[2], fields[2]
        elif line.startswith("#") and fields[1:2] and fields[1].startswith("AnnotatorNotes "):
            notes[fields[1].partition(" ")[2]] = _note(fields[-1], file, row)
    for name, (label, offsets, text) in spans.items():
        note = notes.get(name, ())
        cui = label if _CUI.fullmatch(label) else next(filter(_CUI.fullmatch, note), "")
        if not cui:
            raise InputError(
                f"the span {name} has no concept, neither as its label nor in its note",
                file=file,
                remedy="Unpack it again",
            )
        # (CUI, name, type, group), or without the first.
        named = note[1:] if note and _CUI.fullmatch(note[0]) else note
        yield Mention((file.stem, offsets), text, cui, named[0] if named else "")


def _note(text: str, file: Path, row: int) -> tuple[str, ...]:
    try:
        values = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        values = None
    if not isinstance(values, (tuple, list)) or not all(isinstance(one, str) for one in values):
        raise InputError(
            f"the note is not a list of texts: {text!r}",
            file=file,
            row=row,
            remedy="Unpack it again",
        )
    return tuple(values)
