"""The arena's command line, with checkpoints of runs that were really trained."""

import json
import pathlib
import sys

import jax
import pytest
import tiny
from commands import call
from in_process import call_here

import envs
from agentrl.evaluation import report, runs, terminal
from agentrl.run import loop
from agentrl.trained import contestants


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("arena") / "kuhn"
    config = tiny.matches_config(updates=4, checkpoint__every=2, num_seeds=2, seed=5)
    loop.run(config, workdir, command="python -m launchers.train --config=kuhn.py")
    return workdir


def test_runs_meet_scripted_players_and_the_report_shows_it(run):
    players = f"random,expert,{run}#6,{run}@2"
    done = call(
        "arena", "--game=KuhnPoker-v1", f"--players={players}", "--matches=64", f"--out={run}"
    )
    assert done.returncode == 0, done.stderr
    assert "64 matches of each pair, 32 on each seat, seed 0" in done.stdout
    record = json.loads((run / "arena.json").read_text())
    assert record["players"] == players.split(",")
    assert "launchers.arena" in record["command"] and len(record["ratings"]["rating"]) == 4
    page = (run / "arena.html").read_text()
    assert "Mean return of the row against the column" in page
    text = report.report(runs.load([run]), samples=10)
    assert 'id="arena"' in text and "Every pair on every seat" in text
    drawn = call_here("figure", f"--arena={run / 'arena.json'}", f"--out={run / 'payoffs.svg'}")
    assert drawn.returncode == 0, drawn.stderr
    assert "mean return of" in (run / "payoffs.svg").read_text()
    (run / "payoffs.svg").unlink()
    (run / "arena.json").write_text("{}")
    with pytest.raises(ValueError, match="run launchers.arena again"):
        runs.load([run])
    (run / "arena.json").unlink()


def test_players_by_name(run):
    env, params = envs.make("KuhnPoker-v1")
    found = contestants.named(["random", f"{run}#all"], env, params, greedy=True)
    assert list(found) == ["random", f"{run}#5", f"{run}#6"]
    assert not found[f"{run}#5"].draws
    for names, message in (
        ([f"{run}#4"], "has seeds 5 to 6"),
        (["random", "random"], "named twice"),
        (["runs/nowhere"], "and no such directory; expected one of random"),
        ([], "no players"),
    ):
        with pytest.raises(ValueError, match=message):
            contestants.named(names, env, params, greedy=True)
    with pytest.raises(ValueError, match="plays KuhnPoker, not TicTacToe"):
        contestants.named([str(run)], *envs.make("TicTacToe-v1"), greedy=True)
    with pytest.raises(ValueError, match="was trained with rounds=1; say so in --options"):
        contestants.named([str(run)], *envs.make("KuhnPoker-v1", rounds=3), greedy=True)


def test_a_run_meets_a_person(run):
    env, params = envs.make("KuhnPoker-v1")
    seats = contestants.seated([f"{run}#6", "human"], env, params, greedy=True)
    told = []
    total = terminal.play(
        env, params, seats, jax.random.key(0), ask=lambda prompt: "call", tell=told.append
    )
    assert sum(total) == 0 and any("seat 1 (human) reads" in line for line in told)


def test_programs_in_line_ups(run, tmp_path):
    """A run, a program that misbehaves and random play in one program; twice the same bytes."""
    script = pathlib.Path(__file__).parents[1] / "support" / "outside" / "misbehaving.py"
    program = f"program:{sys.executable} -S {script} prose"
    flags = ["--game=KuhnPoker-v1", f"--players={run},random,{program}", "--matches=32"]
    found = []
    for name in ("first", "second"):
        done = call_here("arena", *flags, "--lineups=ab,cb,bc", f"--out={tmp_path / name}")
        assert done.returncode == 0, done.stderr
        found.append(json.loads((tmp_path / name / "lineups.json").read_text()))
        found[-1].pop("command")
    assert found[0] == found[1]
    (told,) = found[0]["programs"].values()
    assert "of 3 turns 3 invalid" in told and told in done.stdout
    assert [one["seat"] for one in found[0]["differences"]] == [0]


def test_every_line_of_play():
    done = call_here("arena", "--game=TicTacToe-v1", "--players=expert", "--exhaustive")
    assert done.returncode == 0, done.stderr
    first, *seats = done.stdout.splitlines()
    assert "all lines of play" in first and len(seats) == 2
    assert all("never beaten" in line for line in seats)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--players=random"], "--game is missing"),
        (["--game=TicTacToe-v1"], "--players is missing"),
        (["--game=KuhnPoker-v1", "--players=mcts:5"], "would see what is hidden"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message):
    done = call_here("arena", *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr
