"""How ward strings are answered: by language and kind, against ICD-10-CM.

python benchmarks/ward.py [dev|test] [--languages en de] [--index DIR] [--errors F] [--json F]
python benchmarks/ward.py [dev|test] --against TOOL... [--minilm MODEL_DIR] [--work WORK]

The sets are data/eval/{dev,test}/ward, a file a language: a string, its kind, the acceptable
ICD-10-CM categories, and what the string says beside (history, family, negated, doubt, side).
`test` is asked once, at the end of a change.

- first: of the strings that mean something, those whose best candidate, answered or not, is in an
  acceptable category. Several in a cell: split, each part must be right, in order; unsplit, any.
- answered, of all strings; right, of the answered ones. What means nothing, or is negated, is
  answered rightly by no answer: an answer to it is wrong.
- sure: confidence 0.9 or more, of all strings; right, of these.

--against: `first` of text2term, rapidfuzz, tfidf, minilm-faiss too, on the same strings. They get
all names of ICD-10-CM, titles and inclusion terms, and the whole string; of several things in it,
any is right. They have no confidence, so there is no more to compare. What is not installed is left
out. --minilm is a folder of a sentence-transformers model, whose vectors of the names are kept
in --work.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

from medcoder import Normalizer
from medcoder.types import Answer, Match
from peer_tools import PEERS, WITH_MODEL, Job
from peers import dictionary

LANGUAGES = ("en", "de", "es", "fr", "nl")
AGAINST = PEERS | WITH_MODEL
VOCABULARY = "ICD10CM"
SURE = 0.9
String = tuple[str, str]  # language and text
ROOT = Path(__file__).resolve().parent.parent / "data" / "eval"


class Ward(NamedTuple):
    """A string of the set."""

    language: str
    text: str
    kind: str
    parts: list[frozenset[str]]  # acceptable categories of each thing in it; none: it is nothing
    attributes: frozenset[str]

    @property
    def string(self) -> String:
        return self.language, self.text

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


def asked_others(
    names: Sequence[str], wards: Sequence[Ward], work: Path, model: Path | None
) -> Iterator[tuple[str, dict[String, bool]]]:
    """Of each tool whether the first of what it finds for a string is right."""
    codes, titles = named_codes()
    for name in names:
        tool = AGAINST[name]
        if tool.needs and not any(distributions(name=tool.needs)):
            sys.stderr.write(f"{name}: left out, not installed: pip install {tool.needs}\n")
            continue
        if name in WITH_MODEL and model is None:
            sys.stderr.write(f"{name}: left out, it needs --minilm MODEL_DIR\n")
            continue
        start = time.process_time()
        ask = tool.build(Job(titles, {}, work, str(model)))
        found = ask([ward.text for ward in wards])
        best = [codes[numbers[0]][:3] if numbers else "" for numbers in found]
        sys.stderr.write(f"{name}: {time.process_time() - start:.1f} s of CPU\n")
        right = {
            ward.string: any(category in part for part in ward.parts)
            for ward, category in zip(wards, best, strict=True)
        }
        yield name, right


def named_codes() -> tuple[list[str], list[str]]:
    """The names of ICD-10-CM, and the code of each."""
    titles, inclusions = dictionary()
    named = [*titles.items(), *((code, text) for text, code in inclusions)]
    return [code for code, _ in named], [text for _, text in named]


def table_of_others(
    rows: dict[str, list[tuple[Ward, Verdict]]], others: dict[str, dict[String, bool]]
) -> list[dict[str, Any]]:
    """`first` of all tools."""
    entries = []
    for name, some in rows.items():
        meant = [(ward, verdict) for ward, verdict in some if ward.meant]
        ours = share(verdict.first for _, verdict in meant)
        theirs = {
            tool: share(first[ward.string] for ward, _ in meant) for tool, first in others.items()
        }
        entries.append({"strings": name, "n": len(meant), "medcoder": ours} | theirs)
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
    parser.add_argument("--against", nargs="+", choices=AGAINST, default=[], metavar="TOOL",
                        help=f"other tools: {', '.join(AGAINST)}")  # fmt: skip
    parser.add_argument("--minilm", type=Path, help="a folder of a sentence-transformers model")
    parser.add_argument("--work", type=Path, help="where the vectors of --minilm are kept")
    asked = parser.parse_args()
    normalizer = Normalizer.load(asked.index)
    split: dict[str, Any] = {}
    if "split" in Normalizer.normalize_many.__annotations__:  # no version before had it
        split["split"] = True
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
    if asked.against:
        wards = [ward for language in asked.languages for ward, _ in rows[language]]
        with tempfile.TemporaryDirectory() as folder:
            work = asked.work or Path(folder)
            work.mkdir(parents=True, exist_ok=True)
            others = dict(asked_others(asked.against, wards, work, asked.minilm))
        compared = table_of_others(rows, others)
        sys.stdout.write(f"\nRight category first\n\n{shown(compared)}\n")
        for entry, other in zip(entries, compared, strict=True):
            entry["first of others"] = {name: other[name] for name in others}
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
