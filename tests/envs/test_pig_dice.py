"""PigDice: TextArena's recorded games with their dice, its limits, the expert, the words."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded

import envs
from envs.rules import pig_dice as rules
from envs.text import join

ENV, PARAMS = envs.make("PigDice-v1", target=50, turn_limit=25)
STEP = jax.jit(ENV.step_env)
GAMES = recorded.games("textarena", "PigDice-v0-short")
KEYS = jax.random.split(jax.random.key(0), 100)
THROWN = np.asarray(jax.vmap(rules.throw)(KEYS))
# A key with which a step throws each face.
KEY_OF = {face: KEYS[int(np.argmax(THROWN == face))] for face in range(1, 7)}


def action_of(reply):
    """TextArena's rule: the first command in brackets; -1 where there is none."""
    found = re.search(r"\[(roll|hold)\]", recorded.wrapped(reply), re.IGNORECASE)
    return ENV.action_names.index(found[1].lower()) if found else -1


def replay(game):
    """(recorded step, state before, state after, reward, terminated) with its dice."""
    _, state = ENV.reset(KEYS[0], PARAMS)
    for step in game["steps"]:
        action = action_of(step["action"])
        rolls = step["state"]["turn_rolls"]
        # A 1 is not listed: the turn passes, or ends the game with the turn's total as it was.
        added = step["state"]["turn_total"] > int(state.position.total)
        die = int(rolls[-1].strip("'")) if added else 1
        before = state
        _, state, reward, terminated, _ = STEP(KEY_OF[die], state, jnp.int32(action), PARAMS)
        yield step, before, state, reward, terminated


@pytest.mark.parametrize("number", range(len(GAMES)))
def test_recorded_games(number):
    game = GAMES[number]
    total = np.zeros(2)
    for step, before, after, reward, terminated in replay(game):
        assert int(ENV.mover(before, PARAMS)) == step["player"]
        total += reward
        assert after.position.scores.tolist() == step["state"]["scores"]
        assert int(after.position.total) == step["state"]["turn_total"]
        assert bool(terminated) == step["done"]
        if not step["done"]:
            assert int(after.position.actions) == step["turn"]
            assert int(after.errors) == step["error_count"]
            assert int(ENV.mover(after, PARAMS)) == step["next_player"]
    assert total.tolist() == game["rewards"]
    lost_by_error = any(told["invalid_move"] for told in game["game_info"].values())
    assert (int(after.offender) >= 0) == lost_by_error


def test_the_faithful_wording_is_textarenas_without_the_list_of_rolls():
    env = dataclasses.replace(ENV, wording="faithful")
    describe = jax.jit(env.view.describe)
    for game in GAMES[::4]:
        for step, before, *_ in replay(game):
            shown = [text for _, kind, text in step["new_messages"] if kind == "GAME_BOARD"]
            if shown:
                said = join(env.view.lexicon, describe(before, PARAMS, step["player"]))
                assert said == re.sub(r"\nYour roll history.*", "", shown[-1])


def at(scores, total=0, actions=0, seat=0):
    return rules.start()._replace(
        scores=jnp.array(scores, jnp.int32),
        total=jnp.int32(total),
        actions=jnp.int32(actions),
        seat=jnp.int32(seat),
    )


@pytest.mark.parametrize(
    ("position", "action", "die", "over", "won"),
    [
        (at((40, 0), 20), rules.ROLL, 6, False, None),  # the target has to be held
        (at((40, 0), 20), rules.ROLL, 1, False, None),
        (at((40, 0), 20), rules.HOLD, 1, True, 0),
        (at((0, 40), 10, seat=1), rules.HOLD, 1, True, 1),
        (at((10, 20), 5, actions=24), rules.HOLD, 1, False, None),  # the 25th action
        (at((10, 20), 5, actions=25), rules.ROLL, 6, False, None),  # the limit is past
        (at((10, 20), 5, actions=25), rules.HOLD, 1, True, 1),
        (at((10, 20), 15, actions=40), rules.HOLD, 1, True, 0),
        (at((10, 20), 15, actions=25), rules.ROLL, 1, True, 1),
        (at((10, 20), 10, actions=25), rules.HOLD, 1, True, None),  # a draw
    ],
)
def test_ends(position, action, die, over, won):
    after = rules.play(position, jnp.int32(action), jnp.int32(die), 50, 25)
    assert bool(after.over) == over
    assert (rules.ahead(after) & after.over).tolist() == [won == 0, won == 1]


def test_dice_are_fair():
    thrown = np.asarray(jax.vmap(rules.throw)(jax.random.split(jax.random.key(1), 60_000)))
    assert np.all(np.abs(np.bincount(thrown, minlength=7)[1:] / 10_000 - 1) < 0.05)
    assert thrown.min() == 1 and thrown.max() == 6


def test_observations_are_ones_own():
    _, state = ENV.reset(KEYS[0], PARAMS)
    state = state.replace(position=at((10, 25), 5, actions=10, seat=1))
    np.testing.assert_allclose(
        ENV.observe(state, PARAMS), [[0.2, 0.5, 0.1, 0, 0.6], [0.5, 0.2, 0.1, 1, 0.6]], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("position", "action"),
    [
        (at((0, 0), 19), rules.ROLL),
        (at((0, 0), 20), rules.HOLD),
        (at((45, 0), 5), rules.HOLD),
        (at((10, 40), 30, actions=25), rules.ROLL),
        (at((10, 40), 31, actions=25), rules.HOLD),
        (at((10, 0), 0, actions=25), rules.HOLD),
    ],
)
def test_the_expert_holds_at_20_and_races_at_the_limit(position, action):
    _, state = ENV.reset(KEYS[0], PARAMS)
    assert int(ENV.expert(state.replace(position=position), PARAMS)) == action
