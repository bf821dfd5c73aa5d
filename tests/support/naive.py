"""The formulas of the paper as plain loops, one sum after another: what the fast code must equal.

Matrices are lists of lists or arrays; sums of exponentials are worked out in decimals, which do not
overflow.
"""

import math
from decimal import Decimal


def multi_similarity(scores, positive, negative, *, alpha=2.0, beta=50.0, lam=0.5, eps=0.1):
    total = 0.0
    for row, far, near in zip(
        scores, *hard_pairs(scores, positive, negative, eps=eps), strict=True
    ):
        pulled = sum((Decimal(-alpha * (row[j] - lam)).exp() for j in far), Decimal(0))
        pushed = sum((Decimal(beta * (row[j] - lam)).exp() for j in near), Decimal(0))
        total += float((1 + pulled).ln()) / alpha + float((1 + pushed).ln()) / beta
    return total / len(scores)


def hard_pairs(scores, positive, negative, *, eps=0.1):
    """P_i and N_i of every anchor, as sets of items."""
    kept_positive, kept_negative = [], []
    for i, row in enumerate(scores):
        positives = [j for j in range(len(row)) if positive[i][j]]
        negatives = [j for j in range(len(row)) if negative[i][j]]
        kept_positive.append(set())
        kept_negative.append(set())
        # An anchor with no positive has an empty N_i too, one with no negative an empty P_i.
        if positives and negatives:
            least = min(row[k] for k in positives)
            most = max(row[k] for k in negatives)
            kept_positive[i] = {j for j in positives if row[j] < most + eps}
            kept_negative[i] = {j for j in negatives if row[j] > least - eps}
    return kept_positive, kept_negative


def info_nce(scores, positive, negative, *, temperature=0.05):
    means = []
    for i, row in enumerate(scores):
        powers = [Decimal(score / temperature).exp() for score in row]
        others = sum(power for j, power in enumerate(powers) if negative[i][j])
        losses = [
            -float((power / (power + others)).ln())
            for j, power in enumerate(powers)
            if positive[i][j]
        ]
        if losses:
            means.append(sum(losses) / len(losses))
    return sum(means) / len(means) if means else 0.0


def cosine(one, other):
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / (norm(one) * norm(other))


def norm(vector):
    return math.sqrt(sum(a * a for a in vector))


def cosines(vectors):
    return [[cosine(one, other) for other in vectors] for one in vectors]


def synonyms(concepts):
    """Whether two items are of one concept, and whether they are not; never an item with itself."""
    count = range(len(concepts))
    positive = [[i != j and concepts[i] == concepts[j] for j in count] for i in count]
    negative = [[concepts[i] != concepts[j] for j in count] for i in count]
    return positive, negative


# Term-relation-term similarities of one step: parameters of the relation of each head.


def bilinear(matrices, heads, tails):
    return [
        [cosine(_transposed_times(matrix, head), tail) for tail in tails]
        for matrix, head in zip(matrices, heads, strict=True)
    ]


def diagonal(vectors, heads, tails):
    width = range(len(heads[0]))
    matrices = [[[d[a] if a == b else 0.0 for b in width] for a in width] for d in vectors]
    return bilinear(matrices, heads, tails)


def low_rank(factors, heads, tails):
    """M = I + U V^T."""
    width = range(len(heads[0]))
    matrices = []
    for left, right in factors:
        matrices.append(
            [
                [
                    (a == b) + sum(u * v for u, v in zip(left[a], right[b], strict=True))
                    for b in width
                ]
                for a in width
            ]
        )
    return bilinear(matrices, heads, tails)


def translation(vectors, heads, tails):
    return [
        [-norm([h + r - t for h, r, t in zip(head, row, tail, strict=True)]) for tail in tails]
        for row, head in zip(vectors, heads, strict=True)
    ]


def _transposed_times(matrix, vector):
    width = range(len(vector))
    return [sum(matrix[a][b] * vector[a] for a in width) for b in width]


# Terms of the objective with given vectors, one step.


def names(vectors, concepts, asked, names, owners, *, temperature=0.05, each=0.5):
    """Mean over the terms that are asked of -log of what the names of their concept have."""
    losses = []
    for vector, concept, wanted in zip(vectors, concepts, asked, strict=True):
        if not wanted:
            continue
        scores = [cosine(vector, name) / temperature for name in names]
        powers = [Decimal(score).exp() for score in scores]
        own = [number for number, owner in enumerate(owners) if owner == concept]
        together = sum(powers[number] for number in own) / sum(powers)
        singly = [powers[number] / sum(powers) for number in own]
        mean = sum(float(power.ln()) for power in singly) / len(singly)
        losses.append(-(1 - each) * float(together.ln()) - each * mean)
    return sum(losses) / len(losses) if losses else 0.0


def hold(vectors, targets, known):
    """Mean of 1 - cos over the vectors that are held."""
    losses = [
        1 - cosine(vector, target)
        for vector, target, held in zip(vectors, targets, known, strict=True)
        if held
    ]
    return sum(losses) / len(losses) if losses else 0.0


def pairs(texts, others, alike, *, temperature=0.05, both=True):
    """InfoNCE of each text with its partner; `alike(i, j)` of two numbers are no negatives.

    With `both`, texts and others are anchors and items; without, texts among others.
    """
    count = len(texts)
    anchors = [*texts, *others] if both else texts
    items = anchors if both else others
    losses = []
    for number, anchor in enumerate(anchors):
        partner = (number + count) % (2 * count) if both else number
        own = Decimal(cosine(anchor, items[partner]) / temperature).exp()
        total = own
        for other, item in enumerate(items):
            if other != partner and not alike(number, other):
                total += Decimal(cosine(anchor, item) / temperature).exp()
        losses.append(-float((own / total).ln()))
    return sum(losses) / len(losses)
