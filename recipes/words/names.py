"""Make the lists of what wards call things: src/medcoder/bundled/names.

python recipes/words/names.py WRITTEN OUT [--leave-out FOLDER ...]

WRITTEN: a folder with tables LANGUAGE.tsv or LANGUAGE_PART.tsv: a name and its code of ICD-10-CM,
without a header. A name is left out if its code is none, if ICD-10-CM has it anyway, if it is no
term, if two codes were written for it, or if it equals a string of data/eval or of the benches in
--leave-out, whatever its code: what is measured with is in no list. What is left out is counted.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from medcoder import KG, bundled_kg
from medcoder.kg.masks import headings, with_flag
from medcoder.text import clean, fold, not_a_term
from medcoder.types import INCLUDES, USUAL

VOCABULARY = "ICD10CM"
EVAL = Path(__file__).resolve().parents[2] / "data" / "eval"
LONGEST = 80  # letters


def written(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Language, name and code."""
    for file in sorted(folder.glob("*.tsv")):
        for line in file.read_text(encoding="utf-8").split("\n"):
            cells = line.split("\t")
            if len(cells) == 2:
                name, code = " ".join(clean(cells[0]).split()), cells[1].strip()
                yield file.stem.split("_")[0], name, code
                if "œ" in name or "Œ" in name:  # as it is typed
                    yield file.stem.split("_")[0], name.replace("œ", "oe").replace("Œ", "Oe"), code


def measured_with(folders: Iterable[Path]) -> set[str]:
    """The strings of the sets, folded; of several in a cell, the cell."""
    found: set[str] = set()
    for file in EVAL.rglob("*.tsv"):
        header, *lines = file.read_text(encoding="utf-8").split("\n")
        columns = header.split("\t")
        wanted = [columns.index(name) for name in ("text", "lay", "chart") if name in columns]
        if not wanted:  # the string stands first
            wanted = [0]
        for line in filter(None, lines):
            cells = line.split("\t")
            found |= {fold(cells[place]) for place in wanted if place < len(cells)}
    for folder in folders:
        for file in folder.rglob("queries.tsv"):
            lines = file.read_text(encoding="utf-8").split("\n")[1:]
            found |= {fold(line.split("\t")[0]) for line in lines if line}
    return found - {""}


def known_names(kg: KG) -> dict[str, set[str]]:
    """Codes of ICD-10-CM by the folded names that they have already; notes give way to others."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for concept in kg:
        for term in kg.terms_of(concept):
            if term.vocabulary == VOCABULARY and term.kind not in (INCLUDES, USUAL):
                names[fold(term.text)].add(term.code)
    return names


def kept(
    rows: Iterable[tuple[str, str, str]], kg: KG, measured: set[str], left: Counter[str]
) -> dict[str, list[tuple[str, str]]]:
    """Names and codes by language."""
    known, heading, extension = known_names(kg), headings(kg), with_flag(kg, "extension")
    codes: defaultdict[str, dict[str, None]] = defaultdict(dict)
    first: dict[str, tuple[str, str]] = {}
    for language, name, code in rows:
        concepts = kg.find_code(VOCABULARY, code)
        if concepts and extension[kg.index(concepts[0])]:  # of any encounter
            code = code[:-1].rstrip("X").rstrip(".")
            concepts = kg.find_code(VOCABULARY, code)
        key = fold(name)
        if not concepts or heading[kg.index(concepts[0])]:
            left["its code is none"] += 1
        elif key in known:
            left["ICD-10-CM has it"] += 1
        elif not_a_term(name) or not key or len(name) > LONGEST:
            left["no term"] += 1
        elif key in measured:
            left["measured with"] += 1
        else:
            codes[key][code] = None
            first.setdefault(key, (language, name))
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for key, some in codes.items():
        language, name = first[key]
        code = one_code(list(some))
        if code is None:
            left["two codes"] += 1
        else:
            found[language].append((name, code))
    return found


def one_code(codes: list[str]) -> str | None:
    """The code of which all others are parts.

    >>> one_code(["K35.80", "K35"]), one_code(["K35.8", "K36"])
    ('K35', None)
    """
    shortest = min(codes, key=len)
    return shortest if all(code.startswith(shortest) for code in codes) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("written", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--leave-out", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    left: Counter[str] = Counter()
    found = kept(
        written(options.written), KG.open(bundled_kg()), measured_with(options.leave_out), left
    )
    options.out.mkdir(parents=True, exist_ok=True)
    for language, names in sorted(found.items()):
        lines = [
            "name\tcode",
            *("\t".join(row) for row in sorted(names, key=lambda row: row[::-1])),
        ]
        (options.out / f"{language}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{language}: {len(names):,} names")
    for reason, count in left.most_common():
        print(f"left out: {reason}: {count:,}")


if __name__ == "__main__":
    main()
