"""Commands that look into a graph: what they print, for people and for programs."""

import json
import shutil

import pytest
from rich.cells import cell_len

from medcoder import __version__
from medcoder.cli.options import byte_size
from medcoder.errors import UsageError
from medcoder.kg import KG
from support.terminal import LONG, NAMES, as_json, conso, left_in, medcoder, rel, write, write_umls

COMMANDS = ("build", "stats", "show", "find", "export")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A graph not to be written to."""
    folder = tmp_path_factory.mktemp("cli")
    more = [conso("C0000008", "[D]Headache", sab="RCD", code="R1"), conso("C0000009", "$x_ $5")]
    more += [conso(f"C1{n:06d}", f"finding {n}", language="JPN", sab="MSHJPN") for n in range(30)]
    links = [rel(f"C1{n:06d}", "causes", "C0000009") for n in range(30)]
    release = write_umls(folder / "release", terms=more, relations=links)
    result = medcoder("kg", "build", f"umls={release}", "--out", folder / "umls.kg")
    assert result.exit_code == 0, result.output
    return folder / "umls.kg"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("MEDCODER_KG", "MEDCODER_HOME", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def words(text):
    """Printed text as one line: where it was wrapped and padded does not count."""
    return "".join(text.split())


# Help


def test_version():
    result = medcoder("--version")
    assert (result.exit_code, result.stdout) == (0, f"medcoder {__version__}\n")


def test_help_has_examples_and_exit_codes():
    result = medcoder("--help", env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert 'medcoder kg find "heart attack"' in result.stdout
    assert "0 done, 1 nothing found, 2 wrong usage, 3 bad input" in result.stdout
    assert "130 interrupted" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    result = medcoder("kg", name, "--help")
    assert result.exit_code == 0
    assert f"medcoder kg {name}" in result.stdout.replace("\n", " ") or "Usage" in result.stdout
    assert "--out" in result.stdout or "--kg" in result.stdout


def test_help_lists_the_commands_and_the_sources():
    listed = medcoder("kg", "--help").stdout
    assert all(name in listed for name in COMMANDS)
    build = medcoder("kg", "build", "--help").stdout
    assert "obo, omop, open, rf2, table, umls" in build
    assert "medcoder kg build open --out open.kg" in build


def test_no_command_shows_help_and_is_wrong_usage():
    result = medcoder()
    assert result.exit_code == 2
    assert "Usage" in result.output


@pytest.mark.parametrize(
    "arguments",
    [["kg", "bild"], ["kg", "stats", "--topp"], ["kg", "build"], ["kg", "stats", "--top", "[/x]"]],
)
def test_wrong_usage(arguments):
    assert medcoder(*arguments).exit_code == 2


# find


def test_find_one(graph):
    result = medcoder("kg", "find", "RED [31mletters!", "--kg", graph)
    assert result.exit_code == 0
    assert result.stdout.split("\n")[0].split() == ["id", "preferred", "name", "types"]
    assert "C0000007" in result.stdout


def test_find_several_shows_each_with_its_types(graph):
    result = medcoder("kg", "find", "d headache", "--kg", graph)
    lines = [line.split() for line in result.stdout.splitlines()[1:]]
    assert lines == [
        ["C0000001", "[D]Headache", "Sign", "or", "Symptom"],
        ["C0000008", "[D]Headache"],
    ]


def test_find_json(graph):
    found = as_json("kg", "find", "D headache", "--kg", graph)
    assert found[0] == {
        "id": "C0000001",
        "preferred": "[D]Headache",
        "types": [{"id": "T184", "name": "Sign or Symptom"}],
    }
    assert [entry["id"] for entry in found] == ["C0000001", "C0000008"]


@pytest.mark.parametrize("sought", ["nothing like it", "", "[/red]", "\udcff"])
def test_find_none(graph, sought):
    result = medcoder("kg", "find", sought, "--kg", graph)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"nothing found for {sought!r} in {graph}\n"
    assert as_json("kg", "find", sought, "--kg", graph, code=1) == []


@pytest.mark.parametrize("code", ["MSH:D0000001", "mesh:d0000001", "UMLS:C0000001"])
def test_find_by_code(graph, code):
    found = as_json("kg", "find", "--code", code, "--kg", graph)
    assert [entry["id"] for entry in found] == ["C0000001"]


def test_find_by_code_none(graph):
    result = medcoder("kg", "find", "--code", "MSH:D77", "--kg", graph)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "'MSH:D77'" in result.stderr
    assert as_json("kg", "find", "--code", "MSH:D77", "--kg", graph, code=1) == []


@pytest.mark.parametrize("code", ["D0000001", ":D1", "MSH:", "", ":"])
def test_find_by_malformed_code(graph, code):
    result = medcoder("kg", "find", "--code", code, "--kg", graph)
    assert result.exit_code == 2
    assert f"{code!r} is not VOCABULARY:CODE, such as ICD10CM:R51.9" in result.stderr


def test_find_wants_a_string_or_a_code(graph):
    for arguments in ([], ["x", "--code", "A:1"], ["x", "--xrefs"]):
        assert medcoder("kg", "find", *arguments, "--kg", graph).exit_code == 2


def test_find_by_cross_reference(tmp_path):
    write(tmp_path / "t" / "terms.csv", "concept,term\nX1,asthma\nX2,cough\n")
    write(tmp_path / "t" / "xrefs.csv", "concept,xref\nX1,UMLS:C0004096\nX2,ALT:OLD:7\n")
    kg = tmp_path / "t.kg"
    assert medcoder("kg", "build", f"table={tmp_path / 't'}", "--out", kg).exit_code == 0
    code = ("kg", "find", "--kg", kg, "--code", "UMLS:C0004096")
    assert as_json(*code, code=1) == []
    assert [entry["id"] for entry in as_json(*code, "--xrefs")] == ["X1"]
    assert [entry["id"] for entry in as_json("kg", "find", "--kg", kg, "--code", "OLD:7")] == ["X2"]


# show


def test_show(graph):
    result = medcoder("kg", "show", "C0000001", "--kg", graph)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines == [
        "[D]Headache C0000001",
        "types Sign or Symptom",
        "codes MSH:D0000001",
        "language term vocabulary code kind",
        "en [D]Headache MSH D0000001 PT",
        "es Dolor de cabeza MSH D0000001 PT",
        "[D]Headache (C0000001) RO :smile: face (C0000003)",
        "[/red] rash [b]bold[/b] (C0000002) RO|isa [D]Headache (C0000001)",
    ]


def test_show_json(graph):
    entry = as_json("kg", "show", "C0000001", "--kg", graph)
    assert entry["id"] == "C0000001"
    assert entry["codes"] == [{"vocabulary": "MSH", "code": "D0000001"}]
    assert [term["text"] for term in entry["terms"]] == ["[D]Headache", "Dolor de cabeza"]
    assert entry["relations"][0] == {
        "head": "C0000001",
        "relation": "RO",
        "tail": "C0000003",
        "head_name": "[D]Headache",
        "tail_name": ":smile: face",
    }


def test_show_limits_the_relations_of_each_direction(graph):
    assert len(as_json("kg", "show", "C0000009", "--kg", graph)["relations"]) == 20
    assert len(as_json("kg", "show", "C0000009", "--kg", graph, "--limit", 3)["relations"]) == 3
    assert medcoder("kg", "show", "C0000009", "--kg", graph, "--limit", 0).exit_code == 2


@pytest.mark.parametrize("concept", ["C7", "[b]", "", "\udcff", "c0000001"])
def test_show_unknown(graph, concept):
    result = medcoder("kg", "show", concept, "--kg", graph)
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == (
        f"error: {graph}: no such concept: {concept!r}. Look it up with `kg find`\n"
    )


# Odd names


@pytest.mark.parametrize("columns", [None, "40", "9"])
@pytest.mark.parametrize("concept", sorted(NAMES))
def test_names_are_shown_whole(graph, concept, columns):
    env = {"COLUMNS": columns} if columns else None
    name = words(NAMES[concept].replace("\x1b", "\ufffd"))
    shown = medcoder("kg", "show", concept, "--kg", graph, env=env)
    assert shown.exit_code == 0
    assert words(shown.stdout).startswith(name + concept)
    found = medcoder("kg", "find", NAMES[concept], "--kg", graph, env=env)
    assert found.exit_code == 0
    if columns != "9":  # one character a line in each column
        assert _names_in(found.stdout, concept).startswith(name)


def _names_in(table, concept):
    """The column of names of a printed table, from the row of the concept on."""
    lines = table.splitlines()
    end = next(line.index("types") for line in lines if "types" in line)
    rows = lines[next(place for place, line in enumerate(lines) if concept in line) :]
    begin = rows[0].index(concept) + len(concept)
    return words("".join(_spaced(row)[begin:end] for row in rows))


def _spaced(row):
    """The row with a space after each character that takes two columns of the terminal."""
    return "".join(char + " " * (cell_len(char) - 1) for char in row)


def test_pipes_are_wide_enough_for_a_row_a_line(graph):
    result = medcoder("kg", "find", NAMES["C0000002"], "--kg", graph)
    assert len(result.stdout.splitlines()) == 2


def test_escape_sequences_do_not_reach_the_terminal(graph):
    for arguments in (["show", "C0000007"], ["find", NAMES["C0000007"]]):
        result = medcoder("kg", *arguments, "--kg", graph)
        assert "\x1b" not in result.stdout
        assert "red \ufffd[31mletters" in result.stdout
    found = as_json("kg", "find", NAMES["C0000007"], "--kg", graph)
    assert found[0]["preferred"] == NAMES["C0000007"]


def test_long_names(graph):
    shown = medcoder("kg", "show", "C0000006", "--kg", graph)
    assert shown.stdout.splitlines()[0] == f"{LONG}  C0000006"
    assert as_json("kg", "find", LONG, "--kg", graph)[0]["preferred"] == LONG


# stats


def test_stats(graph):
    result = medcoder("kg", "stats", "--kg", graph, "--top", 2)
    assert result.exit_code == 0
    assert "39 concepts, 40 terms, 32 edges" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["MSHJPN", "30"] in rows
    assert ["relations", "(3)"] in rows
    assert ["RO|causes", "30"] in rows
    assert ["T033", "Finding", "1"] in rows


def test_stats_json(graph):
    counts = as_json("kg", "stats", "--kg", graph)
    assert counts == KG.open(graph).stats()
    assert counts["languages"] == {"ja": 30, "en": 9, "es": 1}
    assert (counts["concepts"], counts["terms"], counts["edges"]) == (39, 40, 32)


def test_stats_shows_labels_whole(tmp_path):
    rows = "concept,term,source,kind,type\nA,aa,[V]:smile:,[k],[/red] type | $a $b\nB,bb,,,\n"
    source = write(tmp_path / "[b]terms.csv", rows)
    kg = tmp_path / "[/red].kg"
    built = medcoder("kg", "build", f"table={source}", "--out", kg)
    assert built.exit_code == 0
    assert "[b]terms.csv" in built.stdout
    assert "[/red].kg" in built.stdout
    shown = medcoder("kg", "stats", "--kg", kg).stdout
    for label in ("[V]:smile:", "[B]TERMS", "[k]", "(none)", "[/red] type", "$a $b"):
        assert label in shown, label
    assert "[/red].kg" in medcoder("kg", "find", "zz", "--kg", kg).stderr


@pytest.mark.parametrize(
    ("name", "start"),
    [("new/a.svg", b"<?xml"), ("b.PNG", b"\x89PNG")],
)
def test_stats_draws(graph, tmp_path, name, start):
    result = medcoder("kg", "stats", "--kg", graph, "--plot", tmp_path / name)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"drawn to {tmp_path / name}"
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(start)
    if name.endswith("svg"):
        assert "T184 Sign or Symptom" in picture.decode()


def test_stats_draws_dollars_and_scripts_without_a_font(tmp_path):
    rows = "concept,term,source,type\nA,aa,$\\bad{$,\u75c7\u72b6\n"
    kg = tmp_path / "$x^$.kg"
    source = write(tmp_path / "terms.csv", rows)
    assert medcoder("kg", "build", f"table={source}", "--out", kg).exit_code == 0
    for name in ("a.png", "a.svg"):
        assert medcoder("kg", "stats", "--kg", kg, "--plot", tmp_path / name).exit_code == 0
    assert "$\\bad{$" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_stats_draws_and_prints_json(graph, tmp_path):
    counts = as_json("kg", "stats", "--kg", graph, "--plot", tmp_path / "a.png")
    assert counts["concepts"] == 39
    assert left_in(tmp_path) == ["a.png"]


@pytest.mark.parametrize("name", ["a.txt", "a", ".png"])
def test_stats_refuses_other_pictures(graph, tmp_path, name):
    result = medcoder("kg", "stats", "--kg", graph, "--plot", tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a picture is a file such as .png, .svg or .pdf" in result.stderr
    assert left_in(tmp_path) == []


# Which graph


def test_the_graph_from_the_environment(graph):
    result = medcoder("kg", "show", "C0000001", env={"MEDCODER_KG": str(graph)})
    assert result.exit_code == 0
    nowhere = {"MEDCODER_KG": str(graph.parent / "none.kg")}
    assert medcoder("kg", "show", "C0000001", env=nowhere).exit_code == 4
    assert medcoder("kg", "show", "C0000001", "--kg", graph, env=nowhere).exit_code == 0


def test_a_home_directory_in_a_path(graph, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(graph.parent))
    assert medcoder("kg", "show", "C0000001", "--kg=~/umls.kg").exit_code == 0
    for option in ("--kg", "--plot", "--out"):
        other = [] if option == "--kg" else ["--kg", graph]
        name = "export" if option == "--out" else "stats"
        result = medcoder("kg", name, option, "~nobody-of-that-name/x.png", *other)
        assert result.exit_code == 2
        assert "there is no such home directory" in result.stderr


def test_not_a_graph(tmp_path):
    (tmp_path / "empty").mkdir()
    file = write(tmp_path / "file.kg", "x")
    for place in (tmp_path / "empty", file, tmp_path / "none", file / "below"):
        result = medcoder("kg", "stats", "--kg", place)
        assert (result.exit_code, result.stdout) == (4, "")
        assert result.stderr == (
            f"error: {place}: it is not a knowledge graph: it has no meta.json. Check the path\n"
        )


def _cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def _flip(file):
    data = bytearray(file.read_bytes())
    data[:8] = bytes(0xFF ^ byte for byte in data[:8])
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "harm", "message"),
    [
        ("term.data", _cut, "the knowledge graph is damaged"),
        (
            "edge.uint64",
            lambda file: file.unlink(),
            "the knowledge graph is damaged: it is missing",
        ),
        ("names.json", _flip, "was changed or damaged"),
        ("stats.json", _flip, "was changed or damaged"),
        ("term.data", _flip, "was changed or damaged"),
        ("concept.terms.int64", _flip, "was changed or damaged"),
        ("meta.json", _flip, "cannot be read"),
        ("meta.json", lambda file: file.write_text("[]"), "not a knowledge graph"),
        ("meta.json", lambda file: file.write_text('{"kind": "model"}'), "is a model, not a"),
    ],
)
def test_a_damaged_graph(graph, tmp_path, name, harm, message):
    kg = tmp_path / "hurt.kg"
    shutil.copytree(graph, kg)
    harm(kg / name)
    command = ["stats"] if name == "stats.json" else ["show", "C0000001"]
    result = medcoder("kg", *command, "--kg", kg)
    assert (result.exit_code, result.stdout) == (4, "")
    assert message in result.stderr
    assert str(kg) in result.stderr


@pytest.mark.parametrize("missing", ["relation_bits", "files", "version"])
def test_a_graph_whose_meta_data_lacks_something(graph, tmp_path, missing):
    kg = tmp_path / "hurt.kg"
    shutil.copytree(graph, kg)
    meta = json.loads((kg / "meta.json").read_text(encoding="utf-8"))
    del meta[missing]
    (kg / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    result = medcoder("kg", "find", "--code", "MSH:D0000001", "--kg", kg)
    assert (result.exit_code, result.stdout) == (4, "")
    assert str(kg) in result.stderr


# Values of options


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 << 30),
        ("512MB", 512 << 20),
        ("512 MiB", 512 << 20),
        ("1.5g", 3 << 29),
        (" 70m ", 70 << 20),
        ("80000000", 80_000_000),
        ("65536kb", 64 << 20),
    ],
)
def test_sizes(text, size):
    assert byte_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "GB", "-1GB", "2TB", "1e9", "2,5GB", "9" * 400 + "GB", "\u0662GB"]
)
def test_not_sizes(text):
    with pytest.raises(UsageError, match="is not a size such as 2GB or 512MB"):
        byte_size(text)
