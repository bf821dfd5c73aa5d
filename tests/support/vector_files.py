"""Files of vectors in every form that they come in."""

import struct

WORDS = {
    "heart": [1, 2, 2],
    "Attack": [0, 3, 4],
    "COPD": [2, 0, 0],
    "crohn's": [0, 0, 5],
    "type": [1, 1, 0],
    "2": [0, 1, 0],
    "épilepsie": [0.5, -0.25, 1e-3],
}


def binary(words, *, ends=b""):
    dimension = len(next(iter(words.values())))
    rows = (
        word.encode() + b" " + struct.pack(f"<{dimension}f", *vector) + ends
        for word, vector in words.items()
    )
    return f"{len(words)} {dimension}\n".encode() + b"".join(rows)


def text(words, *, separator=" ", ends="\n"):
    rows = (separator.join([word, *map(repr, vector)]) + ends for word, vector in words.items())
    return "".join(rows).encode()


def header(words):
    return f"{len(words)} {len(next(iter(words.values())))}\n".encode()


def csv(words, *, named=True):
    dimension = len(next(iter(words.values())))
    names = ",".join(['""', *(f'"V{n + 1}"' for n in range(dimension))]) + "\n"
    rows = "".join(
        ",".join([f'"{word}"', *map(repr, vector)]) + "\n" for word, vector in words.items()
    )
    return ((names if named else "") + rows).encode()


def written(tmp_path, content, name="vectors.any"):
    file = tmp_path / name
    file.write_bytes(content)
    return file
