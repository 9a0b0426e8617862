"""DART: limits of turns per task, entropies of turns, and all its parts with language policies."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from experiments import lake

from agentrl import advantages, losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.learner.passes import log_probs
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.dynamic_rollouts import dynamic_rollouts
from agentrl.methods.turn_entropy import turn_entropy
from agentrl.methods.turn_limits import limits_of, turn_limits
from agentrl.streams import Streams


def test_limits():
    longest = jnp.array([0, 3, 12, 40])
    limits = limits_of(longest, first=30, least=10)
    np.testing.assert_array_equal(limits, [30, 10, 12, 40])


def test_the_longest_success_of_a_task_counts():
    setup = SimpleNamespace(rollout=SimpleNamespace(needs=("tasks", "limits"), units=(2, "")))
    component = turn_limits(setup, tasks=3, first=5, least=2)
    # Task 2: successes of 3 and 1 turns; task 0: a failure of 4 and a success of 1.
    mask = jnp.arange(4) < jnp.array([[3], [1], [4], [1]])
    last = jnp.arange(4) == jnp.array([[2], [0], [3], [0]])
    success = last & jnp.array([[True], [True], [False], [True]])
    streams = Streams(reward=last * 1.0, mask=mask, group=jnp.zeros(4, int), success=success)
    outcome = UpdateResult(None, streams=streams, inputs={"tasks": jnp.array([2, 0])})
    value, metrics = component.after(component.init(None), outcome)
    limits = component.before(value, None, None).arrays["limits"]
    np.testing.assert_array_equal(limits, [2, 5, 3])
    np.testing.assert_array_equal(metrics["turn_limits/mean"], [5, 2])


@pytest.mark.parametrize("words", [False, True])
def test_episodes_end_at_the_limits_of_their_tasks(words):
    if words:
        config = tiny.talk_config(warm_start__updates=0, objective__kl__weight=0.0)
        config.env.max_steps_in_episode = 6
    else:
        config = lake(size=4, max_steps_in_episode=6)
    config.rollout.update(num_groups=8, group_size=2, limited=True)
    config.sampler = section(tasks_by_number)
    config.components.curriculum = section(curriculum, tasks=4)
    config.components.turn_limits = section(turn_limits, tasks=4)
    config.learner.minibatches = 1
    experiment = build(config)
    params = jax.jit(experiment.init)(0).params
    collect = jax.jit(experiment.rollout.collect)
    tasks, limits = jnp.arange(8) % 4, jnp.array([1, 2, 4, 30])
    _, streams, _, _ = collect(params, None, jax.random.key(0), tasks=tasks, limits=limits)
    allowed = np.repeat(np.minimum(limits, 6)[tasks], 2)
    length = np.asarray(streams.mask).sum(axis=1)
    assert (length <= allowed).all() and (length == allowed).any()
    last = np.arange(streams.mask.shape[1]) == length[:, None] - 1
    cut = (np.asarray(streams.truncated) & last).any(axis=1)
    over = (np.asarray(streams.terminated) & last).any(axis=1)
    np.testing.assert_array_equal(cut, ~over)
    assert (length[cut] == allowed[cut]).all()


def dart():
    """All parts, with a language policy."""
    config = tiny.talk_config(warm_start__updates=0, objective__kl__weight=0.0, staleness=1)
    config.updates = config.log_every = 3
    config.rollout.update(num_groups=8, group_size=2, limited=True)
    config.sampler = section(tasks_by_number)
    config.components.dynamic_rollouts = section(dynamic_rollouts, tasks=6, most=4)
    config.components.turn_limits = section(turn_limits, tasks=6, first=3, least=2)
    config.components.turn_entropy = section(turn_entropy)
    config.components.importance = {"cap": 1.0}
    config.filters.high_entropy_turns = section(advantages.high_entropy_turns, quantile=0.2)
    config.objective.policy = term(
        losses.clipped_surrogate, clip_low=0.1, clip_high=0.28, dual_clip=10.0, scale="importance"
    )
    return config


def test_its_parts_together_learn_from_uncertain_turns_alone():
    experiment = build(dart())
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    streams, rows = batch.streams, batch.rows
    # The mean entropy of a turn's tokens, one stream and turn at a time.
    entropy = np.asarray(log_probs(experiment.policy, state.params, rows, None, 1, field="entropy"))
    written = np.asarray(rows.loss_mask)
    found = np.asarray(batch.notes["turn_entropy"].values)
    for n, t in zip(*np.nonzero(streams.mask), strict=True):
        own = written & (np.asarray(rows.stream) == n)[:, None] & (np.asarray(rows.turn) == t)
        np.testing.assert_allclose(found[n, t], entropy[own].mean(), atol=1e-4)
    kept = np.asarray(batch.credit.of_turns(streams.mask))
    for group in np.unique(streams.group):
        own = (np.asarray(streams.group) == group)[:, None] & np.asarray(streams.mask)
        bound = np.quantile(found[own], 0.2)
        far = own & (np.abs(found - bound) > 1e-5)
        np.testing.assert_array_equal(kept[far], found[far] >= bound)
    assert 0 < kept.sum() < np.asarray(streams.mask).sum()
    _, metrics = jax.jit(tiny.train_of(experiment))(state)
    assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(metrics))
    assert tiny.mean(metrics, "episode_length") <= 3


def test_refusals():
    config = lake(size=2, max_steps_in_episode=4)
    config.components.turn_limits = section(turn_limits)
    with pytest.raises(ValueError, match="limits turns by task, which this rollout does not take"):
        build(config)
    config = lake(size=2, max_steps_in_episode=4)
    config.rollout.limited = True
    with pytest.raises(ValueError, match="limited=True: expected no horizons, and the task"):
        build(config)
