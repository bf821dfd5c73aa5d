"""medcoder-all, made in one run from open data and a public checkpoint.

python recipes/medcoder/make.py prepare work --terms TERMS --relations RELATIONS --bench BENCH \\
    --sentences SENTENCES --start MINILM            # on a CPU, once: graph, tables, word pieces
python recipes/medcoder/make.py train work --start MINILM     # on a GPU: teachers, then training

`all` does both. A stage is made again when what it reads, its settings in recipe.toml or its code
changed. What comes out is work/run-mixed, a folder for transformers and sentence-transformers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECIPE = HERE / "recipe.toml"
MANIFEST = ROOT / "recipes" / "medcoder-all" / "manifest.toml"
FOLLOW = ROOT / "src" / "medcoder" / "models" / "medcoder-all" / "tokenizer.json"
DATA_CODE = ("data.py", "augment.py", "styles.py", "related.py", "tables.py", "arabic_hindi.tsv")


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    recipe = tomllib.loads(options.recipe.read_text(encoding="utf-8"))
    options.work.mkdir(parents=True, exist_ok=True)
    if options.what in ("prepare", "all"):
        prepare(options, recipe)
    if options.what in ("train", "all"):
        train(options, recipe)


def prepare(options: argparse.Namespace, recipe: dict[str, Any]) -> None:
    from data import Inputs, make_data

    missing = [
        name for name in ("terms", "relations", "bench", "sentences") if not _of(options, name)
    ]
    if missing:
        raise SystemExit(f"prepare needs --{', --'.join(missing)}")
    inputs = Inputs(
        options.terms,
        options.relations,
        options.xrefs,
        options.bench,
        options.sentences,
        options.manifest,
        options.own,
    )
    stage(
        options.work / "data",
        [path for path in inputs if path] + [HERE / name for name in DATA_CODE],
        recipe["data"],
        lambda out: make_data(inputs, recipe["data"], out),
    )
    stage(
        options.work / "vocabulary",
        [options.work / "data", options.follow, options.start, HERE / "vocabulary.py"],
        recipe["vocabulary"],
        lambda out: make_pieces(options, recipe["vocabulary"], out),
    )


def make_pieces(options: argparse.Namespace, settings: dict[str, Any], out: Path) -> None:
    import polars as pl
    from vocabulary import make_vocabulary

    from tables import read

    data = options.work / "data"
    name_of: dict[str, list[str]] = {}
    for term, concept in read(data / "names.tsv")[1]:
        name_of.setdefault(concept, []).append(term)
    graph = pl.read_parquet(data / "graph" / "concepts_terms.parquet")
    rows = list(graph.select("term", "concept_id", "lang").iter_rows())
    rows += [tuple(row[:3]) for row in read(data / "extra.tsv")[1]]
    pairs = [
        (text, name)
        for text, concept, tag in rows
        if tag != "en" and not tag.startswith("x-")
        for name in name_of.get(concept, [])[:2]
    ]
    said = [(text, other) for text, other, _ in read(data / "sentences.tsv")[1] if text != other]
    new = tuple(settings["new_languages"])
    texts = [text for text, _, tag in rows if tag in new]
    scripts = "\u0600", "\u06ff", "\u0900", "\u097f"
    texts += [
        text
        for text, _ in said
        if any(scripts[0] <= c <= scripts[1] or scripts[2] <= c <= scripts[3] for c in text)
    ]
    make_vocabulary(options.start, options.follow, texts, pairs + said, settings, out)


def train(options: argparse.Namespace, recipe: dict[str, Any]) -> None:
    from vocabulary import widen

    data, vocabulary = options.work / "data", options.work / "vocabulary"
    init = stage(
        options.work / "init",
        [vocabulary, options.start],
        {},
        lambda out: widen(options.start, vocabulary, out),
    )
    taught = stage(
        options.work / "teachers",
        [data, options.start, HERE / "teachers.py"],
        recipe["teachers"],
        lambda out: _teach(options, recipe["teachers"], out),
    )
    run = options.work / options.run
    run.mkdir(parents=True, exist_ok=True)
    config = options.work / f"{options.run}.toml"
    text = "\n".join(_toml(recipe["train"], "")) + "\n"
    text = text.replace("$DATA", str(data.resolve())).replace("$TEACHERS", str(taught.resolve()))
    config.write_text(text, encoding="utf-8")
    languages = "+".join(recipe["teachers"]["languages"])
    spec = f"{taught / 'terms.npy'},weight={recipe['teachers']['weight']},languages={languages}"
    command = [sys.executable, "-m", "medcoder.train", "--kg", str(data / "train.kg")]
    command += ["--init", str(init), "--extra", str(data / "extra.tsv"), "--teacher", spec]
    command += ["--config", str(config), "--out", str(run)]
    for change in (f"seed={options.seed}", *options.set):
        command += ["--set", change]
    begin = time.monotonic()
    subprocess.run(command, check=True)
    about = {
        "seconds": round(time.monotonic() - begin, 1),
        "command": [Path(command[0]).name, *command[1:]],
        "commit": _commit(),
        "hashes": {name: _hash([options.work / name]) for name in ("data", "vocabulary")},
        "start": _hash([options.start]),
    }
    finish(run / "model", init, recipe["model"]["share"], options.work / f"{options.run}-mixed")
    (run / "made.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def finish(model: Path, init: Path, share: float, out: Path) -> None:
    """The model that is kept: a mean with the start."""
    from mix import mix

    from medcoder.model.encoder import TransformerEncoder, save_encoder

    encoder = TransformerEncoder.load(model).eval()
    mix(encoder, init, share)
    save_encoder(encoder, out, about={"made_by": "recipes/medcoder", "share": share})


def _teach(options: argparse.Namespace, settings: dict[str, Any], out: Path) -> None:
    from teachers import make_vectors

    make_vectors(options.start, options.work / "data", settings["languages"], out)


def stage(
    out: Path, inputs: Iterable[Path], settings: dict[str, Any], make: Callable[[Path], None]
) -> Path:
    """A folder that `make` fills, unless it is there, made of the same."""
    key = hashlib.blake2b(f"{_hash(inputs)} {json.dumps(settings)}".encode(), digest_size=16)
    mark = out / "stage.json"
    if mark.exists() and json.loads(mark.read_text("utf-8"))["key"] == key.hexdigest():
        return out
    print(f"{out.name} ...", flush=True)
    begin = time.monotonic()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    make(out)
    seconds = round(time.monotonic() - begin, 1)
    mark.write_text(json.dumps({"key": key.hexdigest(), "seconds": seconds}) + "\n", "utf-8")
    print(f"{out.name}: {seconds} s", flush=True)
    return out


def _hash(paths: Iterable[Path]) -> str:
    """Of files and folders: names below the folder, and contents. A stage is what its key says."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        if (path / "stage.json").exists():
            digest.update(json.loads((path / "stage.json").read_text("utf-8"))["key"].encode())
            continue
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                digest.update(f"{file.relative_to(path)}\0".encode())
                with file.open("rb") as opened:
                    digest.update(hashlib.file_digest(opened, "blake2b").digest())
    return digest.hexdigest()


def _toml(table: dict[str, Any], prefix: str) -> Iterable[str]:
    tables = []
    for name, value in table.items():
        if isinstance(value, dict) and name != "weight":
            tables.append((f"{prefix}{name}", value))
        elif isinstance(value, dict):
            inner = ", ".join(f"{key} = {json.dumps(each)}" for key, each in value.items())
            yield f"{name} = {{{inner}}}"
        else:
            yield f"{name} = {json.dumps(value)}"
    for name, value in tables:
        yield f"\n[{name}]"
        yield from _toml(value, f"{name}.")


def _commit() -> str:
    found = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def _of(options: argparse.Namespace, name: str) -> Any:
    return getattr(options, name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("prepare", "train", "all"))
    parser.add_argument("work", type=Path, help="folder to make it in")
    parser.add_argument("--start", type=Path, required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--terms", type=Path, help="merged terms, Parquet")
    parser.add_argument("--relations", type=Path, help="head, relation, tail, Parquet")
    parser.add_argument("--xrefs", type=Path, help="concept_id, xref, Parquet: for ward strings")
    parser.add_argument("--bench", type=Path, help="folder of the benches, to keep out")
    parser.add_argument("--sentences", type=Path, help="folder of sentences with their English")
    parser.add_argument("--own", type=Path, default=ROOT / "data" / "train")
    parser.add_argument("--manifest", type=Path, default=MANIFEST, help="sources that are in")
    parser.add_argument("--follow", type=Path, default=FOLLOW, help="tokenizer.json: its pieces")
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--run", default="run", help="name of the run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser


if __name__ == "__main__":
    main()
