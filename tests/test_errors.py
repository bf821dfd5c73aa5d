"""Errors have parts, and print them together."""

import copy
from pathlib import Path

import pytest

from medcoder import errors
from medcoder.errors import InputError, MedcoderError, StaleDecision, UsageError

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MedcoderError)
]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "it is bad"),
        ({"where": "here"}, "here: it is bad"),
        ({"where": Path("a") / "b"}, f"{Path('a') / 'b'}: it is bad"),
        ({"values": "'x'"}, "it is bad: 'x'"),
        ({"values": 0}, "it is bad: 0"),
        ({"values": ["a", 2]}, "it is bad: a, 2"),
        ({"remedy": "Mend it"}, "it is bad. Mend it"),
        ({"where": "here", "values": 7, "remedy": "Mend it"}, "here: it is bad: 7. Mend it"),
    ],
)
def test_parts_print_together(parts, message):
    error = UsageError("it is bad", **parts)
    assert str(error) == message
    assert error.what == "it is bad"
    assert error.remedy == parts.get("remedy") and error.values == parts.get("values")


def test_a_single_message_is_the_what():
    error = UsageError("x exists. Choose another place")
    assert str(error) == error.what == "x exists. Choose another place"
    assert (error.where, error.values, error.remedy) == (None, None, None)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({}, "it is bad. Mend it"),
        ({"file": Path("a.csv")}, "a.csv: it is bad. Mend it"),
        ({"row": 1234}, "row 1,234: it is bad. Mend it"),
        ({"file": "a.csv", "row": 2}, "a.csv, row 2: it is bad. Mend it"),
        ({"file": "a.xlsx", "where": "sheet 'x'", "row": 2}, "a.xlsx, sheet 'x', row 2: it is bad. "
         "Mend it"),
    ],
)  # fmt: skip
def test_bad_data_prints_its_file_and_row_first(place, message):
    error = InputError("it is bad", remedy="Mend it", **place)
    assert str(error) == message
    assert error.what == "it is bad" and error.row == place.get("row")
    assert error.file == (str(place["file"]) if "file" in place else None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_the_same_parts(kind):
    more = {"expected": 1, "found": 2} if kind is StaleDecision else {}
    error = kind("it is bad", where="here", values=3, remedy="Mend it", **more)
    again = copy.copy(error)
    assert type(again) is kind and str(again) == str(error) == "here: it is bad: 3. Mend it"
    assert vars(again) == vars(error)
    assert again.exit_code == error.exit_code
