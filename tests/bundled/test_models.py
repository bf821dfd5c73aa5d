"""The model that comes with the package, compared with what was released."""

import os
import shutil

import pytest

from medcoder.bundled.models import MODEL, MODELS, bundled_model, check_bundled
from medcoder.errors import ArtefactError
from support.strangers import rewrite

PARTS = (f"{MODEL}/meta.json", f"{MODEL}/graph.onnx", f"{MODEL}.open.calibration.json")


@pytest.fixture
def copy(tmp_path):
    """Links to the files, of which some are changed."""
    shutil.copytree(MODELS, tmp_path / "models", copy_function=os.symlink)
    for name in PARTS:
        rewrite(tmp_path / "models" / name, (MODELS / name).read_bytes())
    for name in ("tokenizer.json", "weights.safetensors"):
        rewrite(tmp_path / "models" / MODEL / name, (MODELS / MODEL / name).read_bytes())
    return tmp_path / "models" / MODEL


def test_it_is_what_was_released():
    check_bundled(bundled_model())


@pytest.mark.parametrize("name", PARTS)
def test_a_change_is_said_with_the_file(copy, name):
    check_bundled(copy)
    file = copy.parent / name
    data = file.read_bytes()
    rewrite(file, data.replace(b"32", b"31", 1) if name.endswith("json") else data[:-1] + b"x")
    assert file.read_bytes() != data
    with pytest.raises(ArtefactError, match=r"is damaged: .* Install medcoder again") as error:
        check_bundled(copy)
    assert str(error.value).startswith(str(file))


def test_a_file_that_is_missing(copy):
    (copy.parent / PARTS[2]).unlink()
    with pytest.raises(ArtefactError, match="Install medcoder again"):
        check_bundled(copy)
