"""Models that write texts give no vectors of them: they are refused wherever one is opened."""

import pytest

from medcoder import load_encoder
from medcoder.errors import ArtefactError
from medcoder.evaluate.embeddings import contextual
from medcoder.model.encoder import TransformerEncoder
from support import tiny
from support.evaluated import write_table
from support.terminal import medcoder

LEFT_TO_RIGHT = "it reads from left to right, so that no token knows what follows"
MODELS = {
    "t5": (tiny.t5, "it has a decoder (t5)"),
    "gpt2": (tiny.gpt2, f"{LEFT_TO_RIGHT} (gpt2)"),
    "bert": (lambda: tiny.bert(is_decoder=True), f"{LEFT_TO_RIGHT} (bert)"),
}
REMEDY = "Name a model that reads whole texts, such as BERT, RoBERTa or MPNet"


@pytest.fixture(scope="module", params=MODELS)
def refused(request, tmp_path_factory):
    """A folder of a model, and what is said of it."""
    make, said = MODELS[request.param]
    folder = tiny.checkpoint(tmp_path_factory.mktemp("models") / request.param, make())
    return folder, f"{folder}: it is not an encoder: {said}. {REMEDY}"


@pytest.mark.parametrize(
    "load", [TransformerEncoder.load, load_encoder, lambda folder: contextual.load(str(folder))],
    ids=["training", "embedding", "benches"],
)  # fmt: skip
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_it_is_refused_in_python(refused, load, pooling):
    folder, said = refused
    (folder / "medcoder.json").write_text(f'{{"pooling": "{pooling}"}}')
    with pytest.raises(ArtefactError) as found:
        load(folder)
    assert str(found.value) == said


def test_it_is_refused_by_commands(refused, toy_path, tmp_path):
    folder, said = refused
    data = tmp_path / "data"
    write_table(data / "similarity" / "mayosrs.tsv", "term1|term2|score", "fever|fevers|4")
    for command in (
        ("embed", "fever", "--model", folder),
        ("train", "--kg", toy_path, "--init", folder, "--out", tmp_path / "run"),
        ("export", folder, "--out", tmp_path / "export"),
        ("bench", "run", "--data", data, "--models", folder, "--out", tmp_path, "--other-data"),
    ):
        result = medcoder(*command)
        assert (result.exit_code, result.stdout) == (4, ""), result.output
        assert said in " ".join(result.stderr.split()), command
        assert "Traceback" not in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
