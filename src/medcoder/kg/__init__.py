"""The read-only knowledge graph: memory-mapped, opened in milliseconds at any size."""

from medcoder.kg.columns import Triples
from medcoder.kg.graph import KG, KIND, VERSION, Ids

__all__ = ["KG", "KIND", "VERSION", "Ids", "Triples"]
