"""Matching of tool calls: the worked example, the released greedy choice, and reductions."""

import itertools

import numpy as np
import pytest
import recorded
from programs import fetched

from agentrl import rewards

call_similarity = fetched(rewards.call_similarity)
matched_calls = fetched(rewards.matched_calls, static_argnames=("assignment", "regularisation"))
VECTORS = recorded.arrays("turn_credit")
# search{q: a, k: 1}, search{q: a}, calc{x: 2} against search{q: a, k: 1}, calc{x: 3}; parameters
# q, k, x.
NAME, VALUES = np.array([0, 0, 1]), np.array([[5, 1, -1], [5, -1, -1], [-1, -1, 2]])
REFERENCE = np.array([0, 1]), np.array([[5, 1, -1], [-1, -1, 3]])
# The best pair first costs more than it brings.
TRAP = np.float32([[0.9, 0.8], [0.85, 0.1]])


def all_of(similarity):
    return similarity, *(np.ones(n, bool) for n in similarity.shape)


def test_worked_example():
    similarity = call_similarity(NAME, VALUES, *REFERENCE)
    np.testing.assert_allclose(similarity, VECTORS["matchtir_S"], atol=1e-6)
    for assignment in ("optimal", "greedy"):
        ours = matched_calls(*all_of(similarity), assignment=assignment)
        np.testing.assert_allclose(ours, VECTORS["matchtir_hard"], atol=1e-6)
    soft = matched_calls(*all_of(similarity), assignment="soft")
    np.testing.assert_allclose(soft, VECTORS["matchtir_soft"], atol=2e-5)


def test_optimal_is_better_than_the_best_pair_first():
    optimal, greedy = (matched_calls(*all_of(TRAP), assignment=a) for a in ("optimal", "greedy"))
    np.testing.assert_allclose(optimal, VECTORS["matchtir_optimal_rewards"], atol=1e-6)
    np.testing.assert_allclose(greedy, [0.9, 0.1], atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (1, 4)])
@pytest.mark.parametrize("seed", range(2))
def test_optimal_equals_all_assignments_tried(seed, shape):
    similarity = np.random.default_rng(seed).random(shape)
    ours = float(matched_calls(*all_of(np.asarray(similarity, np.float32))).sum())
    small = similarity if shape[0] <= shape[1] else similarity.T
    best = max(
        sum(small[i, j] for i, j in enumerate(chosen))
        for chosen in itertools.permutations(range(small.shape[1]), small.shape[0])
    )
    np.testing.assert_allclose(ours, best, rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_most_alike_pair_first_never_pays_a_call_twice(seed):
    """A plain loop, where fewer calls or references exist than there is room for."""
    random = np.random.default_rng(seed)
    similarity = random.random((3, 4)).round(1)
    call, reference = random.random(3) < 0.6, random.random(4) < 0.6
    left = {(i, j): similarity[i, j] for i in range(3) for j in range(4) if call[i] & reference[j]}
    expected = np.zeros(3)
    while left:
        i, j = max(left, key=left.get)
        expected[i] = left[i, j]
        left = {pair: x for pair, x in left.items() if pair[0] != i and pair[1] != j}
    ours = matched_calls(similarity, call, reference, assignment="greedy")
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_one_call_of_two_is_paid_once():
    similarity = np.float32([[0.2, 0.9], [0.0, 0.0]])
    call, reference = np.array([True, False]), np.ones(2, bool)
    ours = matched_calls(similarity, call, reference, assignment="greedy")
    np.testing.assert_allclose(ours, [0.9, 0.0], atol=1e-6)


@pytest.mark.parametrize("regularisation", [1e-4, 1e-2, 0.1])
def test_soft_matching_of_clear_pairs_is_the_optimal_one_over_their_number(regularisation):
    ours = matched_calls(
        *all_of(np.eye(3, dtype=np.float32)), assignment="soft", regularisation=regularisation
    )
    off = 2 * np.exp(-1 / regularisation)  # the plan is the kernel, scaled to rows of one third
    np.testing.assert_allclose(ours, np.full(3, 1 / (1 + off) / 3), rtol=1e-5)


@pytest.mark.parametrize("assignment", ["optimal", "greedy", "soft"])
def test_calls_and_references_that_do_not_exist_are_not_read(assignment):
    similarity = call_similarity(NAME, VALUES, *REFERENCE)
    alone = matched_calls(*all_of(similarity), assignment=assignment, unmatched=-0.5)
    wide = np.full((5, 4), np.nan, np.float32)
    wide[:3, :2] = similarity
    there = np.arange(5) < 3, np.arange(4) < 2
    # Without jit, which may hide that a NaN is read.
    padded = rewards.matched_calls(wide, *there, assignment=assignment, unmatched=-0.5)
    np.testing.assert_allclose(padded[:3], alone, atol=1e-6)
    assert np.all(padded[3:] == 0)
    none = rewards.matched_calls(
        wide, there[0], np.zeros(4, bool), assignment=assignment, unmatched=-0.5
    )
    np.testing.assert_array_equal(none[:3], 0.0 if assignment == "soft" else -0.5)


def test_similarity_of_calls_without_parameters():
    nothing = np.full((1, 2), -1)
    assert call_similarity(np.array([3]), nothing, np.array([3]), nothing)[0, 0] == 1
    assert call_similarity(np.array([3]), nothing, np.array([4]), nothing)[0, 0] == 0


def test_errors():
    with pytest.raises(ValueError, match="assignment='hungarian'"):
        rewards.matched_calls(*all_of(TRAP), assignment="hungarian")
