"""Checkpoints, and no hub."""

import pytest

from support import tiny


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read on import


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint that says nothing of pooling."""
    return tiny.checkpoint(tmp_path_factory.mktemp("plain") / "tiny-bert", tiny.bert())
