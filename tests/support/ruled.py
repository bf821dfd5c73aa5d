"""A graph in which each two words are of two concepts, and strings that follow a rule.

The string "heart acute" means "acute heart rash burn", although "heart acute cough" is nearer.
Weights that are fitted to the graph do not know that.
"""

from medcoder import Normalizer
from medcoder.bundled.models import bundled_weights
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.build import CALIBRATION, build, read_calibration, write_calibration
from medcoder.normalize.calibrate import Calibration, judge
from medcoder.normalize.fitting import fit
from medcoder.normalize.stages import calibration_name, stage_sets
from support.bag import write_bag
from support.many import WORDS, small_source

PAIRS = [(one, other) for one in WORDS[:8] for other in WORDS[12:20]]
STRINGS = [(f"{one} {other}", f"L{number:02}") for number, (one, other) in enumerate(PAIRS)]


def write_ruled(folder):
    """Its index, which says that its calibration was given."""
    build_kg([small_source(list(_rows()))], folder / "ruled.kg")
    kg, encoder = KG.open(folder / "ruled.kg"), write_bag(folder / "bag.onnx", WORDS)
    path = folder / "ruled.index"
    build(kg, encoder, path, calibration=bundled_weights())
    fusion, _ = read_calibration(path / CALIBRATION)
    write_calibration(folder, fusion, _fitted(Normalizer.load(path)))
    build(kg, encoder, path, calibration=folder / CALIBRATION, overwrite=True)
    return path


def _rows():
    for number, (one, other) in enumerate(PAIRS):
        near, meant = f"{one} {other} cough", f"{other} {one} rash burn"
        yield (f"S{number:02}", near, "en", "MSH", f"s{number}", "PT", 0)
        yield (f"L{number:02}", meant, "en", "SNOMEDCT_US", f"l{number}", "PT", 0)


def _fitted(normalizer):
    """Calibrations that start from nothing: they are the same whatever comes with the package."""
    fitted = {}
    for stages in stage_sets():
        drawn = [found for _, found in normalizer.drawn(len(normalizer.kg), stages) if found]
        weights = fit(drawn)
        judged = judge(weights, drawn)
        fitted[calibration_name(stages)] = Calibration.measured(weights, drawn, *judged)
    return fitted


def write_strings(file, strings=STRINGS):
    lines = ["string,concept", *(f"{text},{concept}" for text, concept in strings)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
