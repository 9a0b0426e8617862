"""Our games as PettingZoo's: its own checks, whole matches against ours, words, errors."""

import jax
import numpy as np
import pytest

import envs

pettingzoo = pytest.importorskip("pettingzoo")

from envs import pettingzoo_bridge as bridge  # noqa: E402


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["KuhnPoker-v1", "ConnectFour-v1"])
def test_games_in_turns_pass_the_check_of_pettingzoo(name):
    from pettingzoo.test import api_test

    api_test(bridge.aec(name), num_cycles=60)


@pytest.mark.filterwarnings("ignore")
def test_games_at_once_pass_the_check_of_pettingzoo():
    from pettingzoo.test import parallel_api_test

    parallel_api_test(bridge.parallel("Foraging-v1", players=3), num_cycles=60)


@pytest.mark.parametrize("name", ["KuhnPoker-v1", "PigDice-v1"])
def test_matches_are_ours(name):
    """Random legal play: the same observations, masks, rewards and ends step by step."""
    game, rng = bridge.aec(name), np.random.default_rng(0)
    env, params = envs.make(name)
    step = jax.jit(env.step_env)
    for seed in range(3):
        game.reset(seed=seed)
        key, start = jax.random.split(jax.random.key(seed))
        _, state = env.reset_env(start, params)
        total = np.zeros(2)
        for agent in game.agent_iter():
            observation, reward, terminated, truncated, _ = game.last()
            seat = game.possible_agents.index(agent)
            if terminated or truncated:
                # All rewards of these games come with the end.
                assert reward == total[seat]
                game.step(None)
                continue
            assert seat == int(env.mover(state, params))
            seen = env.observe(state, params)[seat]
            np.testing.assert_allclose(observation["observation"], seen, atol=1e-6)
            legal = np.asarray(env.legal(state, params))
            np.testing.assert_array_equal(observation["action_mask"], legal)
            action = int(rng.choice(np.flatnonzero(legal)))
            key, chance = jax.random.split(key)
            _, state, gained, ended, _ = step(chance, state, np.int32(action), params)
            total += np.asarray(gained)
            game.step(action)
            assert set(game.terminations.values()) == {bool(ended)}
        assert not game.agents and bool(env.is_terminated(state, params))


def test_words():
    game = bridge.aec("KuhnPoker-v1", words=True)
    game.reset(seed=3)
    told = game.infos[game.agent_selection]
    assert told["text"][0] in "JQK" and told["commands"][:2] == ["check", "bet"]
    game.reset(seed=3)
    assert game.infos[game.agent_selection] == told


def test_a_limit_of_steps_truncates():
    game = bridge.parallel("Foraging-v1", max_steps_in_episode=2)
    observations, _ = game.reset(seed=0)
    for last in (False, True):
        actions = {agent: 0 for agent in game.agents}
        observations, _, terminated, truncated, _ = game.step(actions)
        assert set(truncated.values()) == {last} and not any(terminated.values())
    assert not game.agents and set(observations) == {"agent_0", "agent_1"}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: bridge.aec("Foraging-v1"), "use pettingzoo_bridge.parallel"),
        (lambda: bridge.parallel("KuhnPoker-v1"), "use pettingzoo_bridge.aec"),
        (lambda: bridge.aec("Coin-v1"), "expected a game of several agents"),
        (lambda: bridge.parallel("Volleyball-v1", actions="rates"), "with discrete actions"),
        (lambda: bridge.aec("KuhnPoker-v1", cards=9), "has no option 'cards'"),
    ],
)
def test_bad_games(make, message):
    with pytest.raises(ValueError, match=message):
        make()
