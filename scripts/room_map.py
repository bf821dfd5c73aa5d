"""Write the map of the rooms into CONTRIBUTING.md, from the import contract and the docstrings.

python scripts/room_map.py           # writes it
python scripts/room_map.py --check   # exits with 1 if it is not current
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "CONTRIBUTING.md"
START = "<!-- rooms: made by scripts/room_map.py -->"
END = "<!-- end of rooms -->"


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def job(room: str) -> str:
    """The first line of the docstring of a room, without the full stop."""
    path = ROOT / "src" / "medcoder" / room
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].removesuffix(".")


def names(rooms: list[str]) -> str:
    return ", ".join(f"`{room.removeprefix('medcoder.')}`" for room in rooms)


def room_map() -> str:
    """A row for each room, from the top to the floor, and a line for each other contract."""
    lines = ["| room | job | may import |", "|---|---|---|"]
    for contract in contracts():
        if contract["type"] != "layers":
            continue
        layers = [layer.split(" | ") for layer in contract["layers"]]
        for rooms, below in zip(layers, [*layers[1:], []], strict=True):
            below_too = " and what is below" if below and below != layers[-1] else ""
            allowed = f"{names(below)}{below_too}" if below else "-"
            lines += [f"| `{room}` | {job(room)} | {allowed} |" for room in rooms]
    lines.append("")
    for contract in contracts():
        if contract["type"] == "forbidden":
            rooms, banned = names(contract["source_modules"]), names(contract["forbidden_modules"])
            lines.append(f"- {contract['name']}: {rooms} import none of {banned}.")
    return "\n".join(lines)


def current(text: str) -> str:
    """The text of the file with the map as it is now."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise SystemExit(f"{FILE.name} lacks the markers {START} and {END}")
    return f"{before}{start}\n\n{room_map()}\n\n{end}{after}"


def main() -> None:
    text = FILE.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        if current(text) != text:
            raise SystemExit("the map of the rooms is old. Run: python scripts/room_map.py")
    else:
        FILE.write_text(current(text), encoding="utf-8")


if __name__ == "__main__":
    main()
