"""The arena: matches of every pair of players on all seats, and their results.

Cell (i, j, s) of K players in a game of A seats: player i in seat s, player j in all others. In
games of teams a seat stands for a team, with the results of its first seat. With two seats the
cells (i, j, 0) and (j, i, 1) are the same matches, seen from either side. All pairs play the same
tasks. Each match ends, for player i, in one of six ways (`ENDS`): it won by the rules, no player
won, another won, its own illegal action ended the game, another's did, or a limit of steps.

The payoff of i against j is the mean over seats of its mean return; in zero-sum games the matrix is
exactly antisymmetric, payoff(i, j) = -payoff(j, i).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import Actor
from agentrl.rollout.results import Results, play_results
from agentrl.rollout.seating import first_of_teams, teams
from envs.environment import Environment, EnvParams
from envs.vector import World

ENDS = ("won", "drawn", "lost", "own_illegal", "other_illegal", "cut")
# Score of each end: a truncated game counts as a draw.
SCORES = np.array([1.0, 0.5, 0.0, 0.0, 1.0, 0.5])


@dataclasses.dataclass(frozen=True)
class Arena:
    """Results of K players in a game of A seats.

    players: names. matches: number per cell. cooperative: all players have a common goal, so there
    are no opponents to beat. ends: i64[K, K, A, 6], number of matches per cell and kind of end, as
    `ENDS`.
    mean, deviation: f64[K, K, A], of the returns of a cell's player i (deviation of the sample).
    spread: f64[K, K], deviation over tasks of the mean return over all seats: seats of one task,
    let alone of one match, are not independent.
    illegal: f64[K, K, A], illegal actions of player i, as a share of its moves.
    courses: i64[K, K, A], number of different sequences of states among a cell's matches.
    """

    players: tuple[str, ...]
    matches: int
    cooperative: bool
    ends: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    spread: np.ndarray
    illegal: np.ndarray
    courses: np.ndarray

    @property
    def payoff(self) -> np.ndarray:
        """Mean return of the row against the column, over all seats, f64[K, K]."""
        return self.mean.mean(axis=2)

    @property
    def payoff_error(self) -> np.ndarray:
        """Standard error of the payoff, f64[K, K]; nan if all payoffs are equal."""
        error = self.spread / np.sqrt(self.matches)
        return np.where(error > 0, error, np.nan)

    @property
    def tensor(self) -> np.ndarray:
        """Payoff of both players by the strategies in the two seats, f64[2, K, K], for the
        meta-solvers.

        ValueError with more seats, since pairs do not determine the payoff of each combination.
        """
        if self.mean.shape[2] != 2:
            raise ValueError(f"payoff tensor of {self.mean.shape[2]} seats: expected two")
        return np.stack([self.mean[:, :, 0], self.mean[:, :, 1].T])

    @property
    def score(self) -> np.ndarray:
        """Points of the row against the column over all matches, f64[K, K].

        A win is 1, a draw or a truncated game 1/2; an illegal action that ends the game is a loss.
        """
        return (self.ends * SCORES).sum(axis=(2, 3))


def play_all(
    players: dict[str, Actor],
    env: Environment,
    env_params: EnvParams,
    *,
    matches: int,
    seed: int,
) -> Arena:
    """Plays `matches` matches of every pair (and of each player with itself), in one program.

    matches: per pair, the same number on every seat.

    Raises:
      ValueError: the environment has one agent, or the seats do not divide the matches.
    """
    if env.num_agents < 2:
        raise ValueError(f"{env.name} has one agent; expected a game")
    firsts, names = first_of_teams(env), tuple(players)
    seats = len(firsts)
    if matches < 2 * seats or matches % seats:
        raise ValueError(
            f"matches={matches}: expected a multiple of the {seats} seats, two or more"
        )
    count, number = matches // seats, len(names)
    # A stream of keys of its own: training has not used these tasks.
    task_key, chance = jax.random.split(jax.random.fold_in(jax.random.key(seed), 0xA2E7A))
    tasks = jax.random.split(task_key, count)

    @jax.jit
    def table(params: Sequence[Any], lineup: jax.Array, key: jax.Array) -> Results:
        sat = [p._replace(params=q) for p, q in zip(players.values(), params, strict=True)]
        seating = jnp.broadcast_to(lineup[teams(env)], (count, env.num_agents))
        return play_results(sat, World(env, env_params), seating, tasks, key)

    params = [player.params for player in players.values()]
    shape = (number, number, seats)
    ends = np.zeros((*shape, len(ENDS)), np.int64)
    returns, illegal = np.zeros((*shape, count)), np.zeros(shape)
    courses = np.zeros(shape, np.int64)
    played: dict[tuple[int, ...], Results] = {}
    for i, j, seat in np.ndindex(shape):
        lineup = tuple(i if s == seat else j for s in range(seats))
        if lineup not in played:
            key = jax.random.fold_in(chance, len(played))
            met = table(params, jnp.asarray(lineup, jnp.int32), key)
            played[lineup] = jax.tree.map(np.asarray, met)
        met, cell = played[lineup], (i, j, seat)
        first = firsts[seat]
        ends[cell] = _ends(met, first)
        returns[cell] = met.episode_return[:, first]
        illegal[cell] = met.illegal[:, first].sum() / max(met.moves[:, first].sum(), 1)
        courses[cell] = len(np.unique(met.course, axis=0))
    return Arena(
        players=names,
        matches=count,
        cooperative=bool(env.cooperative),
        ends=ends,
        mean=returns.mean(axis=-1),
        deviation=returns.std(axis=-1, ddof=1),
        spread=returns.mean(axis=2).std(axis=-1, ddof=1),
        illegal=illegal,
        courses=courses,
    )


def _ends(met: Results, seat: int) -> np.ndarray:
    """Number of matches that ended in each way for a seat, i64[6]."""
    own, anybody = met.success[:, seat], met.success.any(axis=1)
    offended = met.offender >= 0
    cut = met.truncated & ~offended
    by_rules = ~offended & ~cut
    ways = [
        by_rules & own,
        by_rules & ~anybody,
        by_rules & anybody & ~own,
        offended & (met.offender == seat),
        offended & (met.offender != seat),
        cut,
    ]
    return np.array([way.sum() for way in ways])
