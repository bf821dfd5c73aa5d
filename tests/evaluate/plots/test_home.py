"""Drawing leaves nothing in the user's home."""

import os
import subprocess
import sys

CODE = "from medcoder.evaluate.plots.charts import new_figure; new_figure(1, 1).savefig('x.png')"


def test_the_list_of_fonts_is_in_our_home(tmp_path):
    for name in ("home", "ours"):
        (tmp_path / name).mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    env |= {"MEDCODER_HOME": str(tmp_path / "ours")}
    subprocess.run([sys.executable, "-c", CODE], check=True, cwd=tmp_path / "ours", env=env)
    assert list((tmp_path / "home").iterdir()) == []
    assert list((tmp_path / "ours" / "matplotlib").glob("fontlist*.json"))
