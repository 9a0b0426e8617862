"""Nash mixtures of symmetric games, against worked games and the linear program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.selfplay import meta
from agentrl.selfplay.mixture import nash_mixture

solve = jax.jit(nash_mixture)


def test_worked_games():
    # Rock, paper, scissors.
    rps = jnp.array([[0.5, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]])
    np.testing.assert_allclose(solve(rps), 1 / 3, atol=1e-6)
    # The same circle with payoffs 1/4, 1/2 and 1/4: each has the weight of the pair without it.
    wins = jnp.array([[0.5, 0.25, 1.0], [0.75, 0.5, 0.25], [0.0, 0.75, 0.5]])
    np.testing.assert_allclose(solve(wins), [1 / 4, 1 / 2, 1 / 4], atol=0.02)
    longer = nash_mixture(wins, iterations=10_000)
    np.testing.assert_allclose(longer, [1 / 4, 1 / 2, 1 / 4], atol=5e-3)
    # One beats all.
    np.testing.assert_allclose(solve(jnp.array([[0.5, 0.4], [0.6, 0.5]])), [0, 1], atol=1e-2)


@pytest.mark.parametrize("size", [2, 5, 16])
def test_nobody_gains_more_than_a_little(size):
    random = np.random.default_rng(size)
    for _ in range(20):
        rates = random.uniform(size=(size, size))
        game = (rates - rates.T) / 2
        mixture = np.asarray(solve(jnp.asarray(rates, jnp.float32)))
        assert mixture.min() >= 0
        np.testing.assert_allclose(mixture.sum(), 1, rtol=1e-5)
        assert (game @ mixture).max() < 0.01
        # The linear program says that the value is 0, too.
        exact = meta.nash(np.stack([game, -game])).sum(axis=1)
        assert abs(exact @ game @ mixture) < 0.01


def test_members_that_there_are_not_are_not_read():
    rates = np.random.default_rng(0).uniform(size=(4, 4)).astype(np.float32)
    alone = solve(jnp.asarray(rates[:3, :3]))
    rates[3], rates[:, 3] = np.nan, np.nan
    mixture = solve(jnp.asarray(rates), mask=jnp.array([True, True, True, False]))
    np.testing.assert_allclose(mixture[:3], alone, atol=1e-6)
    assert mixture[3] == 0
