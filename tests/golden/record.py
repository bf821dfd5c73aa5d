"""Write all golden answers again, from the tree at hand."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import cli_cases
import rest_cases
import strings_cases
from compared import inside, write


def main():
    from medcoder import Normalizer

    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        for name, cases in {
            "cli.jsonl": cli_cases.cases,
            "models.jsonl": cli_cases.model_cases,
            "rest.jsonl": rest_cases.cases,
        }.items():
            folder = Path(place).resolve() / name
            folder.mkdir()
            with inside(folder, home):
                write(name, cases(folder))
        with inside(place, home):
            strings_cases.record(Normalizer.load())


if __name__ == "__main__":
    main()
