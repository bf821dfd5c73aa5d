"""Every command of the command line, with good and bad input, in one folder and in this order."""

import json
import shutil
import warnings
from pathlib import Path

from compared import HERE, plain
from files_read import exported, made_from_python, table
from tiny_model import write_model
from typer.testing import CliRunner

from medcoder.cli import app

GRAPH = ("terms", "relations", "xrefs", "flags", "vocabularies")


def prepare(folder):
    """Tables to work on."""
    (folder / "toy").mkdir()
    for name in GRAPH:
        shutil.copy(HERE / "toy" / f"{name}.csv", folder / "toy")
    for name in ("ward.csv", "CONCEPT.csv", "queries.tsv", "dictionary.tsv"):
        shutil.copy(HERE / "toy" / name, folder)
    (folder / "bench" / "similarity").mkdir(parents=True)
    shutil.copy(HERE / "toy" / "mayosrs.tsv", folder / "bench" / "similarity")
    (folder / "empty").mkdir()
    (folder / "lines.txt").write_text("hart attack\n\nfiebre\nzzz qqq\n", encoding="utf-8")
    (folder / "own.csv").write_text(
        "term,concept,language\nticker trouble,C0027051,en\nDruck im Kopf,C0018681,de\n",
        encoding="utf-8",
    )
    (folder / "bad.csv").write_text("term,concept\nx,C404\n")
    (folder / "bare.csv").write_text("id,label\nX1,one thing\nX2,another thing\n")
    (folder / "torn.csv").write_bytes(b"id,text\n1,a\n2,b,c\n")
    (folder / "latin.csv").write_bytes("id,text\n1,Fi\xe8vre\n".encode("latin-1"))


def run(*words, stdin=None):
    """Exit code, standard output (as JSON where it is) and standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    found = {"exit": done.exit_code}
    if "--help" in words:
        found["out"] = _unboxed(done.stdout)
    elif done.stdout:
        found["out"] = _parsed(done.stdout) if "--json" in words else _lines(done.stdout)
    if done.stderr:
        found["err"] = _unboxed(done.stderr)
    return found


def _parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return _lines(text)


def _lines(text):
    return [line.rstrip() for line in text.rstrip("\n").split("\n")]


def _unboxed(text):
    """Errors as words: the frame that the command line library draws around them is its own."""
    return " ".join("".join(" " if "─" <= sign <= "╿" else sign for sign in text).split())


def cases(folder):
    """Name of each case and what came of it; `folder` is the current one."""
    found, do = _begun(folder)
    _help(do)
    _graphs(do)
    found["files of kg export"] = plain(_parquet("tables"), folder)
    _indexes(do)
    found["vectors of embed"] = _vectors()
    _terms(do)
    _mapping(do)
    found["mapped.csv"] = table("p/mapped.csv")
    found |= plain(made_from_python(), folder)
    _deciding(do)
    _exporting(do)
    found |= plain(exported(), folder)
    _learning(do)
    found["results after refresh"] = table("p/mapped.csv")
    _serving(do)
    _embedded(do)
    return found


def model_cases(folder):
    """The same of commands that measure and train."""
    found, do = _begun(folder)
    do("kg", "build", "table=toy", "--out", "toy.kg")
    _benches(do)
    _training(do)
    return found


def _begun(folder):
    """Cases, and what adds one."""
    found = {}

    def do(*words, stdin=None, name=None):
        name = name or " ".join(str(word) for word in words)
        assert name not in found, name
        found[name] = plain(run(*words, stdin=stdin), folder, ids=False)
        return found[name]

    prepare(Path())
    return found, do


def _help(do):
    # The screen itself is the library's; that a command and its options are there is ours.
    do("--version")
    do("nonsense")
    for words in (
        [], ["kg"], ["kg", "build"], ["kg", "stats"], ["kg", "show"], ["kg", "find"],
        ["kg", "export"], ["embed"], ["index"], ["index", "build"], ["index", "info"],
        ["normalize"], ["terms"], ["terms", "add"], ["terms", "list"], ["terms", "remove"],
        ["map"], ["map", "table"], ["map", "refresh"], ["map", "status"], ["map", "report"],
        ["map", "export"], ["map", "import"], ["map", "learn"], ["map", "show"],
        ["map", "decide"], ["map", "undo"], ["map", "history"], ["map", "calibrate"], ["bench"],
        ["bench", "list"],
        ["bench", "run"], ["bench", "report"], ["bench", "errors"], ["bench", "figures"],
        ["bench", "paper"], ["export"], ["train"], ["serve"],
    ):  # fmt: skip
        do(*words, "--help")


def _graphs(do):
    do("kg", "build", "table=toy", "--out", "toy.kg", "--json")
    do("kg", "build", "table=toy", "--out", "toy.kg")
    do("kg", "build", "table=toy", "--out", "toy.kg", "--overwrite")
    do("kg", "build", "table=toy", "--out", "es.kg", "--languages", "es,ja", "--json")
    do("kg", "build", "table=toy", "--out", "v.kg", "--vocabularies", "MSH,HP", "--json")
    do("kg", "build", "table=toy", "--out", "s.kg", "--strict")
    do("kg", "build", "table=bare.csv", "--out", "bare.kg", "--column", "term=label", "--json")
    do("kg", "build", "table=bare.csv", "--out", "x.kg", "--column", "trm=label")
    do("kg", "build", "table=nowhere", "--out", "x.kg")
    do("kg", "build", "tabel=toy", "--out", "x.kg")
    do("kg", "build", "umls=empty", "--out", "x.kg")
    do("kg", "build", "table=toy", "--out", "x.kg", "--memory", "much")
    do("kg", "build", "table=toy")
    do("kg", "stats", "--kg", "toy.kg")
    do("kg", "stats", "--kg", "toy.kg", "--json")
    do("kg", "stats", "--kg", "toy.kg", "--top", "2")
    do("kg", "stats", "--kg", "bare.kg", "--json")
    do("kg", "stats", "--kg", "nowhere")
    do("kg", "stats", "--kg", "empty")
    for concept in ("C0027051", "C0009443", "C0018681", "C404"):
        do("kg", "show", concept, "--kg", "toy.kg")
        do("kg", "show", concept, "--kg", "toy.kg", "--json")
    do("kg", "show", "C0012634", "--kg", "toy.kg", "--limit", "1")
    for words in (
        ["cold"], ["COLD!"], ["epilepsie"], ["nothing here"], ["--code", "ICD10CM:R51.9"],
        ["--code", "ICD10CM:R50.9"], ["--code", "ICD10CM:R50.9", "--xrefs"],
        ["--code", "R51.9"], ["--code", "NONE:1"], [], ["cold", "--code", "ICD10CM:E11"],
        ["cold", "--xrefs"],
    ):  # fmt: skip
        do("kg", "find", *words, "--kg", "toy.kg")
        do("kg", "find", *words, "--kg", "toy.kg", "--json")
    do("kg", "export", "--kg", "toy.kg", "--out", "tables", "--json")
    do("kg", "export", "--kg", "toy.kg", "--out", "tables")
    do("kg", "export", "--kg", "toy.kg", "--out", "tables", "--overwrite")
    do("kg", "build", "table=tables", "--out", "again.kg", "--json")


def _parquet(folder):
    import pyarrow.parquet as pq

    found = {}
    for path in sorted(Path(folder).iterdir()):
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            rows = [list(row.values()) for row in table.to_pylist()]
            found[path.name] = {"columns": table.column_names, "rows": rows}
        else:
            found[path.name] = "another file"
    return found


def _indexes(do):
    do("index", "build", "--kg", "toy.kg", "--out", "toy.index", "--json")
    do("index", "build", "--kg", "toy.kg", "--out", "toy.index")
    do("index", "build", "--kg", "nowhere", "--out", "x.index")
    do("index", "build", "--kg", "toy.kg", "--out", "x.index", "--model", "nowhere")
    do("index", "build", "--kg", "toy.kg", "--out", "x.index", "--kind", "tree")
    do("index", "info", "--index", "toy.index")
    do("index", "info", "--index", "toy.index", "--json")
    do("index", "info", "--index", "nowhere")
    do("index", "info", "--index", "toy.kg")
    do("embed", "heart attack", "fiebre", "--json", name="embed --json short")["out"] = "in vectors"
    do("embed", "--file", "lines.txt", "--out", "lines.npy", "--json")
    do("embed", "--file", "lines.txt", "--out", "lines.npy")
    do("embed", "--file", "-", "--out", "stdin.parquet", stdin="fever\nheart attack\n")
    do("embed", "--kg", "toy.kg", "--out", "toy.vectors", "--json")
    do("embed", "--kg", "toy.kg", "--out", "toy.vectors")
    do("embed")
    do("embed", "x", "--out", "x.txt")
    do("embed", "x", "--file", "nowhere.txt")
    do("index", "build", "--kg", "toy.kg", "--vectors", "toy.vectors", "--kind", "hnsw", "--out",
       "hnsw.index", "--json")  # fmt: skip
    do("index", "build", "--kg", "es.kg", "--known", "toy.index", "--out", "es.index", "--json")
    at = ["--index", "toy.index"]
    for words in (
        ["hart attack", "cold", "zzz qqq", ""], ["cold", "--top", "4", "--explain"],
        ["--file", "lines.txt", "--top", "2"],
    ):  # fmt: skip
        do("normalize", *words, *at)
        do("normalize", *words, *at, "--json")
    for words in (
        ["cold", "--types", "Finding"], ["cold", "--vocabularies", "MSH,HP"],
        ["resfriado", "--languages", "es"], ["cold", "--stages", "ngram", "--top", "3"],
        ["hedache", "--stages", "exact"], ["hart attack", "--threshold", "1"],
    ):  # fmt: skip
        do("normalize", *words, *at, "--json")
    for words in (
        ["Feber", "zzz qqq", "--explain"], ["cold", "--types", "Fnding"],
        ["cold", "--vocabularies", "MESH"], ["cold", "--languages", "xx"],
        ["cold", "--stages", "dence"], ["cold", "--top", "0"], ["cold", "--threshold", "2"], [],
        ["--file", "nowhere.txt"], ["cold", "--file", "lines.txt"],
    ):  # fmt: skip
        do("normalize", *words, *at)
    do("normalize", "--file", "-", *at, "--json", stdin="feber\nhedache\n")
    do("normalize", "--file", "-", *at, stdin="", name="normalize nothing")
    do("normalize", "cold", "--index", "nowhere")
    do("normalize", "cold", "--index", "hnsw.index", "--top", "3", "--json")


def _vectors():
    """The first places of vectors, and how long they are."""
    import numpy as np
    import pyarrow.parquet as pq

    lines = np.load("lines.npy")
    table = pq.read_table("stdin.parquet")
    shown = json.loads("[" + ",".join(_printed("heart attack", "fiebre")) + "]")
    return {
        "npy": [list(lines.shape), str(lines.dtype), _rounded(lines[:, :6])],
        "parquet": [table.schema.names, table.num_rows,
                    [_rounded(row[name][:6]) if isinstance(row[name], list) else row[name]
                     for row in table.to_pylist() for name in table.schema.names]],
        "printed": [{key: [*_rounded(value[:6]), len(value)] if isinstance(value, list) else value
                     for key, value in one.items()} for one in shown],
    }  # fmt: skip


def _printed(*texts):
    return CliRunner().invoke(app, ["embed", *texts, "--json"]).stdout.splitlines()


def _rounded(values):
    import numpy as np

    return np.asarray(values, float).round(4).tolist()


def _terms(do):
    at = ["--index", "toy.index"]
    do("terms", "list", *at)
    do("terms", "list", *at, "--json")
    do("terms", "add", "ticker trouble", "C0027051", *at)
    do("terms", "add", "Herzkasper", "C0027051", "--language", "de", *at, "--json")
    do("terms", "add", "ticker trouble", "C0027051", *at, name="terms add again")
    do("terms", "add", "x", "C404", *at)
    do("terms", "add", "x", *at)
    do("terms", "add", *at)
    do("terms", "add", "--file", "own.csv", *at)
    do("terms", "add", "--file", "bad.csv", *at)
    do("terms", "add", "--file", "ward.csv", *at)
    do("terms", "add", "--file", "nowhere.csv", *at)
    do("terms", "list", *at, name="terms list of three")
    do("terms", "list", *at, "--json", name="terms list of three --json")
    do("index", "info", *at, "--json", name="index info with terms --json")
    do("normalize", "ticker troubel", "Herzkasper", *at, "--json")
    do("normalize", "HERZKASPER", *at, "--explain")
    do("terms", "remove", "Ticker Trouble!", *at)
    do("terms", "remove", "ticker trouble", *at)
    do("terms", "remove", "herzkasper", "--concept", "C0018681", *at)
    do("terms", "remove", "herzkasper", "--concept", "C0027051", *at, "--json")
    do("terms", "remove", "druck im kopf", *at, "--json")
    do("terms", "list", *at, "--json", name="terms list at the end --json")


WARD = ["--column", "text", "--code", "id", "--count", "n", "--index", "toy.index"]


def _mapping(do):
    do("map", "ward.csv", *WARD, "--language", "lang", "--context", "kind=type", "--top", "3",
       "--out", "p", "--json", name="map ward --json")  # fmt: skip
    do("map", "table", "ward.csv", *WARD, "--out", "q", "--precision", "0.9", "--vocabularies",
       "ICD10CM", "--source-name", "WARD", "--source-uri", "http://ward.example/codes",
       "--source-version", "3", name="map table ward")  # fmt: skip
    do("map", "ward.csv", *WARD, "--out", "q", name="map again with other settings")
    at = ["--index", "toy.index", "--out", "x"]
    for words in (
        ["ward.csv", "--column", "txt"], ["ward.csv", "--column", "text", "--context", "kind"],
        ["ward.csv", "--column", "text", "--context", "kind=unit"],
        ["ward.csv", "--column", "text", "--vocabularies", "X"],
        ["nowhere.csv", "--column", "text"], ["ward.csv", "--column", "text", "--encoding", "x"],
        ["ward.csv", "--column", "text", "--count", "text"], ["torn.csv", "--column", "text"],
        ["latin.csv", "--column", "text"], ["lines.txt", "--column", "text"],
        ["ward.csv", "--column", "text", "--precision", "2"], ["ward.csv"],
    ):  # fmt: skip
        do("map", *words, *at)
    do("map", "latin.csv", "--column", "text", "--encoding", "latin-1", "--index", "toy.index",
       "--out", "l", "--json")  # fmt: skip
    do("map", "torn.csv", "--column", "text", "--keep-bad-rows", "--index", "toy.index", "--out",
       "t", "--json")  # fmt: skip
    do("map", "status", "p")
    do("map", "status", "p", "--json")
    do("map", "status", "p", "--check")
    do("map", "status", "nowhere")
    do("map", "status", "empty")


def _deciding(do):
    for words in (
        ["fever"], ["1"], ["99"], ["no such text"], [], ["--status", "none"],
        ["--status", "flagged"], ["--status", "odd"], ["--by", "row", "--limit", "2"],
        ["--by", "confidence"], ["--by", "luck"],
    ):  # fmt: skip
        do("map", "show", "p", *words)
        do("map", "show", "p", *words, "--json")
    do("map", "history", "p")
    do("map", "decide", "p", "heart attack", "C0027051", "--note", "sure", "--json")
    do("map", "decide", "p", "3", "C0234192", "--equivalence", "related", "--who", "Bob|Ö=%",
       "--note", "=2+2", "--index", "toy.index")  # fmt: skip
    do("map", "decide", "p", "5", "C0004604", "--equivalence", "broader", "--json")
    do("map", "decide", "p", "6", "--no-match", "--note", 'no such "thing"', "--json")
    do("map", "decide", "p", "7", "--no-match")
    do("map", "decide", "p", "9", "C0018681", "--equivalence", "narrower", "--index", "toy.index")
    do("map", "decide", "p", "10", "C0018681", "--version", "0", "--index", "toy.index")
    do("map", "decide", "p", "10", "--no-match", "--version", "0", "--who", "bob")
    do("map", "decide", "p", "10")
    do("map", "decide", "p", "10", "C404", "--index", "toy.index")
    do("map", "decide", "p", "10", "C0018681", "--no-match")
    do("map", "decide", "p", "10", "C0018681", "--equivalence", "alike")
    do("map", "decide", "p", "404", "C0018681")
    do("map", "undo", "p", "7", "--note", "not so", "--json")
    do("map", "undo", "p", "7")
    do("map", "undo", "p", "--who", "nobody")
    do("map", "undo", "p", "--who", "ann", "--json")
    do("map", "decide", "p", "10", "C0018681", "--index", "toy.index", name="map decide p 10 again")
    do("map", "history", "p", name="map history at the end")
    do("map", "history", "p", "--json")
    do("map", "history", "p", "7", "--json")
    do("map", "status", "p", "--json", name="map status of decided --json")
    do("map", "status", "p", name="map status of decided")
    do("map", "report", "p", "--json")
    do("map", "report", "q")
    do("map", "report", "nowhere")
    do("map", "show", "p", "--status", "approved", name="map show approved")


def _exporting(do):
    for form in ("csv", "xlsx", "parquet", "sssom", "fhir", "usagi"):
        do("map", "export", "p", form, "--out", f"p.{form}", "--json")
        do("map", "export", "p", form, "--out", f"p2.{form}")
    ids = ["--concepts", "CONCEPT.csv"]
    do("map", "export", "p", "omop", "--out", "p.omop")
    do("map", "export", "p", "omop", "--out", "p.omop", *ids)
    do("map", "export", "p", "omop", "--out", "p.omop", *ids, "--missing-ok", "--json")
    do("map", "export", "p", "usagi", "--out", "p.usagi", *ids, "--missing-ok", "--json")
    do("map", "export", "p", "cvs", "--out", "x.csv")
    do("map", "export", "p", "csv", "--out", "x.csv", "--licence", "x")
    do("map", "export", "p", "sssom", "--out", "x.sssom", "--licence", "no uri")
    do("map", "export", "nowhere", "csv", "--out", "x.csv")
    do("map", "import", "q", "sssom", "p.sssom", "--kg", "toy.kg", "--json")
    do("map", "import", "q", "sssom", "p.sssom", "--kg", "toy.kg", name="map import again")
    do("map", "import", "q", "sssom", "p.sssom", "--kg", "toy.kg", "--overwrite")
    do("map", "import", "q", "sssom", "p.sssom", "--kg", "toy.kg", "--automatic", "--json")
    do("map", "import", "q", "usagi", "p.usagi", "--kg", "toy.kg", *ids, "--json")
    do("map", "import", "q", "usagi", "p.sssom", "--kg", "toy.kg")
    do("map", "import", "q", "usage", "p.sssom", "--kg", "toy.kg")
    do("map", "import", "q", "sssom", "nowhere", "--kg", "toy.kg")
    do("map", "show", "q", "--status", "approved", "--json", name="map show q approved --json")


def _learning(do):
    do("map", "learn", "p", "--index", "toy.index", "--json")
    do("map", "learn", "p", "--index", "toy.index")
    do("terms", "list", "--index", "toy.index", "--json", name="terms list after learning --json")
    do("map", "refresh", "p", "--index", "toy.index", "--json")
    do("map", "refresh", "p", "--index", "es.index")
    do("map", "show", "p", "--status", "flagged", "--json", name="map show flagged --json")
    do("map", "refresh", "nowhere", "--index", "toy.index")
    do("map", "calibrate", "p")
    do("map", "calibrate", "p", "--dry-run", "--json")
    do("map", "calibrate", "p", "--undo")
    do("map", "calibrate", "nowhere")


def _benches(do):
    do("bench", "list", "--data", "bench")
    do("bench", "list", "--data", "bench", "--json")
    do("bench", "list", "cadec", "mayosrs")
    do("bench", "list", "cadc")
    run = ["bench", "run", "--out", "scores", "--resamples", "20", "--threads", "1"]
    own = ["--queries", "queries.tsv", "--dictionary", "dictionary.tsv"]
    models = ["--models", "lexical:tfidf", "lexical:exact", "medcoder-all"]
    do(*run, *own, *models, "--json", name="bench run custom --json")
    do(*run, *own, *models, name="bench run custom again")
    do(*run, "--data", "bench", "--other-data", *models, name="bench run mayosrs")
    do(*run, "--data", "bench", *models, name="bench run of other data")
    do(*run, *own, "--models", "normalizer", "--seen", "dictionary.tsv", "--json",
       name="bench run normalizer --json")  # fmt: skip
    for words in (
        ["lexical:tfidf"], ["lexical:tfidf", "--data", "nowhere"],
        ["lexcal:tfidf", "--data", "bench"], ["word:no.bin", "--data", "bench"],
        ["lexical:tfidf", "--data", "bench", "--benches", "x"],
        ["lexical:tfidf", "--data", "empty"],
        ["lexical:tfidf", "--data", "bench", "--benches", "cadec"],
        ["lexical:tfidf", "--queries", "queries.tsv"],
    ):  # fmt: skip
        do("bench", "run", "--out", "x", "--models", *words)
    do("bench", "report", "scores", "--measured-only")
    do("bench", "report", "scores", "--format", "latex", "--measured-only")
    do("bench", "report", "scores", "--format", "html", "--measured-only")
    do("bench", "report", "scores", "--out", "report.md")
    do("bench", "report", "scores", "--format", "odt")
    do("bench", "report", "empty")
    errors = ["bench", "errors", "scores", "--bench", "custom", "--model"]
    do(*errors, "exact match")
    do(*errors, "exact match", "--format", "jsonl", "--top", "2")
    do(*errors, "exact match", "--language", "es", "--format", "jsonl")
    do(*errors, "char-3-gram TF-IDF", "--against", "exact match")
    do(*errors, "char-3-gram TF-IDF", "--against", "medcoder-all", "--format", "jsonl")
    do(*errors, "nobody")
    do("bench", "errors", "scores", "--bench", "cadec", "--model", "exact match")


def _training(do):
    write_model(Path("tiny"))
    base = ["train", "--kg", "toy.kg", "--out", "run"]
    do("train")
    do(*base, "--init", "empty")
    do("train", "--kg", "nowhere", "--init", "empty", "--out", "run")
    for setting in ("sampler.kk=8", "sampler.k=eight", "sampler.k", "relation.form=x"):
        do(*base, "--init", "empty", "--set", setting)
    do(*base, "--init", "empty", "--config", "nowhere.toml")
    do(*base, "--init", "empty", "--languages", "xx")
    small = ["--set", "sampler.k=8", "--set", "sampler.m=2", "--set", "schedule.total=10"]
    do(*base, "--init", "tiny", "--languages", "en", *small, "--dry-run", "--json",
       name="train --dry-run --json")  # fmt: skip
    do(*base, "--init", "tiny", *small, name="train with letters that are unknown")
    do("export", "tiny", "--out", "tiny.onnx", "--json")
    do("export", "tiny", "--out", "tiny.onnx")
    do("export", "tiny", "--out", "tiny8.onnx", "--weights", "int8")
    do("export", "empty", "--out", "x.onnx")
    do("export", "empty", "--out", "x.onnx", "--weights", "int9")
    for model in ("tiny.onnx", "tiny8.onnx"):
        found = do("embed", "heart", "--model", model, "--json")
        for one in found["out"] if isinstance(found["out"], list) else [found["out"]]:
            one["vector"] = one["vector"][:8]


def _serving(do):
    do("serve", "--index", "toy.index", "--host", "0.0.0.0", name="serve others without a token")
    do("serve", "--index", "toy.index", "--project", "nowhere")
    do("serve", "--port", "99999")


def _embedded(do):
    do("kg", "stats", "--json", name="kg stats of the embedded graph")
    do("kg", "show", "HP:0001250", "--json", name="kg show of the embedded graph")
    do("normalize", "hart attack", "--json", "--top", "2", name="normalize with the embedded index")
    do("map", "refresh", "p")
