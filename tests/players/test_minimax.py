"""Minimax: solutions against independent ones, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl.players import minimax
from envs.nim import rules as nim
from envs.tictactoe.rules import best_moves


def test_tic_tac_toe_is_solved_as_by_recursion():
    """Against the table of `envs.tictactoe.rules`, made by a recursion of its own; 5,478 positions
    is the known number of those that play can reach."""
    env, params = envs.make("TicTacToe-v1")
    positions, value, best = minimax.solve(env, params)
    assert len(value) == 5478 and value[0] == 0
    marks = positions.state.game.marks
    own = marks[np.arange(5478), positions.mover]
    other = marks[np.arange(5478), 1 - positions.mover]
    table = best_moves()[own, other][:, None] >> np.arange(9) & 1 == 1
    np.testing.assert_array_equal(best[positions.running], table[positions.running])
    assert not best[~positions.running].any()
    assert set(value) == {-1.0, 0.0, 1.0}


def test_nim_is_solved_by_nim_sums():
    """Bouton's theorem: who moves wins where the nim-sum is not 0, by making it 0."""
    env, params = envs.make("Nim-v1", piles=(3, 4, 2))
    positions, value, best = minimax.solve(env, params)
    piles = positions.state.game.piles
    going = positions.running
    total = np.bitwise_xor.reduce(piles, axis=1)
    np.testing.assert_array_equal(value[going], np.where(total[going] != 0, 1.0, -1.0))
    after = piles[:, None] - nim.moves(env.piles)[None]
    makes_zero = np.bitwise_xor.reduce(after, axis=2) == 0
    winning = going & (total != 0)
    np.testing.assert_array_equal(best[winning], (makes_zero & positions.legal)[winning])
    losing = going & (total == 0)
    np.testing.assert_array_equal(best[losing], positions.legal[losing])


@pytest.mark.parametrize("depth", [None, 3])
def test_players_take_any_of_the_best_moves(depth):
    """Three moves ahead is to the end of three objects."""
    env, params = envs.make("Nim-v1", piles=(1, 2))
    positions, _, best = minimax.solve(env, params)
    going = np.flatnonzero(positions.running)
    choose = minimax.make_minimax(env, params, depth=depth)
    state = jax.tree.map(lambda x: jnp.repeat(x[going], 64, axis=0), positions.state)
    keys = jax.random.split(jax.random.key(0), 64 * len(going))
    action = np.asarray(jax.jit(jax.vmap(choose, (0, None, 0)))(state, True, keys))
    for i, row in zip(going, action.reshape(-1, 64), strict=True):
        assert set(row) == set(np.flatnonzero(best[i]))


def test_a_search_that_ends_early_sees_what_comes_until_then():
    """O has two in a row: one move ahead it wins, X two moves ahead prevents it."""
    env, params = envs.make("TicTacToe-v1")
    keys = jax.random.split(jax.random.key(1), 32)
    state = env.initial(keys[0], params)
    for marks, depth, square in (((0b011, 0b11000), 1, 2), ((0b011, 0b10000), 2, 2)):
        at = env.at(state.game._replace(marks=jnp.array(marks, jnp.int32)))
        choose = minimax.make_minimax(env, params, depth=depth)
        played = jax.jit(jax.vmap(choose, (None, None, 0)))(at, True, keys)
        np.testing.assert_array_equal(played, square)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("KuhnPoker-v1", {}, "would see what is hidden"),
        ("PigDice-v1", {}, "expected a game without chance"),
        ("FrozenLake-v1", {}, "expected a game in turns"),
        ("TicTacToe-v1", {"max_steps_in_episode": 7}, "max_steps_in_episode cuts games"),
    ],
)
def test_what_cannot_be_solved_is_said(name, options, message):
    env, params = envs.make(name, **options)
    with pytest.raises(ValueError, match=message):
        minimax.solve(env, params)


def test_games_that_are_too_large_are_refused(monkeypatch):
    monkeypatch.setattr(minimax, "_MOST", 100)
    env, params = envs.make("TicTacToe-v1")
    with pytest.raises(ValueError, match="more than 100 positions; give a depth"):
        minimax.solve(env, params)
    with pytest.raises(ValueError, match="9 moves to the power of 6 is more than 20,000"):
        minimax.make_minimax(env, params, depth=6)
