import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtrit

from agentrl.evaluation import statistics


def test_iqm_drops_the_outer_quarters():
    # Of 8 scores two go at each end: -50, 1 and 6, 100.
    assert statistics.iqm(np.array([100, 1, 2, 3, 4, 5, 6, -50])) == (2 + 3 + 4 + 5) / 4
    # Of 3 none go.
    assert statistics.iqm(np.array([0.0, 1.0, 5.0])) == 2.0


@pytest.mark.parametrize("shape", [(1,), (4,), (7,), (5, 3), (2, 11)])
def test_iqm_is_scipys_trimmed_mean(shape):
    scores = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_allclose(statistics.iqm(scores), stats.trim_mean(scores, 0.25, axis=None))
    np.testing.assert_allclose(
        statistics.iqm(scores, axis=0), stats.trim_mean(scores, 0.25, axis=0), rtol=1e-12
    )


def test_iqm_over_two_axes_is_over_their_product():
    scores = np.random.default_rng(1).normal(size=(6, 5, 3))
    together = [stats.trim_mean(part, 0.25, axis=None) for part in scores]
    np.testing.assert_allclose(statistics.iqm(scores, axis=(1, 2)), together)


def test_iqm_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        statistics.iqm(np.zeros(0))


def test_runs_are_resampled_within_their_task():
    # All runs of a task agree, so no resample within tasks differs, though the tasks do.
    scores = np.tile([0.0, 10.0, 20.0, 30.0], (5, 1))
    assert statistics.stratified_bootstrap(scores) == (15.0, 15.0)


def test_bootstrap_of_a_mean_by_hand():
    # Means of two draws from {0, 1}: 0, 1/2, 1/2, 1; the 30th percentile is 1/2, the 20th is 0.
    scores = np.array([[0.0], [1.0]])
    assert statistics.stratified_bootstrap(scores, np.mean, confidence=0.4) == (0.5, 0.5)
    assert statistics.stratified_bootstrap(scores, np.mean, confidence=0.6) == (0.0, 1.0)


def test_bootstrap_shifts_scales_and_repeats():
    scores = np.random.default_rng(2).normal(size=(6, 3))
    low, high = statistics.stratified_bootstrap(scores, samples=300)
    assert (low, high) == statistics.stratified_bootstrap(scores, samples=300)
    moved = statistics.stratified_bootstrap(3 * scores + 1, samples=300)
    np.testing.assert_allclose(moved, (3 * low + 1, 3 * high + 1))
    assert low < statistics.iqm(scores) < high


def test_one_run_has_no_interval():
    assert np.isnan(statistics.stratified_bootstrap(np.ones((1, 4)))).all()
    assert np.isnan(statistics.mean_interval([3.0])).all()
    assert np.isnan(statistics.probability_of_improvement([[1.0]], [[0.0], [2.0]])[1]).all()


@pytest.mark.parametrize("runs, expected", [(5, 0.90), (20, 0.94)])
def test_bootstrap_covers_as_often_as_the_docstring_says(runs, expected):
    rng = np.random.default_rng(0)
    intervals = [
        statistics.stratified_bootstrap(rng.normal(size=(runs, 1)), samples=300, seed=i)
        for i in range(1000)
    ]
    covered = np.mean([low <= 0 <= high for low, high in intervals])
    # Three standard errors of a share of 1000: 3 sqrt(0.9 * 0.1 / 1000) = 0.028.
    assert abs(covered - expected) < 0.03


def test_mean_interval_covers():
    rng = np.random.default_rng(3)
    intervals = [
        statistics.mean_interval(rng.exponential(size=100), samples=300, seed=i) for i in range(500)
    ]
    assert 0.9 < np.mean([low <= 1 <= high for low, high in intervals]) < 0.98


def test_wilson_by_hand():
    # 8 of 10, z = 1.96: (0.8 + 0.19207 +- 1.96 sqrt(0.016 + 0.0096)) / 1.38415.
    low, high = statistics.wilson(8, 10)
    np.testing.assert_allclose((low, high), (0.49016, 0.94332), atol=1e-5)
    assert statistics.wilson(2, 10) == pytest.approx((1 - high, 1 - low))
    # Without successes the terms cancel to rounding: z^2 / 2n - z sqrt(z^2 / 4n^2) = 0.
    assert 0 <= statistics.wilson(0, 5).low < 1e-15
    assert 1 >= statistics.wilson(5, 5).high > 1 - 1e-15
    assert statistics.wilson(0, 0) == (0, 1)


def test_wilson_covers():
    """Exact: the chance of all counts whose interval holds the rate, mean over rates."""
    counts = np.arange(31)
    intervals = [statistics.wilson(int(k), 30) for k in counts]
    covered = []
    for rate in np.linspace(0.02, 0.98, 97):
        inside = [low <= rate <= high for low, high in intervals]
        covered.append(stats.binom.pmf(counts, 30, rate) @ inside)
    assert abs(np.mean(covered) - 0.95) < 0.01


@pytest.mark.parametrize("successes, count", [(-1, 3), (4, 3)])
def test_wilson_refuses_impossible_counts(successes, count):
    with pytest.raises(ValueError, match=f"expected 0 to {count}"):
        statistics.wilson(successes, count)


def test_paired_difference_by_hand():
    value, interval = statistics.paired_difference([0.5, 0.7, 0.9], [0.4, 0.5, 0.6])
    # Differences 0.1, 0.2, 0.3: deviation 0.1, t(2) = 4.302653.
    assert value == pytest.approx(0.2)
    assert interval == pytest.approx((0.2 - 4.302653 * 0.1 / 3**0.5, 0.2 + 4.302653 * 0.1 / 3**0.5))
    alone, nothing = statistics.paired_difference([1.0], [0.25])
    assert alone == 0.75 and np.isnan(nothing).all()
    with pytest.raises(ValueError, match="expected two of"):
        statistics.paired_difference([1.0], [1.0, 2.0])


def test_crossed_difference_of_one_seed_is_paired_over_tasks():
    x, y = np.array([[1.0, 1, 0, 1]]), np.array([[1.0, 0, 0, 0]])
    value, interval = statistics.crossed_difference(x, y)
    assert value == 0.5
    # Differences 0, 1, 0, 1: as of four pairs.
    np.testing.assert_allclose(interval, statistics.paired_difference(x[0], y[0])[1])
    # Tasks that are equally hard for both leave nothing open about these two policies.
    assert statistics.crossed_difference(x, x - 0.25)[1] == (0.25, 0.25)


def test_crossed_difference_by_hand():
    # Means of seeds 0.5 and 1 against 0 and 0; means of tasks differ by 1, 0.5, 1, 0.5.
    x, y = np.array([[1.0, 0, 1, 0], [1, 1, 1, 1]]), np.zeros((2, 4))
    value, interval = statistics.crossed_difference(x, y)
    assert value == 0.75
    # Of seeds 0.125 / 2. Of tasks 0.0833 / 4, of which noise is 0.0833 / 4: residuals of 0.25 in
    # eight places, (8 * 0.0625) / 3 = 0.1667 over 8 scores.
    total, freedom = 0.125 / 2, 1
    width = stdtrit(freedom, 0.975) * np.sqrt(total)
    np.testing.assert_allclose(interval, (0.75 - width, 0.75 + width))


@pytest.mark.parametrize("paired", [False, True])
def test_crossed_difference_covers_seeds_and_tasks(paired):
    rng, held = np.random.default_rng(0), 0
    for _ in range(500):
        of_task, of_pair = rng.normal(0, 1, 64), rng.normal(0, 1, (3, 1)) * paired
        own, other = rng.normal(0, 0.2, (2, 3, 1))
        x = of_pair + own + of_task + rng.normal(0, 0.5, 64) + rng.normal(0, 1, (3, 64))
        y = of_pair + other + of_task + rng.normal(0, 1, (3, 64))
        low, high = statistics.crossed_difference(x, y, paired=paired)[1]
        held += low <= 0 <= high
    assert 0.9 <= held / 500 <= 0.99


def test_crossed_difference_needs_the_same_tasks():
    with pytest.raises(ValueError, match="expected the same tasks"):
        statistics.crossed_difference(np.ones((1, 2)), np.ones((1, 3)))
    with pytest.raises(ValueError, match="seeds in pairs"):
        statistics.crossed_difference(np.ones((1, 2)), np.ones((2, 2)), paired=True)
    assert np.isnan(statistics.crossed_difference(np.ones((2, 1)), np.ones((2, 1)))[1]).all()


def test_probability_of_improvement_by_hand():
    # Pairs of {1, 3} and {2, 3, 0}: 1 > 0; 3 > 2, 3 = 3, 3 > 0: (1 + 1 + 1/2 + 1) / 6.
    value, interval = statistics.probability_of_improvement([[1], [3]], [[2], [3], [0]])
    assert value == 3.5 / 6
    assert 0 <= interval.low < value < interval.high <= 1
    # The mean over tasks; a task that X always wins adds (3.5 / 6 + 1) / 2.
    x, y = np.array([[1, 9], [3, 9]]), np.array([[2, 0], [3, 0], [0, 0]])
    both, _ = statistics.probability_of_improvement(x, y)
    assert both == pytest.approx((3.5 / 6 + 1) / 2)


def test_probability_of_improvement_is_mann_whitneys_and_turns_round():
    rng = np.random.default_rng(4)
    x, y = rng.normal(1, 1, size=(9, 1)), rng.normal(size=(7, 1))
    value, interval = statistics.probability_of_improvement(x, y)
    expected = stats.mannwhitneyu(x[:, 0], y[:, 0]).statistic / (9 * 7)
    assert value == pytest.approx(expected)
    assert interval.low < value < interval.high
    assert statistics.probability_of_improvement(y, x)[0] == pytest.approx(1 - value)


def test_probability_of_improvement_needs_the_same_tasks():
    with pytest.raises(ValueError, match="2 tasks of x and 3 of y"):
        statistics.probability_of_improvement(np.ones((4, 2)), np.ones((4, 3)))


def lines(*pairs):
    return [{"env_steps": x, "score": y} for x, y in pairs]


def test_curve_interpolates_each_seed_onto_the_grid():
    seeds = {0: lines((0, 0.0), (10, 1.0)), 1: lines((2, 2.0), (6, 4.0), (12, 4.0))}
    grid = statistics.common_grid(seeds, "score", points=5)
    # From the later start, 2, to the earlier end, 10; three lines give three points.
    np.testing.assert_array_equal(grid, [2, 6, 10])
    curve = statistics.curve(seeds, "score", grid)
    np.testing.assert_allclose(curve.value, [(0.2 + 2) / 2, (0.6 + 4) / 2, (1 + 4) / 2])
    # With two seeds the 2.5th percentile of resampled means is a resample of the lower one twice.
    np.testing.assert_allclose(curve.low, [0.2, 0.6, 1.0])
    np.testing.assert_allclose(curve.high, [2, 4, 4])
    assert curve.seeds == 2


def test_curve_is_the_bootstrap_at_each_point():
    rng = np.random.default_rng(5)
    seeds = {s: lines(*enumerate(rng.normal(size=4))) for s in range(6)}
    curve = statistics.curve(seeds, "score", np.arange(4), samples=4000)
    for point in range(4):
        scores = np.array([[seeds[s][point]["score"]] for s in seeds])
        low, high = statistics.stratified_bootstrap(scores, samples=4000, seed=1)
        # Two draws of 4000 resamples differ by a little.
        np.testing.assert_allclose([curve.low[point], curve.high[point]], [low, high], atol=0.15)


def test_curve_passes_over_gaps_and_says_nothing_beyond_a_seed():
    gaps = lines((0, 0.0), (10, 10.0))
    gaps.insert(1, {"env_steps": 5})
    gaps.insert(2, {"env_steps": 6, "score": float("nan")})
    curve = statistics.curve({0: gaps}, "score", np.array([5.0, 11.0]))
    assert curve.value[0] == 5 and np.isnan(curve.value[1])
    assert np.isnan(curve.low).all(), "one seed has no interval"
    assert curve.seeds == 1


def test_curve_without_the_metric():
    assert statistics.common_grid({0: lines((0, 1.0))}, "other").size == 0
    with pytest.raises(ValueError, match="no seed has values of 'other'"):
        statistics.curve({0: lines((0, 1.0))}, "other", np.zeros(1))


def test_grid_of_seeds_that_do_not_meet_is_empty():
    seeds = {0: lines((0, 1.0), (3, 1.0)), 1: lines((4, 1.0), (9, 1.0))}
    assert statistics.common_grid(seeds, "score").size == 0


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="between 0 and 1"):
        statistics.stratified_bootstrap(np.ones((3, 1)), confidence=confidence)


def test_scores_have_runs_and_tasks():
    with pytest.raises(ValueError, match=r"expected \[runs, tasks\]"):
        statistics.stratified_bootstrap(np.ones(3))


def test_rliable():
    try:
        from rliable import library, metrics
    except Exception as error:  # arch, which it needs, fails to import beside pandas 3
        pytest.skip(f"rliable cannot be imported: {error!r}")
    rng = np.random.default_rng(6)
    x, y = rng.normal(0.3, 1, size=(10, 4)), rng.normal(size=(8, 4))
    assert statistics.iqm(x) == pytest.approx(metrics.aggregate_iqm(x))
    value, interval = statistics.probability_of_improvement(x, y, samples=4000)
    assert value == pytest.approx(metrics.probability_of_improvement(x, y))
    points, intervals = library.get_interval_estimates(
        {"x": x}, lambda scores: np.array([metrics.aggregate_iqm(scores)]), reps=4000
    )
    ours = statistics.stratified_bootstrap(x, samples=4000)
    assert points["x"][0] == pytest.approx(statistics.iqm(x))
    np.testing.assert_allclose(intervals["x"][:, 0], ours, atol=0.03)
