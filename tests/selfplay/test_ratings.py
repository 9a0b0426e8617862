"""Ratings: worked numbers, invariances, and intervals that cover."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.selfplay.ratings import elo


def expected_score(difference):
    """Of the player who is rated higher by so much, as in the module's text."""
    return 1 / (1 + 10 ** (-difference / 400))


def points(rating, games):
    """Expected points of players of these ratings, with so many games a pair."""
    chance = expected_score(np.subtract.outer(rating, rating))
    return games * chance * ~np.eye(len(rating), dtype=bool)


def test_two_players_by_hand():
    """30 points of 40, and half of the added draw: odds of 30.5 to 10.5."""
    found = elo(np.array([[0.0, 30.0], [10.0, 0.0]]))
    difference = 400 * np.log10(30.5 / 10.5)
    np.testing.assert_allclose(found.rating, [difference / 2, -difference / 2], atol=1e-9)
    # Information of 41 games at p = 30.5 / 41 about the difference d; each rating is d / 2.
    p = 30.5 / 41
    deviation = 400 / np.log(10) / np.sqrt(41 * p * (1 - p)) / 2
    np.testing.assert_allclose(found.high - found.rating, 1.959964 * deviation, rtol=1e-6)


ratings = st.lists(st.floats(-600, 600), min_size=2, max_size=6)


@settings(max_examples=50, deadline=None)
@given(ratings, st.floats(-1000, 1000))
def test_ratings_come_back_whatever_their_zero(rating, shift):
    rating = np.array(rating)
    found = elo(points(rating + shift, 1e6)).rating
    np.testing.assert_allclose(found, rating - rating.mean(), atol=0.5)
    assert found.sum() == pytest.approx(0, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**31 - 1))
def test_permuting_players_permutes_everything(number, seed):
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 20, (number, number)).astype(float)
    score += 1 - np.eye(number)
    order = rng.permutation(number)
    found, permuted = elo(score), elo(score[np.ix_(order, order)])
    for x, y in zip(found, permuted, strict=True):
        np.testing.assert_allclose(x[order], y, atol=1e-6)
    # Wins and defeats exchanged.
    turned = elo(score.T)
    np.testing.assert_allclose(turned.rating, -found.rating, atol=1e-6)


def test_undefeated_players_have_a_rating_and_a_wide_interval():
    score = np.array([[0.0, 50, 50], [0, 0, 25], [0, 25, 0]])
    found = elo(score)
    assert np.isfinite(found.rating).all()
    assert found.rating[0] > 500 and found.rating[1] == pytest.approx(found.rating[2])
    even = elo(np.full((3, 3), 25.0))
    assert (found.high - found.low)[0] > 2 * (even.high - even.low)[0]
    assert elo(2 * score).rating[0] > found.rating[0]


def test_intervals_cover():
    """95 % of simulated tournaments of three players: 400 of them, +-2.5 %."""
    rng = np.random.default_rng(0)
    rating = np.array([150.0, 0.0, -150.0])
    inside = 0
    for _ in range(400):
        score = np.zeros((3, 3))
        for i, j in ((0, 1), (0, 2), (1, 2)):
            won = rng.binomial(200, expected_score(rating[i] - rating[j]))
            score[i, j], score[j, i] = won, 200 - won
        found = elo(score)
        inside += ((found.low < rating) & (rating < found.high)).mean()
    assert 0.925 < inside / 400 < 0.975


def test_what_cannot_be_rated_is_said():
    apart = np.zeros((4, 4))
    apart[0, 1] = apart[2, 3] = 1.0
    with pytest.raises(ValueError, match="expected players connected by games"):
        elo(apart)
    with pytest.raises(ValueError, match="expected more than 0"):
        elo(np.ones((2, 2)), prior=0)
    with pytest.raises(ValueError, match=r"expected points \[K, K\]"):
        elo(np.ones((2, 3)))
