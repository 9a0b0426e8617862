"""Scripted controllers of volleyball drones: going to a place, and hitting the ball to a place.

All is in the frame of the drone's team; components are arrays of any shape. A controller is any
function (params, sight, order) -> command by rates; `scripted` is the one without params.
"""

from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envs.rules import ball as balls
from envs.rules.ball import Ball
from envs.rules.quadrotor import GRAVITY, MASS
from envs.rules.vectors import Vector, along, dot, norm, scale, select, sub

# Of going to a place: 1/s^2, 1/s, and the greatest distance and accelerations asked for.
PLACE_GAIN, SPEED_GAIN, FARTHEST, AROUND, UPWARDS, DOWNWARDS = 4.0, 3.2, 2.0, 7.0, 5.0, 6.0
TILT_GAIN = 4.5  # 1/s
# So long before a hit its place is let go, and only the normal or the speed is aimed at.
AIM_SECONDS, PUSH_SECONDS = 0.5, 0.05
# The least time in which a hit is planned: closer to it the plan is not sharpened any more.
LEAST_SECONDS = 0.03
# Below this height of its normal a drone rights itself first.
STEEPEST = 0.7


class Sight(NamedTuple):
    """What a controller sees: the drone and the ball, and whether the drone may touch it."""

    drone: Any
    ball: Ball
    free: jax.Array


class Order(NamedTuple):
    """What a drone is to do. hit: bool; else it goes to `place` and hovers there.

    place: where it also waits, and goes after a hit. target: where the ball is to come down, over
    the height `apex`; height: at which to hit it.
    """

    hit: jax.Array
    place: Vector
    target: Vector
    apex: jax.Array
    height: jax.Array


class Strike(NamedTuple):
    """A hit to come: in so many seconds the drone is to be at the place with the velocity there,
    its racket along the normal."""

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
    """Acceleration towards a place and rest there."""
    away = sub(place, drone.position)
    away = scale(away, jnp.minimum(1.0, FARTHEST / jnp.maximum(norm(away), 1e-3)))
    wanted = tuple(
        PLACE_GAIN * x - SPEED_GAIN * v for x, v in zip(away, drone.velocity, strict=True)
    )
    flat = wanted[:-1]
    flat = scale(flat, jnp.minimum(1.0, AROUND / jnp.maximum(norm(flat), 1e-3)))
    return (*flat, jnp.clip(wanted[-1], -DOWNWARDS, UPWARDS))


def swinging(body: ModuleType, drone: Any, hit: Strike) -> Vector:
    """How fast the racket's normal is to turn on the way to a hit, 1/s.

    The jerk now of the path of fifth degree from the drone's place, velocity and acceleration to
    those of the hit, where a drone tilted along the normal keeps its height; divided by the thrust,
    for it is the normal's turning that changes the acceleration. Shortly before the hit the normal
    is turned to that of the hit and the place let go.
    """
    time = jnp.maximum(hit.seconds, AIM_SECONDS)
    force = body.lift(drone)
    pull = (*(jnp.zeros_like(time) for _ in hit.normal[1:]), GRAVITY)
    now = sub(scale(body.up(drone), force), pull)
    then = sub(scale(hit.normal, GRAVITY / jnp.clip(hit.normal[-1], 0.65, 1.0)), pull)

    def jerk(place, velocity, end, here, speed, start):
        farther = place - here - (speed + start * time / 2) * time
        faster = velocity - speed - start * time
        return (60 * farther / time - 24 * faster) / time**2 + 3 * (end - start) / time

    path = tuple(
        jerk(*x)
        for x in zip(
            hit.place, hit.velocity, then, drone.position, drone.velocity, now, strict=True
        )
    )
    turn = scale(path, 1 / jnp.maximum(force, GRAVITY / 2))
    return select(hit.seconds > AIM_SECONDS, turn, turning(body, drone, hit.normal))


def turning(body: ModuleType, drone: Any, aim: Vector) -> Vector:
    """How fast the racket's normal is to turn towards a direction, 1/s."""
    return scale(sub(aim, body.up(drone)), TILT_GAIN)


def pushing(drone: Any, hit: Strike) -> jax.Array:
    """Upward acceleration now of the path to a hit, linear in time.

    Shortly before the hit the speed alone counts: being early or late by a centimetre does not
    matter at the speed of the ball.
    """
    time = jnp.maximum(hit.seconds, LEAST_SECONDS)
    late = jnp.clip((time - PUSH_SECONDS) / PUSH_SECONDS, 0.0, 1.0)
    farther, now, then = hit.place[-1] - drone.position[-1], drone.velocity[-1], hit.velocity[-1]
    whole = (6 * farther / time - 4 * now - 2 * then) / time
    return late * whole + (1 - late) * (then - now) / time


def scripted(body: ModuleType, sight: Sight, order: Order) -> Vector:
    """The command of the scripted controllers.

    A drone that is to hit does so if it is free to and the ball comes down on its side; else it
    waits at the order's place.
    """
    drone, ball = sight.drone, sight.ball
    hit = strike(ball, order)
    ready = order.hit & sight.free & (hit.place[0] > 0.25)
    rest = going(drone, order.place)
    rest = (*rest[:-1], rest[-1] + GRAVITY)
    aim = scale(rest, 1 / norm(rest))
    turn = select(ready, swinging(body, drone, hit), turning(body, drone, aim))
    level = (*(jnp.zeros_like(lift) for lift in rest[1:]), jnp.ones_like(rest[-1]))
    turn = select(body.up(drone)[-1] > STEEPEST, turn, turning(body, drone, level))
    lift = jnp.where(ready, pushing(drone, hit) + GRAVITY, rest[-1])
    return body.command_for(drone, turn, lift / jnp.maximum(body.up(drone)[-1], 0.5))


def in_use(sight: Sight, order: Order) -> jax.Array:
    """The skill that a drone is at, i32: 1, hitting, if it is told to, free to, and the ball comes
    down on its side; else 0, going to the place.
    """
    coming = strike(sight.ball, order).place[0] > 0.25
    return (order.hit & sight.free & coming).astype(jnp.int32)


def features(body: ModuleType, sight: Sight, order: Order) -> list[jax.Array]:
    """What a learnt controller sees of one drone and its order: 37 numbers, 19 in the plane.

    The drone's own 23 (9), then the ball, its velocity, the order's place and target relative to
    the drone, and how far below the order's apex and height it is.
    """
    drone, ball = sight.drone, sight.ball
    here = drone.position
    near = [x for place in (ball.position, order.place, order.target) for x in sub(place, here)]
    own = body.own_features(drone)
    return [*own, *near, *ball.velocity, order.apex - here[-1], order.height - here[-1]]
