"""Names that others rely on: a change here is a change for users."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import medcoder
from medcoder import errors
from medcoder.errors import InputError
from medcoder.kg import KG
from medcoder.kg.sources import EMBEDDED, SOURCES
from medcoder.types import CONCEPT_FLAGS, SCHEMAS, Count, Tally


def test_the_package():
    assert medcoder.__all__ == [
        "KG", "Normalizer", "__version__", "build_kg", "bundled_kg", "load_encoder", "map_table",
        "open_source",
    ]  # fmt: skip
    assert medcoder.KG is KG


def test_sources():
    assert sorted(SOURCES) == ["obo", "omop", "open", "rf2", "table", "umls"]
    assert {"open"} == EMBEDDED


def test_the_graph():
    public = {name for name, _ in inspect.getmembers(KG) if not name.startswith("_")}
    assert public == {
        "alternatives_of", "codes_of", "contains", "find", "find_code", "find_codes", "find_terms",
        "fingerprint", "flags_of", "ids", "index", "indices", "neighbours", "open",
        "preferred", "report", "stats",
        "terms_of", "triples", "types_of", "xrefs_of",
    }  # fmt: skip


def test_attributes_of_an_open_graph(toy_kg):
    assert {name for name in vars(toy_kg) if not name.startswith("_")} == {
        "edges", "first_type", "first_xref", "flags", "kinds", "languages", "meta", "path",
        "relations", "terms", "type_numbers", "types", "vocabularies", "xref_info",
    }  # fmt: skip


def test_options_are_named():
    for method in (KG.neighbours, KG.find_code, medcoder.build_kg):
        kinds = [parameter.kind for parameter in inspect.signature(method).parameters.values()]
        assert inspect.Parameter.KEYWORD_ONLY in kinds


def test_the_exception_tree_and_its_exit_codes():
    tree = {
        name: (found.__base__.__name__, found.exit_code)
        for name, found in vars(errors).items()
        if inspect.isclass(found) and issubclass(found, Exception)
    }
    assert tree == {
        "MedcoderError": ("Exception", 1),
        "UsageError": ("MedcoderError", 2),
        "UnknownName": ("UsageError", 2),
        "MissingExtra": ("UsageError", 2),
        "InputError": ("MedcoderError", 3),
        "TooLarge": ("InputError", 3),
        "ArtefactError": ("MedcoderError", 4),
        "NotFound": ("ArtefactError", 4),
        "DiskFull": ("MedcoderError", 5),
        "NonFiniteLoss": ("MedcoderError", 6),
        "StaleDecision": ("MedcoderError", 7),
    }
    for name, (base, code) in tree.items():
        drawn = next(line for line in errors.__doc__.splitlines() if name in line.split())
        assert str(code) in drawn.split(), (name, base)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({}, "it is bad"),
        ({"file": "a.csv"}, "a.csv: it is bad"),
        ({"row": 1234}, "row 1,234: it is bad"),
        ({"file": "a.csv", "row": 7}, "a.csv, row 7: it is bad"),
        ({"file": "a.csv", "row": 7, "remedy": "Mend it"}, "a.csv, row 7: it is bad. Mend it"),
    ],
)
def test_an_input_error_says_where(place, message):
    assert str(InputError("it is bad", **place)) == message


def test_flags_and_parts_have_their_order():
    # Bits of a byte on disk.
    assert CONCEPT_FLAGS == ("standard", "invalid", "extension", "heading", "billable")
    assert list(SCHEMAS) == ["terms", "types", "xrefs", "flags", "edges"]


def test_counts():
    count = Count(read=5, kept=2)
    count.drop("late", 2)
    count.drop("early", 0)
    assert not count.adds_up
    count.drop("early", 1)
    assert count.adds_up
    assert list(count.as_dict()["left_out"].items()) == [("early", 1), ("late", 2)]
    tally = Tally()
    tally["a"].read += 1
    assert tally == {"a": Count(read=1)}


# What importing costs


BLOCKED = ("polars", "fastobo", "typer", "rich", "matplotlib", "torch", "transformers")


def test_a_graph_opens_where_only_numpy_and_pyarrow_are(toy_path):
    """Training reads graphs on machines that build none."""
    code = f"""
import sys
for name in {BLOCKED}:
    sys.modules[name] = None
from medcoder import KG
print(KG.open({str(toy_path)!r}).find("cold"))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("['C0234192', 'C0009443']\n", "")


def test_importing_does_nothing():
    code = """
import logging, os, sys, threading
before = dict(os.environ), list(logging.root.handlers), threading.active_count()
import medcoder
assert (dict(os.environ), list(logging.root.handlers), threading.active_count()) == before
heavy = {"numpy", "pyarrow", "polars", "torch", "typer"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_name_that_the_package_lacks():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = medcoder.nothing


@pytest.mark.parametrize("old, new", [("default_kg", "bundled_kg"), ("ingest", "build_kg")])
def test_an_old_name_works_and_warns(old, new):
    with pytest.warns(DeprecationWarning, match=f"medcoder.{old} is now medcoder.{new}"):
        value = getattr(medcoder, old)
    assert value is getattr(medcoder, new)


def test_no_module_is_left_out_of_the_wheel():
    """The wheel leaves out what git ignores, wherever it lies."""
    root = Path(__file__).parents[1]
    ignored = {line.rstrip("/") for line in (root / ".gitignore").read_text("utf-8").split()}
    names = {path.name for path in (root / "src").rglob("*") if "__pycache__" not in path.parts}
    assert ignored & names == set()
