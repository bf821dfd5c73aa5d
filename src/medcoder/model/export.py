"""From a torch encoder to a directory that runs without torch."""

from __future__ import annotations

import contextlib
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AttentionInterface, AttentionMaskInterface

from medcoder.artefact import create
from medcoder.encode import load_onnxruntime
from medcoder.encode.onnx import GRAPH, INPUT, KIND, TOKENIZER, VERSION, WEIGHTS, OnnxEncoder
from medcoder.encode.weights import Precision, save_weights
from medcoder.errors import MissingExtra, UsageError
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.packed import supports

try:
    import onnx
    import onnxscript  # noqa: F401  torch needs it and says so only halfway
    from onnx import numpy_helper
except ImportError as error:
    raise MissingExtra(
        f"exporting needs {error.name}. Install it with: pip install 'medcoder[export]'"
    ) from error

Weights = Precision | Literal["dynamic-int8"]
AGREEMENT = 0.99  # nearest neighbours that arithmetic in int8 must keep
_ROUNDING = 1e-6  # of a cosine in float32
_ATTENTION = "medcoder_all_to_all"
_SMALL = 256  # values of an array that stay in the graph


class _Pooled(nn.Module):
    """Token ids (n, t) of one length to unit vectors (n, l)."""

    def __init__(self, encoder: TransformerEncoder) -> None:
        super().__init__()
        self.model = encoder.model
        self.pooling = encoder.pooling

    def forward(self, tokens: Tensor) -> Tensor:
        output = self.model(input_ids=tokens)
        if self.pooling == "legacy":
            return normalize(output.pooler_output, dim=1)
        hidden = output.last_hidden_state
        return normalize(hidden[:, 0] if self.pooling == "cls" else hidden.mean(1), dim=1)


def export(
    encoder: TransformerEncoder,
    path: Path,
    *,
    weights: Weights = "float32",
    sample: Sequence[str] = (),
    about: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> OnnxEncoder:
    """Write the encoder to `path` and open it there.

    weights: "float32"; "float16" and "int8" make the file smaller and are float32 again when
        loaded; "dynamic-int8" also computes in int8. The last is refused unless at least 99% of
        the texts of `sample` keep their nearest neighbour among them.
    """
    if weights == "dynamic-int8" and len(set(sample)) < 100:
        raise UsageError("dynamic-int8 needs a sample of at least 100 texts to be judged by")
    with create(path, kind=KIND, version=VERSION, overwrite=overwrite) as draft:
        proto = _traced(encoder)
        arrays = _taken_out(proto) if weights != "dynamic-int8" else {}
        onnx.save(proto, draft.path / GRAPH)
        if weights == "dynamic-int8":
            _quantise(draft.path / GRAPH, draft.scratch)
        else:
            save_weights(arrays, draft.path / WEIGHTS, weights)
        _tokenizer(encoder).save(str(draft.path / TOKENIZER))
        legacy = encoder.pooling == "legacy"
        draft.meta |= {
            "made_by": f"medcoder {version('medcoder')}",
            "width": encoder.width,
            "pooling": encoder.pooling,
            "max_length": encoder.max_length,
            "pad": encoder.tokenizer.pad_token_id if legacy else None,
            "weights": weights,
            **(about or {}),
        }
        if weights == "dynamic-int8":
            draft.meta["agreement"] = _gate(encoder, draft.path, draft.meta, sample)
    return OnnxEncoder.load(path)


def agreement(exact: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> float:
    """Share of rows whose nearest other row is the same in both sets of unit vectors.

    Where rows of `one` are equally near but for rounding, as those of "cold" and "Cold" are, any
    of them will do.
    """
    gaps = exact[_nearest(exact)] - exact[_nearest(other)]  # (n, d)
    return float(np.mean(np.einsum("nd,nd->n", exact, gaps) < _ROUNDING))


def _nearest(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    nearest = np.empty(len(vectors), np.intp)
    for start in range(0, len(vectors), 1024):
        scores = vectors[start : start + 1024] @ vectors.T
        scores[np.arange(len(scores)), np.arange(start, start + len(scores))] = -2
        nearest[start : start + 1024] = scores.argmax(1)
    return nearest


def _gate(
    encoder: TransformerEncoder, folder: Path, meta: dict[str, Any], sample: Sequence[str]
) -> float:
    texts = sorted(set(sample))
    small = OnnxEncoder(folder, meta | {"fingerprint": ""})
    kept = agreement(encoder.encode(texts), small.encode(texts))
    if kept < AGREEMENT:
        raise UsageError(
            f"with dynamic-int8, {kept:.1%} of {len(texts):,} texts keep their nearest neighbour; "
            f"{AGREEMENT:.0%} must. Use int8, which is as small and computes in float32"
        )
    return kept


def _traced(encoder: TransformerEncoder) -> Any:
    """The model as an ONNX graph, of any number of texts and tokens."""
    example = torch.tensor([encoder.tokenize(["heart attack"])[0]] * 2)
    if encoder.pooling == "legacy":
        fill = encoder.max_length - example.shape[1]
        example = torch.nn.functional.pad(example, (0, fill), value=encoder.tokenizer.pad_token_id)
    dims = {0: torch.export.Dim("texts")}
    if encoder.pooling != "legacy":
        dims[1] = torch.export.Dim("length", max=max(encoder.max_length, 3))
    with _quiet(), _prepared(encoder):
        program: Any = torch.onnx.export(
            _Pooled(encoder).eval(),
            (example.to(next(encoder.parameters()).device),),
            dynamo=True,
            dynamic_shapes=(dims,),
            input_names=[INPUT],
            output_names=["vectors"],
            verbose=False,
        )
    proto = program.model_proto
    graph = proto.graph
    for part in (*graph.node, *graph.input, *graph.output, *graph.initializer, graph, proto):
        part.ClearField("doc_string")  # where in the source code it came from
        part.ClearField("metadata_props")
    graph.ClearField("value_info")
    return proto


def _tokenizer(encoder: TransformerEncoder) -> Tokenizer:
    """A copy that cuts to the length and does not pad, whatever the original was last used for."""
    copy = Tokenizer.from_str(encoder.tokenizer.backend_tokenizer.to_str())
    copy.no_padding()
    copy.enable_truncation(encoder.max_length, direction=encoder.tokenizer.truncation_side)
    return copy


def _taken_out(proto: Any) -> dict[str, npt.NDArray[Any]]:
    """The large arrays of a graph, which keeps only their names."""
    arrays = {}
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.size < _SMALL:
            continue
        arrays[tensor.name] = array.copy()
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", WEIGHTS), ("offset", "0"), ("length", str(array.nbytes))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
    return arrays


def _quantise(file: Path, scratch: Path) -> None:
    """Matrix products in int8, scales of the inputs found as they come."""
    quantization = load_onnxruntime("quantization")

    with _quiet():
        quantization.quantize_dynamic(
            file,
            scratch / GRAPH,
            per_channel=True,
            reduce_range=True,
            weight_type=quantization.QuantType.QInt8,
        )
    shutil.move(scratch / GRAPH, file)


def _all_to_all(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: None, **options: Any
) -> tuple[Tensor, None]:
    """Attention of texts of one length, which need no mask."""
    scores = query @ key.transpose(-1, -2) * options["scaling"]  # (n, heads, t, t)
    return (scores.softmax(-1) @ value).transpose(1, 2), None


@contextlib.contextmanager
def _prepared(encoder: TransformerEncoder) -> Iterator[None]:
    """Without dropout and, where the model is one we know, without a mask: the graph is a third
    smaller and a few per cent faster.
    """
    training, attention = encoder.training, encoder.model.config._attn_implementation
    AttentionInterface.register(_ATTENTION, _all_to_all)
    AttentionMaskInterface.register(_ATTENTION, lambda *_, **__: None)
    try:
        if supports(encoder.model):
            encoder.model.set_attn_implementation(_ATTENTION)
        yield
    finally:
        encoder.model.set_attn_implementation(attention)
        encoder.train(training)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporters talk: of packages they did not need and of steps that went well."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
