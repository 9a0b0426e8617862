"""Each preset has a result in the findings beside it, and the check says which has none."""

import pathlib

import pytest
from commands import call, refused
from in_process import call_here

from launchers import config_files, presets

HEADER = ",".join(presets.Finding._fields) + "\n"
COIN = 'coin.py:grpo,5,"success of 1,024 tasks",0.97,0.94,0.98,bootstrap,1.5,coinpy-credit,\n'


def test_each_preset_of_the_repository_has_a_result_or_a_reason():
    done = call("findings", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "needs a published model's weights" in done.stdout
    assert "credit/coin.py:gigpo: 0.67 [0.44, 0.92] (bootstrap)" in call("findings").stdout


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one config of two presets, of which one has a result."""
    monkeypatch.setattr(config_files, "CONFIGS", tmp_path)
    path = tmp_path / "credit"
    path.mkdir()
    (path / "__init__.py").write_text("")
    (path / "coin.py").write_text('VARIANTS = ("grpo", "made_up")\n')
    (path / "README.md").write_text("# Credit\n\n## coin.py: credit\n")
    (path / "findings.csv").write_text(HEADER + COIN)
    return path


def test_a_preset_without_a_result_fails(folder):
    done = call_here("findings", "--check")
    refused(done, "1 presets without a result")
    assert done.stdout == "credit/coin.py:made_up: no result\n"
    assert call_here("findings").returncode == 0
    (folder / "coin.py").write_text('VARIANTS = ("grpo",)\n')
    assert call_here("findings", "--check").returncode == 0


def test_a_suite_of_methods_has_a_table_of_its_own(folder):
    (folder / "coin.py").write_text('VARIANTS = ("grpo",)\n')
    (folder / "arrays.py").write_text('VARIANTS = ("WORLD,METHOD",)\n')
    assert "credit/arrays.py:WORLD,METHOD: no result" in call_here("findings", "--check").stdout
    (folder / "arrays.csv").write_text("world,method,seed\ncoin,grpo,0\n")
    assert call_here("findings", "--check").returncode == 0


# What is changed in a row, to what, and what is said of it.
ROWS = {
    "preset": (".py:grpo", ".py:other", "coin.py:other: no such preset"),
    "section": ("coinpy-credit", "coinpy-none", "README.md has no section 'coinpy-none'"),
    "value": (",0.97,", ",high,", "value='high': expected a number"),
    "seeds": (",5,", ",some,", "seeds='some': expected their number"),
    "minutes": (",1.5,", ",long,", "minutes='long': expected a number"),
    "outside": (",0.94,", ",0.975,", "0.97 [0.975, 0.98]: expected low <= value <= high"),
    "spread": ("bootstrap", "gauss", "spread='gauss': expected one of bootstrap, range"),
    "measure": ('"success of 1,024 tasks"', "", "the measure is missing"),
    "twice": ("1.5", "1.6", "two rows of 'success of 1,024 tasks'"),
    "both": ("credit,", "credit,too slow", "there is a result, and a reason why there is none"),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_wrong_row_is_told_in_one_line(folder, case):
    right, wrong, words = ROWS[case]
    known, headings = presets.listed(folder), presets.sections(folder / "README.md")
    first = COIN if case == "twice" else ""
    (folder / "findings.csv").write_text(HEADER + first + COIN.replace(right, wrong, 1))
    (line,) = presets.wrong(presets.read(folder), known, headings)
    assert words in line


def test_columns_are_those_that_are_read(folder):
    path = folder / "findings.csv"
    path.write_text("preset,value\ncoin.py:grpo,0.97\n")
    refused(call_here("findings"), str(path), "expected the columns preset,seeds,measure")
    path.write_text(HEADER + "coin.py:grpo,5\n")
    refused(call_here("findings"), f"{path}:2: 2 values")


def test_a_row_is_of_the_narrowest_kind_that_it_fits():
    known = ["spiral.py:GAME", "spiral.py:thoughts_GAME", "spiral.py:kuhn"]
    rows = ["spiral.py:Nim-v1", "spiral.py:thoughts_Nim-v1", "spiral.py:kuhn"]
    assert [presets.preset_of(row, known) for row in rows] == known
    assert presets.preset_of("poker.py:kuhn", known) == ""


def test_sections_are_named_as_links_name_them(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("## coin.py and sokoban.py: credit, within groups\n")
    assert presets.sections(page) == {"coinpy-and-sokobanpy-credit-within-groups"}
    assert presets.sections(pathlib.Path("nowhere.md")) == set()
