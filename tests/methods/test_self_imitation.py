"""SPEAR: what is stored, when it is replayed and with which advantage; its schedules."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from by_hand import context
from experiments import lake

from agentrl import losses, rewards
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods import self_imitation as spear
from agentrl.methods.self_imitation import self_imitation

DATA = recorded.arrays("token_loss")


def config_of(**options):
    config = lake(size=2, max_steps_in_episode=4)
    options = {"size": 8, "least": 4, "groups": 16} | options
    config.components.self_imitation = section(self_imitation, **options)
    config.objective.self_imitation = term(losses.self_imitation, source="self_imitation")
    config.reward.call_bonus = {}
    return config


@functools.cache
def first_batch():
    """A first batch, in which nothing is replayed."""
    experiment = build(config_of())
    state = jax.jit(experiment.init)(0)
    return jax.jit(experiment.batches)(state)["rollout"]


def outcome_of(batch):
    nothing = dict.fromkeys(("before", "params", "trained", "inputs", "notes"))
    finite = jnp.ones((), bool)
    return UpdateResult(
        **nothing, streams=batch.streams, rows=batch.rows, credit=batch.credit, finite=finite
    )


def test_numbers_of_the_released_code():
    steps = jnp.arange(0, 251, 50)
    expected = DATA["spear/replay_coef_step0..250_step50_max200_coef1"]
    np.testing.assert_allclose(spear.replay_weight(steps, 200), expected, atol=1e-6)
    mask = jnp.array([[True, True, False, True, False, False]])
    expected = DATA["spear/toolcall_reward_n3_step0..125_step25_max100"]
    for step, bonus in zip(range(0, 126, 25), expected, strict=True):
        weight = spear.call_weight(jnp.int32(step), 100)
        got = rewards.call_bonus(jnp.full(mask.shape, jnp.nan).at[0, :4].set(0.0), mask, weight)
        np.testing.assert_allclose(got, [[0, 0, 0, bonus, 0, 0]], atol=1e-6)
    mask = DATA["in/mask"] > 0
    reward = np.where(mask, 0.0, np.nan)
    reward[:, 0] = DATA["in/rewards"]
    np.testing.assert_allclose(
        spear.recalibrated(jnp.asarray(reward), jnp.asarray(mask), jnp.float32(0.4)),
        DATA["spear/recalibrated_adv_mean0.4_nostd"],
        atol=1e-6,
    )


def test_the_loss_is_the_clipped_surrogate_of_what_is_still_good():
    keys = jax.random.split(jax.random.key(0), 3)
    logp, old_logp, advantage = (jax.random.normal(key, (4, 5)) for key in keys)
    mask = jnp.arange(5) < jnp.array([[5], [3], [0], [1]])
    poisoned = jnp.where(mask, advantage, jnp.nan)
    got = losses.self_imitation(logp, old_logp, poisoned, 0.3, mask)
    bounds = {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0}
    good = jnp.maximum(advantage, 0)
    expected, _ = losses.clipped_surrogate(logp, old_logp, good, mask, **bounds)
    np.testing.assert_allclose(got, 0.3 * expected, atol=1e-6)
    assert not jnp.any(losses.self_imitation(logp, old_logp, -jnp.abs(advantage), 1.0, mask))


def test_good_streams_are_stored_replayed_once_and_forgotten():
    experiment = build(config_of())
    component = experiment.components["self_imitation"]
    state = jax.jit(experiment.init)(0)
    batch = first_batch()
    after, source = jax.jit(component.after), jax.jit(component.source.make)
    good = np.asarray(batch.credit.advantage.values)[:, 0] > 0
    assert 4 <= good.sum() <= 8
    empty = state.carry["self_imitation"]
    _, rows = source(context(empty), {})
    assert not rows.loss_mask.any()
    buffer, metrics = after(empty, outcome_of(batch))
    assert metrics["replayed_streams"][0] == 0
    assert (buffer.since >= 0).sum() == good.sum()
    # The baseline is the median of the groups' means, and what lies above it is replayed.
    returns = np.asarray(jnp.where(batch.streams.mask, batch.streams.reward, 0).sum(axis=1))
    baseline = np.median(returns.reshape(4, 4).mean(axis=1))
    streams, rows = source(context(buffer), {})
    replayed = int(streams.mask.any(axis=1).sum())
    assert replayed == (returns[good] > baseline).sum() >= 4
    notes = component.annotate(context(buffer), streams, rows)
    expected = np.where(streams.mask, streams.reward.sum(axis=1, keepdims=True) - baseline, 0)
    np.testing.assert_allclose(notes["recalibrated_advantage"].values, expected, atol=1e-6)
    np.testing.assert_array_equal(rows.stream, np.repeat(np.arange(8), len(rows.stream) // 8))
    # After a replay the buffer starts anew, with the good ones of that update.
    again, metrics = after(buffer, outcome_of(batch))
    assert metrics["replayed_streams"][0] == replayed
    np.testing.assert_array_equal(np.sort(np.unique(again.since)), [-1, 1])
    # What is too old is not used.
    old = buffer.replace(updates=jnp.int32(12))
    assert not source(context(old), {})[1].loss_mask.any()


def test_more_streams_than_places_replace_the_oldest():
    experiment = build(config_of(size=4, least=1))
    component = experiment.components["self_imitation"]
    state = jax.jit(experiment.init)(0)
    batch = first_batch()
    grouped = spear.rows_by_stream(batch.rows, 16)
    none = state.carry["self_imitation"]
    three = jnp.arange(16) < 3
    buffer = spear.put(none, batch.streams, grouped, three)
    np.testing.assert_array_equal(buffer.since, [0, 0, 0, -1])
    later = buffer.replace(updates=jnp.int32(1))
    buffer = spear.put(later, batch.streams, grouped, (jnp.arange(16) >= 8) & (jnp.arange(16) < 10))
    np.testing.assert_array_equal(buffer.since, [1, 0, 0, 1])
    np.testing.assert_array_equal(buffer.rows.tokens[3], grouped.tokens[8])
    np.testing.assert_array_equal(buffer.rows.tokens[0], grouped.tokens[9])
    everything = spear.put(later, batch.streams, grouped, jnp.ones(16, bool))
    assert (everything.since == 1).all()
    assert component.source.unit == 1


def test_refusals():
    with pytest.raises(ValueError, match="least .at most size."):
        build(config_of(least=9))
