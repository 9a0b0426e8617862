"""Scripted controllers of volleyball drones: going to a place, and hitting the ball to a place.

All is in the frame of the drone's team; components are arrays of any shape. A controller is any
function (params, sight, order) -> command by rates; `scripted` is the one without params.
"""

from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envs.volleyball import ball as balls
from envs.volleyball.ball import Ball
from envs.volleyball.quadrotor import GRAVITY, MASS
from envs.volleyball.vectors import Vector, along, dot, norm, scale, select, sub

# For going to a place: 1/s^2, 1/s, and the greatest distance and accelerations requested.
PLACE_GAIN, SPEED_GAIN, FARTHEST, AROUND, UPWARDS, DOWNWARDS = 4.0, 3.2, 2.0, 7.0, 5.0, 6.0
TILT_GAIN = 4.5  # 1/s
# For a hit: weights of the misses against the smoothness of the path (`swinging`, `pushing`).
PLACE, SPEED, TILT, HEIGHT, RISE = 3e-5, 5e-3, 1e-3, 3e-3, 1e-3
# Delay from a command by rates to the rotation, by the lag of rotors and rate controller, s.
DELAY = 0.055
# The least time for which a hit is planned: closer to it the plan is not refined any more.
LEAST_SECONDS = 0.03
# A drone whose normal is below this height first rights itself.
STEEPEST = 0.7


class Sight(NamedTuple):
    """Inputs of a controller: the drone and the ball, and whether the drone may touch it."""

    drone: Any
    ball: Ball
    free: jax.Array


class Order(NamedTuple):
    """A drone's order. hit: bool; else it goes to `place` and hovers there.

    place: where it also waits, and goes after a hit. target: where the ball should come down, over
    the height `apex`; height: at which to hit it.
    """

    hit: jax.Array
    place: Vector
    target: Vector
    apex: jax.Array
    height: jax.Array


class Strike(NamedTuple):
    """A planned hit: time until it, place and velocity of the drone then, and normal of its
    racket."""

    seconds: jax.Array
    place: Vector
    velocity: Vector
    normal: Vector


def strike(ball: Ball, order: Order) -> Strike:
    """The hit at the order's height that sends the ball to the order's target.

    Without friction the change of velocity v_out - v_in is along the normal n, and
    (v_out - v_in) n = (1 + e) (u - v_in) n / (1 + m_b / m_d) gives the racket's speed u n.
    """
    seconds = balls.seconds_to(ball, order.height)
    met = balls.after(ball, seconds)
    change = sub(balls.thrown(met.position, order.target, order.apex), met.velocity)
    size = norm(change)
    normal = scale(change, 1 / size)
    gain = (1 + balls.BALL_MASS / MASS) / (1 + balls.RESTITUTION)
    speed = dot(met.velocity, normal) + size * gain
    place = along(met.position, normal, -balls.RADIUS)
    return Strike(seconds, place, scale(normal, speed), normal)


def going(drone: Any, place: Vector) -> Vector:
    """Acceleration towards a place, to stop there."""
    away = sub(place, drone.position)
    away = scale(away, jnp.minimum(1.0, FARTHEST / jnp.maximum(norm(away), 1e-3)))
    wanted = tuple(
        PLACE_GAIN * x - SPEED_GAIN * v for x, v in zip(away, drone.velocity, strict=True)
    )
    flat = wanted[:-1]
    flat = scale(flat, jnp.minimum(1.0, AROUND / jnp.maximum(norm(flat), 1e-3)))
    return (*flat, jnp.clip(wanted[-1], -DOWNWARDS, UPWARDS))


def swinging(body: ModuleType, drone: Any, hit: Strike) -> tuple[Vector, Vector]:
    """Angular speed of the racket's normal towards a hit, 1/s, and the sideways speed then.

    Sideways a drone that keeps its height is a chain of integrators: place x, speed v, acceleration
    a = L n with L = g / n_z of the hit, and u = a' is the effect of turning the normal. Over the
    time T to the hit the path minimises

        int u^2 dt + e_x^2 / PLACE + e_v^2 / SPEED + e_a^2 / TILT,

    with e the final errors in the hit's place, in rest (speed 0), and in the hit's normal. With e0
    the errors without turning and W = int (s^2/2, s, 1)^T (s^2/2, s, 1) ds,

        u(0) = (T^2/2, T, 1) y,   (W + diag(PLACE, SPEED, TILT)) y = e0,   e_v = SPEED y_v.

    The delay `DELAY` between a command and the rotation is compensated. The speed is in m/s.
    """
    up = body.up(drone)
    soon = along(up, body.swing(drone), DELAY)
    time = jnp.maximum(hit.seconds - DELAY, LEAST_SECONDS)
    square, cube = time * time, time**3
    lift = GRAVITY / jnp.clip(hit.normal[-1], 0.65, 1.0)
    matrix = (
        (cube * square / 20 + PLACE, square * square / 8, cube / 6),
        (cube / 3 + SPEED, square / 2),
        (time + TILT,),
    )
    turns, speeds = [], []
    for axis in range(len(up) - 1):
        then = lift * soon[axis]
        speed = drone.velocity[axis] + lift * (up[axis] + soon[axis]) / 2 * DELAY
        place = drone.position[axis] + drone.velocity[axis] * DELAY
        miss = (
            hit.place[axis] - place - speed * time - then * square / 2,
            -speed - then * time,
            lift * hit.normal[axis] - then,
        )
        y = _solved(matrix, miss)
        turns.append((y[0] * square / 2 + y[1] * time + y[2]) / lift)
        speeds.append(-SPEED * y[1])
    # Along the sphere of directions.
    upward = -dot(turns, up[:-1]) / jnp.maximum(up[-1], 0.3)
    return (*turns, upward), tuple(speeds)


def _solved(matrix: tuple[Vector, Vector, Vector], right: Vector) -> Vector:
    """x with M x = r, for the upper triangle of a symmetric matrix of three by three."""
    (a, b, c), (d, e), (f,) = matrix
    adjugate = ((d * f - e * e, c * e - b * f, b * e - c * d), (a * f - c * c, b * c - a * e))
    (p, q, r), (s, t) = adjugate
    last = a * d - b * b
    whole = a * p + b * q + c * r
    rows = ((p, q, r), (q, s, t), (r, t, last))
    return tuple(dot(row, right) / whole for row in rows)


def turning(body: ModuleType, drone: Any, aim: Vector) -> Vector:
    """Angular speed of the racket's normal towards a direction, 1/s."""
    return scale(sub(aim, body.up(drone)), TILT_GAIN)


def pushing(drone: Any, hit: Strike, sideways: Vector) -> jax.Array:
    """Upward acceleration on the path to a hit.

    As `swinging`, for two integrators: int a^2 dt + e_z^2 / HEIGHT + e_v^2 / RISE. The speed
    matters more than the place: centimetres early or late matter little at the speed of the ball. A
    hit needs a speed along the normal, so the drone's share of it `sideways` is subtracted from the
    required vertical speed.
    """
    time = jnp.maximum(hit.seconds, LEAST_SECONDS)
    speed = dot(hit.velocity, hit.normal) - dot(sideways, hit.normal[:-1])
    rise = jnp.clip(speed / hit.normal[-1], -3.0, 4.0) - drone.velocity[-1]
    miss = hit.place[-1] - drone.position[-1] - drone.velocity[-1] * time
    a, b, d = time**3 / 3 + HEIGHT, time * time / 2, time + RISE
    return ((d * miss - b * rise) * time + a * rise - b * miss) / (a * d - b * b)


def scripted(body: ModuleType, sight: Sight, order: Order) -> Vector:
    """The command of the scripted controllers.

    A drone with an order to hit does so if it is allowed to and the ball comes down on its side;
    else it waits at the order's place.
    """
    drone, ball = sight.drone, sight.ball
    hit = strike(ball, order)
    swing, sideways = swinging(body, drone, hit)
    ready = order.hit & sight.free & (hit.place[0] > 0.25)
    rest = going(drone, order.place)
    rest = (*rest[:-1], rest[-1] + GRAVITY)
    aim = scale(rest, 1 / norm(rest))
    turn = select(ready, swing, turning(body, drone, aim))
    level = (*(jnp.zeros_like(lift) for lift in rest[1:]), jnp.ones_like(rest[-1]))
    turn = select(body.up(drone)[-1] > STEEPEST, turn, turning(body, drone, level))
    lift = jnp.where(ready, pushing(drone, hit, sideways) + GRAVITY, rest[-1])
    return body.command_for(drone, turn, lift / jnp.maximum(body.up(drone)[-1], 0.5))


def in_use(sight: Sight, order: Order) -> jax.Array:
    """The skill that a drone currently uses, i32.

    1, hitting, if it has the order, is allowed to, and the ball comes down on its side; else 0,
    going to the place.
    """
    coming = strike(sight.ball, order).place[0] > 0.25
    return (order.hit & sight.free & coming).astype(jnp.int32)


def features(body: ModuleType, sight: Sight, order: Order) -> list[jax.Array]:
    """Observation of a learnt controller of one drone and its order: 37 numbers, 19 in the plane.

    The drone's own 23 (9), then the ball, its velocity, the order's place and target relative to
    the drone, and its distance below the order's apex and height.
    """
    drone, ball = sight.drone, sight.ball
    here = drone.position
    near = [x for place in (ball.position, order.place, order.target) for x in sub(place, here)]
    own = body.own_features(drone)
    return [*own, *near, *ball.velocity, order.apex - here[-1], order.height - here[-1]]
