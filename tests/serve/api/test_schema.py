"""schemathesis on the description of the interface: replies are as described, whatever is sent."""

import warnings

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from medcoder.serve.settings import Settings
from support.served import made, map_it, running, until

# Where a request that is right in form can be wrong in what it says.
IN_WORDS = (
    "/v1/uploads", "/v1/concept-tables", "/v1/map", "/v1/projects/{project}/terms/{key}/decision",
)  # fmt: skip
EXAMPLES = 5  # of each operation and kind
TRIED = settings(
    max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
    phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.fixture(scope="module")
def described(many_index, tmp_path_factory):
    # An address may be too long before anything in it is looked at: not here.
    app = made(many_index, tmp_path_factory.mktemp("serve"), settings=Settings(url=1 << 20))
    with running(app) as (base, _):
        until(lambda: httpx.get(f"{base}/readyz").status_code == 200)
        with httpx.Client(base_url=base) as rest:
            map_it(rest)
        yield schemathesis.openapi.from_url(f"{base}/openapi.json")


def check(operation, mode):
    """Send what fits the description of an operation, or what does not."""
    excluded = [positive_data_acceptance] if operation.path in IN_WORDS else []

    @TRIED
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case):
        case.call_and_validate(excluded_checks=excluded)

    with warnings.catch_warnings():  # of what it sends, about what it is
        warnings.simplefilter("ignore")
        send()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=str)
def test_replies_are_as_described(described, mode):
    tried = []
    for found in described.get_all_operations():
        operation = found.ok()
        breakable = operation.body or operation.query or operation.path_parameters
        if mode is GenerationMode.POSITIVE or breakable:
            check(operation, mode)
            tried.append(operation.label)
    assert len(tried) > 15
