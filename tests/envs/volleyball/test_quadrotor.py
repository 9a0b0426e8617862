"""The drones, in space and in the plane: recorded trajectories, free fall, symmetry, commands.

`drone_physics.npz` holds trajectories at 50 Hz with a motor lag of 0.43 a step, computed in float64
with numpy from the equations in `envs.volleyball.quadrotor`, written independently. Rows are
position 3, attitude 4, velocity 3, spin 3, throttle 4; row 0 is the start.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envs.volleyball import planar, quadrotor

DATA = np.load(pathlib.Path(__file__).parents[2] / "data" / "drone_physics.npz")
FLIGHTS = tuple(name.removesuffix("/cmds") for name in DATA if name.endswith("/cmds"))
DT, STEPS = 0.02, 50
BODIES = pytest.mark.parametrize("body", [quadrotor, planar], ids=["space", "plane"])


def drone_of(row):
    row = tuple(jnp.asarray(row, jnp.float32))
    return quadrotor.Drone(row[:3], row[7:10], row[3:7], row[10:13], row[13:])


def row_of(drone):
    parts = (drone.position, drone.attitude, drone.velocity, drone.spin, drone.throttle)
    return jnp.stack([number for part in parts for number in part])


@functools.cache
def flight(body):
    """Drones after each of the rotor commands [T, rotors]."""

    def fly(drone, commands):
        def step(drone, command):
            drone = body.step(drone, tuple(command), DT, 0.43)
            return drone, drone

        return jax.lax.scan(step, drone, commands)[1]

    return jax.jit(fly)


def disturbed(body, seed=0):
    """A drone in mid-air with everything in motion, float32 scalars."""
    rng = np.random.default_rng(seed)
    drone = body.hovering(tuple(jnp.zeros(len(body.COMMANDS) // 2 + 1)))
    drone = jax.tree.map(lambda x: x + np.float32(0.3 * rng.normal()), drone)
    if body is quadrotor:
        size = np.sqrt(sum(float(x) ** 2 for x in drone.attitude))
        drone = drone._replace(attitude=tuple(x / size for x in drone.attitude))
    return drone._replace(throttle=tuple(jnp.clip(t, 0.0, 1.0) for t in drone.throttle))


def commands_of(body, seed=1):
    return np.random.default_rng(seed).uniform(-1.2, 1.2, (STEPS, body.ROTORS)).astype(np.float32)


@pytest.mark.parametrize("name", FLIGHTS)
def test_recorded_flights(name):
    states, commands = DATA[f"{name}/states"], DATA[f"{name}/cmds"]
    flown = jax.vmap(row_of)(flight(quadrotor)(drone_of(states[0]), commands))
    np.testing.assert_allclose(flown, states[1:], atol=1e-4)


def test_attitude_stays_a_unit_quaternion():
    flown = flight(quadrotor)(disturbed(quadrotor), commands_of(quadrotor))
    size = sum(np.asarray(x, np.float64) ** 2 for x in flown.attitude)
    np.testing.assert_allclose(size, 1, atol=1e-6)
    for axis in (quadrotor.up(flown), quadrotor.heading(flown)):
        np.testing.assert_allclose(sum(x * x for x in axis), 1, atol=1e-5)


@BODIES
def test_without_thrust_energy_is_kept(body):
    """Height is bounded by the step's error, g^2 dt t / 2; spinning energy stays up to O(dt)."""
    drone = disturbed(body)._replace(throttle=(jnp.float32(0),) * body.ROTORS)
    flown = flight(body)(drone, np.full((STEPS, body.ROTORS), -1, np.float32))

    def energy(d):
        moving = sum(v * v for v in d.velocity) / 2
        inertia = np.atleast_1d(body.INERTIA)
        return moving + 9.81 * d.position[-1], sum(
            i * w * w for i, w in zip(inertia, d.spin, strict=True)
        )

    (linear, turning), (linear_after, turning_after) = energy(drone), energy(flown)
    seconds = DT * np.arange(1, STEPS + 1)
    np.testing.assert_allclose(linear_after - linear, -(9.81**2) * DT * seconds / 2, atol=1e-3)
    np.testing.assert_allclose(turning_after, turning, rtol=0.02)


def half_turned(drone):
    return quadrotor.from_across(drone)


def mirrored(drone):
    """In the plane y = 0, in space: rotors right and left change, pseudovectors keep their y."""
    w, x, y, z = drone.attitude
    p, q, r = drone.spin
    flip = lambda v: (v[0], -v[1], v[2])  # noqa: E731
    return quadrotor.Drone(
        flip(drone.position),
        flip(drone.velocity),
        (w, -x, y, -z),
        (-p, q, -r),
        tuple(drone.throttle[i] for i in (2, 3, 0, 1)),
    )


@pytest.mark.parametrize(
    ("body", "change", "rotors"),
    [
        (quadrotor, half_turned, (0, 1, 2, 3)),
        (quadrotor, mirrored, (2, 3, 0, 1)),
        (planar, planar.from_across, (1, 0)),
    ],
    ids=["half turn", "mirror", "mirror in the plane"],
)
def test_symmetries(body, change, rotors):
    """A flight that is turned or mirrored is the flight of the turned or mirrored start."""
    commands = commands_of(body)
    flown = change(flight(body)(disturbed(body), commands))
    other = flight(body)(change(disturbed(body)), commands[:, list(rotors)])
    for one, two in zip(jax.tree.leaves(flown), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-5)


def test_looking_from_across_twice_changes_nothing():
    drone = disturbed(quadrotor)
    twice = quadrotor.from_across(quadrotor.from_across(drone))
    # The same rotation by the other of its two quaternions.
    np.testing.assert_array_equal(quadrotor.features(twice), quadrotor.features(drone))


def test_thrust_weighs_1_61():
    assert 4 * quadrotor.ROTOR_THRUST / (1.52 * 9.81) == pytest.approx(1.610, abs=5e-4)
    assert 2 * planar.ROTOR_THRUST == pytest.approx(4 * quadrotor.ROTOR_THRUST)
    assert quadrotor.HOVER_THROTTLE == pytest.approx(0.78802, abs=1e-5)
    # The motors' lag that HCSP has at 50 Hz and keeps, by mistake, at 100 Hz.
    assert quadrotor.lag(0.02) == pytest.approx(0.43, abs=2e-3)


@BODIES
def test_rates_are_reached_and_thrust_is_collective(body):
    """Two seconds of a constant command: the spin is the one asked for, and the thrust's sum."""
    asked = (0.2, 0.25, -0.25, 0.3) if body is quadrotor else (0.2, 0.25)
    zero = jnp.zeros(3 if body is quadrotor else 2)

    def step(drone, _):
        rotors = body.rotors_of(drone, tuple(map(jnp.float32, asked)))
        return body.step(drone, rotors, 0.01, quadrotor.lag(0.01)), None

    drone, _ = jax.jit(lambda d: jax.lax.scan(step, d, length=200))(body.hovering(tuple(zero)))
    wanted = np.atleast_1d(body.RATE) * asked[1:]
    np.testing.assert_allclose(drone.spin, wanted, rtol=0.05)
    thrust = sum(float(t) ** 2 for t in drone.throttle) / body.ROTORS
    assert thrust == pytest.approx((asked[0] + 1) / 2, abs=0.02)


@BODIES
def test_no_rate_command_is_needed_for_hovering(body):
    drone = body.hovering(tuple(jnp.zeros(3 if body is quadrotor else 2)))
    still = tuple(jnp.zeros(()) for _ in drone.position)
    rotors = body.rotors_of(drone, body.command_for(drone, still, jnp.float32(9.81)))
    # HCSP's hovering command.
    np.testing.assert_allclose(rotors, 0.24194, atol=1e-4)
