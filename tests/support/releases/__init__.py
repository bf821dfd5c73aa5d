"""Releases small enough to write down, and what every source must keep to when reading one.

A new source is one line in RELEASES: a function that writes a release and gives "NAME=PATH".
"""

from medcoder.types import SCHEMAS, Tally
from support.releases import obo, omop, rf2, umls


def read(source):
    """All rows by part, as lists of tuples, and the tally; what comes must keep the contract."""
    rows, tally = {part: [] for part in SCHEMAS}, Tally()
    list(source.vocabularies())  # as a build does, first
    done = source.done()
    for part, table in source.concepts(tally):
        assert part in SCHEMAS
        assert part != "edges"
        rows[part] += checked_rows(part, table)
        assert done <= source.done() <= source.size()
        done = source.done()
    concepts = {name: count.as_dict() for name, count in tally.items()}
    for table in source.edges(tally):
        rows["edges"] += checked_rows("edges", table)
        assert source.done() <= source.size()
    assert source.done() == source.size() > 0
    assert all(count.adds_up for count in tally.values()), tally
    assert all(tally[name].read >= count["read"] for name, count in concepts.items())
    return rows, tally


def checked_rows(part, table):
    """Rows of a table that has the columns of its part and nothing missing."""
    schema = SCHEMAS[part]
    assert table.column_names == schema.names
    assert all(column.null_count == 0 for column in table.columns)
    for field in schema:
        kind = str(table.schema.field(field.name).type)
        strings = ("string", "large_string", "string_view")
        assert kind in (strings if str(field.type) == "string" else (str(field.type),))
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def write_obo(folder):
    (folder / "hp.obo").write_text(obo.HEADER + obo.SEIZURE + obo.PARENT + obo.OLD + obo.TYPEDEF)
    return f"obo={folder / 'hp.obo'}"


def write_table(folder):
    (folder / "terms.csv").write_text(
        "concept,term,language,source,code,type\n"
        'C1,"Heart attack, acute",ENG,MSH,D009203,Disease\n'
        "C1,Herzinfarkt,ger,MSH,D009203,Disease\n"
        "C2,NA,en,MSH,D2,\n"
        "C2,,en,MSH,D2,\n"
    )
    (folder / "relations.csv").write_text("head,relation,tail\nC1,is_a,C2\nC1,is_a,C9\n")
    return f"table={folder}"


RELEASES = {
    "obo": write_obo,
    "omop": lambda folder: f"omop={omop.download(folder)}",
    "open": lambda _: "open",
    "rf2": lambda folder: f"rf2={rf2.release(folder)}",
    "table": write_table,
    "umls": lambda folder: f"umls={umls.write_umls(folder)}",
}


def write_release(name, folder):
    """A small release for the source of this name, as `open_source` takes it."""
    return RELEASES[name](folder)


__all__ = ["RELEASES", "read", "write_release"]
