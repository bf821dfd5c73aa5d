"""Write docs/cli.md from the command line itself; a test keeps the two alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer.main

from medcoder.cli import app

OUT = Path(__file__).parent.parent / "docs" / "cli.md"
COMPLETION = ("install_completion", "show_completion")


def plain(text: str | None) -> str:
    """Help without the markup of rich and without the blank lines it needs."""
    return re.sub(r"\[/?(bold|dim)\]", "", text or "").strip()


def prose(text: str | None) -> str:
    """Help as Markdown: a bracket is a bracket, not a link."""
    return re.sub(r"\[(?=,)", r"\\[", plain(text))


def option(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        names = parameter.metavar or str(parameter.name).upper()
    default = parameter.default
    shown = "" if default in (None, False, ()) or callable(default) else f" Default: `{default}`."
    variable = f" The variable `{parameter.envvar}` sets it too." if parameter.envvar else ""
    return f"| `{names}` | {prose(parameter.help)}{shown}{variable} |"


def describe(command: Any, path: str) -> list[str]:
    lines = [f"## `{path}`", "", plain(command.help), ""]
    usage = " ".join(command.collect_usage_pieces(typer.Context(command, info_name=path)))
    lines += ["```", f"{path} {usage}".strip(), "```", ""]
    rows = [option(p) for p in command.params if not p.hidden and p.name not in COMPLETION]
    if rows:
        lines += ["| option | meaning |", "|---|---|", *rows, ""]
    if command.epilog:
        lines += ["```", re.sub(r"\n\s*\n", "\n", plain(command.epilog)), "```", ""]
    for name, child in sorted(getattr(command, "commands", {}).items()):
        lines += describe(child, f"{path} {name}")
    return lines


def render() -> str:
    head = ["# Command line", "", "Made by `scripts/make_cli_docs.py`; do not edit by hand.", ""]
    return "\n".join(head + describe(typer.main.get_command(app), "medcoder")).rstrip() + "\n"


if __name__ == "__main__":
    OUT.write_text(render(), encoding="utf-8")
