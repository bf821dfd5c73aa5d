"""The web application answers as it was recorded."""

import re

import pytest
import rest_cases
from compared import check, inside, read

RECORDED = read("rest.jsonl")


@pytest.fixture(scope="module")
def found(tmp_path_factory, home):
    folder = tmp_path_factory.mktemp("rest").resolve()
    with inside(folder, home):
        return rest_cases.cases(folder)


@pytest.mark.parametrize("case", RECORDED)
def test_case(case, found):
    check(case, RECORDED, found)


def test_no_case_is_without_a_record(found):
    assert sorted(found) == sorted(RECORDED)


def test_every_route_is_asked(found):
    asked = {one["asked"] for one in found.values()}
    for path, methods in found["GET /openapi.json"]["body"]["paths"].items():
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))
        for method in methods:
            wanted = re.compile(f"{method.upper()} {pattern}")
            assert any(map(wanted.fullmatch, asked)), f"{method} {path}"
