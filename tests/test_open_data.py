"""The tables of data/ are what their README says: fields, counts, nothing under two concepts."""

import hashlib
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from medcoder.kg.sources.open import _data
from medcoder.text import clean, fold

ROOT = Path(__file__).parent.parent
DATA = ROOT / "data" / "train"
EVAL = ROOT / "data" / "eval"
MANIFEST = tomllib.loads((ROOT / "recipes" / "medcoder-all" / "manifest.toml").read_text("utf-8"))
LAY, NOTES = (sorted((DATA / folder).iterdir()) for folder in ("lay", "notes"))
WEST = ["de", "nl", "fr", "es", "it", "pt"]
TWELVE = ["de", "fr", "nl", "es", "it", "pt", "sv", "pl", "cs", "ru", "zh", "ja"]
TWENTY = sorted([*TWELVE, "el", "fi", "hr", "hu", "ko", "tr", "uk", "vi"])
MEASURED = {"dev": 120, "test": 80}  # concepts
SPOKEN = ["cs", "de", "el", "es", "fi", "fr", "hr", "hu", "it", "ja", "ko", "nb", "nl", "pl", "pt"]
SPOKEN += ["ru", "sv", "tr", "uk", "vi", "zh"]
PARALLEL = {  # languages, in the order of the columns
    "everyday_words": ["en", *SPOKEN],
    "findings_germanic_romance": ["en", *WEST, "sv", "da", "nb", "ro"],
    "findings_other_languages": [
        "cs",
        "hu",
        "fi",
        "hr",
        "ko",
        "ja",
        "zh",
        "pl",
        "ru",
        "tr",
        "uk",
        "el",
        "vi",
    ],
    "common_words": ["en", *WEST, "pl", "ru", "cs", "sv", "ja", "zh", "tr"],
    "common_word_forms": ["el", "fi", "hr", "hu", "ko", "nb", "uk", "vi"],
    "common_concept_names": [
        "sv",
        "da",
        "nb",
        "fi",
        "hu",
        "hr",
        "uk",
        "el",
        "tr",
        "ko",
        "vi",
        "cs",
    ],
    "concept_names_more_languages": ["el", "fi", "hr", "hu", "ko", "nb", "vi"],
    "short_phrases": ["en", *TWELVE],
    "concept_names": TWELVE,
    "icd10cm_titles": TWENTY,
    "leaflet_words": ["en", "de", "es", "fr", "nl", "it", "pt"],
}
RELATED = {  # columns after the term and what all have
    "conditions": ["signs", "causes", "complications", "treatments", "tests"],
    "drugs": ["treats", "action", "effects", "other"],
    "signs": ["conditions", "parts", "measures"],
}
ID = re.compile(r"[A-Za-z][A-Za-z0-9.]*:\S+")
# Of concepts of the graph; WN30 is WordNet.
GRAPH = {
    "CHEBI", "CL", "DOID", "EFO", "GARD", "HP", "ICD10", "ICD10CM", "ICD11", "MESH", "MONDO",
    "NCIT", "ORPHA", "SYMP", "UBERON", "WN30",
}  # fmt: skip
FINDINGS = {"FND", "FNM"}
OWN = {
    "findings_germanic_romance": FINDINGS,
    "findings_other_languages": FINDINGS,
    "common_words": {"GEN"},
    "common_word_forms": {"GEN"},
    "short_phrases": {"PHR"},
    "leaflet_words": {"PAR"},
    "everyday_words": {"DAY"},
}

parts = pytest.mark.parametrize("name", PARALLEL)
files = pytest.mark.parametrize(
    "path", [*LAY, *NOTES], ids=lambda path: f"{path.parent.name}/{path.name}"
)


def rows(path, header):
    """Rows below the header, with as many fields, each clean: one line, no blanks at its ends."""
    text = path.read_bytes().decode("utf-8")  # and not utf-8-sig: no mark at the start
    assert text.endswith("\n") and not text.endswith("\n\n")
    first, *others = [line.split("\t") for line in text[:-1].split("\n")]
    assert first == header
    for number, row in enumerate(others, 2):
        assert len(row) == len(header), (path.name, number, row)
        assert [clean(field) for field in row] == row, (path.name, number, row)
    return others


def of_concepts(path, header):
    found = rows(path, header)
    assert [row for row in found if not ID.fullmatch(row[0])] == []
    return found


def lay(path):
    return of_concepts(path, ["concept", "name", "phrase"])


def parallel(name):
    return of_concepts(DATA / "parallel" / f"{name}.tsv", ["concept", *PARALLEL[name]])


def related(name):
    columns = ["term", "names", "kinds", "closest", *RELATED[name]]
    return rows(DATA / "related" / f"{name}.tsv", columns)


def items(row):
    return [item for field in row[1:] if field for item in field.split(" | ")]


def terms(row):
    return [term for field in row[1:] if field for term in field.split(" / ")]


def test_there_is_a_file_of_phrases_for_each_language():
    spoken = "cs de el en es fi fr hr hu it ja ko nb nl pl pt ru sv tr uk vi zh"
    assert [path.stem for path in LAY] == spoken.split(" ")
    assert [path.stem for path in NOTES] == spoken.split(" ")
    assert {path.suffix for path in [*LAY, *NOTES]} == {".tsv"}


@files
def test_phrases_have_no_empty_fields_and_are_there_once(path):
    found = lay(path)
    for row in found:
        assert all(row) and fold(row[2]), row
    assert [row for row, count in Counter(map(tuple, found)).items() if count > 1] == []


@files
def test_no_phrase_is_under_two_concepts_of_a_file(path):
    owner = {}
    for concept, _, phrase in lay(path):
        assert owner.setdefault(fold(phrase), concept) == concept, phrase


def test_a_concept_has_one_name_in_all_files_of_lay_phrases_and_in_each_of_notes():
    for some in (LAY, *([path] for path in NOTES)):
        names = {}
        for concept, name, _ in (row for path in some for row in lay(path)):
            assert names.setdefault(concept, name) == name


def test_there_are_eleven_files_of_the_parallel_vocabulary():
    found = sorted((DATA / "parallel").iterdir())
    assert [path.stem for path in found] == sorted(PARALLEL)


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
    assert kinds - GRAPH == OWN.get(name, set())
    single = [one for one in ids if name != "leaflet_words" or one.startswith("PAR:")]
    assert len(set(single)) == len(single)  # in leaflet_words.tsv, two rows may be of one concept
    numbered = [one for one in ids if one.partition(":")[0] not in GRAPH]
    assert all(re.fullmatch(r"[A-Z]{3}:[0-9]{5}", one) for one in numbered)


def test_the_two_files_of_findings_are_of_the_same_concepts():
    assert {row[0] for row in parallel("findings_germanic_romance")} == {
        row[0] for row in parallel("findings_other_languages")
    }


@pytest.mark.parametrize("name", RELATED)
def test_related_terms_have_a_row_each_and_items_that_are_there_once_in_a_field(name):
    found = related(name)
    assert [row[0] for row in found if not (fold(row[0]) and items(row))] == []
    assert len({fold(row[0]) for row in found}) == len(found)
    for row in found:
        for field in filter(None, row[1:]):
            some = field.split(" | ")
            assert [clean(item) for item in some] == some, row
            keys = [fold(item) for item in some]
            assert all(keys) and len(set(keys)) == len(keys) and fold(row[0]) not in keys, row


@pytest.mark.parametrize("part", MEASURED)
def test_phrases_to_measure_with_are_of_the_same_concepts_in_all_languages(part):
    tables = {path.stem: eval_rows(path) for path in eval_files(part)}
    assert set(tables) == {path.stem for path in LAY}
    concepts = [row[:2] for row in tables["en"]]
    assert len(concepts) == len({concept for concept, _ in concepts}) == MEASURED[part]
    for language, found in tables.items():
        assert [row[:2] for row in found] == concepts, language
        for column in (2, 3):  # what equals a training term of the concept was taken out
            assert sum(bool(row[column]) for row in found) >= 0.75 * MEASURED[part], language


def eval_files(part):
    return sorted((EVAL / part / "phrases").glob("*.tsv"))


def eval_rows(path):
    return rows(path, ["concept", "name", "lay", "chart"])


@pytest.fixture(scope="module")
def trained_pairs():
    """Every string of data/train under its concept, folded."""
    pairs = {(row[0], fold(row[2])) for path in [*LAY, *NOTES] for row in lay(path)}
    return pairs | {
        (row[0], fold(term)) for name in PARALLEL for row in parallel(name) for term in terms(row)
    }


def is_abbreviation(text):
    return " " not in text and len(text) <= 7 and sum(letter.isupper() for letter in text) > 1


# Short forms in general use that data/train has too: to leave them out would make a set without.
@pytest.mark.parametrize("part, abbreviations", [("dev", 8), ("test", 0)])
def test_nothing_to_measure_with_is_trained_on(part, abbreviations, trained_pairs):
    asked = [
        (row[0], text) for path in eval_files(part) for row in eval_rows(path) for text in row[2:]
    ]
    shared = [text for concept, text in asked if (concept, fold(text)) in trained_pairs]
    assert [text for text in shared if not is_abbreviation(text)] == []
    assert len(shared) == abbreviations


def test_no_phrase_was_written_for_concepts_of_the_test_but_in_english():
    asked = {row[0] for row in eval_rows(EVAL / "test" / "phrases" / "en.tsv")}
    held = eval_rows(EVAL / "dev" / "phrases" / "en.tsv")
    assert not asked & {row[0] for row in held}
    for path in [*LAY, *NOTES]:
        assert path.stem == "en" or not asked & {row[0] for row in lay(path)}, path


WARDS = {"en": 304, "de": 100, "es": 100, "fr": 100, "nl": 100}
LEAST = {"several": 0.08, "nonsense": 0.05, "qualifier": 0.15}  # shares of kinds of ward strings


def wards(part, language):
    return rows(
        EVAL / part / "ward" / f"{language}.tsv", ["string", "kind", "categories", "attributes"]
    )


def test_no_ward_string_to_measure_with_is_fitted_to():
    fitted = [
        (path.parent.name, fold(row[0]))
        for folder in ("ward", "ward_common")
        for path in sorted((DATA / folder).glob("*.tsv"))
        for row in rows(path, ["string", "kind", "categories", "attributes"])
    ]
    assert Counter(folder for folder, _ in fitted) == {"ward": 4761, "ward_common": 931}
    asked = {
        fold(row[0]) for part in MEASURED for language in WARDS for row in wards(part, language)
    }
    assert [text for _, text in fitted if text in asked] == []


@pytest.mark.parametrize("language", WARDS)
def test_ward_strings_are_of_all_kinds(language):
    parts = [wards(part, language) for part in MEASURED]
    assert [len(part) for part in parts] == [WARDS[language]] * 2
    kinds = Counter(row[1] for part in parts for row in part)
    count = kinds.total()
    assert kinds.pop("acronym") + kinds.pop("shorthand") >= 0.35 * count
    assert [kind for kind, share in LEAST.items() if kinds.pop(kind) < share * count] == []
    assert set(kinds) == {"formal", "lay"}


@pytest.mark.parametrize("language", WARDS)
def test_categories_of_ward_strings_exist_and_no_string_is_there_twice(language):
    found = [row for part in MEASURED for row in wards(part, language)]
    texts = [row[0].casefold() for row in found]
    assert len(set(texts)) == len(texts)
    for text, kind, categories, attributes in found:
        said = set(filter(None, attributes.split("|")))
        assert said <= {"history", "family", "negated", "doubt", "left", "right", "bilateral"}, text
        assert bool(categories) != (kind == "nonsense" or "negated" in said), text
        for category in categories.replace(";", "|").split("|"):
            assert not category or category in icd10cm_categories(), text
        assert (";" in categories) == (kind == "several"), text


@cache
def icd10cm_categories():
    return {code[:3] for code in _data("simple_icd_10_cm", "code-list*.txt").read_text().split()}


def test_there_are_three_files_of_related_terms():
    assert sorted(path.name for path in (DATA / "related").iterdir()) == [
        f"{name}.tsv" for name in RELATED
    ]


def test_the_counts_of_the_readme_are_those_of_the_files():
    readme = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for some in (LAY, NOTES):
        folder = some[0].parent.name
        tables = [(f"`train/{folder}/{path.name}`", lay(path)) for path in some]
        tables.append((f"all of `train/{folder}`", [row for _, found in tables for row in found]))
        for name, found in tables:
            assert f"| {name} | {len(found):,} | {len({row[0] for row in found}):,} |" in readme
    shared = [(f"`{name}.tsv`", parallel(name)) for name in PARALLEL]
    both = [row for _, found in shared for row in found]
    for name, found in [*shared, ("all eleven", both)]:
        linked = sum(row[0].partition(":")[0] in GRAPH for row in found)
        count = sum(len(terms(row)) for row in found)
        assert f"| {name} | {len(found):,} | {linked:,} | {count:,} |" in readme
    near = [(f"`{name}.tsv`", related(name)) for name in RELATED]
    for name, found in [*near, ("all three", [row for _, some in near for row in some])]:
        assert f"| {name} | {len(found):,} | {sum(map(len, map(items, found))):,} |" in readme


def hashed(path):
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_the_manifest_has_the_counts_and_hashes_of_the_files():
    own = MANIFEST["own"]
    for some in (LAY, NOTES):
        about = own[some[0].parent.name]
        every = {path.stem: lay(path) for path in some}
        assert about["file"] == {
            path.stem: {"terms": len(every[path.stem]), "table": hashed(path)} for path in some
        }
        rows_of_all = [row for found in every.values() for row in found]
        assert about["terms"] == len(rows_of_all)
        assert about["concepts"] == len({row[0] for row in rows_of_all})
    assert own["parallel"]["file"] == {
        name: {
            "rows": len(parallel(name)),
            "terms": sum(len(terms(row)) for row in parallel(name)),
            "table": hashed(DATA / "parallel" / f"{name}.tsv"),
        }
        for name in PARALLEL
    }
    assert own["related"]["file"] == {
        name: {
            "rows": len(related(name)),
            "items": sum(len(items(row)) for row in related(name)),
            "table": hashed(DATA / "related" / f"{name}.tsv"),
        }
        for name in RELATED
    }


def test_the_card_has_the_counts_of_the_manifest():
    card = (ROOT / "src" / "medcoder" / "models" / "medcoder-all.md").read_text(encoding="utf-8")
    inputs, own, sources = (MANIFEST[name] for name in ("inputs", "own", "source"))
    one_a_row = ("orphanet", "hpo", "mesh", "mondo", "wordnet_omw", "icd10cm", "gard")
    counts = [sources[name]["terms"] for name in one_a_row]
    for several in (("ncit_disease2018", "uberon", "efo", "chebi"), ("doid", "symp")):
        counts.append(sum(sources[name]["terms"] for name in several))
    counts += [own["lay"]["terms"], own["notes"]["terms"]]
    counts.append(sum(file["terms"] for file in own["parallel"]["file"].values()))
    counts += [inputs[f"extra_{made}"] for made in ("mined", "misspelt", "shortened")]
    table = card[card.index("## What it learnt from") : card.index("## How it was made")]
    found = [row.split(" | ")[1] for row in table.split("\n") if re.match(r"\| .*[0-9] \| ", row)]
    assert sorted(found) == sorted(f"{count:,}" for count in counts)
    assert f"{inputs['related_relations']:,} relations" in table


@parts
def test_the_readme_counts_the_terms_of_each_language(name):
    readme = " ".join((ROOT / "data" / "README.md").read_text(encoding="utf-8").split())
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
