"""Kill commands at any moment: the next run works by itself, and nothing acknowledged is lost.

A trial is a kill. Some follow each other before a run may finish; what it makes must equal what an
undisturbed run makes, and nothing else may lie beside it.
"""

import queue
import random
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from attack.forks import SERVE, TORCH, Forks
from attack.frame import Attack, Tally
from attack.inputs import make_inputs
from attack.kill_targets import TARGETS, Target

_JOBS = 2


def run(attack: Attack) -> Tally:
    chosen = TARGETS[:1] if attack.small else TARGETS
    given = attack.folder / "given"
    given.mkdir()
    preload = () if attack.small else SERVE
    jobs = 1 if attack.small else attack.jobs or _JOBS
    forks = [Forks(attack, attack.folder / f"job{number}", *preload) for number in range(jobs)]
    # Torch makes a process large, and forking it slow.
    torch = forks[0] if attack.small else Forks(attack, attack.folder / "torch", *TORCH)
    try:
        make_inputs(attack, given, all_of_them=not attack.small)
        waiting: queue.SimpleQueue[tuple[Target, int, int]] = queue.SimpleQueue()
        for target in chosen:
            fork = torch if target.torch else forks[0]
            target.measure(given, attack.folder / f"reference-{target.name}", fork)
            attack.say(f"{target.name}: {target.undisturbed}")
        for planned in _plan(attack.rng, chosen, attack.trials):
            waiting.put(planned)
        lock = threading.Lock()
        threads = [
            threading.Thread(
                target=_work, args=(attack, given, fork, torch, waiting, lock), daemon=True
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


def _plan(
    rng: random.Random, targets: Sequence[Target], kills: int
) -> list[tuple[Target, int, int]]:
    """Target, number and kills of each series, in any order."""
    whole = sum(target.share for target in targets)
    series = []
    for target in targets:
        left = max(1, round(kills * target.share / whole))
        number = 0
        while left > 0:
            now = min(left, rng.randint(1, target.longest))
            series.append((target, number, now))
            left -= now
            number += 1
    rng.shuffle(series)
    return series


def _work(
    attack: Attack,
    given: Path,
    own: Forks,
    torch: Forks,
    waiting: "queue.SimpleQueue[tuple[Target, int, int]]",
    lock: threading.Lock,
) -> None:
    while not attack.over:
        try:
            target, number, kills = waiting.get_nowait()
        except queue.Empty:
            return
        folder = attack.folder / f"{target.name}-{number}"
        rng = random.Random(f"{attack.seed}/{target.name}/{number}")
        folder.mkdir()
        forks = torch if target.torch else own
        with forks.lock:
            wrong = target.series(given, folder, forks, rng, kills)
        with lock:
            before = attack.tally.trials
            attack.tally.trials += kills
            attack.tally.count(target.name, kills)
            for text in wrong:
                attack.tally.fail(f"{target.name} {number}: {text}")
                attack.say(f"FAILED: {target.name} {number}: {text}")
            if before // 50 != attack.tally.trials // 50:
                found = len(attack.tally.failures)
                attack.say(f"{attack.tally.trials} kills, {found} failures")
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
