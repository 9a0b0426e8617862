"""Prioritised fictitious self-play: worked weights, and records that fade."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.selfplay import pfsp

RATES = jnp.array([0.05, 0.3, 0.5, 0.7, 0.95, 1.0])
# f(x) by hand, over its sum: 2.5; 1.735 (0.9025 + 0.49 + 0.25 + 0.09 + 0.0025); 0.765.
EXPECTED = {
    "linear": np.array([0.95, 0.7, 0.5, 0.3, 0.05, 0]) / 2.5,
    "hard": np.array([0.9025, 0.49, 0.25, 0.09, 0.0025, 0]) / 1.735,
    "variance": np.array([0.0475, 0.21, 0.25, 0.21, 0.0475, 0]) / 0.765,
}


@pytest.mark.parametrize("weighting", pfsp.WEIGHTINGS)
def test_worked_weights(weighting):
    weights = pfsp.opponent_weights(RATES, weighting=weighting)
    np.testing.assert_allclose(weights, EXPECTED[weighting], atol=1e-6)


@pytest.mark.parametrize("weighting", pfsp.WEIGHTINGS)
def test_all_alike_when_all_are_beaten(weighting):
    np.testing.assert_allclose(pfsp.opponent_weights(jnp.ones(4), weighting=weighting), 0.25)


def test_empty_places_are_never_drawn():
    mask = jnp.array([True, False, True, False, False, False])
    weights = pfsp.opponent_weights(RATES, weighting="linear", mask=mask)
    np.testing.assert_allclose(weights, [0.95 / 1.45, 0, 0.5 / 1.45, 0, 0, 0], atol=1e-6)
    beaten = pfsp.opponent_weights(jnp.ones(6), mask=mask)
    np.testing.assert_allclose(beaten, [0.5, 0, 0.5, 0, 0, 0])


def test_unknown_weighting():
    with pytest.raises(ValueError, match="weighting='cubic': expected one of linear, hard"):
        pfsp.opponent_weights(RATES, weighting="cubic")


def test_a_win_then_a_draw():
    # games 1, then 0.9 + 1; score 1, then 0.9 + 0.5.
    record = pfsp.no_games(1, 2)
    np.testing.assert_allclose(pfsp.win_rates(record), [[0.5, 0.5]])
    zero, yes = jnp.zeros(2, jnp.int32), jnp.ones(2, bool)
    record = pfsp.count(record, zero, zero, jnp.array([1.0, 0.5]), yes, decay=0.9)
    np.testing.assert_allclose(record.games, [[1.9, 0]], atol=1e-6)
    np.testing.assert_allclose(pfsp.win_rates(record), [[1.4 / 1.9, 0.5]], atol=1e-6)


def test_a_batch_is_its_matches_one_by_one():
    rng = np.random.default_rng(0)
    learner, opponent = rng.integers(0, 2, 60), rng.integers(0, 3, 60)
    score, mask = rng.choice([0.0, 0.5, 1.0], 60), rng.random(60) < 0.8
    games, scores = np.zeros((2, 3)), np.zeros((2, 3))
    for a, b, s in zip(learner[mask], opponent[mask], score[mask], strict=True):
        games[a, b] = 0.95 * games[a, b] + 1
        scores[a, b] = 0.95 * scores[a, b] + s
    count = jax.jit(lambda *batch: pfsp.count(*batch, decay=0.95))
    record = pfsp.no_games(2, 3)
    for part in (slice(0, 25), slice(25, 60)):
        batch = (learner[part], opponent[part], score[part], mask[part])
        record = count(record, *(jnp.asarray(x) for x in batch))
    np.testing.assert_allclose(record.games, games, rtol=1e-5)
    np.testing.assert_allclose(record.score, scores, rtol=1e-5)
