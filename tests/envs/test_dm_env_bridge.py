"""Ours as dm_env's: its own test mixin, discounts at the end, masks, errors."""

import jax
import numpy as np
import pytest
from absl.testing import absltest

import envs

dm_env = pytest.importorskip("dm_env")

from dm_env import test_utils  # noqa: E402

from envs import dm_env_bridge as bridge  # noqa: E402


class _Held(test_utils.EnvironmentTestMixin):
    options: dict = {}

    def make_object_under_test(self):
        return bridge.single(**self.options)

    def make_action_sequence(self):
        """Long enough that episodes end."""
        for i in range(12):
            action = self.make_action()
            yield action if np.ndim(action) else np.asarray(i % 4, action.dtype)


class TestLake(_Held, absltest.TestCase):
    options = {"name": "FrozenLake-v1", "max_steps_in_episode": 5}


class TestMask(_Held, absltest.TestCase):
    options = {"name": "Sokoban-v1", "max_steps_in_episode": 5, "mask": True}


class TestPendulum(_Held, absltest.TestCase):
    options = {"name": "Pendulum-v1", "max_steps_in_episode": 5}


def test_the_discount_tells_a_limit_from_an_end():
    """And rewards and observations are ours, with the same keys."""
    env = bridge.single("FrozenLake-v1", seed=3, size=4, max_steps_in_episode=6)
    ours, params = envs.make("FrozenLake-v1", size=4, max_steps_in_episode=6)
    step, key = jax.jit(ours.step_env), jax.random.key(3)
    rng, lasts = np.random.default_rng(0), []
    for _ in range(20):
        key, chance = jax.random.split(key)
        seen, state = ours.reset(chance, params)
        now = env.reset()
        assert now.first() and now.reward is None and now.discount is None
        while not now.last():
            np.testing.assert_array_equal(now.observation, seen)
            action = rng.integers(4)
            key, chance = jax.random.split(key)
            seen, state, reward, terminated, _ = step(chance, state, np.int32(action), params)
            now = env.step(action)
            assert now.reward == float(reward)
        assert now.discount == 1.0 - float(terminated)
        lasts.append(now.discount)
    assert set(lasts) == {0.0, 1.0}
    assert env.step(0).first()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bridge.single("KuhnPoker-v1"), "has 2 agents"),
        (lambda: bridge.single("Pendulum-v1", mask=True), "actions are continuous"),
        (lambda: bridge.single("Coin-v1", hops=9), "has no option 'hops'"),
    ],
)
def test_bad_environments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
