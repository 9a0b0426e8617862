"""PigDice: its limits, dice, the expert."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.pig_dice import rules

ENV, PARAMS = envs.make("PigDice-v1", target=50, turn_limit=25)
STEP = jax.jit(ENV.step_env)
KEY = jax.random.key(0)


def at(scores, total=0, actions=0, seat=0):
    return rules.initial()._replace(
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
    assert (rules.returns(after) > 0).tolist() == [won == 0, won == 1]


def test_dice_are_fair():
    thrown = np.asarray(jax.vmap(rules.throw)(jax.random.split(jax.random.key(1), 60_000)))
    assert np.all(np.abs(np.bincount(thrown, minlength=7)[1:] / 10_000 - 1) < 0.05)
    assert thrown.min() == 1 and thrown.max() == 6


def test_observations_are_ones_own():
    _, state = ENV.reset(KEY, PARAMS)
    state = state.replace(game=at((10, 25), 5, actions=10, seat=1))
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
    _, state = ENV.reset(KEY, PARAMS)
    assert int(ENV.expert(state.replace(game=position), PARAMS)) == action
