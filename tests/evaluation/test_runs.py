import json
import pathlib
import sys

import numpy as np
import pytest

from agentrl.evaluation import runs
from configs.start import cartpole_ppo
from configs.words import coin_talk

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import directories  # noqa: E402


def load(*paths):
    return runs.load(list(paths))


@pytest.mark.parametrize(
    ("config", "algorithm"),
    [
        (coin_talk.get_config("gigpo"), "gigpo · clipped_surrogate"),
        (cartpole_ppo.get_config(), "gae · clipped_surrogate · clipped_value_loss · "),
    ],
)
def test_algorithm_is_named_by_its_functions(config, algorithm, tmp_path):
    path = directories.write(tmp_path / "a")
    (path / "config.json").write_text(config.to_json_best_effort())
    assert load(path)[0].algorithm.startswith(algorithm)


def test_final_is_the_mean_over_the_last_tenth(tmp_path):
    (run,) = load(directories.write(tmp_path / "a"))
    # Updates 37 to 40 of 40, at 0.925, 0.95, 0.975 and 1 of the way: 0.9625 of the end.
    np.testing.assert_allclose(run.final("success_rate"), [0.9625 * 0.8, 0.9625 * 0.9])
    assert run.final("nothing").size == 0


def test_final_is_cut_where_the_shortest_seed_ends(tmp_path):
    lines = [line for line in directories.learning() if line["seed"] == 0 or line["update"] <= 20]
    (run,) = load(directories.write(tmp_path / "a", lines=lines))
    assert run.last_update() == 20
    # Updates 19 and 20 of 40.
    np.testing.assert_allclose(run.final("success_rate"), [0.4875 * 0.8, 0.4875 * 0.9])


def test_lines_cut_short_gaps_and_values_that_are_no_numbers(tmp_path):
    path = directories.write(tmp_path / "a", lines=[])
    (path / "metrics.jsonl").write_text(
        '{"seed": 0, "update": 1, "entropy": 1.0}\n'
        '{"seed": 0, "update": 3, "entropy": NaN, "note": "x"}\n'
        '{"seed": 0, "update": 2, "loss/policy": 0.5}\n'
        '{"seed": 0, "upd'
    )
    (run,) = load(path)
    assert run.lines[0] == [
        {"seed": 0, "update": 1, "entropy": 1.0},
        {"seed": 0, "update": 2, "loss/policy": 0.5},
        {"seed": 0, "update": 3},
    ]


def test_wall_time_adds_up_over_resumptions(tmp_path):
    lines = [{"seed": 0, "update": u, "wall_time": t} for u, t in enumerate((5, 9, 2, 3, 1), 1)]
    (run,) = load(directories.write(tmp_path / "a", lines=lines))
    # Three launches ran 9, 3 and 1 seconds.
    assert run.launches[0].wall_seconds == 13


def test_seeds_of_several_launches_are_one_run(tmp_path):
    one = directories.write(tmp_path / "a", evaluations=[directories.evaluation(40)])
    other = directories.write(
        tmp_path / "b",
        config={"seed": 2},
        lines=directories.learning(seeds=(2, 3)),
        evaluations=[directories.evaluation(40, seeds=(2, 3))],
    )
    (run,) = load(one, other)
    assert sorted(run.lines) == [0, 1, 2, 3] and len(run.launches) == 2
    assert run.final("success_rate").shape == (4,)
    assert sorted(run.evaluations[0]["per_seed"]) == ["0", "1", "2", "3"]


def test_evaluations_elsewhere_are_read_by_environment(tmp_path):
    first = [("Nim-v1", directories.evaluation(40)), ("Nim-v1", directories.evaluation(20))]
    one = directories.write(tmp_path / "a", elsewhere=first)
    (one / "eval" / "empty").mkdir()
    other = directories.write(
        tmp_path / "b",
        config={"seed": 2},
        lines=directories.learning(seeds=(2, 3)),
        elsewhere=[("Nim-v1", directories.evaluation(40, seeds=(2, 3)))],
    )
    (run,) = load(one, other)
    assert run.evaluations == () and list(run.elsewhere) == ["Nim-v1"]
    early, late = run.elsewhere["Nim-v1"]
    assert (early["update"], late["update"]) == (20, 40)
    assert sorted(early["per_seed"]) == ["0", "1"]
    assert sorted(late["per_seed"]) == ["0", "1", "2", "3"]
    (one / "eval" / "Nim-v1" / "update_000040.json").write_text("{}")
    with pytest.raises(ValueError, match="Nim-v1.*not a complete evaluation"):
        load(one)


@pytest.mark.parametrize("what", ["same seeds", "another config", "another commit"])
def test_what_must_not_be_counted_together(tmp_path, what):
    seeds = (0, 1) if what == "same seeds" else (2, 3)
    config = {"advantage": {"gamma": 0.5}} if what == "another config" else None
    provenance = {"git": {"commit": "def"}} if what == "another commit" else None
    other = {"config": config, "provenance": provenance}
    assert len(load(
        directories.write(tmp_path / "a"),
        directories.write(tmp_path / "b", lines=directories.learning(seeds=seeds), **other),
    )) == 2  # fmt: skip


def test_names_are_the_shortest_that_differ(tmp_path):
    paths = [tmp_path / "x" / "coin", tmp_path / "y" / "coin"]
    named = load(*(directories.write(path) for path in paths))
    assert [run.name for run in named] == ["x/coin", "y/coin"]


def test_flat():
    assert dict(runs.flat({"a": {"b": 1, "c": {}}, "d": [2]})) == {"a.b": 1, "a.c": {}, "d": [2]}


def broken(tmp_path, how):
    path = directories.write(tmp_path / "run", evaluations=[directories.evaluation(40)])
    if how == "missing":
        return tmp_path / "none"
    if how == "no config":
        (path / "config.json").unlink()
    if how == "no metrics":
        (path / "metrics.jsonl").unlink()
    if how == "empty metrics":
        (path / "metrics.jsonl").write_text("")
    if how == "broken config":
        (path / "config.json").write_text("{")
    if how == "config of another kind":
        (path / "config.json").write_text("[]")
    if how == "evaluation cut short":
        content = directories.evaluation(40)
        content["per_seed"]["0"]["success"].pop()
        (path / "eval" / "update_000040.json").write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "how, words",
    [
        ("missing", "is not a directory"),
        ("no config", "holds no run"),
        ("no metrics", "has no metrics yet"),
        ("empty metrics", "has no metrics yet"),
        ("broken config", "not readable JSON"),
        ("config of another kind", "expected a JSON object"),
        ("evaluation cut short", "not a complete evaluation"),
    ],
)
def test_errors_name_the_directory(tmp_path, how, words):
    with pytest.raises(ValueError, match=words) as raised:
        load(broken(tmp_path, how))
    assert str(tmp_path) in str(raised.value)
