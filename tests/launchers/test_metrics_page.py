"""The table of metrics is that of the docstrings."""

import json

import pytest

from launchers import metrics_page
from launchers.metrics_page import ROOT, table, with_rows


def test_reports_and_the_page_of_the_library_have_the_table():
    metrics, page = table(), (ROOT / "agentrl/README.md").read_text()
    stored = json.loads((ROOT / "agentrl/evaluation/metrics.json").read_text())
    assert list(stored) == list(metrics), "run python -m launchers.pages"
    assert stored == metrics, "run python -m launchers.pages"
    assert with_rows(page, metrics) == page, "run python -m launchers.pages"


def test_a_docstring_says_name_title_unit_and_meaning(folder):
    folder("Looks [share]; turns without one.\n    looks/gain: Gain: {of};\n      a mean.")
    rows = {
        "looks": ["Looks", "share", "turns without one"],
        "looks/gain": ["Gain: {of}", "", "a mean"],
    }
    assert table()["Episodes"] == rows


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("no full stop at the end", "expected a family of Results"),
        ("One.\n    looks: Another.", "described by another docstring"),
    ],
)
def test_refuses_what_is_no_metric(folder, text, match):
    folder(text)
    with pytest.raises(ValueError, match=match):
        table()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Writes a library of one module, whose function reports `looks: TEXT`."""
    monkeypatch.setattr(metrics_page, "ROOT", tmp_path)
    home = tmp_path / "agentrl/methods"
    home.mkdir(parents=True)

    def written(text):
        lines = f'def looking():\n  """Looks.\n\n  Metrics (Episodes):\n    looks: {text}\n  """\n'
        (home / "looking.py").write_text(lines)

    return written
