"""The rooms: the map of them is current, and the contract names all of them."""

import importlib.util
from pathlib import Path

import pytest

import medcoder

ROOT = Path(__file__).parents[1]
PACKAGE = Path(medcoder.__file__).parent


@pytest.fixture(scope="module")
def rooms():
    """The script that makes the map."""
    spec = importlib.util.spec_from_file_location("room_map", ROOT / "scripts" / "room_map.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_map_of_the_rooms_is_current(rooms):
    text = rooms.FILE.read_text(encoding="utf-8")
    assert rooms.current(text) == text, "run: python scripts/room_map.py"


def test_every_room_has_a_job(rooms):
    [layers] = [entry["layers"] for entry in rooms.contracts() if entry["type"] == "layers"]
    for room in (room for layer in layers for room in layer.split(" | ")):
        assert rooms.job(room), room


def test_the_contract_of_the_graph_names_all_its_modules(rooms):
    [listed] = [
        set(entry["source_modules"]) for entry in rooms.contracts() if "A graph" in entry["name"]
    ]
    files = {f"medcoder.kg.{file.stem}" for file in (PACKAGE / "kg").glob("*.py")}
    assert listed == files - {"medcoder.kg.__init__"} | {"medcoder.kg"}


def test_tables_of_names_point_into_their_own_room(rooms):
    """Importing by string must not be a way around the contract."""
    upward = []
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0]
        for line in file.read_text(encoding="utf-8").splitlines():
            _, quote, rest = line.partition('"medcoder.')
            if quote and ":" in rest.partition('"')[0] and file.parent != PACKAGE:
                target = rest.partition(".")[0].partition(":")[0]
                upward += [f"{file.relative_to(PACKAGE)}: {line.strip()}"] * (target != room)
    assert upward == []
