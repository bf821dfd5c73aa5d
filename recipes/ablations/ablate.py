"""Train the ablations of the paper, and some of ours, with several seeds, and measure each model.

python recipes/ablations/ablate.py --kg KG --init MINILM --data BENCH --out DIR

A run is a variant and a seed; all have the same graph, start, steps and order of work. Several
train at a time, since one such run leaves most of a large GPU idle. DIR gets a folder a run, which
is not made again, scores.jsonl of all of them, and table.md: mean and spread over the seeds. Rows
are called VARIANT#SEED, which `medcoder bench report DIR` takes for seeds of one model.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from medcoder.evaluate import Score, read_scores, run_benches
from medcoder.evaluate.embeddings import load
from medcoder.evaluate.report import seedless

PAIRS = ("sampler.pairs=1024", "loss.kind=info_nce")
TRANSLATION = (
    "relation.form=translation",
    "relation.mu=0.1",
    "relation.loss.alpha=0.2",
    "relation.loss.beta=5",
    "relation.loss.lam=-7.78",  # minus the mean distance of random pairs of terms under the start
)
VARIANTS: dict[str, tuple[str, ...]] = {
    "full": (),
    "no relation": ("relation.mu=0",),
    "TransE": TRANSLATION,
    "exact labels": ("relation.labels=exact",),
    "[CLS]": ("pooling=cls",),
    "InfoNCE": (*PAIRS, "relation.mu=0"),
    "InfoNCE and relations": PAIRS,
}
BENCHES = ("cadec", "psytar", "umnsrs-sim", "mayosrs", "mcsm_mesh", "relcls_open")
SHOWN = (
    ("cadec", "all", "acc@1"),
    ("cadec", "all", "acc@3"),
    ("psytar", "all", "acc@1"),
    ("psytar", "all", "acc@3"),
    ("umnsrs-sim", "all", "spearman"),
    ("mayosrs", "all", "spearman"),
    ("relcls_open", "frozen", "accuracy"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kg", type=Path, required=True)
    parser.add_argument("--init", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--data", type=Path, required=True, help="folder of the benches")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--at-once", type=int, default=6, help="runs that share the GPU")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    runs = [(name, seed) for seed in range(options.seeds) for name in options.variants]
    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(lambda run: train(*run, options), runs))
    options.out.joinpath("table.md").write_text(table(read_scores(options.out)), encoding="utf-8")


def train(variant: str, seed: int, options: argparse.Namespace) -> None:
    """One run in a process of its own, which measures it too; only then its model is let go."""
    name = f"{variant}#{seed}"
    if any(score.embedding == name for score in read_scores(options.out)):
        return
    folder = options.out / re.sub(r"\W+", "-", name).strip("-")
    settings = {
        "pooling": "mean",
        "seed": seed,
        "optimiser.learning_rate": 1e-4,
        "schedule.warmup": options.steps // 10,
        "schedule.total": options.steps,
        "sampler.languages": '["en"]',
    }
    given = [f"{key}={value}" for key, value in settings.items()] + list(VARIANTS[variant])
    command = [sys.executable, "-m", "medcoder.train", "--kg", options.kg, "--init", options.init]
    command += ["--out", folder, *(part for setting in given for part in ("--set", setting))]
    with options.out.joinpath(f"{folder.name}.log").open("w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log)
    shown = [sys.executable, __file__, "--measure", folder / "model", name]
    subprocess.run([*shown, options.data, options.out], check=True)
    shutil.rmtree(folder / "model")


def measured(model: str, name: str, data: str, out: str) -> None:
    system: Any = load(f"{model},name={name}")
    for done in run_benches(
        [system], BENCHES, Path(data), Path(out), options={"modes": ["frozen"]}
    ):
        print(done.system, done.bench, done.state, flush=True)


def table(scores: list[Score]) -> str:
    """Mean and, after it, the spread: the standard deviation over the seeds."""
    head = [f"{bench} {metric}" for bench, _, metric in SHOWN]
    lines = [["run", "seeds", *head], ["---"] * (len(head) + 2)]
    for variant in VARIANTS:
        mine = [score for score in scores if seedless(score.embedding)[0] == variant]
        if not mine:
            continue
        cells = []
        for key in SHOWN:
            found = [100 * s.value for s in mine if (s.bench, s.split, s.metric) == key]
            spread = f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
            cells.append(f"{statistics.mean(found):.1f}{spread}" if found else "–")
        lines.append([variant, str(len({score.embedding for score in mine})), *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measured(*sys.argv[2:])
    else:
        main()
