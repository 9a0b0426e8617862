"""Nim: the expert, and piles."""

import functools

import jax
import numpy as np
import pytest

import envs
from envs.nim import rules

ENV, PARAMS = envs.make("Nim-v1")
STEP = jax.jit(ENV.step_env)
KEY = jax.random.key(0)


@pytest.mark.parametrize("piles", [(3, 4, 5), (4, 2, 3, 7)])
def test_the_expert_wins_every_position_that_can_be_won(piles):
    """By search of all positions."""
    env, params = envs.make("Nim-v1", piles=piles)

    @functools.cache
    def winning(left):
        return any(not winning(after) for after in following(left))

    def following(left):
        for pile, quantity in rules.pairs(piles):
            if left[pile] >= quantity:
                yield (*left[:pile], left[pile] - quantity, *left[pile + 1 :])

    every = np.indices([pile + 1 for pile in piles]).reshape(len(piles), -1).T
    every = every[every.any(1)].astype(np.uint8)
    start = env.initial(KEY, params)
    states = jax.vmap(lambda left: env.at(start.game.replace(piles=left)))(every)
    chosen = np.asarray(jax.jit(jax.vmap(env.expert, (0, None)))(states, params))
    for left, action in zip(every.tolist(), chosen, strict=True):
        pile, quantity = rules.pairs(piles)[action]
        assert left[pile] >= quantity
        after = list(left)
        after[pile] -= quantity
        assert not (winning(tuple(left)) and winning(tuple(after)))
