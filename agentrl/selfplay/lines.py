"""Every line of play against one player: whether anything beats it, exactly.

In a game without chance and without anything hidden, a player that always does the same in the same
state meets, over all replies of the other seat, a finite tree. It is walked position by position;
positions that are reached in several ways are looked at once and counted as often.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl.actors import minimax
from agentrl.actors.scripted import view_of
from agentrl.actors.types import Actor
from agentrl.selfplay.arena import ENDS
from envs.vector import World

# States that the player is asked about together.
_CHUNK = 256


class Lines(NamedTuple):
    """How the lines of play end for the player: counts by `arena.ENDS`; positions: in all."""

    ends: dict[str, int]
    positions: int

    @property
    def total(self) -> int:
        """Lines of play."""
        return sum(self.ends.values())

    @property
    def beaten(self) -> int:
        """Lines that the player loses, by the rules or by an illegal action of its own."""
        return self.ends["lost"] + self.ends["own_illegal"]


def check(name: str, player: Actor, env: Any) -> None:
    """ValueError unless all lines of play against a player called `name` can be walked."""
    what = "walking through all lines of play"
    minimax.check_exhaustible(env, what)
    if player.draws or player.remembers:
        raise ValueError(
            f"{what} against {name}: its moves are drawn, or depend on what went before; expected "
            "a player without chance and memory, for example a greedy policy over single states"
        )


def walk(player: Actor, env: Any, env_params: Any, seat: int) -> Lines:
    """Plays a player in one seat against every sequence of legal actions of the other seat.

    The player must act without chance (a greedy policy) and without memory.

    Raises:
      ValueError: a game that has chance, hidden information or more than two agents, or a player
        whose moves are drawn or depend on what went before.
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
        # Positions of one layer have taken as many actions: what is alike goes on alike.
        going = np.flatnonzero(reached.running)
        _, first, index = np.unique(reached.mark[going], return_index=True, return_inverse=True)
        ways = np.zeros(len(first), object)
        np.add.at(ways, index, came[going])
        layer = reached[going[first]]
    return Lines(ends, positions)


def _ended(at: minimax.Positions, seat: int) -> dict[str, np.ndarray]:
    """Which positions are ends of each kind, bool[P]."""
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
