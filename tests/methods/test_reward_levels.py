"""G-RA's reward levels of turns, by hand, and what the gates make of them."""

import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context, setup_of

import envs
from agentrl import rewards, rollout
from agentrl.methods.reward_levels import reward_levels
from agentrl.streams import Streams

ENV, PARAMS = envs.make("envs.wrappers.Submission", base={"name": "NumberLine-v1"})
# Solved and submitted; submitted elsewhere, after an illegal reply; cut by the limit.
STREAMS = Streams(
    reward=jnp.array([[0, 0, 1.0], [0, 0, jnp.nan], [0, 0, 0]]),
    mask=jnp.array([[True] * 3, [True, True, False], [True] * 3]),
    valid=jnp.array([[True] * 3, [False, True, True], [True] * 3]),
    terminated=jnp.array([[False, False, True], [False, True, True], [False] * 3]),
)


def test_levels_by_hand():
    component = reward_levels(setup_of(ENV, PARAMS), valid=0.25, submitted=0.5)
    notes, metrics = component.annotate(context(), STREAMS, None)
    levels = notes["reward_levels"].values
    np.testing.assert_allclose(levels[..., 0], [[0.25] * 3, [0, 0.25, 0], [0.25] * 3])
    np.testing.assert_allclose(levels[..., 1], [[0, 0, 0.5], [0, 0.5, 0], [0, 0, 0]])
    np.testing.assert_allclose(metrics["levels/valid"], [1.75, 3])
    np.testing.assert_allclose(metrics["levels/submitted"], [1.0, 3])

    def total(*thresholds):
        given = rewards.gated_accumulation(
            STREAMS.reward, STREAMS.mask, levels, thresholds=thresholds
        )
        return given.sum(axis=1)

    np.testing.assert_allclose(total(0.0, 0.5), [2.25, 0, 0])  # by the outcome
    np.testing.assert_allclose(total(0.0, -1.0), [2.25, 0.75, 0])  # by the submission
    np.testing.assert_allclose(total(-1.0, -1.0), [2.25, 0.75, 0.75])  # summed


def test_what_it_does_not_fit():
    with pytest.raises(ValueError, match="whole episodes"):
        reward_levels(setup_of(ENV, PARAMS, rollout.segments))
    with pytest.raises(ValueError, match="submitted=-1"):
        reward_levels(setup_of(ENV, PARAMS), submitted=-1.0)
