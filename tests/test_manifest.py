"""What a directory says of itself, as strangers may write it."""

import json
import os

import pytest

from medcoder.artefact import create, open_artefact, verify
from medcoder.errors import ArtefactError
from medcoder.manifest import SMALL, read_json
from support.strangers import reseal, rewrite

KIND = "box"


@pytest.fixture
def box(tmp_path):
    with create(tmp_path / "box", kind=KIND, version=1) as draft:
        (draft.path / "a.txt").write_text("hello")
        (draft.path / "deep").mkdir()
        (draft.path / "deep" / "b.txt").write_text("there")
        draft.meta["width"] = 3
    return tmp_path / "box"


def opened(box):
    return open_artefact(box, kind=KIND, version=1)


def meta_of(box):
    return json.loads((box / "meta.json").read_text())


def put(box, meta):
    (box / "meta.json").write_text(json.dumps(meta))


def listed(name):
    """A change that lists a file of that name, with digests as they should be."""

    def change(box):
        meta = meta_of(box)
        meta["files"][name] = {"size": 5, "blake2b": "0" * 32, "crc32": 0}
        put(box, meta)
        reseal(box)

    return change


HOSTILE = {
    "above": (listed("../outside.txt"), "names something outside of it: '../outside.txt'"),
    "absolute": (listed("/etc/passwd"), "names something outside of it"),
    "roundabout": (listed("deep/../../outside.txt"), "names something outside of it"),
    "other slash": (listed("..\\outside.txt"), "names something outside of it"),
    "nothing": (listed(""), "names something outside of it"),
    "control": (listed("a\x1b[2J"), "names something outside of it"),
    "files": (lambda box: put(box, meta_of(box) | {"files": []}), "its list of files is not"),
    "entry": (
        lambda box: put(box, meta_of(box) | {"files": {"a.txt": {"size": "5"}}}),
        "its list of files is not as it should be",
    ),
    "parents": (
        lambda box: put(box, meta_of(box) | {"parents": {"kg": {"a": 1}}}),
        "its list of parents is not as it should be",
    ),
    "width": (lambda box: put(box, meta_of(box) | {"width": 4}), "it was changed or damaged"),
    "one file less": (
        lambda box: put(box, meta_of(box) | {"files": {"a.txt": meta_of(box)["files"]["a.txt"]}}),
        "is not the one that it was made with",
    ),
    "deep": (lambda box: (box / "meta.json").write_text("[" * 100_000), "nested too deeply"),
    "nan": (lambda box: (box / "meta.json").write_text('{"a": NaN}'), "NaN is not a number"),
    "bytes": (lambda box: (box / "meta.json").write_bytes(b"\xff\xfe"), "it cannot be read"),
    "flip": (lambda box: rewrite(box / "a.txt", b"hellO"), r"a\.txt: it was changed or damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_directory_is_refused(box, name):
    change, said = HOSTILE[name]
    (box.parent / "outside.txt").write_text("hello")
    change(box)
    with pytest.raises(ArtefactError, match=said):
        opened(box)


@pytest.mark.parametrize("name", ["a.txt", "deep"])
def test_a_link_that_leaves_the_directory(box, name):
    (box / name).rename(box.parent / "outside")
    (box / name).symlink_to(box.parent / "outside")
    with pytest.raises(ArtefactError, match="a link to something outside of its directory"):
        opened(box)
    with pytest.raises(ArtefactError, match="a link to something outside of its directory"):
        verify(box, kind=KIND)


def test_a_link_inside_and_a_link_to_the_whole(box):
    (box / "a.txt").rename(box / "other.txt")
    (box / "a.txt").symlink_to("other.txt")
    (box.parent / "link").symlink_to(box)
    assert opened(box.parent / "link") == opened(box)


@pytest.mark.parametrize("name", ["a.txt", "meta.json"])
def test_a_pipe_is_not_waited_for(box, name):
    (box / name).unlink()
    os.mkfifo(box / name)
    with pytest.raises(ArtefactError):
        opened(box)


def test_a_file_that_is_needed_and_not_listed(box):
    with pytest.raises(ArtefactError, match=r"c\.txt: the box is damaged: it is missing"):
        open_artefact(box, kind=KIND, version=1, needs=["a.txt", "c.txt"])


def test_a_directory_of_before_has_neither_seal_nor_quick_sums(box):
    meta = meta_of(box)
    del meta["seal"]
    for entry in meta["files"].values():
        del entry["crc32"]
    put(box, meta)
    assert opened(box)["width"] == 3
    rewrite(box / "a.txt", b"hellO")
    with pytest.raises(ArtefactError, match=r"a\.txt: it was changed or damaged"):
        opened(box)


def test_of_a_directory_inside_only_its_list_is_compared(tmp_path):
    """The rest is compared when that one is opened."""
    with create(tmp_path / "it", kind=KIND, version=1) as draft:
        for name in ("meta.json", "x"):
            (draft.path / "part").mkdir(exist_ok=True)
            (draft.path / "part" / name).write_text(name)
    rewrite(tmp_path / "it" / "part" / "x", b"y")
    assert opened(tmp_path / "it")
    rewrite(tmp_path / "it" / "part" / "meta.json", b"x" * 9)
    with pytest.raises(ArtefactError, match=r"part/meta\.json: it was changed or damaged"):
        opened(tmp_path / "it")


def test_json_that_is_too_large(tmp_path):
    (tmp_path / "x.json").write_text('"' + "x" * 100 + '"')
    assert read_json(tmp_path / "x.json") == "x" * 100
    with pytest.raises(ValueError, match="it has 102 bytes, more than the 101 it may have"):
        read_json(tmp_path / "x.json", most=101)


def test_what_is_small():
    assert SMALL == 4 << 20  # the how-to page says so
