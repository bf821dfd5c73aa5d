"""For those who run the service: whether it lives, whether it is ready, what it does."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel

from medcoder.serve.api import failures
from medcoder.serve.metrics import CONTENT_TYPE
from medcoder.serve.state import serving

router = APIRouter(tags=["health"])


class Health(BaseModel):
    ok: bool


class Ready(BaseModel):
    ready: bool


@router.get("/healthz", response_model=Health)
async def healthz() -> Any:
    """Whether the process lives."""
    return {"ok": True}


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready}})
async def readyz(request: Request) -> Any:
    """Whether the index is loaded."""
    ready = serving(request).ready
    return JSONResponse({"ready": ready}, 200 if ready else 503)


@router.get("/metrics", response_class=PlainTextResponse, responses={401: failures()[401]})
async def metrics(request: Request) -> PlainTextResponse:
    """Counts and times in the text format of Prometheus."""
    state = serving(request)
    active = sum(job.active for job in state.jobs.all())
    strings = state.answers.strings + state.vectors.strings
    gauges = {
        "medcoder_ready": ("Whether the index is loaded.", float(state.ready)),
        "medcoder_waiting_strings": ("Strings that wait or are looked up.", float(strings)),
        "medcoder_active_jobs": ("Tables that wait or are being mapped.", float(active)),
    }
    return PlainTextResponse(state.metrics.text(gauges), media_type=CONTENT_TYPE)
