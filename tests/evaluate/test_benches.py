"""Benches: cards of all of them, and their figures on data worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from medcoder.errors import InputError, UsageError
from medcoder.evaluate import BENCHES, EMBEDDINGS, Card, Context, Needed
from medcoder.evaluate.bench_runs import Seen
from medcoder.evaluate.benches.linking import Linking, read_queries
from medcoder.evaluate.benches.task import count_rows, read_table, sha256
from medcoder.evaluate.embeddings import load
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.save import save_encoder
from support import tiny
from support.evaluated import First, Letters, linking_data, write_table

ANY = Context(pinned=False, resamples=20)


def bench(name):
    return BENCHES.load(name)


def figures(result):
    return {(found.split, found.metric): found for found in result.figures}


def values(result):
    return {key: found.value for key, found in figures(result).items()}


# Cards


def test_names_that_scores_and_commands_rely_on():
    assert list(BENCHES) == [
        "cadec", "psytar", "mantra", "mantra_open", "mcsm", "mcsm_mesh", "relcls", "relcls_open",
        "mayosrs", "umnsrs-sim", "umnsrs-rel", "ehr-rela", "pairs", "ncbi", "bc5cdr", "hpo_gsc",
        "misspelling", "cases", "custom",
    ]  # fmt: skip
    assert list(EMBEDDINGS) == ["contextual", "exported", "word", "concept", "lexical"]


@pytest.mark.parametrize("name", list(BENCHES))
class TestCards:
    def test_a_card_says_what_a_reader_must_know(self, name):
        card = bench(name).card
        assert card.name == name
        assert len(card.about) > 60
        assert card.about.endswith(".")
        assert all((card.title, card.origin, card.licence, card.metrics))
        assert all(needed.columns for needed in card.files)

    def test_missing_data_is_an_error_that_says_where_to_get_it(self, name, tmp_path):
        with pytest.raises(InputError) as caught:
            bench(name).fingerprint(tmp_path, ANY)
        assert not bench(name).found(tmp_path, ANY)
        if name != "pairs":
            assert bench(name).card.origin in str(caught.value)
            assert bench(name).card.files[0].path in str(caught.value)

    def test_concept_vectors_have_no_queries_to_link(self, name):
        assert bench(name).accepts(Letters())
        linking = isinstance(bench(name), Linking)
        assert bench(name).accepts(Letters(kind="concept")) == (not linking)
        assert bench(name).accepts(First()) == linking


def pinned_card(file, **pins):
    return Card(name="x", title="X", about="", origin="the moon", licence="none",
                files=(Needed(path=file.name, columns=("term",), **pins),))  # fmt: skip


def test_a_file_of_other_rows_is_an_error(tmp_path):
    file = write_table(tmp_path / "t.tsv", "term", "a", "b")
    assert count_rows(file) == 2
    assert pinned_card(file, rows=2).check(tmp_path) == tmp_path
    with pytest.raises(InputError, match="it has 2 rows, and the figures of X are for 3"):
        pinned_card(file, rows=3).check(tmp_path)
    assert pinned_card(file, rows=3).check(tmp_path, pinned=False) == tmp_path


def test_a_file_of_other_content_is_an_error(tmp_path):
    file = write_table(tmp_path / "t.tsv", "term", "a")
    assert pinned_card(file, sha256=sha256(file)).check(tmp_path) == tmp_path
    with pytest.raises(InputError, match=r"its sha256 is .*Get it again from the moon"):
        pinned_card(file, sha256="0" * 64).check(tmp_path)


def test_a_missing_column_is_named(tmp_path):
    file = write_table(tmp_path / "t.tsv", "name|code", "a|b")
    with pytest.raises(InputError, match="no column 'term'; there are: name, code"):
        pinned_card(file).check(tmp_path)


def test_tables_are_read_with_quoting_off(tmp_path):
    file = write_table(tmp_path / "t.tsv", "a|b", '"became ""flat""|x', "", "y\u2028z|w")
    assert read_table(file, ("b", "a")) == [("x", '"became ""flat""'), ("w", "y\u2028z")]
    assert read_table(file, ("b",), optional=("c", "a"))[0] == ("x", "", '"became ""flat""')


def test_a_short_row_is_an_error_with_its_number(tmp_path):
    file = write_table(tmp_path / "t.tsv", "a|b", "1|2", "3")
    with pytest.raises(InputError, match=r"t\.tsv, row 3: 1 fields, where the header has 2"):
        read_table(file, ("a", "b"))


# Linking


def test_folds_are_averaged_without_weights(tmp_path):
    """Fold 0: 1 of 1 right; fold 1: 1 of 3. Training rows do not count."""
    data = linking_data(
        tmp_path / "cadec",
        "a|en|A|fold0_test", "b|en|B|fold1_test", "b|en|A|fold1_test", "c|en|A|fold1_test",
        "c|en|A|fold0_train",
    )  # fmt: skip
    found = figures(bench("cadec").run(Letters(), data, ANY))
    assert found["all", "acc@1"].value == pytest.approx((1 + 1 / 3) / 2)
    assert found["all", "acc@1"].n == 4
    assert found["all", "acc@3"].value == 1
    assert set(found) == {("all", "acc@1"), ("all", "acc@3")}
    assert found["all", "acc@1"].low <= found["all", "acc@1"].value <= found["all", "acc@1"].high


def folds(folder, *, names="A\ta\nB\tb\n"):
    for name, queries in (("CADEC_0", "A\ta\n"), ("CADEC_1", "A\tb\nB\tb b\n")):
        (folder / name).mkdir(parents=True)
        (folder / name / "test.txt").write_text(queries, encoding="utf-8")
        (folder / name / "standard.txt").write_text(names, encoding="utf-8")
        (folder / name / "train.txt").write_text("A\tc\n", encoding="utf-8")


def test_folds_as_they_are_published(tmp_path):
    folds(tmp_path / "cadec")
    task = bench("cadec")
    assert task.found(tmp_path, ANY)
    found = figures(task.run(Letters(), tmp_path, ANY))["all", "acc@1"]
    assert (found.value, found.n) == ((1 + 0.5) / 2, 3)
    assert len(task.files(tmp_path, ANY)) == 4
    with pytest.raises(InputError, match=r"3 queries and 2 names, .* for 2,159 and 181"):
        task.run(Letters(), tmp_path, Context())


def test_bad_folds(tmp_path):
    folds(tmp_path / "cadec")
    names = tmp_path / "cadec" / "CADEC_1" / "standard.txt"
    names.write_text("A\ta\nB\tc\n", encoding="utf-8")
    with pytest.raises(InputError, match="names differ"):
        bench("cadec").run(Letters(), tmp_path, ANY)
    names.write_text("A\ta\n\nB b\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"standard\.txt, row 3: it is not of the form"):
        bench("cadec").run(Letters(), tmp_path, ANY)
    names.unlink()
    with pytest.raises(InputError, match=r"standard\.txt: it is missing"):
        bench("cadec").run(Letters(), tmp_path, ANY)


def test_any_id_in_common_is_a_hit(tmp_path):
    data = linking_data(
        tmp_path / "custom", "a|en|X\\pY|", "b|en|Z|",
        dictionary=("W\\pY|a", "B|b", "Z|ab"),
    )  # fmt: skip
    result = bench("custom").run(Letters(), data, ANY)
    assert values(result)["all", "acc@1"] == 0.5
    first = result.predictions[0]
    assert (first.gold, first.gold_names) == ("X|Y", "a")
    assert first.concepts == ("W|Y", "Z", "B")
    assert first.scores == pytest.approx((1, math.sqrt(0.5), 0), abs=1e-5)


def test_unknown_queries_count_as_wrong_and_lower_the_coverage(tmp_path):
    data = linking_data(tmp_path / "custom", "a|en|A|", "x|en|A|")
    found = figures(bench("custom").run(Letters(), data, ANY))["all", "acc@1"]
    assert (found.value, found.coverage, found.n) == (0.5, 0.5, 2)


def test_only_the_test_split_counts_where_there_is_one(tmp_path):
    data = linking_data(
        tmp_path / "custom", "a|en|A|test", "b|en|A|test", "c|en|A|dev", "c|en|A|test_obsolete"
    )
    assert values(bench("custom").run(Letters(), data, ANY))["all", "acc@1"] == 0.5


def test_languages_and_parts_have_figures_of_their_own(tmp_path):
    data = linking_data(tmp_path / "custom", "a|de|A|x", "b|de|A|y", "c|fr|C|y")
    found = values(bench("custom").run(Letters(), data, ANY))
    assert {split: value for (split, metric), value in found.items() if metric == "acc@1"} == {
        "all": pytest.approx(2 / 3), "de": 0.5, "fr": 1.0, "x": 1.0, "y": 0.5
    }  # fmt: skip


def test_queries_that_were_seen_are_left_out_of_the_unseen(tmp_path, toy_path):
    terms = write_table(tmp_path / "train.tsv", "term", "A !", "dd")
    seen = Seen([terms, toy_path])
    assert [seen(text) for text in ("a", " A", "Heart Attack", "b")] == [True, True, True, False]
    data = linking_data(tmp_path / "custom", "a|en|A|", "b|en|B|", "c|en|A|")
    context = Context(pinned=False, resamples=20, seen=seen)
    result = bench("custom").run(Letters(), data, context)
    assert values(result)["all", "acc@1"] == pytest.approx(2 / 3)
    assert values(result)["unseen", "acc@1"] == 0.5
    assert figures(result)["unseen", "acc@1"].n == 2
    assert [each.seen for each in result.predictions] == [True, False, False]


def test_seen_terms_of_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"term": ["Café", None], "lang": ["fr", "fr"]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "u.parquet")
    seen = Seen([tmp_path / "t.parquet"])
    assert seen("cafe")
    assert not seen("tea")
    with pytest.raises(InputError, match="no column 'term'; there are: name"):
        Seen([tmp_path / "u.parquet"])
    with pytest.raises(InputError, match="no such graph or table"):
        Seen([tmp_path / "none.kg"])
    with pytest.raises(InputError, match="not a graph"):
        Seen([tmp_path])


def test_a_system_is_measured_like_an_embedding(tmp_path):
    data = linking_data(tmp_path / "custom", "a|en|A|", "b|en|B|", "c|en|C|", "d|en|D|")
    found = values(bench("custom").run(First(), data, ANY))
    assert (found["all", "acc@1"], found["all", "acc@3"]) == (0.25, 0.75)


def test_custom_tables_by_their_paths(tmp_path):
    linking_data(tmp_path / "mine", "a|en|A|")
    options = {name: tmp_path / "mine" / f"{name}.tsv" for name in ("queries", "dictionary")}
    context = Context(resamples=0, options=options)
    assert values(bench("custom").run(Letters(), tmp_path, context))["all", "acc@1"] == 1
    assert bench("custom").fingerprint(tmp_path, context)
    del options["dictionary"]
    with pytest.raises(UsageError, match="go together"):
        bench("custom").run(Letters(), tmp_path, Context(options=options))


def test_a_query_without_a_gold_id_is_an_error(tmp_path):
    linking_data(tmp_path / "x", "a|en|A|", "b|en||")
    with pytest.raises(InputError, match=r"row 3: the query 'b' has no gold id"):
        read_queries(tmp_path / "x" / "queries.tsv")


# The form of BioSyn


def test_composite_mentions_need_all_their_parts(tmp_path):
    folder = tmp_path / "ncbi"
    (folder / "processed_test").mkdir(parents=True)
    (folder / "test_dictionary.txt").write_text("A||a\nB|B2||b\nC||c\n", encoding="utf-8")
    (folder / "processed_test" / "1.concept").write_text(
        "1||0|3||D||a|b||A|B2\n1||4|9||D||c||A+C\n", encoding="utf-8"
    )
    (folder / "processed_test" / "2.concept").write_text("2||0|3||D||a|b||A|C\n", encoding="utf-8")
    result = bench("ncbi").run(Letters(), tmp_path, ANY)
    assert values(result)["all", "acc@1"] == pytest.approx(2 / 3)  # the last has no b
    assert figures(result)["all", "acc@1"].n == 3
    assert [each.query for each in result.predictions] == ["a", "b", "c", "a", "b"]
    assert bench("ncbi").found(tmp_path, ANY)


def test_a_bad_line_of_biosyn(tmp_path):
    folder = tmp_path / "ncbi"
    (folder / "processed_test").mkdir(parents=True)
    (folder / "test_dictionary.txt").write_text("A||a\nB b\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no files NAME\.concept"):
        bench("ncbi").fingerprint(tmp_path, ANY)
    (folder / "processed_test" / "1.concept").write_text("1||0|3||a||A\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"1\.concept, row 1: it is not of the form"):
        bench("ncbi").run(Letters(), tmp_path, ANY)
    (folder / "processed_test" / "1.concept").write_text("1||0|3||D||a||A\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"dictionary\.txt, row 2: .*ID\|\|NAME"):
        bench("ncbi").run(Letters(), tmp_path, ANY)


# MANTRA


MANTRA = ("a|de|A\\pB|de_EMEA", "b|de|C|de_EMEA", "x|de|A|de_Medline", "c|fr|C|fr_EMEA")


def test_mantra_by_hand(tmp_path):
    """Gold ids: 2 + 1 + 1 + 1; predictions: 3, as x has no vector; hits: a and c."""
    data = linking_data(tmp_path / "mantra", *MANTRA)
    found = values(bench("mantra").run(Letters(), data, ANY))
    assert found["all", "precision"] == pytest.approx(2 / 3)
    assert found["all", "recall"] == pytest.approx(2 / 5)
    assert found["all", "f1"] == pytest.approx(2 * 2 / (3 + 5))
    assert found["all", "accuracy"] == pytest.approx(2 / 5)
    assert found["all", "acc@1"] == pytest.approx(2 / 4)
    assert found["de/EMEA", "f1"] == pytest.approx(2 * 1 / (2 + 3))
    assert found["de/Medline", "f1"] == 0
    assert found["fr", "precision"] == found["fr/EMEA", "recall"] == 1
    assert {split for split, _ in found} == {
        "all", "de", "fr", "de/EMEA", "de/Medline", "fr/EMEA"
    }  # fmt: skip


def test_unseen_mantra_by_language(tmp_path):
    data = linking_data(tmp_path / "mantra", *MANTRA)
    context = Context(pinned=False, resamples=0, seen=lambda text: text in "bc")
    found = values(bench("mantra").run(Letters(), data, context))
    assert found["unseen", "precision"] == 1
    assert found["unseen/de", "recall"] == pytest.approx(1 / 3)
    assert ("unseen/fr", "f1") not in found


def brat(folder):
    """Two corpora of the brat release, written by hand."""
    first = folder / "German" / "EMEA_ec22-cui-best_man"
    second = folder / "Mantra" / "English" / "Medline_EN_DE_ec22-cui-best_man"
    for place in (first, second):
        place.mkdir(parents=True)
    (first / "d1.ann").write_text(
        "T1\tC0000001 0 1\ta\n"
        "#1\tAnnotatorNotes T1\t('C0000001', 'aa', 'Finding', 'DISO')\n"
        "T2\tC0000002 0 1\ta\n"
        '#2\tAnnotatorNotes T2\t("b", "Finding", "DISO")\n'
        "T3\tDISO 4 5;7 8\tc c\n"
        "#3\tAnnotatorNotes T3\t('C0000003', \"c's\", 'Finding', 'DISO')\n",
        encoding="utf-8",
    )
    (second / "d1.ann").write_text("T1\tC0000003 2 3\tc\n", encoding="utf-8")
    return folder


def test_the_brat_release(tmp_path):
    brat(tmp_path / "mantra")
    task = bench("mantra")
    queries, dictionary = task.read(tmp_path / "mantra")
    assert [tuple(query) for query in queries] == [
        ("a", "de", "C0000001|C0000002", "de/EMEA"),
        ("c c", "de", "C0000003", "de/EMEA"),
        ("c", "en", "C0000003", "en/Medline"),
    ]
    assert (dictionary.concepts, dictionary.terms) == (
        ["C0000001", "C0000002", "C0000003"], ["aa", "b", "c's"]
    )  # fmt: skip
    assert task.found(tmp_path, ANY)
    found = values(task.run(Letters(), tmp_path, ANY))
    assert found["de/EMEA", "recall"] == pytest.approx(2 / 3)
    assert found["en", "f1"] == 1
    before = task.fingerprint(tmp_path, ANY)
    write_table(tmp_path / "mantra" / "dictionary.tsv", "concept_id|term", "C0000003|d")
    assert task.read(tmp_path / "mantra")[1].terms == ["d"]
    assert task.fingerprint(tmp_path, ANY) != before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("T1\tC0000001 0\ta", "row 1: it is not a span"),
        ("T1\tDISO 0 1\ta", "span T1 has no concept"),
        ("T1\tC0000001 0 1\ta\n#1\tAnnotatorNotes T1\tx(", "row 2: the note is not a list"),
    ],
)
def test_bad_brat_files(tmp_path, line, message):
    place = tmp_path / "mantra" / "Dutch" / "EMEA"
    place.mkdir(parents=True)
    (place / "d.ann").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        bench("mantra").run(Letters(), tmp_path, ANY)


XML = """<?xml version="1.0" encoding="utf-8"?>
<Corpus id="EMEA_GSC_nl_man"><document id="d1"><unit id="d1.u1"><text>a b</text>
<e offset="0" len="1" grp="DISO" cui="C0000001" type="T047">a</e>
<e offset="0" len="1" grp="DISO" cui="C0000002" type="T047">a</e>
<e offset="2" len="1" grp="DISO" cui="C0000002" type="T047">b</e>
</unit></document><document id="d2"><unit id="d2.u1">
<e offset="0" len="1" cui="C0000001">c &amp; d</e></unit></document></Corpus>
"""


def test_the_xml_release(tmp_path):
    folder = tmp_path / "mantra"
    folder.mkdir()
    (folder / "EMEA_GSC_nl_man.xml").write_text(XML, encoding="utf-8")
    (folder / "Patent_GSC_fr_man.xml").write_text(XML, encoding="utf-8")
    with pytest.raises(InputError, match="no names of concepts"):
        bench("mantra").run(Letters(), tmp_path, ANY)
    write_table(folder / "dictionary.tsv", "concept_id|term", "C0000001|a", "C0000002|b")
    queries, _ = bench("mantra").read(folder)
    assert [tuple(query) for query in queries[:3]] == [
        ("a", "nl", "C0000001|C0000002", "nl/EMEA"),
        ("b", "nl", "C0000002", "nl/EMEA"),
        ("c & d", "nl", "C0000001", "nl/EMEA"),
    ]
    assert {query.split for query in queries} == {"nl/EMEA", "fr/Patents"}
    found = values(bench("mantra").run(Letters(), tmp_path, ANY))
    assert found["nl", "accuracy"] == pytest.approx(3 / 4)  # all but the second of the first span


def test_bad_xml(tmp_path):
    (tmp_path / "mantra").mkdir()
    file = tmp_path / "mantra" / "EMEA_GSC_nl_man.xml"
    file.write_text("<a>\n<b></a>", encoding="utf-8")
    with pytest.raises(InputError, match=r"row 2: it is not XML"):
        bench("mantra").run(Letters(), tmp_path, ANY)
    file.write_text("<u id='7'><e cui=''>a</e></u>", encoding="utf-8")
    with pytest.raises(InputError, match="unit 7 has no concept"):
        bench("mantra").run(Letters(), tmp_path, ANY)


# MCSM


def naive_mcsm(names, types, wanted, k):
    """The formula of the paper, concept by concept; of concepts without a vector, none."""
    vectors = Letters().embed(names)
    known = [i for i in range(len(names)) if vectors.known[i]]
    gains = []
    for i in known:
        if wanted not in types[i]:
            continue
        others = [j for j in known if j != i]
        others.sort(key=lambda j: (-float(vectors.rows[i] @ vectors.rows[j]), known.index(j)))
        gains.append(
            sum(
                1 / math.log2(place + 1)
                for place, j in enumerate(others[:k], 1)
                if wanted in types[j]
            )
        )
    return gains


def test_mcsm_is_the_formula_of_the_paper(tmp_path):
    names = ["a", "aab", "b", "bba", "c", "x", "aac", "aaaab"]
    types = [{"T"}, {"T", "U"}, {"U"}, {"U"}, set(), {"T"}, {"U"}, {"T"}]
    joined = ["\\p".join(sorted(some)) for some in types]
    rows = (f"C{i}|{names[i]}|{joined[i]}" for i in range(8))
    write_table(tmp_path / "mcsm" / "concepts.tsv", "concept|name|types", *rows)
    context = Context(pinned=False, resamples=20, options={"k": 3})
    found = figures(bench("mcsm").run(Letters(), tmp_path, context))
    assert {split for split, _ in found} == {"T", "U"}
    for wanted in ("T", "U"):
        gains = naive_mcsm(names, types, wanted, 3)
        members = sum(wanted in some for some in types)
        assert found[wanted, "mcsm"].value == pytest.approx(sum(gains) / len(gains))
        assert found[wanted, "mcsm"].n == len(gains)
        assert found[wanted, "mcsm_oov0"].value == pytest.approx(sum(gains) / members)
        assert found[wanted, "mcsm"].coverage == len(gains) / members
    assert found["T", "mcsm"].coverage == 0.75  # x has no vector


def test_mcsm_reaches_its_upper_bound_and_no_more(tmp_path):
    """60 concepts of one type that only see each other: the sum of all discounts."""
    rows = [f"C{i}|{'a' * (i + 1)}|T" for i in range(60)] + [f"D{i}|b|U" for i in range(60)]
    write_table(tmp_path / "mcsm" / "concepts.tsv", "concept|name|types", *rows)
    found = values(bench("mcsm").run(Letters(), tmp_path, ANY))
    assert found["T", "mcsm"] == pytest.approx(11.09, abs=0.005)
    assert found["U", "mcsm_oov0"] == pytest.approx(11.09, abs=0.005)


def test_a_concept_has_one_name(tmp_path):
    write_table(
        tmp_path / "mcsm" / "concepts.tsv",
        "concept|name|types", "1|a|T", "1|b|U", "2|aa|T", "3|b|U",
    )  # fmt: skip
    context = Context(pinned=False, resamples=0, options={"k": 1})
    found = values(bench("mcsm").run(Letters(), tmp_path, context))
    assert found["T", "mcsm"] == 1  # 1 and 2, by the names a and aa
    assert found["U", "mcsm"] == pytest.approx(0.5)  # 1 is nearest to 2, and 3 to the first of all


def test_concept_vectors_go_by_id(tmp_path):
    write_table(
        tmp_path / "mcsm" / "concepts.tsv",
        "concept|name|types", "a1|x|T", "a2|x|T", "zz|a|T",
    )  # fmt: skip
    found = figures(bench("mcsm").run(Letters(kind="concept"), tmp_path, ANY))
    assert (found["T", "mcsm"].value, found["T", "mcsm"].n) == (1, 2)
    assert found["T", "mcsm_oov0"].value == pytest.approx(2 / 3)


def test_a_dictionary_without_types(tmp_path):
    write_table(tmp_path / "mcsm" / "concepts.tsv", "concept|name|types", "1|a|")
    with pytest.raises(InputError, match="no concept has a type"):
        bench("mcsm").run(Letters(), tmp_path, ANY)


# Pairs


PAIRS = ("a|a|4|1a|2a", "a|ab|3|1a|", "a|b|1|1a|b", "c|c|2|c|c", "x|a|9||a", "abc|c|2.5|abc|c")


def test_similarity_is_spearman_of_the_cosines(tmp_path):
    write_table(tmp_path / "similarity" / "mayosrs.tsv", "term1|term2|score|id1|id2", *PAIRS)
    [found] = bench("mayosrs").run(Letters(), tmp_path, ANY).figures
    cosines = [1, math.sqrt(0.5), 0, 1, math.sqrt(1 / 3)]
    expected = stats.spearmanr(cosines, [4, 3, 1, 2, 2.5]).statistic
    assert (found.split, found.metric) == ("all", "spearman")
    assert found.value == pytest.approx(expected)
    assert (found.n, found.coverage) == (5, pytest.approx(5 / 6))
    [by_id] = bench("mayosrs").run(Letters(kind="concept"), tmp_path, ANY).figures
    assert by_id.n == 4


def test_any_tables_of_pairs(tmp_path):
    write_table(tmp_path / "pairs" / "one.tsv", "term1|term2|score", "a|a|2", "a|b|1")
    write_table(tmp_path / "pairs" / "two.tsv", "term1|term2|score", "a|a|1", "a|b|2")
    write_table(tmp_path / "pairs" / "unknown.tsv", "term1|term2|score", "x|a|1", "a|b|2")
    assert values(bench("pairs").run(Letters(), tmp_path, ANY)) == {
        ("one", "spearman"): pytest.approx(1),
        ("two", "spearman"): pytest.approx(-1),
    }
    write_table(tmp_path / "pairs" / "bad.tsv", "term1|term2|score", "a|a|2", "a|b|1,5")
    with pytest.raises(InputError, match=r"bad\.tsv, row 3: the score '1,5' is not a number"):
        bench("pairs").run(Letters(), tmp_path, ANY)


# Relations


def test_relations_are_classified_in_both_modes(tmp_path, monkeypatch):
    from medcoder.evaluate import relation_classifier

    asked = []

    def classify(embedding, train, test, *, fine_tune, epochs, seed, pooling, progress):
        asked.append((len(train), fine_tune, epochs, seed, pooling))
        predicted = [test[0][1]] * len(test)
        correct = np.array([label == triplet[1] for label, triplet in zip(predicted, test)])  # noqa: B905
        return relation_classifier.ClassifierResult(correct.mean(), correct, predicted)

    monkeypatch.setattr(relation_classifier, "classify", classify)
    monkeypatch.setattr(relation_classifier, "trainable", lambda found: found.kind == "word")
    folder = tmp_path / "relcls"
    write_table(folder / "train.tsv", "head|relation|tail", "a|is|b")
    write_table(folder / "test.tsv", "head|relation|tail", "a|is|b", "a|has|c", "b|is|c")
    result = bench("relcls").run(Letters(), tmp_path, ANY)
    assert values(result) == {
        ("frozen", "accuracy"): pytest.approx(2 / 3),
        ("fine-tuned", "accuracy"): pytest.approx(2 / 3),
    }
    # The epochs and the pooling of the paper.
    assert asked == [(1, False, 50, 0, "cls"), (1, True, 50, 0, "cls")]
    second = result.predictions[1]
    assert (second.query, second.gold, second.concepts) == ("a -> c", "has", ("is",))
    frozen = Context(pinned=False, resamples=0, options={"epochs": 2, "modes": ["frozen"]})
    assert bench("relcls").settings(frozen) == {
        "epochs": 2,
        "modes": ["frozen"],
        "contextual_pooling": "cls",
    }
    assert len(bench("relcls").run(Letters(), tmp_path, frozen).figures) == 1
    # What cannot be trained is not.
    assert len(bench("relcls").run(Letters(kind="lexical"), tmp_path, ANY).figures) == 1


def test_checkpoints_of_ours_are_fine_tuned_too(tmp_path):
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer(), pooling="mean", max_length=8)
    save_encoder(encoder, tmp_path / "model")
    ours = load(str(tmp_path / "model"))
    assert ours.kind == "ours"
    for name in ("train.tsv", "test.tsv"):
        write_table(tmp_path / "relcls" / name, "head|relation|tail", "fever|is|rash", "rash|has|a")
    once = Context(pinned=False, resamples=0, options={"epochs": 1})
    figures = bench("relcls").run(ours, tmp_path, once).figures
    assert [(found.split, found.metric) for found in figures] == [
        ("frozen", "accuracy"),
        ("fine-tuned", "accuracy"),
    ]


# Words


def test_word_vectors_have_an_out_of_vocabulary_rate(tmp_path):
    write_table(tmp_path / "vectors.txt", "b 1 0", "c 0 1", "d 1 1")
    words = load(f"word:{tmp_path / 'vectors.txt'}")
    linking_data(tmp_path / "cadec", "b x|en|B|fold0_test", "x c d|en|C|fold0_test")
    linking_data(tmp_path / "ncbi", "b\\pc x y|en|B\\pC|test")
    write_table(tmp_path / "similarity" / "mayosrs.tsv", "term1|term2|score", "b|c x|1", "d|d|2")
    write_table(tmp_path / "mcsm" / "concepts.tsv", "concept|name|types", "1|b x|T", "2|y z|T")
    write_table(tmp_path / "relcls" / "train.tsv", "head|relation|tail", "b|is|c")
    write_table(tmp_path / "relcls" / "test.tsv", "head|relation|tail", "b|is|x y")
    once = Context(pinned=False, resamples=0, options={"epochs": 1, "modes": ["frozen"]})
    rates = {"cadec": (2, 5), "ncbi": (2, 4), "mayosrs": (1, 5), "mcsm": (3, 4), "relcls": (2, 3)}
    for name, (missing, count) in rates.items():
        figures = bench(name).run(words, tmp_path, once).figures
        [found] = [figure for figure in figures if figure.metric == "oov"]
        assert (found.split, found.value, found.n) == ("all", missing / count, count), name
        others = bench(name).run(load("lexical:exact"), tmp_path, once).figures
        assert all(figure.metric != "oov" for figure in others)


# Cases


def test_the_case_studies(tmp_path):
    data = linking_data(
        tmp_path / "icd9_case",
        "a|es|7245|dorsalgia", "b|ja|7245|dorsalgia", "a|en|7245|dorsalgia",
        "c|en|9880|pufferfish", "d|en|4130\\p4139|angina",
        dictionary=("7245|a", "9880|ab", "9880|c", "0059|food poisoning nos", "1|bb"),
    )  # fmt: skip
    result = bench("cases").run(Letters(), data, ANY)
    found = figures(result)
    assert (found["dorsalgia", "hits"].value, found["dorsalgia", "hits"].n) == (1, 2)
    assert found["dorsalgia", "hits@5"].value == 2
    assert found["pufferfish", "hits"].value == 1
    assert found["angina", "hits"].value == 0
    assert found["food poisoning", "hits"].value == 1  # among the first five
    # "rheumatoid arthritis" has the letters aadhiit, of which osteoarthritis shares more.
    assert found["rheumatoid arthritis", "hits"].n == 1
    shown = {each.query: each.names for each in result.predictions}
    assert shown["c"][0] == "c"
    assert set(shown["rheumatoid arthritis"]) == {"osteoarthritis", "rheumatoid pleuritis"}


def test_rheumatoid_arthritis_must_be_nearer_to_osteoarthritis(tmp_path):
    class Near(Letters):
        def embed(self, texts, *, ids=None, corpus=None):
            words = [f"{'a' if 'arthritis' in text else 'b'}" for text in texts]
            return super().embed(words)

    data = linking_data(
        tmp_path / "icd9_case", "a|es|7245|dorsalgia", dictionary=("1|food poisoning",)
    )
    for system, hits in ((Near(), 1), (First(), 1)):
        found = values(bench("cases").run(system, data, ANY))
        assert found["rheumatoid arthritis", "hits"] == hits


def test_cases_need_titles_of_food_poisoning(tmp_path):
    data = linking_data(tmp_path / "icd9_case", "a|es|7245|dorsalgia")
    with pytest.raises(InputError, match="'food poisoning'"):
        bench("cases").run(Letters(), data, ANY)
