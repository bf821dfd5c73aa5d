"""Damage to files, drawn by a seeded generator."""

import gzip
import io
import random
import re
import zipfile
from collections.abc import Callable

_NUMBERS = (b"99999999999999999999", b"-1", b"1e999", b"nan", b"0x7f", b"4294967296", b"1" * 5000)
_ODD = (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"\x1b[31m", b"\xe2\x80\xa8", b"\xc2\x85")
_ODD += (b"\r", b"\n", b'"', b"'", b"\\", b"\t", b",", b"|", b"=cmd|", b"\x08", b"\xe2\x80\xae")
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"PK\x03\x04", b"PAR1")
_SEPARATORS = (b",", b";", b"\t", b"|", b" ")
_ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-8-sig")
_ENDS = (b"\r", b"\r\n", b"\n\r", b"\n\n", b"\xe2\x80\xa8", b"\0", b"")
_LARGEST = 1 << 20  # bytes of a damaged file: limits for large ones have an attack of their own

Mutation = Callable[[bytes, random.Random, bytes], bytes]


def mutated(data: bytes, rng: random.Random, other: bytes, name: str) -> tuple[bytes, str]:
    """The file after one to three mutations, and their names; `other` is a file to splice with."""
    if data[:2] == b"PK" and rng.random() < 0.6:
        return _in_zip(data, rng, other)
    if name.endswith(".gz") and rng.random() < 0.6:
        inner, said = _mutated(gzip.decompress(data), rng, other)
        return gzip.compress(inner), f"inside: {said}"
    return _mutated(data, rng, other)


def _mutated(data: bytes, rng: random.Random, other: bytes) -> tuple[bytes, str]:
    said = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name, function = rng.choice(tuple(MUTATIONS.items()))
        data = function(data, rng, other)[:_LARGEST]
        said.append(name)
    return data, ", ".join(said)


def _in_zip(data: bytes, rng: random.Random, other: bytes) -> tuple[bytes, str]:
    """A member of an archive is damaged, and the archive is whole."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        members = {name: old.read(name) for name in old.namelist()}
        chosen = rng.choice(list(members))
        members[chosen], said = _mutated(members[chosen], rng, other)
        for name, content in members.items():
            new.writestr(name, content, zipfile.ZIP_DEFLATED)
    return made.getvalue(), f"{chosen}: {said}"


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randint(0, len(data))


def _slice(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = _place(data, rng)
    return start, min(len(data), start + rng.choice((1, 2, 5, 20, 100, 1000)))


def _flip(data: bytes, rng: random.Random, _: bytes) -> bytes:
    changed = bytearray(data)
    for _unused in range(rng.randint(1, 8) if data else 0):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _insert(data: bytes, rng: random.Random, _: bytes) -> bytes:
    at = _place(data, rng)
    return data[:at] + rng.randbytes(rng.choice((1, 3, 16, 200))) + data[at:]


def _odd(data: bytes, rng: random.Random, _: bytes) -> bytes:
    for _unused in range(rng.randint(1, 4)):
        at = _place(data, rng)
        data = data[:at] + rng.choice(_ODD) + data[at:]
    return data


def _delete(data: bytes, rng: random.Random, _: bytes) -> bytes:
    start, end = _slice(data, rng)
    return data[:start] + data[end:]


def _duplicate(data: bytes, rng: random.Random, _: bytes) -> bytes:
    start, end = _slice(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 2, 50)) + data[end:]


def _splice(data: bytes, rng: random.Random, other: bytes) -> bytes:
    return data[: _place(data, rng)] + other[_place(other, rng) :]


def _separators(data: bytes, rng: random.Random, _: bytes) -> bytes:
    old, new = rng.sample(_SEPARATORS, 2)
    return data.replace(old, new, rng.choice((-1, 1, 5)))


def _encoding(data: bytes, rng: random.Random, _: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(rng.choice(_ENCODINGS), "replace")


def _ends(data: bytes, rng: random.Random, _: bytes) -> bytes:
    return data.replace(b"\n", rng.choice(_ENDS), rng.choice((-1, 1, 3)))


def _number(data: bytes, rng: random.Random, _: bytes) -> bytes:
    found = list(re.finditer(rb"\d+", data))
    if not found:
        return data
    hit = rng.choice(found)
    return data[: hit.start()] + rng.choice(_NUMBERS) + data[hit.end() :]


def _nesting(data: bytes, rng: random.Random, _: bytes) -> bytes:
    at = _place(data, rng)
    opening = rng.choice((b"[", b"{", b"(", b"<a>", b'"', b"[[", b"a.", b'{"a":'))
    return data[:at] + opening * rng.choice((10, 5000)) + data[at:]


def _lines(data: bytes, rng: random.Random, _: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[0])
        case 2:
            rng.shuffle(lines)
        case _:
            lines[at] = lines[at] * 300
    return b"".join(lines)


def _cells(data: bytes, rng: random.Random, _: bytes) -> bytes:
    """A cell becomes that of another place, empty, or very long."""
    cells = re.split(rb"([,;\t|\r\n]+)", data)
    at = 2 * rng.randrange((len(cells) + 1) // 2)
    long = b"x" * rng.choice((1000, 100_000))
    cells[at] = rng.choice((b"", b" ", cells[2 * rng.randrange((len(cells) + 1) // 2)], long))
    return b"".join(cells)


MUTATIONS: dict[str, Mutation] = {
    "bits": _flip,
    "cut off": lambda data, rng, _: data[: _place(data, rng)],
    "bytes inserted": _insert,
    "odd characters": _odd,
    "deleted": _delete,
    "duplicated": _duplicate,
    "spliced": _splice,
    "separators": _separators,
    "encoding": _encoding,
    "line ends": _ends,
    "number": _number,
    "empty": lambda data, rng, _: b"" if rng.random() < 0.3 else b"\n" * rng.randrange(3),
    "mark": lambda data, rng, _: rng.choice(_MARKS) + data,
    "nesting": _nesting,
    "lines": _lines,
    "cells": _cells,
}
