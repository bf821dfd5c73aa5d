"""Batches: what is in them, how often, and that they are functions of seed and step alone."""

import hashlib
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.errors import InputError, UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.train.extra import Extra, spoken
from medcoder.train.sampler import TripletSampler, _cumulative, _distinct, _once
from support.memory import MemorySource

# Sixteen concepts; number n has n % 4 + 1 terms in English and one in French if n is even.
SIZES = {f"C{n:02}": n % 4 + 1 for n in range(16)}
TERMS = [
    (concept, f"term {rank} of {concept}", "en", "S", concept, "PT", rank)
    for concept, size in SIZES.items()
    for rank in range(size)
] + [(concept, f"mot de {concept}", "fr", "S", concept, "PT", 0) for concept in list(SIZES)[::2]]
# 64 edges of one relation, 16 of another, 4 of a third.
EDGES = (
    [(f"C{n:02}", "is_a", f"C{(n + step) % 16:02}") for n in range(16) for step in (1, 2, 3, 4)]
    + [(f"C{n:02}", "part_of", f"C{(n + 5) % 16:02}") for n in range(16)]
    + [(f"C{n:02}", "treats", f"C{n + 8:02}") for n in range(4)]
)


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    path = tmp_path_factory.mktemp("sampler") / "kg"
    build_kg([MemorySource(terms=TERMS, edges=EDGES)], path)
    return KG.open(path)


def owners(kg, terms):
    return np.searchsorted(kg.terms.first, terms, side="right") - 1


def many(sampler, steps=400, seed=0):
    return [sampler.batch(seed, step) for step in range(steps)]


def drawn(sampler, concept, steps=400):
    """How often each term of a concept is drawn, over all kinds of slots."""
    number = sampler.kg.index(concept)
    counts = Counter()
    for batch in many(sampler, steps):
        counts.update(batch.terms[batch.concepts == number].tolist())
    return counts


def texts(kg, numbers):
    return {kg.terms.text(number) for number in numbers}


def near(found, expected, draws):
    """Whether a count is within five standard deviations of what is expected."""
    return abs(found - expected) < 5 * np.sqrt(max(expected * (1 - expected / draws), 1))


def same(one, two):
    return all(
        np.array_equal(getattr(one, name), getattr(two, name))
        for name in ("concepts", "terms", "relations")
    )


# A function of seed and step


@settings(max_examples=30)
@given(seed=st.integers(0, 2**63), step=st.integers(0, 10**9))
def test_a_batch_is_a_function_of_seed_and_step(kg, seed, step):
    one = TripletSampler(kg, k=16, m=4, pairs=3)
    batch = one.batch(seed, step)
    one.batch(seed, step + 1)
    assert same(batch, one.batch(seed, step))
    assert same(batch, TripletSampler(kg, k=16, m=4, pairs=3).batch(seed, step))


def test_batches_stay_what_they_were(kg):
    """A checkpoint of an earlier version goes on with the batches that it would have had."""
    extra = (np.array([3, 3, 9, 4]), len(kg.terms) + np.array([0, 0, 1, 2]))
    hard = np.stack([(np.arange(16) + 7) % 16, (np.arange(16) + 9) % 16], 1)
    english = {"extra": extra, "languages": frozenset(["en"])}
    digest = hashlib.blake2b(digest_size=8)
    for options in ({}, {"relation_power": 0.5}, english):
        sampler = TripletSampler(kg, k=16, m=4, pairs=6, **options)
        for sampler.hard in (None, hard):
            for seed, step in ((0, 0), (1, 7), (2**40, 10**6)):
                batch = sampler.batch(seed, step)
                for part in (batch.concepts, batch.terms, batch.relations):
                    digest.update(part.astype(np.int64).tobytes())
    assert digest.hexdigest() == "33446a544755696a"


def test_batches_differ_by_seed_and_by_step(kg):
    sampler = TripletSampler(kg, k=16, m=4, pairs=3)
    batches = [sampler.batch(seed, step) for seed in range(12) for step in range(12)]
    assert len({batch.terms.tobytes() for batch in batches}) == 144
    assert len({batch.concepts.tobytes() for batch in batches}) == 144


def test_steps_do_not_share_random_numbers(tmp_path):
    """Two concepts with four terms each: any stretch of one step agrees with another by chance."""
    terms = [(name, f"{name} {n}", "en", "S", "", "PT", n) for name in "AB" for n in range(4)]
    build_kg([MemorySource(terms=terms, edges=[("A", "r", "B")])], tmp_path / "kg")
    sampler = TripletSampler(KG.open(tmp_path / "kg"), k=100, m=100)
    draws = [sampler.batch(seed, step).terms % 4 for seed in (0, 1) for step in range(4)]
    for place, one in enumerate(draws):
        for other in draws[:place] + draws[place + 1 :]:
            for shift in range(12):
                agreed = (one[shift:] == other[: len(other) - shift]).mean()
                assert agreed < 0.5, shift


# What is in a batch


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
@pytest.mark.parametrize(("k", "m"), [(16, 4), (12, 2), (128, 8), (6, 6), (5, 1)])
def test_triplets_are_distinct_and_come_m_times_together(kg, k, m, power):
    sampler = TripletSampler(kg, k=k, m=m, relation_power=power)
    for batch in many(sampler, 20):
        assert batch.k == len(batch.heads) == len(batch.tails) == k
        assert len(batch.concepts) == len(batch.terms) == 2 * k
        heads, tails = batch.heads.reshape(-1, m), batch.tails.reshape(-1, m)
        assert (heads == heads[:, :1]).all() and (tails == tails[:, :1]).all()
        triplets = set(
            zip(heads[:, 0].tolist(), batch.relations.tolist(), tails[:, 0].tolist(), strict=True)
        )
        assert len(triplets) == len(batch.relations) == k // m
        assert kg.contains(heads[:, 0], batch.relations, tails[:, 0]).all()


def test_every_term_is_one_of_its_concept(kg):
    extra = (np.array([3, 3, 9]), len(kg.terms) + np.arange(3))
    for options in ({}, {"languages": frozenset(["en"])}, {"terms_per_language": 1}):
        sampler = TripletSampler(kg, k=16, m=4, pairs=5, **options)
        for batch in many(sampler, 50):
            assert np.array_equal(owners(kg, batch.terms), batch.concepts)
        with_extra = TripletSampler(kg, k=16, m=4, pairs=5, extra=extra, **options)
        for batch in many(with_extra, 50):
            own = batch.terms < len(kg.terms)
            assert np.array_equal(owners(kg, batch.terms[own]), batch.concepts[own])
            for term, concept in zip(batch.terms[~own], batch.concepts[~own], strict=True):
                assert concept == extra[0][term - len(kg.terms)]


def test_all_edges_and_all_terms_are_drawn(kg):
    sampler = TripletSampler(kg, k=16, m=2)
    terms, edges = set(), set()
    for batch in many(sampler):
        terms |= set(batch.terms.tolist())
        edges |= set(
            zip(
                batch.heads[::2].tolist(),
                batch.relations.tolist(),
                batch.tails[::2].tolist(),
                strict=True,
            )
        )
    assert terms == set(range(len(kg.terms)))
    assert len(edges) == len(kg.edges) == sampler.edges == 84


def test_as_many_groups_as_edges_draw_every_edge(kg):
    for power in (1.0, 0.0):
        batch = TripletSampler(kg, k=168, m=2, relation_power=power).batch(0, 0)
        assert Counter(batch.relations.tolist()) == Counter(kg.triples().relation.tolist())


def test_terms_are_drawn_evenly_and_each_slot_for_itself(kg):
    """Two repeats of a head with four terms: all sixteen pairs alike."""
    sampler = TripletSampler(kg, k=2, m=2, languages=frozenset(["en"]))
    number = kg.index("C03")
    first = int(kg.terms.first[number])
    pairs = Counter()
    for batch in many(sampler, 20_000):
        for slots in (batch.terms[:2], batch.terms[2:]):
            if owners(kg, slots[:1])[0] == number:
                pairs[tuple((slots - first).tolist())] += 1
    draws = pairs.total()
    assert draws > 2000 and len(pairs) == 16
    assert all(near(count, draws / 16, draws) for count in pairs.values()), pairs


# Which terms


def test_terms_of_some_languages_alone(kg):
    french = list(kg.languages).index("fr")
    sampler = TripletSampler(kg, k=8, m=2, languages=frozenset(["fr"]))
    for batch in many(sampler, 50):
        assert (kg.terms.info[batch.terms, 0] == french).all()
        assert (batch.concepts % 2 == 0).all()  # the others have no French
    # Both ends are even: two for each even head of is_a, none of part_of, two of treats.
    assert sampler.edges == 8 * 2 + 0 + 2
    both = TripletSampler(kg, k=8, m=2, languages=frozenset(["fr", "en"]))
    assert both.edges == 84
    assert same(both.batch(1, 2), TripletSampler(kg, k=8, m=2).batch(1, 2))


def test_a_language_covers_its_varieties(tmp_path):
    terms = [
        ("A", "um", "pt-br", "S", "", "PT", 0),
        ("A", "one", "en", "S", "", "PT", 0),
        ("B", "dois", "pt", "S", "", "PT", 0),
    ]
    build_kg([MemorySource(terms=terms, edges=[("A", "r", "B")])], tmp_path / "kg")
    kg = KG.open(tmp_path / "kg")
    sampler = TripletSampler(kg, k=2, m=2, languages=frozenset(["pt"]))
    assert texts(kg, drawn(sampler, "A", 30)) == {"um"}
    with pytest.raises(InputError, match="0 relations"):
        TripletSampler(kg, k=2, m=2, languages=frozenset(["pt-br"]))


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, {"Common Cold", "Resfriado común", "かぜ"}),
        (2, {"Common Cold", "Resfriado común", "catarro", "かぜ"}),
        (3, {"Common Cold", "cold", "Resfriado común", "catarro", "かぜ"}),
        (9, {"Common Cold", "cold", "Resfriado común", "catarro", "かぜ"}),
    ],
)
def test_the_best_terms_of_each_language(toy_kg, most, expected):
    """Of the common cold: three names in English, two of them alike; two in Spanish; one more."""
    sampler = TripletSampler(toy_kg, k=8, m=2, terms_per_language=most)
    found = drawn(sampler, "C0009443", 200)
    assert texts(toy_kg, found) == expected
    assert len(found) == {1: 3, 2: 5}.get(most, 6)


def test_the_best_terms_of_some_languages(toy_kg):
    options = {"languages": frozenset(["en", "es"]), "terms_per_language": 1}
    found = drawn(TripletSampler(toy_kg, k=8, m=2, **options), "C0009443", 200)
    assert texts(toy_kg, found) == {"Common Cold", "Resfriado común"}


# Which relations


@pytest.mark.parametrize(
    ("power", "weights"), [(0.0, [1, 1, 1]), (0.5, [8, 4, 2]), (1.0, [64, 16, 4])]
)
def test_relations_are_drawn_by_a_power_of_their_size(kg, power, weights):
    sampler = TripletSampler(kg, k=2, m=2, relation_power=power)
    batches = many(sampler, 4000)
    labels = Counter(kg.relations[batch.relations[0]] for batch in batches)
    edges = Counter((int(b.heads[0]), int(b.relations[0]), int(b.tails[0])) for b in batches)
    shares = dict(zip(("is_a", "part_of", "treats"), np.array(weights) / sum(weights), strict=True))
    for label, share in shares.items():
        assert near(labels[label], 4000 * share, 4000), labels
        # Edges of one relation come evenly.
        of_label = [count for edge, count in edges.items() if kg.relations[edge[1]] == label]
        size = {"is_a": 64, "part_of": 16, "treats": 4}[label]
        assert len(of_label) == size
        assert all(near(count, labels[label] / size, labels[label]) for count in of_label)


def test_relations_by_power_among_usable_edges(kg):
    """In French no edge of part_of is left: it is never drawn."""
    sampler = TripletSampler(kg, k=2, m=2, languages=frozenset(["fr"]), relation_power=0.0)
    labels = Counter(kg.relations[batch.relations[0]] for batch in many(sampler, 1000))
    assert set(labels) == {"is_a", "treats"}
    assert near(labels["treats"], 500, 1000)


# Pairs


def pairs_of(batch):
    start = 2 * batch.k
    assert np.array_equal(batch.concepts[start::2], batch.concepts[start + 1 :: 2])
    return batch.concepts[start::2], batch.terms[start:].reshape(-1, 2)


@pytest.mark.parametrize("k", [0, 8])
def test_pairs_are_two_terms_of_distinct_concepts(kg, k):
    sampler = TripletSampler(kg, k=k, m=2, pairs=7)
    seen = set()
    for batch in many(sampler, 100):
        concepts, terms = pairs_of(batch)
        assert len(batch.terms) == 2 * k + 14
        assert len(set(concepts.tolist())) == 7
        assert (terms[:, 0] != terms[:, 1]).all()
        assert np.array_equal(owners(kg, terms[:, 0]), concepts)
        assert np.array_equal(owners(kg, terms[:, 1]), concepts)
        seen |= set(concepts.tolist())
    assert seen == set(range(16))  # those with one term in English have one in French


def test_pairs_draw_concepts_and_terms_evenly(kg):
    sampler = TripletSampler(kg, k=0, m=2, pairs=2)
    concepts, terms = Counter(), Counter()
    for batch in many(sampler, 4000):
        numbers, both = pairs_of(batch)
        concepts.update(numbers.tolist())
        terms.update(tuple(pair) for pair in both[numbers == kg.index("C02")].tolist())
    expected = 8000 / len(concepts)
    assert all(near(count, expected, 8000) for count in concepts.values())
    draws = terms.total()
    assert len(terms) == 4 * 3  # ordered pairs of the four terms of C02
    assert all(near(count, draws / 12, draws) for count in terms.values())


def test_a_batch_of_pairs_alone_has_no_triplets(kg):
    batch = TripletSampler(kg, k=0, m=8, pairs=4).batch(0, 0)
    assert len(batch.heads) == len(batch.tails) == len(batch.relations) == 0
    assert len(batch.terms) == 8


def test_concepts_without_relations_take_part_through_pairs(toy_kg):
    sampler = TripletSampler(toy_kg, k=0, m=2, pairs=3)
    for concept in ("C0032285", "C0010200", "C0234192"):  # they have no edge
        assert not toy_kg.neighbours(concept)
        assert drawn(sampler, concept)


# Hard negatives


def test_half_of_the_pairs_lie_near_the_others(kg):
    sampler = TripletSampler(kg, k=0, m=2, pairs=6)
    plain = many(sampler, 50)
    sampler.hard = np.stack([(np.arange(16) + 7) % 16, (np.arange(16) + 9) % 16], 1)
    chosen = Counter()
    for before, batch in zip(plain, many(sampler, 50), strict=True):
        old, (concepts, terms) = pairs_of(before)[0], pairs_of(batch)
        anchors = concepts[:3].tolist()
        assert anchors == old[:3].tolist()
        assert len(set(concepts.tolist())) == 6 and (terms[:, 0] != terms[:, 1]).all()
        for anchor in anchors:
            close = {(anchor + 7) % 16, (anchor + 9) % 16}
            found = close & set(concepts.tolist())
            assert found
            chosen.update((n - anchor) % 16 for n in found)
    assert min(chosen[7], chosen[9]) > 30  # each of the neighbours has its turn


@pytest.mark.parametrize("shift", [0, 1])
def test_neighbours_that_cannot_be_used_are_replaced(kg, shift):
    """A concept near itself, or near others already drawn, or with one term alone."""
    sampler = TripletSampler(kg, k=0, m=2, pairs=8, languages=frozenset(["en"]))
    sampler.hard = ((np.arange(16) + shift) % 16)[:, None]
    for batch in many(sampler, 100):
        concepts, _ = pairs_of(batch)
        assert len(set(concepts.tolist())) == 8
        assert (concepts % 4 > 0).all()  # n % 4 + 1 terms in English


# Extra terms


def test_extra_terms_are_drawn_and_weigh_by_repetition(kg):
    number, beside = kg.index("C01"), len(kg.terms)  # two terms in English
    extra = (np.full(4, number), beside + np.array([0, 1, 1, 1]))
    counts = drawn(TripletSampler(kg, k=8, m=2, extra=extra), "C01", 2000)
    total = counts.total()
    own = range(int(kg.terms.first[number]), int(kg.terms.first[number + 1]))
    assert set(counts) == {*own, beside, beside + 1} and len(own) == 2
    for term, weight in ((own[0], 1), (own[1], 1), (beside, 1), (beside + 1, 3)):
        assert near(counts[term], total * weight / 6, total), counts


def test_extra_terms_in_any_order_go_to_their_concepts(kg):
    concepts = np.array([15, 0, 7, 0])
    extra = (concepts, len(kg.terms) + np.arange(4))
    sampler = TripletSampler(kg, k=16, m=2, extra=extra)
    for concept in (0, 7, 15):
        found = {t - len(kg.terms) for t in drawn(sampler, f"C{concept:02}") if t >= len(kg.terms)}
        assert found == set(np.flatnonzero(concepts == concept).tolist())


def test_an_extra_term_makes_a_concept_usable(kg):
    """One with a single term can be paired; one without a term in the language, be drawn."""
    english = frozenset(["en"])
    alone = kg.index("C04")  # one term in English
    with pytest.raises(UsageError, match="13 pairs, 12 concepts"):
        TripletSampler(kg, k=0, m=2, pairs=13, languages=english)
    extra = (np.array([alone]), np.array([len(kg.terms)]))
    batch = TripletSampler(kg, k=0, m=2, pairs=13, languages=english, extra=extra).batch(0, 0)
    concepts, terms = pairs_of(batch)
    assert sorted(terms[concepts == alone].ravel().tolist()) == [
        int(kg.terms.first[alone]), len(kg.terms)
    ]  # fmt: skip
    odd = (np.arange(1, 16, 2), len(kg.terms) + np.arange(8))
    sampler = TripletSampler(kg, k=8, m=2, languages=frozenset(["fr"]), extra=odd)
    assert sampler.edges == 84


def test_a_repeated_term_is_no_synonym_of_itself(kg):
    english, beside = frozenset(["en"]), len(kg.terms)
    alone, double = kg.index("C04"), kg.index("C01")  # one and two terms in English
    own = int(kg.terms.first[alone])
    # Its only term, said twice more, leaves it with one term.
    repeated = (np.full(2, alone), np.full(2, own))
    with pytest.raises(UsageError, match="pairs, 12 concepts"):
        TripletSampler(kg, k=0, m=2, pairs=13, languages=english, extra=repeated)
    heavy = (np.full(50, double), np.full(50, beside))
    sampler = TripletSampler(kg, k=0, m=2, pairs=12, languages=english, extra=heavy)
    for batch in many(sampler, 100):
        _, terms = pairs_of(batch)
        assert (terms[:, 0] != terms[:, 1]).all()


def share_of(kg, concepts, *, pairs=2, share=0.5, **options):
    """Draws part of the pairs from these concepts, each of which has an extra term each time."""
    extra = (np.array(concepts), len(kg.terms) + np.arange(len(concepts)))
    return TripletSampler(kg, k=0, m=2, pairs=pairs, extra=extra, extra_share=share, **options)


def test_a_share_of_the_pairs_comes_from_concepts_with_extra_terms(kg):
    """Half of two is one: number 5 three times out of four, number 9 else; then any other."""
    first, second = Counter(), Counter()
    for batch in many(share_of(kg, [5, 5, 9, 5]), 4000):
        concepts, terms = pairs_of(batch)
        assert (terms[:, 0] != terms[:, 1]).all()
        first[concepts[0]] += 1
        second[concepts[1]] += 1
    assert set(first) == {5, 9} and near(first[5], 3000, 4000)
    assert set(second) == set(range(16))
    for concept in range(16):
        others = 4000 - first[concept]  # batches in which it may come second
        assert near(second[concept], others / 15, others), concept


@pytest.mark.parametrize(("share", "draws"), [(0.1, 1), (0.5, 4), (0.8, 6), (1.0, 8)])
def test_the_share_of_extra_terms_against_loops(kg, share, draws):
    """The draws fall on eight concepts, some on the same; the batch is filled with any."""
    extended, rng = range(1, 16, 2), random.Random(0)
    expected, found = [], []
    for batch in many(share_of(kg, extended, pairs=8, share=share), 2000):
        concepts, _ = pairs_of(batch)
        assert len(set(concepts.tolist())) == 8
        found.append((concepts % 2).sum())
        batch = set(rng.choices(extended, k=draws))
        for concept in rng.sample(range(16), 16):
            if len(batch) < 8:
                batch.add(concept)
        expected.append(sum(concept % 2 for concept in batch))
    error = np.sqrt((np.var(found) + np.var(expected)) / 2000)
    assert abs(np.mean(found) - np.mean(expected)) < 5 * error
    assert np.mean(found) > 4.1  # without a share, half of them are odd


def test_concepts_that_cannot_be_paired_have_no_share(kg):
    """Number 4 has one term in English; what is said twice more of it is the same."""
    english = frozenset(["en"])
    extra = (np.array([4, 4, 7]), np.array([int(kg.terms.first[4])] * 2 + [len(kg.terms)]))
    options = {"k": 0, "m": 2, "pairs": 3, "languages": english}
    sampler = TripletSampler(kg, extra=extra, extra_share=1.0, **options)
    for batch in many(sampler, 200):
        concepts, _ = pairs_of(batch)
        assert concepts[0] == 7 and 4 not in concepts
    only = (extra[0][:2], extra[1][:2])
    nobody = TripletSampler(kg, extra=only, extra_share=1.0, **options)
    plain = TripletSampler(kg, extra=only, **options)
    assert all(same(one, two) for one, two in zip(many(nobody, 20), many(plain, 20), strict=True))


def test_no_share_draws_as_before(kg):
    extra = (np.array([3, 3, 9]), len(kg.terms) + np.arange(3))
    plain = TripletSampler(kg, k=16, m=4, pairs=5, extra=extra)
    none = TripletSampler(kg, k=16, m=4, pairs=5, extra=extra, extra_share=0.0)
    some = TripletSampler(kg, k=16, m=4, pairs=5, extra=extra, extra_share=0.4)
    batches = zip(many(plain, 20), many(none, 20), many(some, 20), strict=True)
    for one, two, three in batches:
        assert same(one, two) and not same(one, three)
        # What comes before the pairs does not change.
        assert np.array_equal(one.concepts[:32], three.concepts[:32])


def test_a_share_with_hard_negatives(kg):
    sampler = share_of(kg, [5, 9], pairs=4, share=0.5)
    sampler.hard = ((np.arange(16) + 3) % 16)[:, None]
    for batch in many(sampler, 100):
        concepts = pairs_of(batch)[0].tolist()
        assert concepts[0] in (5, 9) and len(set(concepts)) == 4
        assert (concepts[0] + 3) % 16 in concepts


# Terms that look alike


def naive_once(terms, first, alike):
    kept, bounds = [], [0]
    for concept in range(len(first) - 1):
        seen = {}
        for term in terms[first[concept] : first[concept + 1]]:
            if seen.setdefault(alike[term], term) == term:
                kept.append(term)
        bounds.append(len(kept))
    return kept, bounds


LABELS = st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 1]), min_size=12, max_size=12)


@given(st.lists(st.lists(st.integers(0, 11), max_size=6), min_size=1, max_size=6), LABELS)
def test_look_alikes_are_dropped_as_by_loops(groups, labels):
    terms = np.array([term for group in groups for term in group], np.int64)
    first = np.cumsum([0, *map(len, groups)])
    for alike in (np.array(labels, np.uint64), np.array([label % 97 for label in labels], np.int8)):
        kept, bounds = _once(terms, first, alike)
        assert (kept.tolist(), bounds.tolist()) == naive_once(terms, first, alike)


def test_of_terms_that_look_alike_the_first_is_drawn(kg):
    """Number 3 has four terms: the second looks like the first, and like all of number 2."""
    beside = len(kg.terms)
    own, other = (range(*map(int, kg.terms.first[n : n + 2])) for n in (3, 2))
    alike = np.arange(beside + 3, dtype=np.uint64)
    alike[[own[1], *other, beside]] = alike[own[0]]
    # Extra terms of number 3: one that looks like its first, and one that counts three times.
    extra = (np.full(6, 3), beside + np.array([0, 0, 1, 2, 1, 1]))
    sampler = TripletSampler(kg, k=8, m=2, pairs=4, extra=extra, alike=alike)
    counts = drawn(TripletSampler(kg, k=8, m=2, extra=extra, alike=alike), "C03", 2000)
    weights = {own[0]: 1, own[2]: 1, own[3]: 1, beside + 1: 3, beside + 2: 1}
    assert set(counts) == set(weights)
    total = counts.total()
    for term, weight in weights.items():
        assert near(counts[term], total * weight / 7, total), counts
    # All of number 2 look alike: one is left, so that it has no pair; others are as they were.
    assert set(drawn(sampler, "C02")) == {other[0]}
    assert len(drawn(sampler, "C07")) == 4
    seen = set()
    for batch in many(sampler, 200):
        concepts, terms = pairs_of(batch)
        assert (alike[terms[:, 0]] != alike[terms[:, 1]]).all()
        seen |= set(concepts.tolist())
    assert seen == set(range(16)) - {2}


def test_nothing_that_looks_alike_changes_nothing(kg):
    options = {"k": 16, "m": 4, "pairs": 5, "languages": frozenset(["en"])}
    plain = TripletSampler(kg, **options)
    every = TripletSampler(kg, **options, alike=np.arange(len(kg.terms), dtype=np.uint64))
    # A look-alike in a language that is not drawn does not count either.
    alike = np.arange(len(kg.terms), dtype=np.uint64)
    french = np.flatnonzero(kg.terms.info[:, 0] == list(kg.languages).index("fr"))
    alike[french] = alike[french - 1]
    unseen = TripletSampler(kg, **options, alike=alike)
    for one, *others in zip(many(plain, 20), many(every, 20), many(unseen, 20), strict=True):
        assert all(same(one, other) for other in others)


def test_too_few_pairs_where_terms_look_alike(kg):
    with pytest.raises(UsageError, match="1 pairs, 0 concepts"):
        TripletSampler(kg, k=0, m=2, pairs=1, alike=np.zeros(len(kg.terms), np.uint64))


# Errors


def test_k_that_is_no_multiple_of_m(kg):
    with pytest.raises(
        UsageError, match=r"k: must be a multiple of sampler\.m: 10 with sampler\.m = 4"
    ):
        TripletSampler(kg, k=10, m=4)


def test_too_few_edges(kg, toy_kg):
    with pytest.raises(InputError, match=r"has 84 relations .*, fewer than the 85 of a step"):
        TripletSampler(kg, k=170, m=2)
    with pytest.raises(InputError, match=r"has 0 relations .* lower sampler\.k"):
        TripletSampler(toy_kg, k=4, m=2, languages=frozenset(["ja"]))
    with pytest.raises(InputError, match="has 0 relations"):
        TripletSampler(toy_kg, k=4, m=2, languages=frozenset(["tlh"]), relation_power=0.5)


def test_a_graph_without_edges(tmp_path):
    terms = [("A", name, "en", "S", "", "PT", 0) for name in ("one", "two")]
    build_kg([MemorySource(terms=terms)], tmp_path / "kg")
    kg = KG.open(tmp_path / "kg")
    with pytest.raises(InputError, match="has 0 relations"):
        TripletSampler(kg, k=4, m=2)
    batch = TripletSampler(kg, k=0, m=2, pairs=1).batch(0, 0)
    assert sorted(batch.terms.tolist()) == [0, 1]


def test_too_few_concepts_for_pairs(kg):
    with pytest.raises(UsageError, match="17 pairs, 16 concepts"):
        TripletSampler(kg, k=8, m=2, pairs=17)
    assert len(TripletSampler(kg, k=0, m=2, pairs=16).batch(0, 0).terms) == 32


def test_anchored_pairs_are_an_extra_term_and_one_of_the_graph(kg):
    """Number 5 has two extra terms, one of weight three, and is drawn in every batch."""
    beside = len(kg.terms) + np.array([0, 1, 1, 1])
    own = np.arange(*kg.terms.first[[5, 6]])
    extra = (np.full(4, 5), beside)
    options = {"k": 0, "m": 2, "pairs": 2, "extra": extra, "extra_share": 0.5}
    sampler = TripletSampler(kg, extra_anchored=1.0, **options)
    ours, theirs = Counter(), Counter()
    for batch in many(sampler, 4000):
        concepts, terms = pairs_of(batch)
        assert concepts[0] == 5
        ours[terms[0, 0]] += 1
        theirs[terms[0, 1]] += 1
        low, high = kg.terms.first[concepts[1]], kg.terms.first[concepts[1] + 1]
        assert ((low <= terms[1]) & (terms[1] < high)).all()  # others have no extra terms
    assert set(ours) == set(own.tolist()) and set(theirs) == set(beside.tolist())
    assert all(near(count, 4000 / len(own), 4000) for count in ours.values())
    assert near(theirs[beside[1]], 3000, 4000)
    anchored = 0
    for batch in many(TripletSampler(kg, extra_anchored=0.5, **options), 4000):
        _, terms = pairs_of(batch)
        anchored += bool((terms[0] >= len(kg.terms)).sum() == 1)
        assert terms[0, 0] != terms[0, 1]
    own, size = len(own), len(own) + 4
    # Of the graph first, the light one first, the heavy one first and then none of its places.
    mixed = own / size * 4 / (size - 1) + 1 / size * own / (size - 1) + 3 / size * own / (size - 3)
    assert near(anchored, 4000 * (0.5 + 0.5 * mixed), 4000)


@pytest.mark.parametrize("power", [2.0, 200.0])
def test_what_weighs_next_to_nothing_is_drawn_in_the_end(power):
    counts = np.array([200_000, 3, *[2] * 6])
    cumulative = _cumulative(counts, power)
    assert np.isfinite(cumulative).all()
    second = Counter()
    for seed in range(200):
        chosen = _distinct(np.random.default_rng(seed), 8, 8, cumulative).tolist()
        assert sorted(chosen) == list(range(8))
        some = _distinct(np.random.default_rng(seed), 8, 3, cumulative).tolist()
        assert len(set(some)) == 3 and 0 in some
        second[chosen[1]] += 1
    # Of those that are left, the one with three terms comes first more often than another.
    if power == 2.0:
        assert near(second[1], 200 * 9 / (9 + 6 * 4), 200)


def test_concepts_are_drawn_by_their_number_of_terms(kg):
    counts = np.diff(kg.terms.first)
    several = counts > 1
    for power in (0.5, 1.0):
        sampler = TripletSampler(kg, k=0, m=2, pairs=1, pair_power=power)
        found = Counter(int(pairs_of(batch)[0][0]) for batch in many(sampler, 6000))
        shares = np.where(several, counts.astype(float) ** power, 0)
        shares /= shares.sum()
        for concept, share in enumerate(shares):
            assert near(found[concept], 6000 * share, 6000), (power, concept)


def test_only_names_that_a_source_gave_are_drawn(tmp_path):
    code = ("A1", "Fever, unspecified", "en", "ICD10CM", "A01", "PT", 0)
    terms = [
        code,
        ("A1", "Pyrexia", *code[2:]),
        ("A1", "hot flush", *code[2:5], "includes", 2),
        ("A2", "Cough, unspecified", "en", "ICD10CM", "A02", "PT", 0),
    ]
    build_kg([MemorySource(terms=terms)], tmp_path / "kg")
    kg = KG.open(tmp_path / "kg")
    assert len(kg.terms) == 6
    sampler = TripletSampler(kg, k=0, m=1, pairs=1)
    assert {kg.terms.text(term) for batch in many(sampler, 20) for term in batch.terms} == {
        "Fever, unspecified",
        "Pyrexia",
    }
    assert spoken(kg, Extra(), None).sum() == 3  # a teacher has no say on others either
