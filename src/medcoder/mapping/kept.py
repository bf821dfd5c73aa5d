"""What a project keeps of an answer: candidates in order, and what else the machine says.

Of a cell that is split, the best candidates of its parts come first, in the order of the parts:
they are meant together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from medcoder.mapping.project.records import NOTHING_SAID, Part, Said
from medcoder.types import Answer, Match


class Kept(NamedTuple):
    """An answer as a project has it."""

    candidates: tuple[Match, ...]
    answered: bool  # whether anything is likely enough
    confidence: float  # that all that is meant is right
    review: str = ""  # why a person must look
    said: Said = NOTHING_SAID
    together: int = 1  # candidates that are meant, the first

    def said_entry(self) -> dict[str, Any]:
        """What is said, as JSON has it; what is empty is left out."""
        entry = self.said._asdict() | {"parts": [part._asdict() for part in self.said.parts]}
        return {name: value for name, value in entry.items() if value}


def kept(answer: Answer) -> Kept:
    """What is kept of an answer."""
    if answer.parts:
        return _split(answer)
    said = Said(answer.reason, answer.steps)
    return Kept(answer.candidates, bool(answer.matches), answer.confidence, answer.review, said)


def _split(answer: Answer) -> Kept:
    """A cell of several things. What is not there has no target, and needs none."""
    parts = [_part(part) for part in answer.parts]
    offered = [
        (part, [replace(match, span=part.span) for match in some.candidates])
        for part, some in zip(parts, answer.parts, strict=True)
    ]
    meant = [some for part, some in offered if some and _is_meant(part)]
    rest = [some for part, some in offered if some and not _is_meant(part)]
    best = [some[0] for some in meant]
    others = [match for some in meant for match in some[1:]]
    candidates = [*best, *others, *(match for some in rest for match in some)]
    return Kept(
        candidates=tuple(candidates),
        answered=bool(best),
        confidence=min((match.confidence for match in best or candidates[:1]), default=0.0),
        review=answer.review or _unanswered(parts),
        said=Said(answer.reason, answer.steps, tuple(parts)),
        together=max(len(best), 1),
    )


def _part(answer: Answer) -> Part:
    assert answer.span is not None
    return Part(
        answer.span, answer.query, answer.status, answer.reason, answer.review,
        answer.confidence, len(answer.candidates),
    )  # fmt: skip


def _is_meant(part: Part) -> bool:
    return part.status != "none"


def _unanswered(parts: Sequence[Part]) -> str:
    """Why a person must look at a cell of which the machine does not know a part."""
    unknown = [part.text for part in parts if part.status == "none" and not part.negated]
    return f"no match for {', '.join(map(repr, unknown))}" if unknown else ""
