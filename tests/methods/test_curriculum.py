"""A curriculum: weights of tasks, what is drawn, and successes as they are counted."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import lake

from agentrl.config import section
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.curriculum import Record, curriculum, task_weights, tasks_by_number
from agentrl.streams import Streams

# Of a rollout the component reads what it takes and how many groups there are.
SETUP = SimpleNamespace(
    rollout=SimpleNamespace(needs=("tasks",), units=(4, "config.rollout.num_groups"))
)


def outcome(drawn, success):
    success = jnp.asarray(success)[:, None]
    streams = Streams(
        reward=success * 1.0,
        mask=jnp.ones(success.shape, bool),
        group=jnp.repeat(jnp.arange(4), 2),
        success=success,
    )
    nothing = dict.fromkeys(("before", "params", "trained", "rows", "credit", "notes", "finite"))
    return UpdateResult(**nothing, streams=streams, inputs={"tasks": jnp.asarray(drawn)})


def test_weights():
    success, seen = jnp.float32([0.0, 0.5, 1.0, 0.9]), jnp.array([3, 2, 1, 0])
    # Never solved, half, always; never drawn counts as half.
    np.testing.assert_allclose(
        task_weights(success, seen, floor=0.2), [0.05, 0.45, 0.05, 0.45], rtol=1e-6
    )
    np.testing.assert_allclose(
        task_weights(success, seen, weighting="failure", floor=0.0),
        [0.4, 0.2, 0.0, 0.4],
        rtol=1e-6,
    )
    nothing = task_weights(jnp.ones(4), jnp.ones(4, jnp.int32), floor=0.0)
    np.testing.assert_array_equal(nothing, [0.25] * 4)
    with pytest.raises(ValueError, match="weighting='learnabilty' .did you mean 'learnability'"):
        task_weights(success, seen, weighting="learnabilty", floor=0.0)


def test_successes_are_running_means_per_task():
    component = curriculum(SETUP, tasks=3, decay=0.5)
    record = component.init(None)
    # Task 1 is drawn by two groups: four streams, one of which succeeds.
    record, metrics = component.after(record, outcome([1, 0, 1, 0], [1, 0, 1, 1, 0, 0, 1, 1]))
    np.testing.assert_allclose(record.success, [1, 0.25, 0])
    np.testing.assert_array_equal(record.seen, [1, 1, 0])
    np.testing.assert_allclose(metrics["curriculum/success"], [1.25, 2])
    record, _ = component.after(record, outcome([1, 1, 1, 1], [1] * 8))
    np.testing.assert_allclose(record.success, [1, 0.625, 0])
    np.testing.assert_array_equal(record.seen, [1, 2, 0])


def test_tasks_are_drawn_by_their_weights():
    component = curriculum(SETUP, tasks=3, floor=0.0)
    record = Record(jnp.float32([0.0, 0.5, 1.0]), jnp.ones(3, jnp.int32))
    drawn = component.before(record, None, jax.random.key(0)).arrays["tasks"]
    np.testing.assert_array_equal(drawn, [1, 1, 1, 1])
    none = component.init(None)
    fresh = jax.vmap(lambda key: component.before(none, None, key).arrays["tasks"])
    counts = np.bincount(np.asarray(fresh(jax.random.split(jax.random.key(1), 300))).ravel())
    np.testing.assert_allclose(counts / 1200, 1 / 3, atol=0.05)


def test_numbered_tasks_are_the_same_for_all_keys():
    one, params = tasks_by_number(jax.random.key(0), 3, jnp.array([5, 2, 5]))
    other, _ = tasks_by_number(jax.random.key(1), 3, jnp.array([2, 5, 7]))
    assert params is None
    raw, again = jax.random.key_data(one), jax.random.key_data(other)
    np.testing.assert_array_equal(raw[0], raw[2])
    np.testing.assert_array_equal(raw[:2][::-1], again[:2])
    assert (raw[0] != again[2]).any()


def test_a_sampler_without_its_component_is_refused():
    config = lake()
    config.sampler = section(tasks_by_number)
    with pytest.raises(ValueError, match="takes 'tasks', which nothing gives here"):
        build(config)
