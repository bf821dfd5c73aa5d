"""Tables of alternatives."""

import pytest

from medcoder.errors import MedcoderError, MissingExtra, UnknownName, UsageError
from medcoder.registry import Registry


@pytest.fixture
def shapes():
    entries = {
        "path": "pathlib:PurePath",
        "square": "no_such_module_here:Square",
        "circle": "no_such_module_here:Circle",
        "ours": "medcoder.no_such_module:Ours",
        "typo": "pathlib:NoSuchName",
    }
    return Registry("shape", entries, extras={"circle": "round", "ours": "round"})


def test_a_table_is_a_mapping(shapes):
    assert list(shapes) == ["path", "square", "circle", "ours", "typo"]
    assert len(shapes) == 5
    assert shapes["path"] == "pathlib:PurePath"
    assert "line" not in shapes
    assert shapes.load("path").__name__ == "PurePath"


def test_a_name_that_is_not_there(shapes):
    with pytest.raises(UnknownName, match=r"no shape is called 'sqare'; did you mean 'square'\? "):
        shapes.load("sqare")
    with pytest.raises(UnknownName) as caught:
        shapes.load("xyz")
    assert str(caught.value) == (
        "no shape is called 'xyz'. There are: circle, ours, path, square, typo"
    )


def test_what_was_typed_is_apart(shapes):
    with pytest.raises(UnknownName) as caught:
        shapes.load("sqare")
    error = caught.value
    assert (error.what, error.values) == ("no shape has this name", "'sqare'")
    assert error.remedy == "Did you mean 'square'? There are: circle, ours, path, square, typo"
    with pytest.raises(UnknownName) as caught:
        Registry("shape", {}).load("line")
    assert str(caught.value) == "no shape is called 'line'. There are: none"


def test_one_is_added_at_run_time(shapes):
    shapes.add("text", "string:Template")
    assert shapes.load("text").__name__ == "Template"
    shapes.add("text", "string:Template")  # a notebook runs its cell again
    shapes.add("oval", "no_such_module_here:Oval", extra="round")
    with pytest.raises(MissingExtra, match=r"needs no_such_module_here.*'medcoder\[round\]'"):
        shapes.load("oval")
    assert list(shapes)[-2:] == ["text", "oval"]


def test_what_cannot_be_added(shapes):
    with pytest.raises(UsageError, match="a shape has this name already: 'path'"):
        shapes.add("path", "string:Template")
    for target in ("string", "string:", ":Template"):
        with pytest.raises(UsageError, match="must be written as module:attribute"):
            shapes.add("text", target)


def test_what_an_alternative_needs_is_named(shapes):
    with pytest.raises(MissingExtra, match=r"needs no_such_module_here.*'medcoder\[round\]'"):
        shapes.load("circle")
    for name in ("square", "ours"):  # no extra would help
        with pytest.raises(ModuleNotFoundError):
            shapes.load(name)
    with pytest.raises(AttributeError):
        shapes.load("typo")


def test_unknown_name_is_a_usage_error(shapes):
    with pytest.raises(MedcoderError) as caught:
        shapes.load("xyz")
    assert caught.value.exit_code == 2
