"""The three stages: which concepts may be meant by a string, and how near each is to it.

A batch of strings goes through each stage as a whole, as arrays of pairs of a string and a row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from medcoder.index import RowIndex
from medcoder.kg import KG
from medcoder.normalize.batch import Batch, Embed, Floats, Scored, parts
from medcoder.normalize.custom import custom_mask, custom_slips, with_custom
from medcoder.normalize.custom_terms import Overlay
from medcoder.normalize.fusion import Candidate, Fusion, Search
from medcoder.normalize.grams import Grams
from medcoder.normalize.owners import Owners
from medcoder.normalize.pairs import Flags, Ints, Pairs, enough
from medcoder.text import fold
from medcoder.vectors import NO_ROW, Vectors

_COMPARED = 16  # of the rows most alike, those that are compared with the query word by word
_EQUAL = 1e-6  # by which scores of one name may differ
_WORDS = 1 << 16  # rows whose words stay in memory


class Candidates:
    """Finds candidates for queries in a graph and its overlay."""

    def __init__(
        self, kg: KG, vectors: Vectors, index: RowIndex, grams: Grams, overlay: Overlay
    ) -> None:
        self.kg, self.vectors, self.index, self.grams = kg, vectors, index, grams
        self.overlay = overlay
        self._words = lru_cache(_WORDS)(self._row_words)

    def find(
        self,
        queries: Sequence[str],
        embed: Embed | None,
        search: Search,
        *,
        without: Sequence[Collection[int]] | None = None,
    ) -> list[list[Candidate]]:
        """Candidates of each query, best first.

        embed: encodes queries, for the dense stage. A query that is a term but for a slip in a word
            is not encoded: it takes the vector of that term, as if it were spelt so
        without: numbers of terms that do not exist for a query; calibration asks so
        """
        return [
            candidates
            for part in parts(queries, embed, search, without)
            for candidates in self._find(*part)
        ]

    def _find(
        self,
        queries: Sequence[str],
        embed: Embed | None,
        search: Search,
        without: Sequence[Collection[int]] | None,
    ) -> list[list[Candidate]]:
        hidden = without if without is not None else [()] * len(queries)
        known = [
            self.grams.known(query, self._hidden_texts(terms))
            for query, terms in zip(queries, hidden, strict=True)
        ]
        asked = Batch(
            queries,
            [fold(query).split() for query in queries],
            known,
            np.array([all(words) for words in known], np.bool_),
            Owners(self.kg, self.vectors, search.allowed, without),
            custom_mask(self.overlay, search.allowed),
            search,
        )
        alike = self._alike(asked, dense=embed is not None)
        spelt = self._spelt(asked, alike)
        vectors = self._embedded(asked, embed, alike.of(spelt)) if embed is not None else None
        near = self._near(asked, vectors)
        scored = self._scored(asked, vectors, near, alike, spelt)
        ranked = self._ranked(asked, vectors, scored, hidden)
        self._name(asked, ranked)
        if asked.letters:
            self._spell(asked, ranked)
        return ranked

    def _alike(self, asked: Batch, *, dense: bool) -> Pairs:
        """What is spelt in known words is ranked by meaning alone, if it can be: see `Fusion`."""
        if not asked.letters:
            return Pairs.none()
        mask = None if asked.search.allowed is None else asked.search.allowed.rows

        def look(queries: Ints, size: int) -> Pairs:
            texts = [asked.texts[place] for place in queries.tolist()]
            return Pairs.joined(queries, self.grams.search(texts, size, allowed=mask))

        places = np.flatnonzero(~asked.known | (not dense))
        return enough(look, places, asked.owners, asked.rows, asked.wanted)

    def _near(self, asked: Batch, vectors: Floats | None) -> Pairs:
        if vectors is None or not len(vectors):
            return Pairs.none()
        mask = None if asked.search.allowed is None else asked.search.allowed.rows

        def look(queries: Ints, size: int) -> Pairs:
            scores, rows = self.index.search(vectors[queries], size, allowed=mask)
            real = rows >= 0
            query = np.broadcast_to(queries[:, None], rows.shape)[real]
            return Pairs(query, rows[real], np.minimum(scores[real], 1).astype(np.float64))

        return enough(look, np.arange(len(vectors)), asked.owners, asked.rows, asked.wanted)

    def _spelt(self, asked: Batch, alike: Pairs) -> Flags:
        """Which rows are the query but for a slip in a word: one that no term has."""
        found = np.zeros(len(alike.row), np.bool_)
        first = np.searchsorted(alike.query, alike.query)
        looked_at = ~asked.known[alike.query] & (np.arange(len(found)) - first < _COMPARED)
        looked_at &= asked.owners.seen(alike.query, alike.row)
        for place in np.flatnonzero(looked_at).tolist():
            words = self._words(int(alike.row[place]))
            found[place] = asked.spelt(int(alike.query[place]), words)
        return found

    def _embedded(self, asked: Batch, embed: Embed, spelt: Pairs) -> Floats:
        """Vectors of the queries, or of the most similar term that they are but for a slip."""
        vectors = np.empty((len(asked.texts), self.vectors.width), np.float32)
        places, first = np.unique(spelt.query, return_index=True)
        vectors[places] = self.vectors.take(spelt.row[first])
        similar = dict(zip(places.tolist(), spelt.value[first].tolist(), strict=True))
        if len(self.overlay):
            for place, (number, similarity) in custom_slips(self.overlay, self.grams, asked):
                if similarity > similar.get(place, 0.0):
                    vectors[place] = self.overlay.vector(number)
                    similar[place] = similarity
        left = [place for place in range(len(vectors)) if place not in similar]
        if left:
            vectors[left] = embed(left)
        return vectors

    def _scored(
        self, asked: Batch, vectors: Floats | None, near: Pairs, alike: Pairs, spelt: Flags
    ) -> Scored:
        """The terms of all rows, each row with what the one stage says of those of the other."""
        keys, others = near.keys(len(self.vectors)), alike.keys(len(self.vectors))
        similarity, slip = np.full(len(keys), np.nan), np.zeros(len(keys), np.bool_)
        both, order = np.isin(keys, others), np.argsort(others)
        there = order[np.searchsorted(others, keys[both], sorter=order)]
        similarity[both], slip[both] = alike.value[there], spelt[there]
        if asked.letters:
            unlike = ~both & ~asked.known[near.query]
            similarity[unlike] = self._similarities(asked, near.of(unlike))
        new = ~np.isin(others, keys)
        far = alike.of(new)
        cosine = np.full(len(far.row), np.nan)
        if vectors is not None:
            rows = self.vectors.take(far.row)
            cosine[:] = np.minimum(np.einsum("rd,rd->r", rows, vectors[far.query]), 1)
        query, row = np.concatenate([near.query, far.query]), np.concatenate([near.row, far.row])
        cosine = np.concatenate([near.value, cosine])
        similarity = np.concatenate([similarity, far.value])
        slip = np.concatenate([slip, spelt[new]])
        if vectors is None or not asked.letters:
            score = similarity if vectors is None else cosine
        else:
            score = asked.search.fusion.scores(
                cosine, np.nan_to_num(similarity), known=asked.known[query], spelt=slip
            )
        dense = np.arange(len(row)) < len(near.row)
        owned = asked.owners.of(query, row)
        return Scored(
            query[owned.place],
            owned.concept,
            owned.term,
            dense[owned.place],
            cosine[owned.place],
            similarity[owned.place],
            score[owned.place],
            slip[owned.place],
        )

    def _similarities(self, asked: Batch, pairs: Pairs) -> Floats:
        counts = np.bincount(pairs.query, minlength=len(asked.texts))
        some = np.flatnonzero(counts)
        texts = [asked.texts[place] for place in some.tolist()]
        return self.grams.similarities(texts, counts[some], pairs.row)

    def _ranked(
        self,
        asked: Batch,
        vectors: Floats | None,
        scored: Scored,
        hidden: Sequence[Collection[int]],
    ) -> list[list[Candidate]]:
        """Each concept once, by its best term; exact ones first."""
        if len(self.overlay):
            scored = with_custom(self.overlay, self.grams, asked, vectors, scored)
        order = np.lexsort((scored.term, -scored.score, scored.concept, scored.query))
        same = np.diff(scored.query[order], prepend=-1) | np.diff(scored.concept[order], prepend=-1)
        scored = scored.of(order[same != 0])
        scored = scored.of(np.lexsort((scored.concept, -scored.score, scored.query)))
        exact = [
            self._exact(query, asked, terms) if "exact" in asked.search.stages else {}
            for query, terms in zip(asked.texts, hidden, strict=True)
        ]
        same_letters = 1.0 if asked.letters else None
        ranked = [
            [
                Candidate(
                    concept, term, "exact", self._cosine(term, vectors, place), same_letters, 1.0
                )
                for concept, term in terms.items()
            ]
            for place, terms in enumerate(exact)
        ]
        known = asked.known.tolist()
        for query, concept, term, dense, cosine, similarity, score, spelt in zip(
            *(column.tolist() for column in scored), strict=True
        ):
            if concept not in exact[query]:
                ranked[query].append(
                    Candidate(
                        concept,
                        term,
                        "dense" if dense else "ngram",
                        cosine if cosine == cosine else None,
                        similarity if similarity == similarity else None,
                        score,
                        known[query],
                        spelt,
                    )
                )
        return ranked

    def _exact(self, query: str, asked: Batch, hidden: Collection[int]) -> dict[int, int]:
        """Terms by concept: custom ones, then those whose preferred name it is, then others."""
        allowed = asked.search.allowed
        exact = {
            concept: -1 - number
            for concept, number in self.overlay.exact(query)
            if asked.custom[number]
        }
        found = self.kg.find_terms(query)
        found.sort(key=lambda pair: pair[1] != self.kg.terms.first[pair[0]])
        for concept, term in found:
            if (allowed is None or allowed.terms[term]) and term not in hidden:
                exact.setdefault(concept, term)
        return exact

    def _cosine(self, term: int, vectors: Floats | None, place: int) -> float | None:
        if vectors is None:
            return None
        if term < 0:
            return min(float(self.overlay.cosines(vectors[place])[-1 - term]), 1.0)
        row = int(self.vectors.term_row[term])
        if row == NO_ROW:
            return None
        found = np.einsum("rd,d->r", self.vectors.take(np.array([row])), vectors[place])
        return min(float(found[0]), 1.0)

    def _name(self, asked: Batch, ranked: Sequence[Sequence[Candidate]]) -> None:
        """Say by which name the first candidates, and all as near as the best, are found."""
        for words, candidates in zip(asked.words, ranked, strict=True):
            for place, one in enumerate(candidates):
                if one.stage == "exact":
                    one.name = " ".join(words)
                elif place >= asked.wanted and one.score < candidates[0].score - _EQUAL:
                    break
                elif one.term < 0:
                    one.name = fold(self.overlay.texts[-1 - one.term])
                else:
                    one.name = " ".join(self._words(int(self.vectors.term_row[one.term])))

    def _spell(self, asked: Batch, ranked: Sequence[Sequence[Candidate]]) -> None:
        """Say how similar the first candidates are, where it was not needed to rank them."""
        some = [
            (place, one)
            for place, candidates in enumerate(ranked)
            for one in candidates[: asked.wanted]
            if one.similarity is None
        ]
        if some:  # all of the graph, and with rows: letters count for those of the overlay
            rows = self.vectors.term_row[[one.term for _, one in some]].astype(np.int64)
            places = np.array([place for place, _ in some])
            similar = self._similarities(asked, Pairs(places, rows, np.empty(0)))
            for (_, one), similarity in zip(some, similar.tolist(), strict=True):
                one.similarity = similarity

    def _hidden_texts(self, hidden: Collection[int]) -> list[str]:
        """Texts of rows that have no term left."""
        rows = {int(self.vectors.term_row[term]) for term in hidden} - {NO_ROW}
        return [
            self._row_text(row)
            for row in sorted(rows)
            if all(term in hidden for term in self.vectors.terms_of(row).tolist())
        ]

    def _row_text(self, row: int) -> str:
        return self.kg.terms.text(int(self.vectors.terms_of(row)[0]))

    def _row_words(self, row: int) -> list[str]:
        return fold(self._row_text(row)).split()


__all__ = ["Candidate", "Candidates", "Embed", "Fusion", "Search"]
