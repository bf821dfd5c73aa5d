"""Whether every number of a graph refers to something that there is: reads all of it."""

from __future__ import annotations

from medcoder.arrays import check_ascending, check_inside
from medcoder.errors import ArtefactError
from medcoder.kg.columns import INFO, LINE
from medcoder.kg.graph import KG

_BLOCK = 1 << 16  # concepts that are looked at at a time


def check_graph(kg: KG) -> None:
    """Raise ArtefactError for the first file that is not as a build writes it.

    Digests tell whether a file was changed; this tells whether it can be used, whoever made it.
    """
    path, terms, edges = kg.path, kg.terms, kg.edges
    for firsts in (terms.first, terms.first_byte):
        check_ascending(path / "concept.terms.int64", firsts)
    check_ascending(path / "concept.types.int64", kg.first_type)
    check_ascending(path / "concept.xrefs.int64", kg.first_xref)
    check_ascending(path / "concept.in.int64", edges.first_in)
    check_ascending(path / "xref.code.offsets.int64", kg._xref_codes.offsets)
    named = (kg.languages, kg.vocabularies, kg.kinds)
    for column, names in zip(range(INFO), named, strict=True):
        check_inside(path / "term.info.uint16", terms.info[:, column], len(names))
    for column, names in enumerate((kg.vocabularies, kg.kinds)):
        check_inside(path / "xref.info.uint16", kg.xref_info[:, column], len(names))
    check_inside(path / "type.uint16", kg.type_numbers, len(kg.types))
    check_inside(path / "edge.in.uint32", edges.into, len(edges))
    _check_edges(kg)
    for keys, name in zip(kg._look_ups, ("id", "text", "code"), strict=True):
        check_ascending(path / f"find.{name}.uint64", keys.keys)
        for start in range(0, len(keys.keys), _BLOCK):
            numbers = keys.numbers(keys.keys[start : start + _BLOCK])
            check_inside(path / f"find.{name}.uint64", numbers, len(kg))
    _check_texts(kg)


def _check_edges(kg: KG) -> None:
    file = kg.path / "edge.uint64"
    check_ascending(file, kg.edges.keys, strictly=True)
    for start in range(0, len(kg.edges), _BLOCK):
        triples = kg.triples(slice(start, start + _BLOCK))
        check_inside(file, triples.head, len(kg))
        check_inside(file, triples.relation, len(kg.relations))
        check_inside(file, triples.tail, len(kg))


def _check_texts(kg: KG) -> None:
    """Whether the strings are text, as many lines of it as there are."""
    first, first_byte = kg.terms.first, kg.terms.first_byte
    for low in range(0, len(kg), _BLOCK):
        high = min(low + _BLOCK, len(kg))
        data = kg.terms.data(int(first_byte[low]), int(first_byte[high]))
        lines = 2 * int(first[high] - first[low]) + high - low  # an id; text and code of each term
        try:
            whole = data.decode().count(LINE) == lines
        except UnicodeDecodeError:
            whole = False
        if not whole or data[-1:] != LINE.encode():
            raise ArtefactError(
                "its lines are not as they should be",
                where=kg.path / "term.data",
                values=f"concepts {low:,} to {high:,}",
                remedy="Copy or build it again",
            )
