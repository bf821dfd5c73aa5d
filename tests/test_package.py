"""The public names of the package."""

import subprocess
import sys

import pytest

import medcoder


def test_exported_names():
    assert medcoder.__all__ == ["KG", "__version__", "default_kg", "ingest", "open_source"]
    assert all(getattr(medcoder, name) for name in medcoder.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = medcoder.nothing


@pytest.mark.parametrize(
    "before",
    ["", "import medcoder.cli", "from medcoder import default_kg", "import medcoder.ingest"],
)
def test_ingest_is_the_function_whatever_was_imported_before(before):
    code = f"{before}\nfrom medcoder import ingest\nprint(type(ingest).__name__, ingest.__name__)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "function ingest\n"
