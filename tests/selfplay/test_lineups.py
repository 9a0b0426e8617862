"""Line-ups: worked numbers, pairs, relations to the arena, names."""

import json

import numpy as np
import pytest

import envs
from agentrl.evaluation import lineups as report
from agentrl.evaluation.statistics import paired_difference
from agentrl.players import scripted
from agentrl.selfplay.lineups import LineUps, parse, play_lineups, variance_ratio


def test_worked_numbers():
    """Three tasks with returns 3, 5, 4 and 2, 5, 1."""
    x, y = np.array([3.0, 5, 4]), np.array([2.0, 5, 1])
    value, interval = paired_difference(x, y)
    np.testing.assert_allclose(value, 4 / 3)
    np.testing.assert_allclose(np.std(x - y, ddof=1), 1.527525, rtol=1e-6)
    # Variances 1 and 13 / 3 over 7 / 3.
    np.testing.assert_allclose(variance_ratio(x, y), (1 + 13 / 3) / (7 / 3))
    assert variance_ratio(x, x + 1) == np.inf and np.isnan(variance_ratio(x * 0, x * 0))
    assert interval.low < 0 < interval.high


def test_swaps_and_counts():
    """Players a and b in three seats; the return is 1 for a, 0 for b, plus the number of the task.

    A seat's swap is worth 1 in every task.
    """
    seats = parse("all", 2, 3)
    returns = (seats == 0)[..., None] + np.arange(4.0)
    played = LineUps(("a", "b"), seats, returns, returns > 0, np.zeros((8, 3)))
    assert len(list(played.swaps())) == 12
    assert all(one["difference"] == -1 for one in report.differences(played))
    for player, own in ((0, 1.0), (1, 0.0)):
        counts = played.by_count(player)
        assert list(counts) == [1, 2, 3]
        for values in counts.values():
            np.testing.assert_array_equal(values, own + np.arange(4.0))
    told = report.text(played, "lead")
    assert "1 of 3" in told and "a b b" in told
    assert json.loads(json.dumps(report.record(played, {"seed": 0})))["lineups"] == seats.tolist()


@pytest.fixture(scope="module")
def foraging():
    env, params = envs.make("Foraging-v1", players=3)
    players = {name: scripted(name, env, params) for name in ("expert", "random")}
    return play_lineups(players, env, params, parse("all", 2, 3), matches=100, seed=0)


def test_an_expert_is_worth_more_in_every_seat(foraging):
    for one, swap in zip(report.differences(foraging), foraging.swaps(), strict=True):
        assert foraging.seats[swap.lineup, swap.seat] == 0
        assert one["interval"][1] < 0 and one["seat"] == swap.seat


def test_pairs_are_more_precise_than_independent_tasks():
    """The deal of Kuhn's poker is what two line-ups share; 2.8 in 400 matches of these two."""
    env, params = envs.make("KuhnPoker-v1")
    players = {name: scripted(name, env, params) for name in ("expert", "random")}
    played = play_lineups(players, env, params, parse("ab,bb", 2, 2), matches=400, seed=0)
    (swap,) = report.differences(played)
    assert swap["precision"] > 1.5


def test_the_same_line_up_plays_the_same(foraging):
    env, params = envs.make("Foraging-v1", players=3)
    players = {name: scripted(name, env, params) for name in ("expert", "random")}
    again = play_lineups(players, env, params, [[0, 1, 0]], matches=100, seed=0)
    np.testing.assert_array_equal(again.returns[0], foraging.returns[2])
    other = play_lineups(players, env, params, [[0, 1, 0]], matches=100, seed=1)
    assert (other.returns[0] != foraging.returns[2]).any()


@pytest.mark.parametrize(
    "text, message",
    [
        ("abc", "expected 2 letters of 'ab'"),
        ("ac", "expected 2 letters of 'ab'"),
        ("ab,ab", "named twice"),
        ("", "expected 2 letters"),
    ],
)
def test_bad_names(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text, 2, 2)


def test_too_many():
    with pytest.raises(ValueError, match="have 19,683 line-ups, expected at most 256"):
        parse("all", 3, 9)
    env, params = envs.make("KuhnPoker-v1")
    players = {"random": scripted("random", env, params)}
    with pytest.raises(ValueError, match="matches=1 per line-up"):
        play_lineups(players, env, params, [[0, 0]], matches=1, seed=0)
    with pytest.raises(ValueError, match=r"shape \[1, 3\] in KuhnPoker: expected \[any, 2\]"):
        play_lineups(players, env, params, [[0, 0, 0]], matches=2, seed=0)
