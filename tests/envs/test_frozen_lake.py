"""FrozenLake against gymnasium's recorded values and transition tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded

from envs.frozen_lake import rules


@pytest.mark.parametrize(
    "episode", recorded.episodes("frozenlake")[:8], ids=lambda e: str(e["seed"])
)
def test_value_of_the_start(episode):
    state = recorded.lake(episode)
    value = (
        rules.action_values(rules.unpack(state.holes, episode["size"]), state.goal, 1.0)
        .max(0)
        .ravel()[state.position]
    )
    np.testing.assert_allclose(value, episode["V0"], atol=1e-5)


def test_slipping_goes_ahead_or_across_with_the_stated_chances():
    keys = jax.random.split(jax.random.key(0), 30000)
    taken = jax.vmap(lambda key: rules.slip(key, jnp.int32(1), 1 / 3))(keys)
    share = np.bincount(np.asarray(taken), minlength=4) / 30000
    np.testing.assert_allclose(share, [1 / 3, 1 / 3, 1 / 3, 0], atol=0.015)


def test_slippery_values_agree_with_a_plain_loop():
    holes, _, goal = rules.generate(jax.random.key(4), 4, 0.8)
    ours = np.asarray(rules.action_values(holes, goal, 1 / 3)).reshape(4, 16)
    holes, goal = np.asarray(holes).ravel(), int(goal)
    following = [
        [int(rules.move(jnp.int32(s), jnp.int32(a), 4)) for a in range(4)] for s in range(16)
    ]
    value = np.zeros(16)
    for _ in range(2000):
        q = np.zeros((4, 16))
        for s in range(16):
            for a in range(4):
                for taken in ((a - 1) % 4, a, (a + 1) % 4):
                    t = following[s][taken]
                    q[a, s] += (
                        float(t == goal) + 0.99 * value[t] * (not holes[t] and t != goal)
                    ) / 3
        value = q.max(0)
    np.testing.assert_allclose(ours, q, atol=1e-4)


@pytest.mark.parametrize("size", [3, 4, 8])
def test_every_map_is_connected(size):

    @jax.jit
    @jax.vmap
    def draw(key):
        holes, start, goal = rules.generate(key, size, 0.6)
        return start, goal, rules.connected(holes, start, goal)

    start, goal, connected = draw(jax.random.split(jax.random.key(0), 256))
    assert bool(connected.all())
    assert bool((start != goal).all())


@pytest.mark.parametrize("size", [3, 4, 6, 9])
def test_packed_maps(size):
    cells = np.random.default_rng(size).random((size, size)) < 0.4
    words = rules.pack(cells)
    np.testing.assert_array_equal(rules.unpack(words, size), cells)
    held = [bool(rules.has(words, jnp.int32(c))) for c in range(size * size)]
    np.testing.assert_array_equal(np.reshape(held, (size, size)), cells)
