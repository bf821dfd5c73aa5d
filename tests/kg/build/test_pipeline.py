"""What a build refuses, counts, says while it runs, and leaves when it is stopped."""

import signal
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

from medcoder.errors import InputError, MedcoderError, UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from support.memory import MemorySource
from support.toy import EDGES, TERMS, toy_source

TERM = ("C1", "one", "en", "S", "1", "PT", 0)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# Refusals


def test_no_source(tmp_path):
    with pytest.raises(UsageError, match="no source to build from"):
        build_kg([], tmp_path / "kg")


def test_too_little_memory(tmp_path):
    with pytest.raises(UsageError, match=r"too little memory: 1,000 bytes\. Allow 64 MB"):
        build_kg([toy_source()], tmp_path / "kg", memory=1000)


def test_no_terms(tmp_path):
    with pytest.raises(InputError, match="no terms were left to build a graph from") as caught:
        build_kg([MemorySource(types=[("C1", "T1", "t")])], tmp_path / "kg")
    assert "memory types: 1 rows, 1 kept" in str(caught.value)
    assert names(tmp_path) == []


def test_unknown_flags(tmp_path):
    with pytest.raises(MedcoderError, match=r"unknown flags: shiny"):
        build_kg([MemorySource(terms=[TERM], flags=[("C1", "shiny")])], tmp_path / "kg")
    assert names(tmp_path) == []


def test_an_id_with_a_line_break(tmp_path):
    with pytest.raises(InputError, match="has a line break"):
        build_kg([MemorySource(terms=[("C\n1", *TERM[1:])])], tmp_path / "kg")
    assert names(tmp_path) == []


def test_counts_that_do_not_add_up(tmp_path):
    class Careless(MemorySource):
        def edges(self, tally):
            tally["lost"].read += 1
            return super().edges(tally)

    with pytest.raises(MedcoderError, match="lost: the counts do not add up"):
        build_kg([Careless(terms=[TERM])], tmp_path / "kg")
    assert names(tmp_path) == []


def test_too_many_labels(tmp_path):
    terms = [("C1", f"name {n}", f"x{n}", "S", "1", "PT", 0) for n in range(1025)]
    with pytest.raises(InputError, match="more than 1,024 languages"):
        build_kg([MemorySource(terms=terms)], tmp_path / "kg")


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (EDGES[:-2], r"1 relations were left out \(concept to itself\), the first: C0012634 RO C0"),
        (
            [EDGES[0], *EDGES[-2:]],
            r"2 relations were left out \(absent concept\), the first: "
            r"C0012634 RB\|inverse_isa C7777777",
        ),
    ],
)
def test_strict(tmp_path, edges, message):
    with pytest.raises(InputError, match=message) as caught:
        build_kg([toy_source(edges=edges)], tmp_path / "kg", strict=True)
    assert caught.value.remedy.startswith("Build without --strict")
    assert names(tmp_path) == []


def test_strict_has_nothing_against_repeats(tmp_path):
    report = build_kg([toy_source(edges=[EDGES[0]] * 3)], tmp_path / "kg", strict=True)
    assert report["graph"]["edges"] == {"read": 3, "kept": 1, "left_out": {"duplicate": 2}}


def test_an_existing_graph(tmp_path):
    build_kg([toy_source()], tmp_path / "kg")
    one = MemorySource(terms=[TERM])
    with pytest.raises(UsageError, match="exists"):
        build_kg([one], tmp_path / "kg")
    assert len(KG.open(tmp_path / "kg")) == 30
    build_kg([one], tmp_path / "kg", overwrite=True)
    assert len(KG.open(tmp_path / "kg")) == 1
    assert names(tmp_path) == ["kg"]


def test_a_graph_stays_readable_while_it_is_overwritten(tmp_path):
    build_kg([toy_source()], tmp_path / "kg")
    kg = KG.open(tmp_path / "kg")
    build_kg([MemorySource(terms=[TERM])], tmp_path / "kg", overwrite=True)
    assert kg.preferred("C0009443") == "Common Cold"
    assert kg.find("cold") == ["C0234192", "C0009443"]


# What becomes of rows


def test_line_breaks_become_spaces(tmp_path):
    terms = [
        ("C1", "one\ntwo\n", "en", "S", "a\nb", "PT", 0),
        ("C1", "one two ", "en", "S", "a b", "PT", 1),
        ("C1", "carriage\rreturn", "en", "S", "", "PT", 2),
    ]
    report = build_kg([MemorySource(terms=terms)], tmp_path / "kg")
    kg = KG.open(tmp_path / "kg")
    assert [(term.text, term.code) for term in kg.terms_of("C1")] == [
        ("one two ", "a b"),
        ("carriage\rreturn", ""),
    ]
    assert report["graph"]["terms"]["left_out"] == {"duplicate": 1}
    assert kg.find("one two") == kg.find("one\ntwo") == ["C1"]
    assert kg.find_code("S", "a b") == ["C1"]


def test_of_equal_terms_the_best_ranked_stays(tmp_path):
    terms = [
        ("C1", "same", "en", "S", "1", "SY", 5),
        ("C1", "same", "en", "S", "1", "PT", 2),
        ("C1", "same", "en", "S", "1", "ET", 9),
        ("C1", "same", "en", "S", "2", "SY", 3),
        ("C1", "same", "fr", "S", "1", "SY", 1),
        ("C1", "Same", "en", "S", "1", "SY", 4),
    ]
    report = build_kg([MemorySource(terms=terms)], tmp_path / "kg")
    kg = KG.open(tmp_path / "kg")
    assert [tuple(term) for term in kg.terms_of("C1")] == [
        ("same", "en", "S", "1", "PT"),
        ("same", "en", "S", "2", "SY"),
        ("Same", "en", "S", "1", "SY"),
        ("same", "fr", "S", "1", "SY"),
    ]
    assert report["graph"]["terms"] == {"read": 6, "kept": 4, "left_out": {"duplicate": 2}}


def test_terms_of_one_rank_go_by_their_text_then_their_vocabulary(tmp_path):
    texts = ["b", "a", "ä", "B", "c", "Z", "が"]
    terms = [("C1", text, "en", "S", "1", "PT", 0) for text in texts]
    terms += [("C1", "a", "en", "R", "1", "PT", 0), ("C1", "a", "en", "S", "0", "PT", 0)]
    build_kg([MemorySource(terms=terms)], tmp_path / "kg", any_names=["all"])
    found = [(t.text, t.vocabulary, t.code) for t in KG.open(tmp_path / "kg").terms_of("C1")]
    assert found[:3] == [("B", "S", "1"), ("Z", "S", "1"), ("a", "S", "0")]
    assert found[3:5] == [("a", "S", "1"), ("a", "R", "1")]  # S came first
    assert [text for text, *_ in found[5:]] == ["b", "c", "ä", "が"]


def test_relations_without_an_edge_have_no_number(tmp_path):
    edges = [("C1", "lost", "absent"), ("C1", "loop", "C1"), ("C1", "r", "C2")]
    build_kg([MemorySource(terms=[TERM, ("C2", *TERM[1:])], edges=edges)], tmp_path / "kg")
    assert KG.open(tmp_path / "kg").relations == ("r",)


def test_several_sources(tmp_path):
    other = MemorySource(
        name="other",
        terms=[("C0009443", "Schnupfen", "de", "X", "9", "PT", 0), TERM],
        edges=[("C1", "r", "C0009443"), ("C0027051", "CHD|isa", "C0018799")],
    )
    report = build_kg([toy_source(), other], tmp_path / "kg")
    kg = KG.open(tmp_path / "kg")
    assert len(kg) == 31
    assert "Schnupfen" in [term.text for term in kg.terms_of("C0009443")]
    assert kg.contains("C1", "r", "C0009443")
    assert kg.meta["sources"] == ["toy", "other"]
    assert kg.meta["namespaces"] == ["UMLS"]
    assert report["graph"]["edges"]["left_out"]["duplicate"] == 2
    assert report["files"]["other terms"]["read"] == 2
    assert report == kg.report()


def test_progress_goes_forward_and_ends_at_the_end(tmp_path):
    said = []
    build_kg([toy_source(chunk=9)], tmp_path / "kg", progress=lambda *step: said.append(step))
    stages = {}
    for stage, done, total in said:
        assert 0 <= done <= total
        assert done >= stages.get(stage, (0, 0))[0]
        stages[stage] = done, total
    assert list(stages) == [
        "reading concepts",
        "numbering concepts",
        "writing terms",
        "reading relations",
        "sorting relations",
    ]
    assert stages["writing terms"] == (len(TERMS), len(TERMS))
    assert stages["reading relations"][0] == stages["reading relations"][1]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux tells what is open")
def test_no_thread_and_no_file_is_left_open(tmp_path):
    before = set(threading.enumerate())
    build_kg([toy_source(chunk=5)], tmp_path / "kg")
    assert set(threading.enumerate()) == before
    files = [str(fd.resolve()) for fd in Path("/proc/self/fd").iterdir()]
    assert files
    assert not [file for file in files if str(tmp_path) in file]


# Stopped in the middle


class Broken(MemorySource):
    """Raises an error after the first table of a part."""

    def __init__(self, part, error):
        super().__init__(terms=TERMS, edges=EDGES, types=[("C1", "T", "t")] * 9, chunk=5)
        self._broken, self._error = part, error

    def _tables(self, part, rows, tally):
        for table in super()._tables(part, rows, tally):
            yield table
            if part == self._broken:
                raise self._error


@pytest.mark.parametrize("part", ["terms", "types", "edges"])
@pytest.mark.parametrize(
    "error", [InputError("row 7 is bad"), KeyboardInterrupt(), OSError(5, "x")]
)
def test_a_source_that_breaks_leaves_nothing(tmp_path, part, error):
    with pytest.raises(type(error)):
        build_kg([Broken(part, error)], tmp_path / "kg")
    assert names(tmp_path) == []
    build_kg([toy_source()], tmp_path / "kg")
    with pytest.raises(type(error)):
        build_kg([Broken(part, error)], tmp_path / "kg", overwrite=True)
    assert names(tmp_path) == ["kg"]
    assert len(KG.open(tmp_path / "kg")) == 30


def test_an_interrupt_while_showing_progress(tmp_path):
    for wanted in ("reading concepts", "writing terms", "reading relations", "sorting relations"):

        def interrupt(stage, *_, wanted=wanted):
            if stage == wanted:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            build_kg([toy_source(chunk=3)], tmp_path / "kg", progress=interrupt)
        assert names(tmp_path) == []


ENDLESS = """
import sys
from support.memory import MemorySource
from support.toy import TERMS
from medcoder.kg.build import build_kg

class Endless(MemorySource):
    def concepts(self, tally):
        yield from super().concepts(tally)
        print("reading", flush=True)
        while True:
            yield from super().concepts(tally)

build_kg([Endless(terms=TERMS)], sys.argv[1], overwrite=True)
"""
HERE = Path(__file__).parents[2]


def script(text, *arguments, **options):
    """A Python process that finds the helpers of these tests."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", text, *map(str, arguments)],
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_is_stopped(tmp_path, how):
    path = tmp_path / "kg"
    with script(ENDLESS, path) as process:
        assert process.stdout.readline() == "reading\n"
        assert not path.exists()
        process.send_signal(how)
        _, errors = process.communicate(timeout=30)
    if how == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
        assert names(tmp_path) == []
    else:
        assert [name.rsplit(".", 1)[1] for name in names(tmp_path)] == ["lock", "partial"]
    build_kg([toy_source()], path)
    assert names(tmp_path) == ["kg"]
    assert len(KG.open(path)) == 30


FULL = """
import resource, sys
from pathlib import Path
from support.memory import MemorySource
from medcoder.errors import DiskFull
from medcoder.kg.build import build_kg

count = 1500
ids = [f"C{7919 * n % count:05}" for n in range(count)]
source = dict(
    terms=[(id, f"a term of {id}", "en", "S", id, "PT", 0) for id in ids],
    types=[(id, "T1", "t") for id in ids],
    xrefs=[(id, "X", id, "xref") for id in ids],
    flags=[(id, "standard") for id in ids],
    edges=[(one, "r", other) for one in ids[:150] for other in ids[:150]],
)
out = Path(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for limit in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        build_kg([MemorySource(**source, chunk=400)], out / "kg")
    except DiskFull as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        print(limit, error.exit_code, sorted(p.name for p in out.iterdir()), error)
    else:
        print(limit, "whole")
"""


def test_a_disk_that_fills_up(tmp_path):
    """The least limits stop the parking of rows, the last but one the writing of edges."""
    limits = [1 << bits for bits in range(8, 19)]
    with script(FULL, tmp_path, *limits) as process:
        said, errors = process.communicate(timeout=60)
    assert errors == ""
    *full, whole = said.splitlines()
    assert whole == f"{limits[-1]} whole"
    assert len(full) == len(limits) - 1
    for limit, line in zip(limits, full, strict=False):
        assert line.startswith(f"{limit} 5 [] {tmp_path / 'kg'}: no room left to write it: ")
        assert "Nothing was kept of it" in line
    assert names(tmp_path) == ["kg"]


def test_the_least_memory_is_what_the_message_says():
    assert import_module("medcoder.kg.build").LEAST_MEMORY == 64 << 20
