"""The directory that a normaliser loads: how it is built, and what is wrong with it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from medcoder import Normalizer
from medcoder import index as indexes
from medcoder.artefact import META
from medcoder.bundled.models import MODEL, bundled_models, bundled_weights
from medcoder.encode.onnx import OnnxEncoder
from medcoder.errors import ArtefactError, UnknownName, UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.sources import open_source
from medcoder.normalize import build as building
from medcoder.normalize.build import build, read_calibration
from medcoder.vectors import ROWS
from medcoder.vectors import embed as embedding
from medcoder.vectors.embed import embed
from support.bag import write_bag
from support.containers import in_container, kill
from support.many import QUERIES, WORDS, small_source
from support.strangers import reseal
from support.terminal import left_in


@pytest.fixture
def index(many_index, tmp_path):
    """A copy, to be changed and to have terms beside it."""
    path = tmp_path / "many.index"
    shutil.copytree(many_index, path, copy_function=os.link)
    return path


def test_an_index_holds_all_it_needs(many_kg, bag, many_index, tmp_path):
    """It can be moved, and what it was made from deleted: files are linked, not only named."""
    graph, model, path = tmp_path / "a.kg", tmp_path / "a.onnx", tmp_path / "a.index"
    shutil.copytree(many_kg.path, graph)
    shutil.copytree(bag.path, model)
    build(KG.open(graph), OnnxEncoder.load(model), path)
    assert left_in(tmp_path) == ["a.index", "a.kg", "a.onnx"]
    assert left_in(path) == [
        "calibration.json", "encoder", "grams", "kg", "meta.json", "search", "vectors",
    ]  # fmt: skip
    shutil.rmtree(graph)
    shutil.rmtree(model)
    path.rename(tmp_path / "elsewhere")
    expected = list(Normalizer.load(many_index).normalize_many(QUERIES))
    assert list(Normalizer.load(tmp_path / "elsewhere").normalize_many(QUERIES)) == expected
    meta = json.loads((tmp_path / "elsewhere" / META).read_text())
    assert (meta["concepts"], meta["terms"], meta["width"]) == (
        len(many_kg),
        len(many_kg.terms),
        24,
    )
    assert meta["parents"]["kg"] == many_kg.fingerprint
    assert meta["parents"]["encoder"] == bag.fingerprint


def test_where_files_cannot_be_linked_they_are_copied(
    many_kg, bag, calibration, tmp_path, monkeypatch
):
    def refuse(*_):
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", refuse)
    build(many_kg, bag, tmp_path / "a.index", calibration=calibration)
    here, there = many_kg.path / "names.json", tmp_path / "a.index" / "kg" / "names.json"
    assert here.read_bytes() == there.read_bytes()
    assert here.stat().st_ino != there.stat().st_ino
    assert Normalizer.load(tmp_path / "a.index").normalize("cold", threshold=0)


def test_the_number_of_rows_decides_on_the_kind(many_kg, bag, calibration, tmp_path, monkeypatch):
    path, rows = tmp_path / "a.index", json.loads((calibration.parent / META).read_text())["rows"]
    for most, kind, built in (
        (rows, None, "exact"),
        (rows - 1, None, "ivf"),
        (1, "exact", "exact"),
    ):
        monkeypatch.setattr(indexes, "_EXACT_UP_TO", most)
        build(many_kg, bag, path, kind=kind, calibration=calibration, overwrite=True)
        assert json.loads((path / META).read_text())["index"] == built
    with pytest.raises(UnknownName, match="did you mean 'exact'"):
        build(many_kg, bag, tmp_path / "b.index", kind="exakt")
    assert left_in(tmp_path) == ["a.index"]


def test_a_calibration_can_be_taken_over(
    many_kg, bag, many_index, calibration, tmp_path, encoded_texts, monkeypatch
):
    monkeypatch.setattr(building, "calibrate", lambda *_: pytest.fail("fitted again"))
    build(many_kg, bag, tmp_path / "a.index", calibration=calibration)
    assert (tmp_path / "a.index" / "calibration.json").read_bytes() == calibration.read_bytes()
    assert sum(map(len, encoded_texts)) == Normalizer.load(many_index).meta["rows"]
    assert (
        Normalizer.load(tmp_path / "a.index").calibration()
        == Normalizer.load(many_index).calibration()
    )


def test_a_bundled_model_brings_its_weights_to_every_graph(
    many_kg, bag, calibration, tmp_path, monkeypatch
):
    """To a list of single names too, in which nothing can be hidden to learn from."""
    table = tmp_path / "terms.tsv"
    table.write_text("concept\tterm\n" + "".join(f"L:{n}\tname {n}\n" for n in range(300)))
    build_kg([open_source(f"table={table}")], tmp_path / "single.kg")
    shipped = {bag.fingerprint: calibration}
    monkeypatch.setattr(building, "bundled_calibration", shipped.get)
    monkeypatch.setattr(building, "calibrate", lambda *_: pytest.fail("fitted"))
    for name, graph in (("single", KG.open(tmp_path / "single.kg")), ("many", many_kg)):
        path = tmp_path / f"{name}.index"
        build(graph, bag, path)
        assert json.loads((path / META).read_text())["calibrated"] == "bundled"
        assert (path / "calibration.json").read_bytes() == calibration.read_bytes()


def test_what_a_calibration_is_of(many_kg, bag, many_index, calibration, tmp_path):
    assert json.loads((many_index / META).read_text())["calibrated"] == "graph"  # another model
    build(many_kg, bag, tmp_path / "a.index", calibration=calibration)
    assert json.loads((tmp_path / "a.index" / META).read_text())["calibrated"] == "given"
    said = {"embedded graph": "bundled", "graph": "graph", "fitted": "fitted", "?": "given"}
    assert {old: building.calibrated_by({"calibrated": old}) for old in said} == said
    assert building.calibrated_by({}) == "graph"
    assert building.calibrated_by({"calibrated": ["graph"]}) == "given"


def test_a_shipped_model_has_a_calibration_and_others_have_none():
    folder = bundled_models()["medcoder-all"]
    file = building.bundled_calibration(OnnxEncoder.load(folder).fingerprint)
    assert file == folder.parent / "medcoder-all.open.calibration.json"
    assert building.bundled_calibration("0" * 32) is None


BAD_CALIBRATIONS = {
    "no file": None,
    "no JSON": "{",
    "a list": "[]",
    "a list of stages": '{"fusion": {"gain": 1, "floor": 0.5}, "stages": []}',
    "no fusion": '{"stages": {}}',
    "another fusion": '{"fusion": {"loss": 1}, "stages": {}}',
    "an empty entry": '{"fusion": {}, "stages": {"dense": {}}}',
    "bytes": b"\xff\xfe",
}


@pytest.mark.parametrize("content", BAD_CALIBRATIONS.values(), ids=BAD_CALIBRATIONS)
def test_a_calibration_that_is_none_is_refused_at_once(
    many_kg, bag, tmp_path, encoded_texts, content
):
    file = tmp_path / "given.json"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        ArtefactError, match=r"given.json: it cannot be read.* Build the index again"
    ):
        build(many_kg, bag, tmp_path / "a.index", calibration=file)
    assert (encoded_texts, "a.index" in left_in(tmp_path)) == ([], False)


def without_a_feature(entry):
    del entry["weights"]["order"]["cosine"]


def with_another_knot(entry):
    entry["weights"]["order"]["cosine"][0][0] = 0.25


def with_a_weight_less(entry):
    entry["weights"]["confidence"]["share"][1].pop()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_a_feature, "KeyError"),
        (with_another_knot, "cosine has other knots"),
        (with_a_weight_less, "share has other knots"),
    ],
)
def test_a_calibration_by_other_features_is_refused(
    calibration, many_kg, bag, tmp_path, change, said
):
    stored = json.loads(calibration.read_text())
    change(stored["stages"]["dense"])
    (tmp_path / "old.json").write_text(json.dumps(stored))
    with pytest.raises(ArtefactError, match=f"it cannot be read.*{said}"):
        build(many_kg, bag, tmp_path / "a.index", calibration=tmp_path / "old.json")


def test_what_is_not_an_index_is_not_overwritten(many_kg, bag, index, tmp_path, encoded_texts):
    """And that is found out before the graph is embedded."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ArtefactError, match="mine: it is not an index"):
        build(many_kg, bag, tmp_path / "mine", overwrite=True)
    with pytest.raises(ArtefactError, match="is a knowledge graph, not an index"):
        build(many_kg, bag, many_kg.path, overwrite=True)
    with pytest.raises(UsageError, match=r"many.index: it exists"):
        build(many_kg, bag, index)
    assert encoded_texts == []
    assert left_in(tmp_path) == ["many.index", "mine"]


def test_vectors_of_something_else_are_refused(many_kg, bag, toy_kg, tmp_path):
    other = write_bag(tmp_path / "other.onnx", WORDS, seed=3)
    for name, graph, encoder in (("toy.vectors", toy_kg, bag), ("other.vectors", many_kg, other)):
        vectors = embed(graph, encoder, tmp_path / name)
        with pytest.raises(
            ArtefactError, match="vectors: the vectors are not of this graph and this encoder"
        ):
            build(many_kg, bag, tmp_path / "a.index", vectors=vectors)
    assert left_in(tmp_path) == ["other.onnx", "other.vectors", "toy.vectors"]


def _meta_after(change):
    def damage(index):
        meta = json.loads((index / META).read_text())
        change(meta)
        (index / META).unlink()
        (index / META).write_text(json.dumps(meta))

    return damage


def _swap(part):
    """Another index's part in place of its own, as far as sizes tell a sound one."""

    def damage(index):
        shutil.rmtree(index / part)
        shutil.copytree(index.parent / "other.index" / part, index / part)
        sizes = {
            name: {"size": (index / name).stat().st_size if (index / name).exists() else 0}
            for name in json.loads((index / META).read_text())["files"]
        }
        sizes = {name: entry for name, entry in sizes.items() if (index / name).exists()}
        _meta_after(lambda meta: meta.update(files=sizes))(index)

    return damage


DAMAGE = {
    "no graph": lambda index: shutil.rmtree(index / "kg"),
    "no letters": lambda index: (index / "grams" / "gram.rows.uint32").unlink(),
    "half a file": lambda index: os.truncate(_own(index / "vectors" / f"{ROWS}.float16"), 100),
    "no calibration": lambda index: (index / "calibration.json").unlink(),
    "another graph": _swap("kg"),
    "other vectors": _swap("vectors"),
    "another version": _meta_after(lambda meta: meta.update(version=99)),
    "another kind": _meta_after(lambda meta: meta.update(kind="model")),
    "no parents": _meta_after(lambda meta: meta.pop("parents")),
    "no meta data": lambda index: (index / META).unlink(),
}


def _own(file):
    """The file by itself: what it is linked to stays as it is."""
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_index_is_an_error(index, toy_kg, tmp_path, damage, bag):
    build(toy_kg, bag, tmp_path / "other.index", calibration=index / "calibration.json")
    damage(index)
    with pytest.raises(ArtefactError):
        Normalizer.load(index)


def test_another_encoder_than_that_of_the_vectors_is_an_error(index, many_kg, tmp_path):
    other = write_bag(tmp_path / "other.onnx", WORDS, seed=3)
    build(many_kg, other, tmp_path / "other.index", calibration=index / "calibration.json")
    _swap("encoder")(index)
    reseal(index)
    normalizer = Normalizer.load(index)
    assert normalizer.normalize("cold", stages=["exact"], threshold=0)[0].concept  # needs none
    with pytest.raises(ArtefactError, match="its vectors are of another model than its own"):
        normalizer.normalize("cold feet")


def test_an_older_index_lacks_a_calibration(index):
    file = _own(index / "calibration.json")
    stored = json.loads(file.read_text())
    del stored["stages"]["exact"]
    file.write_text(json.dumps(stored))
    reseal(index)
    normalizer = Normalizer.load(index)
    assert normalizer.normalize("cold", threshold=0)
    with pytest.raises(ArtefactError, match=r"no calibration of exact. Build it again"):
        normalizer.normalize("cold", stages=["exact"])


@pytest.mark.parametrize("of_before", [["dense"], ["dense", "dense+ngram", "exact", "ngram"]])
def test_an_index_of_before_there_were_weights_takes_those_of_the_package(index, of_before):
    fusion, bundled = read_calibration(bundled_weights())
    file = _own(index / "calibration.json")
    stored = json.loads(file.read_text())
    for name in of_before:
        del stored["stages"][name]["weights"]
        stored["stages"][name] |= {"best": [1.0] * 12, "others": [0.5] * 12}
    stored["fusion"] = {"gain": 3.0, "floor": 0.25}
    file.write_text(json.dumps(stored))
    reseal(index)
    normalizer = Normalizer.load(index)
    assert sorted(bundled) == ["dense", "dense+ngram", "exact", "ngram"]
    assert (normalizer._fusion, normalizer._calibrations) == (fusion, bundled)
    found = normalizer.normalize("heart attack", threshold=0)
    assert found[0].name.lower() == "heart attack"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_graph_of_hardly_anything(bag, tmp_path, count):
    rows = [(f"C{n}", text, "en", "MSH", "1", "PT", 0)
            for n, text in enumerate(("cold", "rash", "fever")[:count])]  # fmt: skip
    build_kg([small_source(rows)], tmp_path / "s.kg")
    build(KG.open(tmp_path / "s.kg"), bag, tmp_path / "s.index")
    normalizer = Normalizer.load(tmp_path / "s.index")
    answer = normalizer.normalize("cold", threshold=0)
    assert answer[0].concept == "C0"
    assert len(answer) == count
    assert 0 <= normalizer.calibration().threshold <= 1


def test_a_graph_without_terms_to_search(bag, tmp_path):
    rows = [("C0", "cold", "en", "MSH", "1", "PT", 0)]
    build_kg([small_source(rows, flags=[("C0", "extension")])], tmp_path / "s.kg")
    with pytest.raises(UsageError, match="no vectors to search"):
        build(KG.open(tmp_path / "s.kg"), bag, tmp_path / "s.index")
    assert "s.index" not in left_in(tmp_path)


KILLED = """
import os, signal, sys
from pathlib import Path
from medcoder.kg import KG
from medcoder.normalize import build as building
from medcoder.bundled.models import MODEL, bundled_models
from medcoder.encode.onnx import OnnxEncoder
from medcoder.kg.sources import open_source
from medcoder.vectors import embed as embedding

graph, model, path, moment = sys.argv[1:]
embedding._SHARD = 20

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "embedding":
    encode = OnnxEncoder.encode
    calls = []
    def some(self, texts):
        calls.append(texts)
        return encode(self, texts) if len(calls) < 4 else kill()
    OnnxEncoder.encode = some
else:
    setattr(building, moment, kill)
building.build(KG.open(graph), OnnxEncoder.load(model), Path(path))
"""


@pytest.mark.parametrize(
    "moment, left", [("embedding", -60), ("build_index", None), ("calibrate", None)]
)
def test_a_killed_build_leaves_its_embedding_alone(
    many_kg, bag, many_index, calibration, tmp_path, moment, left, encoded_texts
):
    path = tmp_path / "a.index"
    command = [sys.executable, "-c", KILLED, many_kg.path, bag.path, path, moment]
    done = subprocess.run(command, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert not path.exists()
    assert all(name.startswith(".") for name in left_in(tmp_path))
    build(many_kg, bag, path, calibration=calibration)
    rows = json.loads((path / META).read_text())["rows"]
    assert sum(map(len, encoded_texts)) == (rows + left if left else 0)
    assert left_in(tmp_path) == ["a.index"]
    expected = list(Normalizer.load(many_index).normalize_many(QUERIES))
    assert list(Normalizer.load(path).normalize_many(QUERIES)) == expected


@pytest.mark.parametrize(("module", "refused"), [(building, True), (embedding, False)])
def test_what_a_kill_left_beside_what_is_whole_goes(
    many_kg, bag, calibration, tmp_path, monkeypatch, module, refused
):
    """Of an index that was just done, and of its vectors when they were."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "remove_at_once", stop)
        build(many_kg, bag, tmp_path / "a.index", calibration=calibration)
    assert ".a.index.vectors" in left_in(tmp_path)
    if refused:
        with pytest.raises(UsageError, match="it exists"):
            build(many_kg, bag, tmp_path / "a.index", calibration=calibration)
    else:
        build(many_kg, bag, tmp_path / "a.index", calibration=calibration)
    assert left_in(tmp_path) == ["a.index"]


@pytest.mark.parametrize("other", ["graph", "model"])
def test_what_a_stopped_build_embedded_of_something_else_is_not_used(
    many_kg, toy_kg, bag, many_index, calibration, tmp_path, monkeypatch, other
):
    def stop(*_):
        raise KeyboardInterrupt

    graph, model = toy_kg, bag
    if other == "model":
        graph, model = many_kg, write_bag(tmp_path / "other.onnx", WORDS, seed=3)
    path = tmp_path / "here" / "a.index"
    with monkeypatch.context() as patch:
        patch.setattr(building, "build_grams", stop)
        with pytest.raises(KeyboardInterrupt):
            build(graph, model, path)
    assert left_in(path.parent) == [".a.index.vectors"]
    build(many_kg, bag, path, calibration=calibration)
    assert left_in(path.parent) == ["a.index"]
    expected = list(Normalizer.load(many_index).normalize_many(QUERIES))
    assert list(Normalizer.load(path).normalize_many(QUERIES)) == expected


# First use

FIRST_USE = """
import sys
from pathlib import Path
from medcoder.bundled import models
from medcoder.normalize import Normalizer, build

models.MODELS = Path(sys.argv[1])
build.bundled_kg = lambda progress: Path(sys.argv[2])
if sys.argv[3] == "stays":
    def stay(*_):
        print("building", flush=True)
        sys.stdin.readline()
    build.build_grams = stay
print(Normalizer.load().normalize("cold", threshold=0)[0].concept, flush=True)
"""


@pytest.fixture
def first_use(bag, toy_kg, tmp_path):
    """Start first uses of one home, each as process 1 of a container."""
    shutil.copytree(bag.path, tmp_path / "models" / MODEL)
    shutil.copy(bundled_weights(), tmp_path / "models")
    graph = tmp_path / "open-1.kg"
    graph.symlink_to(toy_kg.path)
    started = []

    def start(how="goes on"):
        env = os.environ | {"MEDCODER_HOME": str(tmp_path / "home")}
        started.append(in_container(FIRST_USE, tmp_path / "models", graph, how, env=env))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_who_waits_for_a_first_use_outlives_its_end(first_use, tmp_path):
    home = tmp_path / "home"
    builder = first_use("stays")
    assert builder.stdout.readline() == "building\n"
    waiting = first_use()
    line = waiting.stderr.readline()
    assert line == f"waiting for another process that builds the index in {home}\n"
    assert [name for name in left_in(home) if not name.startswith(".")] == []
    kill(builder)
    out, said = waiting.communicate(timeout=120)
    assert (out, said, waiting.returncode) == ("C0234192\n", "", 0)
    [name] = left_in(home)
    assert name.endswith(".index")


def test_the_next_use_removes_what_the_killed_left(first_use, tmp_path):
    home, day = tmp_path / "home", 24 * 3600 + 60
    builder = first_use("stays")
    assert builder.stdout.readline() == "building\n"
    kill(builder)
    assert sum(name.endswith(".partial") for name in left_in(home)) == 2  # vectors and index
    then = time.time() - day
    for name in (".open-0.index.1.vectors", "..open-0.index.1.vectors.embedding",
                 "..open-0.index.1.vectors.1.partial", ".open-0.kg.7.partial"):  # fmt: skip
        (home / name).mkdir()  # as versions before left them
        os.utime(home / name, (then, then))
    for name in (".open-1.kg.7.partial", ".thesis"):  # may be in use; not ours
        (home / name).mkdir()
    os.utime(home / ".thesis", (then, then))
    out, said = first_use().communicate(timeout=120)
    assert (out, said) == ("C0234192\n", "")
    assert left_in(home)[:2] == [".open-1.kg.7.partial", ".thesis"]
    assert len(left_in(home)) == 3
    stale = f".{left_in(home)[2]}.first.lock"  # of one killed at the very end
    (home / stale).touch()
    first_use().communicate(timeout=120)
    assert stale not in left_in(home)


def test_a_build_of_the_same_name_is_left_alone(many_kg, bag, calibration, tmp_path, monkeypatch):
    path, said = tmp_path / "a.index", []
    write = building.build_grams

    def meanwhile(*arguments):
        with pytest.raises(UsageError, match="it is being made already") as caught:
            build(many_kg, bag, path, calibration=calibration)
        said.append(caught.value.remedy)
        return write(*arguments)

    monkeypatch.setattr(building, "build_grams", meanwhile)
    build(many_kg, bag, path, calibration=calibration)
    assert said == ["Wait until it is done"]
    assert left_in(tmp_path) == ["a.index"]
    assert Normalizer.load(path).normalize("cold", threshold=0)
