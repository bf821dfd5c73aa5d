"""Relation classification, frozen and fine-tuned."""

import numpy as np
import pytest

from medcoder.evaluate import Context
from medcoder.evaluate.embeddings import load
from medcoder.model.encoder import TransformerEncoder, save_encoder
from support import tiny
from support.evaluated import ANY, Letters, bench, values, write_table


def test_relations_are_classified_in_both_modes(tmp_path, monkeypatch):
    from medcoder.evaluate import relation_classifier

    asked = []

    def classify(embedding, train, test, *, fine_tune, epochs, seed, pooling, progress):
        asked.append((len(train), fine_tune, epochs, seed, pooling))
        predicted = [test[0][1]] * len(test)
        correct = np.array([label == triplet[1] for label, triplet in zip(predicted, test)])  # noqa: B905
        return relation_classifier.ClassifierResult(correct.mean(), correct, predicted)

    monkeypatch.setattr(relation_classifier, "classify", classify)
    monkeypatch.setattr(relation_classifier, "trainable", lambda found: found.kind == "word")
    folder = tmp_path / "relcls"
    write_table(folder / "train.tsv", "head|relation|tail", "a|is|b")
    write_table(folder / "test.tsv", "head|relation|tail", "a|is|b", "a|has|c", "b|is|c")
    result = bench("relcls").run(Letters(), tmp_path, ANY)
    assert values(result) == {
        ("frozen", "accuracy"): pytest.approx(2 / 3),
        ("fine-tuned", "accuracy"): pytest.approx(2 / 3),
    }
    # The epochs and the pooling of the paper.
    assert asked == [(1, False, 50, 0, "cls"), (1, True, 50, 0, "cls")]
    second = result.predictions[1]
    assert (second.query, second.gold, second.concepts) == ("a -> c", "has", ("is",))
    frozen = Context(pinned=False, resamples=0, options={"epochs": 2, "modes": ["frozen"]})
    assert bench("relcls").settings(frozen) == {
        "epochs": 2,
        "modes": ["frozen"],
        "contextual_pooling": "cls",
    }
    assert len(bench("relcls").run(Letters(), tmp_path, frozen).figures) == 1
    # What cannot be trained is not.
    assert len(bench("relcls").run(Letters(kind="lexical"), tmp_path, ANY).figures) == 1


def test_checkpoints_of_ours_are_fine_tuned_too(tmp_path):
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="mean", max_length=8)
    save_encoder(encoder, tmp_path / "model")
    ours = load(str(tmp_path / "model"))
    assert ours.kind == "ours"
    for name in ("train.tsv", "test.tsv"):
        write_table(tmp_path / "relcls" / name, "head|relation|tail", "fever|is|rash", "rash|has|a")
    once = Context(pinned=False, resamples=0, options={"epochs": 1})
    figures = bench("relcls").run(ours, tmp_path, once).figures
    assert [(found.split, found.metric) for found in figures] == [
        ("frozen", "accuracy"),
        ("fine-tuned", "accuracy"),
    ]
