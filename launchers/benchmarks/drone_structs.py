"""Volleyball's control step in the straightforward layout: arrays of structs, vectors as last axis.

The same equations as `envs.volleyball.rules.tick` and the modules that it calls, for one match with
commands by rates; batches are made by vmap. It serves as a comparison: equal results (tested),
slower on a CPU.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from envs.volleyball import ball as balls
from envs.volleyball import quadrotor, rules
from envs.volleyball.quadrotor import GRAVITY, INERTIA, MASS, MIXER, RATE, RATE_GAIN, ROTOR_THRUST

_DT = rules.STEP_SECONDS / rules.SUBSTEPS


class Structs(NamedTuple):
    """A match as arrays of structs.

    Drones' position, velocity, spin [D, 3], attitude, throttle [D, 4]; ball position and velocity
    [3]. The other fields are those of `Match`.
    """

    position: jax.Array
    velocity: jax.Array
    attitude: jax.Array
    spin: jax.Array
    throttle: jax.Array
    ball: jax.Array
    ball_velocity: jax.Array
    touched: jax.Array
    rest: jax.Array
    last: jax.Array
    served: jax.Array
    lost: jax.Array
    hit: jax.Array
    crossed: jax.Array
    hits: jax.Array
    ticks: jax.Array


def of_match(match: rules.Match) -> Structs:
    """The structs of a match without batch axes."""
    parts = [jnp.stack(part, axis=-1) for part in match.drones]
    position, velocity, attitude, spin, throttle = parts
    ball, ball_velocity = (jnp.stack(part) for part in match.ball)
    return Structs(position, velocity, attitude, spin, throttle, ball, ball_velocity, *match[2:])


def tick(state: Structs, command: jax.Array, court: rules.Court) -> Structs:
    """One control step; command f32[D, 4]."""
    state = state._replace(
        rest=state.rest + 1,
        hit=jnp.zeros_like(state.hit),
        crossed=jnp.zeros_like(state.crossed),
        ticks=state.ticks + 1,
    )
    for _ in range(rules.SUBSTEPS):
        state = _substep(state, command)
    return state._replace(
        lost=state.lost | _by_drones(state, court) | _by_ball(state, court),
        hits=state.hits + jnp.sum(state.hit, dtype=jnp.int32),
    )


def _rotation(attitude: jax.Array) -> jax.Array:
    """[D, 3, 3], body to world."""
    w, x, y, z = jnp.moveaxis(attitude, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


def _fly(state: Structs, command: jax.Array) -> Structs:
    inertia = jnp.array(INERTIA)
    command = jnp.clip(command, -1.0, 1.0)
    gyro = jnp.cross(state.spin, inertia * state.spin)
    wanted = jnp.array(RATE) * command[:, 1:] - state.spin
    torque = inertia * jnp.array(RATE_GAIN) * wanted + gyro
    wrench = jnp.concatenate([(command[:, :1] + 1) * (2 * ROTOR_THRUST), torque], -1)
    rotors = wrench @ jnp.linalg.inv(MIXER).T * (2 / ROTOR_THRUST) - 1
    target = jnp.sqrt(jnp.clip((rotors + 1) / 2, 0.0, 1.0))
    throttle = state.throttle + quadrotor.lag(_DT) * (target - state.throttle)
    thrust = throttle**2 * ROTOR_THRUST
    wrench = thrust @ jnp.asarray(MIXER, jnp.float32).T
    up = _rotation(state.attitude)[..., 2]
    pull = jnp.array([0.0, 0.0, GRAVITY])
    velocity = state.velocity + _DT * (up * wrench[:, :1] / MASS - pull)
    spin = state.spin + _DT * (wrench[:, 1:] - gyro) / inertia
    angle = jnp.linalg.norm(spin, axis=-1, keepdims=True) * _DT
    axis = spin / jnp.maximum(angle / _DT, 1e-9)
    turn = jnp.concatenate([jnp.cos(angle / 2), axis * jnp.sin(angle / 2)], -1)
    w, v = state.attitude[:, :1], state.attitude[:, 1:]
    a, b = turn[:, :1], turn[:, 1:]
    real = w * a - jnp.sum(v * b, -1, keepdims=True)
    attitude = jnp.concatenate([real, w * b + a * v + jnp.cross(v, b)], -1)
    return state._replace(
        position=state.position + _DT * velocity,
        velocity=velocity,
        attitude=attitude / jnp.linalg.norm(attitude, axis=-1, keepdims=True),
        spin=spin,
        throttle=throttle,
    )


def _substep(state: Structs, command: jax.Array) -> Structs:
    half = state.hit.shape[0] // 2
    side = jnp.repeat(jnp.array([1.0, -1.0]), half)[:, None]
    sides = jnp.concatenate([side, side, jnp.ones_like(side)], -1)
    flown = _fly(state, command)
    falling = state.ball_velocity - _DT * jnp.array([0.0, 0.0, GRAVITY])
    ball = state.ball + _DT * falling
    frame = _rotation(flown.attitude)
    normal = frame[..., 2]
    before, now = sides * state.ball - state.position, sides * ball - flown.position
    high, low = jnp.sum(before * normal, -1), jnp.sum(now * normal, -1)
    share = jnp.clip((high - balls.RADIUS) / jnp.maximum(high - low, 1e-6), 0.0, 1.0)
    met = before + (now - before) * share[:, None]
    place = jnp.einsum("dij,di->dj", frame, met)
    height, place = place[:, 2], place[:, :2]
    rim = flown.spin[:, 0] * place[:, 1] - flown.spin[:, 1] * place[:, 0]
    arm = jnp.stack([place[:, 1], -place[:, 0]], -1)
    softness = jnp.sum(arm**2 / jnp.array(INERTIA[:2]), -1)
    approach = rim - jnp.sum((sides * falling - flown.velocity) * normal, -1)
    inside = jnp.sum(place**2, -1) <= balls.RACKET**2
    over = (height >= 0) & (height <= balls.RADIUS + 1e-4) & (low <= balls.RADIUS)
    met_any = over & inside & (approach > 0)
    inverse = 1 + balls.BALL_MASS / MASS + balls.BALL_MASS * softness
    push = jnp.where(met_any, (1 + balls.RESTITUTION) * approach / inverse, 0.0)
    first = jnp.where(met_any, share, 2.0)
    hit = met_any & (first == jnp.min(first))
    push = push * hit / jnp.maximum(jnp.sum(hit), 1)
    change = jnp.sum(sides * normal * push[:, None], 0)
    left = _DT * jnp.sum((1 - share) * (push > 0))
    under = jnp.einsum("dij,di->dj", frame, now)
    beneath = (under[:, 2] < 0) & (under[:, 2] > -balls.RADIUS)
    beneath &= jnp.sum(under[:, :2] ** 2, -1) <= balls.RACKET**2
    impulse = push * balls.BALL_MASS
    counted = hit & (state.rest > rules.SAME_TOUCH)
    fault = counted & state.touched
    fault |= beneath & ~hit & (state.rest > rules.SAME_TOUCH)
    struck = ball + left * change
    crossed = (state.ball[0] > 0) != (struck[0] > 0)
    teams = _of_teams(counted)
    turned = jnp.concatenate([-impulse[:, None] * arm / jnp.array(INERTIA[:2])], -1)
    return flown._replace(
        velocity=flown.velocity - normal * (impulse / MASS)[:, None],
        spin=flown.spin.at[:, :2].add(turned),
        ball=struck,
        ball_velocity=falling + change,
        touched=(state.touched | counted) & ~crossed,
        rest=jnp.where(hit, 0, state.rest),
        last=jnp.where(teams[0], 0, jnp.where(teams[1], 1, state.last)),
        served=state.served | jnp.any(counted),
        lost=state.lost | _of_teams(fault),
        hit=state.hit | counted,
        crossed=state.crossed | crossed,
    )


def _of_teams(faults: jax.Array) -> jax.Array:
    return jnp.any(faults.reshape(2, -1), axis=1)


def _by_drones(state: Structs, court: rules.Court) -> jax.Array:
    return _of_teams(
        (state.position[:, 2] < court.ground) | (state.position[:, 0] < court.clearance)
    )


def _by_ball(state: Structs, court: rules.Court) -> jax.Array:
    x, y, height = state.ball
    wide, down = jnp.abs(y) > court.width, height < court.ground
    inside = down & ~wide & (jnp.abs(x) <= court.length)
    net = (jnp.abs(x) < court.reach) & ~wide & (height < court.net)
    fault = (down & ~inside) | (net & ~inside)
    return (inside & jnp.stack([x > 0, x <= 0])) | (fault & (state.last == jnp.arange(2)))


def features(state: Structs) -> jax.Array:
    """Observation of one match for a small policy shared by all drones, f32[D, 19]: see the
    benchmark."""
    half = state.hit.shape[0] // 2
    side = jnp.repeat(jnp.array([1.0, -1.0]), half)[:, None]
    sides = jnp.concatenate([side, side, jnp.ones_like(side)], -1)
    ball = sides * state.ball - state.position
    own = [state.position, state.attitude, state.velocity, state.spin]
    return jnp.concatenate([*own, ball, sides * state.ball_velocity], -1)
