"""The nodes of a graph of ONNX and the arrays that stand in it, read without the library onnx."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from medcoder.encode.onnx_graph import fields, read_number
from medcoder.encode.weights import Arrays

# Numbers of the fields: of a model, a graph, a node, an attribute, a tensor.
_GRAPH = 7
_NODE, _TENSOR = 1, 5
_INPUT, _OUTPUT, _OPERATION, _ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _FLOAT, _TEXT = 1, 2, 4
_DIMENSION, _TYPE, _NAME, _RAW = 1, 2, 8, 9
_TYPES = {1: "<f4", 7: "<i8"}


class Node(NamedTuple):
    operation: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, bytes]  # that are a float32 or a text


def read_graph(data: bytes) -> tuple[list[Node], Arrays]:
    """Nodes in their order, and arrays by name: of float32 and int64, where they are not elsewhere.

    The bytes are those that `check_onnx` found to be a graph.
    """
    graph = next(value for number, value in fields(memoryview(data)) if number == _GRAPH)
    nodes: list[Node] = []
    arrays: Arrays = {}
    for number, value in fields(graph):
        if number == _NODE:
            nodes.append(_node(value))
        elif number == _TENSOR:
            arrays |= _array(value)
    return nodes, arrays


def _node(message: memoryview) -> Node:
    node = Node("", [], [], {})
    for number, value in fields(message):
        if number == _OPERATION:
            node = node._replace(operation=_text(value))
        elif number == _INPUT:
            node.inputs.append(_text(value))
        elif number == _OUTPUT:
            node.outputs.append(_text(value))
        elif number == _ATTRIBUTE:
            parts = dict(fields(value))
            content = parts.get(_FLOAT, parts.get(_TEXT))
            if content is not None:
                node.attributes[_text(parts[_ATTRIBUTE_NAME])] = bytes(content)
    return node


def _array(message: memoryview) -> Arrays:
    """One array, or none if its values are elsewhere or of another type."""
    parts = dict(fields(message))
    kind = _TYPES.get(read_number(parts[_TYPE], 0)[0])
    if kind is None or _RAW not in parts:
        return {}
    shape = [
        size
        for number, value in fields(message)
        if number == _DIMENSION
        for size in _numbers(value)
    ]
    values = np.frombuffer(parts[_RAW], kind)
    if math.prod(shape) != values.size:
        raise ValueError("an array of another size")
    return {_text(parts[_NAME]): values.reshape(shape)}


def _numbers(message: memoryview) -> list[int]:
    """Numbers of a field, one or packed."""
    found: list[int] = []
    position = 0
    while position < len(message):
        number, position = read_number(message, position)
        found.append(number)
    return found


def _text(value: memoryview) -> str:
    return str(value, "utf-8")
