"""What people see of a run."""

import pytest
import tiny

from agentrl.run import loop, metrics
from agentrl.run.progress import Progress


def shown(capsys, record, machine):
    progress = Progress(total=10, done=0, title="a title", seconds_between_lines=0.0)
    with progress:
        progress.show(4, [record, record], machine)
    return capsys.readouterr().err


def test_updates_of_reinforcement_learning(capsys):
    record = {"episode_return": 0.5, "entropy": 1.25, "rejected_updates": 0.0}
    machine = {"env_steps_per_second": 12345.6, "updates_per_second": 2.0}
    text = shown(capsys, record, machine)
    assert "4/10 · return 0.50 · entropy 1.25 · 12,346 steps/s" in text and "rejected" not in text


def test_supervised_updates(capsys):
    record = {"loss/imitation": 1.25, "held_out_loss": 1.5, "rejected_updates": 0.5}
    text = shown(capsys, record, {"updates_per_second": 2.0})
    assert "loss 1.250 · held out 1.500 · rejected 50% · 2.00 updates/s" in text


def test_supervised_updates_of_text_show_tokens(capsys):
    machine = {"updates_per_second": 2.0, "trained_tokens_per_second": 12345.6}
    assert "loss 1.250 · 12,346 tokens/s" in shown(capsys, {"loss/imitation": 1.25}, machine)


def test_an_evaluation_has_a_line_of_its_own(capsys):
    """Between the lines of every few seconds, too; the share of successes where there is one."""
    progress = Progress(total=10, done=0, title="a title", seconds_between_lines=1e6)
    with progress:
        for update in (1, 2, 3):
            record = {"success_rate": 0.5, "evaluation/episode_return": 0.75}
            record |= {"evaluation/success_rate": 0.25} if update == 2 else {}
            progress.show(update, [record] if update > 1 else [{}], {"updates_per_second": 2.0})
    lines = capsys.readouterr().err.splitlines()[1:]
    assert [line.split(" · ")[:3] for line in lines] == [
        ["2/10", "evaluated success 0.250", "success 0.50"],
        ["3/10", "evaluated return 0.750", "success 0.50"],
    ]


@pytest.mark.parametrize(("steps", "expected"), [(400, "4/8"), (10, "4/10"), (1000, "4/4")])
def test_a_budget_of_turns_says_where_the_run_ends(capsys, steps, expected):
    """By the seed that has acted least, and not after the last update."""
    progress = Progress(total=10, done=0, title="a title", budget=800, seconds_between_lines=0.0)
    with progress:
        records = [{"env_steps": steps}, {"env_steps": steps + 100}]
        progress.show(4, records, {"updates_per_second": 2.0})
    assert f"{expected} · " in capsys.readouterr().err


def test_an_alarm_is_raised_once(capsys):
    progress = Progress(total=10, done=0, title="a title")
    with progress:
        for update in range(3):
            progress.say("KL", f"update {update}")
    text = capsys.readouterr().err
    assert "KL: update 0" in text and "update 1" not in text


@pytest.fixture(scope="module")
def supervised(tmp_path_factory):
    """A run of supervised updates alone."""
    workdir = tmp_path_factory.mktemp("supervised") / "run"
    config = tiny.talk_config(
        updates=4, warm_start__updates=4, objective__kl__weight=0.0, expert__held_out=True
    )
    return config, workdir


def test_a_supervised_run_shows_its_loss_and_no_steps(supervised, capsys):
    config, workdir = supervised
    assert loop.run(config, workdir, command="test")
    text = capsys.readouterr().err
    assert "4/4 · loss " in text and "held out" in text
    assert "tokens/s" in text and "steps/s" not in text
    for record in metrics.read(workdir / "metrics.jsonl"):
        assert record["trained_tokens_per_second"] > 0 and record["env_steps"] == 0
        assert {"loss/imitation", "held_out_loss", "grad_norm"} <= record.keys()
        assert not {"env_steps_per_second", "entropy", "approx_kl"} & record.keys()
        assert record["gradient_steps"] == record["update"]
