"""A model as a folder of Hugging Face: the same vectors by other libraries, without torch."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner

from medcoder import load_encoder
from medcoder.artefact import verify
from medcoder.bundled.models import MODEL, bundled_model
from medcoder.cli import app
from medcoder.encode import save as module
from medcoder.encode.bert import restore_bert
from medcoder.encode.onnx import GRAPH, WEIGHTS, OnnxEncoder
from medcoder.encode.onnx_parts import read_graph
from medcoder.encode.save import save_exported
from medcoder.encode.weights import load_weights, save_weights
from medcoder.errors import ArtefactError, UnknownName, UsageError
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.export import export
from support import tiny

TEXTS = ["heart attack", "Fever", "", "headache s", "type diabetes cold " * 20]
REAL = ["heart attack", "dolor de espalda", "発熱 39℃", "Schenkelhalsfraktur li.", "a " * 60, ""]
LENGTH = 16


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read on import


def made(model, folder, *, pooling="mean", **options):
    encoder = TransformerEncoder(model, tiny.tokenizer(), pooling=pooling, max_length=LENGTH)
    return export(encoder.eval(), folder, **options)


@pytest.fixture(scope="module")
def mean(tmp_path_factory):
    return made(tiny.bert(), tmp_path_factory.mktemp("export") / "mean")


def with_transformers(folder, pooling, texts):
    """As someone would who has no medcoder."""
    model, said = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(said.values()), said  # no weight is missing, and none is left over
    assert model.dtype == torch.float32
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    vectors = hidden[:, 0] if pooling == "cls" else (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(vectors, dim=1).numpy()


def with_sentence_transformers(folder, texts):
    return SentenceTransformer(str(folder), device="cpu").encode(texts)


# The same vectors


@pytest.mark.parametrize("stored", ["float32", "int8"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_other_libraries_give_the_same_vectors(tmp_path, pooling, stored):
    model = tiny.bert(num_attention_heads=2, num_hidden_layers=1, layer_norm_eps=1e-3)
    exported = made(model, tmp_path / "exported", pooling=pooling, weights=stored)
    expected = exported.encode(TEXTS)
    folder = save_exported(tmp_path / "exported", tmp_path / "saved")

    assert np.abs(with_sentence_transformers(folder, TEXTS) - expected).max() < 1e-5
    assert np.abs(with_transformers(folder, pooling, TEXTS) - expected).max() < 1e-5
    ours = load_encoder(folder)
    assert isinstance(ours, TransformerEncoder)
    assert (ours.pooling, ours.max_length, ours.width) == (pooling, LENGTH, 32)
    assert np.abs(ours.encode(TEXTS) - expected).max() < 1e-5
    config = json.loads((folder / "config.json").read_text())
    assert (config["num_attention_heads"], config["layer_norm_eps"]) == (2, 1e-3)
    verify(folder, kind="model")
    about = json.loads((folder / "meta.json").read_text())
    assert about["parents"] == {"encoder": exported.fingerprint}


def test_float16_takes_half_the_room(mean, tmp_path):
    large = save_exported(mean.path, tmp_path / "large") / "model.safetensors"
    small = save_exported(mean.path, tmp_path / "small", weights="float16") / "model.safetensors"
    of_large, of_small = load_file(large), load_file(small)
    assert sum(array.nbytes for array in of_small.values()) == (
        sum(array.nbytes for array in of_large.values()) / 2
    )
    for name, array in of_large.items():
        assert of_small[name].tobytes() == array.astype(np.float16).tobytes()
    expected = mean.encode(TEXTS)
    assert np.abs(with_sentence_transformers(small.parent, TEXTS) - expected).max() < 5e-3
    assert np.abs(with_transformers(small.parent, "mean", TEXTS) - expected).max() < 5e-3


def test_a_weight_that_float16_cannot_hold(tmp_path):
    model = tiny.bert(num_hidden_layers=1)
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight[0, 0] = 70_000
    made(model, tmp_path / "exported")
    said = "exported: a weight is too large for this precision: 7e\\+04 in float16. Use float32"
    with pytest.raises(UsageError, match=said):
        save_exported(tmp_path / "exported", tmp_path / "saved", weights="float16")
    save_exported(tmp_path / "exported", tmp_path / "saved")


def test_a_graph_without_heads(mean, monkeypatch):
    def without(data):
        nodes, arrays = read_graph(data)
        return [node for node in nodes if node.operation != "Reshape"], arrays

    monkeypatch.setattr("medcoder.encode.bert.read_graph", without)
    with pytest.raises(ArtefactError, match="LookupError: its queries have no heads"):
        restore_bert(mean.path / GRAPH, mean.path / WEIGHTS)


def test_the_bundled_model(tmp_path):
    result = CliRunner().invoke(app, ["model", "save", MODEL, str(tmp_path / "saved"), "--json"])
    size = sum(file.stat().st_size for file in (tmp_path / "saved").rglob("*") if file.is_file())
    assert json.loads(result.output) == {
        "path": str(tmp_path / "saved"), "weights": "float32", "bytes": size
    }  # fmt: skip
    expected = load_encoder().encode(REAL)
    vectors = with_sentence_transformers(tmp_path / "saved", REAL)
    assert np.abs(vectors - expected).max() < 1e-3
    pooling = json.loads((bundled_model() / "meta.json").read_text())["pooling"]
    vectors = with_transformers(tmp_path / "saved", pooling, REAL)
    assert np.abs(vectors - expected).max() < 1e-3
    about = json.loads((tmp_path / "saved" / "medcoder.json").read_text())
    assert (about["name"], about["encoder"]) == (MODEL, load_encoder().fingerprint)


def test_without_a_name_it_is_the_bundled_encoder():
    encoder = load_encoder(threads=1)
    assert isinstance(encoder, OnnxEncoder)
    assert encoder.path == bundled_model()


def test_neither_torch_nor_onnx_is_needed(mean, tmp_path):
    code = """
import sys
for name in ("torch", "transformers", "onnx", "onnxscript", "sentence_transformers"):
    sys.modules[name] = None
from medcoder.encode.save import save_exported
from medcoder.encode.weights import load_weights, save_weights
save_exported(sys.argv[1], sys.argv[2])
"""
    command = [sys.executable, "-W", "error", "-c", code, mean.path, tmp_path / "there"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    here = save_exported(mean.path, tmp_path / "here")
    files = [file for file in here.rglob("*") if file.is_file()]
    assert len(files) == 9
    for file in files:
        there = tmp_path / "there" / file.relative_to(here)
        assert there.read_bytes() == file.read_bytes(), file


# What is read of a graph


def test_the_graph_is_read_as_its_own_library_reads_it(mean):
    import onnx

    nodes, arrays = read_graph((mean.path / GRAPH).read_bytes())
    graph = onnx.load(mean.path / GRAPH, load_external_data=False).graph
    assert [(node.operation, node.inputs, node.outputs) for node in nodes] == [
        (node.op_type, list(node.input), list(node.output)) for node in graph.node
    ]
    expected = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL
    }
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert (arrays[name].shape, arrays[name].dtype) == (array.shape, array.dtype)
        assert arrays[name].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("make", "pooling", "error", "said"),
    [
        (lambda: tiny.roberta(pad_token_id=0, num_hidden_layers=1), "mean", ArtefactError,
         "it is not a BERT .*: its positions are not those of a BERT. Use the checkpoint"),
        (tiny.distilbert, "cls", ArtefactError, "it is not a BERT .*: KeyError: .*token_type"),
        (tiny.mpnet, "cls", ArtefactError, "it is not a BERT"),
        (lambda: tiny.bert(hidden_act="relu", num_hidden_layers=1), "cls", ArtefactError,
         "it is not a BERT .*: its activation is not GELU"),
        (lambda: tiny.bert(hidden_act="gelu_new", num_hidden_layers=1), "cls", ArtefactError,
         "it is not a BERT .*: its activation is not GELU"),
        (lambda: tiny.bert(num_hidden_layers=1), "legacy", UsageError,
         "sentence-transformers does not know its pooling: legacy"),
    ],
    ids=["roberta", "distilbert", "mpnet", "relu", "tanh", "legacy"],
)  # fmt: skip
def test_models_that_cannot_be_saved_so(tmp_path, make, pooling, error, said):
    made(make(), tmp_path / "exported", pooling=pooling)
    with pytest.raises(error, match=f"exported: {said}"):
        save_exported(tmp_path / "exported", tmp_path / "saved")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exported"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model.more.weight": np.zeros(3)}, r"more.weight has the shape \(3,\), not None"),
        ({"model.embeddings.LayerNorm.bias": np.zeros(5)},
         r"embeddings.LayerNorm.bias has the shape \(5,\), not \(32,\)"),
        ({"model.embeddings.token_type_embeddings.weight": np.float32(1)}, "TypeError: "),
    ],
    ids=["left over", "another size", "no matrix"],
)  # fmt: skip
def test_weights_that_do_not_fit(mean, tmp_path, more, said):
    file = tmp_path / "weights"
    save_weights(load_weights(mean.path / WEIGHTS) | more, file, "float32")
    with pytest.raises(ArtefactError, match=f"it is not a BERT .*: {said}"):
        restore_bert(mean.path / GRAPH, file)


def test_a_graph_without_its_weights(mean, tmp_path):
    with pytest.raises(ArtefactError, match="it asks for another file"):
        restore_bert(mean.path / GRAPH, tmp_path / "none")


# What is in the way


def test_a_folder_that_is_there(mean, tmp_path):
    folder = save_exported(mean.path, tmp_path / "saved")
    before = (folder / "meta.json").read_bytes()
    with pytest.raises(UsageError, match=r"saved: it exists\. Choose another place"):
        save_exported(mean.path, folder, weights="float16")
    assert (folder / "meta.json").read_bytes() == before
    save_exported(mean.path, folder, weights="float16", overwrite=True)
    assert load_file(folder / "model.safetensors")["pooler.dense.bias"].dtype == np.float16
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved"]

    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("x")
    with pytest.raises(ArtefactError, match=r"other: it is not a model: it has no meta\.json"):
        save_exported(mean.path, other, overwrite=True)
    assert (other / "thesis.txt").read_text() == "x"


def test_nothing_half_written_is_left(mean, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError(5, "I/O error")

    monkeypatch.setattr(module, "write_modules", broken)
    with pytest.raises(OSError, match="I/O error"):
        save_exported(mean.path, tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("medcoder-al", UnknownName, "is called 'medcoder-al'; did you mean 'medcoder-all'"),
        ("gpt", UnknownName, "no model is called 'gpt'. There are: .*medcoder-all"),
        ("{}", ArtefactError, "it is not an exported encoder: it has no meta.json"),
        ("{}/checkpoint", ArtefactError, "it is not an exported encoder"),
    ],
)
def test_what_is_no_exported_model(tmp_path, name, error, said):
    tiny.checkpoint(tmp_path / "checkpoint", tiny.bert())
    with pytest.raises(error, match=said):
        save_exported(name.format(tmp_path), tmp_path / "saved")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("[UNK]", "[SEP]", "[CLS]", "cold"), r"it is not the tokenizer of a BERT: \[PAD\]\."),
        (
            (*tiny.VOCABULARY, "more"),
            "it is not the tokenizer of a BERT: it has a piece 66, .* has 66",
        ),
        ((), "it cannot be read"),
    ],
    ids=["no padding", "more pieces", "damaged"],
)
def test_a_tokenizer_of_another_model(tmp_path, words, said):
    file = tmp_path / "tokenizer.json"
    file.write_text(tiny.word_pieces(words).to_str() if words else "{")
    with pytest.raises(ArtefactError, match=f"tokenizer.json: {said}"):
        module._tokenizer(file, len(tiny.VOCABULARY), LENGTH)


def test_the_command(mean, tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(app, ["model", "save", *map(str, arguments)])
        return result.exit_code, result.output

    code, said = run(mean.path, tmp_path / "saved", "--weights", "float16")
    assert (code, said) == (0, f"{tmp_path / 'saved'}  float16, 0.1 MB\n")
    assert run(mean.path, tmp_path / "saved")[0] == 2
    assert run(mean.path, tmp_path / "saved", "--overwrite")[0] == 0
    code, said = run("medcoder-al", tmp_path / "other")
    assert code == 2 and "did you mean 'medcoder-all'" in said
    code, said = run(mean.path, tmp_path / "other", "--weights", "int8")
    assert (code, said) == (2, "error: no such precision: 'int8'. There are: float32, float16\n")
    assert not (tmp_path / "other").exists()
