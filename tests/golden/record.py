"""Write golden answers again, from the tree at hand.

    python tests/golden/record.py cli.jsonl     # these files; without a name, all

Read the difference before you keep it: README.md says which answers changed on purpose.
"""

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

    wanted = sys.argv[1:] or ["cli.jsonl", "models.jsonl", "rest.jsonl", "strings.tsv"]
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        for name, cases in {
            "cli.jsonl": cli_cases.cases,
            "models.jsonl": cli_cases.model_cases,
            "rest.jsonl": rest_cases.cases,
        }.items():
            if name not in wanted:
                continue
            folder = Path(place).resolve() / name
            folder.mkdir()
            with inside(folder, home):
                write(name, cases(folder))
        if "strings.tsv" in wanted:
            with inside(place, home):
                strings_cases.record(Normalizer.load())


if __name__ == "__main__":
    main()
