"""The loss of a step against loops; labels and teachers by hand."""

import numpy as np
import pytest
import torch

from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.model import RELATIONS
from medcoder.model.losses import LOSSES
from medcoder.train.config import LossConfig, RelationConfig, SamplerConfig, TrainConfig
from medcoder.train.objective import NAMES, Labels, Objective, Own, Sources, gather
from medcoder.train.objective.teacher import Teacher
from medcoder.train.sampler import Batch, TripletSampler
from medcoder.train.step import label
from support import naive
from support.memory import MemorySource

K, M, PAIRS, WIDTH = 8, 2, 3, 5
GROUPS, SLOTS = K // M, 2 * K + 2 * PAIRS
FORMS = {
    "bilinear": naive.bilinear,
    "diagonal": naive.diagonal,
    "low-rank": naive.low_rank,
    "translation": naive.translation,
}
# Settings of the losses to try, and how the loops take them.
PAPER = {"alpha": 2.0, "beta": 50.0, "lam": 0.5, "eps": 0.1}
DISTANCES = {"alpha": 0.2, "beta": 5.0, "lam": -3.0, "eps": 0.1}


def config(*, term=None, relation=None, **options):
    return TrainConfig(
        sampler=SamplerConfig(k=K, m=M, pairs=PAIRS),
        loss=LossConfig(**term or PAPER),
        relation=RelationConfig(rank=2, loss=LossConfig(**relation or PAPER), **options),
    )


def measure(config, embeddings, concepts, rows=None, related=None, teachers=()):
    """The loss, and the report by name; teachers: unit vectors, which are known, weight."""
    voices = [
        Teacher(weight=weight, speaks=np.ones(1, bool), vectors=np.ones((1, 1)))
        for _, _, weight in teachers
    ]
    arrays = {}
    for number, (units, known, _) in enumerate(teachers):
        arrays |= {f"units {number}": units, f"known {number}": known}
    objective = Objective(Sources(config, teachers=voices))
    labels = Labels(concepts, rows, related)
    total, report = objective(labels, embeddings, {"teacher": Own(arrays)})
    return total, dict(zip(NAMES, report.tolist(), strict=True))


def inputs(steps, form="bilinear", seed=0):
    """Embeddings, concepts, rows and labels of a few steps; every slot has a synonym."""
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(steps, SLOTS, WIDTH, generator=generator, dtype=torch.float64)
    concepts = np.empty((steps, SLOTS), np.int64)
    for step in range(steps):
        concepts[step, : 2 * K] = np.repeat(rng.integers(0, 6, 2 * GROUPS), M)
        concepts[step, 2 * K :] = np.repeat(rng.choice(20, PAIRS, replace=False), 2)
    tails = torch.from_numpy(concepts[:, K : 2 * K])
    initial = RELATIONS.load(form)().initial
    rows = initial(steps * GROUPS, WIDTH, rank=2, scale=0.5, generator=generator).double()
    return embeddings, torch.from_numpy(concepts), rows, tails[:, :, None] == tails[:, None, :]


def expected_term(embeddings, concepts, loss=naive.multi_similarity, **options):
    """The term-term loss of one step."""
    scores = naive.cosines(embeddings.tolist())
    return loss(scores, *naive.synonyms(concepts.tolist()), **options)


def expected_relation(
    embeddings, rows, related, form="bilinear", loss=naive.multi_similarity, **options
):
    """The term-relation-term loss of one step, each head with the parameters of its group."""
    of_heads = [rows.tolist()[head // M] for head in range(K)]
    scores = FORMS[form](of_heads, embeddings[:K].tolist(), embeddings[K : 2 * K].tolist())
    return loss(scores, related.tolist(), (~related).tolist(), **options)


def own(rows, step):
    return rows[step * GROUPS : (step + 1) * GROUPS]


# The total


def test_every_form_is_tried():
    assert set(FORMS) == set(RELATIONS)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_the_loss_is_the_mean_of_the_steps_alone(form, steps):
    embeddings, concepts, rows, related = inputs(steps, form)
    options = DISTANCES if form == "translation" else PAPER
    settings = config(relation=options, form=form, mu=0.7)
    total, found = measure(settings, embeddings, concepts, rows, related)
    terms = [expected_term(embeddings[step], concepts[step]) for step in range(steps)]
    relations = [
        expected_relation(embeddings[step], own(rows, step), related[step], form, **options)
        for step in range(steps)
    ]
    assert found["term"] == pytest.approx(np.mean(terms), rel=1e-9)
    assert found["relation"] == pytest.approx(np.mean(relations), rel=1e-6)
    assert found["teachers"] == 0
    assert found["loss"] == total.item()
    assert total.item() == pytest.approx(np.mean(terms) + 0.7 * np.mean(relations), rel=1e-6)


@pytest.mark.parametrize("kind", LOSSES)
def test_each_loss_in_each_place(kind):
    embeddings, concepts, rows, related = inputs(3)
    settings = {
        "multi_similarity": ({"alpha": 1.0, "beta": 9.0, "lam": 0.1, "eps": 0.3}, PAPER),
        "info_nce": ({"temperature": 0.2}, {"temperature": 0.5}),
    }[kind]
    term, relation = ({"kind": kind, **some} for some in settings)
    chosen = config(term=term, relation=relation)
    found = measure(chosen, embeddings, concepts, rows, related)[1]
    loss = getattr(naive, kind)
    terms = [expected_term(embeddings[i], concepts[i], loss, **settings[0]) for i in range(3)]
    relations = [
        expected_relation(embeddings[i], own(rows, i), related[i], loss=loss, **settings[1])
        for i in range(3)
    ]
    assert found["term"] == pytest.approx(np.mean(terms), rel=1e-9)
    assert found["relation"] == pytest.approx(np.mean(relations), rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_side_by_side_equal_those_of_steps_alone(form):
    embeddings, concepts, rows, related = inputs(3, form)
    chosen = config(form=form)
    together = [tensor.clone().requires_grad_() for tensor in (embeddings, rows)]
    measure(chosen, together[0], concepts, together[1], related)[0].backward()
    for step in range(3):
        alone = [embeddings[step : step + 1].clone(), own(rows, step).clone()]
        alone = [tensor.requires_grad_() for tensor in alone]
        at = slice(step, step + 1)
        measure(chosen, alone[0], concepts[at], alone[1], related[at])[0].backward()
        assert torch.allclose(together[0].grad[step] * 3, alone[0].grad[0], atol=1e-12)
        assert torch.allclose(own(together[1].grad, step) * 3, alone[1].grad, atol=1e-12)


def test_hard_pairs_are_counted_by_anchor():
    embeddings, concepts, rows, related = inputs(3)
    found = measure(config(), embeddings, concepts, rows, related)[1]
    positives = negatives = 0
    for step in range(3):
        scores = naive.cosines(embeddings[step].tolist())
        hard = naive.hard_pairs(scores, *naive.synonyms(concepts[step].tolist()), eps=0.1)
        positives += sum(map(len, hard[0]))
        negatives += sum(map(len, hard[1]))
    assert found["positives"] == pytest.approx(positives / (3 * SLOTS), rel=1e-6)
    assert found["negatives"] == pytest.approx(negatives / (3 * SLOTS), rel=1e-6)


def test_without_mu_relations_do_not_matter():
    embeddings, concepts, rows, related = inputs(2)
    plain = config(mu=0.0)
    total, report = measure(plain, embeddings, concepts)
    terms = [expected_term(embeddings[step], concepts[step]) for step in range(2)]
    assert total.item() == pytest.approx(np.mean(terms), rel=1e-9)
    assert report["relation"] == 0
    # Even if they are handed over.
    assert measure(plain, embeddings, concepts, rows, related)[0].item() == total.item()
    assert measure(plain, embeddings, concepts, rows * 2, ~related)[0].item() == total.item()
    assert "relations" not in Objective(Sources(plain)).terms


def test_pairs_take_part_in_the_term_loss_alone():
    embeddings, concepts, rows, related = inputs(1)
    changed = embeddings.clone()
    changed[:, 2 * K :] += 1.0
    before, after = (
        measure(config(), some, concepts, rows, related)[1] for some in (embeddings, changed)
    )
    assert before["relation"] == after["relation"]
    assert before["term"] != after["term"]


def test_an_item_is_no_pair_with_itself():
    """One concept in every slot, all vectors equal: no negative, no loss, whatever it is."""
    embeddings = torch.ones(1, SLOTS, WIDTH)
    concepts = torch.zeros(1, SLOTS, dtype=torch.long)
    found = measure(config(), embeddings, concepts)[1]
    assert found["loss"] == found["positives"] == found["negatives"] == 0


def test_one_process_gathers_nothing():
    embeddings = torch.randn(2, 3, 4)
    assert gather(embeddings) is embeddings


# Teachers


def naive_teachers(embeddings, vectors, known):
    """Mean of (S - S_t)^2 over the pairs of terms that it knows, one step."""
    scores = naive.cosines(embeddings.tolist())
    squares = [
        (scores[i][j] - naive.cosine(vectors[i].tolist(), vectors[j].tolist())) ** 2
        for i in range(SLOTS)
        for j in range(SLOTS)
        if known[i] and known[j]
    ]
    return sum(squares) / len(squares) if squares else 0.0


@pytest.mark.parametrize("steps", [1, 3])
def test_teachers_add_their_mean_square(steps):
    embeddings, concepts, rows, related = inputs(steps)
    generator = torch.Generator().manual_seed(5)
    vectors = [
        torch.nn.functional.normalize(
            torch.randn(steps, SLOTS, width, generator=generator, dtype=torch.float64), dim=2
        )
        for width in (3, 7)
    ]
    known = torch.rand(2, steps, SLOTS, generator=generator) < 0.6
    known[1, 0] = False  # in one step the second has nothing to say
    weighed = zip(vectors, known, (20.0, 0.5), strict=True)
    teachers = [(units * knows[:, :, None], knows, weight) for units, knows, weight in weighed]
    plain = measure(config(), embeddings, concepts, rows, related)[0].item()
    total, report = measure(config(), embeddings, concepts, rows, related, teachers)
    means = [
        np.mean([naive_teachers(embeddings[i], vectors[t][i], known[t, i]) for i in range(steps)])
        for t in range(2)
    ]
    expected = 20 * means[0] + 0.5 * means[1]
    assert report["teachers"] == pytest.approx(expected, rel=1e-9)
    assert total.item() == pytest.approx(plain + expected, rel=1e-9)


def test_a_student_that_agrees_pays_nothing():
    embeddings, concepts, _, _ = inputs(1)
    units = [[value / naive.norm(row) for value in row] for row in embeddings[0].tolist()]
    # It agrees too if its space is turned round: similarities are all that is compared.
    turned = torch.tensor([units], dtype=torch.float64)[:, :, [3, 0, 4, 1, 2]] * -1
    everything = torch.ones(1, SLOTS, dtype=torch.bool)
    found = measure(config(mu=0.0), embeddings, concepts, teachers=[(turned, everything, 9.0)])
    assert found[1]["teachers"] == pytest.approx(0, abs=1e-20)


VECTORS = np.array([[2, 0], [0, 3], [1, 1], [np.nan, 0], [0, 0]], np.float32)
SPEAKS = np.array([True, True, True, False, True])


def test_a_teacher_with_vectors():
    teacher = Teacher(weight=2.5, speaks=SPEAKS, vectors=VECTORS)
    units, known = teacher.judge(np.array([2, 0, 3, 1, 4, 2]))
    half = 0.5**0.5
    assert teacher.weight == 2.5 and units.dtype == np.float32
    assert known.tolist() == [True, True, False, True, True, True]
    # It is not asked for the third, which has no vector; a vector of zeros is like nothing.
    expected = [[half, half], [1, 0], [0, 0], [0, 1], [0, 0], [half, half]]
    assert units == pytest.approx(np.array(expected), abs=1e-6)


def test_a_live_teacher_is_asked_once_for_each_term_that_it_knows():
    asked = []

    def encode(texts):
        asked.append(list(texts))
        return [VECTORS[int(text)] for text in texts]

    live = Teacher(weight=1.0, speaks=SPEAKS, encode=encode, text=str)
    stored = Teacher(weight=1.0, speaks=SPEAKS, vectors=VECTORS)
    for terms in ([2, 0, 3, 0, 1, 2], [3, 3], [4]):
        for one, other in zip(
            live.judge(terms := np.array(terms)), stored.judge(terms), strict=True
        ):
            assert np.array_equal(one, other)
    units, known = live.judge(np.array([3, 3]))
    assert units.shape == (2, 2) and not units.any() and not known.any()
    # Of [3, 3] it knows none: what it says of another term tells how wide its vectors are.
    assert asked == [["0", "1", "2"], ["0"], ["4"], ["0"]]


def test_a_teacher_that_knows_nothing_has_nothing_to_say():
    nothing = Teacher(weight=1.0, speaks=SPEAKS & False, vectors=VECTORS)
    units, known = nothing.judge(np.array([0, 1]))
    assert units.tolist() == [[0, 0], [0, 0]] and not known.any()


def test_a_teacher_that_makes_no_sense():
    with pytest.raises(UsageError, match="5 vectors for 4 terms"):
        Teacher(weight=1.0, speaks=SPEAKS[:4], vectors=VECTORS)
    for options in ({}, {"encode": list}, {"vectors": VECTORS, "encode": list, "text": str}):
        with pytest.raises(UsageError, match="either vectors or a way to encode"):
            Teacher(weight=1.0, speaks=SPEAKS, **options)


# Labels

TRIPLES = {("A", "r", "B"), ("A", "r", "C"), ("D", "r", "C"), ("D", "s", "B"), ("A", "s", "C")}


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "kg"
    terms = [(name, f"term {name}", "en", "S", "", "PT", 0) for name in "ABCD"]
    build_kg([MemorySource(terms=terms, edges=sorted(TRIPLES))], path)
    return KG.open(path)


def batch_of(kg, triples, repeats):
    heads, labels, tails = zip(*triples, strict=True)
    concepts = np.repeat(kg.indices([*heads, *tails]), repeats)
    relations = np.array([kg.relations.index(name) for name in labels])
    return Batch(concepts, concepts, relations, len(triples) * repeats)


def labels_config(labels):
    return TrainConfig(sampler=SamplerConfig(k=8, m=2), relation=RelationConfig(labels=labels))


def test_labels_by_hand(kg):
    """Of A r B, A r C, D r C and D s B: A r C is true for the first, A r B for the second."""
    batch = batch_of(kg, [("A", "r", "B"), ("A", "r", "C"), ("D", "r", "C"), ("D", "s", "B")], 1)
    sampler = TripletSampler(kg, k=4, m=1)
    by_tail, missed = label(sampler, batch, labels_config("tail"), measure=True)
    assert by_tail.astype(int).tolist() == [[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    # Eight pairs have other tails; true are: A r C twice for the first, A r B twice for the second.
    assert missed == pytest.approx(4 / 8)
    exact, missed = label(sampler, batch, labels_config("exact"), measure=False)
    assert exact.astype(int).tolist() == [[1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 1]]
    assert missed == pytest.approx(4 / 8)


@pytest.mark.parametrize("labels", ["tail", "exact"])
@pytest.mark.parametrize("measure", [False, True])
def test_labels_equal_the_loops(kg, labels, measure):
    sampler = TripletSampler(kg, k=8, m=2)
    for step in range(20):
        batch = sampler.batch(0, step)
        heads, tails = kg.ids(batch.heads), kg.ids(batch.tails)
        names = [kg.relations[batch.relations[head // 2]] for head in range(8)]
        equal = np.array([[tails[i] == tails[j] for j in range(8)] for i in range(8)])
        true = np.array(
            [[(heads[i], names[i], tails[j]) in TRIPLES for j in range(8)] for i in range(8)]
        )
        assert (true | ~equal).all()  # equal tails are always right
        found, missed = label(sampler, batch, labels_config(labels), measure=measure)
        assert found.dtype == bool
        assert np.array_equal(found, true if labels == "exact" else equal)
        if measure or labels == "exact":
            expected = (true & ~equal).sum() / (~equal).sum()
            assert missed == pytest.approx(expected)
        else:
            assert np.isnan(missed)
        # And as the graph answers for the whole square.
        relations = np.repeat(batch.relations, 2)
        assert np.array_equal(
            true, kg.contains(batch.heads[:, None], relations[:, None], batch.tails)
        )


def test_labels_where_all_tails_are_equal(kg):
    batch = batch_of(kg, [("A", "r", "C"), ("D", "r", "C"), ("A", "s", "C")], 2)
    for labels in ("tail", "exact"):
        found, missed = label(
            TripletSampler(kg, k=6, m=2), batch, labels_config(labels), measure=True
        )
        assert found.all() and missed == 0


def test_labels_without_triplets(kg):
    batch = Batch(np.array([0, 0]), np.array([0, 1]), np.zeros(0, np.int64), 0)
    sampler = TripletSampler(kg, k=0, m=2)
    found, missed = label(sampler, batch, labels_config("exact"), measure=True)
    assert found.shape == (0, 0) and np.isnan(missed)
