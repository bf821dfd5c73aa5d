"""Learned synonyms: what people approved becomes custom terms of the index."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from medcoder.kg import KG
from medcoder.mapping.store import Project
from medcoder.normalize.custom_terms import CustomTerm, add_terms
from medcoder.text import fold


def learn(project: Project, kg: KG, file: Path) -> dict[str, int]:
    """Add approved, equivalent pairs of text and concept to the table of custom terms at `file`.

    Says how many were added, and how many not: "known" are terms already, "ambiguous" mean one
    thing in one context and another in another, "lost" are of concepts that the graph lacks.
    """
    meant: defaultdict[str, dict[str, CustomTerm]] = defaultdict(dict)
    for mapping in project.terms("approved"):
        made = mapping.decision
        if made is None or made.concept is None or made.equivalence != "equivalent":
            continue
        entry = CustomTerm(mapping.row.text, made.concept, mapping.row.language)
        if entry.term:
            meant[fold(entry.term)].setdefault(made.concept, entry)
    counts = {"added": 0, "known": 0, "ambiguous": 0, "lost": 0}
    wanted = []
    for concepts in meant.values():
        if len(concepts) > 1:
            counts["ambiguous"] += 1
            continue
        [entry] = concepts.values()
        if entry.concept not in kg:
            counts["lost"] += 1
        elif entry.concept in kg.find(entry.term):
            counts["known"] += 1
        else:
            wanted.append(entry)
    counts["added"] = add_terms(file, kg, wanted)
    counts["known"] += len(wanted) - counts["added"]
    return counts
