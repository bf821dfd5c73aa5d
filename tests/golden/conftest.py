"""One home for the embedded index, shared by all that need it."""

import os

import pytest


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    # Processes of one run share the folder above theirs.
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "golden-home"
