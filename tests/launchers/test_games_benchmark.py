"""Suite `games`: what it times, and that peers are optional."""

import sys

import numpy as np
import pytest

from launchers.benchmarks import game_peers, games, peers, timing
from launchers.benchmarks.environments import ready

TINY = timing.Plan(rounds=2, sample_seconds=0.0)


def test_games_without_peers(monkeypatch):
    for module in ("pgx", "textarena", "pyspiel"):
        monkeypatch.setitem(sys.modules, module, None)
    match = games.Match("TicTacToe-v1", {}, "pgx tic_tac_toe")
    said = games.Said("Nim-v1", {}, (("compact", "word"),), "Nim-v0")
    result = games.run(TINY, with_peers=True, batches=[8], matches=[match], talks=[said], length=24)
    (row,), words, (solved,) = result["rows"], result["words"], result["nash_conv"]
    # The tests run on eight simulated devices.
    assert [word["game"] for word in words] == [
        f"Nim-v1, compact, words{devices}" for devices in ("", ", 8 devices")
    ]
    assert {entry["work"] for entry in (row, *words)} == {8 * 24}
    assert all(entry["ratio_to_peer"] is None for entry in (row, *words))
    # Random legal play: 5 to 9 moves, and at most as many as there are objects.
    assert 5 <= row["mean_episode_steps"] <= 12
    assert all(8 <= word["episodes_ended"] for word in words)
    assert all(word["mean_episode_steps"] <= 12 for word in words)
    assert solved["nash_conv"] > 0
    lines = result["skipped"]
    assert [line.split(" skipped")[0] for line in lines] == [
        "pgx tic_tac_toe",
        "TextArena Nim-v0",
        "OpenSpiel NashConv",
    ]
    assert all("pip install 'agentrl[peers]'" in line for line in lines)
    shown = games.report(result)
    assert "Nim-v1, compact, words" in shown and "agentrl" in shown


def test_all_move_at_once():
    import envs

    env, params = envs.make("Foraging-v1", max_steps_in_episode=5)
    made = ready(games.simulator(env, params, 4), 4, 10)
    made.call()
    # Two limits of 5 joint steps, or all eaten before.
    assert made.facts()["episodes_ended"] >= 8


@pytest.mark.parametrize(
    ("peer", "module"),
    [
        ("pgx kuhn_poker", "pgx"),
        ("JaxMARL hanabi", "jaxmarl"),
        ("jumanji LevelBasedForaging", "jumanji.environments.routing.lbf"),
    ],
)
def test_missing_peer_says_how_to_install_it(peer, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(peers.MissingError, match=r"skipped, .* pip install .agentrl\[peers\]"):
        game_peers.GAMES[peer](2, 4, ready)


def test_replies_are_what_the_peers_rules_allow():
    said = game_peers.REPLIES
    board = [["O", "", "X"], ["", "", ""], ["X", "O", ""]]
    assert said["TicTacToe-v0"]({"board": board}) == ["[1]", "[3]", "[4]", "[5]", "[8]"]
    assert said["Nim-v0"]({"piles": [0, 2, 1]}) == ["[1 1]", "[1 2]", "[2 1]"]
    columns = [[".", "X", "."], ["O", "X", "."]]
    assert said["ConnectFour-v0"]({"board": columns}) == ["[col 0]", "[col 2]"]
    assert np.all([said[talk.peer] for talk in games.TALKS])
