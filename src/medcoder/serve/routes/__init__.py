"""Routes: one file for each part of the interface."""

from __future__ import annotations

from fastapi import APIRouter

from medcoder.serve.routes import concepts, export, health, jobs, lookup, reference, review


def routers() -> tuple[APIRouter, ...]:
    """All of them; what exports can be is looked up now."""
    return (
        lookup.router,
        concepts.router,
        jobs.router,
        review.router,
        export.make_router(),
        health.router,
        reference.router,
    )
