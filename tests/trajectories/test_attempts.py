"""Attempts at a task: success by turn, the majority of first answers, answers given again."""

import dataclasses

import numpy as np
import pytest
from in_process import call_here

from agentrl.trajectories import files, schema
from agentrl.trajectories.attempts import attempts


def made(number, group, answers, right, valid=None):
    """An episode of texts, of which the one equal to `right` succeeds; arrays if they are ints."""
    turns, spans, texts = [], [], isinstance(answers[0], str)
    for t, answer in enumerate(answers):
        turns.append(
            schema.Turn(
                t, float(answer == right), answer == right, False, success=answer == right,
                valid=None if valid is None else valid[t], action=None if texts else answer,
            )
        )  # fmt: skip
        spans += [
            schema.Span("observation", t, (), "?"),
            schema.Span("action", t, (), f"{answer} ", trained=True),
        ]
    agent = schema.Agent(turns=tuple(turns), rows=(tuple(spans),) if texts else ())
    return schema.Episode(str(number), schema.Task("sums", {}, 3), (agent,), group=group)


def test_attempts_by_hand():
    episodes = [
        # The majority of task 0 is wrong, 3 twice; of task 1 right.
        made(0, 0, ["7"], "7"),
        made(1, 0, ["3", "3", "7"], "7"),
        made(2, 0, ["3", "4", "3"], "7"),
        made(3, 1, ["5"], "5"),
        made(4, 1, ["6", "5"], "5"),
        made(5, 1, ["5"], "5"),
    ]
    found = attempts(episodes)
    # Right at once: 0, 3, 5; then 4; then 1.
    np.testing.assert_allclose(found.by_turn, [3 / 6, 4 / 6, 5 / 6])
    assert found.majority == 0.5 and found.votes == 5
    # Second and third answers: 3, 7, 4, 3, 5, of which the first 3 and the second.
    assert found.repeated == pytest.approx(2 / 5)
    # One vote: the first episode of each task.
    assert attempts(episodes, votes=1).majority == 1.0


def test_attempts_over_arrays_and_answers_that_are_none():
    episodes = [
        made(0, 0, [2, 2], 4, valid=[False, True]),
        made(1, 0, [2, 4], 4, valid=[False, True]),
        made(2, 0, [4], 4, valid=[True]),
    ]
    found = attempts(episodes)
    np.testing.assert_allclose(found.by_turn, [1 / 3, 2 / 3])
    # The two that were not understood have no vote.
    assert found.majority == 1.0 and found.repeated == 0.5
    assert np.isnan(attempts(episodes[2:]).repeated)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="at least one episode"):
        attempts([])
    one = made(0, 0, ["7"], "7")
    with pytest.raises(ValueError, match="expected one agent and the group"):
        attempts([dataclasses.replace(one, group=None)])
    turn = dataclasses.replace(one.agents[0].turns[0], success=None)
    agent = dataclasses.replace(one.agents[0], turns=(turn,))
    with pytest.raises(ValueError, match="an environment with success"):
        attempts([dataclasses.replace(one, agents=(agent,))])


def test_the_launcher_prints_them(tmp_path):
    path = tmp_path / "some.jsonl"
    files.write(path, [made(0, 0, ["3", "3", "7"], "7"), made(1, 1, ["5"], "5")])
    done = call_here("trajectories", f"--attempts={path}")
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in done.stdout.splitlines()]
    assert ["1", "0.500"] in told and ["3", "1.000"] in told
    assert "majority of 5 first answers 0.500" in done.stdout
    assert "wrong answers given again 0.500" in done.stdout
