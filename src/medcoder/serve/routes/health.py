"""For those who run the service: whether it lives, whether it is ready, what it does."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from medcoder.serve.metrics import CONTENT_TYPE
from medcoder.serve.routes.common import failures
from medcoder.serve.shapes.base import Health, Ready
from medcoder.serve.state import serving

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=Health)
async def healthz() -> Any:
    """Whether the process lives."""
    return {"ok": True}


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready}})
async def readyz(request: Request) -> Any:
    """Whether the index is loaded."""
    ready = serving(request).ready
    return JSONResponse({"ready": ready}, 200 if ready else 503)


@router.get(
    "/metrics", response_class=PlainTextResponse, responses={401: failures()[401]}
)  # fmt: skip
async def metrics(request: Request) -> PlainTextResponse:
    """Counts and times in the text format of Prometheus."""
    state = serving(request)
    active = sum(job.active for job in state.jobs.all())
    gauges = {
        "medcoder_ready": float(state.ready),
        "medcoder_waiting_strings": float(state.answers.strings + state.vectors.strings),
        "medcoder_active_jobs": float(active),
    }
    return PlainTextResponse(state.metrics.text(gauges), media_type=CONTENT_TYPE)
