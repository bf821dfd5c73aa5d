"""What the documentation says is so: its commands, code, outputs and links.

Blocks are marked by what follows their language:

    ```console run        `$ medcoder ...` is run, and prints what is shown below it
    ```python run         is run; with >>> prompts, as a doctest
    ```csv file=ward.csv  is written to that file before what comes after it
    ```text output        is what the last command of the block before it prints

In an expected output, `...` stands for anything and times do not count. Commands in other blocks
must parse. Each page runs in an empty folder; one with `<!-- continues PAGE -->` goes on after it,
in its folder and with its names. All share one bundled graph and index.
"""

import doctest
import importlib
import os
import re
import runpy
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import typer.main
from typer.testing import CliRunner

from medcoder.bundled.graph import bundled_kg
from medcoder.cli import app
from medcoder.kg.sources.table import FIELDS
from medcoder.normalize.build import bundled_index
from medcoder.train.config import load, to_toml
from medcoder.train.objective import NAMES

torch.set_num_threads(1)  # more of them gain nothing for a tiny model, and wait for each other

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^```(\w*)[ ]?(.*)\n((?s:.*?))^```$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CONTINUES = re.compile(r"^<!-- continues (\S+) -->$", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
COMMAND = typer.main.get_command(app)
# Options that act as soon as they are parsed; the second writes to the start-up file of the shell.
ALONE = [["--version"], ["--install-completion"], ["--show-completion"], ["--help"]]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def chains():
    """Pages that run in one folder, in their order."""
    before = {}
    for page in PAGES:
        if found := CONTINUES.search(page.read_text(encoding="utf-8")):
            before[page.parent / found[1]] = page
    for page in PAGES:
        if page not in before.values():
            chain = [page]
            while chain[-1] in before:
                chain.append(before[chain[-1]])
            yield chain


class Block(NamedTuple):
    language: str
    mark: str
    body: str


def blocks(page):
    return [Block(*found) for found in FENCE.findall(page.read_text(encoding="utf-8"))]


def words(line):
    """Arguments of the `medcoder` command in a line of a shell, and its variables; or None."""
    last = re.split(r"&&|;|\|", re.sub(r"\s#.*", "", line))
    for part in last:
        tokens = shlex.split(re.sub(r"[<>].*", "", part))
        variables = {}
        while tokens and re.fullmatch(r"[A-Z_]+=.*", tokens[0]):
            name, _, value = tokens.pop(0).partition("=")
            variables[name] = value
        if tokens and tokens[0] in ("medcoder", ".venv/bin/medcoder"):
            return tokens[1:], variables
    return None


def commands(block):
    """Lines of a block that are commands."""
    text = block.body.replace("\\\n", " ")
    if block.language == "console":
        return [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    if block.language == "sh" or "  medcoder kg" in text:  # or the examples of cli.md
        return [line.strip() for line in text.splitlines()]
    return []


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of its own, for a page adds terms, with the graph and index that all tests share."""
    base = tmp_path_factory.getbasetemp()
    # Processes of one run share the folder above theirs: see tests/golden/conftest.py.
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "golden-home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDCODER_HOME", str(shared))
        built = [bundled_kg(), bundled_index()]
    home = tmp_path_factory.mktemp("home")
    for path in built:
        (home / path.name).symlink_to(path)
    return home


@pytest.fixture
def shell(home, tmp_path, monkeypatch):
    """Runs a line of a shell in an empty folder; gives what it prints."""
    monkeypatch.chdir(tmp_path)
    for name in ("MEDCODER_KG", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEDCODER_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    status = 0

    def run(line, columns=80):
        nonlocal status
        if line == "echo $?":
            return f"{status}\n"
        if line.startswith("export "):
            monkeypatch.setenv(*line.removeprefix("export ").split("=", 1))
            return ""
        found = words(line)
        if found is None:  # cat, mv and the like
            return subprocess.run(
                line, shell=True, check=True, text=True, capture_output=True
            ).stdout
        arguments, variables = found
        variables |= {"COLUMNS": str(columns)}
        result = CliRunner().invoke(app, arguments, env=variables, catch_exceptions=False)
        status = result.exit_code
        return result.output

    return run


def same(expected, found):
    """Whether an output is as shown: `...` is anything, times and blanks at ends do not count."""

    def tidy(text):
        text = re.sub(r"in [0-9.]+ s$", "in 0 s", text, flags=re.MULTILINE)
        return "\n".join(line.rstrip() for line in text.rstrip().splitlines())

    pattern = re.escape(tidy(expected)).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, tidy(found), re.DOTALL) is not None


def check(line, expected, shell):
    # Tables keep to the width of the terminal; other lines are as long as they are.
    rows = [row for row in expected.splitlines() if row.startswith(" ")]
    widest = max(map(len, rows), default=0)
    found = shell(line, widest + 2 if widest > 80 else 80)
    assert same(expected, found), f"$ {line}\n{found}\n--- the page has ---\n{expected}"


def run_console(body, shell):
    for entry in re.split(r"^\$ ", body.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        line, _, expected = entry.partition("\n")
        check(line, expected, shell)


def run_python(body, names, page):
    if ">>>" not in body:
        exec(compile(body, page.name, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(body, names, page.name, str(page), 0)
    found = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=found.append, clear_globs=False)
    names.update(test.globs)
    assert not found, "".join(found)


RUNS = [chain for chain in chains() if any(block.mark for page in chain for block in blocks(page))]


@pytest.mark.parametrize("chain", RUNS, ids=lambda chain: chain[0].relative_to(ROOT).as_posix())
def test_what_a_page_runs_gives_what_it_shows(chain, shell):
    names = {"__name__": "page"}
    for page in chain:
        run_page(page, names, shell)


def run_page(page, names, shell):
    before = ""
    for block in blocks(page):
        if block.mark.startswith("file="):
            file = Path(block.mark.removeprefix("file="))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(block.body.encode())
        elif block.mark == "output":
            check(before, block.body, shell)
        elif block.mark == "run" and block.language == "python":
            run_python(block.body, names, page)
        elif block.mark == "run":
            run_console(block.body, shell)
        else:
            assert block.mark == "", f"{page.name}: a block is marked {block.mark!r}"
        before = next(reversed(commands(block)), "")


def parse(arguments):
    """Parse arguments as the command line would, without running them."""
    if arguments in ALONE:
        return
    command = COMMAND
    while arguments and arguments[0] in getattr(command, "commands", {}):
        command = command.commands[arguments.pop(0)]
    if command.name == "map" and arguments:  # `medcoder map FILE` is short for `map table FILE`
        command = command.commands["table"]
    assert not hasattr(command, "commands"), "no such command"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MEDCODER_KG", raising=False)
        command.make_context("medcoder", arguments)


@pages
def test_commands_parse(page):
    for block in blocks(page):
        for line in commands(block):
            found = None if "[OPTIONS]" in line else words(line)
            if found is not None:
                try:
                    parse(found[0])
                except Exception as error:
                    pytest.fail(f"{line}: {error!r}")


@pages
def test_commands_and_options_in_prose_exist(page):
    known = {"--help", *(name for name in options(COMMAND))}
    for span in SPAN.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if span.startswith("medcoder "):
            command = COMMAND
            for word in span.split()[1:]:
                if word not in getattr(command, "commands", {}):
                    assert not (hasattr(command, "commands") and word.isalpha()), span
                    break
                command = command.commands[word]
        if page.name != "CONTRIBUTING.md":
            assert set(re.findall(r"(?<!\S)--[a-z-]+", span)) <= known | OTHER_OPTIONS, span


OTHER_OPTIONS = {"--scale", "--full", "--stop-after"}  # of benchmarks and of medcoder.train


def options(command):
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for child in getattr(command, "commands", {}).values():
        yield from options(child)


@pages
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def anchors(page):
    titles = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"\S+\.md$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    docs = ROOT / "docs"
    assert {page.relative_to(docs).as_posix() for page in PAGES if page.parent != ROOT} <= listed


def resolve(name):
    """What a dotted name stands for: a module, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


ROOMS = {path.stem for path in (ROOT / "src" / "medcoder").iterdir()}
OLD = {"CHANGELOG.md", "experiments.md"}  # these name what was


@pages
def test_names_in_pages_exist(page):
    text = page.read_text(encoding="utf-8")
    if page.name == "upgrade.md":  # its tables have the old name first
        text = re.sub(r"^\|[^|]*\|", "", text, flags=re.MULTILINE)
    wanted = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    for span in SPAN.findall(FENCE.sub("", text)) if page.name not in OLD else ():
        name = span.removeprefix("medcoder.")
        room, last = name.split(".")[0], name.split(".")[-1]
        if re.fullmatch(r"[a-z_]+(\.\w+)+", span) and room in ROOMS and last not in SUFFIXES:
            wanted.append(f"medcoder.{name}")
        elif re.fullmatch(r"(src|tests|scripts|benchmarks|configs|recipes|data)/[\w./-]+", span):
            assert (ROOT / span).exists(), span
    for module, names in re.findall(r"^from (medcoder[\w.]*) import (.+)$", text, re.MULTILINE):
        wanted += [f"{module}.{name.strip()}" for name in names.split(",")]
    for name in wanted:
        try:
            resolve(name)
        except AttributeError:
            pytest.fail(f"there is no {name}")


SUFFIXES = {"json", "kg", "safetensors", "md", "onnx", "csv", "tsv", "toml", "html"}


def test_the_command_line_reference_is_up_to_date():
    render = runpy.run_path(str(ROOT / "scripts" / "make_cli_docs.py"))["render"]
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == render()


def test_the_readme_has_the_two_commands():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    install = "python3 -m venv .venv && .venv/bin/pip install"
    strings = '"heart attack" "poisoned by eating pufferfish" "dolor de espalda"'
    assert f"{install} . && .venv/bin/medcoder normalize {strings}" in lines
    assert f"{install} -e '.[dev]' && .venv/bin/pytest" in lines


def test_the_page_on_tables_names_every_column():
    page = (ROOT / "docs" / "how-to" / "tables.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\w+", "".join(re.findall(r"^\|.*$", page, re.MULTILINE))))
    for fields in FIELDS.values():
        for ours, others in fields.items():
            assert {ours, *others} <= named


def spans(name):
    text = (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8")
    return set(SPAN.findall(FENCE.sub("", text)))


def test_pages_on_training_name_every_setting_and_metric():
    assert set(settings(tomllib.loads(to_toml(load(None))))) <= spans("train-settings.md")
    others = {"step", "learning_rate", "missed_positives", "terms_per_second"}
    assert {*NAMES, *others} <= spans("train.md")


def settings(table, prefix=""):
    for name, value in table.items():
        if isinstance(value, dict):
            yield from settings(value, f"{prefix}{name}.")
        else:
            yield prefix + name


@pages
def test_no_page_names_a_machine(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|work|tmp|Users)/", text)
