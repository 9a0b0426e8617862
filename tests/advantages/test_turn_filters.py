"""Filters of turns: worked numbers, and that every turn is drawn equally often."""

import jax
import numpy as np
import pytest

from agentrl import advantages
from agentrl.learner.credit import Recipe, credit_of
from agentrl.learner.function import Function
from agentrl.streams import Rows, Streams

# Two games of two seats; the second game is a draw, and seat 1 of the first acted once.
MASK = np.array([[1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 1, 0]], bool)
ADVANTAGE = np.float32([[0.5, 0.5, 0.5], [9, -0.5, 9], [0, 9, 0], [9, 0, 9]])
EPISODE = np.array([0, 0, 1, 1])
LOTS = np.float32([[0.3, 0.1, 0.9], [0.0, 0.2, 0.0], [0.4, 0.0, 0.5], [0.0, 0.6, 0.0]])


def test_turns_of_a_draw_are_left_out():
    kept = jax.jit(advantages.nonzero_turns)(MASK, ADVANTAGE)
    np.testing.assert_array_equal(kept, [[1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Per game the smallest lots of both seats together: 0.1 and 0.2 of the first.
        ({"turns": 2}, [[0, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]),
        ({"turns": 2, "zeros": True}, [[0, 1, 0], [0, 1, 0], [1, 0, 1], [0, 0, 0]]),
        # Of both games: 0.1, 0.2, 0.3, 0.4.
        ({"turns": 4, "episodes": 2, "zeros": True}, [[1, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]]),
        ({"turns": 16}, [[1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0]]),
    ],
)
def test_turns_are_drawn_by_lot(options, expected):
    kept = advantages.sampled_turns(MASK, ADVANTAGE, EPISODE, LOTS, **options)
    np.testing.assert_array_equal(kept, np.array(expected, bool))


def test_all_turns_are_drawn_equally_often():
    lots = jax.random.uniform(jax.random.key(0), (4000, *MASK.shape))
    draw = jax.jit(
        jax.vmap(lambda x: advantages.sampled_turns(MASK, ADVANTAGE, EPISODE, x, turns=1))
    )
    share = np.asarray(draw(lots)).mean(axis=0)
    np.testing.assert_allclose(share[MASK & (ADVANTAGE != 0)], 0.25, atol=0.03)
    np.testing.assert_allclose(share.sum(axis=1), [0.75, 0.25, 0, 0], atol=0.03)


def test_a_batch_is_learnt_from_by_turns():
    """Two filters together; the baselines follow all games, whatever is drawn."""
    streams = Streams(
        reward=np.where(MASK, ADVANTAGE, 0), mask=MASK, role=EPISODE * 0, task=EPISODE * 0
    ).replace(episode=EPISODE)
    turn = np.broadcast_to(np.arange(3), MASK.shape)
    rows = Rows(turn, MASK, np.arange(4), np.where(MASK, turn, -1), np.zeros(MASK.shape))
    recipe = Recipe(
        Function(advantages.rae_by_turn, {}),
        carried="baseline",
        after={
            "nonzero": Function(advantages.nonzero_turns, {}),
            "sampled": Function(advantages.sampled_turns, {"turns": 3, "episodes": 2}),
        },
    )
    credit = credit_of(recipe, streams, rows, {"baseline": np.zeros((1, 1)), "lots": LOTS})
    expected = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]], bool)
    np.testing.assert_array_equal(credit.of_turns(MASK), expected)
    np.testing.assert_array_equal(credit.of_positions(rows), expected)
    np.testing.assert_allclose(credit.carried["baseline"], 0.05 * (1.5 - 0.5) / 4)


def test_turns_of_high_entropy_worked_example():
    """DART's: the 0.2-quantile of .1 .5 .3 .9 .2 is .18, below which the first one is."""
    mask = np.ones((1, 5), bool)
    entropy = np.array([[0.1, 0.5, 0.3, 0.9, 0.2]])
    kept = jax.jit(advantages.high_entropy_turns)(mask, np.zeros(1, int), entropy)
    np.testing.assert_array_equal(kept, [[False, True, True, True, True]])
    # Those are the ones that the reweighting leaves an advantage.
    reweighted = advantages.uncertain_turns(np.ones((1, 5)), mask, np.zeros(1, int), entropy)
    np.testing.assert_array_equal(kept, np.asarray(reweighted) > 0)
