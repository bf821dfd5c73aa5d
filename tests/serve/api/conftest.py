"""One application of the small index for the tests of all routes."""

import pytest

from medcoder import Normalizer
from support.served import client, made, map_it


@pytest.fixture(scope="session")
def normalizer(many_index):
    return Normalizer.load(many_index)


@pytest.fixture(scope="session")
def rest(many_index, normalizer, tmp_path_factory):
    app = made(many_index, tmp_path_factory.mktemp("serve"), normalizer=normalizer)
    with client(app) as found:
        yield found


@pytest.fixture
def project(rest):
    return map_it(rest)
