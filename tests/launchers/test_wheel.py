"""An installed wheel in an empty directory: the documented commands, and modules of one's own.

The wheel is built from a copy of this checkout, and installed into a directory of its own, which
comes before whatever agentrl is installed here; its dependencies are those of this interpreter.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from commands import call, refused

CHECKOUT = pathlib.Path(__file__).parents[2]
OUTSIDE = pathlib.Path(__file__).parents[1] / "support" / "outside"
PACKAGES = ("agentrl", "envs", "launchers", "configs")
COIN = next((CHECKOUT / "configs").rglob("coin.py")).relative_to(CHECKOUT)
SMALL = {"updates": 2, "log_every": 2, "num_seeds": 1, "checkpoint.every": 2}
SMALL = [f"--config.{key}={value}" for key, value in SMALL.items()]


def pip(*arguments):
    line = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / name, source / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(CHECKOUT / name, source)
    done = pip("wheel", "--no-deps", "--wheel-dir", out, source)
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("building a wheel needs setuptools, which pip cannot get here")
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    done = pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return tmp_path_factory.mktemp("empty")


@pytest.fixture
def command(site, here, monkeypatch):
    """Runs a command with the wheel in the empty directory; it has to succeed."""
    monkeypatch.setenv("PYTHONPATH", str(site))

    def run(*arguments, **options):
        done = call(*arguments, cwd=here, **options)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_types_and_pages_are_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in PACKAGES:
        assert {f"{package}/py.typed", f"{package}/README.md"} <= names
    assert "configs/comparison/tasks.json" in names
    files = [path for name in PACKAGES for path in (CHECKOUT / name).rglob("*")]
    ours = {p.relative_to(CHECKOUT).as_posix() for p in files if p.suffix in (".py", ".md")}
    assert len(ours) > 400 and ours <= names
    assert not [name for name in names if name.startswith(("tests", "colab"))]


@pytest.mark.long
def test_a_run_by_the_documented_commands(command, site, here):
    done = command("train", f"--config={COIN}:gigpo", "--workdir=runs/coin", *SMALL)
    assert f"config: {site / COIN}" in done.stderr.splitlines()
    assert "finished: runs/coin" in done.stderr
    shown = command("evaluate", "--workdir=runs/coin", "--episodes=8").stdout
    assert "expert" in shown and "written: runs/coin/eval/update_000002.json" in shown
    command("report", "--workdirs=runs/coin", "--out=runs/coin/report.html")
    assert "Coin-v1" in (here / "runs/coin/report.html").read_text()
    (listed,) = json.loads(command("runs", "--json").stdout)
    assert (listed["state"], listed["config"]) == ("done", f"{COIN}:gigpo")
    flags = ["--workdir=runs/sweep", f"--configs={COIN}:grpo,{COIN}:gigpo"]
    grid = "--grid=optimizer.learning_rate=1e-3,3e-3"
    planned = command("sweep", *flags, grid, "--dry_run").stdout.splitlines()
    assert sum(f"-m launchers.train --config={COIN}:g" in line for line in planned) == 4
    assert {path.name for path in here.iterdir()} == {"runs"}


@pytest.mark.long
def test_a_sweep_runs_there(command, here):
    # The programs of the run above.
    flags = ["--workdir=runs/sweep", f"--configs={COIN}:gigpo"]
    grid = "--grid=updates=2;log_every=2;num_seeds=1;checkpoint.every=2"
    command("sweep", *flags, grid)
    assert len(list((here / "runs/sweep").glob("*/metrics.jsonl"))) == 1


def test_play(command):
    shown = command("play", "--env=Coin-v1", "--players=expert").stdout
    assert "success" in shown


def test_the_readmes_estimator_of_ones_own(command, here):
    page = (CHECKOUT / "README.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        name = re.match(r"# (my_\w+\.py)\n", block)
        if name:
            (here / name[1]).write_text(block)
    temperature = "--config.advantage.temperature=0.3"
    command("train", "--config=my_config.py", "--workdir=runs/mine", temperature, *SMALL)
    config = json.loads((here / "runs/mine/config.json").read_text())
    assert config["advantage"] == {"name": "my_module.my_estimator", "temperature": 0.3}
    refusal = call("train", "--config=my_confg.py", "--dry_run", cwd=here)
    refused(refusal, "did you mean my_config.py?")


def test_an_environment_of_ones_own(command, here):
    for name in ("corridor.py", "corridor_config.py"):
        shutil.copy(OUTSIDE / name, here)
    shown = command("train", "--config=corridor_config.py", "--dry_run").stdout
    assert "corridor.Corridor" in shown


def test_the_wheel_is_what_runs(command, site, here):
    code = f"import {', '.join(PACKAGES)}; print(*(x.__file__ for x in ({', '.join(PACKAGES)})))"
    line = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(line, capture_output=True, text=True, cwd=here, env=environment)
    assert all(path.startswith(str(site)) for path in done.stdout.split()), done
