"""One conformance test, run over every registered environment."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs

NAMES = envs.registered()
STEPS = 64


@functools.cache
def make(name):
    return envs.make(name)


@functools.cache
def player(name, steps):
    """Random legal play without reset, compiled once for all tests."""
    env, params = make(name)

    def play(key):
        key, reset_key = jax.random.split(key)
        _, first = env.reset_env(reset_key, params)

        def step(state, key):
            act_key, step_key = jax.random.split(key)
            legal = env.legal_actions(state, params)[0]
            action = jax.random.categorical(act_key, jnp.where(legal, 0.0, -jnp.inf))
            out = env.step_env(step_key, state, action, params)
            return out[1], (state, action, *out)

        return jax.lax.scan(step, first, jax.random.split(key, steps))[1]

    return jax.jit(jax.vmap(play))


def random_episode(name, seed, steps=STEPS):
    """States, actions and results of random legal play without reset, stacked over steps."""
    return player(name, steps)(jax.random.split(jax.random.key(seed), 16))


@pytest.mark.parametrize("name", NAMES)
def test_shapes_dtypes_and_ranges(name):
    env, params = make(name)
    obs, state = env.reset(jax.random.key(0), params)
    chex.assert_shape(obs, env.observation_shape)
    assert obs.dtype == env.observation_dtype
    legal = env.legal_actions(state, params)
    chex.assert_shape(legal, (env.num_agents, env.num_actions))
    assert legal.dtype == bool and bool(legal.any())
    chex.assert_shape(env.acting(state, params), (env.num_agents,))
    for of in ("observation", "state"):
        anchor = env.fingerprint(state, params, of=of)
        chex.assert_shape(anchor, (env.num_agents, 2))
        assert anchor.dtype == jnp.uint32
    assert len(env.action_names) == env.num_actions
    assert isinstance(env.render(state, params), str)
    assert env.observation_space(params).contains(obs)
    _, _, last, _, reward, terminated, info = random_episode(name, 0)
    chex.assert_tree_all_finite((last, reward))
    assert reward.dtype == jnp.float32 and terminated.dtype == bool
    if env.num_codes is not None:
        assert int(last.max()) < env.num_codes
    assert set(info) >= {"valid", "success", "discount"}
    assert not np.any(np.asarray(info["success"]) & ~np.asarray(terminated))


@pytest.mark.parametrize("name", NAMES)
def test_state_keeps_its_types(name):
    env, params = make(name)
    _, state = env.reset_env(jax.random.key(0), params)
    _, after, *_ = env.step_env(jax.random.key(1), state, jnp.int32(0), params)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, after)


@pytest.mark.parametrize("name", NAMES)
def test_terminal_states_absorb(name):
    env, params = make(name)
    params = params.replace(max_steps_in_episode=7)
    _, state = env.reset_env(jax.random.key(3), params)
    step = jax.jit(lambda key, state, action: env.step_env(key, state, action, params))
    for i in range(8):
        _, state, *_ = step(jax.random.key(i), state, jnp.int32(i % env.num_actions))
    _, after, reward, _, _ = step(jax.random.key(9), state, jnp.int32(0))
    assert float(reward) == 0.0
    chex.assert_trees_all_equal(after, state)
    before, _, _, after, reward, _, _ = random_episode(name, 1)
    frozen = np.asarray(jax.vmap(jax.vmap(lambda s: env.is_terminated(s, params)))(before))
    assert np.all(np.asarray(reward)[frozen] == 0)
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(np.asarray(old)[frozen], np.asarray(new)[frozen])


@pytest.mark.parametrize("name", NAMES)
def test_illegal_actions_change_only_the_time(name):
    env, params = make(name)
    params = params.replace(illegal_reward=-0.25)
    _, state = env.reset_env(jax.random.key(0), params)
    for action in (-1, env.num_actions, 1000):
        _, after, reward, _, info = env.step_env(
            jax.random.key(1), state, jnp.int32(action), params
        )
        assert float(reward) == -0.25 and not bool(info["valid"])
        assert int(after.time) == int(state.time) + 1
        # And what the agent is told of it, where the environment says something.
        expected = env.rejected(state, params).replace(time=state.time)
        chex.assert_trees_all_equal(after.replace(time=state.time), expected)


@pytest.mark.parametrize("name", NAMES)
def test_same_key_same_episode_and_keys_matter(name):
    env, params = make(name)
    chex.assert_trees_all_equal(random_episode(name, 5), random_episode(name, 5))
    # Of the states: games that hide their target all look alike at the start.
    tasks = jax.vmap(lambda key: env.fingerprint(env.initial(key, params), params, of="state")[0])(
        jax.random.split(jax.random.key(0), 64)
    )
    assert len(np.unique(np.asarray(tasks), axis=0)) > 1


@pytest.mark.parametrize("name", NAMES)
def test_traced_once(name):
    chex.clear_trace_counter()
    env, params = make(name)
    step = jax.jit(chex.assert_max_traces(env.step_env, n=1))
    _, state = env.reset_env(jax.random.key(0), params)
    for i in range(3):
        _, state, *_ = step(jax.random.key(i), state, jnp.int32(i % env.num_actions), params)


@pytest.mark.parametrize("name", NAMES)
def test_vmap_equals_loop(name):
    env, params = make(name)
    keys = jax.random.split(jax.random.key(0), 4)
    _, states = jax.vmap(lambda key: env.reset_env(key, params))(keys)
    actions = jnp.arange(4) % env.num_actions
    batched = jax.vmap(lambda k, s, a: env.step_env(k, s, a, params))(keys, states, actions)
    for i in range(4):
        single = env.step_env(
            keys[i], jax.tree.map(lambda x, i=i: x[i], states), actions[i], params
        )
        chex.assert_trees_all_close(jax.tree.map(lambda x, i=i: x[i], batched), single)


@pytest.mark.parametrize("name", NAMES)
def test_step_resets_as_gymnax_does(name):
    env, params = make(name)
    params = params.replace(max_steps_in_episode=2)
    _, state = env.reset(jax.random.key(0), params)
    _, state, _, _, truncated, _ = env.step(jax.random.key(1), state, jnp.int32(0), params)
    for i in range(2, 6):
        first, state, _, terminated, truncated, info = env.step(
            jax.random.key(i), state, jnp.int32(0), params
        )
        if bool(terminated | truncated):
            assert int(state.time) == 0
            chex.assert_trees_all_equal(first, env.observe(state, params))
            chex.assert_shape(info["final_observation"], env.observation_shape)
            return
    pytest.fail("no episode ended at its limit")


@pytest.mark.parametrize("name", NAMES)
def test_expert_beats_random_play(name):
    env, params = make(name)

    def episode(key, expert):
        reset_key, key = jax.random.split(key)
        _, state = env.reset_env(reset_key, params)

        def step(state, key):
            act_key, step_key = jax.random.split(key)
            legal = env.legal_actions(state, params)[0]
            random = jax.random.categorical(act_key, jnp.where(legal, 0.0, -jnp.inf))
            action = env.expert(state, params) if expert else random
            _, state, reward, _, info = env.step_env(step_key, state, action, params)
            return state, (reward, info["valid"])

        _, (reward, valid) = jax.lax.scan(step, state, jax.random.split(key, STEPS))
        return reward.sum(), valid.all()

    keys = jax.random.split(jax.random.key(7), 64)
    returns = {}
    for expert in (False, True):
        returns[expert], valid = jax.jit(jax.vmap(functools.partial(episode, expert=expert)))(keys)
        assert bool(valid.all())
    assert float(returns[True].mean()) > float(returns[False].mean())
