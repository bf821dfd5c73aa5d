"""A small UMLS release, row by row."""

import gzip

CONSO, REL, STY, RANK, SAB = "MRCONSO.RRF", "MRREL.RRF", "MRSTY.RRF", "MRRANK.RRF", "MRSAB.RRF"


def conso(
    cui,
    text,
    *,
    lat="ENG",
    ts="P",
    stt="PF",
    ispref="Y",
    sab="SNOMEDCT_US",
    tty="PT",
    code="1",
    suppress="N",
):
    return (
        f"{cui}|{lat}|{ts}|L0000001|{stt}|S0000001|{ispref}|A0000001||||{sab}|{tty}|{code}|{text}"
        f"|0|{suppress}|256|"
    )


def rel(cui1, label, cui2, rela="", *, sab="SNOMEDCT_US", suppress="N"):
    return f"{cui1}|A1|AUI|{label}|{cui2}|A2|AUI|{rela}|R1||{sab}|{sab}|||{suppress}||"


def sty(cui, tui, name):
    return f"{cui}|{tui}|A1.2|{name}|AT1|256|"


def rank(number, sab, tty, suppress="N"):
    return f"{number:04}|{sab}|{tty}|{suppress}|"


def sab(name, version, title, current="Y"):
    start = f"C1|C2|{name}_{version}|{name}|{title}|{name}|{version}||||||||||||||"
    return f"{start}UTF-8|{current}|Y|short|citation|"


# The paper's example: the second concept of a row has the relation to the first.
PARENT, CHILD, OTHER = "C0002502", "C5190625", "C0497327"
CONSO_ROWS = (
    conso(PARENT, "Amyloidosis", code="17602002"),
    conso(PARENT, "Amyloid disease", ts="S", tty="SY", ispref="N", code="17602002"),
    conso(PARENT, "Amiloidosis", lat="SPA", sab="SCTSPA", code="17602002"),
    conso(CHILD, "Wild-type amyloidosis", code="716655004"),
    conso(OTHER, "Dementia", sab="MSH", tty="MH", code="D003704"),
)
REL_ROWS = (
    rel(PARENT, "CHD", CHILD, "isa"),
    rel(CHILD, "PAR", PARENT, "inverse_isa"),
    rel(OTHER, "RO", PARENT),
)
STY_ROWS = (
    sty(PARENT, "T047", "Disease or Syndrome"),
    sty(OTHER, "T048", "Mental or Behavioral Dysfunction"),
)


def write(path, rows):
    """Rows, each ended by a line feed; bytes as they are; compressed where the name says so."""
    data = rows if isinstance(rows, bytes) else "".join(f"{row}\n" for row in rows).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_umls(folder, *, conso=CONSO_ROWS, rel=REL_ROWS, sty=STY_ROWS, suffix="", **more):
    """A folder with MRCONSO, MRREL, MRSTY and, in `more`, MRRANK and MRSAB."""
    files = {CONSO: conso, REL: rel, STY: sty}
    files |= {f"MR{name.upper()}.RRF": rows for name, rows in more.items()}
    for name, rows in files.items():
        write(folder / (name + suffix), rows)
    return folder
