"""Runs small enough for a test: a made-up graph, a BERT of two layers, a few dozen steps."""

import json
import multiprocessing
import os
import random
import socket
import sys
from pathlib import Path

import torch

from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.model.encoder import TransformerEncoder
from medcoder.train import train
from medcoder.train.config import load
from medcoder.train.objective import NAMES
from medcoder.train.tokens import TokenStore, tokenize_kg
from support import tiny
from support.memory import MemorySource

# So small a model gains nothing by threads, and loses much where others want the cores too.
torch.set_num_threads(1)

CONCEPTS = 24
COLUMNS = (*NAMES, "gradient_norm")  # of the metrics
SETTINGS = (
    "sampler.k=8",
    "sampler.m=2",
    "optimiser.accumulation=2",
    "optimiser.learning_rate=0.002",
    "relation.learning_rate=0.01",
    "schedule.total=24",
    "schedule.warmup=4",
    "log_every=2",
    "checkpoint_every=1000",
)


def graph_rows(size=CONCEPTS):
    """Concepts with three English names, a Spanish and a Japanese one, each "next" to two more."""
    draw = random.Random(3)

    def name():
        return " ".join("".join(draw.choices("abdegiklmnorstu", k=5)) for _ in range(2))

    ids = [f"C{number:07}" for number in range(size)]
    terms = []
    for concept in ids:
        for rank in range(3):
            terms.append((concept, name(), "en", "MSH", concept, "PT", rank))
        terms.append((concept, name(), "es", "MSH", concept, "PT", 3))
        terms.append((concept, f"病{concept}", "ja", "MSH", concept, "PT", 3))
    edges = []
    for number, head in enumerate(ids):
        for relation, tail in (("next", number + 1), ("next", number + 2), ("far", 5 * number + 3)):
            if tail % size != number:
                edges.append((head, relation, ids[tail % size]))
    edges += [(ids[0], "once", ids[7]), (ids[6], "once", ids[4])]
    return {"terms": terms, "edges": edges}


def make_graph(path, size=CONCEPTS, **changes):
    build_kg([MemorySource(**graph_rows(size) | changes)], path)
    return KG.open(path)


def make_encoder(*, dropout=0.0, **options):
    model = tiny.bert(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return TransformerEncoder(model, tiny.tokenizer(), **options)


def make_model(path):
    """A model directory as any Hugging Face one."""
    encoder = make_encoder()
    encoder.model.save_pretrained(path)
    encoder.tokenizer.save_pretrained(path)
    return path


def make_store(kg, encoder, path, extra=()):
    tokenizer = encoder.tokenizer.backend_tokenizer
    tokenizer.enable_truncation(encoder.max_length)
    options = {"kg": kg, "tokenizer": tokenizer, "max_length": encoder.max_length, "extra": extra}
    if path.exists():
        return TokenStore.open(path, **options)
    return tokenize_kg(out=path, unknown=1, **options)


def settings(*changes):
    return load(None, [*SETTINGS, *changes])


def run(kg, out, *changes, dropout=0.0, encoder=None, texts=(), **options):
    """Train a new tiny encoder, or the one given; gives it back."""
    config = settings(*changes)
    encoder = encoder or make_encoder(dropout=dropout, pooling=config.pooling)
    store = make_store(kg, encoder, out.parent / f"{out.name}.tokens", texts)
    train(kg, encoder, store, out, config, **options)
    return encoder


def metrics(out):
    """The lines of metrics, but for what depends on the time."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "terms_per_second"} for line in lines]


def weights(encoder):
    return {name: value.clone() for name, value in encoder.model.state_dict().items()}


def same(ones, others):
    return ones.keys() == others.keys() and all(torch.equal(ones[n], others[n]) for n in ones)


# Processes of their own, forked from one that has imported torch but not used it. They find the
# functions of test modules by the names that pytest gives to these.

sys.path.append(str(Path(__file__).parents[2]))

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["medcoder.train.session", "medcoder.kg.build", "transformers.models.bert.modeling_bert"]
)


def start(work, *arguments, env=None):
    """Call a function of a module in another process."""
    process = _FORKS.Process(target=_work, args=(work, arguments, env or {}))
    process.start()
    return process


def _work(work, arguments, env):
    os.environ.update(env)
    work(*arguments)


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]
