"""Confidences of a project, fitted anew on what people decided, and how its promise was kept."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from medcoder.mapping import calibrate, undo_calibration
from medcoder.serve.api import STRICT, ProjectId, Who, failures
from medcoder.serve.error_replies import Refused
from medcoder.serve.state import serving

router = APIRouter(prefix="/v1/projects", tags=["review"])
DryRun = Annotated[bool, Field(description="Say what would change, and change nothing.")]


class PromiseOf(BaseModel):
    """Of the automatic mappings that people looked at one by one, how many they found right."""

    promised: Annotated[float | None, Field(description="Precision of automatic mappings.")]
    looked_at: int
    right: int
    share: Annotated[float | None, Field(description="null: nobody looked yet.")]
    low: Annotated[float | None, Field(description="The 95% interval of the share.")]
    high: float | None
    broken: Annotated[bool, Field(description="All of the interval is below what was promised.")]
    warning: Annotated[str, Field(description="What that means, and what to do. Empty if not.")]


class Calibrate(BaseModel):
    """Fit the confidences anew on the decisions, if that is a gain."""

    model_config = STRICT

    who: Annotated[Who, Field(examples=["ann"])]
    dry_run: DryRun = False


class UndoCalibration(BaseModel):
    model_config = STRICT

    dry_run: DryRun = False


class Ends(BaseModel):
    before: float
    after: float


class Thresholds(BaseModel):
    """null: nothing is automatic."""

    before: float | None
    after: float | None


class HeldOutOf(BaseModel):
    """Figures of decisions that the fit has not seen."""

    log_loss: Ends
    calibration_error: Ends


class CountedOf(BaseModel):
    counted: int
    right: Annotated[int, Field(description="Those that chose the first candidate.")]
    left_out: Annotated[
        dict[str, int], Field(description="Decisions that do not count, by why not.")
    ]


class RecalibrationOf(BaseModel):
    """The log-odds of a confidence become the intercept and the slope times as much."""

    intercept: float
    slope: float


class Undecided(BaseModel):
    terms: int
    rows: int


class Effect(BaseModel):
    """What changes of the confidences, and of terms that nobody decided on."""

    changed: bool
    recalibration: Annotated[
        RecalibrationOf | None, Field(description="null: the confidences are the machine's own.")
    ]
    threshold: Thresholds | None
    become_automatic: Undecided | None
    go_to_review: Undecided | None
    automatic: Undecided | None


class Calibrated(Effect):
    gain: bool
    reason: Annotated[str, Field(description="Why there is no gain, in words.")]
    decisions: CountedOf
    held_out: HeldOutOf | None


@router.post("/{project}/calibrate", response_model=Calibrated, responses=failures(404))
def calibrate_project(request: Request, project: ProjectId, asked: Calibrate) -> Any:
    """Fit the confidences anew on what people decided, if that is a gain on held-out decisions."""
    with serving(request).open(project) as opened:
        return calibrate(opened, who=asked.who, dry_run=asked.dry_run)


@router.post("/{project}/calibrate/undo", response_model=Effect, responses=failures(404, 409))
def undo_calibration_of_project(
    request: Request, project: ProjectId, asked: UndoCalibration
) -> Any:
    """Go back to the confidences before the last calibration that stands."""
    with serving(request).open(project) as opened:
        if not opened.meta.get("recalibrations"):
            raise Refused(409, "nothing_to_undo", "there is no calibration to undo")
        return undo_calibration(opened, dry_run=asked.dry_run)
