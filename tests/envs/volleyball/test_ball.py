"""The ball: recorded flights and bounces, energy, throws that arrive, no tunnelling.

`drone_physics.npz`: see `test_quadrotor`; its bounces are a frictionless impulse between the ball
and a disc with both masses, computed in float64.
"""

import pathlib
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.volleyball import ball as rules
from envs.volleyball import planar, quadrotor
from envs.volleyball.vectors import along, sub

DATA = np.load(pathlib.Path(__file__).parents[2] / "data" / "drone_physics.npz")
CONTACTS = SimpleNamespace(**{n.split("/")[1]: DATA[n] for n in DATA if n.startswith("contacts/")})


def vector(*numbers):
    return tuple(jnp.asarray(number, jnp.float32) for number in numbers)


def columns(array):
    return vector(*np.asarray(array).T)


@pytest.mark.parametrize("number", range(5))
def test_recorded_flights(number):
    exact, stepped = (DATA[f"ball_flight_{number}/{k}"] for k in ("analytic", "semi_implicit"))
    # The first semi-implicit step is p1 - p0 = dt (v0 - g dt e_z).
    velocity = (stepped[1] - stepped[0]) / 0.02 + [0, 0, 9.81 * 0.02]
    ball = rules.Ball(vector(*stepped[0]), vector(*velocity))
    seconds = jnp.arange(51, dtype=jnp.float32) * 0.02
    np.testing.assert_allclose(np.stack(rules.after(ball, seconds).position, 1), exact, atol=1e-4)
    for row in stepped[1:]:
        ball = rules.fly(ball, 0.02)
        np.testing.assert_allclose(ball.position, row, atol=1e-4)


def test_energy_in_flight():
    """Exact on the parabola; stepping loses g^2 dt t / 2 whatever the start."""
    ball = rules.Ball(vector(1.0, 2.0, 3.0), vector(-2.0, 1.0, 6.0))
    energy = lambda b: sum(v * v for v in b.velocity) / 2 + 9.81 * b.position[-1]  # noqa: E731
    later = rules.after(ball, jnp.float32(0.7))
    assert float(energy(later)) == pytest.approx(float(energy(ball)), rel=1e-6)
    stepped = ball
    for _ in range(70):
        stepped = rules.fly(stepped, 0.01)
    lost = 9.81**2 * 0.01 * 0.7 / 2
    assert float(energy(ball) - energy(stepped)) == pytest.approx(lost, rel=1e-2)


def test_recorded_bounces():
    zero = jnp.zeros(20)
    drone = quadrotor.Drone(
        columns(CONTACTS.drone_pos),
        columns(CONTACTS.drone_vel),
        columns(CONTACTS.drone_quat_wxyz),
        columns(CONTACTS.drone_angvel_body),
        (zero,) * 4,
    )
    ball = rules.Ball(columns(CONTACTS.ball_pos), columns(CONTACTS.ball_vel))
    met = rules.bounce(quadrotor, sub(ball.position, drone.position), ball, drone)
    np.testing.assert_array_equal(met.hit, CONTACTS.hit)
    assert 5 < CONTACTS.hit.sum() < 20
    velocity = np.stack(along(ball.velocity, met.normal, met.push), 1)
    np.testing.assert_allclose(velocity, CONTACTS.ball_vel_after, atol=1e-5)
    pushed = quadrotor.pushed(drone, met.normal, met.push * rules.BALL_MASS, met.place)
    np.testing.assert_allclose(np.stack(pushed.velocity, 1), CONTACTS.drone_vel_after, atol=1e-5)
    np.testing.assert_allclose(np.stack(pushed.spin, 1), CONTACTS.drone_angvel_after, atol=1e-5)


@pytest.mark.parametrize("body", [quadrotor, planar], ids=["space", "plane"])
def test_bounces_keep_momentum_and_lose_the_energy_of_restitution(body):
    flat = 3 if body is quadrotor else 2
    drone = body.hovering(vector(*[0.0] * flat))
    drone = drone._replace(velocity=vector(*[0.3] * flat), spin=vector(*[0.5] * len(drone.spin)))
    ball = rules.Ball(vector(*[0.05] * flat), vector(*[-3.0] * flat))
    met = rules.bounce(body, ball.position, ball, drone)
    assert bool(met.hit)
    after = rules.Ball(ball.position, along(ball.velocity, met.normal, met.push))
    pushed = body.pushed(drone, met.normal, met.push * rules.BALL_MASS, met.place)

    def totals(ball, drone):
        inertia = np.atleast_1d(body.INERTIA)
        moving = [
            rules.BALL_MASS * b + 1.52 * d
            for b, d in zip(ball.velocity, drone.velocity, strict=True)
        ]
        energy = rules.BALL_MASS * sum(v * v for v in ball.velocity) / 2
        energy += 1.52 * sum(v * v for v in drone.velocity) / 2
        energy += sum(i * w * w for i, w in zip(inertia, drone.spin, strict=True)) / 2
        return moving, energy

    (momentum, energy), (momentum_after, energy_after) = totals(ball, drone), totals(after, pushed)
    np.testing.assert_allclose(momentum_after, momentum, rtol=1e-6)
    # (1 - e^2) of the energy of approach, s^2 / (2 (1/m_b + 1/m_d + ...)), is lost; s is
    # push (1/m_b + ...) m_b / (1 + e).
    *_, softness = body.racket(drone, ball.position)
    inverse = 1 / rules.BALL_MASS + 1 / 1.52 + float(softness)
    speed = float(met.push) * rules.BALL_MASS * inverse / 1.8
    assert float(energy - energy_after) == pytest.approx(
        0.36 * speed**2 / 2 / inverse, rel=1e-3, abs=2e-6
    )


def test_no_ball_passes_a_racket_unseen():
    """However fast it falls: in one of the steps on its way there is a bounce, at one radius."""
    rng = np.random.default_rng(0)
    cases, steps = 200, 700
    gap, speed = rng.uniform(0.12, 3, (cases, 1)), rng.uniform(1, 60, (cases, 1))
    aside, dt = rng.uniform(-0.15, 0.15, (cases, 1)), rng.uniform(0.005, 0.05, (cases, 1))
    height = gap - speed * dt * np.arange(steps + 1)
    assert np.all(height[:, -1] < 0)
    full = np.broadcast_to(aside, (cases, steps))
    zero = np.zeros((cases, steps))
    drone = quadrotor.hovering(vector(zero, zero, zero))
    ball = rules.Ball(vector(full, zero, height[:, 1:]), vector(zero, zero, zero - speed))
    met = rules.bounce(quadrotor, vector(full, zero, height[:, :-1]), ball, drone)
    # The first one counts: a ball that had bounced would not go on falling through the disc.
    hit = np.asarray(met.hit)
    assert hit.any(1).all()
    first = np.arange(cases), hit.argmax(1)
    where = (height[:, :-1] + (height[:, 1:] - height[:, :-1]) * met.share)[first]
    np.testing.assert_allclose(where, rules.RADIUS, atol=1e-3)
    np.testing.assert_allclose(met.push[first], 1.8 * speed[:, 0], rtol=0.02)


def test_what_does_not_bounce():
    drone = quadrotor.hovering(vector(0.0, 0.0, 0.0))
    for before, after, velocity in (
        ((0.25, 0, 0.15), (0.25, 0, 0.05), (0, 0, -5)),  # beside the disc
        ((0, 0, 0.05), (0, 0, 0.08), (0, 0, 1.5)),  # on its way up
        ((0, 0, -0.15), (0, 0, -0.05), (0, 0, 5)),  # from below
        ((0, 0, 0.5), (0, 0, 0.4), (0, 0, -5)),  # not there yet
    ):
        ball = rules.Ball(vector(*after), vector(*velocity))
        met = rules.bounce(quadrotor, vector(*before), ball, drone)
        assert not bool(met.hit) and float(met.push) == 0
    below = rules.Ball(vector(0, 0, -0.05), vector(0, 0, 5))
    assert bool(rules.is_touching_body(quadrotor, below, drone))
    assert not bool(rules.is_touching_body(quadrotor, ball, drone))


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[st.floats(-5, 5)] * 2), st.tuples(*[st.floats(-5, 5)] * 2), st.floats(2.5, 8))
def test_throws_arrive(start, target, apex):
    start, target = vector(*start, 1.5), vector(*target, 0.2)
    ball = rules.Ball(start, rules.thrown(start, target, jnp.float32(apex)))
    landed = rules.after(ball, rules.seconds_to(ball, target[-1]))
    np.testing.assert_allclose(landed.position, target, atol=1e-3)
    top = rules.after(ball, ball.velocity[-1] / 9.81)
    assert float(top.position[-1]) == pytest.approx(apex, abs=1e-3)
