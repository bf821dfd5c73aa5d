"""Containers that share a volume: builds of one name at once, first uses at once, and kills.

Each process is number 1 of a process namespace of its own, as in containers. A failure is a
directory that is published and does not open or verify, a process that fails without a reason, and
what is left behind after the next run.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from attack.frame import Attack, Skipped, Tally

CONTAINER = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
_TERMS = 20_000
_FIRST_USE = 4  # one trial of so many is a first use, in the full form
_REASONS = ("it exists", "being made already", "another process is making it")
_VERIFY = """
import sys
from pathlib import Path
from medcoder.artefact import verify
from medcoder.kg import KG, KIND
for path in map(Path, sys.argv[1:]):
    verify(path, kind=KIND)
    assert len(KG.open(path).terms) == {terms}, path
"""


def run(attack: Attack) -> Tally:
    if (
        shutil.which("unshare") is None
        or subprocess.run([*CONTAINER, "true"], check=False).returncode
    ):
        raise Skipped("process namespaces cannot be made here")
    table = attack.folder / "terms.csv"
    rows = (f"C{n},term {n} of a list\n" for n in range(_TERMS))
    table.write_text("concept,term\n" + "".join(rows))
    begun = time.monotonic()
    alone = attack.medcoder("kg", "build", f"table={table}", "--out", attack.folder / "alone.kg")
    assert alone.rc == 0, alone.err
    takes = time.monotonic() - begun
    for trial in range(attack.trials):
        if attack.over:
            break
        attack.tally.trials += 1
        if not attack.small and trial % _FIRST_USE == _FIRST_USE - 1:
            _first_use(attack, trial)
        else:
            _build(attack, trial, table, takes)
    return attack.tally


def _build(attack: Attack, trial: int, table: Path, takes: float) -> None:
    """Two or three builds of one name, some of which are killed."""
    folder = attack.folder / f"{trial}"
    folder.mkdir()
    graph = folder / "toy.kg"
    command = ["kg", "build", f"table={table}", "--out", str(graph)]
    overwrite = attack.rng.random() < 0.5
    if overwrite:
        shutil.copytree(attack.folder / "alone.kg", graph)
        command.append("--overwrite")
    ends = _at_once(attack, command, takes)
    wrong = []
    for code, text in ends:
        if code not in (0, None) and not (code == 2 and any(reason in text for reason in _REASONS)):
            wrong.append(f"a build ended with {code}: {text[-300:]}")
    if not any(code in (0, None) for code, _ in ends):
        wrong.append("no build came to its end")
    published = graph.exists()
    if (overwrite or any(code == 0 for code, _ in ends)) and not published:
        wrong.append("there is no graph")
    if published:
        wrong += _unverified(attack, graph)
    attack.tally.count("killed builds", sum(code is None for code, _ in ends))
    after = attack.medcoder("kg", "build", f"table={table}", "--out", graph, "--overwrite")
    if after.rc:
        wrong.append(f"the next build ended with {after.rc}: {after.err[-300:]}")
    else:
        wrong += _unverified(attack, graph)
    _judge(attack, f"build {trial}", wrong, _names(folder) - {"toy.kg"}, folder)


def _first_use(attack: Attack, trial: int) -> None:
    """Two or three first uses of one home, some of which are killed."""
    home = attack.folder / f"{trial}"
    home.mkdir()
    takes = 10.0
    ends = _at_once(attack, ["normalize", "heart attack"], takes, home=home)
    wrong = [
        f"a first use ended with {code}: {text[-300:]}"
        for code, text in ends
        if code not in (0, None)
    ]
    attack.tally.count("killed first uses", sum(code is None for code, _ in ends))
    after = attack.medcoder("normalize", "heart attack", env={"MEDCODER_HOME": str(home)})
    if after.rc or "HP:0001658" not in after.out:
        wrong.append(f"the next use ended with {after.rc}: {after.err[-300:]}")
    hidden = {name for name in _names(home) if name.startswith(".")}
    _judge(attack, f"first use {trial}", wrong, hidden, home)


def _at_once(
    attack: Attack, command: Sequence[str], takes: float, home: Path | None = None
) -> list[tuple[int | None, str]]:
    """Run a command in several containers; exit codes, None for the killed, and what they said."""
    several = attack.rng.choice([2, 2, 3])
    killed = attack.rng.choice([0, 1, 1, several])
    env = attack.environment({"MEDCODER_HOME": str(home)} if home else None)
    started: list[subprocess.Popen[str]] = []
    for _ in range(several):
        if started and attack.rng.random() < 0.7:  # else at the same moment
            time.sleep(attack.rng.uniform(0, takes))
        started.append(
            subprocess.Popen(
                [*CONTAINER, attack.python, "-m", "medcoder", *command],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                encoding="utf-8", errors="replace", env=env, cwd=attack.folder,
            )
        )  # fmt: skip
    begun = time.monotonic()
    moments = sorted(attack.rng.uniform(0, takes) for _ in range(killed))
    attack.rng.shuffle(started)
    ends: list[tuple[int | None, str]] = []
    try:
        for victim, moment in zip(started, moments, strict=False):  # the others live
            with contextlib.suppress(subprocess.TimeoutExpired):
                victim.wait(max(begun + moment - time.monotonic(), 0))
            victim.kill()  # which kills what runs in it
        for process in started:
            _, text = process.communicate(timeout=600)
            ends.append((None if process.returncode < 0 else process.returncode, text))
    finally:
        for process in started:
            process.kill()
            process.wait()
    return ends


def _unverified(attack: Attack, graph: Path) -> list[str]:
    done = attack.code(_VERIFY.replace("{terms}", str(_TERMS)), graph)
    return [f"{graph.name} is damaged: {done.err.strip()[-300:]}"] if done.rc else []


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def _judge(attack: Attack, what: str, wrong: list[str], left: set[str], folder: Path) -> None:
    if left:
        size = sum(file.stat().st_size for file in folder.rglob(".*/**/*") if file.is_file())
        wrong.append(f"left behind, {size / 1e6:.0f} MB: {', '.join(sorted(left))}")
    for text in wrong:
        attack.tally.count(text.split(":")[0].split(",")[0])
    if wrong:
        attack.tally.fail(f"{what}: {'; '.join(wrong)}")
    attack.say(f"{what}: {'; '.join(wrong) or 'fine'}")
    shutil.rmtree(folder)
