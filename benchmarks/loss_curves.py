"""Draw the losses of training runs, one line a run, from their metrics.jsonl.

python benchmarks/loss_curves.py docs/loss-curves.png full=RUN/metrics.jsonl ...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

PANELS = {"term": "term-term loss", "relation": "term-relation-term loss"}
STYLES = [("#1b6ca8", "-"), ("#d1495b", "--"), ("#3c7a3e", "-."), ("#6b4c9a", ":")]


def main() -> None:
    out, *specs = sys.argv[1:]
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        for spec, (colour, style) in zip(specs, STYLES, strict=False):
            label, _, path = spec.partition("=")
            lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
            lines = [line for line in lines if line.get(name)]
            if lines:
                steps = [line["step"] for line in lines]
                values = [line[name] for line in lines]
                axes.plot(steps, values, style, color=colour, label=label, linewidth=1.4)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("step")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main()
