"""Playing in the terminal: what is told to whom, what replies come to, and bad flags."""

import jax
import pytest
import tiny
from commands import call
from in_process import call_here

import envs
from agentrl.evaluation import terminal
from agentrl.run import loop, restored
from agentrl.trained import contestants
from launchers import cli, play


def played(who, replies=(), seed=0, name="Coin-v1", **options):
    """(return, what was told) of an episode; replies run out as control-D does."""
    env, params = envs.make(name, **options)
    seats = contestants.seated([who], env, params, greedy=False)
    told, replies = [], iter(replies)

    def ask(prompt):
        reply = next(replies, None)
        if reply is None:
            raise EOFError
        return reply

    total = terminal.play(env, params, seats, jax.random.key(seed), ask=ask, tell=told.append)
    return total[0], told


def test_the_expert_finds_the_coin():
    total, told = played("expert", wording="faithful", quest_length=2)
    assert total == 1.0
    assert told[0].startswith("You are in a house") and told[1].startswith("\n-= ")
    moves = [line for line in told if line.startswith("> ")]
    assert moves[0].startswith("> go ") and moves[1:] == ["> take coin"]
    assert told[-2] == "\nYou pick up the coin from the ground."
    assert told[-1] == "\nsuccess after 2 steps, return 1"


def test_a_person_writes_commands():
    # One room, with the coin in it and no exit.
    options = {"quest_length": 1, "distractors": 0, "illegal_reward": -0.5}
    total, told = played("human", ["?", "north", "dance", "  TAKE "], **options)
    assert total == 0.0
    assert told[2:4] == ["[take]", "take"]
    assert [line for line in told if line.startswith("reward")] == [
        "reward -0.5, illegal",
        "reward -0.5, illegal",
        "reward 1",
    ]
    assert told[-1] == "\nsuccess after 3 steps, return 0"


def test_a_person_leaves():
    _, told = played("human", ["what" * 50], quest_length=1, distractors=0)
    assert told[-2].endswith(": coin") or told[-2] == "[take]"
    assert told[-1] == "\nleft after 1 step, return 0"


def test_random_play_is_legal_and_repeats():
    first = played("random", max_steps_in_episode=5)
    assert first == played("random", max_steps_in_episode=5)
    assert not any("illegal" in line for line in first[1])
    assert played("random", seed=1)[1] != first[1]


def test_an_environment_without_text_shows_its_observation():
    total, told = played("human", ["1", "0", "left"], name="CartPole-v1")
    assert total == 3.0 and told[0].startswith("\n[") and told[1] == "[0, 1]"


def test_options_are_written_as_arguments():
    assert cli.parse_options("") == {}
    text = "size=(5, 7), sight=walls, goal_reward=-1.5, layout='random'"
    options = {"size": (5, 7), "sight": "walls", "goal_reward": -1.5, "layout": "random"}
    assert cli.parse_options(text) == options
    for wrong in ("size", "size=", "**{}", "a=b()", ") + f("):
        with pytest.raises(ValueError, match="expected name=value"):
            cli.parse_options(wrong)


def test_the_command_line():
    done = call_here("play", "--env=NumberLine-v1", "--options=length=1", text="+\n-\n")
    assert done.returncode == 0, done.stderr
    assert "success after" in done.stdout and "[-, +]" in done.stdout


def test_a_person_meets_a_player_on_the_command_line():
    done = call("play", "--env=TicTacToe-v1", "--players=human,minimax", text="?\nhere\nthere\n")
    assert done.returncode == 0, done.stderr
    assert "seat 0 (human) loses by an illegal action after 2 steps" in done.stdout


@pytest.mark.parametrize(
    "arguments, word",
    [
        ([], "name an environment"),
        (["Coin-v1"], "'Coin-v1' is not a flag"),
        (["--env=Coin-v1", "--options=quest=2"], "no option 'quest'"),
        (["--env=Coin-v1", "--wording=terse"], "expected one of compact, faithful"),
        (["--env=TicTacToe-v1"], "has 2 seats: name one player for each"),
    ],
)
def test_one_line_says_what_is_wrong(arguments, word):
    done = call_here("play", *arguments)
    lines = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == 2 and len(lines) == 1 and word in lines[0], done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_plays_its_own_game(tmp_path):
    """What is shown is what the episode was: its words, its rewards, its end."""
    config = tiny.talk_config(updates=4, policy__constrained=True)
    assert loop.run(config, tmp_path / "run", command="test")
    told = []
    run = restored.load(tmp_path / "run")
    lake = run.experiment.env, run.experiment.env_params
    with pytest.raises(ValueError, match="reads whole conversations, not turns by themselves"):
        contestants.seated([str(tmp_path / "run")], *lake, greedy=False)
    total = play.show_conversation(run, "FrozenLake-v1", jax.random.key(0), tell=told.append)
    assert total == ("\nsuccess" in told[-1])
    boards, replies = told[:-1:2], told[1:-1:2]
    assert len(boards) == len(replies) and f"after {len(boards)} turns" in told[-1]
    assert not total and len(boards) == run.experiment.env_params.max_steps_in_episode
    assert told[-1].endswith(", at a limit of turns or tokens")
    assert all(len(board.strip().split("\n")) == 3 for board in boards)
    assert {reply.split()[1] for reply in replies} <= set(run.experiment.env.action_names)
