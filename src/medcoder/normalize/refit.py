"""Fit the weights and confidences of an index to a user's own graph and strings.

The fit starts from weights that few examples move but a little: those of the index, or those that
come with the package where the index has weights that were fitted to its graph, or by this module,
and so have seen what is to be kept out. Examples are queries drawn from the graph with part of it
hidden, and strings whose concepts are known.

What it gains is measured on what it has not seen. Concepts are in two halves: weights that are
fitted on one are measured on the other, and back. There is a gain if, on all examples, each
counting as in the fit, the mean log loss of the confidence in the best candidate falls by more than
chance would have it, and no fewer are right first but by chance; and if neither becomes worse, but
by chance, on the user's strings alone. Without a gain, nothing is written. With it, weights that
are fitted on both halves are written, with what was reached on the halves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from medcoder.artefact import check_free, create, fingerprint
from medcoder.bundled.models import bundled_weights
from medcoder.errors import ArtefactError, UsageError
from medcoder.normalize.asking import Heard
from medcoder.normalize.build import (
    ENCODER,
    GRAMS,
    KG_PART,
    KIND,
    SEARCH,
    VECTORS,
    VERSION,
    bundled_index,
    calibrated_by,
    link,
    read_calibration,
    weighed_by,
    write_calibration,
)
from medcoder.normalize.calibrate import Calibration, Floats, calibration_error, judge
from medcoder.normalize.choices import leaders
from medcoder.normalize.fitting import Example, fit
from medcoder.normalize.labelled_strings import LabelledString, read_labelled
from medcoder.normalize.normalizer import Normalizer
from medcoder.normalize.stages import calibration_name, stage_sets
from medcoder.types import Progress, silent

YOURS = "yours"  # the kind of the examples that are the user's strings
_DRAWN = 2000  # queries at most: a few hundred strings shall have a say beside them
_DRAWN_COUNTS = 0.3  # of a string
_LEAST = 100  # examples that it takes
_CHANCE = 1.645  # standard errors: a difference beyond is chance in one of twenty cases
_EDGE = 1e-6  # confidences nearer to 0 or 1 count as this near: the log loss has an end
_NO_TERMS = "no.terms.tsv"  # own terms belong to a place, and what they find needs no weights
_KEPT = ("fold", "index", "concepts", "terms", "rows", "width")

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What weights reach on strings that were kept out of their fit."""

    right_first: float | None  # of those that mean something that the graph has
    calibration_error: float
    threshold: float
    answered: float  # at the threshold
    right: float | None  # of the answers; None: there were none
    log_loss: float


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The weights of the index and those fitted, on the same strings."""

    count: int
    before: Reached
    after: Reached


@dataclass(frozen=True, kw_only=True)
class Refit:
    """What came of a fit; `path` is the new index, None if nothing was written."""

    path: Path | None
    reason: str  # why nothing was written
    rows: int  # of the table of strings
    left_out: dict[str, int]  # by reason: which of them no weights decide
    strings: Compared | None  # None: there were none
    drawn: Compared | None

    @property
    def gain(self) -> bool:
        return not self.reason

    def as_dict(self) -> dict[str, Any]:
        path = None if self.path is None else str(self.path)
        return {"gain": self.gain} | asdict(self) | {"path": path}


class _Labelled(NamedTuple):
    example: Example
    of: str  # the concept that it is about

    @property
    def half(self) -> int:
        return crc32(self.of.encode()) % 2


class _Judged(NamedTuple):
    """The best candidate of each example by some weights."""

    confidence: Floats
    right: Flags

    @property
    def losses(self) -> Floats:
        held = np.clip(self.confidence, _EDGE, 1 - _EDGE)
        losses: Floats = -np.log(np.where(self.right, held, 1 - held))
        return losses


class _Fitted(NamedTuple):
    """What a fit to the examples of a set of stages gives."""

    calibration: Calibration
    before: _Judged
    after: _Judged  # by weights that have not seen the concept


def refit(
    index: str | Path | None,
    path: str | Path,
    *,
    strings: Any = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Refit:
    """Fit the weights of an index anew; if that is a gain, write the index with them to `path`.

    index: is left as it is; None is the bundled one
    strings: a table, by its path or as a frame, with the columns `string` and `concept`: see
        `medcoder.normalize.labelled_strings`
    """
    path, report = Path(path).expanduser().absolute(), progress or silent
    source = bundled_index(progress) if index is None else Path(index).expanduser()
    if path.resolve() == source.resolve():
        raise UsageError(
            "it is the index that the fit starts from, which stays as it is",
            where=path,
            remedy="Name another place",
        )
    check_free(path, kind=KIND, overwrite=overwrite)
    normalizer = Normalizer.load(source, terms=source / _NO_TERMS)
    rows = [] if strings is None else read_labelled(strings, normalizer.kg)
    labelled = list(dict.fromkeys(rows))
    main, *others = stage_sets()
    count, done = min(_DRAWN, len(normalizer.kg)), 0
    steps = (count + len(labelled)) * (1 + len(others))

    def step(more: int) -> None:
        nonlocal done
        done += more
        report("fitting", done, steps)

    step(0)
    found, left_out = _collected(normalizer, main, count, labelled, step)
    if len(found) < _LEAST:
        drawn = sum(some.example.kind != YOURS for some in found)
        raise UsageError(
            "there are too few examples to fit to",
            where=normalizer.path,
            values=f"{drawn:,} drawn from the graph and {len(found) - drawn:,} strings",
            remedy=f"It takes {_LEAST:,} together: give more strings with their concepts",
        )
    now, start = normalizer.calibration(main), _start(normalizer)
    fitted = _fitted(found, now, start[calibration_name(main)])
    outcome = Refit(
        path=path,
        reason=_no_gain(found, fitted),
        rows=len(rows),
        left_out={"repeated": len(rows) - len(labelled)} | left_out,
        strings=_compared(found, fitted, now, of_strings=True),
        drawn=_compared(found, fitted, now, of_strings=False),
    )
    if not outcome.gain:
        return replace(outcome, path=None)
    calibrations = {calibration_name(main): fitted.calibration}
    for stages in others:
        name, now = calibration_name(stages), normalizer.calibration(stages)
        found, _ = _collected(normalizer, stages, count, labelled, step)
        # Of few examples, no threshold can be told.
        enough = len(found) >= _LEAST
        calibrations[name] = _fitted(found, now, start[name]).calibration if enough else now
    _write(normalizer, path, calibrations, overwrite=overwrite)
    return outcome


def _start(normalizer: Normalizer) -> Mapping[str, Calibration]:
    """Weights that have not seen the examples, by set of stages."""
    seen = calibrated_by(normalizer.meta) in ("graph", "fitted")
    given, _ = weighed_by(normalizer.path, normalizer.meta)
    _, start = read_calibration(bundled_weights() if seen else given)
    return start


def _collected(
    normalizer: Normalizer,
    stages: Sequence[str],
    count: int,
    labelled: Sequence[LabelledString],
    step: Callable[[int], None],
) -> tuple[list[_Labelled], Counter[str]]:
    """Examples for a set of stages, and the number of strings that are none, by reason."""
    name = normalizer.kg.terms.id
    found = [
        _Labelled(replace(example, counts=_DRAWN_COUNTS), name(query.concept))
        for query, example in normalizer.drawn(count, stages)
        if example is not None
    ]
    step(count)
    left_out: Counter[str] = Counter()
    heard = normalizer.heard([string.text for string in labelled], stages=stages)
    for string, one in zip(labelled, heard, strict=True):
        reason = _undecided(one, string.concepts)
        if reason:
            left_out[reason] += 1
        else:
            about = min(map(name, string.concepts), default=string.text)
            found.append(_Labelled(_example(one, string.concepts), about))
        step(1)
    return found, left_out


def _undecided(heard: Heard, concepts: frozenset[int]) -> str:
    """Why no weights decide what the answer to a string is; "": they do."""
    decides = heard.understood.decides
    if decides == "negated":
        return "negated"
    if decides in ("history", "family") and not concepts:
        return "past or of the family, without a concept"
    if heard.choices is None:
        return "nothing found"
    return "a code" if heard.choices.candidates[0].settled else ""


def _example(heard: Heard, concepts: frozenset[int]) -> Example:
    """A string as an example. A name is right if any concept that is found by it is meant."""
    assert heard.choices is not None
    candidates = heard.choices.candidates
    names = leaders(candidates)
    meant = {
        leader for some, leader in zip(candidates, names, strict=True) if some.concept in concepts
    }
    right = np.array([leader in meant for leader in names], np.bool_)
    return Example(heard.choices, right, YOURS, answerable=bool(concepts))


def _fitted(found: Sequence[_Labelled], now: Calibration, start: Calibration) -> _Fitted:
    examples = [some.example for some in found]
    confidence, right = np.zeros(len(found)), np.zeros(len(found), np.bool_)
    for half in (0, 1):
        weights = fit([some.example for some in found if some.half != half], start=start.weights)
        inside = [position for position, some in enumerate(found) if some.half == half]
        judged = judge(weights, [examples[position] for position in inside])
        confidence[inside], right[inside] = judged
    weights = fit(examples, start=start.weights)
    return _Fitted(
        Calibration.measured(weights, examples, confidence, right),
        _Judged(*judge(now.weights, examples)),
        _Judged(confidence, right),
    )


def _no_gain(found: Sequence[_Labelled], fitted: _Fitted) -> str:
    """Why a fit is no gain on what it has not seen; "": it is one."""
    before, after = fitted.before, fitted.after
    counts = np.array([some.example.counts for some in found])
    losses = counts * (before.losses - after.losses)
    right = counts * (after.right.astype(float) - before.right)
    of = np.unique([some.of for some in found], return_inverse=True)[1]
    if not _more_than_chance(losses, of):
        return "the log loss does not fall by more than chance would have it"
    if _more_than_chance(-right, of):
        return "fewer are right first"
    strings = _are_strings(found)
    if _more_than_chance(-losses[strings], of[strings]):
        return "the log loss of your strings rises"
    if _more_than_chance(-right[strings], of[strings]):
        return "fewer of your strings are right first"
    return ""


def _more_than_chance(gains: Floats, of: npt.NDArray[np.intp]) -> bool:
    """Whether gains are above 0, and not by chance. Those of one concept go together."""
    of_concepts = np.bincount(of, gains)
    return bool(of_concepts.sum() > _CHANCE * np.sqrt((of_concepts**2).sum()))


def _compared(
    found: Sequence[_Labelled], fitted: _Fitted, now: Calibration, *, of_strings: bool
) -> Compared | None:
    inside = np.flatnonzero(_are_strings(found) == of_strings)
    if not len(inside):
        return None
    able = np.array([some.example.answerable for some in found], np.bool_)[inside]

    def reached(judged: _Judged, threshold: float) -> Reached:
        confidence, right = judged.confidence[inside], judged.right[inside]
        answered = confidence >= threshold
        return Reached(
            right_first=_share(right[able]),
            calibration_error=calibration_error(confidence, right),
            threshold=threshold,
            answered=float(answered.mean()),
            right=_share(right[answered]),
            log_loss=float(judged.losses[inside].mean()),
        )

    return Compared(
        count=len(inside),
        before=reached(fitted.before, now.threshold),
        after=reached(fitted.after, fitted.calibration.threshold),
    )


def _are_strings(found: Sequence[_Labelled]) -> Flags:
    return np.array([some.example.kind == YOURS for some in found], np.bool_)


def _share(some: Flags) -> float | None:
    return float(some.mean()) if len(some) else None


def _write(
    normalizer: Normalizer, path: Path, fitted: Mapping[str, Calibration], *, overwrite: bool
) -> None:
    """An index of the parts of another, with other weights and confidences."""
    meta, source = normalizer.meta, normalizer.path
    fusion, _ = read_calibration(weighed_by(source, meta)[0])
    with create(
        path, kind=KIND, version=VERSION, parents=meta["parents"], overwrite=overwrite
    ) as draft:
        for name in (KG_PART, ENCODER, VECTORS, SEARCH, GRAMS):
            link(source / name, draft.path / name)
        write_calibration(draft.path, fusion, fitted)
        if fingerprint(source, kind=KIND) != meta["fingerprint"]:
            raise ArtefactError(
                "it was built again meanwhile", where=source, remedy="Fit to the new one"
            )
        draft.meta |= {name: meta[name] for name in _KEPT}
        draft.meta |= {
            "made_by": f"medcoder {version('medcoder')}",
            "calibrated": "fitted",
        }
