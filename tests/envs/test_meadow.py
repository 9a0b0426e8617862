"""Meadow-v1: manners by hand, the best walk, and what transfers."""

import jax
import jax.numpy as jnp
import numpy as np
from playing import functions

import envs
from envs.meadow import rules


def test_manners():
    before, ground = np.array([0, 1, 1, 2]), np.array([0, 0, 1, 2])
    action = np.array([3, 0, 1, 1])
    # No turn at first; straight on; a turn onto grass; straight into a wall.
    told = rules.manners(before, ground, action, 0.15, 0.05)
    np.testing.assert_allclose(told, [0, 0, -0.2, 0], atol=1e-6)


def test_the_reward_is_the_goals_and_as_much_of_manners_as_is_said():
    env, params, reset, step = functions("Meadow-v1", goals=1)
    state = reset(jax.random.key(0)).replace(place=np.array([6, 5], np.int32), before=np.int32(1))
    observation, after, reward, terminated, info = step(state, rules.UP)
    assert (reward, terminated, info["success"]) == (1, True, True)
    assert list(observation[:5]) == [6, 6, 6, 6, rules.UP + 1]
    polite = params.replace(manners=1.0)
    reward = env.step_env(jax.random.key(0), state, jnp.int32(rules.UP), polite)[2]
    np.testing.assert_allclose(reward, 0.95, rtol=1e-6)


def test_tasks_are_goals_and_nobody_starts_at_one():
    env, params = envs.make("Meadow-v1", goals=4)
    state = jax.vmap(env.initial, (0, None))(jax.random.split(jax.random.key(0), 2048), params)
    seen = jax.vmap(env.observe, (0, None))(state, params)
    assert set(state.goal.tolist()) == {0, 1, 2, 3}
    np.testing.assert_array_equal(env.task_of(seen), state.goal)
    assert not bool(jnp.all(seen[:, :2] == seen[:, 2:4], axis=1).any())
    assert len({tuple(x) for x in seen[state.goal == 0][:, :2].tolist()}) == 48


def test_true_manners_transfer():
    env, _ = envs.make("Meadow-v1")

    def common(seen):
        return env.common_reward(seen[:, None], jnp.arange(4))

    told = jax.jit(lambda: [env.transfer(f) for f in (common, lambda seen: 0.0 * common(seen))])()
    true, none = jax.device_get(told)
    assert true["success"] == none["success"] == 1
    assert true["common"] > 0.6 * none["common"]
    # What pays for every step is collected for ever.
    paid = jax.jit(lambda: env.transfer(lambda seen: jnp.full((len(seen), 4), 0.1)))()
    assert paid["success"] == 0
