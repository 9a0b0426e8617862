"""Wordle against LMRL-Gym's recorded episodes, its colours by hand, and its words."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
import recorded

from envs.wordle import rules

EPISODES = recorded.episodes("wordle_lmrl")
VOCABULARY = tuple(recorded.load("wordle_lmrl")["vocab"])

functions = functools.partial(playing.functions, "Wordle-v1")
reader = functools.partial(playing.reader, "Wordle-v1")
teller = functools.partial(playing.teller, "Wordle-v1")


def start(env, word):
    """The first state with this target."""
    _, _, reset, _ = functions(letters=env.letters, vocabulary=env.vocabulary)
    return reset(jax.random.key(0)).replace(target=jnp.int16(env.words.index(word)))


def marks(guess, target):
    """Colours in plain Python: g, y, b."""
    return "".join(
        "g" if a == b else "y" if a in target else "b" for a, b in zip(guess, target, strict=True)
    )


def test_colours_are_simplified():
    # The l of "allot" is coloured twice though "light" has one; the newspaper's game would not.
    letters = rules.letters_of(("allot", "light", "robot", "floor"))
    shown = rules.colours(letters[[0, 1, 2]], letters[[1, 1, 3]])
    np.testing.assert_array_equal(shown, [[0, 1, 1, 0, 2], [2, 2, 2, 2, 2], [1, 1, 0, 2, 0]])


@pytest.mark.parametrize("episode", EPISODES, ids=lambda e: f"{e['seed']}-{e['policy']}")
def test_recorded_episode(episode):
    options = {"vocabulary": VOCABULARY, "wording": "faithful"}
    env, params, _, step = functions(**options)
    history = [(s["action"], s["obs"].strip("<>").split("><")) for s in episode["steps"]]
    # The recorded game draws its target again after each guess; any word that fits will do.
    fitting = [
        word
        for word in VOCABULARY
        if all(
            colours == [""] or marks(guess, word) == "".join(colours) for guess, colours in history
        )
    ]
    state = start(env, fitting[-1])
    left = jax.jit(env.consistent)
    for told in episode["steps"]:
        action = reader(**options)(told["action"] + "\n")
        assert (action >= 0) == (told["obs"] != "")
        _, state, reward, terminated, info = step(state, action)
        assert float(reward) == told["reward"]
        assert bool(terminated) == told["terminal"]
        assert int(left(state).sum()) == told["n_consistent"]
        assert bool(info["valid"]) == (told["obs"] != "")
        said = teller(**options)(state)
        assert said.startswith("Wordle:\n")
        assert said.split("\n")[-2] == told["obs"]
    assert bool(info["success"]) == (told["reward"] == 0)


def test_scripted_episode():
    env, params, _, step = functions()
    state = start(env, "crane")
    assert playing.method(env, "observe")(state, params).sum() == 0 and teller()(state) == ">"
    _, state, reward, done, _ = step(state, env.words.index("ocean"))
    assert (float(reward), bool(done)) == (-1.0, False)
    _, state, reward, done, info = step(state, reader()("hello!"))
    assert (float(reward), bool(done), bool(info["valid"])) == (-1.0, False, False)
    observation, state, reward, done, info = step(state, reader()(" CRANE "))
    assert (float(reward), bool(done), bool(info["success"])) == (0.0, True, True)
    # 1 + 3 letter + colour: o 1 + 42 + 0, c 1 + 6 + 1, e 1 + 12 + 1, a 1 + 0 + 1, n 1 + 39 + 1.
    np.testing.assert_array_equal(observation[0], [43, 8, 14, 2, 41])
    np.testing.assert_array_equal(observation[1], [79] * 5)
    assert teller()(state) == "o.c?e?a?n?\n-\nc!r!a!n!e!\n>"
    faithful = teller(wording="faithful")(state)
    assert faithful == "Wordle:\nocean\n<b><y><y><y><y>\n\n\ncrane\n<g><g><g><g><g>\n"
    assert env.render(state, params) == "ocean byyyy\n-\ncrane ggggg"


def test_the_last_try_ends_the_game():
    env, params, _, step = functions()
    state = start(env, "crane")
    for tried in range(6):
        _, state, reward, done, info = step(state, reader()("nonsense"))
        assert (float(reward), bool(done)) == (-1.0, tried == 5)
    assert not bool(info["success"])
    assert float(step(state, env.words.index("crane"))[2]) == 0.0


@pytest.mark.parametrize("letters", [4, 5])
@pytest.mark.parametrize("wording", ["compact", "faithful"])
def test_commands_are_understood(letters, wording):
    options = {"letters": letters, "wording": wording}
    env, params, reset, _ = functions(**options)
    commands = playing.commands(env, reset(jax.random.key(0)), params)
    assert len(commands) == env.num_actions == len(env.words)
    for action, command in enumerate(commands):
        assert len(command) <= env.view.max_command_bytes
        assert reader(**options)(command) == action


def test_the_rules_name_the_words_where_they_are_listed():
    words = {"vocabulary": ("crane", "ocean"), "wording": "faithful"}
    plain, listed = (functions(**words, listed=listed)[0].view for listed in (False, True))
    assert "must be a word of the game's list; another" in plain.rules
    assert listed.rules == plain.rules.replace("a word of the game's list", "one of crane, ocean")


@pytest.mark.parametrize("letters", [4, 5])
def test_table_and_information_against_plain_python(letters):
    words = rules.WORDS[letters]
    table = rules.patterns(words)
    rng = np.random.default_rng(0)
    for g, t in rng.integers(len(words), size=(50, 2)):
        digits = ["byg".index(mark) for mark in marks(words[g], words[t])]
        assert table[g, t] == sum(digit * 3**place for place, digit in enumerate(digits))
    possible = rng.random(len(words)) < 0.2
    bits = rules.information(table, jnp.asarray(possible))
    for g in rng.integers(len(words), size=10):
        _, counts = np.unique(table[g, possible], return_counts=True)
        share = counts / counts.sum()
        np.testing.assert_allclose(bits[g], -(share * np.log2(share)).sum(), atol=1e-5)


def play(env, params, policy, count):
    """Returns, successes and numbers of tries of whole episodes."""
    history = playing.episodes(env, params, count, env.tries, policy, seed=1)
    return history.reward.sum(axis=1), history.info["success"][:, -1], history.last.time


@pytest.mark.parametrize(("letters", "most"), [(4, 3.0), (5, 2.7)])
def test_expert_always_finds_the_word(letters, most):
    env, params, *_ = functions(letters=letters)
    total, success, tries = play(env, params, None, 128)
    assert bool(success.all())
    assert float(tries.mean()) < most
    np.testing.assert_array_equal(total, 1 - tries)


def test_any_consistent_guess_is_almost_as_good():
    env, params, *_ = functions(vocabulary=VOCABULARY)

    def policy(key, state):
        return jax.random.categorical(key, jnp.where(env.consistent(state), 0.0, -jnp.inf))

    _, success, tries = play(env, params, policy, 256)
    # LMRL-Gym's recorded games with this policy: all found, 3.55 guesses on average over 20.
    assert float(success.mean()) > 0.95
    assert 3.3 < float(tries.mean()) < 3.9


def test_anchors_of_the_state_forget_the_order():
    env, params, _, step = functions()
    first, second = env.words.index("ocean"), env.words.index("house")
    anchors = {"state": set(), "observation": set()}
    for order in ((first, second), (second, first)):
        state = start(env, "crane")
        for action in order:
            state = step(state, action)[1]
        for of in anchors:
            anchor = playing.method(env, "fingerprint", of=of)(state, params)
            anchors[of].add(bytes(np.asarray(anchor)))
    assert len(anchors["state"]) == 1 and len(anchors["observation"]) == 2
