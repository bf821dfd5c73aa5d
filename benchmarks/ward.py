"""How ward strings are answered: by language and kind, against ICD-10-CM.

python benchmarks/ward.py [dev|test] [--languages en de] [--index DIR] [--errors F] [--json F]

The sets are data/eval/{dev,test}/ward, a file a language: a string, its kind, the acceptable
ICD-10-CM categories, and what the string says beside (history, family, negated, doubt, side).
`test` is asked once, at the end of a change.

- first: of the strings that mean something, those whose best candidate, answered or not, is in an
  acceptable category. Several in a cell: split, each part must be right, in order; unsplit, any.
- answered, of all strings; right, of the answered ones. What means nothing, or is negated, is
  answered rightly by no answer: an answer to it is wrong.
- sure: confidence 0.9 or more, of all strings; right, of these.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medcoder import Normalizer
from medcoder.types import Answer, Match

LANGUAGES = ("en", "de", "es", "fr", "nl")
VOCABULARY = "ICD10CM"
SURE = 0.9
ROOT = Path(__file__).resolve().parent.parent / "data" / "eval"


class Ward(NamedTuple):
    """A string of the set."""

    language: str
    text: str
    kind: str
    parts: list[frozenset[str]]  # acceptable categories of each thing in it; none: it is nothing
    attributes: frozenset[str]

    @property
    def meant(self) -> bool:
        return bool(self.parts)


class Verdict(NamedTuple):
    """What became of a string."""

    first: bool  # the best candidate is right
    answered: bool
    sure: bool
    right: bool  # the answer is right; of what means nothing, that there is none


def read(file: Path) -> list[Ward]:
    strings = []
    for line in file.read_text(encoding="utf-8").split("\n")[1:]:
        if line:
            text, kind, categories, attributes = line.split("\t")
            parts = [frozenset(part.strip().split("|")) for part in categories.split(";") if part]
            said = frozenset(filter(None, attributes.split("|")))
            strings.append(Ward(file.stem, text, kind, parts, said))
    return strings


def categories(match: Match) -> set[str]:
    return {code.code[:3] for code in match.codes if code.vocabulary == VOCABULARY}


def judged(ward: Ward, answer: Answer) -> Verdict:
    parts: Sequence[Answer] = getattr(answer, "parts", ()) or (answer,)
    if len(parts) > 1 or len(ward.parts) > 1:
        first = _parts_right(ward, parts)
    else:
        first = bool(answer.candidates) and _right(answer.candidates[0], ward.parts)
    answered = bool(answer.matches)
    sure = answered and min(match.confidence for match in _bests(parts)) >= SURE
    return Verdict(first and ward.meant, answered, sure, first if ward.meant else not answered)


def _bests(parts: Iterable[Answer]) -> list[Match]:
    return [part.candidates[0] for part in parts if part.candidates]


def _parts_right(ward: Ward, parts: Sequence[Answer]) -> bool:
    if len(parts) == 1:
        return bool(parts[0].candidates) and _right(parts[0].candidates[0], ward.parts)
    wanted = iter(ward.parts)
    bests = [part.candidates[0] if part.candidates else None for part in parts]
    return len(bests) == len(ward.parts) and all(
        best is not None and _right(best, [next(wanted)]) for best in bests
    )


def _right(best: Match, parts: Sequence[frozenset[str]]) -> bool:
    return any(categories(best) & part for part in parts)


def table(rows: dict[str, list[tuple[Ward, Verdict]]]) -> list[dict[str, Any]]:
    entries = []
    for name, some in rows.items():
        verdicts = [verdict for _, verdict in some]
        meant = [verdict for ward, verdict in some if ward.meant]
        answered = [verdict for verdict in verdicts if verdict.answered]
        sure = [verdict for verdict in verdicts if verdict.sure]
        entries.append(
            {
                "strings": name,
                "n": len(some),
                "first": share(verdict.first for verdict in meant),
                "answered": share(verdict.answered for verdict in verdicts),
                "right of answered": share(verdict.right for verdict in answered),
                "sure": share(verdict.sure for verdict in verdicts),
                "right of sure": share(verdict.right for verdict in sure),
                "sure and wrong": sum(not verdict.right for verdict in sure),
            }
        )
    return entries


def share(values: Iterable[bool]) -> float | None:
    some = list(values)
    return sum(some) / len(some) if some else None


def shown(entries: list[dict[str, Any]]) -> str:
    names = list(entries[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for entry in entries:
        cells = [
            f"{100 * value:.1f}"
            if isinstance(value, float)
            else "–"
            if value is None
            else f"{value}"
            for value in entry.values()
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("dev", "test"), nargs="?", default="dev")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES)
    parser.add_argument("--index", type=Path, help="default: the bundled one")
    parser.add_argument("--errors", type=Path, help="a table of what was not right")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    normalizer = Normalizer.load(asked.index)
    split = {"split": True} if "split" in Normalizer.normalize_many.__annotations__ else {}
    rows: dict[str, list[tuple[Ward, Verdict]]] = {}
    wrong = []
    for language in asked.languages:
        wards = read(ROOT / asked.part / "ward" / f"{language}.tsv")
        start = time.process_time()
        answers = list(
            normalizer.normalize_many(
                [ward.text for ward in wards], vocabularies=[VOCABULARY], **split
            )
        )
        seconds = time.process_time() - start
        pairs = [(ward, judged(ward, answer)) for ward, answer in zip(wards, answers, strict=True)]
        rows[language] = pairs
        by_kind = defaultdict(list)
        for pair in pairs:
            by_kind[pair[0].kind].append(pair)
        rows |= {f"{language} {kind}": by_kind[kind] for kind in sorted(by_kind)}
        for (ward, verdict), answer in zip(pairs, answers, strict=True):
            if not verdict.right or not verdict.answered:
                wrong.append(_line(ward, verdict, answer))
        sys.stderr.write(f"{language}: {len(wards)} strings, {seconds:.1f} s of CPU\n")
    entries = table(rows)
    sys.stdout.write(shown(entries) + "\n")
    if asked.errors:
        asked.errors.write_text("\n".join(wrong) + "\n", encoding="utf-8")
    if asked.json:
        asked.json.write_text(json.dumps(entries, indent=1), encoding="utf-8")


def _line(ward: Ward, verdict: Verdict, answer: Answer) -> str:
    best = answer.candidates[0] if answer.candidates else None
    fate = "sure" if verdict.sure else "answered" if verdict.answered else "refused"
    mark = "right" if verdict.first else "wrong"
    wanted = ";".join("|".join(sorted(part)) for part in ward.parts)
    found = "\t\t\t"
    if best:
        code = best.codes[0].code if best.codes else ""
        found = f"{code}\t{best.term}\t{best.confidence:.2f}\t{best.stage}"
    return f"{ward.language}\t{ward.kind}\t{mark} {fate}\t{ward.text}\t{wanted}\t{found}"


if __name__ == "__main__":
    main()
