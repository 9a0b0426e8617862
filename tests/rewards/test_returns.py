"""Returns to go over acted turns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.rewards import discounted_return

returns = jax.jit(discounted_return)


def reference(reward, mask, gamma):
    """Plain loop over each stream's acted turns, float64."""
    out = np.zeros(mask.shape)
    for i in range(mask.shape[0]):
        following = 0.0
        for t in reversed(np.flatnonzero(mask[i])):
            following = out[i, t] = reward[i, t] + gamma * following
    return out


def test_worked_numbers():
    # acted in turns 0, 1 and 3: 1 + 0.5 (2 + 0.5 * 4) = 3, 2 + 0.5 * 4 = 4, 4
    reward = np.float32([[1.0, 2.0, 77.0, 4.0, 77.0]])
    mask = np.array([[True, True, False, True, False]])
    np.testing.assert_array_equal(returns(reward, mask, gamma=0.5), [[3, 4, 0, 4, 0]])


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_agrees_with_a_plain_loop(gamma):
    rng = np.random.default_rng(0)
    reward = rng.normal(size=(16, 9)).astype(np.float32)
    mask = rng.random((16, 9)) < 0.6
    mask[0] = False
    ours = returns(reward, mask, gamma=gamma)
    np.testing.assert_allclose(ours, reference(reward, mask, gamma), atol=1e-5)
    assert ours.dtype == np.float32 and not np.any(np.asarray(ours)[~mask])


def test_agrees_with_token_returns_that_pass_over_tool_replies():

    data = recorded.arrays("token_loss")
    mask = data["in/mask"].astype(bool)
    ours = returns(data["in/token_rewards"], mask, gamma=1.0)
    expected = data["adv/returns_gap_aware_gamma1(own)"]
    np.testing.assert_allclose(ours, np.where(mask, expected, 0), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.booleans(), min_size=7, max_size=7), st.floats(0, 1, width=32))
def test_gaps_are_as_if_they_were_not_there(acted, gamma):
    mask = np.array([acted])
    reward = np.arange(1, 8, dtype=np.float32)[None]
    count = mask.sum()
    packed = np.zeros((1, 7), np.float32)
    packed[0, :count] = reward[mask]
    dense = returns(packed, np.arange(7)[None] < count, gamma=gamma)
    np.testing.assert_allclose(
        np.asarray(returns(reward, mask, gamma=gamma))[mask], dense[0, :count], rtol=1e-5
    )


def test_precision_and_vmap():
    reward, mask = np.ones((3, 2, 4), jnp.bfloat16), np.ones((3, 2, 4), bool)
    out = jax.vmap(lambda r, m: discounted_return(r, m, gamma=1.0))(reward, mask)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[2], [[4, 3, 2, 1]] * 2)
