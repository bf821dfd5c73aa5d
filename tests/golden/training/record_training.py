"""Small training runs by the command line, and what they gave.

    python tests/golden/training/record_training.py

runs all of them twice, checks that both give the same, and writes answers.jsonl anew, from the
tree at hand.
"""

import contextlib
import json
import os
import random
import signal
import string
import sys
import tempfile
import threading
import time
from pathlib import Path

ANSWERS = Path(__file__).parent / "answers.jsonl"
# How far numbers may be off: losses by this part of them, vectors by this much.
LOSSES, VECTORS = 1e-4, 2e-4
DIGITS = 4  # of vectors
TEXTS = ("heart attack", "cold", "abide mango")

SMALL = (
    "sampler.k=8", "sampler.m=2", "optimiser.accumulation=1", "optimiser.learning_rate=0.002",
    "relation.learning_rate=0.01", "schedule.total=6", "schedule.warmup=2", "log_every=1",
)  # fmt: skip
# Relations that start far from doing nothing, so that their form counts from the first step on.
FORM = (*SMALL, "relation.init_scale=0.5")
# Settings and other options of each run. Names of files are those that `prepare` writes.
RUNS = {
    # All defaults of the settings but for the length of the schedule.
    "defaults": (("schedule.total=16", "schedule.warmup=8", "log_every=1"), ()),
    "bilinear": (FORM, ()),
    "diagonal": ((*FORM, "relation.form=diagonal"), ()),
    "low-rank": ((*FORM, "relation.form=low-rank", "relation.rank=4"), ()),
    "translation": ((*FORM, "relation.form=translation", "relation.labels=exact"), ()),
    "info_nce": ((*SMALL, "loss.kind=info_nce", "relation.loss.kind=info_nce"), ()),
    "teachers": (
        (*SMALL, "pooling=mean", "relation.dense=true"),
        ("--teacher", "teacher,weight=2,languages=en", "--teacher", "vectors.npy,weight=0.5"),
    ),
    "accumulation": ((*SMALL, "optimiser.accumulation=3", "schedule.unit=updates"), ()),
    "hard negatives and extra terms": (
        (
            *SMALL, "sampler.pairs=6", "sampler.hard_every=2", "sampler.extra_share=0.5",
            "sampler.extra_anchored=0.5", "sampler.pair_power=0.5", "evaluate_every=3",
        ),
        ("--extra", "lay.csv", "--evaluate", "queries.tsv"),
    ),
    "resume": ((*SMALL, "schedule.total=60", "optimiser.accumulation=2", "log_every=4"), ()),
}  # fmt: skip
BROKEN_OFF = ("resume",)  # runs that are interrupted, then resumed


# What they start from


def prepare(folder):
    """The tables, the graph, two models and vectors, in an empty folder."""
    import numpy as np

    terms, edges = graph_rows()
    write(folder / "tables" / "terms.csv", ["concept,term,language,source,code,kind,rank", *terms])
    write(folder / "tables" / "relations.csv", ["head,relation,tail", *edges])
    command(folder, "kg", "build", "table=tables", "--out", "kg")
    write_model(folder / "init", seed=0)
    write_model(folder / "teacher", seed=1)
    rng = np.random.default_rng(0)
    np.save(folder / "vectors.npy", rng.normal(size=(len(terms), 3)).astype(np.float32))
    lay = ["bad heart,C03,en,4", "very cold,C05,en,1", "dolor malo,C05,es,2", "achy,C11,,1"]
    write(folder / "lay.csv", ["term,concept,language,weight", *lay])
    # Names that lack their last letters: some are found, some are not.
    queries = [f"{name[:-3]}\t{concept}" for concept, name, *_ in (t.split(",") for t in terms)]
    write(folder / "queries.tsv", ["query\tconcept", *queries])


def graph_rows(size=24):
    """Concepts with three English names and a Spanish one, each "next" to two more."""
    draw = random.Random(3)

    def name():
        return " ".join("".join(draw.choices("abdegiklmnorstu", k=5)) for _ in range(2))

    ids = [f"C{number:02}" for number in range(size)]
    terms, edges = [], []
    for number, concept in enumerate(ids):
        for rank, language in enumerate(("en", "en", "en", "es")):
            terms.append(f"{concept},{name()},{language},MSH,{concept},PT,{rank}")
        for relation, tail in (("next", number + 1), ("next", number + 2), ("far", 5 * number + 3)):
            if tail % size != number:
                edges.append(f"{concept},{relation},{ids[tail % size]}")
    return terms, [*edges, "C00,once,C07", "C06,once,C04"]


def write(file, lines):
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_model(path, *, seed):
    """A BERT two layers deep and 16 wide, made from a config, as Hugging Face saves it."""
    import torch
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
    from tokenizers.models import WordPiece
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    letters = string.ascii_lowercase
    pieces = (*special, "heart", "cold", "attack", *letters, *(f"##{one}" for one in letters))
    numbers = {piece: number for number, piece in enumerate(pieces)}
    config = BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        vocab_size=len(pieces), max_position_embeddings=40,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertModel(config)
        for parameter in model.parameters():
            if parameter.dim() > 1:  # the default spread of 0.02 makes all vectors alike
                torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(path)
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(one, numbers[one]) for one in ("[CLS]", "[SEP]")]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(path)


# The runs


def command(folder, *words, code=0):
    """Run a command in `folder`, by one thread; gives standard output."""
    import torch
    from typer.testing import CliRunner

    from medcoder.cli import app

    before, threads = Path.cwd(), torch.get_num_threads()
    bare = {name: None for name in os.environ if name.startswith("MEDCODER_")}
    env = bare | {"HF_HUB_OFFLINE": "1", "MEDCODER_HOME": str(folder / "home")}
    torch.set_num_threads(1)
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, [str(word) for word in words], env=env)
    finally:
        os.chdir(before)
        torch.set_num_threads(threads)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, f"{words}: {done.exit_code}\n{done.output}"
    return done.stdout


def answer(folder, name):
    """Train in a prepared folder: metrics of each line and vectors of a few strings."""
    import medcoder

    settings, more = RUNS[name]
    out = name.replace(" ", "-")
    words = ["train", "--kg", "kg", "--init", "init", "--out", out, *more]
    for setting in settings:
        words += ["--set", setting]
    if name in BROKEN_OFF:
        with interrupted(folder / out / "metrics.jsonl"):
            command(folder, *words, code=130)
        assert not (folder / out / "model").exists()
        words.append("--resume")
    said = command(folder, *words)
    lines = (folder / out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    models = ["model", "best"] if "--evaluate" in more else ["model"]
    vectors = {
        f"{model}: {text}": [round(value, DIGITS) for value in vector]
        for model in models
        for text, vector in zip(
            TEXTS, medcoder.load_encoder(folder / out / model).encode(TEXTS).tolist(), strict=True
        )
    }
    return {"said": said, "metrics": [timeless(json.loads(line)) for line in lines]} | vectors


def timeless(line):
    """A line of metrics without what depends on the time."""
    return {key: value for key, value in line.items() if key != "terms_per_second"}


@contextlib.contextmanager
def interrupted(metrics):
    """Ctrl-C as soon as there is a line of metrics: where that is makes no difference."""
    over = threading.Event()

    def watch():
        while not over.is_set():
            if metrics.exists() and metrics.stat().st_size:
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    # A shell starts what it runs in the background deaf to Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGINT, before)


# Recorded and compared


def recorded():
    lines = ANSWERS.read_text(encoding="utf-8").splitlines()
    return {case["case"]: case["answer"] for case in map(json.loads, lines)}


def differences(old, new):
    """Where two answers differ, as lines to read."""
    if old["said"] != new["said"]:
        yield f"said: {old['said']!r} before, {new['said']!r} now"
    for key in sorted((old.keys() | new.keys()) - {"said", "metrics"}):
        ones, others = old.get(key, []), new.get(key, [])
        gaps = [abs(one - other) for one, other in zip(ones, others, strict=False)]
        if len(ones) != len(others) or max(gaps) > VECTORS:
            yield f"vector of {key}: {ones} before, {others} now"
    if len(old["metrics"]) != len(new["metrics"]):
        yield f"metrics: {len(old['metrics'])} lines before, {len(new['metrics'])} now"
    for one, other in zip(old["metrics"], new["metrics"], strict=False):
        for key in sorted(one.keys() | other.keys()):
            before, now = one.get(key), other.get(key)
            if before is None or now is None or abs(before - now) > LOSSES * abs(before):
                yield f"step {one['step']}, {key}: {before} before, {now} now"


def main():
    answers = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            prepare(Path(folder))
            answers.append({name: answer(Path(folder), name) for name in RUNS})
    first, second = answers
    for name in RUNS:
        if found := list(differences(first[name], second[name])):
            sys.exit("\n".join([f"{name} does not repeat:", *found]))
    lines = [
        json.dumps({"case": name, "answer": given}, ensure_ascii=False, sort_keys=True)
        for name, given in first.items()
    ]
    ANSWERS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    same = sum(first[name] == second[name] for name in RUNS)
    print(f"{len(lines)} runs, {same} of them the same to the last digit when repeated")


if __name__ == "__main__":
    main()
