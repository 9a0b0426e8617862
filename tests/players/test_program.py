"""Programs as players: what is asked, what becomes of those that misbehave, notebooks, no words."""

import asyncio
import gc
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl.players import scripted
from agentrl.players.asked import asked_actor
from agentrl.players.program import Program
from agentrl.rollout.results import play_results
from envs.vector import World

SCRIPT = pathlib.Path(__file__).parents[1] / "support" / "outside" / "misbehaving.py"
COUNT = 8
# What is counted of each kind of failure; the other ways are answers that the game judges.
WAYS = {
    "late": {"late": 3},
    "silent": {"late": 3},
    "half a line": {"late": 3},
    "flood of old answers": {"late": 3},
    "prose": {"invalid": 3},
    "empty line": {"invalid": 3},
    "a list": {"invalid": 3},
    "no id": {"invalid": 3},
    "id as text": {"invalid": 3},
    "id to come": {"invalid": 3},
    "a number": {"invalid": 3},
    "nested": {"invalid": 3},
    "not UTF-8": {"invalid": 3},
    "long line": {"invalid": 3},
    "flood": {"invalid": 3},
    "flood without lines": {"invalid": 3},
    "dies": {"ended": 3},
    "leaves a child": {"ended": 3},
    "closes its output": {"ended": 3},
    "unknown command": {},
    "long command": {},
    "half a character": {},
    "abstains": {},
}


def left_behind():
    """Processes that "leaves a child" has left."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if b"time.sleep(597)" in path.read_bytes() else []
        except OSError:
            continue
    return found


def command(way):
    return f"{sys.executable} -S -E {SCRIPT} '{way}'"


@pytest.fixture(scope="module")
def table():
    """Plays COUNT matches of a program in seat 0 with a random player, in one compiled program."""
    env, params = envs.make("KuhnPoker-v1")
    world = World(env, params)
    current = []

    class Now:
        """The program of the present test."""

        grammar, reply_bytes = "bare", 64

        def answers(self, turns):
            return current[-1].answers(turns)

    players = [asked_actor(Now(), world), scripted("random", env, params)]

    @jax.jit
    def play(seating, keys):
        return play_results(players, world, seating, keys, jax.random.key(0))

    def played(program, first=0):
        current.append(program)
        seating = jnp.broadcast_to(jnp.array([first, 1]), (COUNT, 2))
        return jax.tree.map(np.asarray, play(seating, jax.random.split(jax.random.key(0), COUNT)))

    return env, played


def test_a_program_plays_what_it_is_shown(table):
    env, play = table
    asked = []

    class Noted(Program):
        def answer(self, turn):
            asked.append(turn)
            return super().answer(turn)

    with Noted(command("good"), env) as program:
        met = play(program)
    assert not met.illegal.any() and (met.moves[:, 0] > 0).all() and not program.summary()
    assert program.asked == len(asked) == met.moves[:, 0].sum()
    firsts = [turn["match"] for turn in asked if turn["first"]]
    assert sorted(firsts) == list(range(COUNT)) and {turn["seat"] for turn in asked} == {0}
    assert all(turn["observation"][0] in "JQK" for turn in asked)
    commands = {tuple(turn["commands"]) for turn in asked}
    assert commands <= {("check", "bet"), ("fold", "call")} and len(commands) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_misbehaves_loses_by_the_rules(table, way):
    """Kuhn's poker forgives one illegal action and ends the match with the second in a row."""
    env, play = table
    alone = play(None, first=1)
    began = time.monotonic()
    with Program(command(way), env, timeout_s=0.3) as program:
        met = play(program)
        assert dict(program.failures) == WAYS[way], program.gone
        assert bool(program.gone) == bool(WAYS[way])
    assert time.monotonic() - began < 15 and not left_behind()
    np.testing.assert_array_equal(met.offender, [0] * COUNT)
    assert (met.illegal[:, 0] == 2).all() and (met.episode_return[:, 0] == -1).all()
    told = program.summary()
    assert ("abstained" if way == "abstains" else "failures in a row") in told or not WAYS[way]
    # All others play as before.
    again = play(None, first=1)
    jax.tree.map(np.testing.assert_array_equal, alone, again)


@pytest.mark.parametrize("way, kind", [("late once", "late"), ("exits at times", "ended")])
def test_a_failure_is_forgiven(table, way, kind):
    """A late answer is not taken for the next turn's; a process that ended is started again."""
    env, play = table
    with Program(command(way), env, timeout_s=0.5) as program:
        met = play(program)
    assert set(program.failures) == {kind} and not program.gone
    assert met.illegal.sum() == program.failures[kind]
    np.testing.assert_array_equal(met.offender >= 0, met.illegal[:, 0] == 2)


def test_much_noise_does_no_harm(table):
    env, play = table
    with Program(command("noisy"), env) as program:
        met = play(program)
    assert not met.illegal.any() and not program.failures


def test_programs_where_a_loop_runs_already():
    """A notebook has a running event loop."""
    env, _ = envs.make("KuhnPoker-v1")
    turn = {"match": 0, "seat": 0, "first": True, "observation": "", "commands": ["[bet]"]}

    async def cell():
        with Program(command("good"), env) as program:
            return program.answer(turn)

    assert asyncio.run(cell()) == b"[bet]"
    gc.collect()


@pytest.mark.parametrize(
    "given, message",
    [
        ("", "expected a command"),
        ("'open", "No closing quotation"),
        ("no-such-program", "does not start: .*No such file"),
        (f"{sys.executable} -c 'raise SystemExit(\"no model\")'", "its last words: no model"),
        (f"{sys.executable} -c 'print(1)'", "does not start: '1' instead of"),
        (f"{sys.executable} -c 'import time; time.sleep(9)'", "no answer within 0.5 seconds"),
    ],
)
def test_programs_that_do_not_start(given, message):
    env, _ = envs.make("KuhnPoker-v1")
    with pytest.raises(ValueError, match=message):
        Program(given, env, start_timeout_s=0.5)


def test_games_without_words():
    env, _ = envs.make("Volleyball-v1")
    with pytest.raises(ValueError, match="Volleyball: such players play games with words"):
        Program(command("good"), env)
    env, _ = envs.make("KuhnPoker-v1")
    with pytest.raises(ValueError, match="timeout_s=0: expected a positive number"):
        Program(command("good"), env, timeout_s=0)
