"""Docstrings as Markdown, for the pages of the Python API.

Examples become blocks of code, and lines such as `path: the file to read` a list of arguments.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)
ARGUMENT = re.compile(r"^(\*{0,2}\w+(?:, \w+)*): (.+(?:\n[ ]+.+)*)", re.MULTILINE)


class Docstrings(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    parts = re.split(rf"({EXAMPLE.pattern})", text, flags=re.MULTILINE)
    return "".join(_example(part) if part.startswith(">>>") else _prose(part) for part in parts)


def _example(text: str) -> str:
    text = re.sub(r"\s*# doctest: \+\w+", "", text)
    return f"\n```pycon\n{text}\n```\n"


def _prose(text: str) -> str:
    """Arguments as a list, those below a line "Args:" too."""
    head, args, tail = text.partition("Args:\n")
    if args:
        block, gap, rest = tail.partition("\n\n")
        tail = re.sub(r"^    ", "", block, flags=re.MULTILINE) + gap + rest
    return _listed(head) + ("\n" if args else "") + _listed(tail)


def _listed(text: str) -> str:
    paragraphs = re.split(r"\n{2,}", text)
    return "\n\n".join(
        ARGUMENT.sub(_argument, paragraph) if ARGUMENT.match(paragraph.strip("\n")) else paragraph
        for paragraph in paragraphs
    )


def _argument(found: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    return f"- {names}: {' '.join(found[2].split())}"
