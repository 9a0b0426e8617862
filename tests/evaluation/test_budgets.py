"""The curve of cost and success under limits on turns."""

import numpy as np
import pytest

from agentrl.evaluation.budgets import budget_curve

LENGTHS = (8, 10, 12, 14, 16, 18, 20, 24, 30, 50)
SOLVED = [n not in (24, 50) for n in LENGTHS]


def test_the_worked_example():
    curve = budget_curve(LENGTHS, SOLVED, (np.inf, 24, 16), growth=0.1)
    assert [10 * b.cost for b in curve] == pytest.approx([464.9, 322.1, 235.0])
    assert [b.solved for b in curve] == [0.8, 0.7, 0.5]


def test_without_growth_the_cost_is_the_number_of_turns():
    whole, cut = budget_curve(LENGTHS, SOLVED, (50, 1))
    assert whole == (50, 0.8, np.mean(LENGTHS)) and cut == (1, 0.0, 1.0)


def test_order_does_not_matter_and_curves_rise():
    rng = np.random.default_rng(0)
    length, success = rng.integers(1, 20, 200), rng.random(200) < 0.5
    order = rng.permutation(200)
    curve = budget_curve(length, success, range(1, 21), growth=0.3)
    again = budget_curve(length[order], success[order], range(1, 21), growth=0.3)
    assert [b.solved for b in curve] == [b.solved for b in again]
    for name in ("solved", "cost"):
        assert (np.diff([getattr(b, name) for b in curve]) >= 0).all()


@pytest.mark.parametrize(
    "given",
    [([], [], [3]), ([3, 4], [True], [3]), ([3], [True], [0]), ([3], [True], [3], -1.0)],
)
def test_what_does_not_fit_is_refused(given):
    growth = {"growth": given[3]} if len(given) > 3 else {}
    with pytest.raises(ValueError, match="budget_curve: .*expected"):
        budget_curve(*given[:3], **growth)
