"""An encoder that adds up the vectors of words: what is near what is given by hand.

It is a real exported directory, made in a moment and without torch.
"""

import string

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece

from medcoder.artefact import create
from medcoder.encode.onnx import GRAPH, INPUT, KIND, TOKENIZER, VERSION, OnnxEncoder

WIDTH = 24


def write_bag(path, words, *, like=None, seed=0):
    """Words have random vectors; those in `like` almost that of another; letters have small ones.

    Words that are not given are spelt out.
    """
    rng = np.random.default_rng(seed)
    letters = [*string.ascii_lowercase, *string.digits]
    pieces = ["[UNK]", "[CLS]", *words, *letters, *(f"##{letter}" for letter in letters)]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    table = rng.normal(size=(len(numbers), WIDTH)).astype(np.float32)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    for piece, number in numbers.items():
        table[number] *= 1.0 if piece in words else 0.2
    for word, other in (like or {}).items():
        table[numbers[word]] = 0.9 * table[numbers[other]] + 0.1 * table[numbers[word]]
    with create(path, kind=KIND, version=VERSION) as draft:
        onnx.save(_graph(table), draft.path / GRAPH)
        _tokenizer(numbers).save(str(draft.path / TOKENIZER))
        draft.meta |= {"width": WIDTH, "max_length": 64, "pad": None}
    return OnnxEncoder.load(path)


def _graph(table):
    """Vectors of the tokens (n, t), their sum, made a unit vector."""
    nodes = [
        helper.make_node("Gather", ["table", INPUT], ["each"]),
        helper.make_node("ReduceSum", ["each", "axis"], ["sum"], keepdims=0),
        helper.make_node("LpNormalization", ["sum"], ["vector"], axis=-1, p=2),
    ]
    graph = helper.make_graph(
        nodes,
        "bag",
        [helper.make_tensor_value_info(INPUT, TensorProto.INT64, ["n", "t"])],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["n", WIDTH])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _tokenizer(numbers):
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", numbers["[CLS]"])]
    )
    tokenizer.enable_truncation(64)
    return tokenizer
