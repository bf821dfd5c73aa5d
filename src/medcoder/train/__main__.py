"""`torchrun -m medcoder.train`, and `python -m medcoder.train` where torch is all there is."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from medcoder.errors import MedcoderError, UsageError
from medcoder.train.config import load
from medcoder.train.processes import join, leave
from medcoder.train.session import open_run, speaking


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _train(options)
    except (MedcoderError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return getattr(error, "exit_code", UsageError.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: go on from the checkpoint with --resume\n")
        return 130
    leave()
    return 0


def _train(options: argparse.Namespace) -> None:
    config = load(options.config, options.set)
    if options.languages:
        config = speaking(config, options.languages.split(","))
    run = open_run(
        options.kg,
        options.init,
        options.out,
        config,
        extra=options.extra,
        teachers=options.teacher,
        evaluate=options.evaluate,
    )
    if options.dry_run:
        from medcoder.train.session import plan

        figures = plan(run)
        if join()[0] == 0:
            _print(figures)
        return
    run.train(
        options.out,
        resume=options.resume,
        stop_after=options.stop_after,
        tensorboard=options.tensorboard,
        progress=_print,
    )


def _print(figures: object) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="medcoder.train", description=__doc__)
    parser.add_argument("--kg", type=Path, required=True, help="directory of the graph")
    parser.add_argument("--init", required=True, help="Hugging Face model to start from")
    parser.add_argument("--out", type=Path, required=True, help="directory of the run")
    parser.add_argument("--config", type=Path, help="TOML file of settings")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--languages", help="draw terms of these alone, as in: en,es")
    parser.add_argument("--extra", type=Path, help="table: term, concept, language, weight")
    parser.add_argument(
        "--teacher", action="append", default=[], metavar="PATH[,weight=W][,languages=en+fr]"
    )
    parser.add_argument(
        "--evaluate", type=Path, help="table: query, concept; the best model on it is kept"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--stop-after", type=int, metavar="STEPS")
    parser.add_argument("--tensorboard", action="store_true", help="write event files too")
    parser.add_argument("--dry-run", action="store_true", help="print the plan as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
