"""What tests share: toy graphs, an index, small releases, how hard Hypothesis tries."""

import signal

import pytest
from hypothesis import settings

for helper in ("memory", "toy", "many", "releases"):
    pytest.register_assert_rewrite(f"support.{helper}")

from medcoder.kg import KG  # noqa: E402
from medcoder.kg.build import build_kg  # noqa: E402
from medcoder.kg.sources import open_source  # noqa: E402
from support.releases import read  # noqa: E402
from support.toy import toy_source  # noqa: E402

# A shell starts what it runs in the background deaf to Ctrl-C, and so would be the processes here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test is about time.
settings.register_profile("medcoder", deadline=None)
settings.load_profile("medcoder")


@pytest.fixture
def entered():
    """Enter alternatives into tables as a user does, until the test ends: (table, name, target)."""
    done = []

    def enter(table, name, target, **options):
        table.add(name, target, **options)
        done.append((table, name))

    yield enter
    for table, name in done:
        del table._entries[name]


@pytest.fixture(scope="session")
def toy_path(tmp_path_factory):
    """The directory of the toy graph, not to be written to."""
    path = tmp_path_factory.mktemp("toy") / "toy.kg"
    build_kg([toy_source()], path)
    return path


@pytest.fixture(scope="session")
def toy_kg(toy_path):
    return KG.open(toy_path)


@pytest.fixture(scope="session")
def open_rows():
    """All rows of the embedded terminology and their tally; reading them takes seconds."""
    return read(open_source("open"))


@pytest.fixture(scope="session")
def bag(tmp_path_factory):
    """An exported encoder that knows the words of `many`."""
    from support.bag import write_bag
    from support.many import LIKE, WORDS

    return write_bag(tmp_path_factory.mktemp("bag") / "bag.onnx", WORDS, like=LIKE)


@pytest.fixture(scope="session")
def many_kg(tmp_path_factory):
    from support.many import many_source

    path = tmp_path_factory.mktemp("many") / "many.kg"
    build_kg([many_source()], path)
    return KG.open(path)


@pytest.fixture(scope="session")
def many_index(many_kg, bag, tmp_path_factory):
    """The index of `many`, not to be written to nor beside."""
    from medcoder.normalize.build import build

    path = tmp_path_factory.mktemp("index") / "many.index"
    build(many_kg, bag, path)
    return path


@pytest.fixture(scope="session")
def calibration(many_index):
    """A file to take over where none needs to be fitted."""
    return many_index / "calibration.json"


@pytest.fixture
def encoded_texts(monkeypatch):
    """The strings that exported encoders were given, in lists as they came."""
    from medcoder.encode.onnx import OnnxEncoder

    calls = []
    encode = OnnxEncoder.encode

    def count(self, texts):
        calls.append(list(texts))
        return encode(self, texts)

    monkeypatch.setattr(OnnxEncoder, "encode", count)
    return calls
