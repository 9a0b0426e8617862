"""Every line of play: counts against a recursion in Python, and players that are beaten or not."""

import jax.numpy as jnp
import pytest

import envs
from agentrl.actors import Actor, Decision
from agentrl.actors.types import no_memory
from agentrl.players import scripted
from agentrl.selfplay.lines import walk

WINS = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def first_free(params, memory, view, key):
    return Decision(jnp.argmax(view.legal, axis=-1).astype(jnp.int32)), memory


def always_the_middle(params, memory, view, key):
    return Decision(jnp.full(view.agent.shape, 4, jnp.int32)), memory


def by_recursion(seat, board=(None,) * 9, mover=0):
    """[won, drawn, lost] of the lines against the player of the first free square."""
    for one in (0, 1):
        if any(all(board[s] == one for s in line) for line in WINS):
            return [one == seat, 0, one != seat]
    free = [s for s in range(9) if board[s] is None]
    if not free:
        return [0, 1, 0]
    counts = [0, 0, 0]
    for square in free[:1] if mover == seat else free:
        after = (*board[:square], mover, *board[square + 1 :])
        counts = [a + b for a, b in zip(counts, by_recursion(seat, after, 1 - mover), strict=True)]
    return counts


@pytest.mark.parametrize("seat", [0, 1])
def test_lines_are_all_counted(seat):
    env, params = envs.make("TicTacToe-v1")
    found = walk(Actor(no_memory, first_free, draws=False), env, params, seat)
    assert [found.ends[end] for end in ("won", "drawn", "lost")] == by_recursion(seat)
    assert found.total == sum(by_recursion(seat)) and found.beaten > 0
    assert found.positions < found.total


@pytest.mark.parametrize("seat", [0, 1])
def test_the_expert_is_never_beaten(seat):
    env, params = envs.make("TicTacToe-v1")
    found = walk(scripted("expert", env, params), env, params, seat)
    assert found.beaten == 0 and found.ends["won"] > 0 and found.ends["drawn"] > 0


def test_illegal_actions_beat_a_player_too():
    """In seat 0 its second move is illegal, forgiven, and illegal again, whatever the other did."""
    env, params = envs.make("TicTacToe-v1")
    found = walk(Actor(no_memory, always_the_middle, draws=False), env, params, 0)
    assert found.ends["own_illegal"] == found.beaten == found.total == 8


def test_players_that_draw_their_moves_are_refused():
    env, params = envs.make("TicTacToe-v1")
    for name in ("random", "mcts:5"):
        with pytest.raises(ValueError, match="deterministic player without memory"):
            walk(scripted(name, env, params), env, params, 0)
    with pytest.raises(ValueError, match="would see what is hidden"):
        walk(scripted("random", env, params), *envs.make("KuhnPoker-v1"), 0)
