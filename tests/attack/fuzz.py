"""Damaged files of every kind: an error with its exit code, or a result that adds up.

Commands read them, and a service that tables are sent to. Never a traceback, a signal, an exit
code that is not documented, more than a minute, more than 2 GB, nor anything left in the folder
after an error.
"""

import csv
import json
import queue
import random
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from attack.forks import TORCH, Forks
from attack.frame import Attack, Result, Tally
from attack.fuzz_cases import UPLOAD, Case, cases
from attack.inputs import make_inputs
from attack.mutations import mutated
from attack.uploads import Service

_JOBS = 2
_SECONDS = 60.0
_MEMORY = 2 << 30


def run(attack: Attack) -> Tally:
    given = attack.folder / "given"
    given.mkdir()
    jobs = 1 if attack.small else attack.jobs or _JOBS
    forks = [
        Forks(attack, attack.folder / f"job{number}", patience=_SECONDS) for number in range(jobs)
    ]
    # Torch makes a process large, and forking it slow.
    torch = forks[0]
    if not attack.small:
        torch = Forks(attack, attack.folder / "torch", *TORCH, patience=_SECONDS)
    try:
        make_inputs(attack, given, all_of_them=not attack.small)
        texts = ["heart attack"] * 20
        if not attack.small:
            with (given / "few.csv").open(encoding="utf-8") as stream:
                texts = [row["text"] for row in csv.DictReader(stream)]
        chosen = [
            case for case in cases(given / "cases", texts) if not (attack.small and case.full)
        ]
        service = None if attack.small else Service(attack, given / "small.index")
        for case in chosen:  # undamaged, all of them are read
            if case.name.startswith(UPLOAD):
                continue
            fork = torch if case.torch else forks[0]
            result, wrong = _trial(case, given, attack.folder / f"whole-{case.name}", fork, None)
            assert result.rc in (0, 1) and not wrong, (case.name, wrong, result)
        waiting: queue.SimpleQueue[tuple[Case, int]] = queue.SimpleQueue()
        shares = [case.share for case in chosen]
        for number, case in enumerate(attack.rng.choices(chosen, shares, k=attack.trials)):
            waiting.put((case, number))
        lock = threading.Lock()
        threads = [
            threading.Thread(
                target=_work,
                args=(attack, chosen, given, fork, torch, service, waiting, lock),
                daemon=True,
            )
            for fork in forks
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # so that an interrupt comes through
                thread.join(0.5)
    finally:
        for fork in {*forks, torch}:
            fork.close()
    return attack.tally


def _work(
    attack: Attack,
    chosen: Sequence[Case],
    given: Path,
    own: Forks,
    torch: Forks,
    service: Service | None,
    waiting: "queue.SimpleQueue[tuple[Case, int]]",
    lock: threading.Lock,
) -> None:
    tally = attack.tally
    while not attack.over:
        try:
            case, number = waiting.get_nowait()
        except queue.Empty:
            return
        rng = random.Random(f"{attack.seed}/{number}")
        folder = attack.folder / f"{number}-{case.name}"
        name = rng.choice(case.damaged or tuple(case.files))
        other = rng.choice(tuple(rng.choice(chosen).files.values()))
        content, said = mutated(case.files[name], rng, other, name)
        forks = torch if case.torch else own
        if service is not None and case.name.startswith(UPLOAD):
            with service.lock:
                taken, wrong = service.send(name, content)
        else:
            with forks.lock:
                result, wrong = _trial(case, given, folder, forks, (name, content))
            taken = result.rc == 0
        with lock:
            tally.trials += 1
            tally.count("read" if taken else "refused")
            for text in wrong:
                tally.fail(f"{number} {case.name}, {name} ({said}): {text}")
                attack.say(f"FAILED: {number} {case.name}, {name} ({said}): {text}")
            if tally.trials % 100 == 0:
                attack.say(f"{tally.trials} files, {len(tally.failures)} failures")
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)


def _trial(
    case: Case, given: Path, folder: Path, forks: Forks, damage: tuple[str, bytes] | None
) -> tuple[Result, list[str]]:
    files, out = folder / "files", folder / "out"
    files.mkdir(parents=True)
    out.mkdir()
    for name, content in case.files.items():
        (files / name).write_bytes(damage[1] if damage and damage[0] == name else content)
    for name in case.links:
        shutil.copytree(given / name, out / name)
    process = forks.start(*case.command(files, out, given))
    result = process.result()
    wrong = [result.wrong]
    if result.rc == 124:
        wrong = [f"it takes more than {_SECONDS:.0f} s"]
    if process.memory > _MEMORY:
        wrong.append(f"it takes {process.memory / 1e9:.1f} GB")
    left = {path.name for path in out.iterdir()} - {*case.leaves}
    if result.rc not in (0, 124) and any(
        name.endswith((".kg", ".npy", ".partial")) for name in left
    ):
        wrong.append(f"left behind after an error: {sorted(left)}")
    if result.rc == 0:
        wrong.append(_sum(result.out))
    elif result.rc > 0 and not (result.err + result.out).strip():
        wrong.append(f"exit code {result.rc} without a word")
    return result, [text for text in wrong if text]


def _sum(printed: str) -> str | None:
    """What does not add up in a report."""
    try:
        report = json.loads(printed)
    except ValueError:
        return None
    if not isinstance(report, dict):
        return None
    for part in ("files", "graph"):
        for name, count in report.get(part, {}).items():
            if isinstance(count, dict) and "read" in count:
                left = sum(count["left_out"].values())
                if count["read"] != count["kept"] + left:
                    return f"rows of {name} do not add up: {count}"
    if "counts" in report and "meta" in report:
        rows = sum(count["rows"] for count in report["counts"].values())
        if rows != report["meta"]["rows"]:
            return f"{rows} rows of {report['meta']['rows']} have a status"
    return None
