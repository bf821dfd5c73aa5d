"""Linking in the form of BioSyn."""

import pytest

from medcoder.errors import InputError
from support.evaluated import ANY, Letters, bench, figures, values


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
    assert bench("ncbi").has_data(tmp_path, ANY)


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
