"""Systems by their specs, and the normaliser over a dictionary as a system."""

from types import SimpleNamespace

import pytest

from medcoder.errors import UnknownName, UsageError
from medcoder.evaluate.systems import (
    NormalizerLinker,
    NormalizerSpec,
    check_specs,
    is_normalizer,
    open_systems,
    parse_normalizer,
)
from medcoder.types import Answer, Match
from support.evaluated import First


def test_specs_of_normalisers():
    assert is_normalizer("normalizer")
    assert is_normalizer("normalizer:a/b,name=Ours")
    assert not is_normalizer("path/normalizer")
    assert parse_normalizer("normalizer:a/b,name=Ours, all") == ("a/b", "Ours, all")
    assert parse_normalizer("normalizer") == (None, None)


def test_specs_that_cannot_be_right():
    with pytest.raises(UsageError, match="the one option"):
        check_specs(["normalizer:a,pooling=cls"])
    with pytest.raises(UsageError, match=r"there is no file no\.bin"):
        check_specs(["lexical:exact", "word:no.bin"])
    with pytest.raises(UnknownName, match="did you mean 'lexical'"):
        check_specs(["lexcal:tfidf"])


def test_systems_are_opened_one_after_the_other():
    asked = []
    opened = open_systems(
        ["lexical:exact", "normalizer:m,name=N"],
        normalizer=lambda spec: asked.append(spec) or First(),
    )
    assert next(opened).name == "exact match"
    assert asked == []
    assert next(opened).name == "first"
    assert asked == [NormalizerSpec("m", "N")]


def answer(*accepted, refused=()):
    """An answer with these concepts and terms, all as likely."""

    def match(concept, term):
        return Match(
            concept=concept, name="", codes=(), term=term, score=1, confidence=0.75, stage="a"
        )

    return Answer(
        query="",
        matches=tuple(match(*pair) for pair in accepted),
        rejected=tuple(match(*pair) for pair in refused),
        threshold=0,
    )


def linker(folder, **changes):
    given = {"build": None, "load": None, "stages": ("a", "b"), "cache": folder}
    return NormalizerLinker(SimpleNamespace(fingerprint="e"), **given | changes)


def make(graph, encoder, path, *, progress=None):
    """An index of nothing."""
    path.mkdir()
    (path / "meta.json").write_text("{}", encoding="utf-8")


def test_a_normaliser_is_built_once_for_a_dictionary_by_what_it_is_given(tmp_path):
    """No normaliser is needed: the functions that build and open one are handed over."""
    built = []

    def build(graph, encoder, path, *, progress=None):
        built.append(graph.preferred(graph.ids([0])[0]))
        make(graph, encoder, path)

    class Answers:
        def normalize_many(self, texts, *, top, threshold, progress):
            assert (top, threshold) == (2, 0.0)
            for text in texts:
                yield answer() if text == "none" else answer(("1", text))

    whole = linker(tmp_path, build=build, load=lambda path: Answers())
    for _ in range(2):
        ranked = whole.link(["b2", "none", "x"], ["a", "b", "b2"], ["A", "B", "B"], 2)
        assert ranked.rows.tolist() == [[2, -1], [-1, -1], [1, -1]]
        assert ranked.scores[0].tolist() == [0.75, float("-inf")]
    assert built == ["a"]


def test_candidates_rank_whether_or_not_they_are_answers(tmp_path):
    """ "No a" is answered with nothing, because it says that there is no a."""
    known = {"a": answer(("0", "a"), ("1", "b")), "no a": answer(refused=[("0", "a"), ("1", "b")])}

    class Answers:
        def normalize_many(self, texts, **asked):
            return (known[text] for text in texts)

    whole = linker(tmp_path, build=make, load=lambda path: Answers())
    ranked = whole.link(["a", "no a"], ["a", "b"], ["A", "B"], 2)
    assert ranked.rows.tolist() == [[0, 1], [0, 1]]


def test_what_was_made_by_other_weights_is_not_used_again(tmp_path, monkeypatch):
    """Neither its index nor its figures."""
    file = tmp_path / "weights.json"
    monkeypatch.setattr("medcoder.evaluate.systems.bundled_weights", lambda: file)
    made = []
    for content in ("1", "2", "2"):
        file.write_text(content, encoding="utf-8")
        whole = linker(tmp_path)
        assert whole.settings["encoder"] == "e"
        assert whole.settings["stages"] == ["a", "b"]
        made.append((whole.fingerprint, whole.settings["weights"]))
    assert made[0][0] != made[1][0]
    assert made[0][1] != made[1][1]
    assert made[1] == made[2]
