"""The export's command line, on a run that was really trained."""

import json

import tiny
from commands import call, refused
from in_process import call_here

from agentrl.run import loop


def test_a_run_is_exported_and_what_cannot_be_is_one_line(tmp_path):
    config = tiny.groups_config(updates=2)
    loop.run(config, tmp_path / "lake", command="python -m launchers.train --config=lake.py")
    done = call("export", f"--workdir={tmp_path / 'lake'}", f"--out={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    assert "update 2, seed 0" in done.stdout
    about = json.loads((tmp_path / "out/policy.json").read_text())
    assert about["update"] == 2 and about["env"]["name"] == "FrozenLake-v1"
    again = call_here("export", f"--workdir={tmp_path / 'lake'}", f"--out={tmp_path / 'out'}")
    refused(again, "not empty", "--overwrite")
    missing = call_here("export", f"--workdir={tmp_path / 'no'}", f"--out={tmp_path / 'x'}")
    refused(missing, "no run")
