"""A table that the tests of mapping share."""

import pytest

from support.maps import TEXTS, write_rows


@pytest.fixture
def ward(tmp_path):
    rows = [(number, text) for number, text in enumerate(TEXTS, 1)]
    return write_rows(tmp_path / "ward.csv", ["id", "text"], rows)
