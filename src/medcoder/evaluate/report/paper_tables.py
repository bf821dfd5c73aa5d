"""The tables of the paper and its appendix, with measured rows above the quoted ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from medcoder.evaluate.report import quoted
from medcoder.evaluate.report.quoted import Quoted
from medcoder.evaluate.report.table import (
    MANY,
    Cell,
    Column,
    Entry,
    Row,
    Table,
    Wanted,
    rows,
    slug,
    transposed,
)

MANTRA, MANTRA_OPEN, MCSM, RELATIONS = "mantra", "mantra_open", "mcsm", "relcls"
CORPORA = ("MEDLINE", "EMEA", "Patent")
_FOLDS = (("Cadec", "cadec"), ("PsyTar", "psytar"))
_FROM = f"Quoted rows: {quoted.CITATION}, as printed."
_UNSEEN = "Queries that are not verbatim terms of the training graph named in the run."
_MOST = "11.09 is the most there can be"
_WAYS = ("frozen", "fine-tuned")


def paper(some: Sequence[Entry]) -> Iterator[Table]:
    """In the order of the paper, its appendix last."""
    pooled = [entry for entry in some if entry.pooling != "cls"]
    cls = [entry for entry in some if entry.pooling == "cls"]
    yield linking(pooled, "cadec-psytar", "Cadec and PsyTar, mean pooling", quoted.CADEC_PSYTAR)
    yield unseen(some)
    for bench in (MANTRA, MANTRA_OPEN):
        yield from mantra(some, bench)
    yield from mcsm(pooled, MCSM, "MCSM, mean pooling", quoted.MCSM)
    yield relations(some)
    yield ablation(some)
    yield linking(cls, "cadec-psytar-cls", "Cadec and PsyTar, [CLS]", quoted.CADEC_PSYTAR_CLS)
    yield from mcsm(cls, "mcsm-cls", "MCSM, [CLS]", quoted.MCSM_CLS)


def linking(some: Sequence[Entry], key: str, title: str, said: Sequence[Quoted]) -> Table:
    """Zero-shot linking of social media text."""
    wanted = _accuracies("all")
    return Table(
        key=key,
        title=f"{title}: accuracy, %",
        columns=_columns(wanted),
        rows=(*rows(some, wanted, pooling=_mixed(some)), *_quoted(said)),
        notes=(quoted.SIZES, _FROM),
    )


def unseen(some: Sequence[Entry]) -> Table:
    """The same on what training cannot have shown."""
    wanted = _accuracies("unseen")
    return Table(
        key="cadec-psytar-unseen",
        title="Cadec and PsyTar, unseen queries: accuracy, %",
        columns=_columns(wanted),
        rows=tuple(rows(some, wanted, pooling=_mixed(some))),
        notes=(_UNSEEN,),
    )


def mantra(some: Sequence[Entry], bench: str) -> Iterator[Table]:
    """A table for each corpus, over languages; then all corpora, and the other metrics."""
    measured = _splits(some, bench, "f1")
    splits = [split for split in measured if split.partition("/")[0] != "unseen"]
    languages = _languages(split.partition("/")[0] for split in splits if split != "all")
    is_paper = bench == MANTRA
    corpora = {corpus: corpus for corpus in CORPORA} if is_paper else {}
    corpora |= {_corpus(c): c for c in (split.partition("/")[2] for split in splits) if c}
    name = "MANTRA GSC" if is_paper else "MANTRA GSC, open dictionary"
    for corpus, called in corpora.items():
        over = _languages((*languages, *quoted.LANGUAGES)) if is_paper else languages
        wanted = [Wanted(Column("", lang), bench, f"{lang}/{called}", "f1", 1) for lang in over]
        said = quoted.MANTRA.get(corpus, ()) if is_paper else ()
        yield Table(
            key=slug(f"{bench} {corpus}"),
            title=f"{name}, {corpus}: F1, %",
            columns=_columns(wanted),
            rows=(
                *rows(some, wanted, pooling=_mixed(some)),
                *_quoted(_spread(said, quoted.LANGUAGES, over)),
            ),
            notes=(
                "The paper's dictionary holds 801,038 concepts of UMLS 2020AA; a smaller one is "
                "an easier task.",
                _FROM,
            )
            if said
            else (),
        )
    for metric, title in (
        ("f1", "F1"),
        ("precision", "precision"),
        ("recall", "recall"),
        ("accuracy", "accuracy for each annotation, which the reference code calls F1"),
    ):
        wanted = [
            Wanted(Column("", split), bench, split, metric, 1)
            for split in ("all", *languages)
            if split in _splits(some, bench, metric)
        ]
        yield Table(
            key=slug(f"{bench} {metric}"),
            title=f"{name}, all corpora: {title}, %",
            columns=_columns(wanted),
            rows=tuple(rows(some, wanted, pooling=_mixed(some))),
        )
    wanted = [
        Wanted(Column("", split.partition("/")[2] or "all"), bench, split, "f1", 1)
        for split in measured
        if split not in splits
    ]
    yield Table(
        key=slug(f"{bench} unseen"),
        title=f"{name}, unseen queries: F1, %",
        columns=_columns(wanted),
        rows=tuple(rows(some, wanted, pooling=_mixed(some))),
        notes=(_UNSEEN,),
    )


def mcsm(some: Sequence[Entry], key: str, title: str, said: Sequence[Quoted]) -> Iterator[Table]:
    """The six types of the paper; then all other types, of this dictionary and of others."""
    meaning = "; ".join(f"{short}: {name}" for short, name in quoted.TYPES.items())
    six = {*quoted.TYPES, *quoted.TYPES.values()}
    benches = dict.fromkeys(b for entry in some for b, _, metric in entry.values if metric == MCSM)
    for metric, suffix, what in (
        (MCSM, "", "unknown concepts left out"),
        (f"{MCSM}_oov0", "-oov0", "unknown concepts scored 0"),
    ):
        first = metric == MCSM
        wanted = [
            Wanted(Column("", short), MCSM, split, metric, percent=False)
            for short, name in quoted.TYPES.items()
            for split in [short if short in _splits(some, MCSM, metric) else name]
        ]
        yield Table(
            key=key + suffix,
            title=f"{title}, {what}",
            columns=_columns(wanted),
            rows=(
                *rows(some, wanted, pooling=_mixed(some)),
                *(_quoted(said) if first else ()),
            ),
            notes=(
                f"{meaning}. k = 40; {_MOST}.",
                *(("The paper's V is 157,726 concepts of SNOMED CT.", _FROM) if first else ()),
            ),
        )
        for bench in benches:
            known = six if bench == MCSM else ()
            types = [name for name in _splits(some, bench, metric) if name not in known]
            more = [Wanted(Column("", n), bench, n, metric, percent=False) for n in types]
            table = Table(
                key=f"{key.replace(MCSM, slug(bench))}{suffix}-others",
                title=f"{title}, {'other types' if bench == MCSM else bench}, {what}",
                columns=_columns(more),
                rows=tuple(rows(some, more, pooling=_mixed(some))),
                notes=(f"{_MOST[0].upper()}{_MOST[1:]}.",),
            )
            yield table if len(more) <= MANY else transposed(table, head="Type")


def relations(some: Sequence[Entry]) -> Table:
    """Relation classification with vectors as they are, and trained along."""
    benches = dict.fromkeys([RELATIONS, *(b for e in some for b, s, _ in e.values if s in _WAYS)])
    wanted = [
        Wanted(Column("DDBRC" if bench == RELATIONS else bench, split), bench, split, "accuracy")
        for bench in benches
        for split in _WAYS
    ]
    own = [f"{want.bench} {want.split}" for want in wanted]
    said = _spread(quoted.DDBRC, [f"{RELATIONS} {split}" for split in _WAYS], own)
    return Table(
        key=RELATIONS,
        title="Relation classification: accuracy, %",
        columns=_columns(wanted),
        rows=(*rows(some, wanted), *_quoted(said)),
        notes=(
            "DDBRC: 131,741 triplets of the Diseases Database, 14 relations. Contextual rows, "
            "quoted and measured, are of [CLS], whatever pooling they have in other tables; "
            "exported encoders give unit vectors of their own pooling, and are never fine-tuned.",
            _FROM,
        ),
    )


def ablation(some: Sequence[Entry]) -> Table:
    """Models of several seeds; the paper's own ablation."""
    wanted = _accuracies("all")
    several = [entry for entry in some if entry.seeds]
    return Table(
        key="ablation",
        title="Ablation: accuracy, %",
        head="Setting",
        columns=_columns(wanted),
        rows=(*rows(several, wanted, pooling=_mixed(several)), *_quoted(quoted.ABLATION)),
        notes=(
            "Measured rows: mean over seeds ± standard deviation.",
            quoted.SIZES,
            _FROM,
        ),
    )


def _corpus(name: str) -> str:
    """As the paper spells it: releases have Medline and Patents.

    >>> _corpus("Patents")
    'Patent'
    """
    same = [corpus for corpus in CORPORA if name.lower().rstrip("s") == corpus.lower()]
    return same[0] if same else name


def _accuracies(split: str) -> list[Wanted]:
    return [
        Wanted(Column(title, metric), bench, split, metric)
        for title, bench in _FOLDS
        for metric in ("acc@1", "acc@3")
    ]


def _columns(wanted: Iterable[Wanted]) -> tuple[Column, ...]:
    return tuple(want.column for want in wanted)


def _quoted(said: Iterable[Quoted]) -> list[Row]:
    return [
        Row(row.name, tuple(Cell(text=value) for value in row.values), "quoted") for row in said
    ]


def _spread(
    said: Iterable[Quoted], columns: Sequence[str], over: Sequence[str]
) -> Iterator[Quoted]:
    """The same rows where a table has more columns than the paper."""
    for row in said:
        by = dict(zip(columns, row.values, strict=True))
        yield Quoted(row.name, row.kind, tuple(by.get(column, "") for column in over))


def _mixed(some: Sequence[Entry]) -> bool:
    """Whether a reader would ask how a row was pooled."""
    return len({entry.pooling for entry in some if entry.pooling}) > 1


def _splits(some: Sequence[Entry], bench: str, metric: str) -> list[str]:
    """Of any embedding, in the order in which they were measured."""
    keys = (key for entry in some for key in entry.values)
    return list(dict.fromkeys(s for b, s, m in keys if (b, m) == (bench, metric)))


def _languages(names: Iterable[str]) -> list[str]:
    """Those of the paper first, in its order; each once."""
    distinct = dict.fromkeys(names)
    known = [name for name in quoted.LANGUAGES if name in distinct]
    return known + [name for name in distinct if name not in known]
