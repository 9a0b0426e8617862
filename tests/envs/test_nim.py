"""Nim: TextArena's recorded games, the expert, the words."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded

import envs
from envs.text import join

ENV, PARAMS = envs.make("Nim-v1")
STEP = jax.jit(ENV.step_env)
KEY = jax.random.key(0)
GAMES = recorded.games("textarena", "Nim-v0")


def action_of(reply):
    """TextArena's rule: the first two numbers in brackets; -1 where there is no such move."""
    found = re.search(r"\[\s*(\d+)\s+(\d+)\s*\]", recorded.wrapped(reply))
    pair = (int(found[1]), int(found[2])) if found else None
    return ENV.pairs.index(pair) if pair in ENV.pairs else -1


@pytest.mark.parametrize("number", range(len(GAMES)))
def test_recorded_games(number):
    _, state = ENV.reset(KEY, PARAMS)
    assert state.piles.tolist() == GAMES[number]["initial_state"]["piles"]
    recorded.replay(
        ENV, PARAMS, STEP, GAMES[number], action_of, lambda s: {"piles": s.piles.tolist()}
    )


def test_the_faithful_wording_is_textarenas():
    env = dataclasses.replace(ENV, wording="faithful")
    describe = jax.jit(env.view.describe)
    for game in GAMES:
        _, state = ENV.reset(KEY, PARAMS)
        for step in game["steps"]:
            shown = [text for _, kind, text in step["new_messages"] if kind == "GAME_BOARD"]
            said = join(env.view.lexicon, np.asarray(describe(state, PARAMS, step["player"])))
            assert said == shown[-1]
            _, state, *_ = STEP(KEY, state, jnp.int32(action_of(step["action"])), PARAMS)


@pytest.mark.parametrize("piles", [(3, 4, 5), (4, 2, 3, 7)])
def test_the_expert_wins_every_position_that_can_be_won(piles):
    """By search of all positions."""
    env, params = envs.make("Nim-v1", piles=piles)

    @functools.cache
    def winning(left):
        return any(not winning(after) for after in following(left))

    def following(left):
        for pile, quantity in env.pairs:
            if left[pile] >= quantity:
                yield (*left[:pile], left[pile] - quantity, *left[pile + 1 :])

    every = np.indices([pile + 1 for pile in piles]).reshape(len(piles), -1).T
    every = every[every.any(1)].astype(np.uint8)
    start = env.initial(KEY, params)
    states = jax.vmap(lambda left: start.replace(piles=left))(every)
    chosen = np.asarray(jax.jit(jax.vmap(env.expert, (0, None)))(states, params))
    for left, action in zip(every.tolist(), chosen, strict=True):
        pile, quantity = env.pairs[action]
        assert left[pile] >= quantity
        after = list(left)
        after[pile] -= quantity
        assert not (winning(tuple(left)) and winning(tuple(after)))


def test_piles_that_cannot_be():
    for piles in ((), (3, 0), (256,)):
        with pytest.raises(ValueError, match="piles"):
            envs.make("Nim-v1", piles=piles)
