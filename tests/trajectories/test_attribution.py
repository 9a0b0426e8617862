"""Who made an episode fail, and when: graphs of references, repairs, Shapley values."""

import dataclasses
import functools

import numpy as np
import pytest
from in_process import call_here

import envs
from agentrl.trajectories import (
    attribution,
    counterfactual,
    expert_faults,
    fault_study,
    faults,
    files,
    references,
    replay,
    schema,
)
from agentrl.trajectories.references import Step


def matrix(n, weights):
    found = np.zeros((n, n))
    for (i, j), weight in weights.items():
        found[i, j] = weight
    return found


def test_worked_numbers_of_the_graph():
    edges = matrix(5, {(0, 2): 1, (1, 2): 1, (2, 3): 1, (0, 3): 1, (3, 4): 1}) > 0
    assert references.ancestors(edges, 4).tolist() == [True] * 4 + [False]
    # Out-degrees 2, 1, 1, 1 over 4; betweenness 2 and 3 of nodes 2 and 3 over 12.
    expected = [0.25, 0.125, 0.125 + 0.5 * 2 / 12, 0.125 + 0.5 * 3 / 12, 0]
    np.testing.assert_allclose(references.impact(edges), expected)
    weights = {(0, 1): 1, (0, 2): 0.2, (1, 2): 0.8, (1, 3): 0.1, (2, 3): 0.9, (0, 4): 0.25}
    weights = matrix(5, weights | {(3, 4): 0.75})
    np.testing.assert_allclose(references.backtrace(weights), [1, 0.615, 0.675, 0.75, 1])
    np.testing.assert_allclose(references.backtrace(weights, 2), [0.75, 0.615, 0.675, 0.75, 1])
    most = references.backtrace(weights, mode="max")
    np.testing.assert_allclose(most, [0.54, 0.54, 0.675, 0.75, 1])
    near = [references.proximity(d) for d in range(3)]
    np.testing.assert_allclose(near, [1, 0.606531, 0.135335], atol=1e-6)


def agent(*numbers, **more):
    turns = tuple(schema.Turn(n, 0.0, terminated=False, truncated=False) for n in numbers)
    return schema.Agent(turns=turns, **more)


def test_references_follow_from_calls_and_turns():
    called = [agent(0, 3, 6), agent(1, 2, parent=0, call_turn=0), agent(4, parent=0, call_turn=3)]
    episode = schema.Episode("a", schema.Task("Research-v1", {}, 9), tuple(called))
    graph = references.dependencies(episode)
    edges = {(graph.steps[i].turn, graph.steps[j].turn) for i, j in np.argwhere(graph.edges)}
    assert edges == {(0, 1), (1, 2), (0, 3), (2, 3), (3, 4), (3, 6), (4, 6)}
    two = schema.Episode("a", schema.Task("Nim-v1", {}, 9), (agent(0, 2), agent(1)))
    graph = references.dependencies(two)
    assert np.argwhere(graph.edges).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_shapley_values():
    values = np.array([0.1, 0.1, 0.6, 0.7, 0.2, 0.2, 0.8, 0.9])
    found = attribution.shapley(values)
    np.testing.assert_allclose(found, [0.05, 0.60, 0.15])
    worth = lambda coalition: values[sum(1 << i for i in coalition)]  # noqa: E731
    rng = np.random.default_rng(0)
    sampled, error = attribution.shapley_sampled(worth, 3, 200, rng)
    np.testing.assert_allclose(sampled.sum(), 0.8)
    assert (np.abs(sampled - found) <= 4 * error + 1e-9).all() and error.max() < 0.02
    # Two weak agents of whom both are needed: each alone changes nothing, and they share.
    np.testing.assert_allclose(attribution.shapley(np.array([0, 0, 0, 1.0])), [0.5, 0.5])
    with pytest.raises(ValueError, match="3 values, expected one of each coalition"):
        attribution.shapley(np.zeros(3))


def test_the_weak_role_of_a_relay_is_blamed_though_the_last_one_fails():
    """Scout, planner, actor: a role fails with 0.4 if it is weak, else 0.03."""
    rng, right = np.random.default_rng(0), 0
    for trial in range(60):
        weak = trial % 3
        fails = rng.random((100, 3)) < np.where(np.arange(3) == weak, 0.4, 0.03)
        values = [
            np.mean(~(fails & [not s >> i & 1 for i in range(3)]).any(axis=1)) for s in range(8)
        ]
        right += int(np.argmax(attribution.shapley(np.array(values)))) == weak
    assert right >= 54


def test_injected_faults_are_found_by_replay_and_not_by_order():
    injected = faults.draw(60, seed=1)
    assert not any(one.episode.success for one in injected)
    found = fault_study.study(injected, faults.outcome, faults.restores)
    for name in ("GraphTracer: repair", "Shapley, then its critical step"):
        assert found[name][:4] == (1, 1, 1, 1)
    assert found["critical step of all"].step == 1 and found["critical step of all"].plays == 13
    assert found["chance"].agent == 0.25 and found["chance"].step == pytest.approx(1 / 12)
    assert max(found[name].step for name in ("the last turn", "graph: impact")) < 0.4
    # An agent that goes wrong by chance, too, in each replay.
    often = functools.partial(faults.outcome, slips=0.05, draws=16)
    noisy = fault_study.study(injected[:20], often, draws=16)
    assert noisy["Shapley, then its critical step"].step > 0.9


def test_an_episode_is_played_again_from_its_line():
    one = faults.draw(1, seed=2)[0]
    episode = schema.from_line(schema.to_line(one.episode))
    assert episode == one.episode
    play = faults.outcome(episode)
    everybody = frozenset(range(4))
    assert play() == 0 and play(agents=everybody) == 1 and play(steps=frozenset([one.step])) == 1
    blame = attribution.blame(episode, play)
    assert (blame.agent, blame.step, blame.upstream) == (one.step.agent, one.step, True)
    np.testing.assert_allclose(blame.shares, np.arange(4) == one.step.agent)
    causes = attribution.root_causes(
        references.dependencies(episode), lambda step: faults.restores(episode, step)
    )
    # Correcting a later result may suffice, too; the cause is the first.
    assert causes[0] == one.step and causes[-1] == Step(11, episode_owner(episode, 11))


def episode_owner(episode, number):
    return next(a for a, x in enumerate(episode.agents) if number in [t.number for t in x.turns])


def test_what_cannot_be_helped_blames_nobody():
    one = faults.draw(1, seed=2)[0]
    blame = attribution.blame(one.episode, lambda agents=(), steps=(): 0.0)
    assert blame.agent is None and blame.step is None and not blame.shares.any()
    many = attribution.blame(one.episode, lambda agents=(), steps=(): float(len(agents) > 2))
    np.testing.assert_allclose(many.shapley, 0.25)


def test_a_team_of_an_environment_in_jax(tmp_path):
    """The planner answers too soon; or a worker reports without a look, and no call is left."""
    options = {"facts": (1, 1), "right": 1.0, "answers": (1.0, 0.0, 0.0), "calls": 1}
    task, seeds = schema.Task("Research-v1", options, 9), schema.Seeds((0, 7), (0, 8), 0)
    names = envs.make("Research-v1", **options)[0].action_names
    good, early, lazy = (
        expert_faults.expert_episode(task, seeds, step, lambda others, a=a: names.index(a))
        for step, a in ((None, ""), (Step(0, 0), "answer"), (Step(1, 1), "report"))
    )
    assert good.success and counterfactual.outcome(good)() == 1
    for episode, step in ((early, Step(0, 0)), (lazy, Step(1, 1))):
        assert not episode.success
        play = counterfactual.outcome(episode)
        assert play() == 0 and play(agents=frozenset(range(len(episode.agents)))) == 1
        found = attribution.blame(episode, play)
        assert (found.agent, found.step) == (step.agent, step)
    path = tmp_path / "some.jsonl"
    files.write(
        path,
        [good, dataclasses.replace(lazy, id="b"), dataclasses.replace(early, id="c", seeds=None)],
    )
    done = call_here("trajectories", f"--attribute={path}")
    assert "b: agent 1 1.00; agent 1: its turn 1\n" in done.stdout, done.stderr
    assert "c: not played: no seeds" in done.stdout and "2 failed episodes" in done.stdout


def test_episodes_that_cannot_be_attributed():
    episode = schema.Episode("a", schema.Task("Nim-v1", {}, 9), (agent(0), agent(1)))
    with pytest.raises(replay.ReplayError, match="no seeds"):
        counterfactual.outcome(episode)
    seeded = dataclasses.replace(episode, seeds=schema.Seeds((0, 1), (0, 2), 0))
    with pytest.raises(replay.ReplayError, match="Nim-v1 is a game of opponents"):
        counterfactual.outcome(seeded)


def test_the_launcher_prints_a_table():
    done = call_here("trajectories", "--faults=10")
    assert done.returncode == 0 and done.stdout.count("Shapley") == 3, done.stderr
    options = "--options=facts=(1, 1), right=1.0, answers=(1.0, 0.0, 0.0), calls=1"
    done = call_here("trajectories", "--faults=3", "--env=Research-v1", options)
    assert done.returncode == 0 and done.stdout.count("Shapley") == 1, done.stderr
