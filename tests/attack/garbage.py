"""Strings that mean nothing, of ten kinds: hardly any may be accepted as a concept.

What is asked goes through the command line, as lines of a file. A trial fails if its string has a
match; fewer than one in a thousand may. How many are surer than 0.98 is counted too: a mapping
would take them without a look.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable

from attack.frame import Attack, Tally

AUTOMATIC = 0.98
TERMS = """concept,term
C1,heart attack
C1,myocardial infarction
C2,back pain
C3,low inhibin B
C3,277000
C4,Y-linked
C5,ASD
C5,atrial septal defect
C6,high blood pressure
C7,fever
C8,MODY
C9,S4
"""
UNITS = (
    "mg", "g", "kg", "mcg", "µg", "ml", "mL", "L", "dl", "mmol/L", "mg/dL", "mmHg", "bpm", "/min",
    "°C", "°F", "%", "cm", "mm", "kg/m2", "IU", "U/L", "mEq/L", "g/dl", "x10^9/L", "hours", "days",
    "weeks", "years", "h", "min", "kcal", "ng/ml", "MG", "ML", "CM",
)  # fmt: skip
MONTHS = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
    "January",
    "March",
    "June",
    "October",
]
LOREM = [
    "lorem",
    "ipsum",
    "amet",
    "consectetur",
    "eiusmod",
    "tempor",
    "incididunt",
    "veniam",
    "laboris",
    "aliquip",
]
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "йцукенгшщзх", "фывапролдж")
SIGNS = string.punctuation + "–—…·•€£§±×÷¿¡«»“”、。！？（）★✓→♥😀🙏🎉\u200b\u00a0\x07\x1b"
LETTERS = string.ascii_letters + "αβγδΩΣπбжЖДяéüñØ"


def integer(rng: random.Random) -> str:
    return str(rng.randrange(10 ** rng.randint(1, 9)))


def decimal(rng: random.Random) -> str:
    value = rng.uniform(-1, 1) * 10 ** rng.randint(0, 6)
    return rng.choice(
        [
            f"{value:.{rng.randint(1, 4)}f}", f"{value:,.2f}", f"{value:.2e}", f"{abs(value):.1f}%",
            f"{abs(value):.2f}".replace(".", ","), f"<{abs(value):.1f}", f"+{abs(value):.3f}",
            f"{rng.randrange(300)}/{rng.randrange(200)}", f"{rng.randrange(99)}-{rng.randrange(9)}",
        ]
    )  # fmt: skip


def date(rng: random.Random) -> str:
    year, month, day = rng.randint(1920, 2030), rng.randint(1, 12), rng.randint(1, 28)
    hour, minute = rng.randrange(24), rng.randrange(60)
    return rng.choice(
        [
            f"{year}-{month:02}-{day:02}", f"{day:02}/{month:02}/{year}", f"{day}.{month}.{year}",
            f"{day} {rng.choice(MONTHS)} {year}", f"{rng.choice(MONTHS)} {day}, {year}",
            f"{day:02}-{rng.choice(MONTHS).upper()}-{year % 100:02}", f"{hour:02}:{minute:02}",
            f"{hour:02}:{minute:02}:{rng.randrange(60):02}", f"{year}{month:02}{day:02}",
            f"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z",
            f"{hour % 12 + 1}:{minute:02} {rng.choice(['am', 'pm', 'AM', 'PM'])}",
            f"{year}年{month}月{day}日",
        ]
    )  # fmt: skip


def measurement(rng: random.Random) -> str:
    number = rng.choice(
        [
            str(rng.randint(1, 500)), f"{rng.uniform(0, 200):.1f}",
            f"{rng.randint(80, 200)}/{rng.randint(40, 120)}",
            f"{rng.randint(1, 9)}-{rng.randint(10, 20)}", f"<{rng.randint(1, 9)}",
            f"{rng.randint(1, 4)} x {rng.randint(5, 500)}",
        ]
    )  # fmt: skip
    return number + rng.choice(["", " "]) + rng.choice(UNITS)


def punctuation(rng: random.Random) -> str:
    return "".join(rng.choices(SIGNS, k=rng.randint(1, 12)))


def letter(rng: random.Random) -> str:
    return rng.choice(["{}", "{}", "{}.", "({})", " {} ", '"{}"']).format(rng.choice(LETTERS))


def mash(rng: random.Random) -> str:
    length = rng.randint(4, 16)
    row = rng.choice(ROWS)
    return rng.choice(
        [
            lambda: "".join(rng.choices(string.ascii_lowercase, k=length)),
            lambda: "".join(rng.choices(string.ascii_uppercase, k=length)),
            lambda: "".join(rng.choices(string.ascii_lowercase + " ", k=2 * length)),
            lambda: "".join(rng.choices(row, k=length)),
            lambda: (row * 3)[rng.randrange(5) :][:length],
            lambda: rng.choice(string.ascii_letters) * length,
            lambda: "".join(rng.sample("aeioux", 2)) * (length // 2),
        ]
    )()


def identifier(rng: random.Random) -> str:
    raw = rng.randbytes(rng.choice([4, 8, 16, 32]))
    digits = rng.randrange(10**4, 10**9)
    return rng.choice(
        [
            raw.hex(), raw.hex().upper(), str(uuid.UUID(bytes=rng.randbytes(16))),
            base64.b64encode(raw).decode(), f"MRN {digits:08}", f"MRN{digits}", f"ID-{digits}",
            f"PAT_{digits}", f"#{digits}", f"{rng.choice(string.ascii_uppercase)}{digits}",
            f"case no. {digits}", f"SN:{raw[:4].hex().upper()}-{digits}",
            "".join(rng.choices(string.ascii_letters + string.digits, k=rng.randint(8, 24))),
        ]
    )  # fmt: skip


def address(rng: random.Random) -> str:
    name = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9)))
    host = rng.choice(["example", "hospital", "clinic", "mail", name])
    digits = f"{rng.randrange(10**9, 10**10)}"
    return rng.choice(
        [
            f"{name}@{host}.org", f"{name}.{rng.choice(LOREM)}@{host}.com", f"https://{host}.com/{name}",
            f"http://www.{name}.net/{rng.choice(LOREM)}?id={digits}", f"www.{host}.org",
            f"+{rng.randint(1, 99)} {digits[:3]} {digits[3:6]} {digits[6:]}",
            f"({digits[:3]}) {digits[3:6]}-{digits[6:]}", f"tel: {digits}", f"ext. {digits[:4]}",
            ".".join(str(rng.randrange(256)) for _ in range(4)), f"/home/{name}/{host}.txt",
            f"C:\\{name}\\{host}.docx", f"<{rng.choice(['div', 'b', 'td'])}>{name}</td>",
        ]
    )  # fmt: skip


def words(rng: random.Random) -> str:
    def made_up() -> str:
        return "".join(
            rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") + rng.choice(["", "", "n", "r"])
            for _ in range(rng.randint(3, 6))
        )

    return " ".join(made_up() for _ in range(rng.randint(1, 4)))


KINDS: dict[str, Callable[[random.Random], str]] = {
    kind.__name__: kind
    for kind in (
        integer, decimal, date, measurement, punctuation, letter, mash, identifier, address, words,
    )
}  # fmt: skip


def strings(rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Kinds and strings, as many of each kind; what is blank or has a line break is no line."""
    made: list[tuple[str, str]] = []
    kinds = list(KINDS)
    while len(made) < count:
        kind = kinds[len(made) % len(kinds)]
        text = KINDS[kind](rng)
        if text.strip() and "\n" not in text:
            made.append((kind, text))
    return made


def run(attack: Attack) -> Tally:
    asked, tally = strings(attack.rng, attack.trials), attack.tally
    file = attack.folder / "garbage.txt"
    file.write_text("".join(f"{text}\n" for _, text in asked), encoding="utf-8", newline="\n")
    index = _small_index(attack) if attack.small else ()
    done = attack.medcoder("normalize", "--file", file, "--json", *index)
    answers = [json.loads(line) for line in done.out.splitlines()]
    if len(answers) != len(asked):
        tally.fail(f"{len(answers)} answers for {len(asked)} strings: {done.err}")
        return tally
    for (kind, text), answer in zip(asked, answers, strict=True):
        tally.trials += 1
        if answer["matches"]:
            best = answer["matches"][0]
            sure = best["confidence"]
            tally.count(f"accepted: {kind}")
            tally.count("automatic", sure >= AUTOMATIC)
            tally.fail(f"{kind} {text!r}: {best['name']} ({best['term']}), {sure:.3f}")
    return tally


def _small_index(attack: Attack) -> tuple[str, ...]:
    """Options that name an index of a dozen terms: one is prepared in seconds."""
    (attack.folder / "terms.csv").write_text(TERMS, encoding="utf-8")
    for command in (
        ("kg", "build", "table=terms.csv", "--out", "t.kg"),
        ("index", "build", "--kg", "t.kg", "--out", "t.index"),
    ):
        done = attack.medcoder(*command)
        if done.rc:
            attack.tally.fail(f"{' '.join(command)}: {done.err}")
    return "--index", "t.index"
