"""Exhaustive play: every line of play against one player.

In a deterministic game with perfect information, a player whose action is a function of the state
faces a finite tree over all replies of the other seat. The tree is traversed position by position;
positions that are reached in several ways are evaluated once and counted as often.
"""

from typing import NamedTuple

import jax
import numpy as np

from agentrl.actors.types import Actor
from agentrl.players import minimax
from agentrl.players.scripted import view_of
from agentrl.selfplay.arena import ENDS
from envs.game import GameParams, TurnGame
from envs.vector import World

# Number of states evaluated together.
_CHUNK = 256


class Lines(NamedTuple):
    """Number of lines of play per kind of end (`arena.ENDS`); positions: number of positions."""

    ends: dict[str, int]
    positions: int

    @property
    def total(self) -> int:
        """Number of lines of play, of all kinds of end."""
        return sum(self.ends.values())

    @property
    def beaten(self) -> int:
        """Number of lines that the player loses, by the rules or by its own illegal action."""
        return self.ends["lost"] + self.ends["own_illegal"]


def check(name: str, player: Actor, env: TurnGame) -> None:
    """ValueError unless all lines of play against a player called `name` can be enumerated."""
    what = "walking through all lines of play"
    minimax.check_exhaustible(env, what)
    if player.draws or player.remembers:
        raise ValueError(
            f"{what} against {name}: its actions are sampled or depend on the past; expected "
            "a deterministic player without memory, for example a greedy policy over single states"
        )


def walk(player: Actor, env: TurnGame, env_params: GameParams, seat: int) -> Lines:
    """Plays a player in one seat against every sequence of legal actions of the other seat.

    The player must be deterministic (a greedy policy) and without memory.

    Raises:
      ValueError: the game has chance, hidden information or more than two agents, or the player's
        actions are sampled or depend on earlier states.
    """
    check("the player", player, env)

    @jax.jit
    def ask(state):
        view = view_of(World(env, env_params), state)
        memory = player.init(view.agent.shape[0], env.num_agents)
        decision, _ = player.act(player.params, memory, view, jax.random.key(0))
        return decision.action[:, 0]

    layer = minimax.start(env, env_params)
    ways, positions = np.ones(1, object), 0
    ends = dict.fromkeys(ENDS, 0)
    while layer.mark.size:
        positions += layer.mark.size
        own = layer.mover == seat
        source, action = np.nonzero(layer.legal & ~own[:, None])
        if own.any():
            said = minimax.in_chunks(ask, _CHUNK, layer[own].state)
            source, action = np.append(source, np.flatnonzero(own)), np.append(action, said)
        _, reached = minimax.follow(env, env_params, layer[source], action)
        came = ways[source]
        for name, ended in _ended(reached, seat).items():
            ends[name] += int(came[ended].sum())
        # Positions of one layer have the same number of actions behind them: equal ones can
        # be merged.
        going = np.flatnonzero(reached.running)
        _, first, index = np.unique(reached.mark[going], return_index=True, return_inverse=True)
        ways = np.zeros(len(first), object)
        np.add.at(ways, index, came[going])
        layer = reached[going[first]]
    return Lines(ends, positions)


def _ended(at: minimax.Positions, seat: int) -> dict[str, np.ndarray]:
    """Positions that are ends of each kind, bool[P]."""
    over, offended = ~at.running, at.offender >= 0
    by_rules = over & ~offended & ~at.cut
    own, anybody = at.success[:, seat], at.success.any(axis=1)
    return {
        "won": by_rules & own,
        "drawn": by_rules & ~anybody,
        "lost": by_rules & anybody & ~own,
        "own_illegal": over & (at.offender == seat),
        "other_illegal": over & offended & (at.offender != seat),
        "cut": over & ~offended & at.cut,
    }
