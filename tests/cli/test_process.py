"""The command line in processes of its own: signals, pipes, permissions, races."""

import ctypes
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medcoder import __version__
from medcoder.cli import main
from medcoder.kg import KG
from support.terminal import NAMES, command, left_in, process, write, write_umls

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("process")
    release = write_umls(folder / "release")
    done = process("kg", "build", f"umls={release}", "--out", folder / "umls.kg")
    assert (done.returncode, done.stderr) == (0, b"")
    return folder / "umls.kg"


def bound():
    """In a child of root: take away the right to read and write what permissions forbid."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.fixture
def ordinary(tmp_path):
    """Options of a process for which permissions hold."""
    options = {"preexec_fn": bound} if os.getuid() == 0 else {}
    locked = write(tmp_path / "locked.txt", "x")
    locked.chmod(0)
    if subprocess.run(["cat", locked], capture_output=True, check=False, **options).returncode == 0:
        pytest.skip("permissions do not hold here")
    locked.unlink()
    return options


def test_the_module_and_the_script():
    done = process("--version")
    assert (done.returncode, done.stdout.decode()) == (0, f"medcoder {__version__}\n")
    script = Path(sys.executable).with_name("medcoder")
    if script.exists():
        assert subprocess.check_output([script, "--version"]) == done.stdout


# Output


@pytest.mark.parametrize("arguments", [["stats"], ["stats", "--json"]])
def test_a_reader_that_leaves(graph, arguments):
    start = command("kg", *arguments, "--kg", graph)
    child = subprocess.Popen(**start, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    with child.stderr:
        assert child.stderr.read() == b""
    assert child.wait(60) == 0


def test_a_reader_of_errors_that_leaves(graph):
    start = command("kg", "show", "none", "--kg", graph)
    child = subprocess.Popen(**start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    child.stdout.close()
    assert child.wait(60) == 0


def test_no_output_at_all(graph):
    closed = {"preexec_fn": lambda: os.close(1)}
    done = process("kg", "show", "C0000001", "--kg", graph, **closed)
    assert (done.returncode, done.stderr) == (0, b"")


def test_head(graph):
    words = subprocess.list2cmdline(command("kg", "stats", "--kg", graph)["args"])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | head -1"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"KG(")


@pytest.fixture
def full():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("wb") as stream:
        yield stream


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["kg", "stats"], ["kg", "stats", "--json"], ["--version"]])
def test_an_output_that_is_full(graph, full, arguments, unbuffered):
    env = {"MEDCODER_KG": str(graph), "PYTHONUNBUFFERED": unbuffered}
    start = command(*arguments, env=env)
    done = subprocess.run(**start, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith(b"error: ") and b"No space left on device" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_errors_that_cannot_be_shown_keep_their_code(tmp_path, full, unbuffered):
    words = ("kg", "stats", "--kg", tmp_path / "none")
    start = command(*words, env={"PYTHONUNBUFFERED": unbuffered})
    done = subprocess.run(**start, stdout=subprocess.PIPE, stderr=full, check=False)
    assert (done.returncode, done.stdout) == (4, b"")


def test_a_disk_that_is_full(tmp_path):
    """A limit on the size of files, which builds meet as they meet the end of a disk."""
    lines = "".join(f"C{n},term number {n}\n" for n in range(5000))
    source = write(tmp_path / "terms.csv", "concept,term\n" + lines)
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))}
    (tmp_path / "out").mkdir()
    start = ("kg", "build", f"table={source}", "--out", tmp_path / "out" / "new.kg")
    done = process(*start, **limit)
    assert (done.returncode, done.stdout) == (5, b"")
    assert b"new.kg: no room left to write it: " in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert left_in(tmp_path / "out") == []


def test_a_terminal_without_unicode(graph):
    env = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = process("kg", "show", "C0000005", "--kg", graph, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"\\u05db\\u05d0\\u05d1 \\u05e8\\u05d0\\u05e9  C0000005\n")
    entry = process("kg", "show", "C0000005", "--kg", graph, "--json", env=env)
    assert json.loads(entry.stdout)["preferred"] == NAMES["C0000005"]


def test_a_byte_that_is_no_text(graph):
    start = command("kg", "find", "x", "--kg", graph)
    start["args"][start["args"].index("x")] = b"\xff\xfe"
    done = subprocess.run(**start, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"nothing found for '\\udcff\\udcfe' in ")


def test_a_file_name_that_is_no_text(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff_terms.csv"
    with open(name, "wb") as file:  # noqa: PTH123
        file.write(b"concept,term\nA,a\n")
    for path in (name, os.fsencode(tmp_path)):
        start = command("kg", "build", "--out", tmp_path / "out" / "a.kg", "path")
        start["args"][-1] = b"table=" + path
        done = subprocess.run(**start, capture_output=True, check=False)
        assert done.returncode in (2, 3)
        assert b"not UTF-8" in done.stderr
        assert done.stderr.count(b"\n") == 1


# Interrupts


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A table that takes many seconds to read."""
    folder = tmp_path_factory.mktemp("slow")
    rows = b"".join(b"C%d,term number %d\n" % (n, n) for n in range(2000))
    with gzip.open(folder / "terms.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"concept,term\n")
        for _ in range(5000):
            file.write(rows)
    return folder / "terms.csv.gz"


def interrupt(start, number, folder, wait=0.2):
    """Start a build, send it a signal when it has begun to write, and wait for its end."""
    child = subprocess.Popen(**start, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not list(folder.glob(".*.partial")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)
    time.sleep(wait)
    child.send_signal(number)
    out, error = child.communicate(timeout=60)
    return child.returncode, out, error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("wait", [0, 0.5])
def test_an_interrupted_build_leaves_nothing(slow, tmp_path, number, wait):
    start = command("kg", "build", f"table={slow}", "--out", tmp_path / "new.kg")
    code, out, error = interrupt(start, number, tmp_path, wait)
    assert (code, out) == (130, b"")
    assert error == b"interrupted: nothing was kept of what was being written\n"
    assert left_in(tmp_path) == []


def test_an_interrupted_build_can_be_repeated(slow, tmp_path):
    small = write(tmp_path / "terms.csv", "concept,term\nA,angina\n")
    place = tmp_path / "kgs" / "new.kg"
    place.parent.mkdir()
    assert process("kg", "build", f"table={small}", "--out", place).returncode == 0
    start = command("kg", "build", f"table={slow}", "--out", place, "--overwrite")
    assert interrupt(start, signal.SIGTERM, place.parent)[0] == 130
    assert left_in(place.parent) == ["new.kg"]
    assert KG.open(place).preferred("A") == "angina"
    code, _, _ = interrupt(start, signal.SIGKILL, place.parent)  # nobody can tidy up after this
    assert code == -signal.SIGKILL
    assert len(left_in(place.parent)) > 1  # unfinished work, and its lock
    again = process("kg", "build", f"table={small}", "--out", place, "--overwrite")
    assert again.returncode == 0
    assert left_in(place.parent) == ["new.kg"]


def test_a_pipe_for_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "terms.csv")
    release = write_umls(tmp_path / "release")
    (release / "MRREL.RRF").unlink()
    os.mkfifo(release / "MRREL.RRF")
    for source in (f"table={tmp_path / 'terms.csv'}", f"umls={release}"):
        done = process("kg", "build", source, "--out", tmp_path / "new.kg")
        assert done.returncode == 3
        assert b"is not a regular file" in done.stderr
    assert not list(tmp_path.glob(".*.partial"))


# The embedded graph


def test_two_processes_build_the_embedded_graph_at_once(tmp_path):
    env = {"MEDCODER_HOME": str(tmp_path / "home")}
    start = command("kg", "find", "heart attack", "--json", env=env)
    both = [subprocess.Popen(**start, stdout=-1, stderr=-1) for _ in range(2)]
    for child in both:
        out, error = child.communicate(timeout=120)
        assert child.returncode == 0
        # Whoever comes second says what it waits for, unless the first is done by then.
        assert all(line.startswith(b"waiting for another") for line in error.splitlines())
        assert [entry["id"] for entry in json.loads(out)] == ["HP:0001658"]
    (name,) = left_in(tmp_path / "home")
    assert name.startswith("open-")
    shown = process("kg", "stats", "--json", env=env)
    assert json.loads(shown.stdout)["vocabularies"].keys() == {"ICD10CM", "HP"}
    other = process("kg", "find", "x", env=env | {"MEDCODER_KG": str(tmp_path / "none.kg")})
    assert other.returncode == 4


@pytest.mark.parametrize("home", ["locked", "locked/below"])
def test_a_home_that_cannot_be_written(tmp_path, ordinary, home):
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked").chmod(0o000)
    env = {"MEDCODER_HOME": str(tmp_path / home)}
    done = process("kg", "find", "x", env=env, **ordinary)
    (tmp_path / "locked").chmod(0o755)
    assert (done.returncode, done.stdout) == (2, b"")
    text = done.stderr.decode()
    assert text.startswith(f"error: {tmp_path / home}: the graph cannot be kept: ")
    assert text.endswith("Set MEDCODER_HOME to a folder that you may write to\n")
    assert text.count("\n") == 1


def test_a_home_of_nobody():
    done = process("kg", "find", "x", env={"MEDCODER_HOME": "~nobody-of-that-name/x"})
    assert done.returncode == 2
    assert b"there is no such home directory. Set MEDCODER_HOME" in done.stderr


# Permissions


def test_places_that_may_not_be_written(graph, tmp_path, ordinary):
    shutil.copytree(graph, tmp_path / "umls.kg")
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked").chmod(0o555)
    place = tmp_path / "locked" / "new"
    source = f"table={write(tmp_path / 'terms.csv', 'concept,term')}"
    for arguments in (["export", "--kg", tmp_path / "umls.kg"], ["build", source]):
        done = process("kg", *arguments, "--out", place, **ordinary)
        assert done.returncode == 2
        assert b"Permission denied" in done.stderr
        assert str(tmp_path / "locked").encode() in done.stderr
        assert done.stderr.count(b"\n") == 1
    assert left_in(tmp_path / "locked") == []


@pytest.mark.parametrize("name", ["meta.json", "edge.uint64", "stats.json"])
def test_a_graph_that_may_not_be_read(graph, tmp_path, ordinary, name):
    shutil.copytree(graph, tmp_path / "umls.kg")
    (tmp_path / "umls.kg" / name).chmod(0o000)
    done = process("kg", "stats", "--kg", tmp_path / "umls.kg", **ordinary)
    assert done.returncode == 4
    assert b"Permission denied" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("name", ["terms.csv", "terms.tsv", "terms.parquet", "a.obo"])
def test_input_that_may_not_be_read(tmp_path, ordinary, name):
    file = write(tmp_path / name, "concept,term\nA,a\n")
    file.chmod(0o000)
    source = "obo" if name.endswith("obo") else "table"
    done = process("kg", "build", f"{source}={file}", "--out", tmp_path / "new.kg", **ordinary)
    assert done.returncode == 3
    assert str(file).encode() in done.stderr
    assert b"Permission denied" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_release_that_may_not_be_read(tmp_path, ordinary):
    release = write_umls(tmp_path / "release")
    (release / "MRREL.RRF").chmod(0o000)
    (tmp_path / "out").mkdir()
    place = tmp_path / "out" / "new.kg"
    done = process("kg", "build", f"umls={release}", "--out", place, **ordinary)
    assert done.returncode == 3
    assert b"MRREL.RRF, row 1: cannot be read: Permission denied" in done.stderr
    assert left_in(tmp_path / "out") == []


def test_an_interrupt_before_a_command_begins_shows_no_traceback(monkeypatch):
    """Reading the options of all commands takes a tenth of a second."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("medcoder.cli.app", interrupted)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
