"""The page of methods is what the code says."""

import pathlib

from launchers import methods_page

PAGE = pathlib.Path(__file__).parents[2] / "agentrl" / "METHODS.md"


def test_the_page_is_not_stale():
    assert PAGE.read_text() == methods_page.page(), "run python -m launchers.pages"


def test_methods_have_their_equation_needs_source_and_configs():
    (gigpo,) = [line for line in methods_page.page().splitlines() if line.startswith("| `gigpo`")]
    assert "`A = A_E + step_weight * A_S`" in gigpo and "assumes whole_episodes" in gigpo
    assert "`reward`, `mask`, `group`, `anchor`" in gigpo and "2505.10978" in gigpo
    assert "[methods](../configs/_shared/methods.py)" in gigpo
    assert "[`coin_talk.py:gigpo`](../configs/words/README.md#householdpy-coin_talkpy-" in gigpo


def test_what_only_a_comparison_shows_links_to_its_table():
    rows = {line.split("`")[1]: line for line in PAGE.read_text().splitlines() if "| `" in line}
    table = "](../configs/comparison/arrays.md) |"
    assert f"| [`arrays.py:WORLD,hgpo`{table}" in rows["hgpo"]
    assert f"| [`arrays.py:WORLD,length_adaptive`{table}" in rows["length_adaptive_gae"]
    assert table not in rows["gigpo"], "a finding of its own is before a table of all"
