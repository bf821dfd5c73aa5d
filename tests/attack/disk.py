"""Disks that are nearly full: every command says so, and nothing that it leaves is damaged.

A trial gives a command a disk of some size, looks at what it says and leaves, then gives it room:
the same command must do its work. The small disk lies in memory, in a namespace of its own; every
third trial, and all where there are no namespaces, limits the size of files instead.
"""

import contextlib
import json
import resource
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attack.frame import Attack, Result, Skipped, Tally
from support.small_disk import NoNamespaces, SmallDisk, small_disk

_LARGE = 1 << 28  # bytes of a disk that is not nearly full
_FULL = 5  # the exit code
_SUPPORT = """
import sys, medcoder
from pathlib import Path
tests = Path(medcoder.__file__).parents[2] / "tests"
sys.path.insert(0, str(tests if tests.is_dir() else sys.argv[1]))
from support.bag import write_bag
write_bag(Path(sys.argv[2]), sys.argv[3:])
"""
_WORDS = ("heart", "attack", "fever", "cold", "pain", "head", "renal", "skin", "rash", "cough")

# Under a limit of file sizes, Python would leave modules of the tree compiled by half.
_ENV = {"PYTHONDONTWRITEBYTECODE": "1"}

Words = Sequence[object]


@dataclass(frozen=True)
class Case:
    """A command that writes below a folder, one that reads what it made, and what it starts from.

    again: what the first run says when it is repeated after it was done
    """

    name: str
    write: Callable[[Path], Words]
    read: Callable[[Path], Words] | None = None
    start: Callable[[Path], None] = lambda folder: None
    again: str = ""
    weight: int = 1


def run(attack: Attack) -> Tally:
    given = attack.folder / "given"
    _make_inputs(attack, given)
    cases = _cases(given)
    with contextlib.ExitStack() as stack:
        disk: SmallDisk | None = None
        try:
            disk = stack.enter_context(small_disk(attack.folder / "disk", size=_LARGE))
        except NoNamespaces as reason:
            attack.say(f"limits of file sizes only: {reason}")
        rooms: list[Room] = [Limit(attack.folder / "limited")]
        if disk is not None:
            rooms = [Small(disk), Small(disk), *rooms]
        drawn = [case for case in cases for _ in range(case.weight)]
        if attack.small:  # what left projects damaged, at such a size
            drawn = [case for case in cases if case.name == "map"][:1]
        need: dict[tuple[str, type[Room]], int] = {}
        for number in range(attack.trials):
            if attack.over:
                break
            # Every case with every kind of room, by turns.
            case = drawn[number % len(drawn)]
            room = rooms[(number // len(drawn) + number) % len(rooms)]
            key = (case.name, type(room))
            if key not in need and not attack.small:
                need[key] = room.measure(attack, case)
            size = room.once if attack.small else int(attack.rng.uniform(0, 1.2) * need[key])
            for failure in _trial(attack, case, room, size):
                attack.tally.fail(f"{case.name}, {room.unit} of {size:,} bytes: {failure}")
            attack.tally.trials += 1
            attack.tally.count(case.name)
            if attack.tally.trials % 20 == 0:
                attack.say(f"{attack.tally.trials}, {len(attack.tally.failures)} failures")
    return attack.tally


def _trial(attack: Attack, case: Case, room: "Room", size: int) -> list[str]:
    room.begin(case.start)
    if case.name == "decide":
        return _decide(attack, case, room, size)
    wrong: list[str | None] = []
    room.limit(size)
    first = room.run(attack, case.write)
    wrong.append(_said(first))
    if case.read is not None and first.rc == 0:
        room.limit(None)
        wrong.append(_reads(room.run(attack, case.read)))
        room.limit(size)
    elif case.read is not None:
        result = room.run(attack, case.read)
        if result.wrong or "damaged" in result.err or "backup" in result.err:
            wrong.append(f"afterwards: {result.wrong or result.err.strip()}")
    room.limit(None)
    again = room.run(attack, case.write)
    wrong.append(again.wrong)
    done = again.rc == 0 or (first.rc == 0 and case.again and case.again in again.err)
    if not done:
        wrong.append(f"with room, exit code {again.rc}: {again.err.strip()[-300:]}")
    elif case.read is not None:
        wrong.append(_reads(room.run(attack, case.read)))
    left = [path.name for path in room.seen.rglob(".*") if _is_left(path)]
    if left:
        wrong.append(f"left behind: {left}")
    return [text for text in wrong if text]


def _decide(attack: Attack, case: Case, room: "Room", size: int) -> list[str]:
    """Decide until it is refused: what was acknowledged is there afterwards."""
    wrong: list[str | None] = []
    room.limit(max(size, room.used()))
    noted = []
    for row in range(1, 4):
        note = (f"{row} " + "why " * attack.rng.choice((1, 2000, 20000))).strip()
        result = room.run(attack, case.write, row, "--no-match", "--note", note)
        wrong.append(_said(result))
        if result.rc == 0:
            noted.append(note)
    room.limit(None)
    assert case.read is not None
    result = room.run(attack, case.read)
    wrong.append(_reads(result, nothing_ok=not noted))
    found = [json.loads(line)["note"] for line in result.out.splitlines()]
    if not set(noted) <= set(found):
        wrong.append(f"{len(noted)} decisions were acknowledged, {len(found)} are there")
    return [text for text in wrong if text]


def _said(result: Result) -> str | None:
    """What is wrong with what a command said."""
    if result.wrong or result.rc in (0, _FULL):
        return result.wrong
    return f"exit code {result.rc}: {result.err.strip()[-300:]}"


def _reads(result: Result, *, nothing_ok: bool = False) -> str | None:
    if result.rc == 0 or (nothing_ok and result.rc == 1):
        return None
    return f"what was made cannot be read: {result.rc} {result.err.strip()[-300:]}"


def _is_left(path: Path) -> bool:
    return path.name.endswith((".partial", ".embedding")) or path.name.startswith((".new-", ".tmp"))


class Room:
    """Where a command writes, and how it is made small."""

    unit = ""
    once = 0  # bytes, where there is but one trial
    folder: Path
    seen: Path  # the same for us

    def begin(self, start: Callable[[Path], None]) -> None:
        """Empty it and put there what is there before."""
        raise NotImplementedError

    def limit(self, size: int | None) -> None:
        raise NotImplementedError

    def used(self) -> int:
        """Bytes below which what is there before would not fit."""
        raise NotImplementedError

    def run(self, attack: Attack, words: Callable[[Path], Words], *more: object) -> Result:
        raise NotImplementedError

    def measure(self, attack: Attack, case: Case) -> int:
        """Bytes that a command takes."""
        self.begin(case.start)
        self.limit(None)
        more = (1, "--no-match", "--note", "x" * 60000) if case.name == "decide" else ()
        result = self.run(attack, case.write, *more)
        assert result.rc == 0, result
        return self.taken()

    def taken(self) -> int:
        raise NotImplementedError


class Small(Room):
    """A small disk. What is written on the way takes room as well, so twice that is drawn from."""

    unit = "a disk"
    once = 130_000

    def __init__(self, disk: SmallDisk) -> None:
        self._disk, self.folder, self.seen = disk, disk.folder, disk.inside

    def begin(self, start: Callable[[Path], None]) -> None:
        self._disk.empty()
        self.limit(None)
        start(self.seen)

    def limit(self, size: int | None) -> None:
        least = max(self.used(), 4096)  # a smaller one is refused; and 0 is no limit
        self._disk.resize(_LARGE if size is None else max(size // 4096 * 4096, least))

    def used(self) -> int:
        return int(self._disk.do(f"df --output=used -B1 {self.folder} | tail -1"))

    def taken(self) -> int:
        return 2 * self.used()

    def run(self, attack: Attack, words: Callable[[Path], Words], *more: object) -> Result:
        return attack.medcoder(*words(self.folder), *more, env=_ENV, before=self._disk.enter())


class Limit(Room):
    """A limit on the size of any file."""

    unit = "files"
    once = 45_000

    def __init__(self, folder: Path) -> None:
        self.folder = self.seen = folder
        self._size: int | None = None

    def begin(self, start: Callable[[Path], None]) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self._size = None
        start(self.folder)

    def limit(self, size: int | None) -> None:
        self._size = size

    def used(self) -> int:
        return 0

    def taken(self) -> int:
        return max(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def run(self, attack: Attack, words: Callable[[Path], Words], *more: object) -> Result:
        size = self._size

        def limit() -> None:
            if size is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        return attack.medcoder(*words(self.folder), *more, env=_ENV, before=limit)


def _make_inputs(attack: Attack, given: Path) -> None:
    """A table of terms, and by commands of the tree a graph, an encoder, an index, a project."""
    given.mkdir()
    rng = attack.rng
    rows = [f"C{n:03},{' '.join(rng.sample(_WORDS, 3))},en,T" for n in range(60) for _ in "ab"]
    (given / "terms.csv").write_text("\n".join(["concept,term,language,source", *rows]) + "\n")
    texts = [" ".join(rng.sample(_WORDS, 2)) for _ in range(200)]
    (given / "texts.txt").write_text("\n".join(texts) + "\n")
    (given / "ward.csv").write_text("\n".join(["text", *texts]) + "\n")
    tests = Path(__file__).parents[1]
    made = [
        attack.code(_SUPPORT, tests, given / "bag.onnx", *_WORDS),
        attack.medcoder("kg", "build", f"table={given / 'terms.csv'}", "--out", given / "a.kg"),
        attack.medcoder(*_index(given), "--out", given / "a.index"),
        attack.medcoder(*_map(given), "--out", given / "project"),
    ]
    for result in made:
        if result.rc:
            raise Skipped(f"the inputs cannot be made: {result.err.strip()[-500:]}")


def _index(given: Path, kind: str = "exact") -> Words:
    model = ("--model", given / "bag.onnx", "--kind", kind)
    return ("index", "build", "--kg", given / "a.kg", *model)


def _map(given: Path) -> Words:
    return ("map", given / "ward.csv", "--column", "text", "--index", given / "a.index")


def _cases(given: Path) -> list[Case]:
    def project(folder: Path) -> None:
        shutil.copytree(given / "project", folder / "p", copy_function=shutil.copyfile)

    def link(folder: Path) -> None:
        (folder / "a.index").symlink_to(given / "a.index")

    def export(format: str) -> Case:
        return Case(
            f"export {format}",
            lambda to: ("map", "export", given / "project", format, "--out", to / f"x.{format}"),
        )

    terms = given / "terms.csv"
    exists = "it exists"
    graph = ("kg", "build", f"table={terms}", "--out")
    own = ("terms", "add", "--file", terms, "--index")
    model = ("--model", given / "bag.onnx")
    texts = ("embed", "--file", given / "texts.txt", *model, "--overwrite", "--out")
    return [
        Case("map", lambda to: (*_map(given), "--out", to / "p"),
             lambda to: ("map", "status", to / "p", "--check"), weight=4),
        Case("decide", lambda to: ("map", "decide", to / "p", "--who", "ann"),
             lambda to: ("map", "history", to / "p", "--json"), project, weight=2),
        Case("report", lambda to: ("map", "report", to / "p"),
             lambda to: ("map", "status", to / "p", "--check"), project),
        Case("graph", lambda to: (*graph, to / "a.kg"),
             lambda to: ("kg", "stats", "--kg", to / "a.kg"), again=exists),
        *(
            Case(f"index {kind}", lambda to, kind=kind: (*_index(given, kind), "--out", to / "i"),
                 lambda to: ("normalize", "heart attac", "--threshold", "0", "--index", to / "i"),
                 again=exists)
            for kind in ("exact", "hnsw")
        ),
        Case("terms", lambda to: (*own, to / "a.index"),
             lambda to: ("terms", "list", "--index", to / "a.index"), link),
        Case("embed npy", lambda to: (*texts, to / "x.npy")),
        Case("embed parquet", lambda to: (*texts, to / "x.parquet")),
        Case("embed graph", lambda to: ("embed", "--kg", given / "a.kg", *model, "--out", to / "v"),
             again=exists),
        *map(export, ("csv", "fhir", "parquet", "sssom", "xlsx")),
    ]  # fmt: skip
