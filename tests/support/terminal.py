"""The command line as tests run it, and releases small enough to write down."""

import json
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from medcoder.cli import app

LONG = "very " * 400 + "long name"
# Names that a careless terminal would garble.
NAMES = {
    "C0000001": "[D]Headache",
    "C0000002": "[/red] rash [b]bold[/b]",
    "C0000003": ":smile: face",
    "C0000004": "\U0001f912 fever \U0001f468\u200d\u2695\ufe0f",
    "C0000005": "\u05db\u05d0\u05d1 \u05e8\u05d0\u05e9",
    "C0000006": LONG,
    "C0000007": "red \x1b[31mletters",
}


def medcoder(*arguments, env=None):
    """Run a command in this process; an error that is not ours is an error of the test."""
    words = [str(word) for word in arguments]
    return CliRunner().invoke(app, words, env=env, catch_exceptions=False)


def as_json(*arguments, code=0):
    result = medcoder(*arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def process(*arguments, **options):
    """Run a command in a process of its own."""
    start = command(*arguments, **options)
    return subprocess.run(**start, capture_output=True, timeout=60, check=False)


def command(*arguments, env=None, **options):
    """What `subprocess` needs to start a command."""
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("MEDCODER_", "COLUMNS"))}
    words = [sys.executable, "-m", "medcoder", *map(str, arguments)]
    return {"args": words, "env": bare | {"PYTHONUTF8": "1"} | (env or {}), **options}


def conso(cui, text, *, language="ENG", sab="MSH", code=None, suppress="N", tty="PT"):
    fields = [cui, language, "P", "L1", "PF", "S1", "Y", "A1", "", "", "", sab, tty]
    return "|".join([*fields, code or f"D{cui[1:]}", text, "0", suppress, "", ""])


def rel(first, rela, second, *, suppress="N"):
    fields = [first, "A1", "CUI", "RO", second, "A2", "CUI", rela, "R1", "", "MSH", "MSH"]
    return "|".join([*fields, "", "Y", suppress, "", ""])


def write_umls(folder, *, terms=(), relations=(), types=()):
    """A release of the concepts in NAMES, and what is given besides."""
    rows = [conso(cui, text) for cui, text in NAMES.items()]
    rows.append(conso("C0000001", "Dolor de cabeza", language="SPA"))
    rows.append(conso("C0000001", "old headache", suppress="O"))
    links = [rel("C0000001", "isa", "C0000002"), rel("C0000003", "", "C0000001")]
    links += [rel("C0000001", "isa", "C9999999"), rel("C0000002", "isa", "C0000002")]
    kinds = ["C0000001|T184|A2.2.2|Sign or Symptom|AT1||", "C0000002|T033|A2.2|Finding|AT2||"]
    folder.mkdir(parents=True, exist_ok=True)
    files = {"MRCONSO": [*rows, *terms], "MRREL": [*links, *relations], "MRSTY": [*kinds, *types]}
    for name, lines in files.items():
        (folder / f"{name}.RRF").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return folder


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def left_in(folder):
    """What is in a folder, hidden names too."""
    return sorted(path.name for path in folder.iterdir())
