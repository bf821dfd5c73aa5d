"""The tables of data/ are what their README says: fields, counts, nothing under two concepts."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from medcoder.text import clean, fold

ROOT = Path(__file__).parent.parent
DATA = ROOT / "data"
MANIFEST = tomllib.loads((ROOT / "recipes" / "medcoder-all" / "manifest.toml").read_text("utf-8"))
LAY = sorted((DATA / "lay").iterdir())
TWELVE = ["de", "fr", "nl", "es", "it", "pt", "sv", "pl", "cs", "ru", "zh", "ja"]
PARALLEL = {  # languages, in the order of the columns
    "more": ["sv", "da", "nb", "fi", "hu", "hr", "uk", "el", "tr", "ko", "vi", "cs"],
    "phrases": ["en", *TWELVE],
    "terms": TWELVE,
    "words": ["en", "de", "es", "fr", "nl", "it", "pt"],
}
ID = re.compile(r"[A-Za-z][A-Za-z0-9.]*:\S+")
# Of concepts of the graph; WN30 is WordNet.
GRAPH = {
    "CHEBI", "CL", "DOID", "EFO", "GARD", "HP", "ICD10", "ICD10CM", "ICD11", "MESH", "MONDO",
    "NCIT", "ORPHA", "SYMP", "UBERON", "WN30",
}  # fmt: skip
OWN = {"words": "PAR", "phrases": "PHR"}

parts = pytest.mark.parametrize("name", PARALLEL)
files = pytest.mark.parametrize("path", LAY, ids=lambda path: path.name)


def rows(path, header):
    """Rows below the header, with as many fields, each clean: one line, no blanks at its ends."""
    text = path.read_bytes().decode("utf-8")  # and not utf-8-sig: no mark at the start
    assert text.endswith("\n") and not text.endswith("\n\n")
    first, *others = [line.split("\t") for line in text[:-1].split("\n")]
    assert first == header
    for number, row in enumerate(others, 2):
        assert len(row) == len(header), (path.name, number, row)
        assert [clean(field) for field in row] == row, (path.name, number, row)
        assert ID.fullmatch(row[0]), (path.name, number, row)
    return others


def lay(path):
    return rows(path, ["concept", "name", "phrase"])


def parallel(name):
    return rows(DATA / "parallel" / f"{name}.tsv", ["concept", *PARALLEL[name]])


def terms(row):
    return [term for field in row[1:] if field for term in field.split(" / ")]


def test_there_is_a_file_of_lay_phrases_for_each_language():
    assert [path.name for path in LAY] == ["de.tsv", "en.tsv", "es.tsv", "fr.tsv", "nl.tsv"]


@files
def test_lay_phrases_have_no_empty_fields_and_are_there_once(path):
    found = lay(path)
    for row in found:
        assert all(row) and fold(row[2]), row
    assert [row for row, count in Counter(map(tuple, found)).items() if count > 1] == []


@files
def test_no_lay_phrase_is_under_two_concepts_of_a_language(path):
    owner = {}
    for concept, _, phrase in lay(path):
        assert owner.setdefault(fold(phrase), concept) == concept, phrase


def test_a_concept_has_one_name_in_all_files():
    names = {}
    for path in LAY:
        for concept, name, _ in lay(path):
            assert names.setdefault(concept, name) == name


def test_there_are_four_files_of_the_parallel_vocabulary():
    found = sorted((DATA / "parallel").iterdir())
    assert [path.name for path in found] == [f"{name}.tsv" for name in PARALLEL]


@parts
def test_parallel_words_are_terms_of_one_concept_a_row(name):
    for row in parallel(name):
        assert terms(row), row
        for field in row[1:]:
            some = field.split(" / ") if field else []
            assert all(some) and len(set(some)) == len(some), row
            assert [clean(term) for term in some] == some, row


@parts
def test_parallel_ids_are_of_the_graph_or_our_own_and_those_are_there_once(name):
    ids = [row[0] for row in parallel(name)]
    kinds = {concept.partition(":")[0] for concept in ids}
    assert kinds - GRAPH == {OWN[name]} if name in OWN else kinds <= GRAPH
    single = [one for one in ids if name != "words" or one.startswith("PAR:")]
    assert len(set(single)) == len(single)  # in words.tsv, two rows may be of one concept
    numbered = [one for one in ids if one.partition(":")[0] == OWN.get(name)]
    assert all(re.fullmatch(r"(PAR|PHR):[0-9]{5}", one) for one in numbered)


def test_the_counts_of_the_readme_and_the_manifest_are_those_of_the_files():
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    every = [row for path in LAY for row in lay(path)]
    for name, found in [(f"`{path.name}`", lay(path)) for path in LAY] + [("all", every)]:
        assert f"| {name} | {len(found):,} | {len({row[0] for row in found}):,} |" in readme
    shared = [(f"`{name}.tsv`", parallel(name)) for name in PARALLEL]
    both = [row for _, found in shared for row in found]
    for name, found in [*shared, ("all four", both)]:
        linked = sum(row[0].partition(":")[0] in GRAPH for row in found)
        count = sum(len(terms(row)) for row in found)
        assert f"| {name} | {len(found):,} | {linked:,} | {count:,} |" in readme
    own = MANIFEST["own"]
    assert own["lay"]["terms"] == len(every)
    assert own["lay"]["concepts"] == len({row[0] for row in every})
    assert {name: (one["rows"], one["terms"]) for name, one in own["parallel"]["file"].items()} == {
        name: (len(parallel(name)), sum(len(terms(row)) for row in parallel(name)))
        for name in PARALLEL
    }
    assert MANIFEST["inputs"]["parallel_rows"] <= len(parallel("words"))


@parts
def test_the_readme_counts_the_terms_of_each_language(name):
    readme = " ".join((DATA / "README.md").read_text(encoding="utf-8").split())
    counts = [0] * len(PARALLEL[name])
    for row in parallel(name):
        for place, field in enumerate(row[1:]):
            counts[place] += len(field.split(" / ")) if field else 0
    pairs = zip(PARALLEL[name], counts, strict=True)
    assert f"`{name}.tsv`: {', '.join(f'{tag} {count:,}' for tag, count in pairs)}." in readme


def test_the_manifest_says_of_every_source_whether_it_is_in_and_why():
    sources = MANIFEST["source"]
    for name, about in sources.items():
        assert about["in"] in (True, False), name
        assert about["licence"] and about["why"], name
    assert sum(about["terms"] for about in sources.values()) == MANIFEST["inputs"]["merged_terms"]
