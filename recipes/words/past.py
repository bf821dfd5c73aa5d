"""Make the table of where ICD-10-CM puts what was: src/medcoder/bundled/past.tsv.

python recipes/words/past.py OUT

The notes are those of the package simple-icd-10-cm, which medcoder installs (ICD-10-CM, April 2026,
in the public domain).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import simple_icd_10_cm as icd

SAYS = re.compile(r"(Personal|Family) history")
CLASSIFIABLE = re.compile(r"(?i)conditions? classifiable (?:elsewhere )?(?:to|in) (.+)")
CODE = re.compile(r"[A-Z]\d[0-9A-Z](?:\.[0-9A-Z]+)?")


def notes() -> Iterator[tuple[str, str, str, str]]:
    """A code, of what it is (history, family), and a range of codes."""
    for code in icd.get_all_codes(True):
        says = SAYS.match(icd.get_description(code))
        if not says:
            continue
        decides = {"Personal": "history", "Family": "family"}[says[1]]
        for note in (*icd.get_inclusion_term(code), *icd.get_includes(code)):
            if classifiable := CLASSIFIABLE.fullmatch(note.strip()):
                for part in re.split(r"[,;]|\band\b", classifiable[1]):
                    ends = CODE.findall(part)
                    if ends:
                        yield code, decides, ends[0], ends[-1]


def table() -> str:
    lines = ["code\tdecides\tfirst\tlast", *("\t".join(row) for row in sorted(set(notes())))]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.parse_args().out.write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
