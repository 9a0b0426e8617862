"""A ball in free flight, and its bounce off the racket of a drone.

Components are arrays of any shape (`envs.volleyball.vectors`), in two or three dimensions; the
`body` is the module `envs.volleyball.quadrotor` or `envs.volleyball.planar`. Constants of
thu-uav/HCSP (read): 5 g, radius 0.1 m, restitution 0.8, no drag; the racket is a disc of radius
0.2 m about the drone's centre. There the simulator's meshes collide; the frictionless bounce is
ours.
"""

from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envs.volleyball.quadrotor import GRAVITY, MASS
from envs.volleyball.vectors import Vector, add, along, dot, scale, sub

BALL_MASS, RADIUS, RESTITUTION, RACKET = 0.005, 0.1, 0.8, 0.2


class Ball(NamedTuple):
    """A ball: position in m and velocity in m/s, two or three components each."""

    position: Vector
    velocity: Vector


class Bounce(NamedTuple):
    """A bounce, if there was one. push: change of the ball's velocity along the `normal`.

    share: fraction of the step, in [0, 1], at which they met. place: on the racket.
    """

    hit: jax.Array
    share: jax.Array
    push: jax.Array
    normal: Vector
    place: Vector


def fly(ball: Ball, dt: float) -> Ball:
    """The ball dt seconds later; semi-implicit, as the drone's step."""
    velocity = (*ball.velocity[:-1], ball.velocity[-1] - GRAVITY * dt)
    return Ball(along(ball.position, velocity, dt), velocity)


def after(ball: Ball, seconds: jax.Array) -> Ball:
    """The ball on its parabola; exact."""
    velocity = (*ball.velocity[:-1], ball.velocity[-1] - GRAVITY * seconds)
    return Ball(along(ball.position, scale(add(ball.velocity, velocity), 0.5), seconds), velocity)


def seconds_to(ball: Ball, height: jax.Array) -> jax.Array:
    """Seconds until it falls to a height; until its apex if that is lower, 0 if it is below."""
    rise = ball.velocity[-1]
    root = jnp.sqrt(jnp.maximum(rise * rise + 2 * GRAVITY * (ball.position[-1] - height), 0.0))
    return jnp.maximum((rise + root) * (1 / GRAVITY), 0.0)


def thrown(start: Vector, target: Vector, apex: jax.Array) -> Vector:
    """The velocity that takes a ball from start over the apex to the target.

    The apex is at least 0.1 m above both.
    """
    apex = jnp.maximum(apex, jnp.maximum(start[-1], target[-1]) + 0.1)
    rise = jnp.sqrt(2 * GRAVITY * (apex - start[-1]))
    seconds = (rise + jnp.sqrt(2 * GRAVITY * (apex - target[-1]))) * (1 / GRAVITY)
    return (*scale(sub(target, start)[:-1], 1 / seconds), rise)


def bounce(body: ModuleType, before: Vector, ball: Ball, drone: Any) -> Bounce:
    """Whether the ball met the racket from above within a step, and the bounce.

    before: the ball's place relative to the drone at the step's start; ball and drone are after it.
    Relative motion is straight within the step and the racket's tilt that of its end, so a fast
    ball cannot pass the disc undetected. They meet where the ball's centre comes within one radius
    of the disc over it, at most `RACKET` from its middle. With the speed s of approach along the
    normal, the effective mass of both bodies at the place, and no friction,

        ball's velocity += (1 + e) s / (1 + m_b / m_d + m_b (r x n) I^-1 (r x n)) n.
    """
    normal = body.up(drone)
    now = sub(ball.position, drone.position)
    high, low = dot(before, normal), dot(now, normal)
    share = jnp.clip((high - RADIUS) / jnp.maximum(high - low, 1e-6), 0.0, 1.0)
    met = along(before, sub(now, before), share)
    height, place, rim, softness = body.racket(drone, met)
    approach = rim - dot(sub(ball.velocity, drone.velocity), normal)
    # The tolerance covers rounding: at the share found above the height is one radius.
    over = (height >= 0) & (height <= RADIUS + 1e-4) & (low <= RADIUS)
    hit = over & (dot(place, place) <= RACKET**2) & (approach > 0)
    push = (1 + RESTITUTION) * approach / (1 + BALL_MASS / MASS + BALL_MASS * softness)
    return Bounce(hit, share, jnp.where(hit, push, 0.0), normal, place)


def is_touching_body(body: ModuleType, ball: Ball, drone: Any) -> jax.Array:
    """Whether the ball is less than one radius under the racket's disc: it hit the drone's body."""
    height, place, _, _ = body.racket(drone, sub(ball.position, drone.position))
    return (height < 0) & (height > -RADIUS) & (dot(place, place) <= RACKET**2)
