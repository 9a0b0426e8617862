"""Monte Carlo tree search: how well it plays, with chance too, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl.players import scripted
from agentrl.players.search import make_search
from agentrl.rollout.results import play_results
from envs.vector import World


@pytest.fixture(scope="module")
def against_minimax():
    """(seating [2]) -> 24 matches of mcts:1500, player 0, and minimax, player 1."""
    env, params = envs.make("TicTacToe-v1")
    players = [scripted(name, env, params) for name in ("mcts:1500", "minimax")]
    tasks = jax.random.split(jax.random.key(0), 24)

    @jax.jit
    def play(seating):
        seating = jnp.broadcast_to(seating, (24, 2))
        return play_results(players, World(env, params), seating, tasks, jax.random.key(1))

    return play


@pytest.mark.parametrize("seating", [[0, 1], [1, 0]])
def test_with_enough_simulations_it_does_not_lose(against_minimax, seating):
    met = against_minimax(jnp.array(seating, jnp.int32))
    assert not np.asarray(met.success).any() and not np.asarray(met.illegal).any()
    assert len(np.unique(np.asarray(met.course), axis=0)) > 4


def test_minimax_against_itself_always_draws(against_minimax):
    met = against_minimax(jnp.array([1, 1], jnp.int32))
    np.testing.assert_array_equal(met.moves, [[5, 4]] * 24)
    np.testing.assert_array_equal(met.episode_return, 0)
    assert len(np.unique(np.asarray(met.course), axis=0)) > 4


def moves(name, state_of, simulations, keys=16, **options):
    env, params = envs.make(name, **options)
    state = state_of(env.initial(jax.random.key(0), params))
    choose = make_search(env, params, simulations=simulations)
    keys = jax.random.split(jax.random.key(2), keys)
    return np.asarray(jax.jit(jax.vmap(choose, (None, None, 0)))(state, jnp.bool_(True), keys))


def test_it_wins_where_it_can_and_blocks_where_it_must():
    for marks in ((0b000000011, 0b000011000), (0b000000011, 0b000010000)):
        played = moves(
            "TicTacToe-v1",
            lambda s, m=marks: s.replace(game=s.game._replace(marks=jnp.array(m))),
            200,
        )
        np.testing.assert_array_equal(played, 2)


def test_chance_is_drawn_anew_in_each_simulation():
    """With the target in hand a hold wins at once, and a roll loses the turn once in six; with
    nothing in hand, a hold only passes the turn."""

    def with_total(total):
        return lambda s: s.replace(game=s.game._replace(total=jnp.int32(total)))

    options = {"target": 12, "turn_limit": 20, "max_steps_in_episode": 40}
    assert (moves("PigDice-v1", with_total(12), 60, **options) == 1).all()
    assert (moves("PigDice-v1", with_total(0), 60, **options) == 0).mean() > 0.8


def test_what_cannot_be_searched_is_said():
    for name, message in (
        ("LeducPoker-v1", "would see what is hidden from the seat"),
        ("Foraging-v1", "expected a game in turns"),
        ("Coin-v1", "expected a game in turns"),
    ):
        with pytest.raises(ValueError, match=message):
            make_search(*envs.make(name), simulations=10)
    with pytest.raises(ValueError, match="expected at least 1"):
        make_search(*envs.make("Nim-v1"), simulations=0)
    for name in ("mcts", "mcts:0", "mcts:x", "minimax:", "random:2", "me"):
        with pytest.raises(ValueError, match="expected one of random, expert"):
            scripted(name, *envs.make("Nim-v1"))
