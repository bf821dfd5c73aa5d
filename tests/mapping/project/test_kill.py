"""kill -9 in the middle of mapping and of review: the file stays whole, and no decision is lost."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from medcoder.mapping import Project, map_table
from support.maps import FakeMapper

KILLS = 3
TEXTS = ("heart attack", "MI", "fever", "cold", "puzzle", "cefalea")
ROWS = 600

MAP = """
    import sys, time
    from support.maps import FakeMapper
    from medcoder.mapping import batch, lookup, map_table

    batch._BATCH, lookup._BATCH = 20, 5

    class Slow(FakeMapper):
        def _answers(self, *rest):
            time.sleep(0.002)
            return super()._answers(*rest)

    def tell(what, done, total):
        print(what, done, flush=True)

    map_table(sys.argv[1], column="text", code="id", out=sys.argv[2], normalizer=Slow(),
              progress=tell)
"""
DECIDE = """
    import sys, time
    from medcoder.mapping import Project

    with Project.open(sys.argv[1]) as project:
        for step in range(10**6):
            number = step * 7 % int(sys.argv[2]) + 1
            made = project.decide(number, f"C{step % 5 + 1}", who=sys.argv[3], note=str(step))
            print(number, made.version, made.concept, made.note, flush=True)
            time.sleep(0.001)
            if step % 5 == 4:
                undone = project.undo(number, who=sys.argv[3])
                print(number, undone.version, "undone", made.note, flush=True)
"""


def start(script, *arguments):
    folder = Path(__file__).parents[2]
    bare = {name: value for name, value in os.environ.items() if not name.startswith("MEDCODER_")}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE, env=bare | {"PYTHONPATH": str(folder)}, text=True,
    )  # fmt: skip


def kill_after(child, lines, pause):
    """What it said until it was killed, a while after it said so many lines; None if it ended."""
    said = []
    for line in child.stdout:
        said.append(line)
        if len(said) == lines:
            time.sleep(pause)
            child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    whole = [line.split() for line in said if line.endswith("\n")]
    if child.returncode == 0:
        return None
    assert child.returncode == -signal.SIGKILL
    return whole


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "t.csv"
    lines = [f"{number % 300},{TEXTS[number % 6]} {number % 50}" for number in range(ROWS)]
    file.write_text("id,text\n" + "\n".join(lines) + "\n")
    return file


def test_mapping_goes_on_after_every_kill(table, tmp_path):
    draw = random.Random(3)
    out = tmp_path / "out"
    for _ in range(KILLS):
        child = start(MAP, table, out)
        said = kill_after(child, draw.randint(1, 14), draw.random() / 200)
        if said is None:
            break
        with Project.open(out) as project:
            project.verify()
            read = max((int(done) for what, done in said if what == "reading"), default=0)
            numbers = [mapping.row.number for mapping in project.mappings()]
            assert len(numbers) >= read
            assert numbers == list(range(1, len(numbers) + 1))
            assert not project.meta["complete"]
            mapped = max((int(done) for what, done in said if what == "mapping"), default=0)
            query = "SELECT count(*) FROM strings WHERE mapped = 1"
            assert project.base.execute(query).fetchone()[0] >= mapped
            assert not (out / "mapped.csv").exists()
            if len(numbers) > 7 and not project.mapping(7).decision:
                project.decide(7, "C5", who="ann")  # review may begin before the end
    made = map_table(table, column="text", code="id", out=out, normalizer=FakeMapper())
    other = map_table(table, column="text", code="id", out=tmp_path / "o", normalizer=FakeMapper())
    with made.project() as project, other.project() as whole:
        if project.mapping(7).decision:
            project.undo(7, who="ann")
        kept = [(one.row, one.status, one.candidates) for one in project.mappings()]
        assert kept == [(one.row, one.status, one.candidates) for one in whole.mappings()]
        assert len(kept) == ROWS


def test_no_acknowledged_decision_is_lost(table, tmp_path):
    draw = random.Random(4)
    out = tmp_path / "out"
    map_table(table, column="text", code="id", out=out, normalizer=FakeMapper())
    promised = []
    for attempt in range(KILLS):
        people = [start(DECIDE, out, 20, f"{who}{attempt}") for who in ("ann", "bob")]
        lines = draw.randint(1, 25)
        promised += kill_after(people[0], lines, 0)
        promised += kill_after(people[1], 1, draw.random() / 100)
        with Project.open(out) as project:
            project.verify()
            found = {(one.row, one.version): one for one in project.history()}
            assert len(found) == len(list(project.history()))
            firsts = {number: project.mapping(number).row.number for number in range(1, 21)}
            for number, version, concept, note in promised:
                term = firsts[int(number)]
                event = found[term, int(version)]
                if concept == "undone":
                    assert event.action == "undo"
                else:
                    assert (event.decision.concept, event.note) == (concept, note)
            # What stands is what the last event of each term says.
            last = {one.row: one for one in project.history()}
            for mapping in project.terms():
                event = last.get(mapping.row.number)
                assert mapping.version == (event.version if event else 0)
                stands = event.decision if event else None
                assert (mapping.decision and mapping.decision.concept) == (
                    stands and stands.concept
                )
    assert len(promised) >= KILLS
