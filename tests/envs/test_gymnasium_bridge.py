"""Ours as Gymnasium's: its own checks and wrappers, single and vector alike, words, errors."""

import functools

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

import envs
from envs import gymnasium_bridge as bridge

LAKE = {"name": "FrozenLake-v1", "size": 4, "max_steps_in_episode": 6}
EPISODES, STEPS = 4, 30


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("FrozenLake-v1", {"render_mode": "ansi"}),
        ("FrozenLake-v1", {"words": True}),
        ("CartPole-v1", {}),
        ("Pendulum-v1", {}),
    ],
)
def test_passes_the_check_of_gymnasium(name, options):
    check_env(bridge.single(name, **options))


@functools.cache
def alone(seed):
    """What a single environment gives for the actions below, reset at each end, and its returns."""
    env = bridge.single(**LAKE)
    told, ends, returned = [env.reset(seed=seed)], [], 0.0
    for action in actions()[:, seed - 7]:
        seen, reward, terminated, truncated, info = env.step(action)
        told.append((seen, info))
        returned += reward
        ends.append((reward, terminated, truncated, returned))
        if terminated or truncated:
            told.append(env.reset())
            returned = 0.0
    return told, ends


@functools.cache
def actions():
    return np.random.default_rng(0).integers(4, size=(STEPS, EPISODES))


def test_an_episode_is_ours_and_a_limit_truncates():
    """The same keys step by step: observations, masks, rewards and ends of `step_env`."""
    env, params = envs.make(**LAKE)
    step = jax.jit(env.step_env)
    key, start = jax.random.split(jax.random.key(7))
    seen, state = env.reset(start, params)
    told, ends = alone(7)
    np.testing.assert_array_equal(told[0][0], seen)
    kinds = set()
    for (observation, info), action, given in zip(told[1:], actions()[:, 0], ends, strict=False):
        key, chance = jax.random.split(key)
        seen, state, reward, terminated, about = step(chance, state, np.int32(action), params)
        truncated = bool(env.is_truncated(state, params)) and not bool(terminated)
        np.testing.assert_array_equal(observation, seen)
        assert given[:3] == (float(reward), bool(terminated), truncated)
        assert info["valid"] == bool(about["valid"]) and info["success"] == bool(about["success"])
        if terminated or truncated:
            break
        np.testing.assert_array_equal(info["action_mask"], env.legal_actions(state, params)[0])
    every = [end for seed in range(7, 7 + EPISODES) for end in alone(seed)[1]]
    kinds = {(terminated, truncated) for _, terminated, truncated, _ in every}
    assert kinds == {(False, False), (True, False), (False, True)}


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_vector_environment_is_single_ones_in_gymnasiums_own(mode):
    """Against `SyncVectorEnv` of them: every array and every info, through several resets."""
    ours = wrappers.RecordEpisodeStatistics(
        bridge.vector(num_envs=EPISODES, autoreset=mode, **LAKE)
    )
    theirs = wrappers.RecordEpisodeStatistics(
        SyncVectorEnv(
            [lambda: bridge.single(**LAKE)] * EPISODES, autoreset_mode=AutoresetMode[mode.upper()]
        )
    )
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    compare(ours.reset(seed=7), theirs.reset(seed=7))
    for action in actions():
        compare(ours.step(action), theirs.step(action))
    assert ours.episode_count == theirs.episode_count > 2 * EPISODES
    assert list(ours.return_queue) == list(theirs.return_queue)
    assert list(ours.length_queue) == list(theirs.length_queue)


def compare(ours, theirs):
    """Equal results; of infos what holds, and for which episodes."""
    for one, other in zip(ours[:-1], theirs[:-1], strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.asarray(one).dtype == np.asarray(other).dtype
    infos(ours[-1], theirs[-1])


def infos(ours, theirs):
    assert ours.keys() >= theirs.keys()
    for name in theirs:
        if name.startswith("_"):
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
        elif isinstance(theirs[name], dict):
            infos(ours[name], theirs[name])
        elif name not in ("t", "time"):
            holds = theirs.get(f"_{name}", np.ones(EPISODES, bool))
            for i in np.flatnonzero(holds):
                np.testing.assert_array_equal(ours[name][i], theirs[name][i], err_msg=name)


def test_returns_are_those_of_the_same_episodes_alone():
    env = wrappers.RecordEpisodeStatistics(bridge.vector(num_envs=EPISODES, **LAKE))
    env.reset(seed=7)
    ended = np.zeros(EPISODES, bool)
    for action in actions():
        *_, info = env.step(action)
        for i in np.flatnonzero(info.get("_episode", ended) & ~ended):
            lasts = (end[3] for end in alone(7 + int(i))[1] if end[1] or end[2])
            assert info["episode"]["r"][i] == next(lasts)
        ended |= info.get("_episode", False)
    assert ended.all()


def test_without_autoreset_the_mask_says_which_start_anew():
    env = bridge.vector("CartPole-v1", 2, autoreset="disabled", max_steps_in_episode=2)
    first, _ = env.reset(seed=[1, 2])
    env.step([0, 1])
    before, _, terminated, truncated, _ = env.step([0, 1])
    assert truncated.all() and not terminated.any()
    with pytest.raises(ValueError, match="reset_mask"):
        env.step([0, 0])
    which = np.array([True, False])
    after, _ = env.reset(seed=1, options={"reset_mask": which})
    np.testing.assert_array_equal(after[0], first[0])
    np.testing.assert_array_equal(after[1], before[1])


def test_gymnasium_makes_them_by_name():
    env = gymnasium.make("envs.gymnasium_bridge:agentrl/FrozenLake-v1", size=5)
    assert env.reset(seed=0)[0].shape == env.unwrapped.observation_space.shape
    many = gymnasium.make_vec("agentrl/FrozenLake-v1", num_envs=3, size=5)
    assert many.reset(seed=0)[0].shape == (3, *env.observation_space.shape)
    assert many.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_words_are_read_and_written():
    env = bridge.single("FrozenLake-v1", words=True, slippery=False)
    text, info = env.reset(seed=0)
    assert env.observation_space.contains(text) and info["commands"] == list(
        envs.make("FrozenLake-v1")[0].action_names
    )
    for reply, valid in (
        (" Right\n", True),
        ("right", True),
        ("sideways", False),
        ("x" * 99, False),
    ):
        text, _, _, _, info = env.step(reply)
        assert info["valid"] == valid and isinstance(text, str)


def test_physics_has_no_mask_and_is_in_its_bounds():
    env = bridge.vector("Pendulum-v1", 2)
    seen, info = env.reset(seed=0)
    assert info == {} and env.observation_space.contains(seen)
    assert env.single_action_space == gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    *_, info = env.step(env.action_space.sample())
    assert set(info) == {"valid", "_valid"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bridge.single("KuhnPoker-v1"), "has 2 agents: use pettingzoo_bridge"),
        (lambda: bridge.vector("KuhnPoker-v1", 2), "has 2 agents: use pettingzoo_bridge"),
        (lambda: bridge.vector("Coin-v1", 2, autoreset="never"), "expected one of next_step, same"),
        (lambda: bridge.single("CartPole-v1", words=True), "has no words"),
        (lambda: bridge.single("CartPole-v1", render_mode="ansi"), "expected None$"),
        (lambda: bridge.single("Coin-v1", hops=9), "has no option 'hops'"),
        (lambda: bridge.vector("Coin-v1", 2).reset(seed=[1]), "expected one number, or 2"),
    ],
)
def test_bad_environments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
