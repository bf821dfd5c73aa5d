"""Search as plain loops: what the stages of normalising must equal."""

import math
import re
from collections import Counter

import numpy as np

from medcoder.bundled.senses import bundled_senses
from medcoder.kg.keys import vocabulary_key
from medcoder.normalize.words import bundled_words
from medcoder.text import fold

SHORTEST = 6  # letters of a word that may have a slip


def trigrams(text):
    padded = f" {fold(text)[:512]} "
    return {padded[place : place + 3] for place in range(len(padded) - 2)}


class Trigrams:
    """Binary counts, idf = ln((n + 1) / (df + 1)) + 1, cosine."""

    def __init__(self, texts):
        self.sets = [trigrams(text) for text in texts]
        self.df = Counter(gram for found in self.sets for gram in found)

    def idf(self, gram):
        return math.log((len(self.sets) + 1) / (self.df[gram] + 1)) + 1

    def norm(self, found):
        return math.sqrt(math.fsum(self.idf(gram) ** 2 for gram in found))

    def cosine(self, one, other):
        shared = math.fsum(self.idf(gram) ** 2 for gram in one & other)
        return shared / (self.norm(one) * self.norm(other)) if shared else 0.0

    def scores(self, text):
        mine = trigrams(text)
        return [self.cosine(mine, theirs) for theirs in self.sets]


def edits(one, other):
    """Letters dropped, added, replaced or swapped with the next: the least that it takes."""
    far = {(a, 0): a for a in range(len(one) + 1)} | {(0, b): b for b in range(len(other) + 1)}
    for a in range(1, len(one) + 1):
        for b in range(1, len(other) + 1):
            far[a, b] = min(
                far[a - 1, b] + 1,
                far[a, b - 1] + 1,
                far[a - 1, b - 1] + (one[a - 1] != other[b - 1]),
            )
            if a > 1 and b > 1 and (one[a - 1], one[a - 2]) == (other[b - 2], other[b - 1]):
                far[a, b] = min(far[a, b], far[a - 2, b - 2] + 1)
    return far[len(one), len(other)]


def but_for_slips(one, other, known=(), shortest=SHORTEST):
    """Whether strings have the same words but for a slip in each: of no digit, in no short word.

    known: words of the first that are right as they are
    """
    words, others = fold(one).split(), fold(other).split()
    return len(words) == len(others) and all(
        a == b
        or (
            a not in known
            and len(a) >= shortest
            and edits(a, b) == 1
            and [c for c in a if not c.isalpha()] == [c for c in b if not c.isalpha()]
        )
        for a, b in zip(words, others, strict=True)
    )


def shouted(text):
    """Words in capitals, which say what they say."""
    return {
        fold(word) for word in re.split(r"[\W_]+", text) if word.upper() == word != word.lower()
    }


def abbreviated():
    """All that the dictionary has, of one word."""
    return {fold(sense.abbreviation) for sense in bundled_senses()}


class Ranking:
    """Candidates for a query among all terms of a graph, one after the other."""

    def __init__(self, kg, vectors):
        self.kg, self.vectors = kg, vectors
        # Of each term its concept, text, language and row; extensions have no row.
        self.terms = []
        for number, concept in enumerate(kg):
            for term in kg.terms_of(concept):
                row = int(vectors.term_row[len(self.terms)])
                self.terms.append((number, term.text, term.language, row))
        self.texts = {row: text for _, text, _, row in self.terms if row >= 0}
        self.letters = Trigrams([self.texts[row] for row in range(len(vectors))])
        self.short = abbreviated()

    def kept(self, *, types=None, vocabularies=None, languages=None):
        """Numbers of the terms that a filter keeps."""
        kept = set()
        for number, (concept, _, language, _) in enumerate(self.terms):
            name = self.kg.ids([concept])[0]
            of_type = {part for entry in self.kg.types_of(name) for part in entry}
            coded = {vocabulary_key(code.vocabulary) for code in self.kg.codes_of(name)}
            if (
                (types is None or of_type & set(types))
                and (vocabularies is None or coded & set(map(vocabulary_key, vocabularies)))
                and (languages is None or {language, language.split("-")[0]} & set(languages))
            ):
                kept.add(number)
        return kept

    def rank(self, query, vector, stages, fusion, kept, *, rows=None):
        """(concept, term, stage, cosine, similarity, score) of each concept, best first.

        rows: that each stage gives; by default, all
        """
        open_rows = sorted({self.terms[number][3] for number in kept} - {-1})
        alike = self.letters.scores(query)
        shared = [row for row in open_rows if alike[row]]
        similar = sorted(shared, key=lambda row: (-np.float32(alike[row]), row))[:rows]
        words = {word for text in self.texts.values() for word in fold(text).split()}
        right = {
            word
            for word in fold(query).split()
            if word in words or word in bundled_words() or word in self.short
        }
        known = right == set(fold(query).split())
        right |= shouted(query)
        slips = [row for row in similar[:16] if but_for_slips(query, self.texts[row], right)]
        slips = slips if {"slip", "ngram"} <= set(stages) and not known else []
        like = [row for row in similar[:16] if but_for_slips(query, self.texts[row], right, 4)]
        like = like if "ngram" in stages and not known else []
        vectors = self.vectors.rows.astype(np.float32)
        same = sorted(
            (number != self.kg.terms.first[self.terms[number][0]], number)
            for number in kept
            if "exact" in stages and fold(self.terms[number][1]) == fold(query)
        )
        if same and self.terms[same[0][1]][3] >= 0:  # a name has the vector of that name
            vector = vectors[self.terms[same[0][1]][3]]
        elif slips:  # as if it were spelt so
            vector = vectors[slips[0]]
        cosines = [min(float(row @ vector), 1.0) for row in vectors]
        near = sorted(open_rows, key=lambda row: (-np.float32(cosines[row]), row))[:rows]
        dense = set(near) if "dense" in stages else set()
        letters = "ngram" in stages and not (known and "dense" in stages)
        ngram = set(similar) if letters else set()
        best = {}
        for number in sorted(kept):
            concept, text, _, row = self.terms[number]
            cosine = cosines[row] if "dense" in stages and row >= 0 else None
            similarity = alike[row] if "ngram" in stages and row >= 0 else None
            if "exact" in stages and fold(text) == fold(query):
                same = 1.0 if "ngram" in stages else None
                preferred = number == self.kg.terms.first[concept]
                order = (0, not preferred, concept, number)
                entry = (concept, number, "exact", cosine, same, 1.0)
            elif row in dense | ngram:
                score = fusion.score(cosine, similarity, known=known, spelt=row in like)
                order = (1, -score, concept, number)
                given = "dense" if row in dense else "ngram"
                entry = (concept, number, "slip" if row in slips else given)
                entry += (cosine, similarity, score)
            else:
                continue
            best[concept] = min(best.get(concept, (order, entry)), (order, entry))
        return [entry for _, entry in sorted(best.values())]
