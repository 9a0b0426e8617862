"""A rigid-body quadrotor with first-order motors, and the controller of its body rates.

Components are arrays of any shape (`envs.volleyball.vectors`): the position and velocity in the
world, the attitude as a unit quaternion w, x, y, z from body to world, the spin in the body.

    throttle' = throttle + lag (sqrt((rotor + 1) / 2) - throttle),  f_i = throttle_i'^2 f_max
    v' = v + dt (R e_z sum(f) / m - g e_z),                         p' = p + dt v'
    w' = w + dt I^-1 (tau(f) - w x I w),                            q' = q * exp(w' dt / 2)

Constants of the PX4 Iris in thu-uav/HCSP (read). Its drag is multiplied by zero there and left out
here, as are downwash and collisions of drones. Its motors have lag 0.43 per step for any step size;
here the lag follows from the time constant that this implies at 50 Hz. Its rotor angles are given
in a frame turned by a quarter; equal thrust holds level only in the classical layout used here.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.volleyball.vectors import Vector, along, dot, scale, turned

GRAVITY = 9.81
MASS = 1.52
INERTIA = (0.0347563, 0.0458929, 0.0977)
ROTOR_THRUST = (
    8.54858e-6 * 838.0**2
)  # Newton, maximum of one rotor; four are 1.61 times the weight.
ROTOR_X = (0.13, -0.13, 0.13, -0.13)
ROTOR_Y = (-0.22, 0.20, 0.22, -0.20)
ROTOR_TURN = (1.0, 1.0, -1.0, -1.0)
TORQUE_PER_THRUST = 0.016
MOTOR_SECONDS = 0.0356
# Commands by rates: the rates of -1 and 1, rad/s, and the controller's gains, 1/s.
RATE = (8.0, 8.0, 3.0)
RATE_GAIN = (14.0, 14.0, 4.0)
YAW_GAIN = 2.0
COMMANDS = ("thrust", "roll rate", "pitch rate", "yaw rate")
ROTORS = 4
# Rows: sum, torque about x, y, z, of the rotors' thrusts.
MIXER = np.array(
    [
        np.ones(4),
        ROTOR_Y,
        -np.array(ROTOR_X),
        -TORQUE_PER_THRUST * np.array(ROTOR_TURN),
    ]
)
_UNMIX = np.linalg.inv(MIXER)
HOVER_THROTTLE = float(np.sqrt(MASS * GRAVITY / (4 * ROTOR_THRUST)))


class Drone(NamedTuple):
    """position, velocity: 3. attitude: 4. spin: 3, rad/s in the body. throttle: 4, in [0, 1]."""

    position: Vector
    velocity: Vector
    attitude: Vector
    spin: Vector
    throttle: Vector


def hovering(position: Vector) -> Drone:
    """A drone at rest with its heading along x."""
    zero = jnp.zeros_like(position[0])
    one = jnp.ones_like(position[0])
    rest = (zero, zero, zero)
    return Drone(position, rest, (one, zero, zero, zero), rest, (one * HOVER_THROTTLE,) * ROTORS)


def tilted(drone: Drone, normal: Vector) -> Drone:
    """A level drone with its racket's normal along a unit vector that points up."""
    # The half-way rotation from e_z: w = 1 + n_z, axis e_z x n, normalised.
    turn = (1 + normal[2], -normal[1], normal[0], jnp.zeros_like(normal[0]))
    return drone._replace(attitude=scale(turn, jax.lax.rsqrt(dot(turn, turn))))


def lag(dt: float) -> float:
    """Fraction of the way to its target that a motor covers in dt seconds."""
    return 1.0 - float(np.exp(-dt / MOTOR_SECONDS))


def up(drone: Drone) -> Vector:
    """The body's z-axis in the world: the racket's normal and the direction of thrust."""
    w, x, y, z = drone.attitude
    return (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))


def swing(drone: Drone) -> Vector:
    """Angular speed of the racket's normal, 1/s."""
    roll, pitch, _ = drone.spin
    return along(scale(heading(drone), pitch), _left(drone), -roll)


def heading(drone: Drone) -> Vector:
    """The body's x-axis in the world."""
    w, x, y, z = drone.attitude
    return (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y))


def _left(drone: Drone) -> Vector:
    w, x, y, z = drone.attitude
    return (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x))


def step(drone: Drone, rotor: Vector, dt: float, motor_lag: float) -> Drone:
    """The drone dt seconds later under per-rotor commands in [-1, 1], which are clipped."""
    throttle = tuple(
        t + motor_lag * (jnp.sqrt(jnp.clip((a + 1) / 2, 0.0, 1.0)) - t)
        for t, a in zip(drone.throttle, rotor, strict=True)
    )
    thrust = tuple(t * t * ROTOR_THRUST for t in throttle)
    total, *torque = (_mixed(row, thrust) for row in MIXER)
    velocity = along(drone.velocity, up(drone), total * (dt / MASS))
    velocity = (*velocity[:2], velocity[2] - GRAVITY * dt)
    position = along(drone.position, velocity, dt)
    gyro = _gyroscopic(drone.spin)
    spin = tuple(
        w + (t - h) * (dt / i) for w, t, h, i in zip(drone.spin, torque, gyro, INERTIA, strict=True)
    )
    return Drone(position, velocity, _turned_by(drone.attitude, spin, dt), spin, throttle)


def rotors_of(drone: Drone, command: Vector) -> Vector:
    """Per-rotor commands for collective thrust and body rates, each in [-1, 1] and clipped.

    tau = I K (w* - w) + w x I w, spread over the rotors by the mixer's inverse; -1 and 1 stand for
    zero and maximal thrust in the first, minus and plus `RATE` in the others.
    """
    thrust, *rates = (jnp.clip(c, -1.0, 1.0) for c in command)
    gyro = _gyroscopic(drone.spin)
    torque = [
        i * gain * (limit * rate - w) + h
        for i, gain, limit, rate, w, h in zip(
            INERTIA, RATE_GAIN, RATE, rates, drone.spin, gyro, strict=True
        )
    ]
    wrench = ((thrust + 1) * (ROTORS * ROTOR_THRUST / 2), *torque)
    return tuple(_mixed(row * (2 / ROTOR_THRUST), wrench) - 1 for row in _UNMIX)


def lift(drone: Drone) -> jax.Array:
    """Thrust per unit of mass, m/s^2."""
    return sum(t * t for t in drone.throttle) * (ROTOR_THRUST / MASS)


def command_for(drone: Drone, turn: Vector, thrust: jax.Array) -> Vector:
    """The command by rates for a change of the racket's normal, a vector in the world, 1/s.

    thrust: m/s^2 per unit of mass, along the normal. The heading is turned towards x.
    """
    collective = thrust * (2 * MASS / (ROTORS * ROTOR_THRUST)) - 1
    front = heading(drone)
    rates = (-dot(turn, _left(drone)), dot(turn, front), -YAW_GAIN * front[1])
    rates = (jnp.clip(r / m, -1.0, 1.0) for r, m in zip(rates, RATE, strict=True))
    return (jnp.clip(collective, -1.0, 0.8), *rates)


def racket(drone: Drone, offset: Vector) -> tuple[jax.Array, Vector, jax.Array, jax.Array]:
    """Position of a point at `offset` from the drone relative to the racket, the disc across its
    z-axis.

    Returns (height over the disc, place on the disc in the body (2), speed of the disc there along
    its normal due to spin, and contribution of the rotation to the inverse mass there, 1/kg).
    """
    place = (dot(offset, heading(drone)), dot(offset, _left(drone)))
    x, y = place
    rim = drone.spin[0] * y - drone.spin[1] * x
    softness = y * y * (1 / INERTIA[0]) + x * x * (1 / INERTIA[1])
    return dot(offset, up(drone)), place, rim, softness


def pushed(drone: Drone, normal: Vector, impulse: jax.Array, place: Vector) -> Drone:
    """The drone after an impulse (N s) against its racket's normal at a place on the disc."""
    x, y = place
    turn = (-y * (1 / INERTIA[0]), x * (1 / INERTIA[1]))
    spin = tuple(w + impulse * t for w, t in zip(drone.spin, turn, strict=False))
    return drone._replace(
        velocity=along(drone.velocity, normal, -impulse / MASS), spin=(*spin, drone.spin[2])
    )


def from_across(drone: Drone) -> Drone:
    """The drone as seen by the other side: turned by half a turn about the vertical."""
    w, x, y, z = drone.attitude
    return drone._replace(
        position=turned(drone.position, -1),
        velocity=turned(drone.velocity, -1),
        attitude=(-z, -y, x, w),
    )


def features(drone: Drone) -> list[jax.Array]:
    """13 numbers: position, attitude with w >= 0, velocity, spin."""
    sign = jnp.where(drone.attitude[0] < 0, -1.0, 1.0)
    return [*drone.position, *scale(drone.attitude, sign), *drone.velocity, *drone.spin]


def own_features(drone: Drone) -> list[jax.Array]:
    """23 numbers: those of `features`, heading, up, throttle from -1 to 1."""
    return [*features(drone), *heading(drone), *up(drone), *(2 * t - 1 for t in drone.throttle)]


def _mixed(row: np.ndarray, values: Vector) -> jax.Array:
    return sum(float(weight) * value for weight, value in zip(row, values, strict=True))


def _gyroscopic(spin: Vector) -> Vector:
    """The torque w x I w of a spinning body, N m by body axis. spin: w, rad/s."""
    x, y, z = spin
    ix, iy, iz = INERTIA
    return ((iz - iy) * y * z, (ix - iz) * z * x, (iy - ix) * x * y)


def _turned_by(attitude: Vector, spin: Vector, dt: float) -> Vector:
    """q * exp(w dt / 2), normalised.

    Cosine and sine over angle by their series in the squared half angle: within float32 up to 60
    rad/s at 50 Hz, elementwise without a library call, and no division by zero.
    """
    half = scale(spin, dt / 2)
    square = dot(half, half)
    cosine = 1 - square / 2 * (1 - square / 12 * (1 - square / 30))
    sine = 1 - square / 6 * (1 - square / 20 * (1 - square / 42))
    a, b, c = scale(half, sine)
    w, x, y, z = attitude
    turned_ = (
        w * cosine - x * a - y * b - z * c,
        w * a + x * cosine + y * c - z * b,
        w * b - x * c + y * cosine + z * a,
        w * c + x * b - y * a + z * cosine,
    )
    return scale(turned_, jax.lax.rsqrt(dot(turned_, turned_)))
