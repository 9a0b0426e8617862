"""Line-ups: the same tasks played with any mix of players in the seats, for paired comparisons.

All line-ups play the same tasks with the same randomness of the environment and of each player, so
that two line-ups that differ in one seat are compared task by task: what the players and the deal
have in common cancels from the difference.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import Actor
from agentrl.rollout.results import play_results
from agentrl.rollout.seating import first_of_teams, teams
from envs.environment import Environment, EnvParams
from envs.vector import World

# More would be an afternoon by mistake.
_MOST = 256


class Swap(NamedTuple):
    """Two line-ups that differ in one seat: `other` has another player there."""

    lineup: int
    other: int
    seat: int


@dataclasses.dataclass(frozen=True)
class LineUps:
    """Results of L line-ups of A seats (of teams: one seat per team) in M tasks.

    players: names. seats: i64[L, A], the number of the player in each seat. returns: f64[L, A, M].
    won: bool[L, A, M], by the rules. illegal: f64[L, A], illegal actions as a share of the moves.
    """

    players: tuple[str, ...]
    seats: np.ndarray
    returns: np.ndarray
    won: np.ndarray
    illegal: np.ndarray

    def swaps(self) -> Iterator[Swap]:
        """All pairs of line-ups that differ in one seat only."""
        for i, j in itertools.combinations(range(len(self.seats)), 2):
            (differ,) = np.nonzero(self.seats[i] != self.seats[j])
            if len(differ) == 1:
                yield Swap(i, j, int(differ[0]))

    def by_count(self, player: int) -> dict[int, np.ndarray]:
        """Mean return of a player's seats per task, f64[M], by how many seats it has."""
        found = {}
        for count in range(1, self.seats.shape[1] + 1):
            has = (self.seats == player).sum(axis=1) == count
            if has.any():
                mine = (self.seats[has] == player)[..., None]
                found[count] = (self.returns[has] * mine).sum(axis=(0, 1)) / mine.sum()
        return found


def variance_ratio(x: np.ndarray, y: np.ndarray) -> float:
    """Variance of a difference of means with independent tasks over that with these pairs.

    (var x + var y) / var(x - y), of the samples [M]: how many times as many independent tasks would
    be as precise. inf where all differences are equal, nan where all values are.
    """
    apart = np.var(x, ddof=1) + np.var(y, ddof=1)
    together = np.var(np.asarray(x) - np.asarray(y), ddof=1)
    if together == 0:
        return np.inf if apart > 0 else np.nan
    return float(apart / together)


def parse(text: str, players: int, seats: int) -> np.ndarray:
    """Line-ups i64[L, A] of letters, a for the first player: "aab,aba"; "all": every one.

    Raises:
      ValueError: another letter, number of seats, the same line-up twice, or too many.
    """
    if text == "all":
        if players**seats > _MOST:
            raise ValueError(
                f"lineups='all': {players} players in {seats} seats have {players**seats:,} "
                f"line-ups, expected at most {_MOST}; name some"
            )
        return np.array(list(itertools.product(range(players), repeat=seats)))
    letters = "abcdefghijklmnopqrstuvwxyz"[:players]
    names = text.split(",")
    for name in names:
        if len(name) != seats or set(name) - set(letters):
            raise ValueError(
                f"line-up {name!r}: expected {seats} letters of {letters!r}, one player per seat"
            )
        if names.count(name) > 1:
            raise ValueError(f"line-up {name!r} is named twice")
    return np.array([[letters.index(letter) for letter in name] for name in names])


def play_lineups(
    players: dict[str, Actor],
    env: Environment,
    env_params: EnvParams,
    lineups: Sequence[Sequence[int]],
    *,
    matches: int,
    seed: int,
) -> LineUps:
    """Plays every line-up in the same tasks, in one program.

    lineups: the number of the player in each seat (of teams: per team). matches: M, per line-up.

    Raises:
      ValueError: fewer than two matches, or line-ups of another number of seats.
    """
    firsts, lineups = first_of_teams(env), np.asarray(lineups)
    if matches < 2:
        raise ValueError(f"matches={matches} per line-up: expected two or more")
    if lineups.ndim != 2 or lineups.shape[1] != len(firsts):
        raise ValueError(
            f"line-ups of shape {list(lineups.shape)} in {env.name}: expected [any, {len(firsts)}]"
        )
    # As in the arena, a stream of keys that training has not used.
    task_key, chance = jax.random.split(jax.random.fold_in(jax.random.key(seed), 0xA2E7A))
    tasks = jax.random.split(task_key, matches)

    @jax.jit
    def table(params: Sequence[Any], lineup: jax.Array):
        sat = [p._replace(params=q) for p, q in zip(players.values(), params, strict=True)]
        seating = jnp.broadcast_to(lineup[teams(env)], (matches, env.num_agents))
        return play_results(sat, World(env, env_params), seating, tasks, chance)

    params = [player.params for player in players.values()]
    played = [
        jax.tree.map(np.asarray, table(params, jnp.asarray(lineup, jnp.int32)))
        for lineup in lineups
    ]
    moves = np.array([met.moves[:, firsts].sum(axis=0) for met in played])
    illegal = np.array([met.illegal[:, firsts].sum(axis=0) for met in played])
    return LineUps(
        players=tuple(players),
        seats=lineups,
        returns=np.array([met.episode_return[:, firsts].T for met in played], np.float64),
        won=np.array([met.success[:, firsts].T for met in played]),
        illegal=illegal / np.maximum(moves, 1),
    )
