"""Episodes in the terminal: who is shown what, what replies come to, and how it ends."""

import functools

import jax
import numpy as np
import pytest

import envs
from agentrl.evaluation import terminal
from agentrl.players import scripted
from agentrl.trained import contestants


@functools.cache
def made(name, **options):
    return envs.make(name, **options)


@functools.cache
def player(who, name):
    return None if who == "human" else scripted(who, *made(name))


def played(seats, replies=(), seed=0, name="TicTacToe-v1", **options):
    """(returns, what was told) of an episode; replies run out as control-D does."""
    env, params = made(name, **options)
    if options:
        seats = contestants.seated(seats, env, params, greedy=False)
    else:
        seats = [(who, player(who, name)) for who in seats]
    told, replies = [], iter(replies)

    def ask(prompt):
        reply = next(replies, None)
        if reply is None:
            raise EOFError
        return reply

    total = terminal.play(env, params, seats, jax.random.key(seed), ask=ask, tell=told.append)
    return total.tolist(), told


def test_two_people_play_at_one_terminal():
    """0, 3, 1, 4, 2: the upper row, before seat 1 has its middle one."""
    env, _ = made("TicTacToe-v1")
    names = env.action_names
    total, told = played(["human", "human"], [names[a] for a in (0, 3, 1, 4, 2)])
    assert total == [1, -1]
    readers = "".join(line[6] for line in told if " reads:" in line)
    assert readers == "01010" + "01"
    assert told[-1] == (
        "\nwon by seat 0 (human) after 5 steps\nseat 0 (human): return 1\nseat 1 (human): return -1"
    )


def test_a_person_meets_minimax_from_either_seat():
    """Minimax never loses; what it does is told, and only the person's board is shown."""
    for seat, seats in enumerate((["human", "minimax"], ["minimax", "human"])):
        # Whatever is taken already is forgiven once and then loses.
        env, _ = made("TicTacToe-v1")
        total, told = played(seats, list(env.action_names) * 2)
        assert total[seat] <= 0 and len(total) == 2
        assert any(line.startswith(f"seat {1 - seat} (minimax): ") for line in told)
        assert not any(f"seat {1 - seat} (minimax) reads" in line for line in told)
        assert any(f"seat {seat} (human) reads" in line for line in told)


def test_an_illegal_move_is_forgiven_once():
    total, told = played(["human", "expert"], ["what", "?", "nothing"])
    assert total == [-1, 1]
    assert [line for line in told if "illegal" in line] == [
        "seat 0 (human): reward 0, illegal",
        "seat 0 (human): reward -1, illegal",
        told[-1],
    ]
    assert "seat 0 (human) loses by an illegal action after 2 steps" in told[-1]


def test_a_person_leaves():
    total, told = played(["human", "random"])
    assert total == [0, 0] and "left after 0 steps" in told[-1]


def test_nobody_sees_the_cards_of_others():
    """In poker a person reads its own card; what the other does it reads in the game's words."""
    _, told = played(["human", "random"], ["check", "fold"] * 3, name="KuhnPoker-v1")
    assert "seat 1 (random) moves" in told
    assert not any("seat 1 (random)" in line for line in told if "reads" in line)
    # Without people all is shown.
    total, told = played(["random", "random"], name="KuhnPoker-v1")
    assert sum(total) == 0
    assert {"seat 0", "seat 1"} <= {line[1:7] for line in told if "reads:" in line}
    assert any(line.startswith("seat 0 (random): ") for line in told)


def test_games_repeat_by_their_seed_and_play_to_the_end():
    first = played(["mcts:5", "random"])
    assert first == played(["mcts:5", "random"]) and sum(first[0]) == 0
    assert not any("illegal" in line for line in first[1])


def test_all_may_move_at_once():
    """A cooperative game with simultaneous moves: everybody is asked in each step."""
    env, _ = made("Foraging-v1", max_steps_in_episode=2)
    total, told = played(
        ["human", *["random"] * (env.num_agents - 1)],
        [env.action_names[0]] * 2,
        name="Foraging-v1",
        max_steps_in_episode=2,
    )
    assert len(total) == env.num_agents and np.isfinite(total).all()
    assert sum("seat 0 (human) reads" in line for line in told) == 3
    assert "after 2 steps" in told[-1] or "success" in told[-1]


@pytest.mark.parametrize(
    ("names", "name", "message"),
    [
        (["human"], "TicTacToe-v1", "which has 2 seats: name one player for each, for example"),
        (["human", "expert"], "Coin-v1", "which has 1 seat: name one player"),
        (
            ["humn", "expert"],
            "TicTacToe-v1",
            "expected one of human, random, expert, expert:NOISE",
        ),
        (["human", "mcts:5"], "KuhnPoker-v1", "would see what is hidden"),
        (["human", "runs/a#all"], "TicTacToe-v1", "is several: name one of them, runs/a#SEED"),
        (["expert"], "CartPole-v1", "no expert"),
    ],
)
def test_who_cannot_sit_there_is_said(names, name, message):
    with pytest.raises(ValueError, match=message):
        contestants.seated(names, *made(name), greedy=False)


def test_motors_take_no_words():
    env, params = made("PlanarVolleyball-v1", actions="rotors")
    assert env.continuous
    with pytest.raises(ValueError, match="actions without text"):
        terminal.play(env, params, [("human", None)] * env.num_agents, jax.random.key(0))
