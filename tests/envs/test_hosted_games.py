"""Adapters of TextArena and Gymnasium, in this process: rules as the installed packages have them.

TextArena is not among the packages of the tests; where it is missing, its tests are skipped.
"""

import random

import pytest

from envs.hosted import worker


def play(server, seed, actions):
    """Answers of an episode: the first observation, then one for each action."""
    out = [server.answer({"op": "reset", "seed": seed})]
    return out + [server.answer({"op": "step", "action": action}) for action in actions]


def serve(source, **options):
    server = worker.Server()
    about = server.answer({"op": "make", "source": source, "options": options})
    return server, about


def test_frozen_lake_of_gymnasium():
    pytest.importorskip("gymnasium")
    words = ["left", "down", "right", "up"]
    server, about = serve(
        "gymnasium:FrozenLake-v1", actions=words, is_slippery=False, render_mode="ansi"
    )
    assert about == {"seats": 1, "has_success": False}
    actions = ["down", " Down ", "jump", "right", "right", "down", "right"]
    first, *answers = play(server, 3, actions)
    assert "S" in first["observation"] and "FHFH" in first["observation"]
    assert [a["valid"] for a in answers] == [True, True, False, True, True, True, True]
    # What names no action leaves all as it is.
    assert answers[2]["observation"] == answers[1]["observation"]
    assert [a["reward"] for a in answers] == [[0.0]] * 6 + [[1.0]]
    assert [a["terminated"] for a in answers] == [False] * 6 + [True]


def test_numbers_of_gymnasium_are_written_out():
    pytest.importorskip("gymnasium")
    server, _ = serve("gymnasium:FrozenLake-v1", is_slippery=False)
    first, after = play(server, 0, ["2"])
    assert (first["observation"], after["observation"]) == ("0", "1")
    server, _ = serve("gymnasium:FrozenLake-v1", is_slippery=False, max_episode_steps=1)
    _, after = play(server, 0, ["2"])
    assert after["truncated"] and not after["terminated"]
    with pytest.raises(ValueError, match="expected 4 words, one each"):
        serve("gymnasium:FrozenLake-v1", actions=["left"])
    with pytest.raises(ValueError, match="expected Text or Discrete"):
        serve("gymnasium:Pendulum-v1")


def test_tictactoe_of_textarena():
    pytest.importorskip("textarena")
    server, about = serve("textarena:TicTacToe-v0")
    assert about == {"seats": 2, "has_success": True}
    first, *answers = play(server, 0, ["[4]", "[0]", "3", "[1]", "[5]"])
    assert first["seat"] == 0 and "You are Player 0 in Tic Tac Toe" in first["observation"]
    assert [a["seat"] for a in answers] == [1, 0, 1, 0, 0]
    assert "You are Player 1" in answers[0]["observation"]
    assert answers[-1]["terminated"] and answers[-1]["reward"] == [1.0, -1.0]
    assert answers[-1]["success"] == [True, False] and answers[-1]["offender"] == -1
    assert all(a["valid"] for a in answers)
    assert all(a["reward"] == [0.0, 0.0] for a in answers[:-1])


def test_an_illegal_action_in_textarena_is_forgiven_once():
    pytest.importorskip("textarena")
    server, _ = serve("textarena:TicTacToe-v0-train")
    _, *answers = play(server, 0, ["[4]", "[4]", "[5]", "[5]", "pass"])
    assert [a["valid"] for a in answers] == [True, False, True, False, False]
    # Who was forgiven is asked again.
    assert [a["seat"] for a in answers[:4]] == [1, 1, 0, 0]
    assert answers[-1]["terminated"] and answers[-1]["offender"] == 0
    assert answers[-1]["reward"] == [-1.0, 1.0]


def test_textarena_remembers_nothing_of_former_games():
    """Its observation wrappers do, over a reset: the game is made anew."""
    pytest.importorskip("textarena")
    server, _ = serve("textarena:KuhnPoker-v0")
    games = []
    for _ in range(3):
        drawn = random.Random(7)
        out = play(server, 5, [])
        while not out[-1].get("terminated"):
            text = out[-1]["observation"]
            legal = [a for a in ("check", "bet", "call", "fold") if f"'[{a}]'" in text[-60:]]
            out.append(server.answer({"op": "step", "action": f"[{drawn.choice(legal)}]"}))
        games.append(out)
    assert games[0] == games[1] == games[2]
    assert sorted(games[0][-1]["reward"]) == [-1.0, 1.0]
    other = play(server, 6, [])
    assert len({play(server, seed, [])[0]["observation"] for seed in range(8)}) > 1 and other
