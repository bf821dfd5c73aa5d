"""Graphs of ONNX that ask for more than an encoder needs."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from medcoder.encode.onnx_graph import check_onnx
from medcoder.errors import ArtefactError


def model(*nodes, weights=(), functions=()):
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    nodes = nodes or (helper.make_node("Relu", ["x"], ["y"]),)
    graph = helper.make_graph(list(nodes), "g", given, made, list(weights))
    return helper.make_model(graph, functions=list(functions))


def elsewhere(name, file):
    tensor = numpy_helper.from_array(np.ones(3, np.float32), name)
    onnx.external_data_helper.set_external_data(tensor, file)
    tensor.ClearField("raw_data")
    return tensor


def inner():
    return model().graph


HOSTILE = {
    "file": (model(weights=[elsewhere("w", "../../etc/passwd")]), "asks for another file"),
    "constant": (
        model(helper.make_node("Constant", [], ["y"], value=elsewhere("w", "/etc/passwd"))),
        "asks for another file",
    ),
    "loop": (model(helper.make_node("Loop", ["m", "c"], ["y"], body=inner())), "has a Loop"),
    "branch": (model(helper.make_node("Any", ["x"], ["y"], body=inner())), "graph in its graph"),
    "domain": (
        model(helper.make_node("Relu", ["x"], ["y"], domain="evil")),
        "an operation that is not of ONNX",
    ),
    "function": (
        model(
            functions=[
                helper.make_function(
                    "d", "f", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])],
                    [helper.make_opsetid("", 17)],
                )
            ]
        ),
        "functions of its own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_graph_that_asks_for_more(tmp_path, name):
    graph, said = HOSTILE[name]
    with pytest.raises(ArtefactError, match=said):
        check_onnx(tmp_path / "graph.onnx", graph.SerializeToString(), ["other"])


def test_weights_that_are_given_by_name(tmp_path):
    data = model(weights=[elsewhere("w", "weights")]).SerializeToString()
    check_onnx(tmp_path / "graph.onnx", data, ["w"])
    check_onnx(tmp_path / "graph.onnx", model().SerializeToString(), [])


def test_bytes_that_are_no_graph(tmp_path):
    data = model().SerializeToString()
    for hurt in (b"", b"\xff" * 30, data[:-3], b"\x3a\xff\xff\xff\xff\x0f" + data):
        with pytest.raises(ArtefactError, match="not a graph that an encoder needs"):
            check_onnx(tmp_path / "graph.onnx", hurt, [])
