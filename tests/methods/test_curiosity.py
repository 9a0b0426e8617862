"""Curiosity: what is new, and its numbers; that it wears off is in test_together.py."""

import functools

import jax
import numpy as np
import pytest
from by_hand import context
from experiments import lake

from agentrl import rewards
from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.by_turn import ended, to_turns
from agentrl.methods.curiosity import curiosity, deviation, prediction_error


def config_of(coefficient=1.0, **options):
    config = lake()
    config.components.curiosity = section(curiosity, hidden=16, features=8, **options)
    config.reward.novelty = section(rewards.novelty_bonus, coefficient=coefficient)
    return config


@functools.cache
def first_batch():
    """(a first state, its batch)."""
    experiment = build(config_of())
    state = jax.jit(experiment.init)(0)
    return state, jax.device_get(jax.jit(experiment.batches)(state)["rollout"])


@functools.cache
def novelty_of(**options):
    """What a component with these options says of this batch."""
    state, batch = first_batch()
    component = build(config_of(**options)).components["curiosity"]

    @jax.jit
    def annotated(value, streams, rows):
        return component.annotate(context(value), streams, rows)["novelty"].values

    return np.asarray(annotated(state.carry["curiosity"], batch.streams, batch.rows))


def test_a_turn_is_as_new_as_what_it_leads_to():
    _, batch = first_batch()
    mask, novelty = np.asarray(batch.streams.mask), batch.notes["novelty"].values
    np.testing.assert_allclose(novelty_of(), novelty, rtol=1e-5)
    assert novelty.shape == mask.shape and (novelty[~mask] == 0).all()
    last = np.asarray(jax.jit(ended)(batch.streams)) | ~np.pad(mask[:, 1:], ((0, 0), (0, 1)))
    assert (novelty[last] == 0).all() and (novelty[mask & ~last] > 0).all()
    # Equal observations are equally new: those that were reached are those acted from next.
    seen = to_turns(batch.rows.observation, batch.rows, mask.shape)
    pairs = {}
    for n, t in zip(*np.nonzero(mask & ~last), strict=True):
        pairs.setdefault(np.asarray(seen[n, t + 1]).tobytes(), set()).add(float(novelty[n, t]))
    assert all(max(v) - min(v) < 1e-6 for v in pairs.values()) and len(pairs) > 1


@pytest.mark.parametrize("episodic", ["first", "elliptical"])
def test_episodic_factors(episodic):
    novelty = novelty_of(episodic=episodic, known_scale=0.1)
    assert np.isfinite(novelty).all() and (novelty > 0).any()
    if episodic == "first":
        other = novelty_of(known_scale=0.1)
        assert ((novelty == 0) | np.isclose(novelty, other, rtol=1e-5)).all()


def test_numbers():
    zero = np.zeros((1, 3), np.float32)
    np.testing.assert_allclose(prediction_error(zero + [[3, 4, 0]], zero), [5], rtol=1e-6)
    slope = jax.grad(lambda x: prediction_error(x, zero).sum())(zero)
    np.testing.assert_array_equal(slope, zero)
    # Bonuses 1, 2, 3, 6: mean 3, variance 3.5.
    np.testing.assert_allclose(deviation(np.float32([4, 12, 50])), np.sqrt(3.5), rtol=1e-6)
    assert deviation(np.zeros(3, np.float32)) == 1
