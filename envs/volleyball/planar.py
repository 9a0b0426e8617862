"""`envs.volleyball.quadrotor` in a plane: two rotors, one angle, the same functions.

Position and velocity have components x and z. attitude: (angle,), the tilt towards x, so that the
body's up is (sin, cos). spin: (rate,). throttle: (back, front), by x; the front one lifts the front
and tilts backwards. The maximal thrust is 1.61 times the weight; the arm is 0.17 m.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.volleyball.quadrotor import GRAVITY, MASS
from envs.volleyball.vectors import Vector, along, dot, scale, turned

INERTIA = 0.0459
ARM = 0.17
ROTOR_THRUST = 2 * 8.54858e-6 * 838.0**2  # Newton, maximum of one rotor.
RATE, RATE_GAIN = 8.0, 14.0
COMMANDS = ("thrust", "pitch rate")
ROTORS = 2
HOVER_THROTTLE = float(np.sqrt(MASS * GRAVITY / (2 * ROTOR_THRUST)))


class Drone(NamedTuple):
    """position, velocity: 2. attitude, spin: 1. throttle: 2, in [0, 1]."""

    position: Vector
    velocity: Vector
    attitude: Vector
    spin: Vector
    throttle: Vector


def hovering(position: Vector) -> Drone:
    """A level drone at rest at (x, z) in m, with the throttle that carries its weight."""
    zero = jnp.zeros_like(position[0])
    throttle = (zero + HOVER_THROTTLE,) * ROTORS
    return Drone(position, (zero, zero), (zero,), (zero,), throttle)


def tilted(drone: Drone, normal: Vector) -> Drone:
    """A level drone with its racket's normal along a unit vector that points up."""
    return drone._replace(attitude=(jnp.arctan2(normal[0], normal[1]),))


def up(drone: Drone) -> Vector:
    """The racket's normal and the direction of thrust."""
    return (jnp.sin(drone.attitude[0]), jnp.cos(drone.attitude[0]))


def swing(drone: Drone) -> Vector:
    """Angular speed of the racket's normal, 1/s."""
    return scale(_front(drone), drone.spin[0])


def _front(drone: Drone) -> Vector:
    return (jnp.cos(drone.attitude[0]), -jnp.sin(drone.attitude[0]))


def step(drone: Drone, rotor: Vector, dt: float, motor_lag: float) -> Drone:
    """The drone dt seconds later under per-rotor commands in [-1, 1], which are clipped."""
    throttle = tuple(
        t + motor_lag * (jnp.sqrt(jnp.clip((a + 1) / 2, 0.0, 1.0)) - t)
        for t, a in zip(drone.throttle, rotor, strict=True)
    )
    back, front = (t * t * ROTOR_THRUST for t in throttle)
    velocity = along(drone.velocity, up(drone), (back + front) * (dt / MASS))
    velocity = (velocity[0], velocity[1] - GRAVITY * dt)
    spin = drone.spin[0] + (back - front) * (ARM * dt / INERTIA)
    return Drone(
        along(drone.position, velocity, dt),
        velocity,
        (drone.attitude[0] + spin * dt,),
        (spin,),
        throttle,
    )


def rotors_of(drone: Drone, command: Vector) -> Vector:
    """Per-rotor commands for thrust and rate, each in [-1, 1] and clipped."""
    thrust, rate = (jnp.clip(c, -1.0, 1.0) for c in command)
    turn = INERTIA * RATE_GAIN * (RATE * rate - drone.spin[0]) / (ARM * ROTOR_THRUST)
    return (thrust + turn, thrust - turn)


def lift(drone: Drone) -> jax.Array:
    """Thrust per unit of mass, m/s^2."""
    return sum(t * t for t in drone.throttle) * (ROTOR_THRUST / MASS)


def command_for(drone: Drone, turn: Vector, thrust: jax.Array) -> Vector:
    """The command for a change of the racket's normal, 1/s, and a thrust per unit of mass,
    m/s^2."""
    collective = thrust * (MASS / ROTOR_THRUST) - 1
    rate = dot(turn, _front(drone)) / RATE
    return (jnp.clip(collective, -1.0, 0.8), jnp.clip(rate, -1.0, 1.0))


def racket(drone: Drone, offset: Vector) -> tuple[jax.Array, Vector, jax.Array, jax.Array]:
    """As for the quadrotor; the place has one component."""
    x = dot(offset, _front(drone))
    return dot(offset, up(drone)), (x,), -drone.spin[0] * x, x * x * (1 / INERTIA)


def pushed(drone: Drone, normal: Vector, impulse: jax.Array, place: Vector) -> Drone:
    """The drone after an impulse (N s) against its racket's normal at a place on it."""
    return drone._replace(
        velocity=along(drone.velocity, normal, -impulse / MASS),
        spin=(drone.spin[0] + impulse * place[0] * (1 / INERTIA),),
    )


def from_across(drone: Drone) -> Drone:
    """The drone as seen by the other side: mirrored, front and back changed."""
    return Drone(
        turned(drone.position, -1),
        turned(drone.velocity, -1),
        (-drone.attitude[0],),
        (-drone.spin[0],),
        drone.throttle[::-1],
    )


def features(drone: Drone) -> list[jax.Array]:
    """7 numbers: position, up, velocity, spin."""
    return [*drone.position, *up(drone), *drone.velocity, *drone.spin]


def own_features(drone: Drone) -> list[jax.Array]:
    """9 numbers: those of `features`, throttle from -1 to 1."""
    return [*features(drone), *(2 * t - 1 for t in drone.throttle)]
