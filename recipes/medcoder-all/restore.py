"""A Hugging Face folder from an exported BERT encoder, to train on from it.

python recipes/medcoder-all/restore.py src/medcoder/models/medcoder-all --out start
medcoder train --init start ...

The weights are those that the exported file computes with, int8 made float32 again, and are written
as float16. An export does not say how many heads its layers have: medcoder-all has 12.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import numpy as np
import onnx
import torch
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from medcoder.encode.weights import load_weights
from medcoder.model.encoder import TransformerEncoder, save_encoder

PREFIX = "model."
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of `medcoder export`")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    options = parser.parse_args()
    encoder = restore(options.model, heads=options.heads)
    encoder.model.half()
    save_encoder(encoder, options.out)
    print(f"{sum(weight.numel() for weight in encoder.model.parameters()):,} weights")


def restore(folder: Path, *, heads: int) -> TransformerEncoder:
    about = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    weights = named(folder)
    pieces, width = weights["embeddings.word_embeddings.weight"].shape
    layers = {found[1] for name in weights if (found := re.match(r"encoder\.layer\.(\d+)\.", name))}
    config = BertConfig(
        vocab_size=pieces,
        hidden_size=width,
        num_hidden_layers=len(layers),
        num_attention_heads=heads,
        intermediate_size=len(weights["encoder.layer.0.intermediate.dense.weight"]),
        max_position_embeddings=len(weights["embeddings.position_embeddings.weight"]),
        type_vocab_size=len(weights["embeddings.token_type_embeddings.weight"]),
    )
    model = BertModel(config, add_pooling_layer=False)
    model.load_state_dict(weights)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), model_max_length=512, **SPECIAL
    )
    return TransformerEncoder(
        model.eval(), tokenizer, pooling=about["pooling"], max_length=about["max_length"]
    )


def named(folder: Path) -> dict[str, torch.Tensor]:
    """The weights by the names that Hugging Face has for them.

    An export has its matrices transposed, under numbers: the bias that is added to a product tells
    whose matrix it was.
    """
    stored = load_weights(folder / "weights.safetensors")
    graph = onnx.load(folder / "graph.onnx", load_external_data=False).graph
    for small in graph.initializer:  # stands in the graph itself
        if small.name not in stored and small.data_location != onnx.TensorProto.EXTERNAL:
            stored[small.name] = onnx.numpy_helper.to_array(small).copy()
    made_of = {node.output[0]: node.input[1] for node in graph.node if node.op_type == "MatMul"}
    for node in graph.node:
        if node.op_type != "Add":
            continue
        for product, bias in (node.input, node.input[::-1]):
            if product in made_of and bias.endswith(".bias") and made_of[product] in stored:
                matrix = stored.pop(made_of[product])
                stored[bias.removesuffix("bias") + "weight"] = np.ascontiguousarray(matrix.T)
    return {
        name.removeprefix(PREFIX): torch.from_numpy(array)
        for name, array in stored.items()
        if name.startswith(PREFIX) and not name.endswith("position_ids")
    }


if __name__ == "__main__":
    main()
