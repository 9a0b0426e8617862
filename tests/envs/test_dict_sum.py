"""Running sums: a scripted episode, accuracies by hand, the closed form, injected errors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

from envs.dict_sum import rules

functions = functools.partial(playing.functions, "DictSum-v1")
teller = functools.partial(playing.teller, "DictSum-v1")
# apple 5, grape -3, stone 8, cloud -7.
VALUES = (5, -3, 8, -7)
KEYS = (0, 2, 1, 3, 0, 2)
SUMS = (5, 13, 10, 3, 8, 16)
ANSWERS = (5, 13, 11, 4, 9, 17)
RIGHT = {
    "index": (1, 1, 0, 0, 0, 0),
    "prefix": (1, 1, 0, 0, 0, 0),
    "step": (1, 1, 0, 1, 1, 1),
}


def scripted(**options):
    """(env, params, first state of the scripted task, step)."""
    options = {"pairs": 4, "turns": 6, **options}
    env, params, reset, step = functions(**options)
    state = reset(jax.random.key(0)).replace(
        values=jnp.array(VALUES, jnp.int8), keys=jnp.array(KEYS, jnp.int8)[:, None]
    )
    return env, params, state, lambda state, answer: step(state, answer + env.limit)


@pytest.mark.parametrize("reward", ["all", "index", "prefix", "step"])
def test_scripted_episode(reward):
    env, params, state, answer = scripted(reward=reward)
    rewards = []
    for turn, number in enumerate(ANSWERS):
        _, state, gained, done, info = answer(state, number)
        rewards.append(float(gained))
        assert bool(done) == (turn == 5) and not bool(info["success"])
    expected = np.array(RIGHT[reward]) / 6 if reward != "all" else np.zeros(6)
    np.testing.assert_allclose(rewards, expected, rtol=1e-6)
    np.testing.assert_array_equal(env.turn_values(state), [5, 8, -3, -7, 5, 8])
    np.testing.assert_array_equal(state.history, ANSWERS)


def test_all_right_is_worth_one():
    _, _, state, answer = scripted(reward="all")
    rewards = []
    for number in SUMS:
        _, state, gained, _, info = answer(state, number)
        rewards.append(float(gained))
    assert rewards == [0, 0, 0, 0, 0, 1] and bool(info["success"])


def test_accuracies_by_hand():
    values = np.array([VALUES[key] for key in KEYS])
    judged = rules.judge(values, jnp.array(ANSWERS))
    for name in rules.ACCURACIES:
        np.testing.assert_array_equal(getattr(judged, name), RIGHT[name])
    # After a history that was filled in, steps are judged by what it shows.
    judged = rules.judge(values, jnp.array(ANSWERS), jnp.array([5, 14, 11, 4, 9, 17]))
    np.testing.assert_array_equal(judged.step, [1, 1, 1, 1, 1, 1])


@pytest.mark.parametrize("p, turns", [(0.9, 6.6), (0.95, 13.5), (0.99, 69.0), (0.999, 692.8)])
def test_closed_form_of_the_horizon(p, turns):
    assert abs(rules.independent_horizon(p) - turns) < 0.05
    accuracy = p ** np.arange(1, 1000)
    assert rules.horizon(accuracy) == int(np.floor(rules.independent_horizon(p))) + 1


def test_horizon_that_is_not_reached():
    assert rules.horizon(np.array([1.0, 0.75, 0.5])) == 4
    assert rules.horizon(np.array([1.0, 0.75, 0.5]), share=0.8) == 2
    assert rules.independent_horizon(1.0) == np.inf and rules.independent_horizon(0.0) == 0


def test_independent_errors_follow_the_closed_form():
    # Answers that are right with probability p and never made good: prefix accuracy p^t.
    p, turns, episodes = 0.9, 8, 20000
    rng = np.random.default_rng(0)
    values = rng.integers(-9, 10, (episodes, turns))
    offset = np.cumsum(rng.random((episodes, turns)) > p, axis=1) * 1000
    judged = rules.judge(values, jnp.asarray(np.cumsum(values, axis=1) + offset))
    wanted = p ** np.arange(1, turns + 1)
    # Four deviations of a mean: 4 * sqrt(1 / 4 / 20000) = 0.014.
    np.testing.assert_allclose(judged.prefix.mean(axis=0), wanted, atol=0.015)
    np.testing.assert_allclose(judged.step.mean(axis=0), p, atol=0.015)


@pytest.mark.parametrize("options", [{}, {"keys": 3, "span": 3}, {"history": "filled"}], ids=str)
@pytest.mark.parametrize("reward", ["all", "step"])
def test_expert_is_always_right(options, reward):
    env, params, *_ = functions(reward=reward, **options)
    history = playing.episodes(env, params, 256, env.turns)
    assert history.info["success"][:, -1].all()
    np.testing.assert_allclose(history.reward.sum(axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_injected_errors_are_as_frequent_and_as_large_as_stated(rate):
    env, params, *_ = functions(history="filled", error_rate=rate, error_size=4)
    history = playing.episodes(env, params, 512, env.turns)
    last = jax.tree.map(jnp.asarray, history.last)
    sums = np.cumsum(np.asarray(jax.vmap(env.turn_values)(last)), axis=1)
    error = history.last.history - sums
    assert np.abs(error).max() <= 4
    # Four deviations of 4096 coins: 4 * sqrt(0.25 * 0.75 / 4096) = 0.027.
    assert abs((error != 0).mean() - rate) < 0.03
    # The expert answers by the truth, whatever it is shown.
    assert history.info["success"][:, -1].all()


def test_steps_are_judged_by_the_history_that_is_shown():
    _, _, state, answer = scripted(history="filled", reward="step")
    state = state.replace(errors=jnp.array([2, 0, 0, 0, 0, 0], jnp.int16))
    _, state, gained, *_ = answer(state, 5)
    assert float(gained) > 0 and int(state.history[0]) == 7
    assert float(answer(state, 13)[2]) == 0
    assert float(answer(state, 15)[2]) > 0


def test_a_missing_answer_is_the_previous_sum_and_wrong():
    env, params, state, answer = scripted(reward="step")
    _, state, *_ = answer(state, 5)
    _, state, gained, _, info = answer(state, 1000)
    assert not bool(info["valid"]) and float(gained) == 0
    np.testing.assert_array_equal(state.history[:2], [5, 5])
    assert int(state.turn) == 2 and not bool(state.flawless)
    # The next step adds to it.
    assert float(answer(state, 2)[2]) > 0


def test_observation_and_drawing():
    env, params, state, answer = scripted(recall=2)
    observation, state, *_ = answer(state, 6)
    np.testing.assert_allclose(observation[:4] * 9, VALUES, rtol=1e-6)
    np.testing.assert_array_equal(observation[4:8], [0, 0, 1, 0])
    np.testing.assert_array_equal(observation[8:14], np.zeros(6))
    np.testing.assert_allclose(observation[14:], [1, 0, 0, 0, 6 / 99, 1], rtol=1e-6)
    assert env.render(state, params) == "apple=5 grape=-3 stone=8 cloud=-7 | apple 6 | stone"
    # Hidden: the same turn without its answer.
    hidden, *_ = functions(pairs=4, turns=6, recall=2, history="hidden")
    np.testing.assert_array_equal(hidden.observe(state, params)[14:], [1, 0, 0, 0, 0, 1])


def test_words():
    _, _, state, answer = scripted(recall=2)
    options = {"pairs": 4, "turns": 6}
    dictionary = "ap=5 gr=-3 st=8 cl=-7"
    assert teller(recall=2, **options)(state) == f"{dictionary} +ap"
    for number in SUMS[:3]:
        _, state, *_ = answer(state, number)
    assert teller(recall=2, **options)(state) == f"{dictionary} +st =13 +gr =10 +cl"
    assert teller(recall=2, history="hidden", **options)(state) == f"{dictionary} +st +gr +cl"
    assert teller(recall=0, **options)(state) == " +cl"
    assert teller(wording="faithful", **options)(state) == (
        "Dictionary: {'apple': 5, 'grape': -3, 'stone': 8, 'cloud': -7}\n"
        "Keys: ['grape']\nSum: 10\nKeys: ['cloud']\n"
    )
    for number in SUMS[3:]:
        _, state, *_ = answer(state, number)
    assert teller(recall=0, **options)(state) == "."


def test_words_of_several_keys():
    options = {"pairs": 4, "keys": 2, "span": 3}
    env, params, reset, step = functions(**options)
    state = reset(jax.random.key(0)).replace(keys=jnp.array([[0, 2]] * 8, jnp.int8))
    assert teller(**options)(state).endswith(" +ap +st")
    assert teller(wording="faithful", **options)(state).endswith("Keys: ['apple', 'stone']\n")


@pytest.mark.parametrize("wording", ["compact", "faithful"])
@pytest.mark.parametrize("recall", [0, 8])
def test_commands_and_bounds(wording, recall):
    options = {"pairs": 3, "wording": wording, "recall": recall}
    texts = playing.assert_commands_are_understood("DictSum-v1", **options)
    assert texts[0] == "-99" and texts[-1] == "99"
    env, _, reset, step = functions(**options)
    tell, state = teller(**options), reset(jax.random.key(1))
    # The longest words and numbers everywhere.
    state = state.replace(values=jnp.full(3, -9, jnp.int8))
    for _ in range(9):
        tell(state)
        _, state, *_ = step(state, 0)


def test_one_dictionary_for_all_tasks():
    _, _, reset, _ = functions(dictionary_seed=0)
    first, second = (reset(jax.random.key(i)) for i in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    assert np.any(np.asarray(first.keys) != np.asarray(second.keys))
