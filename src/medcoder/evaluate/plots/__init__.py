"""Pictures: t-SNE of terms and of concepts, reliability, risk and coverage, languages by corpora.

Each is written as PNG and SVG, with colours that colour-blind people can tell apart and shapes or
letters that do without colour. The same data and seed give the same picture.
"""

from __future__ import annotations

from medcoder.evaluate.plots.confidence import reliability, risk_coverage
from medcoder.evaluate.plots.heat import heat_map
from medcoder.evaluate.plots.tsne import tsne_concepts, tsne_terms

__all__ = ["heat_map", "reliability", "risk_coverage", "tsne_concepts", "tsne_terms"]
