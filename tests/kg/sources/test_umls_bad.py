"""UMLS: a damaged release is an error that says what, in which file and row, and what to do."""

import gzip
import random
import threading

import pytest

from medcoder.errors import InputError
from medcoder.kg.build import build_kg
from medcoder.kg.sources.umls import UmlsSource
from medcoder.types import ReadOptions
from support.releases import read as read_release
from support.releases.umls import CONSO, REL, STY, conso, rank, rel, sty, write

FILES = {
    CONSO: [conso(f"C{n}", f"térm {n}") for n in range(1, 21)],
    REL: [rel(f"C{n}", "RO", f"C{n + 1}") for n in range(1, 21)],
    STY: [sty(f"C{n}", "T047", "Disease") for n in range(1, 21)],
}
FIELDS = {CONSO: 18, REL: 16, STY: 6}


@pytest.fixture(params=[None, 64, 1000], ids=["one block", "a row a block", "some rows a block"])
def block(request, monkeypatch):
    if request.param:
        monkeypatch.setattr("medcoder.tables.unquoted.BLOCK", request.param)


@pytest.fixture(params=["", ".gz"], ids=["plain", "gzip"])
def suffix(request):
    return request.param


@pytest.fixture(params=FILES)
def name(request):
    return request.param


def release(folder, suffix=""):
    for file, rows in FILES.items():
        write(folder / (file + suffix), rows)
    return folder


def error_of(folder):
    """The error; no thread may be left behind it."""
    before = set(threading.enumerate())
    with pytest.raises(InputError) as caught:
        read_release(UmlsSource(folder, ReadOptions()))
    error = caught.value
    del caught
    error.__traceback__ = None
    assert set(threading.enumerate()) == before
    assert error.exit_code == 3
    assert error.remedy
    return error


def change(folder, name, place, row, suffix=""):
    """Put another row in a place, counted from 1."""
    rows = list(FILES[name])
    rows[place - 1] = row
    data = b"".join((row if isinstance(row, bytes) else row.encode()) + b"\n" for row in rows)
    return write(folder / (name + suffix), data)


@pytest.mark.parametrize("place", [1, 7, 20])
@pytest.mark.parametrize("more", [-1, 1])
def test_the_wrong_number_of_fields(tmp_path, name, place, more, block, suffix):
    release(tmp_path, suffix)
    row = FILES[name][place - 1]
    bad = row.replace("|", "", 1) if more < 0 else row.replace("|", "||", 1)
    path = change(tmp_path, name, place, bad, suffix)
    error = error_of(tmp_path)
    assert error.what == f"{FIELDS[name] + more} fields where {FIELDS[name]} were expected"
    assert (error.file, error.row) == (str(path), place)


def test_one_row_short_and_one_long(tmp_path, name, block):
    """As many bars as there should be, and no row shifted into the next."""
    release(tmp_path)
    rows = list(FILES[name])
    rows[4] = rows[4].replace("|", "", 1)
    rows[5] = rows[5].replace("|", "||", 1)
    path = write(tmp_path / name, rows)
    error = error_of(tmp_path)
    assert error.what == f"{FIELDS[name] - 1} fields where {FIELDS[name]} were expected"
    assert (error.file, error.row) == (str(path), 5)


def test_one_row_long_and_one_short(tmp_path, name, block):
    release(tmp_path)
    rows = list(FILES[name])
    rows[4] = rows[4].replace("|", "||", 1)
    rows[9] = rows[9].replace("|", "", 1)
    write(tmp_path / name, rows)
    assert error_of(tmp_path).row == 5


def test_a_term_broken_into_two_rows(tmp_path):
    release(tmp_path)
    change(tmp_path, CONSO, 3, FILES[CONSO][2].replace("térm", "té\nrm"))
    error = error_of(tmp_path)
    assert error.what == "14 fields where 18 were expected"
    assert error.row == 3


def test_an_empty_row(tmp_path, name, block, suffix):
    release(tmp_path, suffix)
    path = change(tmp_path, name, 12, "", suffix)
    error = error_of(tmp_path)
    assert error.what == "an empty row"
    assert (error.file, error.row) == (str(path), 12)


def test_bytes_that_are_not_utf8(tmp_path, name, block, suffix):
    release(tmp_path, suffix)
    latin = FILES[name][8].replace("|", "|caf\u00e9", 1).encode("latin-1")
    path = change(tmp_path, name, 9, latin, suffix)
    error = error_of(tmp_path)
    assert error.what == "byte 0xe9 is not UTF-8"
    assert (error.file, error.row) == (str(path), 9)
    assert "UTF-8" in error.remedy


def test_an_empty_file(tmp_path, name, suffix):
    release(tmp_path, suffix)
    path = write(tmp_path / (name + suffix), b"")
    error = error_of(tmp_path)
    assert error.what == "is empty"
    assert error.file == str(path)


@pytest.mark.parametrize("kept", [0.3, 0.9, -9, -1])
def test_a_gzip_that_is_cut_off(tmp_path, kept, block):
    release(tmp_path, ".gz")
    rng = random.Random(1)
    rows = [conso(f"C{n}", str(rng.getrandbits(200))) for n in range(1, 300)]
    data = gzip.compress("".join(f"{row}\n" for row in rows).encode())
    path = tmp_path / f"{CONSO}.gz"
    path.write_bytes(data[: int(kept * len(data)) if kept > 0 else kept])
    error = error_of(tmp_path)
    assert error.what == "the gzip data is cut off or damaged"
    assert error.file == str(path)
    assert 1 <= error.row <= 300


def test_a_gzip_that_is_damaged(tmp_path, name):
    release(tmp_path, ".gz")
    path = tmp_path / f"{name}.gz"
    data = bytearray(path.read_bytes())
    data[-6] ^= 0xFF  # of the check sum
    path.write_bytes(data)
    assert error_of(tmp_path).what == "the gzip data is cut off or damaged"
    path.write_bytes(b"not compressed at all\n")
    error = error_of(tmp_path)
    assert error.what == "the gzip data is cut off or damaged"
    assert error.file == str(path)


@pytest.mark.parametrize(("one", "other"), [(CONSO, REL), (REL, STY), (CONSO, STY)])
def test_two_files_swapped(tmp_path, one, other, suffix):
    release(tmp_path, suffix)
    write(tmp_path / (one + suffix), FILES[other])
    write(tmp_path / (other + suffix), FILES[one])
    error = error_of(tmp_path)
    assert error.row == 1
    assert error.remedy == "Check whether two files were swapped"
    given = next(file for file in (CONSO, STY, REL) if file in (one, other))
    taken = other if given == one else one
    assert error.file == str(tmp_path / (given + suffix))
    assert error.what == (
        f"{FIELDS[taken]} fields where {FIELDS[given]} were expected: this has the shape of {taken}"
    )


def test_a_missing_file(tmp_path, name):
    release(tmp_path)
    (tmp_path / name).unlink()
    error = error_of(tmp_path)
    stem = name.removesuffix(".RRF")
    assert error.what == f"no {stem}.RRF, {stem}.RRF.gz or META/{stem}.RRF here"
    assert error.file == str(tmp_path)


def test_no_folder(tmp_path):
    error = error_of(tmp_path / "nowhere")
    assert "no MRCONSO.RRF" in error.what


@pytest.mark.parametrize(
    ("name", "row", "old", "new", "column", "values"),
    [
        (CONSO, 1, "C1|", "heart|", "CUI", "'heart'"),
        (CONSO, 20, "C20|", "|", "CUI", "''"),
        (REL, 1, "|C2|", "||", "CUI2", "''"),
        (REL, 13, "C13|", "|", "CUI1", "''"),
        (STY, 13, "C13|", "|", "CUI", "''"),
    ],
)
def test_ids_that_are_none(tmp_path, name, row, old, new, column, values, block):
    release(tmp_path)
    path = change(tmp_path, name, row, FILES[name][row - 1].replace(old, new, 1))
    error = error_of(tmp_path)
    assert error.what == f"{column} is not a concept id such as C0002502"
    assert error.values == values
    assert (error.file, error.row) == (str(path), row)


def test_a_rank_that_is_no_number(tmp_path):
    release(tmp_path)
    path = write(tmp_path / "MRRANK.RRF", [rank(1, "A", "B"), "x|A|B|N|"])
    error = error_of(tmp_path)
    assert (error.what, error.values) == ("RANK is not a number from 0 to 99,999", "'x'")
    assert (error.file, error.row) == (str(path), 2)


def test_the_message_has_it_all(tmp_path):
    path = change(release(tmp_path), CONSO, 7, "C7|ENG|")
    assert str(error_of(tmp_path)) == (
        f"{path}, row 7: 2 fields where 18 were expected. "
        "The file may be cut off or edited: compare it with the release"
    )


def test_a_build_that_meets_an_error_leaves_nothing(tmp_path, block):
    folder = release(tmp_path / "in")
    (tmp_path / "out").mkdir()
    for name in FILES:
        change(folder, name, 19, "C1|")
        with pytest.raises(InputError, match="row 19"):
            build_kg([UmlsSource(folder, ReadOptions())], tmp_path / "out" / "kg")
        assert list((tmp_path / "out").iterdir()) == []
        write(folder / name, FILES[name])
    build_kg([UmlsSource(folder, ReadOptions())], tmp_path / "out" / "kg")
