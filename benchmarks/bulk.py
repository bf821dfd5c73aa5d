"""What a string costs in bulk and alone, against another checkout, and when the first one is done.

python benchmarks/bulk.py BEFORE [--strings 3000] [--times 3]

BEFORE is the root of another checkout, such as the version before; both run with this interpreter,
one after the other, several times, each in a process of its own with a home of its own. The column
is a third ward strings of data/eval/dev, a third phrases of data/train/lay, a third names of the
bundled graph, all different. The fastest run of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("en", "de", "es", "fr", "nl")
CHILD = """
import json, sys, time
from medcoder import Normalizer
texts = json.load(sys.stdin)
start = time.perf_counter()
normalizer = Normalizer.load()
normalizer.normalize("a first string")
first = time.perf_counter() - start
list(normalizer.normalize_many(texts[:300]))
found = {}
for name, some in (("bulk", texts[300:]), ("one by one", texts[:300])):
    some = [f"{text} " for text in some]
    wall, busy = time.perf_counter(), time.process_time()
    if name == "bulk":
        list(normalizer.normalize_many(some))
    else:
        for text in some:
            normalizer.normalize(text)
    busy, wall = time.process_time() - busy, time.perf_counter() - wall
    found[f"{name}, ms"] = 1000 * wall / len(some), 1000 * busy / len(some)
print(json.dumps({"first answer, s": (first, first)} | found))
"""


def column(count: int) -> list[str]:
    """The strings, shuffled the same way each time."""
    import random

    from medcoder import KG, bundled_kg

    draw, kg = random.Random(0), KG.open(bundled_kg())
    wards = [
        line.split("\t")[0]
        for language in LANGUAGES
        for line in (ROOT / f"data/eval/dev/ward/{language}.tsv").read_text("utf-8").split("\n")[1:]
    ]
    lay = [
        line.split("\t")[2]
        for language in LANGUAGES
        for line in (ROOT / f"data/train/lay/{language}.tsv").read_text("utf-8").split("\n")[1:-1]
    ]
    names = [kg.terms.text(draw.randrange(len(kg.terms))) for _ in range(count)]
    third = -(-count // 3)
    wards = (wards * (third // len(wards) + 1))[:third]
    some = [f"{text} {n // 700 or ''}".strip() for n, text in enumerate(wards)]
    some += draw.sample(lay, third) + names[:third]
    some = list(dict.fromkeys(text for text in some if text))
    draw.shuffle(some)
    return some


def run(tree: Path, home: Path, texts: list[str]) -> dict[str, list[float]]:
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "MEDCODER_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(texts), env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("--strings", type=int, default=3000)
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    texts = column(asked.strings)
    trees = {"before": asked.before.resolve(), "now": ROOT}
    with tempfile.TemporaryDirectory() as place:
        homes = {name: Path(place) / name for name in trees}
        for name, tree in trees.items():
            run(tree, homes[name], texts[:301])  # builds the index
        rounds = [
            {name: run(tree, homes[name], texts) for name, tree in trees.items()}
            for _ in range(asked.times)
        ]
    sys.stdout.write(f"{len(texts):,} strings, best of {asked.times}\n")
    for what in rounds[0]["now"]:
        for number, unit in enumerate(("by the clock", "of CPU")):
            best = {name: min(one[name][what][number] for one in rounds) for name in trees}
            ratio = best["now"] / best["before"]
            sys.stdout.write(
                f"{what}, {unit}: {best['before']:.3f} before, "
                f"{best['now']:.3f} now, {ratio:.2f}x\n"
            )


if __name__ == "__main__":
    main()
