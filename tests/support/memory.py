"""A source that holds its rows in lists, for tests of what comes after the reading."""

import pyarrow as pa

from medcoder.types import SCHEMAS


def table(part, rows):
    """An Arrow table of one part from tuples."""
    schema = SCHEMAS[part]
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


class MemorySource:
    """Rows of each part, given out as tables of at most `chunk` rows."""

    def __init__(
        self,
        *,
        name="memory",
        namespace="",
        vocabularies=(),
        terms=(),
        types=(),
        xrefs=(),
        flags=(),
        edges=(),
        chunk=1000,
    ):
        self.name, self.namespace = name, namespace
        self._vocabularies = vocabularies
        self._parts = {"terms": terms, "types": types, "xrefs": xrefs, "flags": flags}
        self._edges = edges
        self._chunk = chunk
        self._done = 0

    def vocabularies(self):
        return self._vocabularies

    def size(self):
        return sum(map(len, [*self._parts.values(), self._edges]))

    def done(self):
        return self._done

    def concepts(self, tally):
        for part, rows in self._parts.items():
            for found in self._tables(part, rows, tally):
                yield part, found

    def edges(self, tally):
        return self._tables("edges", self._edges, tally)

    def _tables(self, part, rows, tally):
        rows = list(rows)
        for start in range(0, len(rows), self._chunk):
            some = rows[start : start + self._chunk]
            count = tally[f"{self.name} {part}"]
            count.read += len(some)
            count.kept += len(some)
            self._done += len(some)
            yield table(part, some)
