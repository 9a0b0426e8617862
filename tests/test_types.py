"""The types of the packages that pyproject.toml names fit together."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def test_types_fit_together(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
