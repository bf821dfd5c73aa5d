"""Projects on which much was decided, by a machine that is as sure as it is told to be."""

import random
from math import exp, log

import pyarrow as pa

from medcoder.mapping import Project
from support.maps import FakeMapper, mapped

# As a project keeps one.
RECALIBRATION = {
    "intercept": -1.0, "slope": 0.9, "who": "ann", "when": "2026-01-02T03:04:05Z",
    "decisions": 300, "right": 200, "log_loss": [0.5, 0.4], "calibration_error": [0.1, 0.05],
    "threshold": [0.9, None],
}  # fmt: skip


def confidences(count, least=0.05, most=0.995):
    """As many confidences, each another, from the least to the most."""
    return [round(least + (most - least) * n / (count - 1), 6) for n in range(count)]


def answers(sure):
    """What strings are answered with: s0, s1, ..., each with its confidence."""
    return {f"s{n}": [("C1", one), ("C2", one / 4)] for n, one in enumerate(sure)}


def is_right(sure, intercept, slope, seed=5):
    """Which first candidates are right, if log-odds are off by two numbers."""
    draw = random.Random(seed)
    chances = [1 / (1 + exp(-intercept - slope * log(one / (1 - one)))) for one in sure]
    return [draw.random() < chance for chance in chances]


def undecided(folder, sure, **options):
    """A project with a string for each of these confidences."""
    source = pa.table({"text": [f"s{n}" for n in range(len(sure))]})
    made = mapped(source, folder, FakeMapper(answers=answers(sure)), **options)
    return Project.open(made.path)


def decide(project, right, *, who="ann", **options):
    """A decision on each of the first strings: its first candidate, another, or no match."""
    with project.transaction():
        for number, accepted in enumerate(right, 1):
            concept = "C1" if accepted else "C2" if number % 2 else None
            project.decide(number, concept, who=who, **options)
    return project


def overconfident(folder, count=400, **options):
    """Its machine is far surer than it should be, which its decisions say; half are undecided."""
    sure = confidences(2 * count)
    sure = sure[::2] + sure[1::2]
    project = undecided(folder, sure, **options)
    return decide(project, is_right(sure[:count], -1.2, 0.8))
