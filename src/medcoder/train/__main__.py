"""`torchrun -m medcoder.train`, and `python -m medcoder.train` where torch is all there is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from medcoder.config import load
from medcoder.errors import MedcoderError
from medcoder.train.run import open_run, plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="medcoder.train", description=__doc__)
    parser.add_argument("--kg", type=Path, required=True, help="directory of the graph")
    parser.add_argument("--init", required=True, help="Hugging Face model to start from")
    parser.add_argument("--out", type=Path, required=True, help="directory of the run")
    parser.add_argument("--config", type=Path, help="TOML file of settings")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--extra", type=Path, help="table of extra terms: term, concept, weight")
    parser.add_argument("--teacher", action="append", default=[], metavar="PATH[,weight=W]")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--stop-after", type=int, metavar="STEPS")
    parser.add_argument("--dry-run", action="store_true", help="print the plan as JSON")
    options = parser.parse_args()
    try:
        config = load(options.config, options.set)
        run = open_run(
            options.kg,
            options.init,
            options.out,
            config,
            extra=options.extra,
            teachers=options.teacher,
        )
        if options.dry_run:
            sys.stdout.write(json.dumps(plan(run)) + "\n")
            return 0
        run.train(
            options.out,
            resume=options.resume,
            stop_after=options.stop_after,
            progress=lambda line: sys.stdout.write(json.dumps(line) + "\n"),
        )
    except MedcoderError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: a checkpoint was saved, go on with --resume\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
