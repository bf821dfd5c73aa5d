"""What golden answers share: files of cases, placeholders for what changes, comparing."""

import contextlib
import datetime
import json
import os
import re
from pathlib import Path

HERE = Path(__file__).parent
# Between machines, and between batches of other shapes, vectors of int8 weights differ a little.
TOLERANCE = 1e-3
DIGITS = 4

_NUMBER = re.compile(r"(?<![\w.:-])-?\d+\.\d+(?![\w.])")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"\b1[6-9]\d{11}\b")  # milliseconds, as Usagi has them
_ID = re.compile(r"\b[0-9a-f]{32}\b")
_VERSION = re.compile(r"(medcoder[ /]|[\"']version[\"']: [\"']|_version: \"?)\d+\.\d+\.\d+\b")
_SIZE = re.compile(r"\b\d[\d.,]* [KMG]B\b")
_WHY = re.compile(r"(cannot be loaded as a model: ).*", re.S)  # in words of another library
_SECONDS = re.compile(r"\b\d+(\.\d+)? (seconds|ms|s)\b")
# Fields of which only the presence is kept: sizes on disk, times, what the machine is like.
_VOLATILE = {"bytes", "seconds", "threads", "platform", "python", "machine", "device", "memory_gb",
             "seconds_a_step", "hours", "rows_per_second"}  # fmt: skip


def environment(home):
    """Variables under which every case runs; None: not set."""
    bare = ("MEDCODER_KG", "MEDCODER_INDEX", "MEDCODER_BENCH", "MEDCODER_TOKEN", "FORCE_COLOR")
    return dict.fromkeys(bare) | {
        "HF_HUB_OFFLINE": "1", "MEDCODER_HOME": str(home), "MEDCODER_WHO": "ann",
        "COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb",
    }  # fmt: skip


@contextlib.contextmanager
def inside(folder, home):
    """Run in a folder, so that no answer holds a path of the machine."""
    before, where = dict(os.environ), Path.cwd()
    for name, value in environment(home).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    os.chdir(folder)
    try:
        yield Path()
    finally:
        os.chdir(where)
        os.environ.clear()
        os.environ.update(before)


def plain(value, *places, ids=True):
    """A value with placeholders for what changes from day to day and machine to machine.

    places: folders that are not to be named
    """
    if isinstance(value, dict):
        return {
            plain(key, *places, ids=ids): (
                "<volatile>" if key in _VOLATILE else plain(item, *places, ids=ids)
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(item, *places, ids=ids) for item in value]
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, datetime.date):
        value = value.isoformat()
    if not isinstance(value, str):
        return value
    for number, place in enumerate(places):
        value = value.replace(str(place), f"<place {number}>")
    value = _EPOCH.sub("<time>", _TIME.sub("<time>", value))
    for day in _days():
        value = value.replace(day, "<today>")
    if ids:
        value = _ID.sub("<id>", value)
    value = _WHY.sub(r"\1<why>", value)
    value = _VERSION.sub(r"\1<version>", value)
    if re.fullmatch(r"0\.\d+\.\d+", value):
        return "<version>"
    return _SECONDS.sub("<seconds>", _SIZE.sub("<size>", value))


def _days():
    now = datetime.datetime.now(datetime.UTC)
    found = {now.date(), now.astimezone().date()}
    return [day.strftime(form) for day in found for form in ("%Y-%m-%d", "%Y%m%d")]


def write(name, cases):
    """One case a line."""
    lines = (
        json.dumps({"case": case, "is": value}, ensure_ascii=False, sort_keys=True)
        for case, value in cases.items()
    )
    (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(name):
    lines = (HERE / name).read_text(encoding="utf-8").split("\n")
    found = [json.loads(line) for line in lines if line]
    return {one["case"]: one["is"] for one in found}


def differences(old, new, path=""):
    """Where two values differ: lines of path, old and new."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            where = f"{path}.{key}"
            if key not in old or key not in new:
                yield _line(where, old.get(key, "(absent)"), new.get(key, "(absent)"))
            else:
                yield from differences(old[key], new[key], where)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield _line(f"{path} (length)", len(old), len(new))
        for place, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, f"{path}[{place}]")
    elif not same(old, new):
        yield _line(path, old, new)


def same(old, new):
    """Equal, but for the tolerance of numbers; also of those in a text."""
    if isinstance(old, float) or isinstance(new, float):
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (old, new))
        return numbers and abs(old - new) <= TOLERANCE * max(1, abs(old))
    if isinstance(old, str) and isinstance(new, str) and old != new:
        if _NUMBER.sub("<n>", old) != _NUMBER.sub("<n>", new):
            return False
        return all(map(_close, _NUMBER.findall(old), _NUMBER.findall(new)))
    return type(old) is type(new) and old == new


def _close(old, new):
    # Rounding may turn out either way.
    last = 10.0 ** -min(len(text.split(".")[1]) for text in (old, new))
    return abs(float(old) - float(new)) <= max(TOLERANCE, last) * 1.0001


def _line(path, old, new):
    return f"{path or '.'}\n  was {_short(old)}\n  is  {_short(new)}"


def _short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}…"


def check(case, recorded, found, most=8):
    """Fail with the first differences of a case."""
    assert case in found, f"{case}: no answer"
    lines = list(differences(recorded[case], found[case]))
    more = f"\n… and {len(lines) - most} more" if len(lines) > most else ""
    assert not lines, f"{case}: {len(lines)} differences\n" + "\n".join(lines[:most]) + more
