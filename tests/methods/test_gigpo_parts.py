"""GiGPO with one term divided: between the two forms that it has as a whole."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import advantages
from agentrl.methods.gigpo_parts import clipped, partly_divided


def example():
    rng = np.random.default_rng(0)
    mask = np.arange(5) < rng.integers(2, 6, (8, 1))
    reward = jnp.asarray(rng.normal(size=(8, 5)), jnp.float32)
    anchor = jnp.asarray(rng.integers(0, 3, (8, 5, 1)).repeat(2, -1), jnp.uint32)
    group = jnp.asarray(np.repeat([0, 1], 4), jnp.int32)
    penalty = jnp.asarray(rng.uniform(size=(8, 5)) * 0.1, jnp.float32)
    return (reward, jnp.asarray(mask), group, anchor), {"penalty": penalty}


def test_the_two_forms_add_up_to_gigpos():
    args, keys = example()
    parts = [partly_divided(*args, divided=term, **keys) for term in ("step", "episode")]
    whole = [advantages.gigpo(*args, normalize=how, **keys) for how in ("std", "mean")]
    np.testing.assert_allclose(parts[0] + parts[1], whole[0] + whole[1], atol=1e-5)
    episode = advantages.grpo(*args[:3], **keys)
    step = advantages.gigpo(*args, normalize="mean", **keys)
    step = step - advantages.grpo(*args[:3], normalize="mean", **keys)
    np.testing.assert_allclose(parts[1], step + episode, atol=1e-5)


def test_clipped():
    assert clipped(jnp.array([-3.0, 0.25, 2.0]), bound=0.5).tolist() == [-0.5, 0.25, 0.5]
    with pytest.raises(ValueError, match="bound"):
        clipped(jnp.zeros(2), bound=0.0)
    with pytest.raises(ValueError, match="divided='turn'"):
        partly_divided(*example()[0], divided="turn")
