"""Commands that normalise, embed, export and keep terms of one's own."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from medcoder import Normalizer, load_encoder
from medcoder.bundled import models as bundled
from medcoder.cli import app, texts
from medcoder.cli import open as opening
from medcoder.cli.index import CAVEATS, TO_GRAPH
from medcoder.cli.normalize import why
from medcoder.encode.onnx import OnnxEncoder
from medcoder.kg import KG
from medcoder.normalize import build as building
from medcoder.normalize import normalizer as normalizing
from medcoder.normalize.reasons import in_words
from medcoder.normalize.weights import stated
from medcoder.types import Answer, Match
from support import tiny
from support.strangers import reseal
from support.terminal import as_json, command, left_in, medcoder, write

LONG = "heart " * 20_000
EVIL = [
    "cold", "", "   ", LONG, "\x00\x01\x1b[2J", "\u2028\u0085", "\U0001f912 fever",
    "かぜ 심장 hart atack", "12345", "-", "---", "[/red]fever[b]", "a\tb\rc", "heart attack",
    "heart attack", "\u202eevil",
]  # fmt: skip


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    for name in ("MEDCODER_KG", "MEDCODER_INDEX", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEDCODER_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder as Hugging Face has it."""
    folder = tmp_path_factory.mktemp("cli") / "tiny"
    tiny.bert().save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(checkpoint):
    """The same, exported."""
    to = checkpoint.with_name("tiny.onnx")
    result = medcoder("export", checkpoint, "--out", to)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"OnnxEncoder({str(to)!r}: width 32), {_megabytes(to)} MB\n"
    return to


def _megabytes(folder):
    return f"{sum(file.stat().st_size for file in folder.iterdir()) / 1e6:,.1f}"


@pytest.fixture(scope="module")
def original(model, toy_path, tmp_path_factory):
    """The index of the toy graph, not to be written to nor beside."""
    path = tmp_path_factory.mktemp("index") / "toy.index"
    result = medcoder("index", "build", "--kg", toy_path, "--model", model, "--out", path)
    assert result.exit_code == 0, result.output
    assert left_in(path.parent) == ["toy.index"]
    return path


@pytest.fixture
def index(original, tmp_path):
    """A copy that may have a table of terms beside it."""
    path = tmp_path / "toy.index"
    shutil.copytree(original, path, copy_function=os.link)
    return path


def ask(index, *words, stdin=None, code=0):
    """Run `normalize`, whatever the threshold of so small a graph; gives its result."""
    least = [] if "--threshold" in words else ["--threshold", "0"]
    line = ["normalize", "--index", str(index), *least, *map(str, words)]
    result = CliRunner().invoke(app, line, input=stdin, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def objects(index, *words, stdin=None, code=0):
    result = ask(index, "--json", *words, stdin=stdin, code=code)
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


def cells(text):
    """Cells of a printed table, which are at least two spaces apart."""
    return [re.split(r"  +", line.strip()) for line in text.splitlines()]


def refused(result, code, *said):
    """An error is one line that says all this."""
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for words in said:
        assert words in result.stderr


# normalize, for people


def test_a_table(index):
    normalizer = Normalizer.load(index)
    sure = [f"{normalizer.normalize(text).confidence:.2f}" for text in ("COLD!", "かぜ")]
    assert cells(ask(index, "COLD!", "かぜ").stdout) == [
        ["query", "concept", "name", "matched term", "confidence", "stage"],
        ["COLD!", "C0234192", "Cold", "Cold", sure[0], "exact"],
        ["かぜ", "C0009443", "Common Cold", "かぜ", sure[1], "exact"],
    ]


def test_a_table_of_several_concepts_names_the_query_once(index):
    first, second = cells(ask(index, "cold", "--top", 2).stdout)[1:]
    assert first[:3] == ["cold", "C0234192", "Cold"]
    assert second[:3] == ["C0009443", "Common Cold", "cold"]


def test_no_match_is_said_and_the_rejected_are_marked(index):
    result = ask(index, "cold", "", "--top", 2, "--threshold", 1, code=1)
    first, second, third = cells(result.stdout)[1:]
    assert first[:4] == ["cold", "no match", "rejected: Cold (C0234192)", "Cold"]
    assert second[:2] == ["rejected: Common Cold (C0009443)", "cold"]
    assert third == ["no match"]
    assert result.stderr == ""


def test_one_match_is_enough(index):
    assert "no match" in ask(index, "", "cold").stdout


def test_codes_are_shown_where_vocabularies_are_asked_for(index):
    rows = cells(ask(index, "heart attack", "--vocabularies", "msh").stdout)
    assert rows[0][-1] == "codes"
    assert rows[1][-1] == "MSH:D009203"


def test_a_table_survives_what_it_shows(index):
    result = ask(index, *EVIL[:8], "[/red]fever[b]")
    assert "\x1b" not in result.stdout
    assert "[/red]fever[b]" in result.stdout
    assert f"{LONG[:120]}…" in result.stdout
    assert len(result.stdout) < 20_000


# normalize, for programs


def test_json_says_what_the_library_says(index):
    result = medcoder("normalize", "--index", index, "--json", "--top", 3, "--", *EVIL)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    normalizer = Normalizer.load(index)
    assert [entry["query"] for entry in found] == EVIL
    assert result.exit_code == (not any(entry["matches"] for entry in found))
    for entry, answer in zip(found, normalizer.normalize_many(EVIL, top=3), strict=True):
        assert list(entry) == [
            "query", "status", "matches", "rejected", "confidence", "threshold", "reason", "review",
            "steps", "span", "parts",
        ]  # fmt: skip
        assert (entry["status"], entry["review"]) == (answer.status, answer.review)
        for name in ("matches", "rejected"):
            assert [one["concept"] for one in entry[name]] == [
                one.concept for one in getattr(answer, name)
            ]
        assert entry["confidence"] == round(answer.confidence, 6)
        assert entry["threshold"] == round(answer.threshold, 6)
        assert entry["reason"] == answer.reason
    empty = {
        "status": "none", "matches": [], "rejected": [], "confidence": 0.0, "reason": "",
        "review": "", "steps": [], "span": None, "parts": [],
    }  # fmt: skip
    for place in (1, 2, 5):
        assert found[place] == empty | {
            "query": EVIL[place],
            "threshold": round(normalizer.calibration().threshold, 6),
        }


def test_a_match_in_json(index):
    [entry] = objects(index, "Heart  attack")
    [match] = entry["matches"]
    assert match.pop("confidence") == entry["confidence"] > 0
    assert match == {
        "concept": "C0027051",
        "name": "Myocardial infarction",
        "term": "Heart attack",
        "language": "en",
        "source": "MSH",
        "codes": [
            {"vocabulary": "SNOMEDCT_US", "code": "22298006"},
            {"vocabulary": "MSH", "code": "D009203"},
        ],
        "attributes": [],
        "span": None,
        "twins": [],
        "stage": "exact",
    }
    [entry] = objects(index, "Heart attack", "--threshold", 1, code=1)
    assert (entry["matches"], entry["rejected"][0]["concept"]) == ([], "C0027051")
    assert entry["threshold"] == 1


def test_lines_are_as_good_as_arguments(index, tmp_path):
    asked = ["cold", "", "heart attack", "かぜ", "\x01", "fever"]
    expected = objects(index, *asked)
    content = b"\xef\xbb\xbf" + "\r\n".join(asked).encode()  # as a Windows program saves it
    file = write(tmp_path / "column.txt", content)
    assert objects(index, "--file", file) == expected
    assert objects(index, stdin=content) == expected
    assert objects(index, "--file", "-", stdin="\n".join(asked) + "\n") == expected


@pytest.mark.parametrize("block", [1, 7, 1 << 18])
def test_lines_come_in_order_however_they_are_read(index, tmp_path, monkeypatch, block):
    monkeypatch.setattr(texts, "_BLOCK", block)
    asked = [["cold", "fever", "héart", "x" * 50][n * n % 4] + str(n // 9) for n in range(40)]
    file = write(tmp_path / "column.txt", "\n".join(asked))
    assert [entry["query"] for entry in objects(index, "--file", file)] == asked


def test_many_lines_are_answered_in_batches_with_progress(index, tmp_path, monkeypatch):
    asked = [f"fever {n}" for n in range(1030)]
    file = write(tmp_path / "column.txt", "\n".join(asked) + "\n")
    reports, sizes = [], []

    class Recorder:
        def __enter__(self):
            return lambda *report: reports.append(report)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(texts, "progress_bar", Recorder)
    many = Normalizer.normalize_many
    monkeypatch.setattr(
        Normalizer, "normalize_many",
        lambda self, new, **options: sizes.append(len(new)) or many(self, new, **options),
    )  # fmt: skip
    found = objects(index, "--file", file, "--stages", "exact,ngram")
    assert [entry["query"] for entry in found] == asked
    assert sizes == [512, 512, 6]
    size = file.stat().st_size
    assert [report[0] for report in reports] == ["normalising"] * 3
    assert {report[2] for report in reports} == {size}
    assert reports[-1][1] == size
    assert 0 < reports[0][1] < reports[1][1] < size


def test_no_strings_at_all(index, tmp_path):
    result = ask(index, "--file", write(tmp_path / "none.txt", ""), "--json", code=1)
    assert (result.stdout, result.stderr) == ("", "there were no strings to look up\n")
    assert ask(index, stdin="", code=1).stderr == "there were no strings to look up\n"


def test_bytes_that_are_no_text(index, tmp_path):
    content = "cold\nfever\ncaf\u00e9\n".encode() + b"ol\xe9\ncold\n"
    file = write(tmp_path / "latin.txt", content)
    said = "row 4: byte 0xe9 is not UTF-8. Save it as UTF-8\n"
    for words, stdin, name in (["--file", file], None, file), ([], content, "standard input"):
        result = ask(index, "--json", *words, stdin=stdin, code=3)
        assert result.stderr == f"error: {name}, {said}"
        found = [json.loads(line)["query"] for line in result.stdout.splitlines()]
        assert found == ["cold", "fever", "café"]  # what came before is not lost


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cold", "--file", "column.txt"], 2, ["either strings or --file"]),
        (["--file", "no-such.txt"], 3, ["no-such.txt: does not exist. Check the path"]),
        (["--file", "."], 3, ["cannot be read: Is a directory"]),
        (["cold", "--types", "Sign or Symptm"], 2, ["did you mean 'Sign or Symptom'?"]),
        (["cold", "--vocabularies", "HP,SNOMEDCT_USA"], 2, ["did you mean 'SNOMEDCT_US'?"]),
        (["cold", "--languages", "en,xx"], 2, ["no language 'xx' in this graph: There are: de,"]),
        (["cold", "--languages", ","], 2, ["--languages ',' names none"]),
        (["cold", "--stages", "exact,fuzzy"], 2, ["Choose from: code, exact, abbreviation, slip,"]),
    ],
)  # fmt: skip
def test_wrong_usage(index, words, code, said):
    refused(ask(index, *words, code=code), code, *said)


@pytest.mark.parametrize(
    "words",
    [["--top", "0"], ["--top", "1001"], ["--threshold", "2"], ["--threshold", "-0.1"],
     ["--threshold", "nan"], ["--top", "x"]],
)  # fmt: skip
def test_numbers_that_make_no_sense(index, words):
    result = ask(index, "cold", *words, code=2)
    assert result.stdout == ""


def test_a_terminal_without_strings(index, monkeypatch):
    monkeypatch.setattr(texts.sys, "stdin", None)
    with (
        pytest.raises(Exception, match="give strings, or --file, or lines on standard input"),
        texts.given(None, None, doing=""),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "query", "concept"),
    [
        ([], "cold", "C0234192"),
        (["--types", "T047,T023"], "cold", "C0009443"),
        (["--types", "body part"], "cold", "C0018787"),
        (["--vocabularies", "MSH"], "cold", "C0009443"),
        (["--languages", "SPA,de"], "Resfriado", "C0009443"),
        (["--stages", "exact"], "coeur", None),
    ],
)
def test_filters(index, words, query, concept):
    if concept is None:
        [entry] = objects(index, query, *words, code=1)
        assert entry["rejected"] == []
        return
    [entry] = objects(index, query, *words)
    assert entry["matches"][0]["concept"] == concept
    if "--languages" in words:
        assert entry["matches"][0]["language"] == "es"


def test_the_variable(index):
    shown = medcoder("normalize", "cold", env={"MEDCODER_INDEX": str(index)}).stdout
    assert "C0234192" in shown


# Reasons


def test_explained_for_people(index):
    result = ask(index, "fever", "--explain")
    best, other = Normalizer.load(index).normalize("fever", top=2, threshold=0)
    reasons = in_words(best.weighed)
    assert 2 < len(reasons) < 7
    assert result.stdout == (
        "fever\n"
        "  C0015967  Fever\n"
        "    term        Fever (en, HP)\n"
        "    codes       HP:0001945\n"
        f"    confidence  {best.confidence:.3f}, score 1.000, cosine 1.000, similarity 1.000, "
        "stage exact\n"
        + "".join(f"    weighs      {part:+.2f}  {reason}\n" for part, reason in reasons)
        + "  It equals the term 'Fever', but for case, accents and punctuation. "
        f"The next, {other.name} ({other.concept}), has a confidence of {other.confidence:.3f}. "
        f"Its confidence of {best.confidence:.3f} reaches the threshold of 0.000.\n"
    )
    rejected = ask(index, "fever", "", "--explain", "--threshold", 1, code=1).stdout
    assert rejected.startswith("fever  no match\n  rejected: C0015967  Fever\n")
    assert f"Its confidence of {best.confidence:.3f} is below the threshold of 1.000: " in rejected
    assert rejected.endswith(
        "(empty)  no match\n"
        "  Nothing is left of the string without spaces and control characters.\n"
    )


def test_explained_for_programs(index):
    plain = objects(index, "cold", "hart atack", "--top", 2)
    found = objects(index, "cold", "hart atack", "--top", 2, "--explain")
    for entry, bare in zip(found, plain, strict=True):
        assert entry.pop("why")
        for match in entry["matches"] + entry["rejected"]:
            assert {match.pop(name) is None for name in ("cosine", "similarity", "score")} == {
                False
            }
            weighed = match.pop("weighed")
            if match in bare["matches"][:1]:  # those after it are no surer than it is
                expected = float(stated(sum(weighed.values())))
                assert match["confidence"] == pytest.approx(expected, abs=1e-3)
            assert 0.0 not in weighed.values()
        assert entry == bare
    for least in (0, 1):  # the runner-up is looked at, and not shown
        [entry] = objects(index, "cold", "--explain", "--threshold", least, code=least)
        assert "and so do 1 of the other candidates" in entry["why"]
        assert [len(entry[name]) for name in ("matches", "rejected")] == [1 - least, least]
    [alone] = objects(index, "cold", "--explain", "--stages", "exact", "--vocabularies", "MSH")
    assert alone["matches"][0]["cosine"] is None
    assert "There is no other candidate." in alone["why"]


def test_reasons_name_the_stage():
    def answer(stage, **changes):
        fields = {"concept": "C1", "name": "One", "codes": (), "term": "Uno", "language": "es"}
        fields |= {"vocabulary": "X", "cosine": None, "similarity": 0.5, "score": 0.5}
        match = Match(**fields | {"confidence": 0.9, "stage": stage} | changes)
        return Answer(query="un", matches=(match,), threshold=0.2)

    letters = why(answer("ngram"))
    assert letters.startswith(
        "What speaks most is for the term 'Uno', found by its letters (cosine none, "
    )
    meaning = why(answer("dense", cosine=0.25, vocabulary="local"))
    assert "your own term 'Uno', found by its meaning (cosine 0.250, " in meaning
    nothing = why(Answer(query="un", matches=(), threshold=0.2))
    assert nothing == "No term that may be answered with has anything in common with it."


# normalize, in a process of its own


def test_an_answer_does_not_wait_for_more_lines(index):
    start = command("normalize", "--json", "--threshold", 0, "--index", index)
    child = subprocess.Popen(**start, stdin=-1, stdout=-1, stderr=-1)
    given_up = threading.Timer(60, child.kill)
    given_up.start()
    try:
        for query in ("cold", "fev\u00e9r"):
            child.stdin.write(f"{query}\n".encode())
            child.stdin.flush()
            assert json.loads(child.stdout.readline())["query"] == query
        out, error = child.communicate(timeout=60)
    finally:
        given_up.cancel()
        child.kill()
    assert (child.returncode, out, error) == (0, b"", b"")


def test_a_reader_that_leaves(index):
    start = command("normalize", "cold", "--index", index)
    child = subprocess.Popen(**start, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1)
    child.stdout.close()
    with child.stderr:
        assert child.stderr.read() == b""
    assert child.wait(60) == 0


def test_an_argument_that_is_no_text(index):
    start = command("normalize", "word", "--json", "--index", index)
    start["args"][start["args"].index("word")] = b"cold \xff"
    done = subprocess.run(**start, capture_output=True, check=False)
    assert done.stderr == b""
    assert json.loads(done.stdout)["query"] == "cold \udcff"


def test_normalising_imports_only_what_it_needs(index):
    code = f"""
import sys
for name in ("polars", "fastobo", "matplotlib", "torch", "transformers", "onnx", "faiss"):
    sys.modules[name] = None
from medcoder.cli import app
app(["normalize", "cold", "--threshold", "0", "--index", {str(index)!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "C0234192" in done.stdout


# Equal strings


def test_equal_strings_are_looked_up_once():
    asked = []

    def look_up(new):
        asked.append(list(new))
        return [Answer(query=text, matches=(), threshold=0.5) for text in new]

    batches = [["a", "b", "a"], ["b", "c"], ["c", "a", "c"]]
    found = list(normalizing.each_once(batches, look_up))
    assert [[one.query for one in batch] for batch in found] == batches
    assert asked == [["a", "b"], ["c"], []]


def test_not_all_answers_are_kept(monkeypatch):
    monkeypatch.setattr(normalizing, "_KEPT", 2)
    asked = []

    def look_up(new):
        asked.extend(new)
        return [Answer(query=text, matches=(), threshold=0.5) for text in new]

    batches = [["a", "b"], ["a"], ["c"], ["a"], ["b"], ["a", "b", "c", "d"]]
    found = list(normalizing.each_once(batches, look_up))
    assert [[one.query for one in batch] for batch in found] == batches
    assert asked == ["a", "b", "c", "b", "c", "d"]  # of three, the one asked for longest ago goes


# Damage


def test_not_an_index(index, toy_path, tmp_path):
    refused(ask(tmp_path / "none", "x", code=4), 4, "none: it is not an index: it has no meta.json")
    refused(ask(toy_path, "x", code=4), 4, "is a knowledge graph, not an index")
    refused(ask("~nobody-of-that-name/x", "x", code=2), 2, "there is no such home directory")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("kg/names.json", b"{", "kg/names.json: the index is damaged: it has 1 bytes, not"),
        ("calibration.json", None, "calibration.json: the index is damaged: it is missing"),
        ("kg/names.json", "flip", "kg/names.json: it was changed or damaged"),
        ("calibration.json", "flip", "calibration.json: it was changed or damaged"),
        ("encoder/graph.onnx", "flip", "encoder/graph.onnx: it was changed or damaged"),
        ("encoder/weights.safetensors", "flip", "weights.safetensors: it was changed or damaged"),
        ("vectors/row.first.int64", "flip", "row.first.int64: it was changed or damaged"),
    ],
)
def test_a_damaged_index(index, name, content, said):
    file = index / name
    stored = file.read_bytes()
    file.unlink()  # a link
    if content is not None:
        file.write_bytes(b"\xff" * len(stored) if content == "flip" else content)
    refused(ask(index, "cold fever", code=4), 4, said)


# The embedded index


@pytest.fixture
def embedded(model, toy_path, tmp_path, monkeypatch):
    """The toy graph and the tiny model as if they came with the package; gives the home."""
    models = tmp_path / "models"
    shutil.copytree(model, models / bundled.MODEL)
    shutil.copy(bundled.bundled_weights(), models)
    monkeypatch.setattr("medcoder.bundled.models.MODELS", models)
    for module in (building, opening):
        monkeypatch.setattr(module, "bundled_kg", lambda progress=None: toy_path)
    return tmp_path / "home"


def test_terms_of_the_embedded_index_outlive_it(embedded, monkeypatch):
    assert medcoder("terms", "add", "the sniffles", "C0009443").exit_code == 0
    assert left_in(embedded) == [".terms.tsv.lock", "terms.tsv"]  # no index is built for that
    found = as_json("normalize", "the  SNIFFLES")
    assert found["matches"][0]["source"] == "local"
    [built] = embedded.glob("*.index")
    assert Normalizer.load().normalize("the sniffles")[0].concept == "C0009443"
    assert Normalizer.load(built).normalize("the sniffles", stages=["exact"]).candidates == ()
    monkeypatch.setattr(building, "VERSION", 77)
    assert as_json("normalize", "the sniffles")["matches"][0]["concept"] == "C0009443"
    assert len(list(embedded.glob("*.index"))) == 2
    # A calibration that was fitted anew makes another index too.
    monkeypatch.setattr(building, "bundled_calibration", lambda encoder: embedded / "terms.tsv")
    assert building._bundled_key(bundled.bundled_model()) not in "".join(left_in(embedded))
    assert [name for name in left_in(embedded) if name[0] == "."] == [".terms.tsv.lock"]


def test_no_model_is_shipped(tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.bundled.models.MODELS", tmp_path / "none")
    for words in (
        ["normalize", "x"],
        ["embed", "x"],
        ["index", "info"],
        ["index", "build", "--out", "x"],
    ):
        refused(medcoder(*words), 4, f"the model {bundled.MODEL} is missing. Install")
    assert left_in(tmp_path) == []


def test_two_processes_build_the_embedded_index_at_once(embedded, toy_path, tmp_path):
    code = f"""
from pathlib import Path
import medcoder.encode
from medcoder.bundled import models as bundled
from medcoder.normalize import Normalizer, build
bundled.MODELS = Path({str(tmp_path / "models")!r})
build.bundled_kg = lambda progress: Path({str(toy_path)!r})
print(Normalizer.load().normalize("cold", threshold=0)[0].concept)
"""
    start = {"args": [sys.executable, "-c", code], "env": command()["env"]}
    start["env"]["MEDCODER_HOME"] = str(embedded)
    children = [subprocess.Popen(**start, stdout=-1, stderr=-1) for _ in range(3)]
    ends = [(*child.communicate(timeout=120), child.returncode) for child in children]
    waited = b"waiting for another process that builds the index in %s\n" % str(embedded).encode()
    assert [(out, code) for out, _, code in ends] == [(b"C0234192\n", 0)] * 3
    assert {said for _, said, _ in ends} <= {b"", waited}
    [name] = left_in(embedded)
    assert name.endswith(".index")


def test_a_home_that_is_a_file(embedded, tmp_path):
    write(tmp_path / "home", "x")
    refused(medcoder("normalize", "x"), 2, "the index cannot be kept", "Set MEDCODER_HOME")


# terms


def test_terms_are_added_listed_and_removed(index):
    table = index.with_name("toy.index.terms.tsv")

    def terms(*words, code=0):
        result = medcoder("terms", *words, "--index", index)
        assert result.exit_code == code, result.output
        return result

    added = terms("add", " ticker\ttrouble\n", "C0027051", "--language", "ENG")
    assert added.stdout == f"1 added to {table}\n"
    assert table.read_text() == "term\tconcept\tlanguage\nticker trouble\tC0027051\ten\n"
    again = terms("add", "Ticker Trouble!", "C0027051")
    assert again.stdout == f"0 added to {table}, 1 known already\n"
    assert terms("add", "[b]ticker", "C0018787").exit_code == 0
    assert cells(terms("list").stdout) == [
        ["term", "concept", "name", "language"],
        ["ticker trouble", "C0027051", "Myocardial infarction", "en"],
        ["[b]ticker", "C0018787", "Heart"],
    ]
    found = objects(index, "ticker trouble", "tickr troubl")
    assert [entry["matches"][0]["concept"] for entry in found] == ["C0027051"] * 2
    assert found[0]["matches"][0]["source"] == "local"
    assert terms("remove", "TICKER trouble", "--concept", "C0018787", code=1).stdout == ""
    assert terms("remove", "TICKER trouble").stdout == f"1 removed from {table}\n"
    nothing = terms("remove", "TICKER trouble", code=1)
    assert nothing.stderr == f"nothing found for 'TICKER trouble' in {table}\n"
    assert terms("remove", "b ticker").exit_code == 0
    assert terms("list", code=1).stderr == f"no terms in {table}\n"


def test_terms_for_programs(index):
    file = str(index.with_name("toy.index.terms.tsv"))
    here = ("--index", index)
    assert as_json("terms", "list", *here, code=1) == []
    added = {"added": 1, "known": 0, "file": file}
    assert as_json("terms", "add", "brr", "C0009443", *here) == added
    assert as_json("terms", "list", *here) == [
        {"term": "brr", "concept": "C0009443", "language": "", "name": "Common Cold"}
    ]
    assert as_json("terms", "remove", "brr", *here) == {"removed": 1, "file": file}
    assert as_json("terms", "remove", "brr", *here, code=1)["removed"] == 0


def test_a_table_of_terms(index, tmp_path):
    rows = '\ufeffConcept,Term,Language,note\nC0009443,"sniffles, the",en,x\nC0018787,korazón,es,\n'
    file = write(tmp_path / "own.csv", rows + ",,,\n")
    result = medcoder("terms", "add", "--file", file, "--index", index)
    assert (result.exit_code, result.stdout[:8]) == (0, "2 added ")
    [entry] = objects(index, "korazón")
    assert (entry["matches"][0]["name"], entry["matches"][0]["language"]) == ("Heart", "es")
    assert as_json("terms", "add", "--file", file, "--index", index)["known"] == 2


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        (b"term,concept\nheat,C0009443\nol\xe9,C0009443\n", 3, "row 3: byte 0xe9 is not UTF-8"),
        ("term,code\nheat,C0009443\n", 3, "row 1: no such column: concept; there are: term, code"),
        ("term,concept\nheat\n", 3, "row 2: 1 fields, not 2"),
        ("term,concept\nheat,\n", 3, "row 2: no concept"),
        ("term,concept\n ,C0009443\n", 3, "row 2: no term"),
        ('term,concept\n"heat,C0009443\n', 3, "broken quotes: unexpected end of data"),
        (
            "term,concept\nheat,C0009443\nheat,C7\n",
            2,
            "term 2, 'heat': no such concept in the graph: 'C7'",
        ),
        ("term,concept\n", 3, "it holds no terms"),
        ("", 3, "it holds no terms"),
    ],
)
def test_tables_that_are_wrong_add_nothing(index, tmp_path, rows, code, said):
    file = write(tmp_path / "own.csv", rows)
    refused(medcoder("terms", "add", "--file", file, "--index", index), code, said)
    assert left_in(tmp_path) == ["own.csv", "toy.index"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["add"], 2, "give either a term and the id of its concept, or --file TABLE"),
        (["add", "x"], 2, "give either"),
        (["add", "x", "C0009443", "--file", "y.csv"], 2, "give either"),
        (["add", "--file", "y.csv", "--language", "en"], 2, "leave out --language"),
        (["add", "--file", "no-such.csv"], 3, "no-such.csv: does not exist"),
        (["add", "\t ", "C0009443"], 2, "term 1: the term is empty"),
        (["add", "x", "c0009443"], 2, "no such concept in the graph: 'c0009443'"),
    ],
)
def test_wrong_usage_of_terms(index, words, code, said):
    refused(medcoder("terms", *words, "--index", index), code, said)


def test_terms_of_no_index(tmp_path):
    for words in (["list"], ["remove", "x"], ["add", "x", "C1"]):
        result = medcoder("terms", *words, "--index", tmp_path / "no.index")
        refused(result, 4, "no.index: it is not an index")


def test_terms_whose_concept_is_gone_are_told(index, monkeypatch):
    rows = "term\tconcept\tlanguage\nold one\tC7\t\nthe sniffles\tC0009443\t\n"
    write(index.with_name("toy.index.terms.tsv"), rows)
    result = ask(index, "the sniffles", "--json")
    assert json.loads(result.stdout)["matches"][0]["source"] == "local"
    assert result.stderr == (
        "1 custom terms are of concepts that the graph lacks, the first: 'old one' of C7. "
        "See: medcoder terms list\n"
    )
    listed = medcoder("terms", "list", "--index", index)
    assert cells(listed.stdout)[1] == ["old one", "C7", "(not in the graph)"]
    told = as_json("index", "info", "--index", index)
    assert (told["custom_terms"], told["lost_terms"]) == (1, 1)
    monkeypatch.chdir(index)  # "." has no name to put a table beside
    assert as_json("normalize", "the sniffles", "--index", ".")["matches"][0]["source"] == "local"


def test_a_table_beside_the_index_that_is_broken(index):
    table = write(index.with_name("toy.index.terms.tsv"), "term\tconcept\nx\n")
    refused(ask(index, "x", code=3), 3, f"{table}, row 2: 1 fields, not 2")


def test_custom_terms_in_another_language_do_not_count(index):
    for language in ("de", ""):
        term = f"schnoddernase {language}"
        words = ["--language", language] if language else []
        assert medcoder("terms", "add", term, "C0009443", *words, "--index", index).exit_code == 0
    for tags, source in (("de", "local"), ("GER,ja", "local"), ("en", "other")):
        [entry] = objects(index, "schnoddernase de", "--languages", tags)
        match = entry["matches"][0]
        assert (match["term"] == "schnoddernase de") == (source == "local")
    [entry] = objects(index, "schnoddernase", "--languages", "en")
    assert entry["matches"][0]["source"] == "local"  # of no language, so of all


def test_confidence_does_not_depend_on_how_many_are_shown(index):
    for concept in ("C0009443", "C0018787", "C0015967", "C0010200"):
        assert medcoder("terms", "add", "unwell", concept, "--index", index).exit_code == 0
    shown = [objects(index, "unwell", "--top", top)[0] for top in (1, 2, 3, 9)]
    assert len({entry["confidence"] for entry in shown}) == 1
    assert [one["stage"] for one in shown[3]["matches"][:5]] == ["exact"] * 4 + ["dense"]


# index


def test_info(index, toy_kg):
    told = as_json("index", "info", "--index", index)
    fitted = Normalizer.load(index).calibration()
    assert (told["kind"], told["concepts"], told["terms"]) == ("exact", 30, len(toy_kg.terms))
    assert told["model"]["width"] == 32
    assert told["model"]["weights"] == "float32"
    files = [file for file in index.rglob("*") if file.is_file() and file != index / "meta.json"]
    assert told["bytes"] == sum(file.stat().st_size for file in files)
    assert told["calibration"]["error"] == fitted.error
    assert told["calibration"]["threshold"] == fitted.threshold
    assert told["calibration"]["from"] == "graph"
    assert told["calibration"]["about"] == TO_GRAPH
    assert told["calibration"]["caveat"] == CAVEATS[TO_GRAPH]
    assert [row["precision"] for row in told["calibration"]["precision"]] == [0.9, 0.95, 0.98, 0.99]
    shown = medcoder("index", "info", "--index", index).stdout
    assert f"expected calibration error {fitted.error:.3f}\n" in shown
    assert "\ncalibration: fitted to this graph\n" in shown
    assert shown.endswith(f"{CAVEATS[TO_GRAPH]}\n")


def test_info_reads_the_curve(index):
    file = index / "calibration.json"
    stored = json.loads(file.read_text())
    curve = [[0.9, 0.1, 1.0], [0.8, 0.3, 0.96], [0.6, 0.5, 0.91], [0.4, 0.9, 0.7]]
    stored["stages"]["dense+ngram"] |= {
        "curve": curve,
        "reliability": [[0.5, 0.5, 1000]],
        "threshold": 0.5,
        "error": 0.034,
    }
    file.unlink()
    file.write_text(json.dumps(stored) + "\n")
    reseal(index)
    told = as_json("index", "info", "--index", index)["calibration"]
    assert told["at_threshold"] == {"confidence": 0.5, "answered": 0.5, "right": 0.91}
    assert [(row["confidence"], row["answered"]) for row in told["precision"]] == [
        (0.6, 0.5), (0.8, 0.3), (0.9, 0.1), (0.9, 0.1),
    ]  # fmt: skip
    shown = medcoder("index", "info", "--index", index).stdout
    assert "threshold 0.500: 50.0% answered, 91.0% of them right\n" in shown
    assert ["95%", "0.800", "30.0%"] in cells(shown)


def test_a_precision_that_is_never_reached(index):
    fitted = Normalizer.load(index).calibration()
    dull = type(fitted)(
        **{
            **vars(fitted),
            "curve": ((0.9, 0.2, 0.93),),
            "threshold": 0.95,
            "reliability": ((0.5, 0.5, 1000),),
        }
    )
    told = opened_calibration(dull)
    assert told["at_threshold"] == {"confidence": 0.95, "answered": 0.0, "right": 0.0}
    assert [row["confidence"] for row in told["precision"]] == [0.9, None, None, None]


def opened_calibration(fitted):
    from medcoder.cli.index import _calibration, _show_precisions

    told = _calibration(fitted, "graph")
    _show_precisions(told["precision"])
    return told


@pytest.fixture
def encoded(monkeypatch):
    """How many strings were encoded."""
    counted = []
    encode = OnnxEncoder.encode

    def count(self, some):
        counted.append(len(some))
        return encode(self, some)

    monkeypatch.setattr(OnnxEncoder, "encode", count)
    return counted


def test_vectors_are_made_once(original, model, toy_path, tmp_path, encoded):
    options = ("--kg", toy_path, "--model", model)
    made = as_json("embed", *options, "--out", tmp_path / "toy.vectors")
    assert made == {"path": str(tmp_path / "toy.vectors"), "rows": 47, "width": 32}
    assert sum(encoded) == 47
    expected = objects(original, "cold", "hart atack", "--explain")
    sources = (["--vectors", tmp_path / "toy.vectors"], ["--known", tmp_path / "toy.vectors"],
               ["--known", original])  # fmt: skip
    for number, source in enumerate(sources):
        encoded.clear()
        out = tmp_path / f"{number}.index"
        kind = ("exact", "ivf", "hnsw")[number]
        told = as_json("index", "build", *options, *source, "--kind", kind, "--out", out)
        assert (told["kind"], told["vectors"]) == (kind, 47)
        assert sum(encoded) < 15  # misspellings to calibrate by
        assert objects(out, "cold", "hart atack", "--explain") == expected
    assert [name for name in left_in(tmp_path) if name.startswith(".")] == []


def test_a_build_that_is_stopped_goes_on(model, toy_path, tmp_path, encoded, monkeypatch):
    out = tmp_path / "toy.index"
    words = ("index", "build", "--kg", toy_path, "--model", model, "--out", out)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(building, "build_grams", stop)
        result = medcoder(*words)
    assert result.exit_code == 130
    assert result.stderr == "interrupted: the same command goes on with what was embedded\n"
    assert (sum(encoded), out.exists()) == (47, False)
    encoded.clear()
    assert medcoder(*words).exit_code == 0
    assert sum(encoded) < 15
    assert left_in(tmp_path) == ["toy.index"]


def test_what_an_index_is_not_built_from(original, checkpoint, model, toy_path, tmp_path):
    out = ("--out", tmp_path / "new.index")
    known = ("index", "build", "--kg", toy_path, "--model", model)

    def failed(code, *words):
        result = medcoder(*words)
        refused(result, code)
        assert left_in(tmp_path) == []
        return result.stderr

    assert "is not an exported model. Export it with: medcoder export" in failed(
        2, "index", "build", "--kg", toy_path, "--model", checkpoint, *out
    )
    assert "there is no model nowhere" in failed(
        2, "index", "build", "--kg", toy_path, "--model", "nowhere", *out
    )
    assert "did you mean 'hnsw'?" in failed(2, *known, "--kind", "hnws", *out)
    assert "leave out --known" in failed(2, *known, "--vectors", "a", "--known", "b", *out)
    assert "is an index, not vectors" in failed(4, *known, "--vectors", original, *out)
    assert "is not vectors: it has no" in failed(4, *known, "--known", tmp_path / "none", *out)
    assert "is not a knowledge graph" in failed(
        4, "index", "build", "--kg", tmp_path / "none", "--model", model, *out
    )
    assert f"{original}: it exists" in failed(2, *known, "--out", original)


def test_an_index_is_overwritten_only_if_asked(index, model, toy_path, tmp_path):
    words = ("index", "build", "--kg", toy_path, "--model", model, "--overwrite")
    assert medcoder("terms", "add", "brr", "C0009443", "--index", index).exit_code == 0
    assert medcoder(*words, "--kind", "hnsw", "--out", index).exit_code == 0
    assert as_json("index", "info", "--index", index)["kind"] == "hnsw"
    assert objects(index, "brr")[0]["matches"][0]["source"] == "local"  # the table is still there
    write(tmp_path / "mine" / "letter.txt", "dear")
    assert medcoder(*words, "--out", tmp_path / "mine").exit_code == 4
    assert left_in(tmp_path / "mine") == ["letter.txt"]


# embed


def test_vectors_as_json_lines(model, tmp_path):
    expected = load_encoder(model).encode(EVIL)
    for words in (["--", *EVIL],):
        result = medcoder("embed", "--model", model, *words)
        assert result.exit_code == 0
        found = [json.loads(line) for line in result.stdout.splitlines()]
        assert [entry["text"] for entry in found] == EVIL
        np.testing.assert_allclose([entry["vector"] for entry in found], expected, atol=1e-6)
    file = write(tmp_path / "a.txt", "cold\n\nheart attack\n")
    lines = medcoder("embed", "--model", model, "--file", file).stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["cold", "", "heart attack"]


def test_vectors_in_files(model, tmp_path):
    asked = [f"cold {n % 700}" for n in range(1200)] + ["", "かぜ"]
    file = write(tmp_path / "a.txt", "\n".join(asked) + "\n")
    expected = load_encoder(model).encode(asked)
    options = ("embed", "--model", model, "--file", file, "--out")
    shown = medcoder(*options, tmp_path / "new" / "a.npy")
    assert shown.stdout == f"{tmp_path / 'new' / 'a.npy'}  1,202 rows of 32\n"
    stored = np.load(tmp_path / "new" / "a.npy", allow_pickle=False)
    assert stored.dtype == np.float32
    np.testing.assert_allclose(stored, expected, atol=1e-6)
    told = as_json(*options, tmp_path / "a.parquet")
    assert told == {"path": str(tmp_path / "a.parquet"), "rows": 1202, "width": 32}
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table["text"].to_pylist() == asked
    np.testing.assert_allclose(np.stack(table["vector"].to_numpy()), expected, atol=1e-6)
    none = write(tmp_path / "none.txt", "")
    assert (
        as_json("embed", "--model", model, "--file", none, "--out", tmp_path / "0.npy")["rows"] == 0
    )
    assert np.load(tmp_path / "0.npy").shape == (0, 32)


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
def test_half_a_file_is_not_kept(model, tmp_path, name):
    file = write(tmp_path / "a.txt", b"cold\n\xff\n")
    before = write(tmp_path / "out" / name, "before")
    words = ("embed", "--model", model, "--file", file, "--out", before)
    refused(medcoder(*words), 2, f"{before}: it exists")
    refused(medcoder(*words, "--overwrite"), 3, "row 2: byte 0xff is not UTF-8")
    assert (left_in(tmp_path / "out"), before.read_text()) == ([name], "before")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cold", "--out", "a.csv"], 2, "a.csv: name a file that ends in .npy or .parquet"),
        (["cold", "--file", "a.txt"], 2, "either strings or --file"),
        (["--kg", "a.kg"], 2, "--kg needs --out"),
        (["cold", "--kg", "a.kg", "--out", "b"], 2, "leave out the strings and --file"),
        (["--kg", "no-such.kg", "--out", "b"], 4, "no-such.kg: it is not a knowledge graph"),
    ],
)
def test_wrong_usage_of_embed(model, words, code, said):
    refused(medcoder("embed", *words, "--model", model), code, said)


def test_embedding_a_graph_goes_on(model, tmp_path, encoded, monkeypatch):
    rows = "".join(f"C{n},term {n}\n" for n in range(60))
    source = write(tmp_path / "terms.csv", f"concept,term\n{rows}")
    assert medcoder("kg", "build", f"table={source}", "--out", tmp_path / "a.kg").exit_code == 0
    monkeypatch.setattr("medcoder.vectors.embed._SHARD", 20)
    out = tmp_path / "out" / "a.vectors"
    words = ("embed", "--kg", tmp_path / "a.kg", "--model", model, "--out", out)
    counting = OnnxEncoder.encode

    def stop_at_the_third(self, some):
        if len(encoded) == 2:
            raise KeyboardInterrupt
        return counting(self, some)

    with monkeypatch.context() as patch:
        patch.setattr(OnnxEncoder, "encode", stop_at_the_third)
        result = medcoder(*words)
    assert (result.exit_code, encoded) == (130, [20, 20])
    assert result.stderr == "interrupted: the same command goes on from here\n"
    result = medcoder(*words)
    assert (result.exit_code, encoded) == (0, [20, 20, 20])
    assert result.stdout == f"Vectors({str(out)!r}: 60 rows of 32)\n"
    assert left_in(out.parent) == ["a.vectors"]
    assert (
        KG.open(tmp_path / "a.kg").fingerprint
        == json.loads((out / "meta.json").read_text())["parents"]["kg"]
    )
    assert medcoder(*words).exit_code == 2


# export


def test_an_export_is_made_as_asked(checkpoint, model, tmp_path, monkeypatch):
    """How it is made is tested elsewhere, and takes seconds."""
    asked = []

    def make(encoder, to, **options):
        asked.append((encoder.width, to, options))
        return load_encoder(shutil.copytree(model, to))

    monkeypatch.setattr("medcoder.model.export.export", make)
    sample = write(tmp_path / "sample.txt", "cold\r\nfever\n")
    to = tmp_path / "small"
    words = ("--weights", "dynamic-int8", "--sample", sample, "--overwrite")
    told = as_json("export", checkpoint, "--out", to, *words)
    options = {"weights": "dynamic-int8", "sample": ["cold", "fever"], "overwrite": True}
    assert asked == [(32, to, options)]
    size = sum(file.stat().st_size for file in to.iterdir())
    assert told == {"path": str(to), "width": 32, "weights": "dynamic-int8", "bytes": size}


def test_an_export_is_not_overwritten(checkpoint, model):
    refused(medcoder("export", checkpoint, "--out", model), 2, f"{model}: it exists")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--weights", "int9"], 2, "there are float32, float16, int8, dynamic-int8"),
        (["--weights", "dynamic-int8"], 2, "go together"),
        (["--sample", "a.txt"], 2, "go together"),
        (["--weights", "dynamic-int8", "--sample", "no-such.txt"], 3, "does not exist"),
    ],
)
def test_wrong_usage_of_export(checkpoint, tmp_path, words, code, said):
    refused(medcoder("export", checkpoint, "--out", tmp_path / "new", *words), code, said)
    assert left_in(tmp_path) == []


def test_dynamic_int8_needs_a_sample_that_judges(checkpoint, tmp_path):
    sample = write(tmp_path / "few.txt", "cold\nfever\n")
    words = ("--weights", "dynamic-int8", "--sample", sample)
    result = medcoder("export", checkpoint, "--out", tmp_path / "new", *words)
    assert result.exit_code == 2
    assert "a sample of at least 100 texts" in result.stderr
    assert left_in(tmp_path) == ["few.txt"]


def test_exporting_what_is_no_model(model, tmp_path):
    result = medcoder("export", model, "--out", tmp_path / "new")
    assert result.exit_code == 4
    assert "cannot be loaded as a model" in result.stderr


def test_exporting_without_torch(checkpoint, tmp_path):
    code = f"""
import sys
sys.modules["torch"] = None
from medcoder.cli import app
app(["export", {str(checkpoint)!r}, "--out", {str(tmp_path / "new")!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: exporting needs torch. Install it with: pip install 'medcoder[export]'" in (
        done.stderr
    )


def test_help():
    for words in (["normalize"], ["embed"], ["export"], ["index", "build"], ["terms", "add"]):
        result = medcoder(*words, "--help", env={"COLUMNS": "100"})
        assert result.exit_code == 0
        assert "Examples" in result.stdout
        assert f"medcoder {' '.join(words)} " in result.stdout.partition("Examples")[2]
