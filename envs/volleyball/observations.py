"""Observations of teams and drones in volleyball, in the frame of their side.

Arrays have the teams or the drones as first axis and any batch axes behind it.
"""

from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np

from envs.volleyball import rules
from envs.volleyball.ball import Ball
from envs.volleyball.rules import Match
from envs.volleyball.vectors import sub


def of_teams(match: Match, body: ModuleType) -> list[jax.Array]:
    """Observation of a team: own drones, opponents, ball, flags; components [2, ...]."""
    players = match.touched.shape[0] // 2

    def team(x):
        return x.reshape(2, players, *x.shape[1:])

    own = [team(x) for x in body.features(match.drones)]
    other = [team(x)[::-1] for x in body.features(body.from_across(match.drones))]
    touched = team(match.touched)
    ball = jax.tree.map(lambda x: team(x)[:, 0], rules.seen(match))
    numbers = [x[:, i] for i in range(players) for x in own]
    numbers += [x[:, i] for i in range(players) for x in other]
    flags = [touched[:, i] for i in range(players)]
    flags += [touched[::-1, i] for i in range(players)]
    return [*numbers, *ball.position, *ball.velocity, *_flags(flags, ball, match)]


def of_drones(match: Match, body: ModuleType) -> list[jax.Array]:
    """Observation of a drone, components [D, ...].

    Itself, its team mates and opponents in order, ball, flags, its own throttles, the ball relative
    to it, its role.
    """
    players = match.touched.shape[0] // 2

    def team(x):
        return x.reshape(2, players, *x.shape[1:])

    def flat(x):
        return x.reshape(2 * players, *x.shape[2:])

    drones, ball = match.drones, rules.seen(match)
    own = body.features(drones)
    across = body.features(body.from_across(drones))
    numbers, flags = list(own), [match.touched]
    # Team mates in order, then the opponents from the one with the same index on.
    for shift in range(1, players):
        numbers += [flat(jnp.roll(team(x), -shift, axis=1)) for x in own]
        flags.append(flat(jnp.roll(team(match.touched), -shift, axis=1)))
    for shift in range(players):
        numbers += [flat(jnp.roll(team(x)[::-1], -shift, axis=1)) for x in across]
        flags.append(flat(jnp.roll(team(match.touched)[::-1], -shift, axis=1)))
    numbers += [*ball.position, *ball.velocity, *_flags(flags, ball, match)]
    numbers += [2 * t - 1 for t in drones.throttle]
    numbers += sub(ball.position, drones.position)
    shape = match.touched.shape
    seat = np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)) % players
    roles = [np.broadcast_to(seat == i, shape) for i in range(players)]
    return [*numbers, *(jnp.asarray(role, jnp.float32) for role in roles)]


def _flags(touched: list[jax.Array], ball: Ball, match: Match) -> list[jax.Array]:
    """Touched or not, the ball's side, serve or rally: one-hot each."""
    mine = ball.position[0] > 0
    served = jnp.broadcast_to(match.served, mine.shape)
    return [hot.astype(jnp.float32) for flag in (*touched, mine, served) for hot in (~flag, flag)]
