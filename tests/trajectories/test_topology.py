"""The graph of merged states of a group's episodes, and what it says of them and of their task."""

import numpy as np
import pytest
from in_process import call_here

from agentrl.trajectories import files, schema, topology
from agentrl.trajectories.topology import FAILED, SOLVED, Graph

WAYS = [
    ("0", "A", SOLVED),
    ("0", "E", "A", SOLVED),
    ("0", "E", FAILED),
    ("0", "E", "E2", FAILED),
]


def test_worked_numbers():
    graph = Graph(WAYS)
    expected = {"0": 1 / 2, "A": 1, "E": 1 / 3, "E2": 0, SOLVED: 1, FAILED: 0}
    assert graph.potential == pytest.approx(expected)
    # E is 1/6 below the start, more than 0.1, and 2/3 below A.
    np.testing.assert_allclose(graph.scores(WAYS[0]), [0, 1, np.log(2)])
    np.testing.assert_allclose(graph.scores(WAYS[1]), [2 / 3, 2 / 3, np.log(2)])
    np.testing.assert_allclose(graph.scores(WAYS[3]), [0, 0, 0])
    # Of 0-A, 0-E, E-A, E-failed, E-E2 three lead down.
    assert graph.error_branches == pytest.approx(3 / 5) and graph.heterogeneity == 1
    assert Graph(WAYS, smooth=True).potential["E2"] == pytest.approx(1 / 3)


def test_graphs_without_branches_and_with_cycles():
    graph = Graph([("0", "A", SOLVED)] * 3)
    assert graph.error_branches == 0 and graph.heterogeneity == pytest.approx(1 / 3)
    np.testing.assert_allclose(graph.scores(("0", "A", SOLVED)), [0, 1, 0])
    round_ = ("0", "A", "0", "A", SOLVED)
    graph = Graph([round_, ("0", FAILED)])
    assert graph.scores(round_).efficiency == 0.5 and graph.potential["0"] == 0.5
    assert Graph([("0", FAILED)]).heterogeneity == 0


def episode(name, group, way):
    *states, end = way
    turns = [
        schema.Turn(
            t, 0.0, t == len(states) - 1, False, success=end == SOLVED, anchor=(ord(s[-1]), 0)
        )
        for t, s in enumerate(states)
    ]
    task = schema.Task("Coin-v1", {}, len(turns))
    return schema.Episode(name, task, (schema.Agent(turns=tuple(turns)),), group=group)


def test_tasks_and_episodes_are_ranked_and_written(tmp_path):
    made = [episode(f"a{i}", 0, way) for i, way in enumerate(WAYS)]
    made += [episode(f"b{i}", 1, WAYS[0]) for i in range(4)]
    found = topology.curated(made)
    assert [task.name[-1] for task in found.tasks] == [0, 1]
    # Of a1 the recovery is as far above the mean as the efficiency is below.
    assert [one.id for *_, one in found.episodes][:2] == ["a0", "a1"]
    assert found.episodes[0][0] == found.episodes[1][0] > 0 > found.episodes[2][0]
    assert found.episodes[1][1].recovery == pytest.approx(2 / 3)
    path = tmp_path / "some.jsonl"
    files.write(path, made)
    done = call_here("trajectories", f"--curate={path}", "--most=2")
    assert done.returncode == 0 and "0.60" in done.stdout, done.stderr
    assert [one.id for one in files.read(tmp_path / "some.curated.jsonl")] == ["a0", "a1"]
    with pytest.raises(ValueError, match="turns without anchor"):
        topology.way_of(schema.Episode("a", made[0].task, (agent_without_anchor(),)))


def agent_without_anchor():
    return schema.Agent(turns=(schema.Turn(0, 0.0, True, False),))
