"""Choosing among attempts and fronts of cost and quality: worked numbers, loops, errors."""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.evaluation import selection


def test_worked_numbers():
    # The means of two draws each, .800 and .775; results 3, 5, 5, 2.
    score = np.mean([[[0.9, 0.7], [0.6, 0.95]]], axis=2)
    assert selection.select_best(score, np.ones((1, 2), bool)).tolist() == [0]
    assert selection.self_consistency([[3, 5, 5, 2]], np.ones((1, 4), bool)).tolist() == [1]
    volume = selection.hypervolume([1, 2, 4], [0.5, 0.7, 0.8], most_cost=5)
    assert volume == pytest.approx(2.7)


def test_an_attempt_that_is_not_valid_keeps_its_place():
    valid = np.array([[False, True, True], [False, False, False]])
    score = np.array([[0.9, 0.2, 0.5], [1.0, 1.0, 1.0]])
    assert selection.select_best(score, valid).tolist() == [2, -1]
    assert selection.select_best(np.where(valid, score, np.nan), valid).tolist() == [2, -1]
    assert selection.self_consistency([[7, 8, 8], [1, 1, 1]], valid).tolist() == [1, -1]
    assert selection.self_consistency([[7, 7, 8], [1, 1, 1]], valid).tolist() == [1, -1]


def test_ways_to_choose_among_three_attempts():
    """The verifier's means of two draws are .3, .8, .6, and .9, .1, .5; the first attempt at the
    second task has no result, which must not move the choice to the attempt before the winner."""
    right = np.array([[False, True, False], [False, False, True]])
    result, valid = [[1, 2, 1], [4, 5, 6]], np.array([[True] * 3, [False, True, True]])
    p_yes = np.array([[[0.2, 0.4], [0.9, 0.7], [0.6, 0.6]], [[0.9, 0.9], [0.2, 0.0], [0.4, 0.6]]])
    found = selection.selections(right, result, valid, p_yes)
    told = {name: share.tolist() for name, share in found.items()}
    third = pytest.approx([1 / 3, 1 / 3])
    assert told["random"] == third and told["oracle"] == [1, 1]
    assert told["self-consistency"] == [0, 0] and told["verifier"] == [1, 1]
    nothing = selection.selections(right, result, np.zeros((2, 3), bool), p_yes)
    assert {float(share.sum()) for share in nothing.values()} == {0.0}
    with pytest.raises(ValueError, match="p_yes"):
        selection.selections(right, result, valid, p_yes[..., 0])


attempts = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8)


@given(attempts)
def test_the_commonest_result_comes_first(drawn):
    result, valid = map(np.array, zip(*drawn, strict=True))
    chosen = selection.self_consistency(result[None], valid[None])[0]
    kept = [int(r) for r, v in drawn if v]
    if not kept:
        assert chosen == -1
        return
    counts = collections.Counter(kept)
    assert valid[chosen] and counts[int(result[chosen])] == max(counts.values())
    equal = [i for i, (r, v) in enumerate(drawn) if v and counts[r] == max(counts.values())]
    assert chosen == equal[0]


points = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8)


@given(points)
def test_the_front_and_its_volume_by_counting(drawn):
    cost, quality = map(np.array, zip(*drawn, strict=True))
    front = selection.pareto_front(cost, quality)
    for i, (c, q) in enumerate(drawn):
        dominated = any(a <= c and b >= q and (a, b) != (c, q) for a, b in drawn)
        assert front[i] == (not dominated)
    # Unit squares [x, x + 1] x [y, y + 1] below some point.
    squares = sum(any(c <= x and q >= y + 1 for c, q in drawn) for x in range(5) for y in range(6))
    assert selection.hypervolume(cost, quality, most_cost=5) == squares
    rest = selection.hypervolume(cost[front], quality[front], most_cost=5)
    assert rest == squares


@given(
    st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_all_and_any_of_k_attempts_by_counting(right, number):
    chosen = list(itertools.combinations(range(5), number))
    every = [np.mean([all(task[i] for i in some) for some in chosen]) for task in right]
    some = [np.mean([any(task[i] for i in some) for some in chosen]) for task in right]
    np.testing.assert_allclose(selection.all_of(right, number), every, atol=1e-12)
    np.testing.assert_allclose(selection.any_of(right, number), some, atol=1e-12)


def test_errors():
    with pytest.raises(ValueError, match="select_best"):
        selection.select_best(np.ones((2, 3)), np.ones((2, 2), bool))
    with pytest.raises(ValueError, match="self_consistency"):
        selection.self_consistency(np.ones(3), np.ones(3, bool))
    for number in (0, 4):
        with pytest.raises(ValueError, match="from 1 to the attempts"):
            selection.all_of(np.ones((2, 3), bool), number)
    with pytest.raises(ValueError, match="pareto_front"):
        selection.pareto_front([1, 2], [1])
