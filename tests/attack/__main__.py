"""`scripts/attack`: run attacks against this tree or another, and show a table of what failed."""

import argparse
import contextlib
import secrets
import shlex
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from attack.frame import ATTACKS, Attack, Skipped, Tally, load

_FAILURES = 20  # of each attack that are printed; --markdown has all
_ROOT = Path(__file__).parents[2]


def main() -> int:
    options = _parsed()
    # `timeout` and the like end it as Ctrl-C does: what was found until then is shown.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.list:
        width = max(map(len, ATTACKS), default=0)
        for name, entry in ATTACKS.items():
            print(f"{name:{width}}  {entry.trials:5} trials  {entry.about}")
        return 0
    unknown = [name for name in options.name if name not in ATTACKS]
    if unknown:
        print(f"no such attack: {', '.join(unknown)}. There are: {', '.join(ATTACKS)}")
        return 2
    done: list[tuple[str, Tally]] = []
    with contextlib.ExitStack() as stack:
        if options.folder is None:
            made = tempfile.TemporaryDirectory(prefix="attack-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
        else:
            folder = options.folder.absolute()
        for name in options.name or ATTACKS:
            tally, interrupted = _run(name, folder / name, options)
            done.append((name, tally))
            if interrupted:
                print("interrupted", file=sys.stderr)
                break
    table = _table(done, options)
    print(f"\n{table}")
    if options.markdown:
        options.markdown.write_text(f"{table}\n", encoding="utf-8")
    return int(any(tally.failures for _, tally in done))


def _run(name: str, folder: Path, options: argparse.Namespace) -> tuple[Tally, bool]:
    """What an attack found, and whether somebody stopped it."""
    entry = ATTACKS[name]
    folder.mkdir(parents=True, exist_ok=True)
    attack = Attack(
        name=name,
        trials=options.trials or entry.trials,
        seed=options.seed,
        folder=folder,
        python=options.python,
        callers=options.callers,
        minutes=options.minutes,
        jobs=options.jobs,
    )
    attack.say(f"{attack.trials} trials, seed {attack.seed}, {attack.python}")
    start = time.monotonic()
    tally, interrupted = attack.tally, False
    try:
        tally = load(name)(attack)
    except Skipped as skipped:
        tally.skipped = str(skipped)
        attack.say(f"skipped: {skipped}")
    except KeyboardInterrupt:
        interrupted = True
        tally.notes["interrupted"] = f"after {tally.trials} of {attack.trials}"
    except Exception as error:  # what was found until then is worth showing
        traceback.print_exc()
        tally.fail(f"the attack itself ended with {type(error).__name__}: {error}")
    finally:
        attack.stop()
    attack.say(
        f"{tally.trials} trials, {len(tally.failures)} failures, {time.monotonic() - start:.0f} s"
    )
    for failure in tally.failures[:_FAILURES]:
        attack.say(f"FAILED: {failure}")
    if tally.failures:
        attack.say(f"again: {_command(name, options)}")
    return tally, interrupted


def _table(done: list[tuple[str, Tally]], options: argparse.Namespace) -> str:
    lines = ["| attack | trials | failures | notes |", "|---|---:|---:|---|"]
    for name, tally in done:
        notes = f"skipped: {tally.skipped}" if tally.skipped else _notes(tally)
        lines.append(f"| {name} | {tally.trials} | {len(tally.failures)} | {notes} |")
    lines += ["", f"Seed {options.seed}, {options.python}"]
    for name, tally in done:
        if tally.failures:
            lines += ["", f"{name}: `{_command(name, options)}`", ""]
            lines += [f"- {' '.join(failure.split())}" for failure in tally.failures]
    return "\n".join(lines)


def _notes(tally: Tally) -> str:
    return "; ".join(f"{key}: {value}" for key, value in tally.notes.items()).replace("|", "/")


def _command(name: str, options: argparse.Namespace) -> str:
    """What does the same again."""
    words = ["scripts/attack", name, "--seed", str(options.seed)]
    words += ["--trials", str(options.trials or ATTACKS[name].trials)]
    for option in ("callers", "minutes", "jobs"):
        if (value := getattr(options, option)) is not None:
            words += [f"--{option}", str(value)]
    return shlex.join([*words, "--python", str(options.python)])


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/attack", description=__doc__)
    parser.add_argument("name", nargs="*", help="attacks; without any: all of them")
    parser.add_argument("--trials", type=int, help="of each attack, in place of its own number")
    parser.add_argument("--minutes", type=float, help="of attacks that go on for a time")
    parser.add_argument("--callers", type=int, help="at the same time, of attacks on the service")
    parser.add_argument("--jobs", type=int, help="trials at the same time, where they may")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable),
        help="interpreter of the tree to attack",
    )
    parser.add_argument("--markdown", type=Path, help="file to write the table to")
    parser.add_argument("--folder", type=Path, help="to work in, and to keep; default: a temporary")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
