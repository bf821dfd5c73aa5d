"""`medcoder check`: what is sound, and which file is not."""

import json
import shutil

import numpy as np
import pytest

from medcoder.cli.check import examine
from medcoder.errors import ArtefactError
from medcoder.kg import KG
from medcoder.normalize.build import build
from medcoder.vectors.embed import embed
from support.bag import write_bag
from support.mapped import decide, make
from support.strangers import reseal, rewrite
from support.terminal import as_json, medcoder

WORDS = ("heart", "attack", "disease", "fever", "cough", "cold", "headache", "seizure", "type")


@pytest.fixture(scope="module")
def whole(toy_path, tmp_path_factory):
    """A folder with one of each."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(toy_path, folder / "graph")
    kg, model = KG.open(folder / "graph"), write_bag(folder / "model", WORDS)
    vectors = embed(kg, model, folder / "vectors")
    for kind in ("exact", "ivf", "hnsw"):
        build(kg, model, folder / kind, kind=kind, vectors=vectors)
    with make(folder / "made") as project:
        decide(project)
        project.base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (folder / "made" / "out").rename(folder / "project")
    return folder


@pytest.fixture
def copied(whole, tmp_path):
    return lambda name: shutil.copytree(whole / name, tmp_path / name)


def test_all_kinds_are_sound(whole):
    told = as_json("check", whole)
    assert [(entry["kind"], entry["sound"]) for entry in told] == [
        ("index", True), ("knowledge graph", True), ("index", True), ("index", True),
        ("encoder", True), ("project", True), ("vectors", True),
    ]  # fmt: skip
    size = sum(file.stat().st_size for file in (whole / "graph").iterdir())
    size -= (whole / "graph" / "meta.json").stat().st_size
    shown = medcoder("check", whole / "graph")
    assert (
        f"graph: sound (knowledge graph, {told[1]['files']} files, {size:,} bytes)" in shown.stdout
    )


@pytest.mark.parametrize("name", ["graph", "vectors", "model", "exact", "ivf", "hnsw"])
def test_a_flipped_bit_of_any_file_is_found(copied, name):
    folder = copied(name)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    for file in files[:: max(1, len(files) // 6)]:
        data = file.read_bytes()
        rewrite(file, bytes([data[0] ^ 1]) + data[1:])
        with pytest.raises(ArtefactError, match=file.name):
            examine(folder)
        rewrite(file, data)
    examine(folder)


def test_what_is_not_sound_is_said(copied):
    folder = copied("graph")
    data = (folder / "term.data").read_bytes()
    rewrite(folder / "term.data", b"x" + data[1:])
    result = medcoder("check", folder)
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.startswith(f"not sound: {folder / 'term.data'}: it was changed or damaged")
    [entry] = json.loads(medcoder("check", folder, "--json").stdout)
    assert (entry["kind"], entry["sound"]) == ("knowledge graph", False)


def test_there_is_nothing_of_ours(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        result = medcoder("check", path)
        assert result.exit_code == 4
        assert "there is nothing of medcoder's here" in result.stderr


def numbers(name, dtype, change):
    """A change of an array whose digests fit."""

    def hurt(folder):
        array = np.fromfile(folder / name, dtype)
        change(array)
        rewrite(folder / name, array.tobytes())
        reseal(folder)

    return hurt


def put(position, value):
    def change(array):
        array[position] = value

    return change


ON_PURPOSE = {
    "concepts of terms": ("graph", numbers("concept.terms.int64", "int64", put(4, 10**12))),
    "back": ("graph", numbers("concept.types.int64", "int64", put(3, -7))),
    "language": ("graph", numbers("term.info.uint16", "uint16", put(0, 60000))),
    "type": ("graph", numbers("type.uint16", "uint16", put(0, 60000))),
    "xref": ("graph", numbers("xref.info.uint16", "uint16", put(1, 60000))),
    "edge": ("graph", numbers("edge.uint64", "uint64", put(-1, 2**64 - 1))),
    "into": ("graph", numbers("edge.in.uint32", "uint32", put(0, 2**32 - 1))),
    "order": ("graph", numbers("find.text.uint64", "uint64", put(0, 2**64 - 1))),
    "text": ("graph", numbers("term.data", "uint8", put(slice(10, 14), 255))),
    "lines": ("graph", numbers("term.data", "uint8", put(10, 10))),
    "rows": ("vectors", numbers("term.row.int32", "int32", put(0, 10**9))),
    "other row": ("vectors", numbers("term.row.int32", "int32", put(0, 1))),
    "terms": ("vectors", numbers("row.terms.int32", "int32", put(0, -5))),
    "firsts": ("vectors", numbers("row.first.int64", "int64", put(1, 10**9))),
    "nan": ("vectors", numbers("row.vector.float16", "float16", put(0, np.nan))),
    "width": ("vectors", lambda folder: reseal(folder, width=10**12)),
    "bits": ("graph", lambda folder: reseal(folder, relation_bits=60)),
    "spaces": ("graph", lambda folder: reseal(folder, namespaces="UMLS")),
    "length": ("model", lambda folder: reseal(folder, max_length="x")),
    "kind": ("exact", lambda folder: reseal(folder, index="../../evil")),
    "count": ("exact", lambda folder: reseal(folder, rows=10**12)),
    "grams": ("exact", numbers("grams/gram.rows.uint32", "uint32", put(0, 2**32 - 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_PURPOSE)
def test_numbers_that_lead_nowhere_with_digests_that_fit(copied, name):
    kind, hurt = ON_PURPOSE[name]
    folder = copied(kind)
    hurt(folder)
    with pytest.raises(ArtefactError) as error:
        examine(folder)
    assert "cannot be used" not in error.value.what  # it was seen, and not run into


@pytest.mark.parametrize("change", ["nan", "infinite", "list", "weights"])
def test_a_calibration_of_no_numbers(copied, change):
    folder = copied("exact")
    file = folder / "calibration.json"
    stored = json.loads(file.read_text())
    entry = next(iter(stored["stages"].values()))
    if change == "list":
        stored["stages"] = []
    elif change == "weights":
        del entry["weights"]["confidence"]["cosine"]
    else:
        entry["threshold"] = "HERE"
    number = "NaN" if change == "nan" else "1e999"
    rewrite(file, json.dumps(stored).replace('"HERE"', number).encode())
    reseal(folder)
    with pytest.raises(ArtefactError, match=r"calibration\.json: it cannot be read"):
        examine(folder)


def test_vectors_that_are_given_are_checked_before_they_are_followed(copied, whole, tmp_path):
    folder = copied("vectors")
    numbers("term.row.int32", "int32", put(0, 10**9))(folder)
    given = ("--kg", whole / "graph", "--model", whole / "model", "--vectors", folder)
    result = medcoder("index", "build", *given, "--out", tmp_path / "out")
    assert (result.exit_code, "term.row.int32: it is not as it should be" in result.stderr) == (
        4,
        1,
    )
    assert not (tmp_path / "out").exists()


def test_letters_that_lead_nowhere_take_no_memory(copied):
    folder = copied("exact")
    numbers("grams/gram.rows.uint32", "uint32", put(slice(None), 2**32 - 1))(folder)
    result = medcoder("normalize", "feverr", "--index", folder)
    assert (result.exit_code, "gram.rows.uint32: it is not as" in result.stderr) == (4, 1)
