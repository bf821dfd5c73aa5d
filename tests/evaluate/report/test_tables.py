"""The tables of the paper with one's own rows, and those beside them."""

import pytest

from medcoder.evaluate.report import quoted, report, tables
from medcoder.evaluate.report.table import Cell, Column, Row, Table, transposed
from medcoder.evaluate.results import Prediction
from support.evaluated import score


def table(scores, key, **options):
    return {made.key: made for made in tables(scores, **options)}[key]


def row(made, name):
    return next(row for row in made.rows if row.name == name)


def shown(made, name):
    return [cell.shown for cell in row(made, name).cells]


def test_rows_come_in_the_order_of_kinds_and_systems_apart():
    kinds = ["system", "ours", "contextual", "concept", "word", "lexical"]
    made = table([score(kind, 0.5, kind=kind) for kind in kinds], "cadec-psytar")
    assert [row.name for row in made.rows][:6] == kinds[::-1]
    assert [row.section for row in made.rows][5:7] == ["system", "quoted"]
    assert [heading for heading, _ in made.sections()] == [
        "Measured",
        "Whole systems, measured",
        "Quoted from the paper",
    ]


def test_the_best_is_bold_and_what_overlaps_it_is_marked():
    scores = [
        score("low", 0.50),
        score("near", 0.57),
        score("top", 0.60),
        score("whole", 0.90, kind="system"),
    ]
    made = table(scores, "cadec-psytar")
    cells = {name: row(made, name).cells[0] for name in ("low", "near", "top", "whole")}
    assert {name: (cell.best, cell.close) for name, cell in cells.items()} == {
        "low": (False, False),  # 48..52 does not reach 58..62
        "near": (False, True),  # 55..59 does
        "top": (True, False),
        "whole": (False, False),  # does not compete with embeddings
    }
    assert shown(made, "near") == ["57.00† [55.0, 59.0]", "–", "–", "–"]
    assert not any(cell.best for row in made.rows if row.section == "quoted" for cell in row.cells)


def test_ends_that_touch_overlap():
    sixteenth = 0.0625  # exact in binary
    made = table(
        [score("a", 0.5, width=sixteenth), score("b", 0.625, width=sixteenth)], "cadec-psytar"
    )
    assert row(made, "a").cells[0].close


def test_values_printed_alike_are_best_alike_and_one_alone_is_not_best():
    two = table([score("a", 0.60001), score("b", 0.59999)], "cadec-psytar")
    assert [row(two, name).cells[0].best for name in "ab"] == [True, True]
    one = table([score("a", 0.6)], "cadec-psytar")
    assert not row(one, "a").cells[0].best


def test_figures_without_interval_have_none_and_no_mark():
    made = table([score("a", 0.5, width=0.0), score("b", 0.6, width=0.0)], "cadec-psytar")
    assert shown(made, "a")[0] == "50.00"
    assert shown(made, "b")[0] == "60.00"
    assert row(made, "b").cells[0].best


def test_seeds_make_one_row_with_mean_and_spread():
    scores = [score("no relation#1", 0.50), score("no relation#2", 0.54), score("full#1", 0.60)]
    made = table(scores, "ablation")
    assert shown(made, "no relation (2 seeds)")[0] == "52.00 ± 2.83"  # sqrt(2 * 0.02 ** 2)
    assert shown(made, "full")[0].startswith("60.00 [58.0")
    poolings = [score("[CLS]#1", 0.5, settings={"pooling": "cls"})]
    poolings += [score("full#1", 0.5, settings={"pooling": "mean"})]
    assert [row.name for row in table(poolings, "ablation").rows[:2]] == ["[CLS]", "full (mean)"]
    assert [row.name for row in made.rows if row.section == "quoted"] == [
        "CODER_ENG, full",
        "CODER_ENG, no relation",
        "CODER_ENG, TransE",
    ]
    assert all(row.section == "quoted" for row in table([score("a", 0.5)], "ablation").rows)


def test_pooling_decides_the_table_and_is_named_where_several_meet():
    scores = [
        score(f"m-{pooling}", 0.5, settings={"pooling": way}, split=split)
        for pooling, way in (("x", "mean"), ("y", "cls"), ("z", "legacy"))
        for split in ("all", "unseen")
    ]
    main, cls = table(scores, "cadec-psytar"), table(scores, "cadec-psytar-cls")
    assert [row.name for row in main.rows if row.section == "measured"] == [
        "m-x (mean)",
        "m-z (legacy)",
    ]
    assert [row.name for row in cls.rows if row.section == "measured"] == ["m-y"]
    assert [row.name for row in table(scores, "cadec-psytar-unseen").rows] == [
        "m-x (mean)",
        "m-y ([CLS])",
        "m-z (legacy)",
    ]
    words = score("w", 0.5, kind="word", settings={"pooling": "mean of words"})
    assert row(table([*scores, words], "cadec-psytar"), "w")


def test_mantra_has_a_table_for_each_corpus_whatever_its_spelling():
    scores = [
        score("m", 0.7, bench="mantra", metric="f1", split=split)
        for split in ("en/Medline", "de/Medline", "fr/Patents", "de", "de/Other", "unseen/de")
    ]
    made = table(scores, "mantra-medline")
    assert [column.name for column in made.columns] == ["es", "fr", "nl", "de", "en"]
    assert shown(made, "m")[3:] == ["70.0 [68.0, 72.0]"] * 2
    assert shown(made, "CODER_ALL(e_avg)") == ["70.4", "58.9", "59.5", "68.4", "–"]
    assert shown(table(scores, "mantra-patent"), "m")[1] == "70.0 [68.0, 72.0]"
    assert shown(table(scores, "mantra-patent"), "CODER_ALL(e)") == ["–", "70.8", "–", "69.0", "–"]
    assert table(scores, "mantra-other").title == "MANTRA GSC, Other: F1, %"
    assert [column.name for column in table(scores, "mantra-f1").columns] == ["de"]
    assert table(scores, "mantra-unseen").columns == (Column("", "de"),)


def test_mcsm_takes_names_of_types_or_their_letters_and_shows_others():
    def mcsm(split, value, **changes):
        return score("m", value, bench="mcsm", metric="mcsm", split=split, **changes)

    long = table([mcsm("Clinical Drug", 10.62, width=0.1), mcsm("Organism", 3.0)], "mcsm")
    assert shown(long, "m") == ["–", "–", "–", "10.62 [10.5, 10.7]", "–", "–"]
    assert shown(table([mcsm("CD", 10.62)], "mcsm"), "m")[3].startswith("10.62")
    other = table([mcsm("CD", 1.0), mcsm("Organism", 3.0, width=0)], "mcsm-others")
    assert [column.name for column in other.columns] == ["Organism"]
    assert shown(other, "m") == ["3.00"]
    many = table([mcsm(f"T{n}", n, width=0) for n in range(9)], "mcsm-others")
    assert [column.name for column in many.columns] == ["m"]  # on its side
    assert [(row.name, row.cells[0].text) for row in many.rows][-1] == ("T8", "8.00")


def test_relations_of_other_data_never_stand_under_the_papers_heading():
    scores = [score("m", 0.9, bench="relcls_open", metric="accuracy", split="frozen")]
    made = table(scores, "relcls")
    assert made.columns[:3] == (
        Column("DDBRC", "frozen"),
        Column("DDBRC", "fine-tuned"),
        Column("relcls_open", "frozen"),
    )
    assert shown(made, "m") == ["–", "–", "90.00 [88.0, 92.0]", "–"]
    assert shown(made, "CODER_ENG") == ["96.05", "98.85", "–", "–"]


def test_every_figure_is_in_some_table():
    keys = [
        ("cadec", "all", "acc@5"),
        ("mayosrs", "all", "spearman"),
        ("ncbi", "all", "acc@1"),
        ("ncbi", "unseen", "acc@1"),
        ("ncbi", "test", "acc@1"),
        ("brand new", "all", "points"),
        ("mantra", "unseen", "f1"),
        ("mcsm", "Finding", "mcsm_oov0"),
        ("psytar", "all", "oov"),
    ]
    scores = [
        score("m", 0.1 + n / 1000, bench=bench, split=split, metric=metric, width=0)
        for n, (bench, split, metric) in enumerate(keys)
    ]
    text = report(scores, complete=False)
    for n, key in enumerate(keys):
        value = 0.1 + n / 1000
        forms = (
            f"| {value:.3f} ",
            f"| {100 * value:.2f} ",
            f"| {value:.2f} ",
            f"{100 * value:.1f} ",
        )
        assert any(form in text for form in forms), key


def test_of_unknown_words_the_fewest_are_best():
    rates = {"few": 0.1, "some": 0.13, "many": 0.3}
    scores = [score(name, rate, metric="oov", kind="word") for name, rate in rates.items()]
    made = table(scores, "words")
    assert [column.name for column in made.columns] == ["cadec"]
    assert shown(made, "few") == ["10.00 [8.0, 12.0]"]
    cells = [row(made, name).cells[0] for name in rates]
    assert [(cell.best, cell.close) for cell in cells] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_only_what_was_measured_unless_the_report_is_to_be_complete():
    scores = [score("m", 0.5)]
    assert [made.key for made in tables(scores, complete=False)] == ["cadec-psytar", "embeddings"]
    keys = [made.key for made in tables(scores)]
    assert len(keys) == len(set(keys))
    assert {"mantra-medline", "mcsm", "mcsm-cls", "relcls", "ablation", "cases-angina"} <= set(keys)


def test_the_summary_has_vocabulary_dimension_and_category():
    scores = [
        score("w", 0.5, kind="word", settings={"dimension": 200, "vocabulary": 2_200_000}),
        score("w", 0.5, kind="word", bench="psytar", coverage=0.875),
    ]
    made = table(scores, "embeddings")
    assert shown(made, "w") == ["2,200,000", "200", "word", "–", "87.5%", "0123456789ab"]
    assert shown(made, "cui2vec")[:3] == ["108,477", "500", "concept"]


def test_two_models_under_one_name_are_told():
    scores = [score("m", 0.5), score("m", 0.6, bench="psytar", model="fedcba9876543210")]
    notes = table(scores, "embeddings").notes
    assert any(
        note.startswith("Beware: figures of several models have one name: m.") for note in notes
    )
    alone = table([scores[0], score("m", 0.6, bench="psytar")], "embeddings").notes
    assert not any("Beware" in note for note in alone)


def test_cases_show_hits_and_answers_beside_the_quoted_ones():
    scores = [score("m", 12.0, bench="cases", split="dorsalgia", metric="hits", n=15, width=0)]
    answers = {
        "m": [
            Prediction("Dorsalgie", "fr", "d", "7245", "", ("7245",), ("backache",), (0.9,), False),
            Prediction("angina", "en", "a", "413", "", ("1", "413"), ("x", "y"), (0.9, 0.8), False),
        ]
    }
    hits = table(scores, "cases")
    assert shown(hits, "m") == ["12 of 15"]
    assert shown(hits, "CODER_ALL") == ["13 of 15"]
    back = table(scores, "cases-dorsalgia", cases_of=answers)
    assert row(back, "fr: Dorsalgie").cells == (
        Cell(text="backache", best=True),
        Cell(text="dorsalgia"),
    )
    assert shown(back, "ja: はいぶつう") == ["–", "puberty"]
    five = table(scores, "cases-angina", cases_of=answers)
    assert [row.cells[0] for row in five.rows][:3] == [
        Cell(text="x"),
        Cell(text="y", best=True),
        Cell(),
    ]
    assert five.rows[0].cells[1].text == "angina pectoris"


def test_quoted_tables_are_whole():
    sizes = {
        "CADEC_PSYTAR": (14, 4),
        "CADEC_PSYTAR_CLS": (10, 4),
        "MCSM": (17, 6),
        "MCSM_CLS": (10, 6),
        "DDBRC": (17, 2),
        "ABLATION": (3, 4),
        "SUMMARY": (15, 2),
    }
    for name, (rows, columns) in sizes.items():
        said = getattr(quoted, name)
        assert len(said) == rows, name
        assert {len(row.values) for row in said} == {columns}, name
    assert [len(rows) for rows in quoted.MANTRA.values()] == [6, 4, 4]
    full = {row.name: row.values for row in quoted.CADEC_PSYTAR}["CODER_ENG"]
    assert full == quoted.ABLATION[0].values == ("59.77", "76.24", "53.92", "71.12")
    values = {row.name: row.values for row in quoted.MCSM}
    assert values["claims-codes-hs-300"] == ("9.4", "7.7", "7.5", "", "3.4", "8.6")
    assert sum(target == "dorsalgia" for _, _, target in quoted.DORSALGIA) == 13


def test_sets_of_other_sizes_are_noted_with_quoted_rows():
    for key in ("cadec-psytar", "cadec-psytar-cls", "ablation"):
        assert quoted.SIZES in table([score("m", 0.5)], key).notes


def test_a_table_whose_rows_do_not_fit_is_refused():
    with pytest.raises(ValueError, match="m has 1 cells"):
        Table(key="k", title="", columns=(Column("", "a"),) * 2, rows=(Row("m", (Cell(),)),))


def test_transposed_twice_is_the_same():
    made = Table(
        key="k",
        title="t",
        columns=(Column("", "a"), Column("", "b")),
        rows=(Row("m", (Cell(text="1"), Cell(text="2"))), Row("n", (Cell(text="3"), Cell()))),
    )
    assert transposed(made, head="H").rows[1] == Row("b", (Cell(text="2"), Cell()))
    assert transposed(transposed(made, head="H"), head=made.head) == made
