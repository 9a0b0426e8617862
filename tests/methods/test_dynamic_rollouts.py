"""DART's dynamic rollouts: the number of attempts, how a batch is dealt out, and its groups."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context
from experiments import lake

from agentrl import rollout
from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.curriculum import Record, tasks_by_number
from agentrl.methods.dynamic_rollouts import attempts, dynamic_rollouts


def setup(groups=8, size=2):
    streams = {"num_streams": groups * size, "agents": 1}
    made = SimpleNamespace(needs=("tasks",), units=(groups, ""), **streams)
    return SimpleNamespace(rollout=made)


def test_the_number_of_attempts():
    success = jnp.array([0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0])
    counts = attempts(success, most=8, least=2, above=0.6)
    np.testing.assert_array_equal(counts, [8, 8, 8, 6, 5, 4, 2, 2])


def drawn_by(component, record, key):
    """The tasks i32[G] that an update begins with."""
    return component.before(record, None, key).arrays["tasks"]


def test_what_easy_tasks_leave_goes_to_further_tasks():
    """Eight portions of two attempts: two unsolved tasks of four portions, or eight easy ones."""
    component = dynamic_rollouts(setup(), tasks=8)
    fresh = component.init(None)
    drawn = np.asarray(drawn_by(component, fresh, jax.random.key(0)))
    assert sorted(np.unique(drawn, return_counts=True)[1]) == [4, 4]
    easy = Record(jnp.ones(8), jnp.ones(8, jnp.int32))
    drawn = np.asarray(drawn_by(component, easy, jax.random.key(0)))
    assert sorted(drawn) == list(range(8))
    # One hard task among easy ones; the rest of the batch is shared out as far as it goes.
    one = Record(jnp.ones(8).at[3].set(0.0), jnp.ones(8, jnp.int32))
    counts = [
        np.bincount(drawn_by(component, one, key), minlength=8)
        for key in jax.random.split(jax.random.key(1), 20)
    ]
    assert all(c.sum() == 8 and c[np.arange(8) != 3].max() == 1 for c in counts)
    assert max(c[3] for c in counts) == 4


def test_few_tasks_come_again():
    component = dynamic_rollouts(setup(), tasks=1)
    drawn = drawn_by(component, component.init(None), jax.random.key(0))
    np.testing.assert_array_equal(drawn, [0] * 8)


def config_of():
    config = lake()
    config.rollout = section(rollout.episodes, num_groups=8, group_size=2)
    config.sampler = section(tasks_by_number)
    config.components.dynamic_rollouts = section(dynamic_rollouts, tasks=6, most=4)
    return config


def test_attempts_at_a_task_are_one_group():
    experiment = build(config_of())
    component = experiment.components["dynamic_rollouts"]
    record = component.init(None)
    params = jax.jit(experiment.policy.init)(jax.random.key(0))
    tasks = drawn_by(component, record, jax.random.key(1))
    state = experiment.rollout.init(jax.random.key(2))
    collect = jax.jit(experiment.rollout.collect)
    streams, rows = collect(params, state, jax.random.key(3), tasks=tasks)[1:3]
    amended, _, _ = component.amend(context(record, params), streams, rows)
    number, group = np.repeat(np.asarray(tasks), 2), np.asarray(amended.group)
    together = group[:, None] == group
    assert together[number[:, None] == number].all() and not together.all()
    # Two tasks that begin in the same state are the same task.
    first = np.stack([np.asarray(x) for x in jax.tree.leaves(streams.first_state)[:1]])
    assert (first[..., :, None] == first[..., None, :])[..., together].all()


def test_bad_options():
    without = SimpleNamespace(rollout=SimpleNamespace(needs=(), units=(4, "")))
    with pytest.raises(ValueError, match="tasks_by_number"):
        dynamic_rollouts(without)
    for options in ({"tasks": 0}, {"least": 9}, {"above": 1.0}, {"decay": 1.0}):
        with pytest.raises(ValueError, match="config.components.dynamic_rollouts"):
            dynamic_rollouts(setup(), **options)
