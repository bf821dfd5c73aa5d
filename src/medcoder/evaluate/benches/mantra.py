"""MANTRA: annotated spans to UMLS concepts, one prediction a span, by language and corpus.

Two tables, or the gold standard as it is released:

brat: LANGUAGE/CORPUS.../NAME.ann, where a span is `T1<TAB>C0030705 10 18<TAB>patients` and a note
on it `#1<TAB>AnnotatorNotes T1<TAB>("C0030705", "Patients", "Patient or Disabled Group", "LIVB")`,
in some files without the first of the four. XML: CORPUS_GSC_LANGUAGE_man.xml, where a unit has
`<e offset="10" len="8" cui="C0030705" ...>patients</e>`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from medcoder.errors import InputError
from medcoder.evaluate.benches.linking import (
    DICTIONARY,
    QUERIES,
    Linked,
    Linking,
    Query,
    grouped,
    read_dictionary,
    read_queries,
    splits,
    two_tables,
)
from medcoder.evaluate.benches.task import Card, Metric, figure
from medcoder.evaluate.metrics import mean, precision_recall_f1
from medcoder.evaluate.ranking import Dictionary
from medcoder.evaluate.results import Context, Embedding, Figure, Linker, Result, Rows
from medcoder.tables.text import read_lines


@dataclass(frozen=True)
class Annotations(Linking):
    """Precision = hits / predictions, recall = hits / gold ids, and their micro F1.

    A span may have several gold ids, and one concept is predicted for it. "accuracy" takes each
    gold id of a span as an annotation of its own and is the share of those that are predicted:
    what the reference code calls F1. "acc@k" takes a span as right if it has any of its ids.
    """

    def files(self, data: Path, context: Context) -> list[Path]:
        folder = self.card.folder_in(data)
        if (folder / QUERIES).exists():
            return super().files(data, context)
        own = [folder / DICTIONARY] if (folder / DICTIONARY).exists() else []
        return own + release_files(folder) or super().files(data, context)

    def has_data(self, data: Path, context: Context) -> bool:
        inside = data / (self.card.folder or self.card.name)
        return super().has_data(data, context) or bool(release_files(inside))

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        self.files(data, context)
        return self.measure(system, *self.read(self.card.folder_in(data)), context)

    def read(self, folder: Path) -> tuple[list[Query], Dictionary]:
        """The two tables, or the brat or XML release, whichever is there."""
        if (folder / QUERIES).exists():
            return read_queries(folder / QUERIES), read_dictionary(folder / DICTIONARY)
        queries, named = read_release(folder)
        if (folder / DICTIONARY).exists():
            return queries, read_dictionary(folder / DICTIONARY)
        return queries, closed_dictionary(folder, named)

    def measure(
        self,
        system: Embedding | Linker,
        queries: Sequence[Query],
        dictionary: Dictionary,
        context: Context,
    ) -> Result:
        placed = [query._replace(split=corpus_split(query)) for query in queries]
        return super().measure(system, placed, dictionary, context)

    def splits(
        self, queries: Sequence[Query], linked: Linked, context: Context
    ) -> Iterator[tuple[str, Rows]]:
        yield from splits(queries, linked, seen=context.seen is not None)
        if context.seen is not None:
            for language, rows in grouped([query.language for query in queries]):
                unseen = rows[~linked.seen[rows]]
                if len(unseen):
                    yield f"unseen/{language}", unseen

    def figures(
        self, split: str, rows: Rows, queries: Sequence[Query], linked: Linked, context: Context
    ) -> Iterator[Figure]:
        draws: dict[str, Any] = {"resamples": context.resamples, "seed": context.seed}
        gold = np.array([len(queries[row].ids) for row in rows])
        predicted = linked.ranked.rows[rows, 0] >= 0
        hits = linked.ranks[rows] == 0
        coverage = float(linked.known[rows].mean())
        estimates = precision_recall_f1(hits, predicted, gold, **draws)
        for metric, estimate in zip(("precision", "recall", "f1"), estimates, strict=True):
            yield figure(split, metric, estimate, len(rows), coverage=coverage)
        # An entry for each gold id; of a span, at most one is predicted.
        first = np.cumsum(gold) - gold
        annotations = np.zeros(int(gold.sum()))
        annotations[first[hits]] = 1
        yield figure(
            split, "accuracy", mean(annotations, **draws), len(annotations), coverage=coverage
        )
        yield from super().figures(split, rows, queries, linked, context)


def corpus_split(query: Query) -> str:
    """LANGUAGE/CORPUS, of "de_EMEA" too."""
    prefix = f"{query.language}_"
    if query.split.startswith(prefix):
        return f"{query.language}/{query.split.removeprefix(prefix)}"
    return query.split


# The release

METRICS = tuple(map(Metric, ("f1", "accuracy", "precision", "recall")))
LANGUAGES = {"dutch": "nl", "english": "en", "french": "fr", "german": "de", "spanish": "es"}
CORPORA = {"emea": "EMEA", "medline": "Medline", "patent": "Patents", "patents": "Patents"}
_XML = re.compile(r"([A-Za-z]+)_GSC_([a-z]{2})(?:_\w+)?\.xml")
_CUI = re.compile(r"C\d{7}")
_SPAN = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")


class Mention(NamedTuple):
    """One annotation: a place in a document, and one concept."""

    position: tuple[str, str]  # document or unit, and the offsets in it
    text: str
    cui: str
    name: str  # preferred name, where the release tells


def release_files(folder: Path) -> list[Path]:
    """All files of either release below a folder."""
    xml = [file for file in folder.rglob("*.xml") if _XML.fullmatch(file.name)]
    return sorted(xml) or sorted(file for file in folder.rglob("*.ann") if _corpus(file, folder))


def read_release(folder: Path) -> tuple[list[Query], dict[str, str]]:
    """One query for each span with all its concepts, and the names of the concepts."""
    queries: list[Query] = []
    names: dict[str, str] = {}
    for file in release_files(folder):
        language, corpus = _corpus(file, folder) or ("", "")
        spans: dict[tuple[str, str], tuple[str, dict[str, None]]] = {}
        for mention in _xml(file) if file.suffix == ".xml" else _brat(file):
            if mention.name:
                names.setdefault(mention.cui, mention.name)
            _, ids = spans.setdefault(mention.position, (mention.text, {}))
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
            position = f"{entry.get('offset')} {entry.get('len')}"
            if not cui or not text:
                raise InputError(
                    f"an annotation of unit {unit.get('id')} has no concept or no text",
                    file=file,
                    remedy="Unpack it again",
                )
            yield Mention((unit.get("id") or str(number), position), text, cui, "")


def _units(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Elements that annotations are children of."""
    return (element for element in root.iter() if element.find("e") is not None)


def _brat(file: Path) -> Iterator[Mention]:
    spans: dict[str, tuple[str, str, str]] = {}  # by the name of the span: label, offsets, text
    notes: dict[str, tuple[str, ...]] = {}
    for row, line in enumerate(read_lines(file), 1):
        fields = line.split("\t")
        if line.startswith("T"):
            match = _SPAN.fullmatch(fields[1]) if len(fields) == 3 else None
            if match is None:
                raise InputError(
                    f"it is not a span: {line!r}",
                    file=file,
                    row=row,
                    remedy="brat writes NAME, tab, LABEL START END, tab, TEXT",
                )
            spans[fields[0]] = match[1], match[2], fields[2]
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
    if not isinstance(values, (tuple, list)) or not all(isinstance(value, str) for value in values):
        raise InputError(
            f"the note is not a list of texts: {text!r}",
            file=file,
            row=row,
            remedy="Unpack it again",
        )
    return tuple(values)


# Benches

MANTRA = Annotations(
    Card(
        name="mantra",
        title="MANTRA GSC",
        about=(
            "Annotated spans of Medline titles, drug labels and patents in five languages to UMLS: "
            "4,815 spans against one English name of each of the 1,365 concepts that are "
            "annotated. The paper ranks 801,038 concepts, which needs a UMLS licence: put them "
            "into dictionary.tsv and allow other data. Takes the two tables, or the brat or the "
            "XML release unpacked; XML has no names, and needs dictionary.tsv."
        ),
        origin="mi-erasmusmc/Mantra-Gold-Standard-Corpus on GitHub",
        licence="CC BY 4.0 by its homepage, GPL-3.0 by its repository",
        files=two_tables(
            queries=(4_815, "73e723efdcbea27481cf8d50dc3c4313665bb4f12786c8939695f12f3c041213"),
            dictionary=(1_365, "f8b38c587044aa68c2c5bec0f257331871de6892dcf497266212d8627d1754b1"),
        ),
        metrics=METRICS,
        by_language="f1",
        reference="Kors et al. 2015, A multilingual gold-standard corpus: the Mantra GSC",
    )
)

MANTRA_OPEN = Annotations(
    Card(
        name="mantra_open",
        title="MANTRA GSC, open dictionary",
        about=(
            "The spans of MANTRA GSC against the names of its own concepts and of some 24,000 "
            "others, 63,867 English terms in all: nearer to what the paper does than the names of "
            "its own concepts alone."
        ),
        origin="mi-erasmusmc/Mantra-Gold-Standard-Corpus on GitHub, and open names of concepts",
        licence="CC BY 4.0 by its homepage, GPL-3.0 by its repository; names of mixed licences",
        files=two_tables(
            queries=(4_815, "73e723efdcbea27481cf8d50dc3c4313665bb4f12786c8939695f12f3c041213"),
            dictionary=(63_867, "7b351b0048159eb20fa3cac03c3329bd3d99028d984347b9b555829cee072d78"),
        ),
        metrics=METRICS,
        by_language="f1",
        reference="Kors et al. 2015, A multilingual gold-standard corpus: the Mantra GSC",
    )
)
