"""launchers.front: the points of runs, which are dominated, and the area that they cover."""

import json

from in_process import call_here


def written(path, points):
    """A run of two seeds that ended with these metrics."""
    path.mkdir()
    env = {"env": {"name": "Research-v1"}}
    (path / "config.json").write_text(json.dumps(env))
    lines = [json.dumps({"seed": seed, "update": 10, **points}) for seed in (0, 1)]
    (path / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))


def test_front(tmp_path):
    """{(1, .5), (2, .7), (4, .8)} to a cost of 5 is 2.7, and (3, .6) adds nothing."""
    a, b = tmp_path / "a", tmp_path / "b"
    written(a, {"cost/0.1": 2, "quality/0.1": 0.7, "cost/0.4": 1, "quality/0.4": 0.5})
    written(b, {"cost/0.0": 4, "quality/0.0": 0.8, "cost/0.2": 3, "quality/0.2": 0.6})
    done = call_here("front", f"--workdirs={a},{b}", "--most_cost=5")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if "dominated" in line] == ["b/0.2"]
    assert "2 seed(s): 2.700 [2.700, 2.700]" in lines[-1]
    other = call_here("front", f"--workdirs={a}", "--most_cost=5", "--cost=calls")
    assert other.returncode and "has no metrics 'calls' and 'quality'" in other.stderr
    assert "--most_cost" in call_here("front", f"--workdirs={a}").stderr


def test_points_of_evaluations(tmp_path):
    """(1, .5) and (3, 1) to a length of 4: 2 of .5 and 1 of 1. An older checkpoint is not one."""
    for folder, update, length in (("", 5, 9), ("", 10, 1), ("Desk,head_weights=[1,0]", 10, 3)):
        path = tmp_path / "run" / "eval" / folder / f"update_{update:06d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        played = {"length": [length, length], "success": [True, length > 1]}
        record = {"seeds": [0, 1], "per_seed": {"0": played, "1": played}}
        path.write_text(json.dumps(record))
    done = call_here("front", f"--workdirs={tmp_path / 'run'}", "--evaluated", "--most_cost=4")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["run", "run/Desk,head_weights=[1,0]"]
    assert "2 seed(s): 2.000 [2.000, 2.000]" in lines[-1]
    other = call_here("front", f"--workdirs={tmp_path}", "--evaluated", "--most_cost=4")
    assert other.returncode and "has no evaluations" in other.stderr
