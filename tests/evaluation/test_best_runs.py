"""The best runs of a sweep: worked numbers, all draws one by one, and what must not matter."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.evaluation import best_runs, statistics

WORKED = list("aaab"), [0.2, 0.5, 0.6, 0.55]
RUNS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), min_size=1, max_size=4)


def test_worked_numbers():
    """Value a with scores .2, .5, .6 and value b with .55, four draws."""
    values, scores = WORKED
    np.testing.assert_allclose(best_runs.balanced_weights(values), [1 / 6, 1 / 6, 1 / 6, 1 / 2])
    balanced = best_runs.win_rates(values, scores, 4)
    np.testing.assert_allclose(balanced["b"], (5 / 6) ** 4 - (1 / 3) ** 4)
    assert round(balanced["b"], 6) == 0.469907
    assert round(best_runs.win_rates(values, scores, 4, np.ones(4))["b"], 6) == 0.253906
    # X's best of two is .6 in 5 of 9 draws, and .5 or less, below .55, in the others.
    assert best_runs.probability_of_better_best([0.2, 0.5, 0.6], [0.55], 2) == pytest.approx(5 / 9)


@settings(max_examples=40, deadline=None)
@given(runs=RUNS, draws=st.integers(1, 4))
def test_win_rates_are_those_of_all_draws(runs, draws):
    values, scores = [value for value, _ in runs], [score / 4 for _, score in runs]
    weights, expected = best_runs.balanced_weights(values), dict.fromkeys(values, 0.0)
    for drawn in itertools.product(range(len(runs)), repeat=draws):
        first = max(drawn, key=lambda i: scores[i])  # the first of equal ones
        expected[values[first]] += np.prod(weights[list(drawn)])
    assert best_runs.win_rates(values, scores, draws) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(x=st.lists(st.integers(0, 4), min_size=1, max_size=3), y=RUNS, draws=st.integers(1, 3))
def test_a_better_best_is_that_of_all_draws(x, y, draws):
    y = [score for _, score in y][:3]
    pairs = itertools.product(
        itertools.product(x, repeat=draws), itertools.product(y, repeat=draws)
    )
    wins = [(max(a) > max(b)) + (max(a) == max(b)) / 2 for a, b in pairs]
    better = best_runs.probability_of_better_best(x, y, draws)
    assert better == pytest.approx(np.mean(wins))
    assert best_runs.probability_of_better_best(y, x, draws) == pytest.approx(1 - better)
    if draws == 1:
        x, y = np.asarray(x, float)[:, None], np.asarray(y, float)[:, None]
        assert better == pytest.approx(statistics.probability_of_improvement(x, y, samples=1)[0])


def test_means_of_the_best_run_are_those_of_all_draws():
    """Draws without a value leave its mean alone: they are not zeros."""
    values, scores = WORKED
    weights, total, chance = best_runs.balanced_weights(values), 0.0, 0.0
    for drawn in itertools.product(range(4), repeat=4):
        own = [scores[i] for i in drawn if values[i] == "a"]
        if own:
            total += np.prod(weights[list(drawn)]) * max(own)
            chance += np.prod(weights[list(drawn)])
    a, b = best_runs.standings(values, scores, 4, samples=20_000)
    assert (a.value, a.runs, b.value, b.runs) == ("a", 3, "b", 1)
    assert a.best == pytest.approx(total / chance, abs=0.004) and b.best == pytest.approx(0.55)
    assert a.interval == (0.2, 0.6) and a.wins == pytest.approx(1 - 0.469907, abs=1e-6)


def test_a_planted_effect_is_found_and_a_dummy_is_not():
    """200 runs, unequal numbers of each value; the dummy's p-values are even over many sweeps."""
    rng = np.random.default_rng(0)
    rate, dummy = rng.choice(list("lmh"), 200, p=[0.2, 0.3, 0.5]), rng.choice(list("xy"), 200)
    scores = rng.normal(size=200) + 1.5 * (rate == "m")
    assert best_runs.standings(rate.tolist(), scores, 20)[0].value == "m"
    assert best_runs.chance(rate.tolist(), scores, 20, shuffles=200) < 0.02
    blocks, shares = rate.tolist(), []
    for _ in range(60):
        fresh = rng.normal(size=200) + 1.5 * (rate == "m")
        shares.append(best_runs.chance(dummy.tolist(), fresh, 20, blocks=blocks, shuffles=40))
    assert 0.35 < np.mean(shares) < 0.65 and np.mean(np.array(shares) <= 0.1) < 0.25
    # Within blocks of one value each nothing can be shuffled.
    assert best_runs.chance(rate.tolist(), scores, 20, blocks=blocks, shuffles=5) == 1


@pytest.mark.parametrize("scores, draws", [([1.0], 1), ([1.0, np.nan], 1), ([1.0, 2.0], 0)])
def test_what_cannot_be_compared_is_refused(scores, draws):
    with pytest.raises(ValueError, match="expected one"):
        best_runs.win_rates(["a", "b"], scores, draws)
