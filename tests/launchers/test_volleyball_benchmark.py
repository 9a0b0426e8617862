"""The two layouts of volleyball's step: equal results, and the suite that times them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.volleyball import quadrotor
from launchers import benchmark
from launchers.benchmarks import drone_structs, timing, volleyball


def test_structs_and_components_are_the_same_physics_and_rules():
    """150 control steps of 16 serves that are hit by hovering drones, with small random rates."""
    env, params = envs.make("Volleyball-v1", actions="rates")
    batch, steps = 16, 150
    keys = jax.random.split(jax.random.key(0), batch)
    match = jax.vmap(lambda key: env.initial(key, params).match, out_axes=-1)(keys)
    structs = jax.vmap(drone_structs.of_match, in_axes=-1)(match)
    weight = 2 * 9.81 * quadrotor.MASS / (4 * quadrotor.ROTOR_THRUST) - 1
    commands = np.random.default_rng(0).uniform(-0.05, 0.05, (steps, 4, 2, batch)) + weight
    commands[:, 1:] -= weight
    commands = np.float32(commands)

    @jax.jit
    def play(match, structs):
        def step(carry, command):
            match, structs = carry
            other = jax.vmap(drone_structs.tick, in_axes=(0, -1, None))(
                structs, jnp.moveaxis(command, 0, 1), env.game.court
            )
            match = env.tick(match, tuple(command))
            return (match, other), (match.hit, jnp.swapaxes(other.hit, 0, 1))

        return jax.lax.scan(step, (match, structs), commands)

    (match, structs), hits = play(match, structs)
    expected = jax.vmap(drone_structs.of_match, in_axes=-1)(match)
    np.testing.assert_array_equal(*hits)
    assert hits[0].any()
    for name, one, two in zip(expected._fields, expected, structs, strict=True):
        # Three seconds of two programs that round differently.
        np.testing.assert_allclose(two, one, rtol=1e-3, atol=2e-3, err_msg=name)
    seen = jax.vmap(drone_structs.features)(expected)
    np.testing.assert_allclose(
        np.moveaxis(volleyball.components(env, match), (0, 1, 2), (2, 1, 0)), seen, atol=1e-5
    )


@pytest.mark.long
def test_the_suite_runs_all_layouts():
    plan = timing.Plan(rounds=2, sample_seconds=0.0)
    result = volleyball.run(
        plan, batches=(4,), teams=("1v1",), games=("plane",), length=8, episodes=8
    )
    assert [row["name"] for row in result["rows"]] == list(volleyball.LAYOUTS)
    assert all(row["work"] == 32 and row["rate"] > 0 for row in result["rows"])
    (rally,) = result["rallies"]
    assert rally["hits"] > 2 and rally["crossings"] > 1
    for row in result["skills"]:
        assert row["low"] - 1e-9 <= row["success"] <= row["high"] + 1e-9
    assert "structs" in volleyball.report(result) and "volleyball" in benchmark.SUITES
