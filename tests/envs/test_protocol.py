"""Fingerprints, the registry, batches, and gymnax in both directions."""

import subprocess
import sys

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
from gymnax.wrappers.purerl import FlattenObservationWrapper, LogWrapper
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
import envs.vector
from envs.frozen_lake.env import FrozenLake

# Fingerprints


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_equal_contents_equal_fingerprints(seed):
    rng = np.random.default_rng(seed)
    tree = {
        "codes": rng.integers(0, 9, 21).astype(np.uint8),
        "bits": rng.random(45) < 0.5,
        "number": rng.normal(size=3).astype(np.float32),
        "word": rng.integers(-5, 5, 4).astype(np.int32),
    }
    mark = np.asarray(envs.fingerprint(tree))
    np.testing.assert_array_equal(envs.fingerprint(jax.tree.map(np.copy, tree)), mark)
    for name, leaf in tree.items():
        changed = dict(tree)
        changed[name] = leaf.copy()
        i = rng.integers(leaf.size)
        changed[name][i] = ~leaf[i] if leaf.dtype == bool else leaf[i] + 1
        assert not np.array_equal(envs.fingerprint(changed), mark), name


def test_fingerprints_do_not_collide():
    """All sets of 16 bits, and 65,536 consecutive numbers: lanes repeat no more than by chance."""
    grids = (np.arange(65536)[:, None] >> np.arange(16)) & 1
    for values in (grids.astype(bool), np.arange(65536, dtype=np.int32)[:, None]):
        marks = np.asarray(jax.vmap(envs.fingerprint)(values))
        assert len(np.unique(marks, axis=0)) == 65536
        for lane in (0, 1):  # 65536^2 / 2^33 = 0.5 pairs expected
            assert len(np.unique(marks[:, lane])) >= 65536 - 6


def test_numbers_are_compared_by_value():
    def mark(x):
        return np.asarray(envs.fingerprint(np.float32(x))).tolist()

    assert mark(-0.0) == mark(0.0)
    assert mark(0.1 + 0.2) == mark(0.3)  # equal in float32
    assert mark(1.0) != mark(1.0000001)


# Registry


def test_wrong_names_and_options_say_what_is_near():
    with pytest.raises(ValueError, match=r"'FrozenLake-v2' does not exist \(did you mean"):
        envs.make("FrozenLake-v2")
    with pytest.raises(ValueError, match=r"no option 'slipery' \(did you mean 'slippery'\?\)"):
        envs.make("FrozenLake-v1", slipery=True)
    with pytest.raises(ValueError, match=r"no option 'max_steps' .*'max_steps_in_episode'"):
        envs.make("CartPole-v1", max_steps=3)


def test_options_reach_fields_and_params():
    env, params = envs.make("FrozenLake-v1", size=6, max_steps_in_episode=33)
    assert env.size == 6 and params.max_steps_in_episode == 33
    assert env == FrozenLake(size=6) and hash(env) == hash(FrozenLake(size=6))


def test_register():
    envs.register("Pond-v0", lambda **options: FrozenLake(size=3, **options))
    assert "Pond-v0" in envs.registered()
    env, _ = envs.make("Pond-v0", slippery=False)
    assert env.observation_shape == (3, 3)
    with pytest.raises(ValueError, match="registered already"):
        envs.register("Pond-v0", FrozenLake)
    envs.registry._REGISTERED.pop("Pond-v0")


# Shapes of observations


class Own(FrozenLake):
    """Rules that read the shape."""

    def observe(self, state, params):
        return jnp.zeros(self.observation_shape, jnp.uint8)


class Declared(Own):
    observation_shape = (2, 3)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [(FrozenLake, (5, 5)), (Declared, (2, 3))],
)
def test_shapes_are_derived_or_declared(kind, shape):
    env = kind(size=5)
    for _ in range(2):
        assert env.observation_shape == shape
    observation, _ = jax.eval_shape(env.reset, jax.random.key(0))
    assert observation.shape == shape


def test_a_shape_that_the_rules_read_has_to_be_declared():
    with pytest.raises(NotImplementedError, match="Own does not define 'observation_shape'"):
        Own().observation_shape  # noqa: B018


def test_deriving_shapes_touches_no_device():
    code = (
        "import envs\nfrom jax._src import xla_bridge\n"
        "for name in ('Household-v1', 'KuhnPoker-v1', 'PlannedVolleyball-v1'):\n"
        "    assert envs.make(name)[0].observation_shape\n"
        "assert not xla_bridge._backends"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Batches

draw = jax.jit(envs.vector.draw, static_argnums=0)


def test_batches_equal_single_episodes():
    env, params, reset, take = playing.functions("FrozenLake-v1", slippery=False)
    keys = jax.random.split(jax.random.key(0), 5)
    starts = draw(env, params, keys)
    step = jax.jit(envs.vector.step, static_argnums=0)
    observation, state, reward, terminated, truncated, _ = step(
        env, params, jax.random.key(1), starts.state, jnp.arange(5) % 4
    )
    for i in range(5):
        seen, _, r, t, _ = take(reset(keys[i]), i % 4, jax.random.key(9))
        np.testing.assert_array_equal(observation[i], seen)
        assert (float(reward[i]), bool(terminated[i])) == (float(r), bool(t))


@pytest.mark.parametrize("name", ["FrozenLake-v1", "KuhnPoker-v1", "Foraging-v1"])
def test_steps_of_agents_are_the_steps_with_an_axis_of_agents(name):
    """Of one agent, of agents in turns and at once, to the end of an episode and beyond it."""
    env, params = envs.make(name, max_steps_in_episode=6)
    one, several = jax.jit(env.step_env), jax.jit(env.step_agents)
    observation, state = env.reset_agents(jax.random.key(0), params)
    agents = env.num_agents
    assert observation.shape == (agents, *env.observation_shape)
    for t in range(9):
        key, action = jax.random.key(t), jnp.arange(agents) % env.num_actions
        plain = action[0] if agents == 1 else action
        seen, _, reward, terminated, info = one(key, state, plain, params)
        observation, state, outcome = several(key, state, action, params)
        for x, y in (
            (observation, seen),
            (outcome.reward, reward),
            (outcome.valid, info["valid"]),
            (outcome.success, info["success"]),
        ):
            assert x.shape[0] == agents
            np.testing.assert_array_equal(x.reshape(np.shape(y)), y)
        late = bool(env.is_truncated(state, params))
        assert bool(outcome.terminated) == bool(terminated)
        assert bool(outcome.truncated) == (late and not terminated)
        assert terminated or outcome.offender == -1
    assert outcome.terminated or outcome.truncated


def test_restart_replaces_finished_episodes_only():
    env, params = envs.make("FrozenLake-v1")
    old, new = (draw(env, params, jax.random.split(jax.random.key(i), 4)) for i in (0, 1))
    done = jnp.array([True, False, False, True])
    observation, state = envs.vector.restart(done, old.observation, old.state, new)
    for i in range(4):
        source = new if done[i] else old
        np.testing.assert_array_equal(observation[i], source.observation[i])
        np.testing.assert_array_equal(state.holes[0][i], source.state.holes[0][i])


@pytest.mark.parametrize("count", [1, 3, 8, 20])
def test_windows_run_round_the_pool(count):
    starts = envs.vector.Starts(jnp.arange(count)[:, None], jnp.arange(count))
    pooled = envs.vector.pool(starts, 8)
    for offset in range(count):
        window = envs.vector.window(pooled, jnp.int32(offset), 8)
        np.testing.assert_array_equal(window.state, (offset + np.arange(8)) % count)


# gymnax, both ways


def test_gymnax_environments_follow_our_protocol():
    env, params = envs.make("CartPole-v1")
    theirs, their_params = gymnax.make("CartPole-v1")
    assert env.observation_shape == (4,) and env.num_actions == 2
    key = jax.random.key(0)
    ours_obs, ours = env.reset_env(key, params)
    their_obs, their = theirs.reset_env(key, their_params)
    np.testing.assert_array_equal(ours_obs, their_obs)
    for i in range(200):
        key, action = jax.random.key(i), jnp.int32(i % 2)
        ended = bool(env.is_terminated(ours, params))
        ours_obs, ours, reward, terminated, _ = env.step_env(key, ours, action, params)
        if ended:  # absorbing
            assert float(reward) == 0 and bool(terminated)
            break
        their_obs, their, their_reward, *_ = theirs.step_env(key, their, action, their_params)
        np.testing.assert_array_equal(ours_obs, their_obs)
        assert float(reward) == float(their_reward)
    else:
        pytest.fail("the pole never fell")


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Coin-v1"])
def test_ours_run_under_code_written_for_gymnax(name):
    env, params = envs.make(name)
    wrapped = LogWrapper(FlattenObservationWrapper(env))
    observation, state = wrapped.reset(jax.random.key(0), params)
    assert observation.shape == (int(np.prod(env.observation_shape)),)
    assert wrapped.action_space(params).n == env.num_actions
    returned = 0
    for i in range(30):
        key = jax.random.key(i + 1)
        action = wrapped.action_space(params).sample(key)
        observation, state, reward, terminated, truncated, info = wrapped.step(
            key, state, action, params
        )
        returned += bool(terminated | truncated)
        assert info["final_observation"].shape == observation.shape
    assert returned > 0 and int(info["returned_episode_lengths"]) > 0
