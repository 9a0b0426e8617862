"""The arena: what is counted of whom, antisymmetry, records, and games that all play together."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl.actors import Actor, Decision
from agentrl.actors.types import no_memory
from agentrl.evaluation import standings, statistics
from agentrl.players import scripted
from agentrl.selfplay import meta
from agentrl.selfplay.arena import ENDS, play_all

ABOUT = {"game": "TicTacToe-v1", "options": {}, "seed": 3, "greedy": False, "command": "a <b>"}


def stubborn():
    """Takes square 4 each time, which is illegal from the second time on."""

    def act(params, memory, view, key):
        return Decision(jnp.full(view.agent.shape, 4)), memory

    return Actor(no_memory, act)


@pytest.fixture(scope="module")
def tic_tac_toe():
    env, params = envs.make("TicTacToe-v1")
    players = {name: scripted(name, env, params) for name in ("random", "expert")}
    players["stubborn"] = stubborn()
    return play_all(players, env, params, matches=40, seed=3)


@pytest.fixture(scope="module")
def hanabi():
    env, params = envs.make("Hanabi-v1", colours=2, ranks=2, hand=2)
    players = {name: scripted(name, env, params) for name in ("random", "expert")}
    return play_all(players, env, params, matches=8, seed=0)


def test_every_match_ends_in_one_way(tic_tac_toe):
    assert tic_tac_toe.ends.shape == (3, 3, 2, len(ENDS))
    np.testing.assert_array_equal(tic_tac_toe.ends.sum(axis=-1), 20)
    won, drawn, lost, own, other, cut = np.moveaxis(tic_tac_toe.ends, -1, 0)
    # The same matches from the other side.
    for seat in (0, 1):
        np.testing.assert_array_equal(won[:, :, seat], lost[:, :, 1 - seat].T)
        np.testing.assert_array_equal(drawn[:, :, seat], drawn[:, :, 1 - seat].T)
        np.testing.assert_array_equal(own[:, :, seat], other[:, :, 1 - seat].T)
    assert not cut.any()
    assert not lost[1].any() and not own[1].any()


def test_illegal_actions_are_told_from_defeats(tic_tac_toe):
    """The stubborn one meets itself: seat 0 marks the middle, seat 1 is forgiven once."""
    itself = dict(zip(ENDS, tic_tac_toe.ends[2, 2, 1], strict=True))
    assert itself["own_illegal"] == 20 and tic_tac_toe.illegal[2, 2, 1] == 1.0
    assert tic_tac_toe.score[2, 2] == 20 and tic_tac_toe.score[1, 2] == 40
    assert not tic_tac_toe.illegal[:2].any()


def test_payoffs_are_antisymmetric(tic_tac_toe):
    np.testing.assert_array_equal(tic_tac_toe.payoff, -tic_tac_toe.payoff.T)
    np.testing.assert_array_equal(np.diag(tic_tac_toe.payoff), 0)
    # What one seat of a match wins the other loses: of oneself nothing is left to estimate.
    assert np.isnan(np.diag(tic_tac_toe.payoff_error)).all()
    assert 0.01 < tic_tac_toe.payoff_error[0, 1] < 0.2
    # All games of a pair, from either side, give one point.
    games = tic_tac_toe.score + tic_tac_toe.score.T
    np.testing.assert_array_equal(games, 40)
    tensor = tic_tac_toe.tensor
    np.testing.assert_array_equal(tensor[0], -tensor[1])
    np.testing.assert_array_equal(tensor[0], tic_tac_toe.mean[:, :, 0])
    sigma = meta.nash(tensor)
    assert sigma.sum() == pytest.approx(1) and sigma[1, 1] > 0.5


def test_matches_that_are_the_same_are_seen(tic_tac_toe):
    assert tic_tac_toe.courses[1, 1, 0] == 1 and tic_tac_toe.courses[0, 0, 0] > 10
    text = standings.text(tic_tac_toe, ABOUT)
    assert "one match says it all" in text
    cells = [line.split() for line in text.splitlines()]
    line = next(x for x in cells if x[:2] == ["expert", "expert"])
    # Shares without intervals: wins, draws, defeats, illegal ends, cut; mean return; one course.
    assert line[2:] == "0.000 1.000 0.000 0.000 / 0.000 0.000 0.000 1".split()


def test_seeds_of_a_run_and_both_seats_are_one_pair(tic_tac_toe):
    """Players 0 and 1 as seeds of a run: what they win of the third together, and lose."""
    seeds = dataclasses.replace(tic_tac_toe, players=("runs/a#0", "runs/a#12", "b#"))
    lines = [line.split() for line in standings.text(seeds, ABOUT).splitlines()]
    (line,) = (x for x in lines if x[:2] == ["runs/a", "b#"])
    met = dict(zip(ENDS, seeds.ends[:2, 2].sum(axis=(0, 1)), strict=True))
    won, lost = met["won"] + met["other_illegal"], met["lost"] + met["own_illegal"]
    assert line[2:5] == [str(won), str(lost), str(80 - won - lost)] and won > 20
    low, high = statistics.wilson(won, won + lost)
    assert line[5:] == [f"{won / (won + lost):.3f}", f"[{low:.3f},", f"{high:.3f}]"]
    assert "Every pair of runs" in standings.document(seeds, ABOUT)


def test_the_same_seed_plays_the_same(tic_tac_toe):
    env, params = envs.make("TicTacToe-v1")
    players = {name: scripted(name, env, params) for name in ("random", "expert")}
    again = play_all(players | {"stubborn": stubborn()}, env, params, matches=40, seed=3)
    np.testing.assert_array_equal(again.ends, tic_tac_toe.ends)


def test_records_come_back(tic_tac_toe, tmp_path):
    record = standings.record(tic_tac_toe, ABOUT)
    path = tmp_path / "arena.json"
    path.write_text(json.dumps(record))
    arena, about = standings.read(path)
    assert standings.text(arena, about) == standings.text(tic_tac_toe, ABOUT)
    assert standings.document(arena, about) == standings.document(tic_tac_toe, ABOUT)
    page = standings.document(arena, about)
    assert "a &lt;b&gt;" in page and "stubborn" in page and "Wilson" in page
    best = standings.standings(arena)[0]
    assert best.name == "expert" and best.rating[0] == max(record["ratings"]["rating"])
    for broken in ({"matches": 21}, {"mean": [[0.0]]}, {"players": None}):
        path.write_text(json.dumps(record | broken))
        with pytest.raises(ValueError, match="not a complete record of an arena"):
            standings.read(path)


def test_where_all_play_together_the_pair_is_what_counts(hanabi, tmp_path):
    """Cross-play: no ratings; the better the partner, the better the return, and all get it."""
    assert hanabi.cooperative
    np.testing.assert_array_equal(hanabi.mean[..., 0], np.swapaxes(hanabi.mean[..., 1], 0, 1))
    assert hanabi.payoff[1, 1] > hanabi.payoff[0, 0]
    # Both seats of a match with oneself get the same: they count as one.
    np.testing.assert_allclose(np.diag(hanabi.spread), np.diag(hanabi.deviation[..., 0]))
    record = standings.record(hanabi, ABOUT)
    assert "ratings" not in record and "rating" not in standings.text(hanabi, ABOUT)
    assert "success (95 %)" in standings.document(hanabi, ABOUT)


def test_what_is_no_arena_is_said():
    random = {"random": scripted("random", *envs.make("TicTacToe-v1"))}
    with pytest.raises(ValueError, match="expected a game"):
        play_all(random, *envs.make("Coin-v1"), matches=10, seed=0)
    with pytest.raises(ValueError, match="expected a multiple of the 2 seats"):
        play_all(random, *envs.make("TicTacToe-v1"), matches=7, seed=0)
