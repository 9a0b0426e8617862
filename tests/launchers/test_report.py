"""The report's command line, on a run that was really trained."""

import json
import re

import chex
import jax
import numpy as np
import pytest
import tiny
from commands import call
from in_process import call_here

from agentrl.evaluation import credit_view
from agentrl.run import loop
from launchers import beside


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("report") / "lake"
    config = tiny.groups_config(updates=4)
    loop.run(config, workdir, command="python -m launchers.train --config=lake.py")
    return workdir


def test_report_of_a_trained_run(run):
    done = call("report", f"--workdirs={run}")
    assert done.returncode == 0, done.stderr
    text = (run / "report.html").read_text()
    assert "python -m launchers.train --config=lake.py" in text
    for section in ("results", "curves", "credit", "anchors", "metrics", "config", "provenance"):
        assert f'id="{section}"' in text
    assert 'class="turn"' in text and "GiGPO" in text and "GRPO" in text
    assert "policy of update 4" in text
    assert not list(run.glob("*.tmp"))


def test_replies_of_a_language_policy_before_and_after(tmp_path):
    workdir = tmp_path / "talk"
    sft = {"warm_start__updates": 16, "warm_start__learning_rate": 0.03}
    loop.run(tiny.talk_config(updates=20, **sft), workdir, command="train")
    done = call_here("report", f"--workdirs={workdir}")
    assert done.returncode == 0, done.stderr
    text = (workdir / "report.html").read_text()
    part = text.split('id="replies"')[1].split('id="credit"')[0]
    assert "The same 32 conversations" in part and "by that of update 20" in part
    row = part.split("replies that are no command</th>")[1].split("</tr>")[0]
    before, after = map(float, re.findall(r">([\d.]+)</td>", row))
    assert before > after + 0.2  # SFT taught it commands
    # What the run began from is gone: the rest is shown without it.
    config = json.loads((workdir / "config.json").read_text())
    config["init_from"] = str(tmp_path / "nowhere")
    (workdir / "config.json").write_text(json.dumps(config))
    done = call_here("report", f"--workdirs={workdir}")
    assert done.returncode == 0, done.stderr
    text = (workdir / "report.html").read_text()
    part = text.split('id="replies"')[1].split('id="credit"')[0]
    assert "Not shown: " in part and "nowhere holds no run" in part
    assert 'class="credit talk"' in text


def test_replies_are_of_a_batch_that_nobody_chose(tmp_path, monkeypatch):
    # No returns differ: all batches are played, of each checkpoint.
    monkeypatch.setattr(credit_view, "choose_group", lambda streams, task=None: (0, 0.0))
    seen = []

    def replies(run, collect, state, batch):
        again = collect(state)["rollout"]
        chex.assert_trees_all_equal(again.streams, batch.streams)
        seen.append((run.update, jax.random.key_data(state.key)))

    monkeypatch.setattr(beside, "replies", replies)
    config = tiny.talk_config(updates=4, warm_start__updates=0, checkpoint__every=2)
    loop.run(config, tmp_path, command="train")
    done = call_here("report", f"--workdirs={tmp_path}")
    assert done.returncode == 0, done.stderr
    stream = jax.random.fold_in(jax.random.key(config.seed), 0xC4ED17)
    ((update, key),) = seen
    assert update == 4
    np.testing.assert_array_equal(key, jax.random.key_data(jax.random.fold_in(stream, 0)))


def test_a_run_without_checkpoint_is_reported_without_credit(run, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.json", "metrics.jsonl"):
        (copy / name).write_bytes((run / name).read_bytes())
    out = tmp_path / "pages" / "a.html"
    done = call_here("report", f"--workdirs={copy}", f"--out={out}")
    assert done.returncode == 0, done.stderr
    assert "Not shown: no checkpoint" in out.read_text()
    assert not (copy / "report.html").exists()


@pytest.mark.parametrize(
    "arguments, word",
    [
        ([], "--workdirs is missing"),
        (["--workdirs=a,b"], "--out is missing"),
        (["--workdirs=nowhere"], "nowhere is not a directory"),
        (["nowhere"], "'nowhere' is not a flag"),
        (["--workdirs={run}", "--nocredit", "--metrics=entropi"], "no run has metric 'entropi'"),
    ],
)
def test_one_line_says_what_is_wrong(run, arguments, word):
    done = call_here("report", *(a.format(run=run) for a in arguments))
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(lines) == 1 and word in lines[0], done.stderr
    assert "Traceback" not in done.stderr
