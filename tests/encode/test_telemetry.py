"""onnxruntime is loaded in one place, with its telemetry off."""

import re
import subprocess
import sys
from pathlib import Path

import medcoder

WATCH = """
import os, sys
os.environ.pop("ORT_DISABLE_TELEMETRY", None)
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            print("switch", os.environ.get("ORT_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Watch())
"""
FIRST = """
import os
os.environ.pop("ORT_DISABLE_TELEMETRY", None)
import warnings, onnxruntime
from medcoder.encode import load_onnxruntime
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    load_onnxruntime(), load_onnxruntime()
print(len(caught), caught[0].category.__name__, os.environ["ORT_DISABLE_TELEMETRY"])
"""


def output(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_switch_is_set_when_the_library_is_imported():
    assert output(WATCH + "import medcoder.encode.onnx") == ["switch", "1"]


def test_who_imports_the_library_first_is_warned_once():
    assert output(FIRST) == ["1", "RuntimeWarning", "1"]


def test_nothing_else_imports_the_library():
    pattern = re.compile(r"^\s*(import|from) onnxruntime|import_module\(.*onnxruntime", re.M)
    package = Path(medcoder.__file__).parent
    found = [file for file in package.rglob("*.py") if pattern.search(file.read_text())]
    assert found == [package / "encode" / "__init__.py"]
