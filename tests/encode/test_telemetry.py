"""onnxruntime is loaded in one place, with its telemetry off."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import medcoder

SWITCH = "ORT_DISABLE_TELEMETRY"
WATCH = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            print("switch", os.environ.get("ORT_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Watch())
"""
FIRST = """
import os, sys, types, warnings
sys.modules["onnxruntime"] = types.ModuleType("onnxruntime")  # the real one would send
from medcoder.encode import load_onnxruntime
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    load_onnxruntime(), load_onnxruntime()
print(*(warning.category.__name__ for warning in caught), os.environ["ORT_DISABLE_TELEMETRY"])
"""


def output(code, switch):
    env = {name: value for name, value in os.environ.items() if name != SWITCH}
    env |= {} if switch is None else {SWITCH: switch}
    words = [sys.executable, "-c", code]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("switch", [None, "0"])
def test_the_switch_is_set_when_the_library_is_imported(switch):
    """A "0" in the environment is no consent."""
    assert output(WATCH + "import medcoder.encode.onnx", switch) == ["switch", "1"]


@pytest.mark.parametrize("switch", [None, "", "0", "1", "True"])
def test_who_imports_the_library_first_is_warned_once(switch):
    warned = [] if switch in ("1", "True") else ["RuntimeWarning"]
    assert output(FIRST, switch) == [*warned, "1"]


def test_nothing_else_imports_the_library():
    pattern = re.compile(r"^\s*(import|from) onnxruntime|import_module\(.*onnxruntime", re.M)
    package = Path(medcoder.__file__).parent
    found = [file for file in package.rglob("*.py") if pattern.search(file.read_text())]
    assert found == [package / "encode" / "__init__.py"]
