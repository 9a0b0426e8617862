"""Cells: their grid, their names, and jobs with seeds."""

import pathlib

import pytest

from launchers.cluster import cells
from launchers.cluster.launch import Job

CONFIGS = ["configs/coin.py:gigpo", "configs/lake.py"]


def names(*arguments):
    return [cell.name for cell in cells.cells(*arguments)]


def test_every_combination_is_a_cell_that_says_what_it_changes():
    found = cells.cells(CONFIGS, "a.b=1,2;c=x")
    assert [cell.name for cell in found] == [
        "coin__gigpo__b=1__c=x",
        "coin__gigpo__b=2__c=x",
        "lake__b=1__c=x",
        "lake__b=2__c=x",
    ]
    lake = ("--config=configs/lake.py", "--config.a.b=2", "--config.c=x")
    assert found[-1].arguments == lake
    brackets = names(["x.py"], "policy.hidden=(8,8),(4,)")
    assert brackets == ["x__hidden=(8,8)", "x__hidden=(4,)"]


def test_a_key_is_shortened_as_far_as_it_means_one_key():
    keys = {"updates", "warm_start.updates", "pool.every", "checkpoint.every", "advantage.gamma"}
    assert [cells.short(key, keys) for key in sorted(keys)] == [
        "gamma",
        "checkpoint.every",
        "pool.every",
        "updates",
        "warm_start.updates",
    ]
    assert names(["x.py"], "checkpoint.every=5", keys) == ["x__checkpoint.every=5"]
    # Beside each other, too, if the config is not known.
    assert names(["x.py"], "a.rate=1;b.rate=2") == ["x__a.rate=1__b.rate=2"]


def test_names_are_names_of_files():
    (name,) = names(["x.py"], "init_from=../../runs/a b")
    assert name == "x__init_from=.._.._runs_a_b"
    one, other = names(["x.py"], f"policy.hidden={'1' * 300}2,{'1' * 300}3")
    assert len(one) == len(other) == 150 and one != other
    assert Job(one, (), pathlib.Path("runs"))


@pytest.mark.parametrize("grid", ["learning_rate", "../../x=1", "a..b=1", "=1", "a.=1"])
def test_what_is_no_axis_is_refused(grid):
    with pytest.raises(ValueError, match="is not an axis"):
        cells.cells(["x.py"], grid)


def test_two_cells_of_one_name_are_refused():
    with pytest.raises(ValueError, match="twice"):
        cells.cells(["x.py", "x.py"])


def test_seeds_are_jobs_of_one_cell():
    (cell,) = cells.cells(["x.py"])
    jobs = cells.jobs([cell], pathlib.Path("runs"), (0, 3))
    assert [job.name for job in jobs] == ["x__seed=0", "x__seed=3"]
    assert [str(job.workdir) for job in jobs] == ["runs/x/seed_0", "runs/x/seed_3"]
    assert jobs[1].arguments == ("--config=x.py", "--config.seed=3")
    assert {cells.cell_of(job) for job in jobs} == {"x"}
    (alone,) = cells.jobs([cell], pathlib.Path("runs"))
    assert (alone.name, str(alone.workdir), cells.cell_of(alone)) == ("x", "runs/x", "x")
