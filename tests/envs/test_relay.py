"""Relay-v1: rounds by hand, what each agent knows, words."""

import jax
import jax.numpy as jnp
import numpy as np

import envs
from envs.text import join


def test_rounds_end_with_a_right_answer_of_the_last_agent():
    env, params = envs.make("Relay-v1", agents=3)
    _, state = env.reset(jax.random.key(0), params)
    state = state.replace(terms=jnp.array([3, 4, 1, 2]))
    told = []
    # 3 + 4 + 1 + 2 is 0 modulo 5: the first round ends with 4, the second with 0.
    for action in (2, 3, 4, 2, 3, 0):
        told.append(int(env.mover(state, params)))
        heard = [join(env.view.lexicon, env.view.describe(state, params, a)) for a in range(3)]
        assert int(env.expert(state, params)) == (2, 3, 0)[told[-1]]
        joint = jnp.full(3, action)
        _, state, reward, over, _ = env.step_env(jax.random.key(1), state, joint, params)
        assert np.asarray(reward).tolist() == [float(over)] * 3
    assert told == [0, 1, 2, 0, 1, 2] and bool(over)
    assert heard == [
        "first has 3 4 failed 4",
        "second has 1 heard 2 failed 4",
        "third has 2 heard 2 3 failed 4",
    ]


def test_nobody_sees_what_the_others_have():
    env, params = envs.make("Relay-v1")
    _, state = env.reset(jax.random.key(0), params)
    other = state.replace(terms=jnp.where(np.arange(3) < 2, state.terms, (state.terms + 1) % 5))
    seen = [np.asarray(env.observe_as(s, 0, params)) for s in (state, other)]
    np.testing.assert_array_equal(*seen)
    assert (np.asarray(env.observe_as(state, 1, params)) != env.observe_as(other, 1, params)).any()
