"""Published engines in worker processes.

ENGINES_PYTHON=/path/to/python runs them in another interpreter than this one.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import envs
from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.rollout import contexts
from envs.hosted import HostError, Pool
from envs.hosted.engines import Menu

PYTHON = os.environ.get("ENGINES_PYTHON", sys.executable)
TWO_ROOMS = {"rooms": 2, "objects": 3, "quest_length": 2, "games": 3}
KITCHEN = {"variations": (0,), "verbs": ("go to", "focus on", "move")}


def needs(package, what=""):
    """Skips where the interpreter has no such engine, and says how to install it."""
    found = subprocess.run([PYTHON, "-c", f"import {package}"], capture_output=True)
    if found.returncode:
        pytest.skip(f"no {package} in {PYTHON}: {PYTHON} -m pip install {package}{what}")


class Player:
    """One worker, asked and answered in turn."""

    def __init__(self, source, timeout_s=60.0, **options):
        self.pool = Pool(
            source, options, python=PYTHON, workers=1, timeout_s=timeout_s, start_timeout_s=120.0
        )

    def __enter__(self):
        while not self.pool.idle():
            self.pool.wait()
        return self

    def __exit__(self, *exception):
        self.pool.close()

    def ask(self, **request):
        while not self.pool.idle():
            self.pool.wait()
        self.pool.ask(0, request)
        while not (answers := self.pool.wait()):
            pass
        return answers[0]

    def reset(self, seed=0):
        return self.ask(op="reset", seed=seed).reply["observation"]

    def step(self, action):
        return self.ask(op="step", action=action).reply

    def process(self):
        return self.pool._workers[0].process.pid


def listed(observation):
    """Commands below the last heading, {what to reply: command}."""
    lines = observation.rpartition("Commands:\n")[2].split("\n")
    lettered = all(line[1:3] == ") " for line in lines)
    return {line[0]: line[3:] for line in lines} if lettered else {line: line for line in lines}


def children(process):
    """Running processes that a process has started."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == process and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


def gone(process, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            status = pathlib.Path(f"/proc/{process}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True
        if status.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_textworld_generates_one_game_per_seed_and_keeps_its_file(tmp_path):
    needs("textworld")
    options = {"directory": str(tmp_path), **TWO_ROOMS}
    with Player("textworld:generated", **options) as one:
        first = [one.reset(seed) for seed in range(3)]
        written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.z8")}
        assert len(written) == 3 and len(set(first)) == 3
        # Three games: seeds with the same remainder have the same one.
        assert one.reset(4) == first[1]
    with Player("textworld:generated", **options) as other:
        assert [other.reset(seed) for seed in range(3)] == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.z8")} == written
    # Generated once more, elsewhere, it is the same game.
    with Player("textworld:generated", directory=str(tmp_path / "elsewhere"), **TWO_ROOMS) as third:
        assert third.reset(2) == first[2]


@pytest.mark.parametrize("commands", ["listed", "lettered"])
def test_a_game_of_textworld_is_won_by_one_of_the_listed_commands(commands, tmp_path):
    needs("textworld")
    with Player("textworld:generated", directory=str(tmp_path), commands=commands) as player:
        choices = listed(player.reset(1))
        assert len(choices) > 3 and "look" in choices.values()
        won = 0
        for reply in choices:
            assert listed(player.reset(1)) == choices
            answer = player.step(reply)
            assert answer["valid"] and answer["success"] == [answer["terminated"]]
            assert answer["reward"] == [float(answer["terminated"])] and not answer["truncated"]
            won += answer["terminated"]
        assert won == 1
        before = player.reset(1)
        answer = player.step("!")
        assert not answer["valid"] and answer["reward"] == [0.0] and not answer["terminated"]
        assert listed(answer["observation"]) == listed(before)


def test_observations_of_textworld_repeat_the_state_or_do_not(tmp_path):
    needs("textworld")
    for state in (True, False):
        options = {"directory": str(tmp_path), "commands": "none", "state": state}
        with Player("textworld:generated", **options) as player:
            quest = player.reset(1).split("\n")[-1]
            text = player.step("inventory")["observation"]
            assert "You are carrying" in text and "Commands:" not in text
            assert (quest in text) == state


def test_a_task_of_scienceworld_is_solved_and_its_java_process_ends():
    needs("scienceworld", " (and a Java runtime)")
    with Player("scienceworld:find-non-living-thing", limit=500, **KITCHEN) as player:
        (java,) = children(player.process())
        assert "red box in the kitchen" in player.reset(0)
        total = 0.0
        for command in ("go to kitchen", "focus on counter", "move counter to red box"):
            answer = player.step(command)
            assert answer["valid"], command
            total += answer["reward"][0]
        # 8 of 100 points are given before the first command.
        assert answer["terminated"] and answer["success"] == [True]
        assert total == pytest.approx(0.92)
        player.reset(0)
        answer = player.step("no such thing")
        assert not answer["valid"] and answer["reward"] == [0.0]
    assert gone(java)
    # To focus on a thing that does not live fails the other task: what was gained is lost, no more.
    with Player("scienceworld:find-living-thing", **KITCHEN) as player:
        player.reset(0)
        gained = player.step("go to kitchen")["reward"][0]
        answer = player.step("focus on counter")
        assert answer["terminated"] and answer["success"] == [False]
        assert gained > 0 and answer["reward"][0] == pytest.approx(-gained - 0.08)


def test_no_letter_is_better_than_another_before_its_line_is_read():
    """Each command is found after each letter, in every turn; a state is shown alike to a group."""
    commands, turns, seeds = [f"take {x}" for x in "abcd"], 3, 400
    places = np.zeros((turns, 4, 4), int)
    first, second = Menu("lettered", 62), Menu("lettered", 62)
    for seed in range(seeds):
        first.begin(seed)
        second.begin(seed)
        for turn in range(turns):
            first.update(commands)
            second.update(reversed(commands))
            assert first.text() == second.text()
            for letter, command in listed(first.text()).items():
                places[turn, "abcd".index(letter), commands.index(command)] += 1
                assert first.read(letter) == (command, True)
    # 100 of each are expected: within four standard deviations.
    assert places.min() > 65 and places.max() < 135
    # Of too many commands others are listed in the next turn, and commands in words keep an order.
    some = Menu("listed", 2)
    some.begin(0)
    shown = []
    for _ in range(8):
        some.update(commands)
        shown.append(some.text().split("\n")[1:])
    assert all(len(set(lines)) == 2 and lines == sorted(lines) for lines in shown)
    assert len(set(map(tuple, shown))) > 1


def test_letters_of_scienceworld_are_drawn_by_the_seed_where_there_are_too_many():
    needs("scienceworld", " (and a Java runtime)")
    options = {"commands": "lettered", "limit": 7, **KITCHEN}
    with Player("scienceworld:find-non-living-thing", **options) as player:
        first = listed(player.reset(3))
        assert list(first) == list("abcdefg")
        assert all(command.startswith(KITCHEN["verbs"]) for command in first.values())
        assert listed(player.reset(3)) == first != listed(player.reset(4))
        assert player.step("g")["valid"] and not player.step("h")["valid"]


@pytest.mark.parametrize(
    "name, players, replies",
    [
        ("TicTacToe-v0", 2, ("[4]", "[0]", "[1]", "[2]", "[7]")),
        ("KuhnPoker-v0", 2, ("[bet]", "[fold]", "[check]", "[bet]", "[fold]", "[bet]", "[fold]")),
        ("TowerOfHanoi-v0", 1, ("[A C]", "[A B]", "[C B]", "[A C]", "[B A]", "[B C]", "[A C]")),
    ],
)
def test_games_of_textarena_are_played_to_their_ends(name, players, replies):
    needs("textarena")
    with Player(f"textarena:{name}", num_players=players) as player:
        assert player.pool.about["seats"] == players
        first = player.reset(3)
        assert player.reset(3) == first
        for reply in replies:
            answer = player.step(reply)
            assert answer["valid"] and len(answer["reward"]) == players
            if answer["terminated"]:
                break
        assert answer["terminated"] and any(answer["success"])
        if players > 1:
            assert sum(answer["reward"]) == 0 and sum(answer["success"]) == 1
        player.reset(3)
        assert not player.step("I pass.")["valid"]


@pytest.mark.parametrize(
    "name, options",
    [
        ("FrozenLake-v1", {"actions": ("l", "d", "r", "u"), "render_mode": "ansi"}),
        ("Blackjack-v1", {"actions": ("stick", "hit")}),
    ],
)
def test_text_environments_of_gymnasium_are_played_to_their_ends(name, options):
    needs("gymnasium")
    with Player(f"gymnasium:{name}", **options) as player:
        draw = random.Random(0)
        first = player.reset(1)
        assert player.reset(1) == first and not player.step("?")["valid"]
        for _ in range(200):
            answer = player.step(draw.choice(options["actions"]))
            if answer["terminated"] or answer["truncated"]:
                break
        assert answer["terminated"] and answer["valid"]


@pytest.mark.parametrize("how", ["killed", "stopped", "engine"])
def test_a_real_engine_that_fails_is_replaced(how):
    """Killed, without an answer in time, or with its own process (Java) killed under it."""
    needs("scienceworld", " (and a Java runtime)")
    with Player("scienceworld:find-non-living-thing", **KITCHEN) as player:
        process = player.process()
        (java,) = children(process)
        first = player.reset(0)
        if how == "stopped":
            # For this answer alone: the simulator itself may take longer on a busy machine.
            limits, player.pool._timeouts = player.pool._timeouts, (3.0, 120.0)
            os.kill(process, signal.SIGSTOP)
        else:
            os.kill(java if how == "engine" else process, signal.SIGKILL)
        failed = player.ask(op="step", action="go to kitchen")
        if how == "stopped":
            player.pool._timeouts = limits
        reasons = {"killed": "ended with status -9", "stopped": "no answer within 3 seconds"}
        assert failed.reply is None and reasons.get(how, "Error") in failed.failure
        assert gone(process) and gone(java)
        assert player.reset(0).split("\n")[0] == first.split("\n")[0]
        assert player.pool.replaced == 1


def test_a_worker_that_is_killed_costs_its_episode_and_not_the_run(monkeypatch, tmp_path):
    needs("textworld")
    options = {"directory": str(tmp_path), "commands": "lettered", "games": 2}
    env, params = envs.make("textworld:generated", python=PYTHON, **options)
    policy = policies.transformer(
        env.view, codec="byte", width=16, layers=1, heads=2, kv_heads=1, hidden=32
    )
    made = rollout.episodes(
        policy,
        env,
        params,
        contexts.window(history=0, max_new_tokens=1),
        rollout.processes(observation_tokens=64, workers=2, retries=0),
        num_groups=2,
        group_size=2,
        max_turns=3,
    )
    ask, steps = Pool.ask, []

    def deadly(pool, number, request):
        if request["op"] == "step":
            steps.append(number)
            if len(steps) == 3:
                os.kill(pool._workers[number].process.pid, signal.SIGKILL)
        ask(pool, number, request)

    monkeypatch.setattr(Pool, "ask", deadly)
    weights = policy.init(jax.random.key(0))
    try:
        _, streams, _, metrics = made.collect(weights, None, jax.random.key(1))
        assert metrics["failed_episodes"][0] == 1
        turns = np.asarray(streams.mask).sum(axis=1)
        assert sorted(turns > 0) == [False, True, True, True]
        # The next collection has all of its episodes, in the worker that took the place.
        _, streams, _, metrics = made.collect(weights, None, jax.random.key(2))
        assert metrics["failed_episodes"][0] == 0 and np.asarray(streams.mask).any(axis=1).all()
    finally:
        made.close()


def test_poker_of_openspiel_with_three_players():
    """Everyone passes: one chip each to the highest card, in some deal to every seat."""
    needs("pyspiel", " (open_spiel)")
    winners = set()
    with Player("openspiel:kuhn_poker", players=3, reads="information") as player:
        for seed in range(20):
            text = player.reset(seed)
            assert text == player.reset(seed) and text.endswith("Commands: pass, bet")
            cards, last = {}, {"seat": 0, "observation": text, "terminated": False}
            while not last["terminated"]:
                cards[last["seat"]] = int(last["observation"][0])
                last = player.step("Pass")
            best = max(cards, key=cards.get)
            assert last["reward"] == [2.0 if i == best else -1.0 for i in range(3)]
            assert last["success"] == [i == best for i in range(3)]
            winners.add(best)
    assert winners == {0, 1, 2}


def test_an_illegal_action_in_openspiel_is_forgiven_once():
    needs("pyspiel", " (open_spiel)")
    with Player("openspiel:tic_tac_toe") as player:
        first = player.reset()
        assert first.startswith("...\n...\n...\nCommands: x(0,0), x(0,1)")
        forgiven = player.step("x(9,9)")
        assert forgiven["observation"] == first and not forgiven["valid"]
        assert player.step("x(1,1)")["seat"] == 1
        assert player.step("x(1,1)")["offender"] == -1
        ended = player.step("nothing")
        assert ended["terminated"] and ended["offender"] == 1 and ended["reward"] == [1.0, -1.0]
        assert not any(ended["success"])


def test_simultaneous_and_cooperative_games_of_openspiel():
    needs("pyspiel", " (open_spiel)")
    with Player("openspiel:matching_pennies_3p") as player:
        player.reset()
        seats = [player.step("Heads")["seat"] for _ in range(2)]
        assert seats == [1, 2] and player.step("heads")["terminated"]
    options = {"colors": 2, "ranks": 2, "hand_size": 2, "players": 2}
    with Player("openspiel:hanabi", **options) as player:
        text, rng, last = player.reset(5), random.Random(0), {"terminated": False}
        while not last["terminated"]:
            text = last.get("observation", text)
            last = player.step(rng.choice(text.rpartition("Commands: ")[2].split(", ")))
            assert last["valid"] and last["reward"][0] == last["reward"][1]
    answer = Pool(
        "openspiel:no_such_game", {}, python=PYTHON, workers=1, timeout_s=9, start_timeout_s=60
    )
    with answer, pytest.raises(HostError, match="no_such_game"):
        while True:
            answer.wait()


def test_a_game_of_pettingzoo():
    """The first player takes the left column; a taken square loses, by PettingZoo's wrapper."""
    needs("pettingzoo", " pygame")
    needs("pygame")
    with Player("pettingzoo:classic.tictactoe_v3") as player:
        assert np.shape(player.reset()) == (18,)
        for action, seat in ((0, 1), (3, 0), (1, 1), (4, 0)):
            answer = player.step(action)
            assert answer["seat"] == seat and not answer["terminated"]
        won = player.step(2)
        assert won["terminated"] and won["reward"] == [1.0, -1.0]
        assert won["success"] == [True, False]
        player.reset()
        player.step(0)
        lost = player.step(0)
        assert lost["terminated"] and lost["reward"][1] == -1.0


@pytest.mark.parametrize(
    "source, package, words",
    [
        ("openspiel:kuhn_poker", "pyspiel", True),
        ("pettingzoo:classic.tictactoe_v3", "pygame", False),
    ],
)
def test_policies_play_games_of_openspiel_and_pettingzoo(source, package, words):
    """Through the host's loop: words with a transformer, numbers with an MLP."""
    needs(package)
    config = base_config()
    if words:
        config.policy = section(
            policies.transformer,
            codec="byte", width=16, layers=1, heads=2, kv_heads=2, hidden=32,
        )  # fmt: skip
        config.context = section(rollout.contexts.window, history=0, max_new_tokens=4)
    config.env = env_section(source, python=PYTHON)
    config.rollout = section(rollout.episodes, num_groups=8, group_size=1, max_turns=12)
    config.host.update(workers=2, observation_tokens=256)
    config.advantage = section(advantages.rae_by_turn)
    config.evaluation.every = 0
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    batch = experiment.batches(state)["rollout"]
    played = np.asarray(batch.streams.mask)
    assert played.any(axis=1).reshape(-1, 2)[:, 0].all()
    reward = np.asarray(batch.streams.reward).sum(axis=1).reshape(-1, 2)
    # Bytes by chance are no commands: the first player gives up the most that can be lost.
    assert (reward[:, 0] == -2).all() if words else reward.min() == -1
