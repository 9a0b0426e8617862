"""Twenty questions: scripted games, the posterior by hand, the expert, and its words."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

from envs.twenty_questions import rules

functions = functools.partial(playing.functions, "TwentyQuestions-v1")
teller = functools.partial(playing.teller, "TwentyQuestions-v1")


def thinking_of(word, **options):
    """First state in which this thing is thought of, and the actions by their words."""
    env, _, reset, step = functions(**options)
    actions = {name: action for action, name in enumerate(env.action_names)}
    target = jnp.uint8(actions[word] - env.attributes)
    act = lambda state, name: step(state, actions[name])  # noqa: E731
    return reset(jax.random.key(0)).replace(target=target), act


def test_things_differ():
    table = rules.truths(len(rules.THINGS), len(rules.ATTRIBUTES))
    assert len(set(table.tolist())) == len(rules.THINGS)
    words = {word for word, _ in rules.ATTRIBUTES}
    assert all(set(true.split()) <= words for _, true in rules.THINGS)
    assert not words & {name.split()[-1] for name, _ in rules.THINGS}
    np.testing.assert_array_equal(rules.bits(table[:1], 4), [[True, True, False, False]])


def test_scripted_game():
    state, act = thinking_of("whale")
    assert teller()(state) == ">"
    for question in ("alive", "food", "cat", "alive"):
        observation, state, reward, done, _ = act(state, question)
        assert (float(reward), bool(done)) == (-1.0, False)
    np.testing.assert_array_equal(observation[:4], [2, 0, 0, -1])
    assert float(observation[12:].sum()) == 1.0
    assert teller()(state) == "alive?y2 food?n cat?n >"
    _, state, reward, done, info = act(state, "whale")
    assert (float(reward), bool(done), bool(info["success"])) == (0.0, True, True)
    assert teller(wording="faithful")(state) == (
        "Questions:\nIs it alive? Yes, 2 times more.\nDo people eat it? No.\n"
        "Is it a cat? No.\nIs it a whale? Yes.\n"
    )
    env, params, *_ = functions()
    assert env.render(state, params) == "alive+2 food-1 | not: cat | (found whale)"


def test_the_last_turn_ends_the_game():
    state, act = thinking_of("oak", turns=3)
    for turn in range(3):
        _, state, _, done, info = act(state, "alive")
        assert bool(done) == (turn == 2) and not bool(info["success"])


def test_noise_is_as_frequent_as_stated():
    env, params, reset, _ = functions(noise=0.2)
    state = reset(jax.random.key(0))
    answer = jax.jit(jax.vmap(lambda key: env.step_env(key, state, 0, params)[1].balance[0]))
    true = int(rules.truths(32, 12)[int(state.target)]) & 1
    wrong = np.asarray(answer(jax.random.split(jax.random.key(1), 20000))) != 2 * true - 1
    # Deviation of the mean: sqrt(0.2 * 0.8 / 20000) = 0.003.
    assert abs(wrong.mean() - 0.2) < 0.012


def test_posterior_and_worth_by_hand():
    true = jnp.array([[True, False], [True, True], [False, True]])
    guessed = jnp.zeros(3, bool)
    # Yes to the first question, wrong with chance 1/4: 3/4, 3/4, 1/4, that is 3/7, 3/7, 1/7.
    chance = rules.posterior(true, jnp.array([1, 0]), guessed, 0.25)
    np.testing.assert_allclose(chance, [3 / 7, 3 / 7, 1 / 7], rtol=1e-5)
    chance = rules.posterior(true, jnp.array([1, 0]), guessed.at[0].set(True), 0.25)
    np.testing.assert_allclose(chance, [0, 3 / 4, 1 / 4], rtol=1e-5)
    bits, guesses = rules.worth(true, jnp.array([0.5, 0.25, 0.25]), 0.0)
    quarter = 0.25 * 2 + 0.75 * np.log2(4 / 3)
    np.testing.assert_allclose(bits, [quarter, 1.0], rtol=1e-5)
    np.testing.assert_allclose(guesses, [1.5, quarter + 0.25, quarter + 0.25], rtol=1e-5)
    # Coins for answers tell nothing.
    np.testing.assert_allclose(rules.worth(true, chance, 0.5)[0], 0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "success", "turns"),
    [
        ({}, 1.0, 6.5),
        ({"redraw": True}, 1.0, 6.5),
        ({"noise": 0.1}, 0.95, 12.0),
        ({"entities": 44}, 1.0, 7.0),
    ],
    ids=str,
)
def test_expert(options, success, turns):
    env, params, *_ = functions(**options)
    history = playing.episodes(env, params, 512, env.turns)
    assert float(history.info["success"][:, -1].mean()) >= success
    assert float(history.last.time.mean()) <= turns


@pytest.mark.parametrize("wording", ["compact", "faithful"])
@pytest.mark.parametrize("redraw", [False, True])
def test_commands_are_understood(wording, redraw):
    playing.assert_commands_are_understood("TwentyQuestions-v1", wording=wording, redraw=redraw)


def test_drawn_truths_are_told():
    options = {"redraw": True, "entities": 3, "attributes": 5}
    env, params, reset, _ = functions(**options)
    state = reset(jax.random.key(0)).replace(
        table=jnp.array([0b00001, 0b10010, 0b11000], np.uint16)
    )
    assert teller(**options)(state) == "cat:10\noak:21\ncar:81\n>"
    assert teller(wording="faithful", **options)(state) == (
        "cat: alive.\noak: animal flies.\ncar: food flies.\nQuestions:\n"
    )
    np.testing.assert_array_equal(
        env.observe(state, params)[8:], [1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 1]
    )


@pytest.mark.parametrize("wording", ["compact", "faithful"])
@pytest.mark.parametrize("redraw", [False, True])
def test_bounds_of_the_text_under_random_play(wording, redraw):
    options = {"wording": wording, "redraw": redraw}
    env, _, reset, step = functions(**options)
    tell, rng = teller(**options), np.random.default_rng(0)
    # Nobody says more than who asks the longest questions, each once.
    longest = np.argsort([-len(name) for name in env.action_names])[: env.turns]
    for plan in (longest, rng.integers(env.num_actions, size=20), [0] * 20):
        state = reset(jax.random.key(3))
        for turn, action in enumerate(plan):
            _, state, *_ = step(state, action, jax.random.key(turn))
            tell(state)
