"""What tests share: a toy graph, small releases, how hard Hypothesis tries."""

import pytest
from hypothesis import settings

for helper in ("memory", "toy", "releases"):
    pytest.register_assert_rewrite(helper)

from medcoder.ingest import ingest  # noqa: E402
from medcoder.kg import KG  # noqa: E402
from medcoder.sources import open_source  # noqa: E402
from releases import read  # noqa: E402
from toy import toy_source  # noqa: E402

# No test is about time.
settings.register_profile("medcoder", deadline=None)
settings.load_profile("medcoder")


@pytest.fixture(scope="session")
def toy_path(tmp_path_factory):
    """The directory of the toy graph, not to be written to."""
    path = tmp_path_factory.mktemp("toy") / "toy.kg"
    ingest([toy_source()], path)
    return path


@pytest.fixture(scope="session")
def toy_kg(toy_path):
    return KG.open(toy_path)


@pytest.fixture(scope="session")
def open_rows():
    """All rows of the embedded terminology and their tally; reading them takes seconds."""
    return read(open_source("open"))
