"""Command lines: bad input gives one clear line, a non-zero exit, and loses nothing."""

import json
import pathlib
import shutil

import pytest
from commands import call, refused
from in_process import call_here

import configs

CONFIGS = pathlib.Path(configs.__file__).parent
LAKE = f"--config={CONFIGS / 'start/frozen_lake.py'}"
SMALL = ["--config.updates=2", "--config.log_every=2", "--config.mesh.data=1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("cli") / "run"
    done = call("train", LAKE, f"--workdir={workdir}", *SMALL, optimized=True)
    assert done.returncode == 0, done.stderr
    return workdir


BAD_FLAGS = {
    "no config": (["--workdir=x"], ["--config is missing"]),
    "no workdir": ([LAKE], ["--workdir is missing"]),
    "no such file": (["--config=configs/none.py", "--workdir=x"], ["none.py"]),
    "no such preset": (
        [f"--config={CONFIGS / 'credit/coin.py'}:gigp", "--workdir=x"],
        ["gigp", "expected one of gigpo"],
    ),
    "unknown key": (
        [LAKE, "--config.advantage.gama=1.0", "--workdir=x"],
        ["--config.advantage.gama: this config has no 'gama'. Did you mean \"gamma\""],
    ),
    "key of another function": (
        [LAKE, "--config.advantage.name=gae", "--config.advantage.lam=0.5", "--workdir=x"],
        ["--config.advantage.lam: this config has no 'lam'", "--config.advantage=\"{'name'"],
    ),
    "wrong type": ([LAKE, "--config.updates=many", "--workdir=x"], ["updates", "many"]),
    "unknown flag": ([LAKE, "--workdr=x"], ["workdr", "workdir"]),
    "stray word": ([LAKE, "--workdir=x", "gigpo"], ["'gigpo' is not a flag"]),
    "impossible combination": (
        [LAKE, "--workdir=x", "--config.policy.critic=shared"],
        ["config.policy.critic='shared', but advantage 'gigpo' does not use a critic"],
    ),
    "too many devices": (
        [LAKE, "--workdir=x", "--config.mesh.data=64"],
        ["config.mesh.data=64", "xla_force_host_platform_device_count"],
    ),
}


@pytest.mark.parametrize("name", BAD_FLAGS)
def test_bad_flags(name, tmp_path):
    arguments, words = BAD_FLAGS[name]
    refused(call_here("train", *arguments, cwd=tmp_path), *words)
    assert not list(tmp_path.iterdir()), "something was written"


def test_dry_run_prints_the_config_and_writes_nothing(tmp_path):
    done = call_here("train", LAKE, "--dry_run", "--config.advantage.gamma=0.5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "gamma: 0.5" in done.stdout and "!!" not in done.stdout
    assert not list(tmp_path.iterdir())


def test_same_command_resumes_and_another_config_is_refused(run):
    before = (run / "metrics.jsonl").read_text()
    assert call_here("train", LAKE, f"--workdir={run}", *SMALL).returncode == 0
    assert (run / "metrics.jsonl").read_text() == before
    done = call_here("train", LAKE, f"--workdir={run}", *SMALL, "--config.advantage.gamma=0.5")
    refused(done, "advantage.gamma was 0.95 and is now 0.5", "another --workdir")
    assert (run / "metrics.jsonl").read_text() == before


def test_directory_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    refused(call("train", LAKE, f"--workdir={tmp_path}", *SMALL), "holds no run")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("damage", ["truncated", "emptied", "foreign"])
def test_unreadable_checkpoint(run, tmp_path, damage):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    step = copy / "checkpoints" / "2"
    files = sorted((p for p in step.rglob("*") if p.is_file()), key=lambda p: -p.stat().st_size)
    if damage == "truncated":
        for path in files[:3]:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "emptied":
        shutil.rmtree(step)
        step.mkdir()
    else:
        config = json.loads((copy / "config.json").read_text())
        config["policy"]["hidden"] = [7]
        (copy / "config.json").write_text(json.dumps(config))
    metrics = (copy / "metrics.jsonl").read_text()
    hidden = ["--config.policy.hidden=(7,)"] if damage == "foreign" else []
    done = call_here("train", LAKE, f"--workdir={copy}", "--config.updates=4", *SMALL[1:], *hidden)
    refused(done, "checkpoint", str(step), "--workdir")
    assert (copy / "metrics.jsonl").read_text() == metrics
    refused(call_here("evaluate", f"--workdir={copy}", "--episodes=4"), "checkpoint")


def test_evaluate_under_other_options(run):
    wrong = call_here("evaluate", f"--workdir={run}", "--options=slipery=true")
    refused(wrong, "did you mean 'slippery'")
    changed = "--options=max_steps_in_episode=1"
    flags = [f"--workdir={run}", "--episodes=8", "--noexpert", changed, "--turns=1"]
    done = call("evaluate", *flags, optimized=True)
    assert done.returncode == 0, done.stderr
    (line,) = [line.split() for line in done.stdout.splitlines() if line.startswith("1 ")]
    assert line[0] == "1" and line[2] == "1.0"
    (path,) = (run / "eval" / "FrozenLake-v1,max_steps_in_episode=1").iterdir()
    assert set(json.loads(path.read_text())["per_seed"]["0"]["length"]) == {1}


def test_evaluate_several_attempts(run):
    done = call_here("evaluate", f"--workdir={run}", "--episodes=16", "--noexpert", "--attempts=3")
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in done.stdout.splitlines()]
    at = next(i for i, words in enumerate(told) if words[:1] == ["attempts"])
    number, every, some = zip(*(map(float, words) for words in told[at + 1 : at + 4]), strict=True)
    assert number == (1, 2, 3) and every[0] == some[0]
    assert every[0] >= every[1] >= every[2] and some[0] <= some[1] <= some[2]


def test_evaluate_with_searches(run):
    flags = [f"--workdir={run}", "--episodes=8", "--noexpert"]
    refused(call_here("evaluate", *flags, "--search=node=4"), "did you mean 'nodes'")
    refused(call_here("evaluate", *flags, "--search=nodes=many"), "expected a number")
    done = call_here("evaluate", *flags, "--search=nodes=4,width=2,per_subgoal=2,stride=2")
    assert done.returncode == 0, done.stderr
    told = {x.split()[0]: x.split()[1:] for x in done.stdout.splitlines()[-3:]}
    assert set(told) == {"sampling", "search", "planner"}
    for one, two, four, eight, replies, _, _, seed in told.values():
        assert float(one) <= float(two) <= float(four) <= float(eight) == float(seed)
        assert 0 <= float(replies) <= 8


def test_evaluate_a_policy_that_acts_otherwise(run):
    flags = [f"--workdir={run}", "--episodes=8", "--noexpert"]
    refused(call_here("evaluate", *flags, "--policy=activaton=1"), "did you mean 'activation'")
    refused(call_here("evaluate", *flags, "--policy=hidden=[7]"), "has other parameters")
    both = call_here("evaluate", *flags, "--policy=hidden=[7]", "--options=slippery=true")
    refused(both, "give one")
    done = call_here("evaluate", *flags, '--policy=activation="relu"')
    assert done.returncode == 0, done.stderr
    (path,) = (run / "eval").glob("FrozenLake-v1,activation=*/*.json")
    assert len(json.loads(path.read_text())["per_seed"]["0"]["length"]) == 8


def test_evaluate(run, tmp_path):
    refused(call_here("evaluate", f"--workdir={tmp_path / 'nothing'}"), "holds no run")
    refused(call_here("evaluate", f"--workdir={run}", "--update=77"), "no checkpoint of update 77")
    done = call_here("evaluate", f"--workdir={run}", "--episodes=64")
    assert done.returncode == 0, done.stderr
    assert "expert" in done.stdout and "regret" in done.stdout
    written = json.loads((run / "eval" / "update_000002.json").read_text())
    assert len(written["per_seed"]["0"]["episode_return"]) == 64
    again = call_here("evaluate", f"--workdir={run}", "--episodes=64")
    assert again.stdout == done.stdout


def test_figure(run, tmp_path):
    refused(call_here("figure", "--workdirs=nowhere", f"--out={tmp_path / 'x.svg'}"), "nowhere")
    metrics = "--metric=success_rate,entropy"
    done = call("figure", f"--workdirs={run}", metrics, f"--out={tmp_path / 'x.svg'}")
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "x.svg").read_text()
    assert drawn.count(">FrozenLake-v1<") == 2
    assert ">success rate<" in drawn and ">entropy<" in drawn
    # Runs with the same label are seeds of one series.
    one = drawn.count(" seeds)<") / 2
    out = tmp_path / "x.svg"
    call_here("figure", f"--workdirs={run},{run}", "--labels=a,a", metrics, f"--out={out}")
    assert out.read_text().count(">a (") == 2 and one == 1
