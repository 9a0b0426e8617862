"""Volleyball of drones: the match, its rules, and one control step of it.

D = 2 P drones, first those of team 0. Arrays have the drones (or the two teams) as first axis and
any (or no) batch axes behind it; fields of the match have the batch axes only. The net is the plane
x = 0. **All quantities of a drone are in its own team's frame**, in which its side is x > 0: for
team 1 that is the world turned by half a turn about the vertical (in the plane: mirrored). So one
controller serves both sides, and changing sides negates an outcome exactly. The ball is in the
frame of team 0.

A possession ends when the ball crosses the net; within it each drone may touch the ball once. A
team loses the match when a drone of it is below `court.ground`, closer than 0.2 m to the net's
plane, met by the ball from below, or touches the ball a second time in a possession; when the ball
comes down in its court; or when it touched the ball last (at first: has the serve) and the ball
comes down elsewhere or hits the net. If both lose at once, it is a draw.

Source: thu-uav/HCSP (read). Its contacts are jumps of velocity between control steps, with a
threshold that scales with the step; here they are found where they happen. Two contacts of one
drone within `SAME_TOUCH` steps are one touch.
"""

from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.volleyball import ball as balls
from envs.volleyball.ball import Ball
from envs.volleyball.quadrotor import lag
from envs.volleyball.vectors import Vector, along, scale, sub, turned

STEP_SECONDS = 0.02
SUBSTEPS = 2
SAME_TOUCH = 3


class Court(NamedTuple):
    """Half of its length and width, height of the net, m. Below `ground` the ball is down."""

    length: float
    width: float
    net: float
    ground: float = 0.3
    # The ball hits the net within this distance of its plane (three radii), at any height below
    # its top.
    reach: float = 0.3
    clearance: float = 0.2


class Match(NamedTuple):
    """drones: their components [D, ...], each in its team's frame. ball: in that of team 0.

    touched: bool[D], in this possession. rest: i32[D], control steps since its last contact. last:
    i32, the team that touched the ball last, or has the serve. served: bool, the serve was played.
    lost: bool[2], which ends the match. hit: bool[D], crossed: bool, events of the last control
    step. hits, ticks: i32, touches and control steps so far.
    """

    drones: Any
    ball: Ball
    touched: jax.Array
    rest: jax.Array
    last: jax.Array
    served: jax.Array
    lost: jax.Array
    hit: jax.Array
    crossed: jax.Array
    hits: jax.Array
    ticks: jax.Array

    @property
    def event(self) -> jax.Array:
        """Whether a new decision is due: a touch, or the ball crossing the net."""
        return jnp.any(self.hit, axis=0) | self.crossed

    @property
    def over(self) -> jax.Array:
        """Whether a team has lost the match, bool[...]."""
        return jnp.any(self.lost, axis=0)


def start(drones: Any, ball: Ball, serving: jax.Array) -> Match:
    """A match before the serve of a team i32[], in which nobody has touched the ball."""
    nobody = jnp.zeros(drones.position[0].shape, bool)
    no = nobody[0]
    zero = jnp.zeros(no.shape, jnp.int32)
    return Match(
        drones=drones,
        ball=ball,
        touched=nobody,
        rest=jnp.full(nobody.shape, SAME_TOUCH, jnp.int32),
        last=jnp.asarray(serving, jnp.int32),
        served=no,
        lost=jnp.stack([no, no]),
        hit=nobody,
        crossed=no,
        hits=zero,
        ticks=zero,
    )


def sides(match: Match) -> np.ndarray:
    """1 for the drones of team 0, -1 for those of team 1, [D, 1, ...]."""
    shape = match.touched.shape
    sign = np.repeat(np.float32([1, -1]), shape[0] // 2)
    return sign.reshape(-1, *[1] * (len(shape) - 1))


def seen(match: Match) -> Ball:
    """The ball in the frame of each drone, components [D, ...]."""
    sign = sides(match)
    shape = match.touched.shape
    return jax.tree.map(
        lambda x: jnp.broadcast_to(x, shape),
        Ball(turned(match.ball.position, sign), turned(match.ball.velocity, sign)),
    )


def swapped(match: Match) -> Match:
    """The same match with the teams' numbers swapped, seen from the other side."""
    half = match.touched.shape[0] // 2
    drones = jax.tree.map(lambda x: jnp.roll(x, half, axis=0), match.drones)
    return match._replace(
        drones=drones,
        ball=Ball(turned(match.ball.position, -1), turned(match.ball.velocity, -1)),
        touched=jnp.roll(match.touched, half, axis=0),
        rest=jnp.roll(match.rest, half, axis=0),
        last=1 - match.last,
        lost=match.lost[::-1],
        hit=jnp.roll(match.hit, half, axis=0),
    )


def tick(
    match: Match, command: Vector, court: Court, body: ModuleType, *, rates: bool = True
) -> Match:
    """One control step, 0.02 s in two substeps.

    command: components [D, ...] in [-1, 1], clipped: collective thrust and body rates, or with
    rates=False the rotors.
    """
    match = match._replace(
        rest=match.rest + 1,
        hit=jnp.zeros_like(match.hit),
        crossed=jnp.zeros_like(match.crossed),
        ticks=match.ticks + 1,
    )
    # A loop, though of two iterations: half the code to compile, and as fast.
    match = jax.lax.fori_loop(
        0, SUBSTEPS, lambda _, match: _substep(match, command, court, body, rates), match
    )
    return match._replace(
        lost=match.lost | _by_drones(match, court) | _by_ball(match, court),
        hits=match.hits + jnp.sum(match.hit, axis=0, dtype=jnp.int32),
    )


def _substep(match: Match, command: Vector, court: Court, body: ModuleType, rates: bool) -> Match:
    dt = STEP_SECONDS / SUBSTEPS
    rotors = body.rotors_of(match.drones, command) if rates else command
    before = sub(seen(match).position, match.drones.position)
    flown = match._replace(
        drones=body.step(match.drones, rotors, dt, lag(dt)), ball=balls.fly(match.ball, dt)
    )
    ball = seen(flown)
    met = balls.bounce(body, before, ball, flown.drones)
    # Only the first contact of a substep counts; drones that hit the ball together share it.
    share = jnp.where(met.hit, met.share, 2.0)
    hit = met.hit & (share == jnp.min(share, axis=0))
    push = met.push * hit / jnp.maximum(jnp.sum(hit, axis=0), 1)
    drones = body.pushed(flown.drones, met.normal, push * balls.BALL_MASS, met.place)
    change = tuple(jnp.sum(x, axis=0) for x in turned(scale(met.normal, push), sides(match)))
    left = dt * jnp.sum((1 - met.share) * (push > 0), axis=0)
    struck = Ball(
        along(flown.ball.position, change, left),
        tuple(v + c for v, c in zip(flown.ball.velocity, change, strict=True)),
    )
    counted = hit & (match.rest > SAME_TOUCH)
    fault = counted & match.touched
    fault |= balls.is_touching_body(body, ball, flown.drones) & ~hit & (match.rest > SAME_TOUCH)
    crossed = (match.ball.position[0] > 0) != (struck.position[0] > 0)
    teams = jnp.any(counted.reshape(2, -1, *counted.shape[1:]), axis=1)
    return match._replace(
        drones=drones,
        ball=struck,
        touched=(match.touched | counted) & ~crossed,
        rest=jnp.where(hit, 0, match.rest),
        last=jnp.where(teams[0], 0, jnp.where(teams[1], 1, match.last)),
        served=match.served | jnp.any(counted, axis=0),
        lost=match.lost | _of_teams(fault),
        hit=match.hit | counted,
        crossed=match.crossed | crossed,
    )


def _of_teams(faults: jax.Array) -> jax.Array:
    """Faults of drones [D, ...] as those of their teams [2, ...]."""
    return jnp.any(faults.reshape(2, -1, *faults.shape[1:]), axis=1)


def _by_drones(match: Match, court: Court) -> jax.Array:
    place = match.drones.position
    return _of_teams((place[-1] < court.ground) | (place[0] < court.clearance))


def _by_ball(match: Match, court: Court) -> jax.Array:
    x, *aside, height = match.ball.position
    wide = jnp.abs(aside[0]) > court.width if aside else jnp.zeros_like(match.served)
    down = height < court.ground
    inside = down & ~wide & (jnp.abs(x) <= court.length)
    net = (jnp.abs(x) < court.reach) & ~wide & (height < court.net)
    fault = (down & ~inside) | (net & ~inside)
    mine = jnp.stack([x > 0, x <= 0])
    ours = jnp.stack([match.last == 0, match.last == 1])
    return (inside & mine) | (fault & ours)


def side_view(match: Match, court: Court) -> str:
    """One match from the side, in characters of half a metre: 0, 1 .. the drones, o the ball."""
    half, top = int(2 * court.length) + 2, 12
    rows = np.full((top, 2 * half + 1), " ")
    rows[top - int(2 * court.net) :, half] = "|"

    def put(glyph, x, z):
        row, column = top - 1 - int(2 * float(z)), half + round(2 * float(x))
        if 0 <= row < top and 0 <= column < rows.shape[1]:
            rows[row, column] = glyph

    place = match.drones.position
    for drone, side in enumerate(sides(match)):
        put(str(drone), place[0][drone] * side, place[-1][drone])
    put("o", match.ball.position[0], match.ball.position[-1])
    return "\n".join("".join(row) for row in rows)
