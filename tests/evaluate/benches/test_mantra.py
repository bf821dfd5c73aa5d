"""MANTRA by hand, and its brat and XML releases."""

import pytest

from medcoder.errors import InputError
from medcoder.evaluate import Context
from support.evaluated import ANY, Letters, bench, linking_data, values, write_table

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
    assert task.has_data(tmp_path, ANY)
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
