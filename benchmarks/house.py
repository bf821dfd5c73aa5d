"""How large the house is, and how many rooms a job passes through, next to another tree.

    python benchmarks/house.py                      # this tree
    python benchmarks/house.py --against OLD/src    # and an older one, in the same run

A job is run once to build what it needs, then once more with a profiler that notes the files of
medcoder whose functions are called. Times are medians of five fresh processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__)
SRC = HERE.parent.parent / "src"
NAMES = {  # an entry of each table, as it is written in code
    "loss": ("info_nce",),
    "stage": ('"ngram"',),
    "export": ("usagi",),
}
CONSO = "C{0:07}|ENG|P|L1|PF|S1|Y|A{0}||M1|D1|MSH|MH|D1|{1}|0|N|256|\n"
TABLE = "code,diagnosis,n\n1,heart attack,5\n2,back pain,2\n3,hart atack,1\n"
ASK = """
import tempfile, time
from pathlib import Path
from fastapi.testclient import TestClient
from medcoder import Normalizer
from medcoder.serve import make_app
with tempfile.TemporaryDirectory() as folder:
    app = make_app(Normalizer.load, folder=Path(folder))
    with TestClient(app, base_url="http://localhost") as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.1)
        reply = client.post("/v1/normalize", json={"texts": ["heart attack"]})
        assert reply.status_code == 200, reply.text
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="the folder src of another tree")
    parser.add_argument("--job", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        profile(options.job)
        return
    trees = [tree.resolve() for tree in (options.against, SRC) if tree is not None]
    with tempfile.TemporaryDirectory() as scratch:
        for name, *values in rows(trees, Path(scratch)):
            print(f"{name:46}", *(f"{value!s:>10}" for value in values))


def rows(trees: list[Path], scratch: Path) -> Iterator[tuple[object, ...]]:
    sizes = [lines_of(tree) for tree in trees]
    yield "modules", *map(len, sizes)
    yield "lines", *map(sum, sizes)
    yield "median", *map(statistics.median, sizes)
    yield "longest", *map(max, sizes)
    yield "under 60 lines", *(sum(size < 60 for size in some) for some in sizes)
    for noun, words in NAMES.items():
        yield f"files that name one {noun}", *(naming(tree, words) for tree in trees)
    for job in ("normalize", "rrf", "batch", "map", "rest"):
        yield f"files passed: {job}", *(passed(tree, job, scratch) for tree in trees)
    for title, words in (
        ("import medcoder.cli, s", ["-c", "import medcoder.cli"]),
        ("medcoder --help, s", ["-m", "medcoder", "--help"]),
        ("medcoder normalize, s", ["-m", "medcoder", "normalize", "heart attack"]),
    ):
        yield title, *(f"{seconds(tree, words, scratch):.2f}" for tree in trees)


def lines_of(tree: Path) -> list[int]:
    return [len(path.read_text("utf-8").splitlines()) for path in tree.rglob("*.py")]


def naming(tree: Path, words: tuple[str, ...]) -> int:
    return sum(
        any(word in path.read_text("utf-8") for word in words) for path in tree.rglob("*.py")
    )


def environment(tree: Path, scratch: Path) -> dict[str, str]:
    home = scratch / f"home-{abs(hash(tree))}"
    return os.environ | {"PYTHONPATH": str(tree), "MEDCODER_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def seconds(tree: Path, words: list[str], scratch: Path) -> float:
    taken = []
    for _ in range(6):
        start = time.perf_counter()
        run([sys.executable, *words], environment(tree, scratch))
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def passed(tree: Path, job: str, scratch: Path) -> int:
    """Files of the package with a function that the job calls, when all it needs is built."""
    folder = scratch / f"{job}-{abs(hash(tree))}"
    folder.mkdir()
    for attempt in ("first", "second"):
        words = commands(job, folder, attempt)
        done = run([sys.executable, str(HERE), "--job", *words], environment(tree, scratch))
    return len(json.loads(done.splitlines()[-1]))


def commands(job: str, folder: Path, attempt: str) -> list[str]:
    out = str(folder / f"{attempt}.out")
    if job == "normalize":
        return ["normalize", "heart attack"]
    if job == "rest":
        return ["rest"]
    if job == "map":
        (folder / "ward.csv").write_text(TABLE, "utf-8")
        return ["map", str(folder / "ward.csv"), "--column", "diagnosis", "--out", out]
    release = folder / "META"
    release.mkdir(exist_ok=True)
    names = [(number // 2, f"name {number}") for number in range(64)]
    (release / "MRCONSO.RRF").write_text("".join(CONSO.format(*row) for row in names), "utf-8")
    (release / "MRSTY.RRF").write_text(
        "".join(f"C{n:07}|T047|B|Disease|AT1|256|\n" for n in range(32))
    )
    (release / "MRREL.RRF").write_text(
        "".join(
            f"C{n:07}|A1|CUI|PAR|C{(n + 1) % 32:07}|A2|CUI|isa|R{n}||MSH|MSH|||N||\n"
            for n in range(32)
        )
    )
    if job == "rrf":
        return ["kg", "build", f"umls={release}", "--out", out]
    return ["batch", str(release), out]


def profile(words: list[str]) -> None:
    """Run a job in this process; the last line printed is the list of the files it passed."""
    import threading

    import medcoder

    root = str(Path(medcoder.__file__).parent)
    files: set[str] = set()

    def note(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(root) and code.co_name != "<module>":
            files.add(os.path.relpath(code.co_filename, root))

    prepared = prepare(words)
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        prepared()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    print()
    print(json.dumps(sorted(files)))


def prepare(words: list[str]) -> object:
    from medcoder.cli import main as command

    if words[0] == "rest":
        code = compile(ASK, "ask", "exec")
        return lambda: exec(code, {})
    if words[0] == "batch":
        kg, model, out = trained(*words[1:])
        words = ["train", "--kg", kg, "--init", model, "--out", out, *SETTINGS]
    sys.argv = ["medcoder", *words]
    return command


SETTINGS = [
    word
    for setting in ("sampler.k=4", "sampler.m=2", "schedule.total=2", "schedule.warmup=1")
    for word in ("--set", setting)
]


def trained(release: str, out: str) -> tuple[str, str, str]:
    """A tiny graph and a tiny model to train."""
    from transformers import BertConfig, BertModel, BertTokenizer

    model = Path(out).parent / "model"
    kg = Path(out).parent / "kg"
    if not model.exists():
        model.mkdir()
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "name", *map(str, range(64))]
        (model / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
        BertTokenizer(str(model / "vocab.txt")).save_pretrained(model)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        BertModel(BertConfig(vocab_size=len(words), intermediate_size=32, **sizes)).save_pretrained(
            model
        )
        argv = [
            sys.executable,
            "-m",
            "medcoder",
            "kg",
            "build",
            f"umls={release}",
            "--out",
            str(kg),
        ]
        run(argv, dict(os.environ))
    return str(kg), str(model), out


def run(argv: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
