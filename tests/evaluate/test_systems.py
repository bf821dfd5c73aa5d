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


def test_a_normaliser_is_built_once_for_a_dictionary_by_what_it_is_given(tmp_path):
    """No normaliser is needed: the functions that build and open one are handed over."""
    built = []

    def build(graph, encoder, path, *, progress=None):
        built.append(graph.preferred(graph.ids([0])[0]))
        path.mkdir()
        (path / "meta.json").write_text("{}", encoding="utf-8")

    class Answers:
        def normalize_many(self, texts, *, top, threshold, progress):
            assert (top, threshold) == (2, 0.0)
            for text in texts:
                matches = [SimpleNamespace(concept="1", term=text, confidence=0.75)]
                yield SimpleNamespace(matches=matches if text != "none" else [])

    linker = NormalizerLinker(
        SimpleNamespace(fingerprint="e"),
        build=build,
        load=lambda path: Answers(),
        stages=("a", "b"),
        cache=tmp_path,
    )
    assert linker.settings == {"encoder": "e", "stages": ["a", "b"], "threshold": 0.0}
    for _ in range(2):
        ranked = linker.link(["b2", "none", "x"], ["a", "b", "b2"], ["A", "B", "B"], 2)
        assert ranked.rows.tolist() == [[2, -1], [-1, -1], [1, -1]]
        assert ranked.scores[0].tolist() == [0.75, float("-inf")]
    assert built == ["a"]
