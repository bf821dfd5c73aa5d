"""The tools that `peers.py` compares: each makes a list of titles searchable."""

from __future__ import annotations

import hashlib
import json
import logging
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TOP = 5
_IRI = "http://purl.bioontology.org/ontology/ICD10CM/"


class Job(NamedTuple):
    """What a tool gets: titles by number, strings by kind, and what medcoder needs besides."""

    titles: list[str]
    ask: dict[str, list[str]]
    work: Path
    model: str
    made: str = ""  # the index of medcoder


Ask = Callable[[list[str]], list[list[int]]]  # the best titles of each string, by number


class Tool(NamedTuple):
    """A way to make titles searchable."""

    what: str
    build: Callable[[Job], Ask]
    needs: str = ""  # package, as pip names it
    slow: bool = False  # asked fewer strings


class Clock:
    """Wall and processor seconds, those of all threads and of child processes included."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), self._cpu()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += self._cpu() - cpu

    @staticmethod
    def _cpu() -> float:
        both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, both))


def index(job: Job) -> dict[str, Any]:
    """Make the index of the titles by this model: its path, and what making it took.

    Vectors are kept from run to run, with the time they took; the rest is made anew.
    """
    from medcoder import KG, build_kg, load_encoder, open_source
    from medcoder.normalize.build import build
    from medcoder.vectors import Vectors
    from medcoder.vectors.embed import embed

    encoder: Any = load_encoder(job.model)
    stem = encoder.fingerprint[:12]
    rows, took, path = (job.work / f"{stem}.{end}" for end in ("vectors", "json", "index"))
    clock = Clock()
    with clock.running():
        table, graph = job.work / "icd10cm.tsv", job.work / "icd10cm.kg"
        lines = (f"{number}\t{title}" for number, title in enumerate(job.titles))
        table.write_text("\n".join(("concept\tterm", *lines)) + "\n", encoding="utf-8")
        build_kg([open_source(f"table={table}")], graph, overwrite=True)
        kg = KG.open(graph)
    done = took.exists() and rows.exists()
    if not done or Vectors.open(rows).meta["parents"]["kg"] != kg.fingerprint:
        embedding = Clock()
        with embedding.running():
            embed(kg, encoder, rows, overwrite=True)
        took.write_text(json.dumps(vars(embedding)))
    with clock.running():
        build(kg, encoder, path, vectors=Vectors.open(rows), overwrite=True)
    before = json.loads(took.read_text())
    return {"path": str(path), "build": {key: vars(clock)[key] + before[key] for key in before}}


def medcoder(*stages: Any) -> Callable[[Job], Ask]:
    """Our own, on a graph that has the titles alone."""

    def build(job: Job) -> Ask:
        from medcoder import Normalizer

        normalizer = Normalizer.load(job.made)
        assert normalizer.encoder  # loaded here, not while it is asked

        def ask(texts: list[str]) -> list[list[int]]:
            answers = normalizer.normalize_many(texts, top=TOP, stages=stages, threshold=0.0)
            return [[int(match.concept) for match in answer.matches] for answer in answers]

        return ask

    return build


def tfidf(job: Job) -> Ask:
    """Cosines of character trigrams weighted by TF-IDF, with every title, by sparse matrices."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(3, 3), dtype=np.float32)
    titles = vectorizer.fit_transform(job.titles).T.tocsr()

    def ask(texts: list[str]) -> list[list[int]]:
        found = []
        for start in range(0, len(texts), 256):
            scores = vectorizer.transform(texts[start : start + 256]) @ titles
            for first, last in zip(scores.indptr, scores.indptr[1:], strict=False):
                each, numbers = scores.data[first:last], scores.indices[first:last]
                if len(each) > TOP:
                    best = np.argpartition(-each, TOP)[:TOP]
                    each, numbers = each[best], numbers[best]
                found.append(numbers[np.lexsort((numbers, -each))].tolist())
        return found

    return ask


def rapidfuzz(scorer: str) -> Callable[[Job], Ask]:
    """Every title compared by a ratio of edits, upper case and punctuation aside."""

    def build(job: Job) -> Ask:
        from rapidfuzz import fuzz, process, utils

        titles = [utils.default_process(title) for title in job.titles]
        ratio = getattr(fuzz, scorer)

        def one(text: str) -> list[int]:
            plain = utils.default_process(text)
            return [place for *_, place in process.extract(plain, titles, scorer=ratio, limit=TOP)]

        return lambda texts: [one(text) for text in texts]

    return build


def text2term(job: Job) -> Ask:
    """Its default mapper, which reads all titles anew whenever it is called."""
    from text2term.term import OntologyTerm
    from text2term.tfidf_mapper import TFIDFMapper

    logging.disable()
    # Addresses that it knows how to shorten: it complains about each other one.
    iris = [f"{_IRI}{number}" for number in range(len(job.titles))]
    terms = {i: OntologyTerm(i, labels=[title]) for i, title in zip(iris, job.titles, strict=True)}
    mapper = TFIDFMapper(terms)

    def ask(texts: list[str]) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in texts]
        names = [str(place) for place in range(len(texts))]
        frame = mapper.map(texts, names, max_mappings=TOP, min_score=0)
        for name, iri in zip(frame["Source Term ID"], frame["Mapped Term IRI"], strict=True):
            found[int(name)].append(int(iri.removeprefix(_IRI)))
        return found

    return ask


def minilm_faiss(job: Job) -> Ask:
    """Cosines of vectors of a sentence-transformers model, by an exact index of faiss.

    `job.model` is its folder. The vectors of the titles are kept in `job.work`.
    """
    import faiss
    from sentence_transformers import SentenceTransformer

    from medcoder.files import replacing

    # On the processor, as the others are.
    model = SentenceTransformer(job.model, device="cpu")
    digest = hashlib.sha256("\n".join(job.titles).encode())
    for file in sorted(path for path in Path(job.model).rglob("*") if path.is_file()):
        digest.update(file.read_bytes())
    file = job.work / f"{digest.hexdigest()[:16]}.npy"

    def vectors(texts: list[str]) -> Any:
        rows = model.encode(texts, normalize_embeddings=True, show_progress_bar=len(texts) > 9999)
        return np.asarray(rows, np.float32)

    if not file.exists():
        with replacing(file) as draft, draft.open("wb") as stream:
            np.save(stream, vectors(job.titles))
    titles = np.load(file)
    index = faiss.IndexFlatIP(titles.shape[1])
    index.add(titles)

    def ask(texts: list[str]) -> list[list[int]]:
        _, numbers = index.search(vectors(texts), TOP)
        return [[int(number) for number in row if number >= 0] for row in numbers]

    return ask


OURS = {
    "medcoder": Tool("all stages", medcoder("exact", "dense", "ngram")),
    "medcoder-dense": Tool("without trigrams", medcoder("exact", "dense")),
    "medcoder-ngram": Tool("without the encoder", medcoder("exact", "ngram")),
}
PEERS = {
    "tfidf": Tool("scikit-learn, character trigrams", tfidf, "scikit-learn"),
    "text2term": Tool("its default mapper, TF-IDF", text2term, "text2term"),
    "rapidfuzz": Tool("WRatio, its default", rapidfuzz("WRatio"), "rapidfuzz", slow=True),
    "rapidfuzz-sort": Tool("token_sort_ratio", rapidfuzz("token_sort_ratio"), "rapidfuzz"),
    "rapidfuzz-ratio": Tool("ratio", rapidfuzz("ratio"), "rapidfuzz"),
}
TOOLS = OURS | PEERS
# Of a model that must be given: not among those that `peers.py` asks.
WITH_MODEL = {
    "minilm-faiss": Tool("an encoder, exact search", minilm_faiss, "sentence-transformers"),
}
