"""Strings of many kinds and what the embedded index answers.

strings.tsv: string, whether it is accepted, threshold, namesakes, candidates; concepts.tsv: name
and codes of every candidate; ways.tsv: some of the strings under other options, with the way first.
A candidate is [concept, term, language, stage, cosine, similarity, score, confidence], the term
being "" where it is the name; with a filter by vocabulary, the codes that are left come last, then
the twins if there are any. After the tenth, it is [concept, score, confidence]. Codes are left out
where the id says them.
"""

import json

from compared import DIGITS, HERE, TOLERANCE

WAYS = {
    "exact": {"stages": ("exact",)},
    "dense": {"stages": ("dense",)},
    "ngram": {"stages": ("ngram",)},
    "vocabulary": {"vocabularies": ["ICD10CM"]},
    "two vocabularies": {"vocabularies": ["UMLS", "HP"]},
    "type": {"types": ["Abnormality of the nervous system", "HP:0001626"]},
    "language": {"languages": ["en"]},
    "threshold": {"threshold": 0.9},
    "top 1": {"top": 1},
    "top 100": {"top": 100},
}
EVERY = 33  # of the strings, so that some 60 are asked in each way
FULL = 10  # candidates of which all is kept


def strings():
    return [json.loads(line.split("\t")[0]) for line in _lines("strings.tsv")]


def chosen(way):
    return strings()[list(WAYS).index(way) :: EVERY]


def answers(normalizer, texts, **options):
    """Answers as they are written, and the concepts in them."""
    concepts, found = {}, []
    own = "vocabularies" in options
    for answer in normalizer.normalize_many(texts, **{"top": 5} | options):
        rows, rest = [], []
        for one in answer.candidates[FULL:]:
            rest.append([one.concept, round(one.score, DIGITS), round(one.confidence, DIGITS)])
        for one in answer.candidates[:FULL]:
            codes = [f"{code.vocabulary}|{code.code}" for code in one.codes]
            if not own:
                bare = [f"{v}|{code}" for v, code in normalizer.kg.codes_of(one.concept)]
                told = bare in ([f"HP|{one.concept}"], [one.concept.replace(":", "|", 1)])
                concepts[one.concept] = [one.name] if told else [one.name, bare]
            numbers = (one.cosine, one.similarity, one.score, one.confidence)
            rows.append(
                [one.concept, "" if one.term == one.name else one.term, one.language, one.stage[0],
                 *(None if number is None else round(number, DIGITS) for number in numbers),
                 *([codes] if own else []), *([list(one.twins)] if one.twins else [])]
            )  # fmt: skip
        accepted = bool(answer.matches)
        found.append([accepted, round(answer.threshold, DIGITS), answer.namesakes, rows + rest])
    return found, concepts


def recorded():
    """What is written: of strings by way, the plain way being ""."""
    found = {"": {}}
    for line in _lines("strings.tsv"):
        text, *rest = map(json.loads, line.split("\t"))
        found[""][text] = rest
    for line in _lines("ways.tsv"):
        way, text, *rest = map(json.loads, line.split("\t"))
        found.setdefault(way, {})[text] = rest
    return found


def concepts():
    return {json.loads(line)[0]: json.loads(line)[1:] for line in _lines("concepts.tsv")}


def record(normalizer):
    asked = {way: chosen(way) for way in WAYS}
    texts = strings()
    found, named = answers(normalizer, texts)
    _write("strings.tsv", ([text, *one] for text, one in zip(texts, found, strict=True)))
    rows = []
    for way, some in asked.items():
        found, more = answers(normalizer, some, **WAYS[way])
        named |= more
        rows += [[way, text, *one] for text, one in zip(some, found, strict=True)]
    _write("ways.tsv", rows)
    _write("concepts.tsv", ([[concept, *named[concept]]] for concept in sorted(named)))


def compare(old, new):
    """Lines on how an answer differs; candidates may change places where scores are that near."""
    for name, one, other in zip(("accepted", "threshold", "namesakes"), old, new, strict=False):
        if not _near(one, other):
            yield f"{name}: was {one}, is {other}"
    yield from _candidates(old[3], new[3])


def _candidates(old, new):
    if len(old) != len(new):
        yield f"candidates: were {len(old)}, are {len(new)}"
    for place, (one, other) in enumerate(zip(old, new, strict=False)):
        if one[0] == other[0]:
            good = len(one) == len(other) and all(map(_near, one, other))
        else:
            good = _may_swap(one, other, old)
        if not good:
            yield f"candidate {place + 1}: was {one}, is {other}"


def _may_swap(one, other, old):
    """Whether another candidate may stand here: one of nearly the same score, and no namesake."""
    if "e" in (one[3:4] + other[3:4]) or not _near(_score(one), _score(other)):
        return False
    was = [row for row in old if row[0] == other[0]]
    if not was:
        return _near(_score(other), _score(old[-1]))
    return _near(_score(was[0]), _score(other)) and was[0][1:] != one[1:]


def _score(row):
    return row[1] if len(row) == 3 else row[6]


def _near(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= TOLERANCE
    return one == other


def _lines(name):
    return [line for line in (HERE / name).read_text(encoding="utf-8").split("\n") if line]


def _write(name, rows):
    lines = ("\t".join(map(_json, row)) for row in rows)
    (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
