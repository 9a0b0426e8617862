"""Several roles on one transcript at the command line, with environments in the graph and not."""

import pytest
import tiny
from in_process import call_here

from agentrl import advantages, rollout
from agentrl.config import env_section, section
from agentrl.run import loop

WRAPPER = "envs.wrappers.OneTranscript"


def config_of(where):
    sizes = {"updates": 1, "log_every": 1, "rollout__num_groups": 2, "rollout__group_size": 4}
    policy = {"context": section(rollout.contexts.whole, max_new_tokens=8)}
    if where == "graph":
        base = env_section("CheckedSum-v1", question="largest", terms=3)
        drawn = {"policy__constrained": True, "warm_start__updates": 0}
        return tiny.talk_config(
            env=env_section(WRAPPER, base=base), objective__kl__weight=0.0, learner__minibatches=1,
            **sizes, **policy, **drawn,
        )  # fmt: skip
    base = env_section(f"{tiny.TOYS}:Checked", numbers=((3, 5, 1), (6, 2, 6)))
    return tiny.host_config(
        env=env_section(WRAPPER, base=base), advantage=section(advantages.grpo),
        host__observation_tokens=64, learner__minibatches=1, **sizes, **policy,
    )  # fmt: skip


@pytest.mark.parametrize("where", ["graph", "host"])
def test_a_run_is_trained_played_and_talked_to(where, tmp_path):
    run = tmp_path / "run"
    assert loop.run(config_of(where), run, command="test")
    done = call_here("play", f"--run={run}")
    assert done.returncode == 0, done.stderr
    turns = [line for line in done.stdout.splitlines() if line.startswith("> ")]
    assert turns and ("role 0)" in turns[0] or where == "host")
    done = call_here("chat", f"--workdir={run}", text="say 1\nreject\nsay 6\n:quit\n")
    assert done.returncode == 0, done.stderr
    read = [line for line in done.stdout.splitlines() if line.endswith("reads:")]
    assert [line[-13:] for line in read[:3]] == ["role 0 reads:", "role 1 reads:", "role 0 reads:"]
    assert "= command 'reject', yours" in done.stdout and " is 1" in done.stdout
    done = call_here("report", f"--workdirs={run}")
    assert done.returncode == 0, done.stderr
    page = (run / "report.html").read_text()
    assert '<span class="note">role 0</span>' in page
