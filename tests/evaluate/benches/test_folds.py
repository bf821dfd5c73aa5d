"""Cadec and PsyTar: tables with folds, and the folders as they are published."""

import pytest

from medcoder.errors import InputError
from medcoder.evaluate import Context
from support.evaluated import ANY, Letters, bench, figures, linking_data


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
    assert task.has_data(tmp_path, ANY)
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
