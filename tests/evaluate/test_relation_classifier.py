"""The relation classifier against plain loops, frozen and fine-tuned."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from medcoder.errors import NonFiniteLoss, UsageError
from medcoder.evaluate import relation_classifier
from medcoder.evaluate.embeddings import load
from medcoder.evaluate.embeddings.contextual import ContextualEmbedding
from medcoder.evaluate.relation_classifier import (
    ENCODER,
    EPOCHS,
    FROZEN,
    TABLE,
    Encoded,
    Fixed,
    Pairs,
    Recipe,
    SparsePairs,
    Table,
    classify,
    trainable,
)
from medcoder.model.encoder import TransformerEncoder
from support import tiny

WORDS = ["heart", "disease", "cold", "fever", "attack", "diabetes", "type"]
RELATIONS = ["causes", "is_a", "treats"]


def triplets(count, seed):
    """The relation is that of the first word of the head; tails are anything."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        first = int(rng.integers(len(WORDS)))
        head = f"{WORDS[first]} {WORDS[rng.integers(len(WORDS))]}"
        tail = WORDS[rng.integers(len(WORDS))]
        found.append((head, RELATIONS[first % 3], tail, f"C{first}", f"C{WORDS.index(tail)}"))
    return found


TRAIN, TEST = triplets(60, 1), triplets(30, 2)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Models this small are slower on several, and much slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def word(tmp_path):
    rng = np.random.default_rng(0)
    rows = (f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=6))}\n" for word in WORDS)
    (tmp_path / "w.txt").write_text("".join(rows))
    return load(f"word:{tmp_path / 'w.txt'}")


@pytest.fixture
def concept(tmp_path):
    rng = np.random.default_rng(0)
    rows = (f"C{n} {' '.join(f'{x:.4f}' for x in rng.normal(size=5))}\n" for n in range(1, 7))
    (tmp_path / "c.txt").write_text("".join(rows))  # nothing of C0
    return load(f"concept:{tmp_path / 'c.txt'}")


@pytest.fixture
def contextual():
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="mean")
    return ContextualEmbedding(encoder, name="tiny")


def labels_of(rows):
    return np.array([RELATIONS.index(row[1]) for row in rows])


def softmax_regression(train, labels, test, *, rate, batch, epochs, seed, classes=3):
    """Numpy alone: gradients by hand, and AdamW as its paper has it. Scores of the test rows."""
    torch.manual_seed(seed)
    linear = nn.Linear(train.shape[1], classes)
    weights = np.c_[linear.weight.detach().numpy(), linear.bias.detach().numpy()].astype(float)
    with_one = np.c_[train, np.ones(len(train))]
    first, second, step = np.zeros_like(weights), np.zeros_like(weights), 0
    for _ in range(epochs):
        order = torch.randperm(len(train)).numpy()
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            scores = with_one[rows] @ weights.T
            shares = np.exp(scores - scores.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            shares[np.arange(len(rows)), labels[rows]] -= 1
            gradient = shares.T @ with_one[rows] / len(rows)
            step += 1
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            weights *= 1 - rate * 0.01
            means, squares = first / (1 - 0.9**step), second / (1 - 0.999**step)
            weights -= rate * means / (np.sqrt(squares) + 1e-8)
    return np.c_[test, np.ones(len(test))] @ weights.T


def sides(embedding, rows):
    heads = embedding.raw([row[0] for row in rows], ids=[row[3] for row in rows]).rows
    tails = embedding.raw([row[2] for row in rows], ids=[row[4] for row in rows]).rows
    return np.c_[heads, tails]


def same_predictions(result, scores, test=TEST):
    """As far as rounding does not decide."""
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-3
    assert clear.mean() > 0.8
    predicted = [RELATIONS[number] for number in scores.argmax(1)]
    for row in np.flatnonzero(clear):
        assert result.predicted[row] == predicted[row]
    assert result.correct.tolist() == [
        one == row[1] for one, row in zip(result.predicted, test, strict=True)
    ]
    assert result.accuracy == result.correct.mean()


# Frozen


@pytest.mark.parametrize("kind", ["word", "concept"])
def test_frozen_vectors_equal_a_regression_in_numpy(kind, request):
    embedding = request.getfixturevalue(kind)
    recipe = Recipe(0.05, 16)
    result = classify(embedding, TRAIN, TEST, epochs=6, seed=3, recipe=recipe)
    scores = softmax_regression(
        sides(embedding, TRAIN), labels_of(TRAIN), sides(embedding, TEST),
        rate=0.05, batch=16, epochs=6, seed=3,
    )  # fmt: skip
    same_predictions(result, scores)
    assert len(set(result.predicted)) == 3 and result.accuracy > 0.4


def test_contextual_vectors_are_those_of_cls_unless_one_asks(contextual):
    recipe = {"rate": 0.02, "batch": 16, "epochs": 5, "seed": 1}
    for pooling, embedding in (("cls", contextual.pooled("cls")), (None, contextual)):
        result = classify(
            contextual, TRAIN, TEST, pooling=pooling, epochs=5, seed=1, recipe=Recipe(0.02, 16)
        )
        expected = softmax_regression(
            sides(embedding, TRAIN), labels_of(TRAIN), sides(embedding, TEST), **recipe
        )
        same_predictions(result, expected)
    assert not np.allclose(sides(contextual, TEST), sides(contextual.pooled("cls"), TEST), atol=0.1)


def test_sparse_rows_equal_dense_ones():
    rows = load("lexical:tfidf").embed(WORDS, corpus=WORDS[:5]).rows
    pairs = torch.tensor([[0, 1], [6, 2], [3, 3], [5, 0], [2, 6]])
    models = []
    for make in (
        lambda: SparsePairs(rows, 3),
        lambda: Pairs(Fixed(torch.from_numpy(rows.toarray())), rows.shape[1], 3),
    ):
        torch.manual_seed(0)
        model = make()
        relation_classifier._train(
            model, pairs, torch.tensor([0, 1, 2, 0, 1]), Recipe(0.1, 2),
            epochs=4, max_steps=None, progress=None, device=torch.device("cpu"),
        )  # fmt: skip
        models.append(model)
    one, other = (model(pairs).detach().numpy() for model in models)
    assert one == pytest.approx(other, abs=1e-4)
    assert models[0].weight.T.detach().numpy() == pytest.approx(
        models[1].linear.weight.detach().numpy(), abs=1e-4
    )


def test_a_lexical_space_is_fitted_on_what_is_trained_on(monkeypatch):
    embedding = load("lexical:exact")
    seen = []
    embed = embedding.embed
    monkeypatch.setattr(
        embedding, "embed", lambda texts, **given: seen.append(given) or embed(texts, **given)
    )
    train = [("a", "r", "b", "", ""), ("b", "s", "a", "", "")]
    test = [("a", "r", "b", "", ""), ("x", "s", "y", "", "")]
    result = classify(embedding, train, test, epochs=20, recipe=Recipe(0.1, 2))
    assert [given["corpus"] for given in seen] == [["a", "b"]]
    assert result.predicted[0] == "r"


def test_exported_encoders_can_be_frozen(bag):
    embedding = load(str(bag.path))
    result = classify(embedding, TRAIN, TEST, epochs=5, recipe=Recipe(0.1, 16))
    scores = softmax_regression(
        np.c_[bag.encode([row[0] for row in TRAIN]), bag.encode([row[2] for row in TRAIN])],
        labels_of(TRAIN),
        np.c_[bag.encode([row[0] for row in TEST]), bag.encode([row[2] for row in TEST])],
        rate=0.1, batch=16, epochs=5, seed=0,
    )  # fmt: skip
    same_predictions(result, scores)


# Fine-tuned


def plain_loop(vector, parameters, width, *, rate, batch, steps, seed):
    """Pairs one by one, each term by itself; `vector` gives that of a text and id."""
    torch.manual_seed(seed)
    linear = nn.Linear(2 * width, 3)
    optimiser = torch.optim.AdamW([*parameters, *linear.parameters()], lr=rate)

    def score(row):
        return linear(torch.cat([vector(row[0], row[3]), vector(row[2], row[4])]))

    taken = 0
    while taken < steps:
        for rows in torch.split(torch.randperm(len(TRAIN)), batch):
            losses = [
                -torch.log_softmax(score(TRAIN[row]), 0)[RELATIONS.index(TRAIN[row][1])]
                for row in rows
            ]
            optimiser.zero_grad()
            (sum(losses) / len(losses)).backward()
            optimiser.step()
            taken += 1
            if taken == steps:
                break
    with torch.no_grad():
        return np.stack([score(row).numpy() for row in TEST])


@pytest.mark.parametrize("kind", ["word", "concept"])
def test_trained_tables_equal_a_plain_loop(kind, request):
    embedding = request.getfixturevalue(kind)
    keys = WORDS if kind == "word" else [f"C{n}" for n in range(1, 7)]
    file = embedding.file
    table = {
        key: torch.tensor(file.vector(file.find(key)).tolist(), requires_grad=True) for key in keys
    }

    def vector(text, one):
        found = [table[key] for key in (text.split() if kind == "word" else [one]) if key in table]
        return sum(found) / len(found) if found else torch.zeros(file.dimension)

    recipe = Recipe(0.05, 16)
    result = classify(embedding, TRAIN, TEST, fine_tune=True, epochs=3, seed=2, recipe=recipe)
    scores = plain_loop(
        vector, table.values(), file.dimension, rate=0.05, batch=16, steps=12, seed=2
    )
    same_predictions(result, scores)


def test_a_trained_encoder_equals_a_plain_loop(contextual):
    other = copy.deepcopy(contextual.encoder.model)

    def vector(text, _):
        ids = tiny.tokenizer()(text)["input_ids"]
        return other(input_ids=torch.tensor([ids])).last_hidden_state[0, 0]

    before = contextual.fingerprint
    result = classify(
        contextual, TRAIN, TEST, fine_tune=True, seed=4, recipe=Recipe(2e-3, 12), max_steps=4
    )
    scores = plain_loop(vector, other.parameters(), 32, rate=2e-3, batch=12, steps=4, seed=4)
    same_predictions(result, scores)
    assert contextual.encoder.fingerprint == before  # a copy was trained


def test_vectors_of_a_batch_are_in_its_order(contextual):
    texts = ["heart", "heart attack with a long name", "", "cold fever"]
    module = Encoded(contextual.encoder, texts)
    items = torch.tensor([3, 1, 1, 0, 2, 3])
    expected = contextual.raw([texts[item] for item in items]).rows
    assert module(items).detach().numpy() == pytest.approx(expected, abs=1e-5)
    assert module.fixed()(items).numpy() == pytest.approx(expected, abs=1e-5)


def test_means_of_a_table_are_in_the_order_of_a_batch(word):
    texts = ["heart attack", "nothing", "cold"]
    items = torch.tensor([2, 0, 1, 1, 0])
    expected = word.raw([texts[item] for item in items]).rows
    assert Table(word.bags(texts))(items).detach().numpy() == pytest.approx(expected, abs=1e-6)


def test_what_can_be_learnt_is_learnt(contextual, word):
    frozen = classify(word, TRAIN, TEST, epochs=60, recipe=Recipe(0.05, 16))
    tuned = classify(word, TRAIN, TEST, fine_tune=True, epochs=60, recipe=Recipe(0.05, 16))
    deep = classify(
        contextual, TRAIN, TEST, fine_tune=True, epochs=12, recipe=Recipe(5e-3, 16), pooling=None
    )
    assert min(frozen.accuracy, tuned.accuracy, deep.accuracy) > 0.6


# Around it


def test_settings_of_the_paper():
    assert (tuple(FROZEN), tuple(TABLE), tuple(ENCODER)) == ((1e-3, 512), (1e-3, 512), (2e-5, 96))
    assert EPOCHS == 50


@pytest.mark.parametrize(
    ("kind", "fine_tune", "expected"),
    [("word", False, FROZEN), ("word", True, TABLE), ("contextual", True, ENCODER)],
)
def test_each_way_has_its_recipe(kind, fine_tune, expected, request, monkeypatch):
    used = []
    monkeypatch.setattr(
        relation_classifier, "_train", lambda *given, **options: used.append((given[3], options))
    )
    classify(request.getfixturevalue(kind), TRAIN, TEST, fine_tune=fine_tune)
    assert used[0][0] is expected and used[0][1]["epochs"] == 50


def test_seeds_and_the_random_numbers_of_the_caller(word):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    options = {"epochs": 2, "recipe": Recipe(0.05, 16)}
    results = [classify(word, TRAIN, TEST, seed=seed, **options) for seed in (0, 0, 5)]
    assert torch.equal(torch.rand(3), expected)
    assert results[0].predicted == results[1].predicted != results[2].predicted


def test_progress_and_an_early_end(word):
    heard = []
    options = {"recipe": Recipe(0.01, 25), "progress": lambda *what: heard.append(what)}
    classify(word, TRAIN, TEST, epochs=10, **options)
    assert heard == [("relations", 20, 30), ("relations", 30, 30)]
    heard.clear()
    classify(word, TRAIN, TEST, epochs=10, max_steps=3, **options)
    assert heard == [("relations", 3, 3)]


def test_a_relation_that_was_not_trained_on_is_never_right(word):
    test = [("heart", "unheard of", "cold", "", ""), TRAIN[0]]
    result = classify(word, TRAIN[:1], test, epochs=1)
    assert result.predicted == [TRAIN[0][1]] * 2
    assert result.correct.tolist() == [False, True] and result.accuracy == 0.5


def test_what_cannot_be_fine_tuned(bag, word, concept, contextual):
    exported = load(str(bag.path))
    found = [trainable(one) for one in (word, concept, contextual, exported, load("lexical:tfidf"))]
    assert found == [True, True, True, False, False]
    with pytest.raises(UsageError, match="TF-IDF cannot be fine-tuned: it has no weights"):
        classify(load("lexical:tfidf"), TRAIN, TEST, fine_tune=True)
    with pytest.raises(UsageError, match="there must be triplets to train on"):
        classify(word, [], TEST)


def test_a_loss_that_is_no_number(word):
    with pytest.raises(NonFiniteLoss, match="is nan after 2 steps at a rate of inf"):
        classify(word, TRAIN, TEST, recipe=Recipe(float("inf"), 16), max_steps=2)
