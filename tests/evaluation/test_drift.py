"""Drift over turns: the sheet's worked series, its equilibrium, and what a fit cannot know."""

import pathlib
import sys

import numpy as np
import pytest

from agentrl.evaluation import drift_view, report, runs
from agentrl.evaluation.drift import fit_drift, predicted_drift

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import directories  # noqa: E402


def test_worked_series_and_its_fit():
    series = predicted_drift(0.0, 5.0, 0.5, 4)
    np.testing.assert_allclose(series, [0, 5, 7.5, 8.75, 9.375])
    fitted = fit_drift(series)
    np.testing.assert_allclose([fitted.bias, fitted.rate], [5.0, 0.5], atol=1e-9)
    np.testing.assert_allclose([fitted.equilibrium, fitted.explained], [10.0, 1.0], atol=1e-9)
    assert fitted.stable and fitted.noise_floor < 1e-9


def test_reminders_lower_it_for_a_while():
    series = predicted_drift(0.0, 5.0, 0.5, 8, reminders={4: 4.0, 7: 4.0})
    np.testing.assert_allclose(
        series[3:], [8.75, 5.375, 7.6875, 8.84375, 5.421875, 7.7109375], atol=1e-9
    )
    often = predicted_drift(0.0, 5.0, 0.5, 300, reminders=dict.fromkeys(range(3, 301, 3), 4.0))
    np.testing.assert_allclose(np.sort(often[-3:]), [5.4286, 7.7143, 8.8571], atol=1e-4)
    np.testing.assert_allclose(often[-3:].mean(), (5.0 - 4.0 / 3) / 0.5, atol=1e-6)


def test_noise_and_instability():
    rng = np.random.default_rng(0)
    series = [0.0]
    for _ in range(4000):
        series.append(series[-1] + 1.0 - 0.2 * series[-1] + rng.normal(0, 0.3))
    fitted = fit_drift(series)
    np.testing.assert_allclose([fitted.bias, fitted.rate], [1.0, 0.2], atol=0.05)
    np.testing.assert_allclose(fitted.noise_floor, np.std(series[100:]), rtol=0.1)
    growing = fit_drift(predicted_drift(1.0, 0.0, -0.5, 5))
    assert not growing.stable and np.isnan(growing.equilibrium) and np.isnan(growing.noise_floor)


@pytest.mark.parametrize("series", [[1.0, 2.0], [1.0, np.nan, 2.0], [2.0, 2.0, 2.0]])
def test_series_that_determine_nothing_are_refused(series):
    with pytest.raises(ValueError, match="fit_drift"):
        fit_drift(series)


def written(path, turns, seeds=(0, 1)):
    """A run whose seeds drift as the worked series, a tenth less and a tenth more."""
    series = predicted_drift(1.0, 5.0, 0.5, 40)
    lines = [
        directories.record(seed, update, success_rate=0.5)
        | {f"drift/turn_{t}": series[t - 1] * (0.9 + 0.2 * seed) for t in turns}
        for update in (36, 40)
        for seed in seeds
    ]
    return directories.write(path, lines=lines)


def test_the_report_fits_the_mean_of_the_seeds(tmp_path):
    run, sparse = runs.load([written(tmp_path / "a", range(1, 7)), written(tmp_path / "b", (1, 4))])
    turns, each = drift_view.turns_of(run)
    series = predicted_drift(1.0, 5.0, 0.5, 5)
    np.testing.assert_array_equal(turns, np.arange(1, 7))
    np.testing.assert_allclose(each, np.outer([0.9, 1.1], series))
    found = drift_view.fitted(turns, each.mean(0))
    np.testing.assert_allclose([found.bias, found.rate, found.equilibrium], [5.0, 0.5, 10.0])
    assert drift_view.fitted(*(x[..., :2] for x in (turns, each.mean(0)))) is None
    assert drift_view.fitted(np.array([1, 2, 4]), series[:3]) is None
    text = report.report([run, sparse], samples=50)
    section = text[text.index('id="drift"') : text.index('id="config"')]
    assert "a, fitted" in section and "b, fitted" not in section
    assert report.report([sparse], samples=50).count('id="drift"') == 1
    assert 'id="drift"' not in report.report(
        runs.load([directories.write(tmp_path / "c")]), samples=50
    )
