"""The notebooks run from top to bottom, in quick mode."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[2] / "colab").glob("*.ipynb"))
# What the last cells print, so that the notebook has got there.
SAID = {"quickstart": "gigpo", "volleyball": "touches"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs(path, tmp_path):
    cells = json.loads(path.read_text())["cells"]
    code = ["import matplotlib\nmatplotlib.use('Agg')\n"]
    code += ["".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code"]
    script = tmp_path / "notebook.py"
    script.write_text("\n".join(code))
    done = subprocess.run(
        [sys.executable, str(script)],
        env=dict(os.environ, AGENTRL_QUICK="1"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert SAID[path.stem] in done.stdout
