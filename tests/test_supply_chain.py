"""What is installed: bounds, the lock file, the licences and the bill of materials."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKED_EXTRAS = ("serve", "tables")  # as scripts/lock has them


def requirements(names: list[str]) -> list[Requirement]:
    return [entry for entry in map(Requirement, names) if entry.name != "medcoder"]


def load_bill():
    path = ROOT / "scripts" / "bill_of_materials.py"
    spec = importlib.util.spec_from_file_location("bill_of_materials", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BILL = load_bill()
SHIPPED = requirements([*PROJECT["dependencies"], *(n for x in EXTRAS.values() for n in x)])


@pytest.mark.parametrize("requirement", SHIPPED, ids=str)
def test_a_later_release_cannot_change_what_medcoder_does(requirement):
    bounds = {bound.operator for bound in requirement.specifier}
    # packaging only compares versions here, and is not part of what runs.
    assert bounds & {"<", "<=", "==", "~="} or requirement.name == "packaging"


def test_the_lock_holds_every_dependency_within_its_bounds():
    wanted = requirements(
        [*PROJECT["dependencies"], *(name for extra in LOCKED_EXTRAS for name in EXTRAS[extra])]
    )
    pins: dict[str, list[str]] = {}
    for package in BILL.locked():
        pins.setdefault(canonicalize_name(package.name), []).append(package.version)
    for requirement in wanted:
        versions = pins[canonicalize_name(requirement.name)]
        assert all(SpecifierSet(str(requirement.specifier)).contains(v) for v in versions), (
            requirement
        )


def test_every_locked_package_has_the_hashes_of_its_files():
    assert BILL.locked()
    assert [package.name for package in BILL.locked() if not package.hashes] == []


def test_the_lock_names_no_registry():
    assert not re.search(r"://|--index|--find-links", BILL.LOCK.read_text(encoding="utf-8"))


def test_notice_has_the_licence_of_every_locked_package():
    assert set(BILL.licences()) == {package.name for package in BILL.locked()}
    assert "not stated" not in BILL.licences().values()


def test_the_bill_of_materials_is_valid_and_has_all_parts():
    made = BILL.bill()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(made) is None
    for part in ("Human Phenotype Ontology", "ICD-10-CM", "medcoder-all", "onnxruntime"):
        assert f'"name": "{part}"' in made
