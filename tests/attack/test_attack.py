"""CI's form of the attacks: a minute for all of them. `scripts/attack` makes them in full."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attack import frame
from attack.frame import ATTACKS, Attack, Skipped, load

SEED = 17
FRAME = Path(frame.__file__).parent


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """A MEDCODER_HOME in which the bundled index is built."""
    first = Attack("first use", 1, SEED, tmp_path_factory.mktemp("bundled"))
    assert first.medcoder("normalize", "heart attack").rc == 0
    return first.home / "medcoder"


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_finds_nothing(name, tmp_path, request):
    attack = Attack(name, ATTACKS[name].small, SEED, tmp_path, small=True)
    if ATTACKS[name].bundled:
        built = request.getfixturevalue("bundled")
        shutil.copytree(built, attack.home / "medcoder", copy_function=os.link)
    try:
        tally = load(name)(attack)
    except Skipped as skipped:
        pytest.skip(str(skipped))
    finally:
        attack.stop()
    assert tally.failures == []
    assert tally.trials > 0


def test_a_traceback_a_signal_and_an_odd_exit_code_are_wrong(tmp_path):
    attack = Attack("none", 1, SEED, tmp_path)
    assert attack.medcoder("--version").wrong is None
    assert "a traceback: ValueError: x" in attack.code("raise ValueError('x')").wrong
    assert "signal 9" in attack.code("import os; os.kill(os.getpid(), 9)").wrong
    assert "exit code 99" in attack.code("import sys; sys.exit(99)").wrong


def test_the_command_lists_and_refuses():
    def run(*args):
        command = [sys.executable, "-m", "attack", *args]
        return subprocess.run(
            command, cwd=FRAME.parent, capture_output=True, text=True, check=False
        )

    listed = run("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(ATTACKS)
    refused = run("nothing")
    assert (refused.returncode, refused.stdout.split(".")[0]) == (2, "no such attack: nothing")
