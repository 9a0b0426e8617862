"""GiGPO with one term divided: between the two forms that it has as a whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import advantages
from agentrl.methods.gigpo_parts import clipped, partly_divided


def example():
    rng = np.random.default_rng(0)
    mask = np.arange(5) < rng.integers(2, 6, (8, 1))
    reward = np.float32(rng.normal(size=(8, 5)))
    anchor = np.uint32(rng.integers(0, 3, (8, 5, 1)).repeat(2, -1))
    group = np.repeat(np.int32([0, 1]), 4)
    penalty = np.float32(rng.uniform(size=(8, 5)) * 0.1)
    return (reward, mask, group, anchor), {"penalty": penalty}


def test_the_two_forms_add_up_to_gigpos():
    @jax.jit
    def found(args, keys):
        parts = [partly_divided(*args, divided=term, **keys) for term in ("step", "episode")]
        whole = [advantages.gigpo(*args, normalize=how, **keys) for how in ("std", "mean")]
        episode = advantages.grpo(*args[:3], **keys)
        return parts, whole, episode, advantages.grpo(*args[:3], normalize="mean", **keys)

    parts, whole, episode, undivided = jax.device_get(found(*example()))
    np.testing.assert_allclose(parts[0] + parts[1], whole[0] + whole[1], atol=1e-5)
    step = whole[1] - undivided
    np.testing.assert_allclose(parts[1], step + episode, atol=1e-5)


def test_clipped():
    assert clipped(jnp.array([-3.0, 0.25, 2.0]), bound=0.5).tolist() == [-0.5, 0.25, 0.5]
    with pytest.raises(ValueError, match="bound"):
        clipped(jnp.zeros(2), bound=0.0)
    with pytest.raises(ValueError, match="divided='turn'"):
        partly_divided(*example()[0], divided="turn")
