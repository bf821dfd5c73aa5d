"""Arrays and strings on disk."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.arrays import ArrayWriter, Strings, StringWriter, open_array


@given(blocks=st.lists(st.lists(st.text(max_size=5))))
def test_strings_on_disk(tmp_path_factory, blocks):
    folder = tmp_path_factory.mktemp("strings")
    strings = [text for block in blocks for text in block]
    with StringWriter(folder, "s") as file:
        for block in blocks:
            file.append(pa.array(block, pa.large_string()))
    found = Strings(folder, "s")
    assert list(found) == found[:] == found.range(0, len(strings)) == strings
    assert found[1:4] == strings[1:4]
    assert found[::-2] == strings[::-2]
    if strings:
        assert found[-1] == strings[-1]
    for outside in (len(strings), -len(strings) - 1):
        with pytest.raises(IndexError):
            found[outside]


def test_arrays_on_disk_cannot_be_written(tmp_path):
    with ArrayWriter(tmp_path, "a", "int64") as file:
        file.append(np.array([1, -2]))
        file.append(np.array([3]))
    array = open_array(tmp_path, "a", "int64")
    assert array.tolist() == [1, -2, 3]
    assert (tmp_path / "a.int64").stat().st_size == 24
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5
