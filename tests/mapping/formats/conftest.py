"""Mapped projects that the tests of formats share."""

import pytest

from support.mapped import OmopMachine, decide, make


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    with decide(make(tmp_path_factory.mktemp("ward"))) as made:
        yield made


@pytest.fixture(scope="module")
def omop(tmp_path_factory):
    with decide(make(tmp_path_factory.mktemp("omop"), machine=OmopMachine())) as made:
        yield made


@pytest.fixture
def fresh(tmp_path):
    with make(tmp_path / "fresh") as project:
        yield project
