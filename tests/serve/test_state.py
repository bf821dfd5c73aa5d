"""A service whose places cannot be written, or whose look-ups fail."""

import errno
import os
import shutil

import pytest
from fastapi.testclient import TestClient

from medcoder import Normalizer
from medcoder.errors import UsageError
from medcoder.normalize.custom_terms import custom_terms_file
from medcoder.serve import make_app
from support.served import HERE, client, made, until


def test_look_ups_are_answered_where_nothing_can_be_kept_beside_the_index(
    many_index, tmp_path, monkeypatch
):
    index = tmp_path / "many.index"
    shutil.copytree(many_index, index, copy_function=os.link)
    custom_terms_file(index).write_text("term\tconcept\nticker trouble\tC005\n")
    custom_terms_file(index).with_suffix(".vectors").mkdir()
    with client(made(index, tmp_path / "serve")) as rest:
        found = rest.post("/v1/normalize", json={"texts": ["tickr trouble"], "threshold": 0})
        assert found.status_code == 200


def test_it_is_not_ready_if_every_look_up_fails(many_index, tmp_path, monkeypatch, caplog):
    normalizer = Normalizer.load(many_index)

    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(normalizer._ranker, "find", fail)
    app = make_app(lambda: normalizer, folder=tmp_path / "serve")
    with TestClient(app, base_url=HERE) as rest:
        until(lambda: "the index cannot be loaded: OSError" in caplog.text)
        assert rest.get("/readyz").status_code == 503


def test_a_folder_that_cannot_be_made_is_said_with_the_option(many_index, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot be kept: Not a directory\. Give .* --folder"):
        made(many_index, tmp_path / "file" / "serve")


def test_no_room_is_507_wherever_it_is_found(many_index, tmp_path, monkeypatch):
    normalizer = Normalizer.load(many_index)
    with client(made(many_index, tmp_path / "serve", normalizer=normalizer)) as rest:
        monkeypatch.setattr(normalizer._ranker, "find", _no_room)
        found = rest.post("/v1/normalize", json={"texts": ["fever"]})
        assert (found.status_code, found.json()["error"]["code"]) == (507, "disk_full")


def _no_room(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")
