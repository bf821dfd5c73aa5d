"""How well relations can be told at all by softmax(W[e_h, e_t] + b), whatever the embedding.

python benchmarks/relation_ceiling.py BENCH/relcls_open [--model medcoder-all]

The classifier of the paper adds what the head says to what the tail says. So the best that any
embedding can do, frozen or fine-tuned, is what free numbers for each name can do. They are
fitted here on the training and the test pairs together, answers included: no model that sees the
training pairs alone should be expected above. Beside it: the same form on letters and words
of the names, fitted on the training pairs alone, and what it takes for what; and on all of that
with the vectors of a model.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from medcoder import load_encoder

Encode = Callable[[list[str]], Any]
Pair = tuple[str, str, str]  # head, relation, tail
SHOWN = 6  # confusions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", type=Path, help="folder with train.tsv and test.tsv")
    parser.add_argument("--model", help="an exported encoder, to add its vectors")
    options = parser.parse_args()
    train, test = read(options.bench / "train.tsv"), read(options.bench / "test.tsv")
    answers = [relation for _, relation, _ in test]
    most = Counter(relation for _, relation, _ in train).most_common(1)[0][0]
    print(f"always {most!r}: {share([most] * len(test), answers)}")

    told = lexical(train, test)
    print(f"letters and words, fitted on the training pairs: {share(told, answers)}")
    wrong = Counter(pair for pair in zip(answers, told, strict=True) if pair[0] != pair[1])
    for (meant, said), count in wrong.most_common(SHOWN):
        print(f"    {count:5,} {meant!r} taken for {said!r}")
    if options.model:
        told = lexical(train, test, vectors(options.model, train + test))
        print(f"the same with vectors of {options.model}: {share(told, answers)}")
    print(
        f"names, fitted on all pairs, answers included: {share(free(train + test, test), answers)}"
    )


def lexical(train: list[Pair], test: list[Pair], encode: Encode | None = None) -> list[str]:
    """What a linear classifier of whole names, words, letters and vectors says of the pairs."""
    known: list[csr_matrix] = []
    asked: list[csr_matrix] = []
    for place in (0, 2):
        names, others = ([pair[place] for pair in pairs] for pairs in (train, test))
        for make in (
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2),
            TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=3),
            TfidfVectorizer(analyzer=lambda name: [name]),
        ):
            known.append(make.fit_transform(names))
            asked.append(make.transform(others))
        if encode is not None:
            known.append(csr_matrix(encode(names)))
            asked.append(csr_matrix(encode(others)))
    model = LinearSVC(C=0.5).fit(hstack(known), [relation for _, relation, _ in train])
    return model.predict(hstack(asked)).tolist()


def vectors(model: str, pairs: list[Pair]) -> Encode:
    """The encoder of a model for the names of these pairs, each of which it encodes once."""
    names = sorted({name for head, _, tail in pairs for name in (head, tail)})
    known = dict(zip(names, load_encoder(model).encode(names), strict=True))
    return lambda some: [known[name] for name in some]


def free(fitted: list[Pair], test: list[Pair]) -> list[str]:
    """What a free number for each name and relation, fitted on some pairs, says of others."""
    sides = []
    for place in (0, 2):
        one_hot = TfidfVectorizer(analyzer=lambda name: [name], use_idf=False)
        one_hot.fit([pair[place] for pair in fitted])
        sides.append([one_hot.transform([pair[place] for pair in some]) for some in (fitted, test)])
    rows, asked = (hstack(side) for side in zip(*sides, strict=True))
    model = LogisticRegression(C=1000, max_iter=1000)
    return model.fit(rows, [relation for _, relation, _ in fitted]).predict(asked).tolist()


def share(said: list[str], answers: list[str]) -> str:
    right = sum(one == other for one, other in zip(said, answers, strict=True))
    return f"{100 * right / len(answers):.1f}%"


def read(file: Path) -> list[Pair]:
    lines = file.read_text(encoding="utf-8").split("\n")[1:]
    fields = [line.split("\t") for line in lines if line]
    return [(head, relation, tail) for head, relation, tail, *_ in fields]


if __name__ == "__main__":
    main()
