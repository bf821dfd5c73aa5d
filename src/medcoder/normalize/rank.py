"""Rank the concepts that a string may mean: what the stages find, fused and put in order.

A batch of strings goes through each stage as a whole, as arrays of pairs of a string and a row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from medcoder.index import RowIndex
from medcoder.kg import KG
from medcoder.normalize.abbreviations import bundled_abbreviations
from medcoder.normalize.batch import (
    ROWS,
    SLIP,
    Batch,
    Candidate,
    Embed,
    Flags,
    Floats,
    Hidden,
    Pairs,
    Scored,
    Search,
    chunks,
    united,
)
from medcoder.normalize.custom_terms import CustomTerms, custom_mask, custom_typos, with_custom
from medcoder.normalize.features import MEASURED, Absent, Measures
from medcoder.normalize.filters import Ints, RowTerms
from medcoder.normalize.stages import STAGES, HitStage, LetterStage, MeaningStage, Measure, Searched
from medcoder.normalize.stages.letters import Grams
from medcoder.normalize.typos import in_capitals
from medcoder.normalize.words import bundled_words
from medcoder.text import fold, nothing_meant
from medcoder.vectors import NO_ROW, Vectors

_COMPARED = 16  # of the rows most alike, those that are compared with the query word by word
_EQUAL = 1e-6  # by which scores of the same name may differ
_WORDS = 1 << 16  # rows whose words stay in memory


class Ranker:
    """Finds and ranks candidates for queries in a graph and a user's own terms."""

    def __init__(
        self, kg: KG, vectors: Vectors, index: RowIndex, grams: Grams, custom: CustomTerms
    ) -> None:
        self.kg, self.vectors, self.grams, self.custom_terms = kg, vectors, grams, custom
        self._searched = Searched(kg, vectors, index, grams, custom)
        self._words = lru_cache(_WORDS)(self._row_words)
        self._measures = Measures(kg, vectors, grams)

    def find(
        self,
        queries: Sequence[str],
        embed: Embed | None,
        search: Search,
        *,
        without: Hidden | None = None,
    ) -> list[list[Candidate]]:
        """Candidates of each query, best first.

        embed: encodes queries, for the dense stage. A query that is a term, or is but for a slip
            in a word, is not encoded: it takes the vector of that term, as if it were spelt so
        without: numbers of terms that do not exist for a query; calibration asks so
        """
        return [
            candidates
            for part in chunks(queries, embed, search, without)
            for candidates in self._find(*part)
        ]

    def _find(
        self,
        queries: Sequence[str],
        embed: Embed | None,
        search: Search,
        without: Hidden | None,
    ) -> list[list[Candidate]]:
        hidden = without if without is not None else [()] * len(queries)
        gone = [self._hidden_texts(terms) for terms in hidden]
        words = [fold(query).split() for query in queries]
        known = [
            _known(theirs, self.grams.known(query, texts))
            for query, theirs, texts in zip(queries, words, gone, strict=True)
        ]
        stages = [STAGES.load(name)(self._searched) for name in STAGES if name in search.stages]
        letters: list[LetterStage] = _measuring(stages, "similarity")
        meaning: list[MeaningStage] = _measuring(stages, "cosine") if embed is not None else []
        asked = Batch(
            texts=queries,
            words=words,
            right_words=[
                some if all(some) else _right(query, theirs, some)
                for query, theirs, some in zip(queries, words, known, strict=True)
            ],
            known=np.array([all(some) for some in known], np.bool_),
            unsettled=np.ones(len(queries), np.bool_),
            row_terms=RowTerms(self.kg, self.vectors, search.allowed, without),
            hidden=hidden,
            custom=custom_mask(self.custom_terms, search.allowed),
            search=search,
            letters=[stage.name for stage in letters],
            meaning=[stage.name for stage in meaning],
        )
        hits = self._hits(asked, [stage for stage in stages if stage.measure is None])
        alike, alike_by = united([stage.find(asked) for stage in letters])
        spelt, nearly = self._spelt(asked, alike)
        vectors, near, near_by = None, *united([])
        if meaning and embed is not None:
            vectors = self._query_vectors(asked, embed, hits, alike.of(spelt))
            near, near_by = united([stage.find(asked, vectors) for stage in meaning])
        given_by = len(letters) + near_by, alike_by
        scored = self._scored(asked, vectors, near, alike, (spelt, nearly), given_by)
        ranked = self._ranked(asked, vectors, scored, hits)
        first = [candidates[: _measured(candidates)] for candidates in ranked]
        self._name(asked, first)
        if asked.letters:
            self._spell(asked, first)
        own = self.custom_terms.texts
        for position, candidates in enumerate(first):
            vector = None if vectors is None else vectors[position]
            is_known = {
                word for word, there in zip(words[position], known[position], strict=True) if there
            }
            absent = Absent(hidden[position], gone[position])
            self._measures.measure(queries[position], candidates, own, vector, absent, is_known)
        return ranked

    def _hits(self, asked: Batch, stages: Sequence[HitStage]) -> list[dict[int, Candidate]]:
        """What the stages are certain of, by concept. They also settle queries, and so does being
        no term: of what is near a number, nothing is meant.
        """
        hits: list[dict[int, Candidate]] = [{} for _ in asked.texts]
        for stage in stages:
            terms, settled = stage.find(asked)
            asked.unsettled[list(settled)] = False
            for position, some in enumerate(terms):
                for concept, term in some.items():
                    hits[position].setdefault(
                        concept,
                        Candidate(
                            concept,
                            term,
                            stage.name,
                            similarity=stage.similarity if asked.letters else None,
                            score=1.0,
                            hit=True,
                        ),
                    )
        for position, candidates in enumerate(hits):
            if not candidates and nothing_meant(asked.texts[position]):
                asked.unsettled[position] = False
            for candidate in candidates.values():
                candidate.settled = not asked.unsettled[position]
        return hits

    def _spelt(self, asked: Batch, alike: Pairs) -> tuple[Flags, Flags]:
        """Which rows are the query but for a slip in a word that is none as it is; and which are it
        but for a letter, in short words too.
        """
        spelt, near = np.zeros(len(alike.row), np.bool_), np.zeros(len(alike.row), np.bool_)
        looked_at = ~asked.known[alike.query] & (alike.places < _COMPARED)
        looked_at &= asked.row_terms.seen(alike.query, alike.row)
        for pair in np.flatnonzero(looked_at).tolist():
            query, words = int(alike.query[pair]), self._words(int(alike.row[pair]))
            near[pair] = asked.near(query, words)
            spelt[pair] = near[pair] and asked.spelt(query, words)
        return spelt, near

    def _query_vectors(
        self, asked: Batch, embed: Embed, hits: Sequence[dict[int, Candidate]], spelt: Pairs
    ) -> Floats:
        """Vectors of the queries, or of the term that they are, if only but for a slip."""
        vectors = np.zeros((len(asked.texts), self.vectors.width), np.float32)
        positions, first = np.unique(spelt.query, return_index=True)
        vectors[positions] = self.vectors.take(spelt.row[first])
        similar = dict(zip(positions.tolist(), spelt.value[first].tolist(), strict=True))
        for position in np.flatnonzero(asked.unsettled).tolist():
            term = next((hit.term for hit in hits[position].values() if hit.hit), None)
            row = NO_ROW if term is None or term < 0 else int(self.vectors.term_row[term])
            if row != NO_ROW:
                vectors[position] = self.vectors.take(np.array([row]))[0]
                similar[position] = 1.0
        if len(self.custom_terms):
            typos = custom_typos(self.custom_terms, self.grams, asked)
            for query, (number, similarity) in typos:
                if similarity > similar.get(query, 0.0):
                    vectors[query] = self.custom_terms.vector(number)
                    similar[query] = similarity
        left = [query for query in np.flatnonzero(asked.unsettled).tolist() if query not in similar]
        if left:
            vectors[left] = embed(left)
        return vectors

    def _scored(
        self,
        asked: Batch,
        vectors: Floats | None,
        near: Pairs,
        alike: Pairs,
        slips: tuple[Flags, Flags],  # which pairs alike are the query but for a slip, for a letter
        stages: tuple[Ints, Ints],  # that gave the pairs, near and alike
    ) -> Scored:
        """The terms of all rows, each with its cosine and its similarity where compared."""
        keys, others = near.keys(len(self.vectors)), alike.keys(len(self.vectors))
        similarity, slip = np.full(len(keys), np.nan), np.zeros((2, len(keys)), np.bool_)
        spelt = np.stack(slips)
        both, order = np.isin(keys, others), np.argsort(others)
        there = order[np.searchsorted(others, keys[both], sorter=order)]
        similarity[both], slip[:, both] = alike.value[there], spelt[:, there]
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
        slip = np.concatenate([slip, spelt[:, new]], axis=1)
        if vectors is None or not asked.letters:
            score = similarity if vectors is None else cosine
        else:
            score = asked.search.fusion.scores(
                cosine, np.nan_to_num(similarity), known=asked.known[query], spelt=slip[1]
            )
        stage = np.concatenate([stages[0], stages[1][new]])
        early = near.places < ROWS
        early[both] |= alike.places[there] < ROWS
        early = np.concatenate([early, alike.places[new] < ROWS])
        owned = asked.row_terms.of(query, row)
        return Scored(
            query[owned.pair],
            owned.concept,
            owned.term,
            stage[owned.pair],
            cosine[owned.pair],
            similarity[owned.pair],
            score[owned.pair],
            slip[0, owned.pair],
            slip[1, owned.pair],
            early[owned.pair],
        )

    def _similarities(self, asked: Batch, pairs: Pairs) -> Floats:
        counts = np.bincount(pairs.query, minlength=len(asked.texts))
        some = np.flatnonzero(counts)
        texts = [asked.texts[query] for query in some.tolist()]
        return self.grams.similarities(texts, counts[some], pairs.row)

    def _ranked(
        self,
        asked: Batch,
        vectors: Floats | None,
        scored: Scored,
        hits: list[dict[int, Candidate]],
    ) -> list[list[Candidate]]:
        """Each concept once, by its best term; hits first."""
        if len(self.custom_terms):
            scored = with_custom(self.custom_terms, self.grams, asked, vectors, scored)
        order = np.lexsort((scored.term, -scored.score, scored.concept, scored.query))
        same = np.diff(scored.query[order], prepend=-1) | np.diff(scored.concept[order], prepend=-1)
        first = np.flatnonzero(same)
        early = scored.early[order].astype(np.int64)
        support = np.add.reduceat(early, first) if len(first) else first
        scored = scored.of(order[first])
        order = np.lexsort((scored.concept, -scored.score, scored.query))
        scored, support = scored.of(order), support[order]
        # Who gave a name of their own to a concept means that one, whatever else it may be.
        ranked = [sorted(some.values(), key=lambda hit: hit.term >= 0) for some in hits]
        if vectors is not None:
            for position in np.flatnonzero(asked.unsettled).tolist():
                for hit in ranked[position]:
                    hit.cosine = self._cosine(hit.term, vectors[position])
        known, names = asked.known.tolist(), [*asked.letters, *asked.meaning]
        for query, concept, term, stage, cosine, similarity, score, spelt, near, _, found in zip(
            *(column.tolist() for column in (*scored, support)), strict=True
        ):
            if concept in hits[query]:
                hits[query][concept].support = found
            else:
                ranked[query].append(
                    Candidate(
                        concept,
                        term,
                        SLIP if spelt else names[stage],
                        cosine if cosine == cosine else None,
                        similarity if similarity == similarity else None,
                        score,
                        known[query],
                        spelt,
                        near,
                        support=found,
                    )
                )
        return ranked

    def _cosine(self, term: int, vector: Floats) -> float | None:
        if term < 0:
            return min(float(self.custom_terms.cosines(vector)[-1 - term]), 1.0)
        row = int(self.vectors.term_row[term])
        if row == NO_ROW:
            return None
        cosine = np.einsum("rd,d->r", self.vectors.take(np.array([row])), vector)
        return min(float(cosine[0]), 1.0)

    def _name(self, asked: Batch, ranked: Sequence[Sequence[Candidate]]) -> None:
        """Say by which name candidates are found."""
        for words, candidates in zip(asked.words, ranked, strict=True):
            for candidate in candidates:
                if candidate.hit:
                    candidate.name = " ".join(words)
                elif candidate.term < 0:
                    candidate.name = fold(self.custom_terms.texts[-1 - candidate.term])
                else:
                    row = int(self.vectors.term_row[candidate.term])
                    candidate.name = " ".join(self._words(row))

    def _spell(self, asked: Batch, ranked: Sequence[Sequence[Candidate]]) -> None:
        """Say how similar candidates are, where it was not needed to rank them."""
        some = [
            (query, candidate)
            for query, candidates in enumerate(ranked)
            for candidate in candidates
            if candidate.similarity is None
            and self._has_row(candidate.term)
            and asked.unsettled[query]
        ]
        if some:
            rows = self.vectors.term_row[[candidate.term for _, candidate in some]]
            queries = np.array([query for query, _ in some])
            pairs = Pairs(queries, rows.astype(np.int64), np.empty(0))
            similar = self._similarities(asked, pairs)
            for (_, candidate), similarity in zip(some, similar.tolist(), strict=True):
                candidate.similarity = similarity

    def _has_row(self, term: int) -> bool:
        return term >= 0 and bool(self.vectors.term_row[term] != NO_ROW)

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


def _measured(candidates: Sequence[Candidate]) -> int:
    """How many of the first candidates are measured, whatever is asked for: hits, and all as near
    as the best, among them.
    """
    least = candidates[0].score - _EQUAL if candidates else 0.0
    best = sum(candidate.hit or candidate.score >= least for candidate in candidates)
    return max(MEASURED, best)


def _known(words: Sequence[str], in_terms: Sequence[bool]) -> list[bool]:
    """Which words are no misspellings: those of terms, of a language, and abbreviations."""
    if all(in_terms):
        return list(in_terms)
    everyday, short = bundled_words(), bundled_abbreviations()
    return [
        there or word in everyday or word in short
        for word, there in zip(words, in_terms, strict=True)
    ]


def _right(query: str, words: Sequence[str], known: Sequence[bool]) -> list[bool]:
    """Which words of a query have no slip: those that are known, and what is in capitals."""
    capitals = in_capitals(query)
    return [there or word in capitals for word, there in zip(words, known, strict=True)]


def _measuring(stages: Sequence[Any], measure: Measure) -> list[Any]:
    """The stages that measure this, of those asked for."""
    return [stage for stage in stages if stage.measure == measure]
