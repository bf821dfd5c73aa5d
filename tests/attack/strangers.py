"""Directories and project files of strangers: changed by bits, names, numbers, cells, and used.

Some changes are accidents, which digests tell. Others are on purpose: whoever made them made the
digests fit. Either way a command may refuse or answer; it may not fall over, hang, write outside of
the folder, put a script into a page, or answer otherwise after `medcoder check` found all sound.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from attack.frame import Attack, Result, Tally

_TESTS = Path(__file__).parents[1]
_PATIENCE = 120  # seconds; a command that takes longer hangs
_SCRIPT = "<script>alert(1)</script>"
_ASKED = ("heart attack", "feverr", "cold cough")

# Everything is made by the tree under attack: a graph, vectors, a model, three indexes, a project.
_MAKE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.build import build
from medcoder.vectors.embed import embed
from support.bag import write_bag
from support.mapped import decide, make
from support.toy import toy_source
folder = Path(sys.argv[2])
build_kg([toy_source()], folder / "graph")
kg = KG.open(folder / "graph")
words = "heart attack disease fever cough cold headache seizure diabetes type".split()
model = write_bag(folder / "model", words)
vectors = embed(kg, model, folder / "vectors")
for kind in ("exact", "ivf", "hnsw"):
    build(kg, model, folder / f"index-{kind}", kind=kind, vectors=vectors)
with make(folder / "made") as project:
    decide(project)
    project.base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
(folder / "made" / "out").rename(folder / "project")
"""


# Commands in forks of one process that has imported all: a tenth of the time of new processes.
_FORKS = """
import json, os, signal, sys, traceback
import faiss, numpy, onnxruntime, polars, pyarrow, tokenizers
import medcoder.cli, medcoder.mapping.formats, medcoder.normalize, medcoder.vectors.embed
for line in sys.stdin:
    args, patience, out, err = json.loads(line)
    child = os.fork()
    if not child:
        for path, number in ((os.devnull, 0), (out, 1), (err, 2)):
            mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(path, mode, 0o600), number)
        signal.alarm(patience)
        sys.argv, code = ["medcoder", *args], 0
        try:
            medcoder.cli.main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1 if left.code else 0
        except BaseException:
            traceback.print_exc()
            code = 1
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    status = os.waitpid(child, 0)[1]
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class _Commands:
    """Commands of the tree under attack, each in a fork."""

    def __init__(self, attack: Attack) -> None:
        self._folder = attack.folder
        attack.home.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [attack.python, "-c", _FORKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=attack.environment({"ORT_DISABLE_TELEMETRY": "1"}),
            cwd=attack.folder,
        )

    def __call__(self, *words: object) -> Result:
        args = tuple(map(str, words))
        out, err = self._folder / "stdout", self._folder / "stderr"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        start = time.monotonic()
        self._process.stdin.write(f"{json.dumps([args, _PATIENCE, str(out), str(err)])}\n")
        self._process.stdin.flush()
        rc = int(self._process.stdout.readline())
        texts = (file.read_text(encoding="utf-8", errors="replace") for file in (out, err))
        rc = 124 if rc == -signal.SIGALRM else rc
        return Result(args, rc, *texts, time.monotonic() - start)

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


def run(attack: Attack) -> Tally:
    whole = attack.folder / "whole"
    whole.mkdir()
    made = attack.code(_MAKE, _TESTS, whole, timeout=_PATIENCE * 3)
    if made.rc != 0:
        raise RuntimeError(made.err[-2000:])
    ask = _Commands(attack)
    try:
        return _trials(attack, ask, whole)
    finally:
        ask.close()


def _trials(attack: Attack, ask: _Commands, whole: Path) -> Tally:
    tally = attack.tally
    checks = ask("check", whole / "graph").rc == 0
    tally.notes["has check"] = checks
    kinds = ["graph", "vectors", "model", "index-exact", "index-ivf", "index-hnsw", "project"]
    kinds = ["index-exact", "project"] if attack.small else kinds
    right = {kind: _use(attack, ask, whole / kind) for kind in kinds}
    for kind, results in right.items():
        for result in results:
            if result.rc != 0:
                raise RuntimeError(f"{kind}: {result.args}: {result.err[-1000:]}")
    answers = {kind: _said(results, whole / kind) for kind, results in right.items()}
    for number in range(attack.trials):
        rng = random.Random(f"{attack.seed}/{number}")
        kind = kinds[number % len(kinds)]
        _trial(attack, ask, rng, number, whole / kind, answers[kind], checks=checks)
        tally.trials += 1
        if number % 50 == 49:
            attack.say(f"{number + 1} trials, {len(tally.failures)} failures")
        if attack.over:
            break
    return tally


def _trial(
    attack: Attack,
    ask: _Commands,
    rng: random.Random,
    number: int,
    whole: Path,
    right: list[str],
    *,
    checks: bool,
) -> None:
    tally, place = attack.tally, attack.folder / "trial"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "outside.csv").write_text("precious")
    (place / "deep").mkdir()
    hurt = place / "deep" / whole.name
    shutil.copytree(whole, hurt)
    change = rng.choice(_OF_PROJECT if whole.name == "project" else _OF_DIRECTORY)
    what = f"trial {number}, {whole.name}, {change.__name__.strip('_')}: "
    what += change(rng, hurt)
    before = _around(place, hurt)
    sound = False
    if checks:
        checked = ask("check", hurt)
        _judge(tally, what, checked)
        sound = checked.rc == 0
        tally.count("found sound" if sound else "found unsound")
    results = _use(attack, ask, hurt)
    for result in results:
        _judge(tally, what, result)
    if _around(place, hurt) != before:
        tally.fail(f"{what}: written outside of the folder")
    for page in hurt.glob("*.html"):
        if _SCRIPT in page.read_text(encoding="utf-8", errors="replace"):
            tally.fail(f"{what}: a script in {page.name}")
    answered = all(result.rc == 0 for result in results)
    differs = answered and _said(results, hurt) != right
    if answered:
        tally.count("answered otherwise" if differs else "answered the same")
    else:
        tally.count("refused")
    # What was changed on purpose, with digests that fit, is the stranger's own content.
    # And a project is written to all the time: it has no digest.
    accident = change in _ACCIDENTS and whole.name != "project"
    if differs and accident and (sound or not checks):
        tally.fail(f"{what}: another answer, and nobody said that it is damaged")


def _judge(tally: Tally, what: str, result: Result) -> None:
    wrong = result.wrong
    if result.rc == 124:
        wrong = f"{' '.join(result.args)}: hangs"
    if wrong:
        tally.fail(f"{what}: {wrong}")


def _use(attack: Attack, ask: _Commands, folder: Path) -> list[Result]:
    """What a user does with it."""
    kind = folder.name
    if kind == "graph":
        return [ask("kg", "show", "C0027051", "--kg", folder, "--json")]
    if kind == "model":
        out = attack.folder / "embedded"
        shutil.rmtree(out, ignore_errors=True)
        whole = attack.folder / "whole" / "graph"
        return [ask("embed", "--kg", whole, "--model", folder, "--out", out)]
    if kind == "vectors":
        out = attack.folder / "built"
        shutil.rmtree(out, ignore_errors=True)
        whole = attack.folder / "whole"
        given = ("--kg", whole / "graph", "--model", whole / "model", "--vectors", folder)
        return [ask("index", "build", *given, "--out", out)]
    if kind == "project":
        return [
            ask("map", "status", folder, "--json"),
            ask("map", "report", folder, "--json"),
            ask("map", "export", folder, "sssom", "--out", folder / "out.tsv"),
        ]
    return [ask("normalize", *_ASKED, "--index", folder, "--json")]


def _said(results: list[Result], folder: Path) -> list[str]:
    """Answers, without where the folder lies."""
    if folder.name in ("vectors", "model"):  # what is made of them says how long it took
        return []
    said = [result.out.replace(str(folder), "") for result in results]
    if folder.name == "project" and (folder / "mapped.csv").exists():
        said.append((folder / "mapped.csv").read_text(errors="replace"))
    return said


def _around(place: Path, hurt: Path) -> dict[str, bytes]:
    """All files that are not of the folder."""
    return {
        str(file.relative_to(place)): file.read_bytes()
        for file in place.rglob("*")
        if file.is_file() and not file.is_relative_to(hurt)
    }


# Changes of directories: each says what it did


def _chosen(rng: random.Random, folder: Path) -> Path:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    return rng.choice(files)


def _flip(rng: random.Random, folder: Path) -> str:
    file = _chosen(rng, folder)
    data = bytearray(file.read_bytes())
    position = rng.randrange(len(data))
    data[position] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    return f"bit of byte {position} of {file.name}"


def _cut(rng: random.Random, folder: Path) -> str:
    file = _chosen(rng, folder)
    size = rng.randrange(file.stat().st_size)
    os.truncate(file, size)
    return f"{file.name} cut to {size}"


def _swap(rng: random.Random, folder: Path) -> str:
    one, other = _chosen(rng, folder), _chosen(rng, folder)
    while other == one:
        other = _chosen(rng, folder)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return f"{one.name} and {other.name} swapped"


_HOSTILE = [
    -1, 0, 1, 10**12, 2**63, 1e308, "x", "", None, True, [], {}, [[[]]], "../../outside.csv",
    "/etc/passwd", "exact", "\x00", "\x1b[2J", _SCRIPT,
]  # fmt: skip


def _number(rng: random.Random, folder: Path) -> str:
    """Another value in a file of JSON; the digests fit."""
    files = sorted(folder.rglob("*.json"))
    file = rng.choice(files)
    value = json.loads(file.read_text(encoding="utf-8"))
    where = value
    path = []
    while isinstance(where, (dict, list)) and where:
        key = rng.choice(sorted(where)) if isinstance(where, dict) else rng.randrange(len(where))
        path.append(str(key))
        inner = where[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.15:
            where[key] = rng.choice(_HOSTILE)
            break
        where = inner
    file.write_text(json.dumps(value), encoding="utf-8")
    _fit(folder, but=file if file.name == "meta.json" else None)
    return f"{'.'.join(path)} of {file.name}"


def _bytes(rng: random.Random, folder: Path) -> str:
    """Other bytes in a file of numbers; the digests fit."""
    file = _chosen(rng, folder)
    data = bytearray(file.read_bytes())
    for _ in range(rng.choice((1, 4, 64))):
        start = rng.randrange(len(data)) // 8 * 8
        word = rng.choice((b"\xff" * 8, b"\x00" * 8, b"\xff" * 7 + b"\x7f", rng.randbytes(8)))
        data[start : start + 8] = word[: len(data) - start]
    file.write_bytes(data)
    if file.suffix == ".faiss":
        digest = hashlib.blake2b(data[:-16], digest_size=16).digest()
        file.write_bytes(data[:-16] + digest)
    _fit(folder)
    return f"bytes of {file.name}"


def _path(rng: random.Random, folder: Path) -> str:
    """A file of the list that lies elsewhere, is a link, a pipe or a device."""
    metas = sorted(folder.rglob("meta.json"))
    meta = json.loads(rng.choice(metas).read_text())
    name = rng.choice(sorted(meta["files"]))
    file = folder / name
    if not file.is_file():
        file = _chosen(rng, folder)
    how = rng.choice(("link", "pipe", "folder", "zero", "name"))
    if how == "name":
        top = folder / "meta.json"
        stored = json.loads(top.read_text())
        wrong = rng.choice(("../outside.csv", "/dev/zero", "/etc/passwd", "a/../../outside.csv"))
        stored["files"][wrong] = {"size": 8, "blake2b": "0" * 32, "crc32": 0}
        top.write_text(json.dumps(stored))
        _fit(folder)
        return f"{wrong} listed"
    file.unlink()
    if how == "link":
        file.symlink_to(folder.parent.parent / "outside.csv")
    elif how == "pipe":
        os.mkfifo(file)
    elif how == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    return f"{file.name} is a {how}"


def _fit(folder: Path, but: Path | None = None) -> None:
    """Make sizes and digests fit, from the inside out."""
    metas = sorted(folder.rglob("meta.json"), key=lambda file: -len(file.parts))
    for file in metas:
        try:
            meta = json.loads(file.read_text(encoding="utf-8"))
            for name, entry in meta["files"].items():
                if (file.parent / name).is_file():
                    data = (file.parent / name).read_bytes()
                    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
                    entry |= {"size": len(data), "blake2b": digest}
                    entry |= {"crc32": zlib.crc32(data)} if "crc32" in entry else {}
            if file != but:
                lines = "".join(f"{n} {e['blake2b']}\n" for n, e in sorted(meta["files"].items()))
                meta["fingerprint"] = hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()
            if "seal" in meta:
                del meta["seal"]
                said = json.dumps(meta, sort_keys=True).encode()
                meta["seal"] = hashlib.blake2b(said, digest_size=16).hexdigest()
        except (TypeError, KeyError, AttributeError, ValueError):  # the change itself is in the way
            continue
        file.write_text(json.dumps(meta), encoding="utf-8")


# Changes of projects


_CELLS = [
    -1, 10**12, 1e308, float("inf"), "x", "", None, b"\xff\x00", _SCRIPT, '"../../../outside"',
    "[[1]]", "{", "[" * 3000, "NaN", '{"a": 1}',
]  # fmt: skip


def _cell(rng: random.Random, folder: Path) -> str:
    base = sqlite3.connect(folder / "project.sqlite", isolation_level=None)
    tables = [name for (name,) in base.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
    table = rng.choice([name for name in tables if not name.startswith("sqlite_")])
    columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
    column = rng.choice(columns)
    value = rng.choice(_CELLS)
    values = [value]
    where = "1"
    if table == "meta":
        keys = [key for (key,) in base.execute("SELECT key FROM meta ORDER BY key")]
        where, column = f"key = '{rng.choice(keys)}'", "value"
    with_errors = ""
    try:
        base.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE {where}", values)
    except sqlite3.Error as error:
        with_errors = f" ({error})"
    base.close()
    return f"{table}.{column} where {where} = {value!r:.40}{with_errors}"


def _schema(rng: random.Random, folder: Path) -> str:
    statement = rng.choice([
        "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM terms; END",
        "CREATE TRIGGER t AFTER UPDATE ON meta BEGIN UPDATE events SET concept = 'X'; END",
        "CREATE VIEW v AS SELECT * FROM terms",
        "CREATE TABLE extra (x)",
        "CREATE INDEX more ON terms (abs(id))",
        "DROP TABLE candidates",
        "DROP INDEX of_term",
        "ALTER TABLE terms ADD COLUMN x AS (length(text))",
        "ALTER TABLE terms DROP COLUMN language",
        "PRAGMA user_version = 77",
        "PRAGMA application_id = 1",
        "DELETE FROM terms",
        "DELETE FROM rows",
        "DELETE FROM meta",
        "DELETE FROM strings",
    ])  # fmt: skip
    base = sqlite3.connect(folder / "project.sqlite", isolation_level=None)
    try:
        base.execute(statement)
    except sqlite3.Error as error:
        statement += f" ({error})"
    base.close()
    return statement


def _beside(rng: random.Random, folder: Path) -> str:
    end = rng.choice(("wal", "shm", "journal"))
    (folder / f"project.sqlite-{end}").symlink_to(folder.parent.parent / "outside.csv")
    return f"project.sqlite-{end} is a link"


_Change = Callable[[random.Random, Path], str]
_OF_DIRECTORY: list[_Change] = [_flip, _flip, _cut, _swap, _number, _number, _bytes, _bytes, _path]
_OF_PROJECT: list[_Change] = [_flip, _cut, _cell, _cell, _cell, _cell, _schema, _schema, _beside]
_ACCIDENTS: list[_Change] = [_flip, _cut, _swap]
