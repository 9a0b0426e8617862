"""Sweeps as a user starts them: what is refused, what runs, what fails, and what goes on."""

import csv
import pathlib
import re
import shutil

import pytest
from commands import call, refused
from in_process import call_here

import configs
from launchers.cluster import cells, check, local, reports
from launchers.cluster.launch import Launch, Resources, Stage

(LAKE,) = pathlib.Path(configs.__file__).parent.rglob("frozen_lake.py")
PAGE = pathlib.Path(configs.__file__).parents[1] / "launchers" / "README.md"
SMALL = "updates=2;log_every=2;mesh.data=1"


def launch(workdir, grid, configs=(str(LAKE),)):
    jobs = cells.jobs(cells.cells(configs, grid), workdir, (0, 1))
    return Launch("sweep", workdir, (Stage("train", jobs, Resources()),))


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("advantage.gama=1.0", "gama=1.0__seed=0: --config.advantage.gama: .* Did you mean"),
        ("updates=10,many", "updates=many__seed=0: .*many"),
        ("policy.critic=shared", "does not use a critic"),
        ("log_every=3;updates=4", "updates=4__seed=0: .*log_every=3"),
    ],
)
def test_every_cell_is_checked_before_one_begins(tmp_path, grid, message):
    for name in ("local", "slurm"):
        with pytest.raises(ValueError, match=message):
            reports.carry_out(launch(tmp_path / "sweep", grid), name)
    assert not list(tmp_path.iterdir())


def test_a_config_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nowhere.py"):
        check.checked(launch(tmp_path, SMALL, ["nowhere.py"]))
    with pytest.raises(ValueError, match="nowhere.py"):
        check.keys(["nowhere.py"])


def test_what_is_checked_knows_where_runs_end():
    found = check.checked(launch(pathlib.Path("runs"), "updates=20,40;log_every=10"))
    assert [job.runs for job in found.jobs] == [{"": 20}] * 2 + [{"": 40}] * 2
    some = [cells.Cell("rung", (f"--config={LAKE}", "--config.log_every=10", "--stop_after=30"))]
    stage = Stage("train", cells.jobs(some, pathlib.Path("runs")))
    (job,) = check.checked(Launch("x", pathlib.Path("runs"), (stage,))).jobs
    assert job.runs == {"": 30}


BAD_FLAGS = {
    "nothing": ([], ["give --configs"]),
    "no directory": ([f"--configs={LAKE}"], ["--workdir is missing"]),
    "no launch there": (["--workdir=x", "--status"], ["x holds no launch"]),
    "a path as a key": (
        [f"--configs={LAKE}", "--workdir=x", "--grid=../../x=1", "--dry_run"],
        ["'../../x=1' is not an axis"],
    ),
    "a cluster's": ([f"--configs={LAKE}", "--workdir=x", "--queue=long"], ["queue='long'"]),
    "twice": (["--launch=x.py", "--devices=1", "--workdir=x"], ["--workdir, --devices: the file"]),
    "no seed": ([f"--configs={LAKE}", "--workdir=x", "--seeds=a"], ["--seeds=a: expected numbers"]),
}


@pytest.mark.parametrize("name", BAD_FLAGS)
def test_bad_flags(name, tmp_path):
    arguments, words = BAD_FLAGS[name]
    refused(call_here("sweep", *arguments, cwd=tmp_path), *words)
    assert not list(tmp_path.iterdir()), "something was written"


@pytest.mark.long
def test_a_sweep_says_what_failed_and_goes_on_by_retry(tmp_path):
    sweep, missing = tmp_path / "sweep", tmp_path / "missing"
    grid = f"--grid=init_from=,{missing};{SMALL}"
    flags = [f"--configs={LAKE}", grid, f"--workdir={sweep}"]
    dry = call_here("sweep", *flags, "--dry_run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.count("launchers.train") == 2 and not sweep.exists()
    done = call("sweep", *flags)
    refused(done, "1 of 2 jobs failed", "holds no run", "--retry")
    rows = list(csv.DictReader((sweep / "table.csv").open()))
    assert [row["state"] for row in rows] == ["done", "failed"]
    assert "holds no run" in rows[1]["message"] and rows[0]["whole"]
    name = rows[1]["cell"]
    assert name in done.stdout and "holds no run" in done.stdout
    # Its directory is enough to ask; a second time nothing runs.
    status = call_here("sweep", f"--workdir={sweep}", "--status")
    assert re.findall(r"^(\w+) +(\d/\d)", status.stdout, flags=re.MULTILINE) == [
        ("done", "2/2"),
        ("failed", "0/2"),
    ]
    assert status.returncode == 2
    before = [path.stat().st_mtime for path in sorted((sweep / "logs").iterdir())]
    assert call_here("sweep", *flags).stdout == done.stdout
    assert [path.stat().st_mtime for path in sorted((sweep / "logs").iterdir())] == before
    shutil.copytree(next(sweep.glob("*init_from=_*")), missing)
    again = call("sweep", f"--workdir={sweep}", "--retry")
    assert again.returncode == 0, again.stderr
    log = call_here("sweep", f"--workdir={sweep}", f"--logs={name}").stdout
    assert "holds no run" in log and "finished" in log
    table = call_here("sweep", f"--workdir={sweep}", "--table", "--metric=entropy")
    assert table.returncode == 0 and table.stdout.count(" done ") == 2


def test_the_launch_of_the_page(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    (text,) = re.findall(r"```python\n(.*?def get_launch.*?)```", PAGE.read_text(), flags=re.DOTALL)
    path = tmp_path / "launch.py"
    path.write_text(text)
    found = reports.launch_of(path)
    first, second = found.stages
    assert second.after == (first.name,) and len(first.jobs) == len(second.jobs) == 6
    for before, after in zip(first.jobs, second.jobs, strict=True):
        assert f"--config.init_from={before.workdir}" in after.arguments
    assert local.plan(found).count("launchers.train") == 12
