"""One conformance test, run over every registered environment of one agent (games: test_games).

Of an environment of your own, which need not have a drawing or an expert:

    OWN_ENV=my_module.MyHouse python -m pytest tests/envs/test_conformance.py
"""

import dataclasses
import functools
import json
import os

import chex
import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

import envs

make = playing.make
OWN = os.environ.get("OWN_ENV")
OURS = (*envs.registered(), *playing.WRAPPED, *playing.OWN)
NAMES = tuple(n for n in ([OWN] if OWN else OURS) if make(n)[0].num_agents == 1)
STEPS = 64
EPISODES = 64


def defines(name, method):
    """Whether the environment has an optional method; ours have all."""
    env, _ = make(name)
    return name != OWN or getattr(type(env), method) is not getattr(envs.Environment, method)


def start(name):
    """A first state."""
    env, params = make(name)
    return env.reset(jax.random.key(0), params)[1]


def step_of(name):
    """The step of key, state, action and params."""
    return playing.programs(make(name)[0])[2]


def rounding(env):
    """Rules are exact; physics in another program rounds otherwise."""
    return {"rtol": 1e-5, "atol": 1e-5} if env.continuous else {}


@functools.cache
def player(name):
    """Episodes by the expert or at random, and anchors of their tasks; one program for all tests.

    Of the states: games that hide their target all look alike at the start.
    """
    env, _ = make(name)

    def play(first, keys, by_expert, params):
        at_random = functools.partial(playing.at_random, env, params)
        expert = at_random
        if defines(name, "expert"):
            expert = functools.partial(playing.expert, env, params)

        def policy(key, state):
            # Not batched, so that only one of the two is calculated.
            return jax.lax.cond(by_expert, expert, at_random, key, state)

        play = functools.partial(playing.episode, env, params, steps=STEPS, policy=policy)
        history = jax.vmap(play)(first, keys)
        anchor = jax.vmap(lambda state: env.fingerprint(state, params, of="state")[0])(first)
        frozen = jax.vmap(jax.vmap(lambda state: env.is_terminated(state, params)))(history.state)
        return history, frozen, anchor

    return jax.jit(play)


def played(name, seed, by_expert=False):
    """(episodes of legal play, whether terminated before each step, anchors of the tasks)."""
    env, params = make(name)
    resets, keys = jax.random.split(jax.random.key(seed), (2, EPISODES))
    first = jax.tree.map(lambda *x: np.stack(x), *(env.reset(key, params)[1] for key in resets))
    return jax.tree.map(np.asarray, player(name)(first, keys, by_expert, params))


@functools.cache
def looker(name):
    """What an environment says of a state, by name."""
    env, _ = make(name)

    def look(state, params):
        return {
            "observation": env.observe(state, params),
            "legal": env.legal_actions(state, params),
            "acting": env.acting(state, params),
            "rejected": env.rejected(state, params),
            "anchors": [env.fingerprint(state, params, of=of) for of in ("observation", "state")],
        }

    return jax.jit(look)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_dtypes_and_ranges(name):
    env, params = make(name)
    obs, state = env.reset(jax.random.key(0), params)
    chex.assert_shape(obs, env.observation_shape)
    assert obs.dtype == env.observation_dtype
    seen = looker(name)(state, params)
    chex.assert_shape(seen["legal"], (env.num_agents, env.num_actions))
    assert seen["legal"].dtype == bool and bool(seen["legal"].any())
    chex.assert_shape(seen["acting"], (env.num_agents,))
    for anchor in seen["anchors"]:
        chex.assert_shape(anchor, (env.num_agents, 2))
        assert anchor.dtype == jnp.uint32
    assert len(env.action_names) == env.num_actions
    if defines(name, "render"):
        assert isinstance(env.render(state, params), str)
    assert env.observation_space(params).contains(obs)
    history, *_ = played(name, 0)
    chex.assert_tree_all_finite((history.seen, history.reward))
    assert history.reward.dtype == jnp.float32 and history.terminated.dtype == bool
    if env.num_codes is not None:
        assert int(history.seen.max()) < env.num_codes
    assert set(history.info) >= {"valid", "success", "discount"}
    assert not np.any(history.info["success"] & ~history.terminated)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in playing.WRAPPED])
def test_options_read_back_from_json_make_the_same_environment(name):
    env, _ = make(name)
    options = {field.name: getattr(env, field.name) for field in dataclasses.fields(env)}
    again, _ = envs.make(name, **json.loads(json.dumps(options)))
    assert again == env and hash(again) == hash(env)


@pytest.mark.parametrize("name", NAMES)
def test_state_keeps_its_types(name):
    state = start(name)
    _, after, *_ = step_of(name)(
        jax.random.key(1), state, playing.some_action(make(name)[0], 0), make(name)[1]
    )
    chex.assert_trees_all_equal_shapes_and_dtypes(state, after)


@pytest.mark.parametrize("name", NAMES)
def test_terminal_states_absorb(name):
    env, params = make(name)
    params = playing.changed(params, max_steps_in_episode=7)
    _, state = env.reset(jax.random.key(3), params)
    step = step_of(name)
    for i in range(8):
        _, state, *_ = step(jax.random.key(i), state, playing.some_action(env, i), params)
    _, after, reward, _, _ = step(jax.random.key(9), state, playing.some_action(env, 0), params)
    assert float(reward) == 0.0
    chex.assert_trees_all_equal(after, state)
    history, frozen, _ = played(name, 1)
    assert np.all(history.reward[frozen] == 0)
    before, after = jax.tree.leaves(history.state), jax.tree.leaves(history.after)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old[frozen], new[frozen])


@pytest.mark.parametrize("name", NAMES)
def test_illegal_actions_change_only_the_time(name):
    env, params = make(name)
    params = playing.changed(params, illegal_reward=-0.25)
    state = start(name)
    rejected = looker(name)(state, params)["rejected"]
    for action in playing.illegal_actions(env):
        _, after, reward, _, info = step_of(name)(jax.random.key(1), state, action, params)
        assert float(reward) == -0.25 and not bool(info["valid"])
        assert int(after.time) == int(state.time) + 1
        # And what the agent is told of it, where the environment says something.
        chex.assert_trees_all_equal(playing.untimed(after), playing.untimed(rejected))


@pytest.mark.parametrize("name", NAMES)
def test_same_key_same_episode_and_keys_matter(name):
    first, second = played(name, 5), played(name, 5)
    chex.assert_trees_all_equal(first, second)
    *_, tasks = first
    assert len(np.unique(tasks, axis=0)) > 1


@pytest.mark.parametrize("name", NAMES)
def test_traced_once(name):
    env, params = make(name)
    step, state, known = step_of(name), start(name), []
    for i in range(3):
        _, state, *_ = step(jax.random.key(i), state, playing.some_action(env, i), params)
        known.append(step._cache_size())
    assert known[0] == known[-1]


@pytest.mark.parametrize("name", NAMES)
def test_vmap_equals_loop(name):
    env, params = make(name)
    keys = jax.random.split(jax.random.key(0), 4)
    states = [env.reset(key, params)[1] for key in keys]
    actions = np.stack([playing.some_action(env, i) for i in range(4)])
    stacked = jax.tree.map(lambda *x: np.stack(x), *states)
    step = jax.jit(jax.vmap(env.step_env, in_axes=(0, 0, 0, None)))
    batched = jax.tree.map(np.asarray, step(keys, stacked, actions, params))
    for i in range(4):
        single = step_of(name)(keys[i], states[i], actions[i], params)
        one = jax.tree.map(lambda x, i=i: x[i], batched)
        chex.assert_trees_all_close(one, single, **rounding(env))


@pytest.mark.parametrize("name", NAMES)
def test_step_resets_as_gymnax_does(name):
    env, params = make(name)
    params = playing.changed(params, max_steps_in_episode=2)
    _, state = env.reset(jax.random.key(0), params)
    action = playing.some_action(env, 0)
    _, state, _, _, truncated, _ = env.step(jax.random.key(1), state, action, params)
    for i in range(2, 6):
        first, state, _, terminated, truncated, info = env.step(
            jax.random.key(i), state, action, params
        )
        if bool(terminated | truncated):
            assert int(state.time) == 0
            again = looker(name)(state, params)["observation"]
            np.testing.assert_allclose(first, again, **{"rtol": 0, **rounding(env)})
            chex.assert_shape(info["final_observation"], env.observation_shape)
            return
    pytest.fail("no episode ended at its limit")


@pytest.mark.parametrize("name", NAMES)
def test_expert_beats_random_play(name):
    if not defines(name, "expert"):
        pytest.skip(f"{name} has no expert")
    returns = {}
    for by_expert in (False, True):
        history, *_ = played(name, 7, by_expert)
        assert history.info["valid"].all()
        returns[by_expert] = history.reward.sum(axis=1).mean()
    assert returns[True] > returns[False]
