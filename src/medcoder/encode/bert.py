"""The weights of a BERT by the names that Hugging Face has for them, out of an exported encoder.

An export has its matrices transposed and under numbers: the bias that is added to a product tells
whose matrix it was. It does not say how many heads a layer has: the shape that queries are given
tells.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

from medcoder.encode.onnx_graph import check_onnx
from medcoder.encode.onnx_parts import Node, read_graph
from medcoder.encode.weights import Arrays, load_weights
from medcoder.errors import ArtefactError

_PREFIX = "model."
# What reading another model as if it were a BERT may lead to.
_UNFIT = (ArithmeticError, LookupError, TypeError, ValueError)
_LAYER = re.compile(r"encoder\.layer\.(\d+)\.")
_QUERY = _PREFIX + "encoder.layer.0.attention.self.query.bias"


def restore_bert(graph: Path, weights: Path) -> tuple[dict[str, Any], Arrays]:
    """What its config.json says, and its weights in float32; any other model is an error."""
    stored = load_weights(weights) if weights.exists() else {}
    data = graph.read_bytes()
    check_onnx(graph, data, stored)
    try:
        nodes, small = read_graph(data)
        arrays = small | stored
        named = _named(nodes, arrays)
        config = _config(nodes, arrays, named)
        wrong = _wrong(nodes, config, named)
    except (*_UNFIT, struct.error) as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong is not None:
        raise ArtefactError(
            "it is not a BERT with its weights as they were trained",
            where=graph.parent,
            values=wrong,
            remedy="Use the checkpoint that it was exported from",
        )
    return config, named


def _named(nodes: list[Node], arrays: Arrays) -> Arrays:
    named = {
        name.removeprefix(_PREFIX): array
        for name, array in arrays.items()
        if name.startswith(_PREFIX) and not name.endswith("position_ids")
    }
    matrices = {node.outputs[0]: node.inputs[1] for node in nodes if node.operation == "MatMul"}
    for node in nodes:
        if node.operation != "Add":
            continue
        for product, bias in (node.inputs, node.inputs[::-1]):
            if matrices.get(product) in arrays and bias.startswith(_PREFIX):
                name = bias.removeprefix(_PREFIX).removesuffix("bias") + "weight"
                named[name] = np.ascontiguousarray(arrays[matrices[product]].T)
    return named


def _config(nodes: list[Node], arrays: Arrays, named: Arrays) -> dict[str, Any]:
    pieces, width = named["embeddings.word_embeddings.weight"].shape
    types = len(named["embeddings.token_type_embeddings.weight"])
    norms = [node.attributes for node in nodes if node.operation == "LayerNormalization"]
    heads, rest = divmod(width, _width_of_head(nodes, arrays))
    if rest:
        raise ValueError("its heads do not fill its width")
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": pieces,
        "hidden_size": width,
        "num_hidden_layers": len({found[1] for name in named if (found := _LAYER.match(name))}),
        "num_attention_heads": heads,
        "intermediate_size": len(named["encoder.layer.0.intermediate.dense.bias"]),
        "hidden_act": "gelu",
        "max_position_embeddings": len(named["embeddings.position_embeddings.weight"]),
        "type_vocab_size": types,
        # Stored as float32, which has seven digits.
        "layer_norm_eps": float(f"{struct.unpack('<f', norms[0]['epsilon'])[0]:.6g}"),
    }


def _width_of_head(nodes: list[Node], arrays: Arrays) -> int:
    """The last number of the shape (n, t, heads, width) that queries are given."""
    query = {node.outputs[0] for node in nodes if node.operation == "Add" and _QUERY in node.inputs}
    shapes = [node.inputs for node in nodes if node.operation == "Reshape"]
    shape = next((shape for given, shape in shapes if given in query), None)
    if shape is None:
        raise LookupError("its queries have no heads")
    made = {output: node for node in nodes for output in node.outputs}
    last = made[shape].inputs[-1] if shape in made else shape
    return int(arrays[last].reshape(-1)[-1])


def _wrong(nodes: list[Node], config: dict[str, Any], named: Arrays) -> str | None:
    """What is not as in a BERT: others have the same names in part."""
    operations = [node.operation for node in nodes]
    gelus = [node.attributes.get("approximate") for node in nodes if node.operation == "Gelu"]
    if "CumSum" in operations:  # RoBERTa, otherwise the same
        return "its positions are not those of a BERT"
    if len(gelus) != config["num_hidden_layers"] or b"tanh" in gelus:
        return "its activation is not GELU"
    expected = _shapes(config)
    for name in sorted(expected.keys() | named.keys()):
        shape = named[name].shape if name in named else None
        if shape != expected.get(name):
            return f"{name} has the shape {shape}, not {expected.get(name)}"
    return None


def _shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, wide = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], width),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}."
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
        linear = {
            "attention.self.query": (width, width),
            "attention.self.key": (width, width),
            "attention.self.value": (width, width),
            "attention.output.dense": (width, width),
            "intermediate.dense": (wide, width),
            "output.dense": (width, wide),
        }
        for name, shape in linear.items():
            shapes[f"{layer}{name}.weight"] = shape
            shapes[f"{layer}{name}.bias"] = shape[:1]
    for name in norms:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (width,)
    return shapes
