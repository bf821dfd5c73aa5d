"""Commands that measure and train answer as they were recorded."""

import cli_cases
import pytest
from compared import check, inside, read

RECORDED = read("models.jsonl")


@pytest.fixture(scope="module")
def found(tmp_path_factory, home):
    folder = tmp_path_factory.mktemp("models").resolve()
    with inside(folder, home):
        return cli_cases.model_cases(folder)


@pytest.mark.parametrize("case", RECORDED)
def test_case(case, found):
    check(case, RECORDED, found)


def test_no_case_is_without_a_record(found):
    assert sorted(found) == sorted(RECORDED)
