"""Mean ranks and profiles on scores whose answers are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.evaluation import ranks


def test_ranks_of_scores_that_do_not_overlap_are_certain():
    low, high = np.zeros((5, 3)), np.ones((5, 3))
    first, second = ranks.mean_ranks([high, low])
    assert (first.value, first.interval) == (1.0, (1.0, 1.0))
    assert (second.value, second.interval) == (2.0, (2.0, 2.0))


def test_equal_methods_share_their_ranks():
    scores = np.full((4, 2), 0.5)
    assert [one.value for one in ranks.mean_ranks([scores, scores, scores + 0.1])] == [2.5, 2.5, 1]


def test_an_order_that_turns_between_tasks_is_a_tie():
    one, other = np.array([[1.0, 0.0]] * 3), np.array([[0.0, 1.0]] * 3)
    assert [r.value for r in ranks.mean_ranks([one, other])] == [1.5, 1.5]


def test_runs_of_one_start_are_drawn_together():
    start = np.random.default_rng(0).normal(size=(5, 3))
    scores = [start, start + 0.1, start - 0.1]
    apart, together = ranks.mean_ranks(scores), ranks.mean_ranks(scores, paired=True)
    assert [one.value for one in together] == [one.value for one in apart] == [2, 1, 3]
    # Whichever starts are drawn, the order is the same; drawn apart, the starts decide.
    assert all(one.interval == (one.value, one.value) for one in together)
    assert apart[1].interval.high > 1.5
    with pytest.raises(ValueError, match="paired methods of .5, 4. runs"):
        ranks.mean_ranks([start, start[:4]], paired=True)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 4))
def test_ranks_add_up_and_do_not_see_the_scale(seed, methods, tasks):
    rng = np.random.default_rng(seed)
    scores = [rng.normal(size=(3, tasks)) for _ in range(methods)]
    found = ranks.mean_ranks(scores, samples=20)
    assert sum(one.value for one in found) == pytest.approx(methods * (methods + 1) / 2)
    for one in found:
        assert 1 <= one.interval.low <= one.interval.high <= methods
    scaled = ranks.mean_ranks([3 * one + np.arange(tasks) for one in scores], samples=20)
    assert found == scaled


@pytest.mark.parametrize("wrong", [[np.zeros((2, 2))], [np.zeros((2, 2)), np.zeros((2, 3))]])
def test_methods_of_other_tasks_are_refused(wrong):
    with pytest.raises(ValueError, match="expected at least two methods"):
        ranks.mean_ranks(wrong)


def test_a_profile_is_the_share_of_runs_above():
    scores = np.array([[0.0, 0.5], [1.0, 0.5]])
    assert ranks.performance_profile(scores, [-1, 0.0, 0.5, 1.0]).tolist() == [1, 0.75, 0.25, 0]
