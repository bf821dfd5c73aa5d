"""An example of each operation: as it stands it works, with what this service holds.

Where a token is asked for, ids of projects, jobs and uploads are no real ones.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from medcoder.serve.state import Serving

_NONE = "0" * 32  # the id of no upload and of no job
_QUERIES: dict[str, dict[str, str]] = {
    "/v1/search": {"q": "heart attack", "top": "5"},
    "/v1/concepts/{id}/neighbours": {"top": "10"},
    "/v1/projects/{project}/terms": {"status": "review", "sort": "doubt", "limit": "20"},
    "/v1/projects/{project}/changes": {"since": "0"},
}
TABLE = "id,text\n1,heart attack\n2,fiebre\n"  # that an upload may hold
_FILES = {"/v1/uploads": "ward.csv", "/v1/concept-tables": "CONCEPT.csv"}


class Example(NamedTuple):
    """A request."""

    method: str
    path: str  # with its values and its query
    body: dict[str, Any] | None = None
    file: str = ""  # that is sent; ward.csv holds TABLE

    def curl(self, base: str, *, token: bool) -> str:
        """As a command."""
        words = ["curl"] + ([] if self.method == "GET" else ["-X", self.method])
        if token:
            words += ["-H", "Authorization: Bearer TOKEN"]
        if self.body is not None:
            said = json.dumps(self.body, ensure_ascii=False)
            words += ["-H", "Content-Type: application/json", "-d", said]
        if self.file:
            words += ["-F", f"file=@{self.file}"]
        return shlex.join([*words, base + self.path])


def example(state: Serving, method: str, route: str) -> Example:
    """The example of an operation."""
    values = _values(state)
    path = route
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    if route.startswith("/v1/jobs/"):
        path = route.replace("{id}", values["job"])
    if route in _QUERIES:
        path += f"?{urlencode(_QUERIES[route])}"
    body = _bodies(values).get(route) if method == "POST" else None
    return Example(method, path, body, _FILES.get(route, ""))


def _values(state: Serving) -> dict[str, str]:
    projects, jobs, upload = list(state.projects()), state.jobs.all(), state.uploads.last()
    if state.settings.token is not None:  # the page that shows them asks for none
        projects, jobs, upload = [], [], None
    return {
        "id": _concept(state),
        "project": projects[0] if projects else "ward",
        "key": "1",
        "format": "sssom",
        "job": jobs[0].id if jobs else _NONE,
        "upload": upload or _NONE,
    }


def _concept(state: Serving) -> str:
    if not state.ready:
        return "HP:0001658"
    kg = state.normalizer.kg
    found = kg.find("heart attack")
    return found[0] if found else kg.terms.id(0)


def _bodies(values: dict[str, str]) -> dict[str, dict[str, Any]]:
    decision = {"concept": values["id"], "who": "ann", "note": "as on the chart"}
    return {
        "/v1/normalize": {"texts": ["heart attack", "fiebre"], "top": 3},
        "/v1/embed": {"texts": ["heart attack"]},
        "/v1/map": {"upload": values["upload"], "column": "text", "code": "id"},
        "/v1/projects/{project}/terms/{key}/decision": decision,
        "/v1/projects/{project}/terms/{key}/undo": {"who": "ann"},
        "/v1/projects/{project}/undo": {"who": "ann"},
        "/v1/projects/{project}/accept": {"who": "ann", "precision": 0.98, "only_count": True},
    }
