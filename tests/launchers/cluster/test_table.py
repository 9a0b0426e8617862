"""The table of a sweep: seeds of a cell together, whole runs and their ends, and its file."""

import csv
import json
import pathlib

import pytest

from agentrl.evaluation import runs, statistics
from launchers.cluster import cells, table
from launchers.cluster.backend import State
from launchers.cluster.launch import Job
from launchers.cluster.reports import Report


def report(job, state=State.DONE, message=""):
    job = Job(job.name, job.arguments, job.workdir, {"": 20})
    return Report(job, state, 20, message)


def write(workdir, seed, values, metric="success_rate"):
    workdir.mkdir(parents=True)
    config = {"seed": seed, "num_seeds": 1, "updates": 20, "env": {"name": "Coin-v1"}}
    (workdir / "config.json").write_text(json.dumps(config))
    records = [
        {"seed": seed, "update": 2 * i + 2, "env_steps": i, metric: value}
        for i, value in enumerate(values)
    ]
    (workdir / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))


@pytest.fixture
def sweep(tmp_path):
    some = cells.jobs(cells.cells(["x.py"], "rate=1,2,3"), tmp_path, (0, 1))
    for i, job in enumerate(some[:4]):
        # The last of ten lines is the last tenth.
        write(job.workdir, i % 2, [0.0] * 5 + [0.2 + i / 10] * 4 + [0.5 + i / 10])
    known = [report(job) for job in some[:4]]
    known += [report(some[4], State.FAILED, "error: no"), report(some[5], State.RUNNING)]
    return known


def test_seeds_are_one_run_as_the_report_counts_them(sweep):
    first, second, failed = table.rows(sweep, "success_rate")
    assert [first.cell, second.cell, failed.cell] == ["x__rate=2", "x__rate=1", "x__rate=3"]
    assert first.seeds == 2 and first.update == 20 and first.state == "done 2"
    assert first.end.value == pytest.approx((0.7 + 0.8) / 2)
    assert first.whole.value == pytest.approx((0.4 * 0.45 + 0.07 + 0.08) / 1, abs=0.2)
    ends = statistics.stratified_bootstrap([[0.7], [0.8]])
    assert (first.end.low, first.end.high) == pytest.approx(tuple(ends))
    assert failed.whole is None and failed.state == "failed 1, running 1"
    assert failed.message == "error: no"
    (run,) = runs.load([r.job.workdir for r in sweep[:2]])
    assert sorted(run.lines) == [0, 1]


def test_a_metric_that_should_be_small_has_its_least_first(sweep):
    found = table.rows(sweep, "success_rate", minimize=True)
    assert [row.cell for row in found] == ["x__rate=1", "x__rate=2", "x__rate=3"]
    assert all(row.whole is None for row in table.rows(sweep, "nothing"))


def test_the_file_has_a_line_for_every_cell(sweep, tmp_path):
    found = table.rows(sweep, "success_rate")
    path = tmp_path / "table.csv"
    table.write_csv(path, found, "success_rate")
    lines = list(csv.DictReader(path.open()))
    assert [line["cell"] for line in lines] == [row.cell for row in found]
    assert float(lines[0]["end"]) == pytest.approx(0.75) and float(lines[0]["end_low"])
    assert lines[2]["whole"] == lines[2]["end_high"] == "" and lines[2]["message"] == "error: no"
    shown = "\n".join(table.text(found, "success_rate"))
    assert "0.750 [0.700, 0.800]" in shown and "error: no" in shown


def test_stages_of_a_config_are_rows_of_their_own(tmp_path):
    job = Job("x", (), pathlib.Path(tmp_path), {"one": 10, "two": 20})
    write(tmp_path / "one", 0, [1.0])
    found = table.rows([Report(job, State.RUNNING, 10, "")], "success_rate")
    assert [(row.cell, row.seeds) for row in found] == [("x/one", 1), ("x/two", 0)]
