"""Tasks that leave a list: solved ones by epochs, and those that the first policy never solves."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from experiments import lake

from agentrl import advantages
from agentrl.config import section
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.curriculum import tasks_by_number
from agentrl.methods.success_replay import success_replay
from agentrl.methods.task_lists import drawn_in_order, pruned_tasks, solvable_tasks
from agentrl.streams import Streams

GROUPS, SIZE = 4, 2
SETUP = SimpleNamespace(
    rollout=SimpleNamespace(
        needs=("tasks",), units=(GROUPS, ""), num_streams=GROUPS * SIZE, agents=1
    )
)


def outcome(inputs, success):
    success = jnp.asarray(success)[:, None]
    streams = Streams(
        reward=success * 1.0,
        mask=jnp.ones(success.shape, bool),
        group=jnp.repeat(jnp.arange(GROUPS), SIZE),
        success=success,
    )
    nothing = dict.fromkeys(("before", "params", "trained", "rows", "credit", "notes", "finite"))
    return UpdateResult(**nothing, streams=streams, inputs=inputs.arrays)


def played(component, value, solves, key):
    """(the value, inputs, metrics) after an update in which the tasks of `solves` are solved."""
    inputs = component.before(value, None, key)
    success = np.isin(np.repeat(inputs.arrays["tasks"], SIZE), solves)
    value, metrics = component.after(value, outcome(inputs, success))
    return value, inputs, metrics


def test_an_epoch_plays_all_that_are_left_and_solved_ones_leave():
    component = pruned_tasks(SETUP, tasks=8)
    epoch = component.init(SimpleNamespace(key=jax.random.key(0)))
    keys = jax.random.split(jax.random.key(1), 6)
    seen = []
    for key in keys[:2]:
        epoch, inputs, metrics = played(component, epoch, (1, 5), key)
        seen += [*np.asarray(inputs.arrays["tasks"])]
    assert sorted(seen) == list(range(8))
    np.testing.assert_array_equal(metrics["pruned_tasks/left"], [6, 1])
    seen = []
    for key in keys[2:4]:
        epoch, inputs, metrics = played(component, epoch, (), key)
        seen += [*np.asarray(inputs.arrays["tasks"])]
    # Six are left; the second update is filled up with the first two.
    assert set(seen) == {0, 2, 3, 4, 6, 7} and seen[:2] == seen[6:]
    np.testing.assert_array_equal(metrics["pruned_tasks/epoch"], [2, 1])
    # Where all are solved, all stay.
    for key in keys[4:]:
        epoch, _, metrics = played(component, epoch, range(8), key)
    np.testing.assert_array_equal(metrics["pruned_tasks/left"], [6, 1])


@pytest.mark.parametrize(("good", "leaves"), [(8, False), (9, True), (10, True)])
def test_a_task_leaves_from_a_solve_rate_of_nine_tenths(good, leaves):
    """Two tasks, one update an epoch: ten attempts at the first."""
    setup = SimpleNamespace(
        rollout=SimpleNamespace(needs=("tasks",), units=(2, ""), num_streams=20, agents=1)
    )
    component = pruned_tasks(setup, tasks=2)
    epoch = component.init(SimpleNamespace(key=jax.random.key(0)))
    inputs = component.before(epoch, None, jax.random.key(1))
    first = int(inputs.arrays["tasks"][0])
    success = jnp.arange(20)[:, None] < good
    streams = Streams(
        reward=success * 1.0,
        mask=jnp.ones((20, 1), bool),
        group=jnp.repeat(jnp.arange(2), 10),
        success=success,
    )
    epoch, _ = component.after(epoch, UpdateResult(None, streams=streams, inputs=inputs.arrays))
    assert int(epoch.left) == 2 - leaves
    left = np.asarray(drawn_in_order(epoch, 2))
    assert (first in left) != leaves


def test_tasks_that_the_first_policy_never_solves_are_not_drawn():
    component = solvable_tasks(SETUP, tasks=6, tries=3, terms=("policy", "entropy"), weights=(1, 2))
    value = component.init(None)
    keys = jax.random.split(jax.random.key(0), 12)
    seen, waits = [], []
    # Three attempts are two groups of two: twelve groups, three updates.
    for key in keys:
        value, inputs, metrics = played(component, value, (2, 4), key)
        seen.append(np.asarray(inputs.arrays["tasks"]))
        waits.append(float(metrics["policy_waits"][0]))
        weight = (
            inputs.numbers["objective.policy.weight"],
            inputs.numbers["objective.entropy.weight"],
        )
        assert weight == ((0, 0) if waits[-1] else (1, 2))
    assert waits == [1, 1, 1] + 9 * [0]
    np.testing.assert_array_equal(np.concatenate(seen[:3]), [*range(6)] * 2)
    assert set(np.concatenate(seen[3:])) == {2, 4}
    np.testing.assert_array_equal(metrics["solvable_tasks/kept"], [2, 1])
    # If nothing is solved, everything is drawn; later successes change nothing.
    value, later = component.init(None), []
    for i, key in enumerate(keys):
        value, inputs, _ = played(component, value, range(6) if i > 2 else (), key)
        later.append(np.asarray(inputs.arrays["tasks"]))
    assert set(np.concatenate(later[3:])) == set(range(6))


@pytest.mark.parametrize("make", [pruned_tasks, solvable_tasks])
def test_refusals(make):
    config = lake(size=2, max_steps_in_episode=4)
    config.components[make.__name__] = section(make, tasks=4)
    with pytest.raises(ValueError, match="does not take"):
        build(config)


def test_rapo_with_a_language_policy():
    """Pruning, replay of the latest success and the scale of live groups, in one program."""
    config = tiny.talk_config(warm_start__updates=0, policy__constrained=True, updates=4)
    config.log_every = 4
    config.env.update(size=2, slippery=False)
    config.sampler = section(tasks_by_number)
    config.components.pruned_tasks = section(pruned_tasks, tasks=16)
    config.components.success_replay = section(
        success_replay, tasks=16, per_task=1, success=0.5, when="none", replaces="random"
    )
    config.reweighting.live_group_scale = section(advantages.live_group_scale)
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    _, metrics = jax.jit(tiny.train_of(experiment))(state)
    assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(metrics))
    assert metrics["stored_successes"][0] > 0
    assert tiny.mean(metrics, "pruned_tasks/epoch") > 0
