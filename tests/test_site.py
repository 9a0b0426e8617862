"""The site is built from the pages and the docstrings."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.long
def test_it_is_built_and_every_link_leads_somewhere(tmp_path):
    """With --strict a link that leads nowhere, or an unknown reference, is an error."""
    config = ROOT / ".ci" / "site" / "mkdocs.yml"
    words = ["build", "--quiet", "--strict", "--config-file", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *words, "--site-dir", str(tmp_path / "site")],
        cwd=tmp_path,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").exists()
