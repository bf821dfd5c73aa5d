"""What a file of ONNX asks for: a stranger's may name other files, and work without end.

Only as much of the format is read as that takes (protobuf: a field is its number, and bytes or a
number), so that no library is needed, and nothing is run that is not looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from medcoder.errors import ArtefactError

# Numbers of the fields: of a model, a graph, a node, an attribute, a tensor.
_GRAPH, _FUNCTIONS = 7, 25
_NODE, _TENSOR, _SPARSE = 1, 5, 15
_OPERATION, _DOMAIN, _ATTRIBUTE = 4, 7, 5
_OF_TENSOR, _OF_GRAPH, _OF_TENSORS, _OF_GRAPHS = 5, 6, 10, 11
_NAME, _EXTERNAL = 8, 13
_DOMAINS = (b"", b"ai.onnx", b"com.microsoft")  # what the runtime has itself
_ENDLESS = (b"Loop", b"Scan", b"If")  # no encoder needs them


def check_onnx(file: Path, data: bytes, given: Collection[str]) -> None:
    """Whether a graph keeps to itself: no files but the weights given, and no loops."""
    try:
        wrong = _wrong(memoryview(data), {name.encode() for name in given})
    except (IndexError, ValueError) as error:
        wrong = f"it is not ONNX ({error})"
    if wrong is not None:
        raise ArtefactError(
            "it is not a graph that an encoder needs",
            where=file,
            values=wrong,
            remedy="Do not use it, or export the model again",
        )


def _wrong(model: memoryview, given: set[bytes]) -> str | None:
    graphs = [value for number, value in fields(model) if number == _GRAPH]
    if len(graphs) != 1:
        return "it has no graph"
    if any(number == _FUNCTIONS for number, _ in fields(model)):
        return "it has functions of its own"
    for number, value in fields(graphs[0]):
        if number == _SPARSE:
            return "it has sparse weights"
        wrong = None
        if number == _TENSOR:
            wrong = _wrong_tensor(value, given)
        elif number == _NODE:
            wrong = _wrong_node(value)
        if wrong:
            return wrong
    return None


def _wrong_node(node: memoryview) -> str | None:
    for number, value in fields(node):
        if number == _OPERATION and bytes(value) in _ENDLESS:
            return f"it has a {bytes(value).decode()}"
        if number == _DOMAIN and bytes(value) not in _DOMAINS:
            return "it has an operation that is not of ONNX"
        if number != _ATTRIBUTE:
            continue
        for kind, part in fields(value):
            if kind in (_OF_GRAPH, _OF_GRAPHS):
                return "it has a graph in its graph"
            if kind in (_OF_TENSOR, _OF_TENSORS) and _wrong_tensor(part, set()):
                return "it asks for another file"
    return None


def _wrong_tensor(tensor: memoryview, given: set[bytes]) -> str | None:
    """Weights that lie elsewhere must be those that are given by name."""
    parts = list(fields(tensor))
    if not any(number == _EXTERNAL for number, _ in parts):
        return None
    names = [bytes(value) for number, value in parts if number == _NAME]
    return None if names and names[-1] in given else "it asks for another file"


def fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Fields with their bytes, those of numbers too."""
    position, size = 0, len(message)
    while position < size:
        tag, position = read_number(message, position)
        kind, begin = tag & 7, position
        if kind == 0:
            _, position = read_number(message, position)
        elif kind == 2:
            length, begin = read_number(message, position)
            position = begin + length
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if position > size:
            raise ValueError("a field beyond the end")
        yield tag >> 3, message[begin:position]


def read_number(message: memoryview, position: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    number = shift = 0
    while shift < 70:
        byte = message[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
    raise ValueError("a number without end")
