"""Routes: one file for each part of the interface."""

from __future__ import annotations

from medcoder.serve.routes import concepts, export, health, jobs, lookup, reference, review

ROUTERS = (
    lookup.router,
    concepts.router,
    jobs.router,
    review.router,
    export.router,
    health.router,
    reference.router,
)
