"""Options read from a signature: their types, ranges and defaults, and errors that name them.

A range is written beside a type, as in `Annotated[float, "above 0"]` or "at least 1". A name out of
a table is `Annotated[str, TABLE]`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from medcoder.errors import UnknownName, UsageError
from medcoder.registry import Registry

Count = Annotated[int, "at least 1"]
Natural = Annotated[int, "at least 0"]
Positive = Annotated[float, "above 0"]
NotNegative = Annotated[float, "at least 0"]


@dataclass(frozen=True)
class Option:
    """A keyword-only argument."""

    hint: Any
    default: Any = None
    required: bool = False


def options_of(made: Callable[..., Any]) -> dict[str, Option]:
    """The keyword-only arguments of a function, or of what makes an object of a class.

    >>> def loss(scores, *, margin: Annotated[float, "above 0"] = 0.5): ...
    >>> options_of(loss)["margin"].default
    0.5
    """
    hints = get_type_hints(made.__init__ if inspect.isclass(made) else made, include_extras=True)
    return {
        name: Option(
            hints.get(name, object),
            None if parameter.default is parameter.empty else parameter.default,
            parameter.default is parameter.empty,
        )
        for name, parameter in inspect.signature(made).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def all_options(table: Registry) -> dict[str, Option]:
    """The options of everything in a table."""
    return {name: option for kind in table for name, option in options_of(table.load(kind)).items()}


def check_options(values: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    for name, value in values.items():
        if name not in known:
            raise UnknownName(
                "no such option here",
                values=name,
                remedy=f"There are: {', '.join(known) or 'none'}",
                message=f"{name} is no option here. There are: {', '.join(known) or 'none'}",
            )
        expect(name, value, known[name].hint)
        _in_range(name, value, known[name].hint, known[name].default)


def check_settings(section: Any) -> None:
    """Types and ranges of all fields of a dataclass; numbers are finite."""
    for name, hint in get_type_hints(type(section), include_extras=True).items():
        value = getattr(section, name)
        expect(name, value, hint)
        _in_range(name, value, hint, type(section).__dataclass_fields__[name].default)


def expect(key: str, value: object, hint: Any, *, origin: str = "") -> None:
    """An error unless the value is of the type; a whole number is a number, a boolean is not."""
    notes: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
    if get_origin(hint) is Literal:
        good, words = value in get_args(hint), f"one of {', '.join(get_args(hint))}"
    elif is_dataclass(hint):
        good, words = type(value) is hint, "a table of settings"
    elif get_origin(hint) is Mapping:
        good, words = isinstance(value, Mapping), "a table of settings"
    elif get_origin(hint) is tuple:
        good = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        words = "a list of strings"
    else:
        types, words = _TYPES.get(hint, ((object,), ""))
        good = type(value) in types or object in types
    if not good:
        raise UsageError(
            f"expected {words}",
            where=f"{origin}{key}",
            values=repr(value),
            message=f"{origin}{key} is {value!r}: expected {words}",
        )
    for table in notes:
        if isinstance(table, Registry) and value not in table:
            try:
                table.load(str(value))
            except UnknownName as error:
                raise UnknownName(
                    error.what,
                    where=f"{origin}{key}",
                    values=error.values,
                    remedy=error.remedy,
                    message=f"{origin}{key}: {error}",
                ) from error


_TYPES: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    str: ((str,), "a string"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


def _in_range(name: str, value: Any, hint: Any, default: Any) -> None:
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if kind not in (int, float):
        return
    good, rule = -math.inf < value < math.inf, "finite"
    for note in notes:
        words, _, limit = note.rpartition(" ")
        good = good and (value > float(limit) if words == "above" else value >= float(limit))
        rule = f"{note} and finite"
    if not good:
        usual = "" if default is None else f". The default is {default}"
        raise UsageError(
            f"it must be {rule}{usual}",
            where=name,
            values=value,
            message=f"{name} is {value}: it must be {rule}{usual}",
        )
