"""The report's command line, on a run that was really trained."""

import pytest
import tiny
from commands import call
from in_process import call_here

from agentrl.run import loop


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
