"""Filters of turns: worked numbers, and that every turn is drawn equally often."""

import functools

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


def test_turns_that_arrived_by_a_deadline():
    """Ends of streams: 1, 2, 6; 4 (a turn of 2.5 that is not the agent's lies between), 4.5."""
    mask = np.array([[1, 1, 1], [1, 0, 1]], bool)
    duration = np.float32([[1, 1, 4], [4, np.nan, 0.5]])
    for options, expected in (
        ({"deadline": 4.0}, [[1, 1, 0], [1, 0, 0]]),
        ({"deadline": 6.0}, [[1, 1, 1], [1, 0, 1]]),
        # Begun at 0, 1, 2; 0, 4.
        ({"deadline": 5.0, "longest": 4.0}, [[1, 1, 0], [1, 0, 0]]),
        ({"deadline": 4.0, "longest": 4.0}, [[1, 0, 0], [1, 0, 0]]),
    ):
        kept = jax.jit(functools.partial(advantages.arrived_turns, **options))(mask, duration)
        np.testing.assert_array_equal(kept, np.array(expected, bool))
        np.testing.assert_array_equal(kept, advantages.arrived_turns(mask, duration, **options))
    with pytest.raises(ValueError, match="longest=5.0: expected at least 0 and at most 4"):
        advantages.arrived_turns(mask, duration, deadline=4.0, longest=5.0)


def test_turns_that_a_filter_rejects_before_take_no_part_in_the_mean():
    """Of rewards 1, 0, 0 two arrived, with mean 1/2 and deviation 1/sqrt 2; weights 1/2 and 3/2."""
    mask = np.ones((1, 3), bool)
    duration = np.float32([[1, 3, 8]])
    streams = Streams(reward=np.float32([[1, 0, 0]]), mask=mask, duration=duration)
    turn = np.arange(3)[None]
    rows = Rows(turn, mask, np.zeros(1, int), turn, np.zeros(mask.shape))
    recipe = Recipe(
        Function(advantages.reinforce_pp, {"gamma": 0.0}),
        before={"arrived": Function(advantages.arrived_turns, {"deadline": 4.0})},
        reweighting={"duration": Function(advantages.duration_aware, {"cap": None})},
    )
    credit = credit_of(recipe, streams, rows, {})
    np.testing.assert_array_equal(credit.of_turns(mask), [[True, True, False]])
    np.testing.assert_array_equal(credit.of_positions(rows), [[True, True, False]])
    np.testing.assert_allclose(
        credit.advantage.values, np.array([[0.5, -1.5, 0]]) / 2**0.5, rtol=1e-5
    )


def test_turns_of_high_entropy_worked_example():
    """DART's: the 0.2-quantile of .1 .5 .3 .9 .2 is .18, below which the first one is."""
    mask = np.ones((1, 5), bool)
    entropy = np.array([[0.1, 0.5, 0.3, 0.9, 0.2]])
    kept = jax.jit(advantages.high_entropy_turns)(mask, np.zeros(1, int), entropy)
    np.testing.assert_array_equal(kept, [[False, True, True, True, True]])
    # Those are the ones that the reweighting leaves an advantage.
    reweighted = advantages.uncertain_turns(np.ones((1, 5)), mask, np.zeros(1, int), entropy)
    np.testing.assert_array_equal(kept, np.asarray(reweighted) > 0)
