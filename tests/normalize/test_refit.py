"""An index fitted to a user's strings: what it gains, how that is measured, what is written."""

import errno
import json
import random
import shutil
from dataclasses import replace
from math import sqrt
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder import Normalizer
from medcoder.artefact import META, verify
from medcoder.bundled.models import bundled_weights
from medcoder.errors import ArtefactError, DiskFull, InputError, UsageError
from medcoder.normalize import refit as fitting
from medcoder.normalize.build import KIND, read_calibration
from medcoder.normalize.fitting import Example
from medcoder.normalize.refit import refit
from medcoder.normalize.stages import STAGES, calibration_name, stage_sets
from support.ruled import STRINGS, write_ruled, write_strings
from support.strangers import reseal
from support.terminal import left_in


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """The index to start from, not to be written to nor beside."""
    return write_ruled(tmp_path_factory.mktemp("ruled"))


@pytest.fixture(scope="module")
def strings(tmp_path_factory):
    return write_strings(tmp_path_factory.mktemp("strings") / "strings.csv")


@pytest.fixture(scope="module")
def done(ruled, strings, tmp_path_factory):
    """What a fit gave, and where the new index is."""
    before = _contents(ruled)
    steps = []
    outcome = refit(
        ruled,
        tmp_path_factory.mktemp("fitted") / "new.index",
        strings=strings,
        progress=lambda *step: steps.append(step),
    )
    assert _contents(ruled) == before
    assert steps[0][1] == 0
    assert steps[-1][1] == steps[-1][2]
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    return outcome


def _contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def quick(monkeypatch):
    """No fit, and what each of the parts would give: a gain."""
    monkeypatch.setattr(fitting, "fit", lambda examples, start: start)
    monkeypatch.setattr(fitting, "_no_gain", lambda *_: "")


# What it gains


def test_strings_that_follow_a_rule_are_learnt(done, ruled):
    before, after = done.strings.before, done.strings.after
    assert done.gain
    assert done.strings.count == len(STRINGS)
    assert after.right_first > before.right_first + 0.2
    assert after.log_loss < 0.8 * before.log_loss
    old, new = Normalizer.load(ruled), Normalizer.load(done.path)
    wanted = [concept for _, concept in STRINGS]
    right = [
        sum(
            answer.candidates[0].concept == concept
            for answer, concept in zip(
                some.normalize_many([text for text, _ in STRINGS]), wanted, strict=True
            )
        )
        for some in (old, new)
    ]
    assert right[0] == round(before.right_first * len(STRINGS))
    assert right[1] > right[0] + 0.2 * len(STRINGS)


def test_the_new_index_has_the_parts_of_the_old_one(done, ruled):
    old, new = (json.loads((path / META).read_text()) for path in (ruled, done.path))
    assert {name for name in old if old[name] != new.get(name)} == {
        "calibrated", "files", "fingerprint", "seal",
    }  # fmt: skip
    assert (old["calibrated"], new["calibrated"]) == ("given", "fitted")
    changed = {name for name in old["files"] if old["files"][name] != new["files"][name]}
    assert changed == {"calibration.json"}
    assert old["files"].keys() == new["files"].keys()
    part = "vectors/meta.json"
    assert (ruled / part).stat().st_ino == (done.path / part).stat().st_ino
    verify(done.path, kind=KIND)
    assert left_in(done.path.parent) == ["new.index"]


def test_all_sets_of_stages_are_fitted(done, ruled):
    (fusion, before), (kept, after) = (
        read_calibration(path / "calibration.json") for path in (ruled, done.path)
    )
    assert fusion == kept
    names = [calibration_name(stages) for stages in stage_sets()]
    assert sorted(before) == sorted(after) == sorted(names)
    for name in set(names) - {"exact"}:
        assert before[name].weights != after[name].weights
        assert after[name].queries["yours"] == len(STRINGS)
    # Hardly a string is a name: of so few nothing is told.
    assert before["exact"] == after["exact"]
    main = after[calibration_name(STAGES)]
    assert main.threshold == done.strings.after.threshold
    assert sum(main.queries.values()) == done.strings.count + done.drawn.count


def test_what_is_fitted_already_does_not_gain_again(done, strings, tmp_path):
    """It has seen what would be kept out: the fit starts from weights that have not."""
    assert fitting._start(Normalizer.load(done.path)) == read_calibration(bundled_weights())[1]
    again = refit(done.path, tmp_path / "again.index", strings=strings)
    assert not again.gain
    assert again.path is None
    assert "does not fall by more than chance" in again.reason
    assert again.strings.after.right_first == pytest.approx(done.strings.after.right_first, abs=0.1)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("said", "own"),
    [("bundled", True), ("given", True), ("graph", False), ("embedded graph", True), (None, False)],
)
def test_the_weights_to_start_from(ruled, tmp_path, said, own):
    path = tmp_path / "a.index"
    shutil.copytree(ruled, path)
    file = path / "calibration.json"
    stored = json.loads(file.read_text())
    stored["stages"]["dense"]["weights"]["base"] = 0.25
    file.write_text(json.dumps(stored))
    reseal(path, calibrated=said)
    base = fitting._start(Normalizer.load(path))["dense"].weights.base
    assert (base == 0.25) == own


# What is measured


@pytest.mark.parametrize("seed", range(3))
def test_what_is_measured_was_not_fitted_to(monkeypatch, seed):
    """All of a concept in one half: each is judged by weights that saw the other one alone."""
    names = [f"C{number}" for number in random.Random(seed).choices(range(20), k=60)]
    examples = [Example(None, None, str(number)) for number in range(60)]
    found = [fitting._Labelled(*pair) for pair in zip(examples, names, strict=True)]
    seen = []

    def fit(some, *, start):
        assert start == "start"
        return frozenset(int(example.kind) for example in some)

    def judge(weights, some):
        numbers = [int(example.kind) for example in some]
        seen.append((weights, numbers))
        return np.array(numbers) / 100, np.array(numbers) % 2 == 0

    class Now:
        weights = "now"

    monkeypatch.setattr(fitting, "fit", fit)
    monkeypatch.setattr(fitting, "judge", judge)
    monkeypatch.setattr(fitting.Calibration, "measured", lambda weights, *rest: (weights, *rest))
    start = type("Start", (), {"weights": "start"})
    fitted = fitting._fitted(found, Now, start)
    half = {number: crc32(name.encode()) % 2 for number, name in enumerate(names)}
    measured = {number: weights for weights, numbers in seen if weights != "now"
                for number in numbers}  # fmt: skip
    assert sorted(measured) == list(range(60))
    for number, weights in measured.items():
        assert weights == {other for other in half if half[other] != half[number]}
        assert names[number] not in {names[other] for other in weights}
    expected = [number / 100 for number in range(60)]
    assert fitted.after.confidence.tolist() == fitted.before.confidence.tolist() == expected
    assert fitted.calibration[0] == set(range(60))  # what is written is fitted to all


def _judged(pairs):
    confidence, right = zip(*pairs, strict=True)
    return fitting._Judged(np.array(confidence, float), np.array(right, bool))


def _reason(strings, drawn):
    """Of rows (times, before, after), each a confidence and whether it was right."""
    found, before, after = [], [], []
    for kind, counts, rows in (("yours", 1.0, strings), ("synonym", 0.3, drawn)):
        for times, was, became in rows:
            for _ in range(times):
                found.append(fitting._Labelled(Example(None, None, kind, counts), f"{len(found)}"))
                before.append(was)
                after.append(became)
    return fitting._no_gain(found, fitting._Fitted(None, _judged(before), _judged(after)))


SAME = (100, (0.8, True), (0.8, True))
SURER = (100, (0.6, True), (0.9, True))
LESS_SURE = (30, (0.9, True), (0.5, True))
LOST = (30, (0.6, True), (0.1, False))  # a lower log loss, as it is not believed in
RULES = {
    "better": ([SURER], [SAME], ""),
    "better in what is drawn": ([SAME], [SURER], ""),
    "no strings": ([], [SURER], ""),
    "as before": ([SAME], [SAME], "the log loss does not fall"),
    "worse": ([LESS_SURE], [SAME], "the log loss does not fall"),
    "only two are better": ([SAME, (2, *SURER[1:])], [SAME], "the log loss does not fall"),
    "fewer first": ([LOST], [SURER], "fewer are right first"),
    "fewer strings first": ([LOST], [(300, (0.4, False), (0.9, True))],
                            "fewer of your strings are right first"),
    "strings are less sure": ([LESS_SURE], [SURER] * 3, "the log loss of your strings rises"),
}  # fmt: skip


@pytest.mark.parametrize(("strings", "drawn", "said"), RULES.values(), ids=RULES)
def test_the_rule(strings, drawn, said):
    assert _reason(strings, drawn).startswith(said)
    assert bool(_reason(strings, drawn)) == bool(said)


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 8)), max_size=40),
)
def test_more_than_chance(gains):
    sums = {of: sum(gain for gain, other in gains if other == of) for _, of in gains}
    expected = sum(sums.values()) > 1.645 * sqrt(sum(gain**2 for gain in sums.values()))
    values = np.array([gain for gain, _ in gains], float)
    of = np.array([of for _, of in gains], np.int64)
    total = sum(sums.values())
    if abs(total - 1.645 * sqrt(sum(gain**2 for gain in sums.values()))) > 1e-9:
        assert fitting._more_than_chance(values, of) == expected


def test_many_strings_of_one_concept_are_one_proof():
    gains = np.full(300, 0.5)
    assert fitting._more_than_chance(gains, np.arange(300))
    assert not fitting._more_than_chance(gains, np.zeros(300, np.int64))


def test_figures():
    examples = [Example(None, None, "yours", answerable=able) for able in (1, 1, 1, 0)]
    found = [fitting._Labelled(example, "C") for example in examples]
    now = type("Now", (), {"threshold": 0.5})
    new = type("New", (), {"threshold": 0.85})
    before = _judged([(0.6, True), (0.5, False), (0.1, False), (0.4, False)])
    after = _judged([(0.9, True), (0.8, True), (0.2, False), (0.1, False)])
    fitted = fitting._Fitted(new, before, after)
    assert fitting._compared(found, fitted, now, of_strings=False) is None
    compared = fitting._compared(found, fitted, now, of_strings=True)
    assert compared.count == 4
    assert vars(compared.before) == pytest.approx({
        "right_first": 1 / 3, "calibration_error": (0.4 + 0.5 + 0.1 + 0.4) / 4, "threshold": 0.5,
        "answered": 0.5, "right": 0.5,
        "log_loss": -(np.log(0.6) + np.log(0.5) + np.log(0.9) + np.log(0.6)) / 4,
    })  # fmt: skip
    assert vars(compared.after) == pytest.approx({
        "right_first": 2 / 3, "calibration_error": (0.1 + 0.2 + 0.2 + 0.1) / 4, "threshold": 0.85,
        "answered": 0.25, "right": 1.0,
        "log_loss": -(np.log(0.9) + np.log(0.8) + np.log(0.8) + np.log(0.9)) / 4,
    })  # fmt: skip


def test_rows_are_counted_or_left_out(ruled, tmp_path, quick):
    more = [
        STRINGS[0],  # again
        ("denies heart acute", "L00"),
        ("family history of burn", ""),
        ("family history of heart acute", "L00"),  # this is one
        ("s5", "S05"),
        ("12.5", ""),
        ("n/a", ""),
    ]
    file = write_strings(tmp_path / "a.csv", STRINGS + more)
    outcome = refit(ruled, tmp_path / "a.index", strings=file)
    assert outcome.left_out == {
        "repeated": 1, "negated": 1, "past or of the family, without a concept": 1, "a code": 1,
        "nothing found": 2,
    }  # fmt: skip
    assert outcome.rows == outcome.strings.count + sum(outcome.left_out.values())
    assert outcome.strings.count == len(STRINGS) + 1


def test_a_string_without_a_concept_is_answered_wrongly_by_anything(ruled, tmp_path, quick):
    strings = [(text, "") for text, _ in STRINGS[:40]] + STRINGS[40:]
    outcome = refit(ruled, tmp_path / "a.index", strings=write_strings(tmp_path / "a.csv", strings))
    alone = refit(
        ruled, tmp_path / "b.index", strings=write_strings(tmp_path / "b.csv", STRINGS[40:])
    )
    assert outcome.strings.before.right_first == alone.strings.before.right_first
    assert outcome.strings.count == alone.strings.count + 40
    answered = outcome.strings.before.answered * outcome.strings.count
    right = alone.strings.before.right * alone.strings.before.answered * alone.strings.count
    assert outcome.strings.before.right * answered == pytest.approx(right)


def test_names_that_concepts_share_are_right_for_each(many_index, calibration, tmp_path, quick):
    """As in all of medcoder: which concept of a name is meant, no string can tell."""
    normalizer = Normalizer.load(many_index)
    [one] = normalizer.heard(["cold"])
    for concept in ("C900", "C901", "C902"):
        example = fitting._example(one, frozenset([normalizer.kg.index(concept)]))
        bearers = {
            normalizer.kg.terms.id(some.concept)
            for some, right in zip(one.choices.candidates, example.right, strict=True)
            if right
        }
        assert {"C900", "C901", "C902"} <= bearers
        assert len(bearers) < len(one.choices.candidates)


# What is refused, and what is left


def test_too_few_examples(many_index, tmp_path):
    with pytest.raises(UsageError) as caught:
        refit(many_index, tmp_path / "a.index")
    assert f"{many_index}: there are too few examples to fit to: " in str(caught.value)
    assert "drawn from the graph and 0 strings" in str(caught.value)
    assert str(caught.value).endswith(
        "It takes 100 together: give more strings with their concepts"
    )
    assert left_in(tmp_path) == []


def test_a_bad_row_is_found_before_anything_is_asked(ruled, tmp_path, monkeypatch):
    monkeypatch.setattr(Normalizer, "drawn", lambda *_: pytest.fail("asked"))
    file = write_strings(tmp_path / "a.csv", [*STRINGS, ("unwell", "X1")])
    with pytest.raises(InputError, match=f"row {len(STRINGS) + 2}: no such concept"):
        refit(ruled, tmp_path / "a.index", strings=file)
    assert left_in(tmp_path) == ["a.csv"]


def test_where_it_may_not_be_written(ruled, strings, tmp_path, monkeypatch, quick):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    (tmp_path / "link").symlink_to(ruled)
    path = tmp_path / "a.index"
    refit(ruled, path, strings=strings)
    with monkeypatch.context() as patch:
        patch.setattr(Normalizer, "drawn", lambda *_: pytest.fail("asked"))
        with pytest.raises(UsageError, match=r"a.index: it exists"):
            refit(ruled, path, strings=strings)
        with pytest.raises(ArtefactError, match="mine: it is not an index"):
            refit(ruled, tmp_path / "mine", strings=strings, overwrite=True)
        for same in (ruled, tmp_path / "link", ruled.parent / "." / ruled.name):
            with pytest.raises(UsageError, match="it is the index that the fit starts from"):
                refit(ruled, same, strings=strings, overwrite=True)
        with pytest.raises(ArtefactError, match="it is not an index"):
            refit(tmp_path / "none", tmp_path / "b.index", strings=strings)
    made = path.stat().st_ino
    refit(ruled, path, strings=strings, overwrite=True)
    assert path.stat().st_ino != made
    assert left_in(tmp_path) == ["a.index", "link", "mine"]


@pytest.mark.parametrize(
    ("moment", "error", "raised"),
    [
        ("_fitted", KeyboardInterrupt(), KeyboardInterrupt),
        ("link", KeyboardInterrupt(), KeyboardInterrupt),
        ("write_calibration", KeyboardInterrupt(), KeyboardInterrupt),
        ("write_calibration", OSError(errno.ENOSPC, "No space left on device"), DiskFull),
        ("link", OSError(errno.EDQUOT, "Disk quota exceeded"), DiskFull),
    ],
)
def test_nothing_is_left_of_a_fit_that_stops(
    ruled, strings, tmp_path, monkeypatch, quick, moment, error, raised
):
    def stop(*_, **__):
        raise error

    monkeypatch.setattr(fitting, moment, stop)
    with pytest.raises(raised):
        refit(ruled, tmp_path / "a.index", strings=strings)
    assert left_in(tmp_path) == []


def test_an_index_that_is_built_again_meanwhile(ruled, strings, tmp_path, monkeypatch, quick):
    path = tmp_path / "a.index"
    shutil.copytree(ruled, path)
    write = fitting.write_calibration

    def meanwhile(*arguments):
        (path / "calibration.json").write_text("{}")
        reseal(path)
        write(*arguments)

    monkeypatch.setattr(fitting, "write_calibration", meanwhile)
    with pytest.raises(ArtefactError, match="it was built again meanwhile"):
        refit(path, tmp_path / "b.index", strings=strings)
    assert left_in(tmp_path) == ["a.index"]


def test_own_terms_are_not_looked_at(ruled, strings, tmp_path, quick):
    """They are certain; and they belong to the place of the index, not to the new one."""
    path = tmp_path / "a.index"
    shutil.copytree(ruled, path)
    lines = ["term\tconcept", *(f"{text}\t{concept}" for text, concept in STRINGS)]
    (tmp_path / "a.index.terms.tsv").write_text("\n".join(lines) + "\n")
    assert Normalizer.load(path).normalize(STRINGS[0][0])[0].concept == STRINGS[0][1]
    with_terms = refit(path, tmp_path / "b.index", strings=strings)
    without = refit(ruled, tmp_path / "c.index", strings=strings)
    assert with_terms.strings == without.strings


def test_the_bundled_index_is_that_of_none(ruled, strings, tmp_path, monkeypatch, quick):
    monkeypatch.setattr(fitting, "bundled_index", lambda progress: ruled)
    outcome = refit(None, tmp_path / "a.index", strings=strings)
    assert replace(outcome, path=None) == replace(
        refit(ruled, tmp_path / "b.index", strings=strings), path=None
    )
