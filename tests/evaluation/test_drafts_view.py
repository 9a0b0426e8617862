"""Drafts side by side and replaced players: which are shown, shares by hand, escaped, in a file."""

import json

import numpy as np
import pytest

from agentrl.evaluation import drafts_view, sheets
from agentrl.evaluation.sheets import Sheet
from envs.agents import Draft


def sheet(title, right, on=None, chosen=(), scores=(), **options):
    drafts = [Draft(f"w{i}", f"<b>{x}</b>", right=x, went_on=i == on) for i, x in enumerate(right)]
    return Sheet(title, tuple(drafts), tuple(scores), dict(chosen), **options)


def test_shares_by_hand():
    """Of three with rights: means 1/2, 1, 1/3; what went on is right, right, none; the model's
    choice wrong, right, none."""
    given = [
        sheet("a", [True, False], 0, {"model": 1}),
        sheet("b", [True, True], 1, {"model": 0}),
        sheet("c", [False, True, False], None, {"model": -1}),
        sheet("d", [None, True], 1, {"model": 1}),
    ]
    found = {name: x.tolist() for name, x in sheets.shares(given[:3]).items()}
    assert found == {
        "any draft": [0.5, 1.0, pytest.approx(1 / 3)],
        "went on": [1.0, 1.0, 0.0],
        "model": [0.0, 1.0, 0.0],
        "a right one if there is any": [1.0, 1.0, 1.0],
    }
    # Of d nobody knows one draft; what went on is told of a, b and d.
    (only,) = sheets.shares(given).items()
    assert only[0] == "went on" and only[1].tolist() == [1.0, 1.0, 1.0]
    assert sheets.shares([sheet("e", [None, None], 0)]) == {} == sheets.shares([])


def test_the_telling_ones_are_shown():
    """Mixed ones first, half of them with a wrong one that went on; then what there is."""
    mixed = [True, False]
    given = [sheet("same", [True, True], 0), sheet("none", [False, False], 0)]
    given += [sheet(f"good{i}", mixed, 0) for i in range(3)]
    given += [sheet(f"bad{i}", mixed, 1) for i in range(3)]
    assert [s.title for s in sheets.telling(given)] == ["good0", "good1", "bad0", "bad1"]
    few = [*given[:3], given[5]]
    assert [s.title for s in sheets.telling(few)] == ["same", "none", "good0", "bad0"]
    assert [s.title for s in sheets.telling(given[:2] + given[5:])] == [
        "same", "bad0", "bad1", "bad2",
    ]  # fmt: skip
    # Where nothing went on, the last way to choose decides.
    attempts = [sheet("x", mixed, None, {"any": 0, "verifier": 1}), sheet("y", mixed, 0)]
    assert [s.title for s in sheets.telling(attempts, 1)] == ["y"]
    # A wrong one that went on beside others of which nothing is known, before one beside its like.
    given = [sheet("alike", [False, False], 0), sheet("unknown", [False, None], 0)]
    assert [s.title for s in sheets.telling(given, 1)] == ["unknown"]


def test_the_first_of_the_best_formed():
    assert sheets.best_formed([3.0, 1.0, 1.0], [False, True, True]) == 1
    assert sheets.best_formed([0.0, 2.0], [False, False]) == 1


def test_cards_say_who_wrote_what_and_which_went_on():
    one = Draft("agent 0, draft 1", "<i>3</i>, answer 5", (3.0, 2.0), True, True, True)
    other = Draft("agent 1, draft 1", "", (0.0, 1.0), False, False)
    shown = Sheet("episode 7", (one, other), (0.25, -1.5), {"the reward model": 0}, "2 & 3")
    html = str(drafts_view.section([shown], noun="choices"))
    assert "&lt;i&gt;3&lt;/i&gt;, answer 5" in html and "<i>" not in html and "2 &amp; 3" in html
    first, second = html.split('class="draft')[1:]
    assert "went on" in first and "chosen by the reward model" in first and ">right<" in first
    assert "grades 3, 2 · score 0.25" in first
    assert "went on" not in second and "not well formed" in second and "(nothing)" in second
    assert "grades 0, 1 · score −1.50" in second and ">wrong<" in second
    assert "over 1 choices" in html and "1.000" in html
    assert not drafts_view.section([], noun="choices")


def test_a_file_gives_what_was_written_and_damage_is_told(tmp_path):
    path = tmp_path / "attempts.json"
    given = [sheet("a", [True, None], 1, {"v": -1}, (0.5, 0.25), task="t")]
    sheets.write(path, {"update": 3, "shares": {}}, given)
    about, read = sheets.read(path)
    assert about == {"update": 3, "shares": {}} and list(read) == given
    assert "update 3" in drafts_view.attempts(about, read)
    whole = json.loads(path.read_text())
    for change in ({"scores": [1.0]}, {"chosen": {"v": 2}}, {"drafts": [{}]}, {"title": 1, "x": 1}):
        broken = whole | {"sheets": [whole["sheets"][0] | change]}
        path.write_text(json.dumps(broken))
        if "title" in change:
            assert sheets.read(path)[1][0].title == "1"
            continue
        with pytest.raises(ValueError, match="run launchers.select again"):
            sheets.read(path)


def test_what_a_replacement_changed_by_hand():
    """Two tasks with two episodes each: with 1 1 0 1, without 0 1 0 0."""
    runs = np.zeros((4, 3, 1, 2))
    runs[:, 0, 0] = [[1, 0], [1, 1], [0, 0], [1, 0]]
    runs[:, 2, 0] = [[1, 0], [1, 1], [0, 0], [1, 0]]
    said = ["plan <a>", "plan b", "plan c", "plan <a>"]
    html = str(
        drafts_view.replaced(
            runs, said, group=np.array([5, 5, 9, 9]), partners=("expert",),
            replacements=("envs.x.silent",), side="planner",
        )
    )  # fmt: skip
    assert "silent, beside expert" in html and "in place of the planner" in html
    assert "0.750" in html and "0.250" in html
    # Both tasks' mean differences are 1/2: no spread.
    assert "0.500 [0.500, 0.500]" in html and "0.50, 0.50, 0.00" in html
    assert "0.75, 0.25" in html and "over the 2 tasks" in html
    # Episodes 0 and 3 are the same course, shown once and first.
    first = html.index("episode 0")
    assert first < html.index("episode 1") and "episode 3" not in html
    assert "plan &lt;a&gt;" in html and html.count("+1") == 1
