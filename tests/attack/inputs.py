"""What attacks work on: a release, and by commands of the tree a graph, an index, a project."""

import random
from collections.abc import Sequence
from pathlib import Path

from attack.frame import Attack
from attack.fuzz_cases import omop_release

_SUPPORT = """
import sys, medcoder
from pathlib import Path
tests = Path(medcoder.__file__).parents[2] / "tests"
sys.path.insert(0, str(tests if tests.is_dir() else sys.argv[1]))
"""
_BAG = "from support.bag import write_bag; write_bag(Path(sys.argv[2]), sys.argv[3:])"
_TINY = "from support import tiny; tiny.checkpoint(Path(sys.argv[2]), tiny.bert())"
_TESTS = Path(__file__).parents[1]


def make_bag(attack: Attack, path: Path, words: Sequence[str]) -> None:
    """An encoder of these words, made in a moment."""
    result = attack.code(_SUPPORT + _BAG, _TESTS, path, *words)
    assert result.rc == 0, result


def make_index(attack: Attack, given: Path) -> None:
    """A few concepts of OMOP, so that all formats can be written: small.kg and small.index."""
    make_bag(attack, given / "bag.onnx", ["pain", "ache"])
    (given / "omop").mkdir()
    for name, content in omop_release().items():
        (given / "omop" / name).write_bytes(content)
    kg, model = given / "small.kg", ("--model", given / "bag.onnx")
    result = attack.medcoder("kg", "build", f"omop={given / 'omop'}", "--out", kg)
    assert result.rc == 0, result
    words = ("index", "build", "--kg", kg, *model, "--out", given / "small.index")
    result = attack.medcoder(*words)
    assert result.rc == 0, result


def make_inputs(attack: Attack, given: Path, *, all_of_them: bool) -> None:
    """A release, and by commands of the tree a graph, a model, an index and a project."""
    rng = random.Random(1)
    letters = ("bdfgklmnprst", "aeiou")
    words = ["".join(map(rng.choice, letters * rng.randint(2, 3))) for _ in range(300)]
    _write_release(given / "release", words, rng, concepts=1500)
    _write_release(given / "older", words, rng, concepts=400)
    _write_release(given / "small", words, rng, concepts=120)
    if not all_of_them:
        return

    def made(*args: object) -> None:
        result = attack.medcoder(*args)
        assert result.rc == 0, result

    make_bag(attack, given / "bag.onnx", words)
    result = attack.code(_SUPPORT + _TINY, _TESTS, given / "tiny")
    assert result.rc == 0, result
    made("kg", "build", f"table={given / 'release'}", "--out", given / "large.kg")
    made("kg", "build", f"table={given / 'small'}", "--out", given / "small.kg")
    model = ("--model", given / "bag.onnx")
    made("index", "build", "--kg", given / "small.kg", *model, "--out", given / "small.index")
    rows = [f"{n},{' '.join(rng.sample(words, 2))},{n % 7}" for n in range(1500)]
    (given / "ward.csv").write_text("\n".join(["id,text,n", *rows]) + "\n", encoding="utf-8")
    (given / "few.csv").write_text("\n".join(["id,text,n", *rows[:200]]) + "\n", encoding="utf-8")
    made("map", *_map_few(given), "--out", given / "project")


def _map_few(given: Path) -> tuple[object, ...]:
    columns = ("--column", "text", "--code", "id", "--count", "n")
    return (given / "few.csv", *columns, "--index", given / "small.index")


def _write_release(
    folder: Path, words: Sequence[str], rng: random.Random, *, concepts: int
) -> None:
    ids = [f"C{number:05}" for number in range(concepts)]
    terms = [f"{id},{' '.join(rng.sample(words, 3))},en,T" for id in ids for _ in range(3)]
    edges = [f"{rng.choice(ids)}\tr{rng.randrange(20)}\t{rng.choice(ids)}" for _ in ids * 4]
    folder.mkdir()
    table = "\n".join(["concept,term,language,source", *terms])
    (folder / "terms.csv").write_text(table + "\n", encoding="utf-8")
    table = "\n".join(["head\trelation\ttail", *edges])
    (folder / "relations.tsv").write_text(table + "\n", encoding="utf-8")
