"""Two thousand strings are answered as they were recorded."""

import pytest
import strings_cases
from compared import inside

RECORDED = strings_cases.recorded()


@pytest.fixture(scope="module")
def normalizer(tmp_path_factory, home):
    from medcoder import Normalizer

    with inside(tmp_path_factory.mktemp("strings"), home):
        yield Normalizer.load()


@pytest.mark.parametrize("way", RECORDED)
def test_answers(way, normalizer):
    recorded = RECORDED[way]
    found, named = strings_cases.answers(
        normalizer, list(recorded), **strings_cases.WAYS.get(way, {})
    )
    lines = [
        f"{text[:60]!r}: {line}"
        for (text, old), new in zip(recorded.items(), found, strict=True)
        for line in strings_cases.compare(old, new)
    ]
    names = strings_cases.concepts()
    lines += [
        f"{concept}: was {names[concept]}, is {new}"
        for concept, new in named.items()
        if concept in names and names[concept] != new
    ]
    assert not lines, f"{way or 'plain'}: {len(lines)} differences\n" + "\n".join(lines[:12])


def test_what_is_asked():
    assert len(RECORDED[""]) == 2000
    assert list(RECORDED) == ["", *strings_cases.WAYS]
    assert all(len(some) >= 60 for some in RECORDED.values())
