"""Searches over runs that are arithmetic: which cells go on, and that none is lost."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys

import fake_runs
import numpy as np
import pytest
from fake_runs import Runner, search

from agentrl.evaluation import sweeps
from launchers.search.driver import promoted
from launchers.search.space import parse
from launchers.search.trials import JOURNAL, Trials

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "fake.py"
    path.write_text(fake_runs.CONFIG)
    return path


def trials_of(directory, config, text=fake_runs.SPACE):
    space = parse([str(config)], text)
    path = directory / "search.journal"
    # The definition of the search is not needed to read its trials.
    copy = directory / "copy"
    copy.mkdir(exist_ok=True)
    (copy / JOURNAL).write_bytes(path.read_bytes())
    about = (
        Trials.__init__.__globals__["optuna"]()
        .load_study(study_name="search", storage=_storage(copy / JOURNAL))
        .user_attrs["about"]
    )
    return Trials(copy, space, minimize=about["minimize"], about=about).all()


def _storage(path):
    from optuna import storages

    return storages.JournalStorage(storages.journal.JournalFileBackend(str(path)))


def updates_of(trained):
    return sum(end - begin for _, begin, end in trained)


def test_halving_runs_27_9_and_3_cells_and_finds_what_the_grid_finds(config, tmp_path):
    grid, halving = Runner(), Runner()
    whole = search(tmp_path / "grid", config, "grid", grid, fresh_seeds=0)
    found = search(tmp_path / "halving", config, "halving", halving, fresh_seeds=0)
    assert [cell.update for cell in found.cells].count(90) == 3
    assert found.about["reached"] == {"10": 27, "30": 9, "90": 3}
    assert (
        found.cells[0].values
        == whole.cells[0].values
        == {
            "rate": 0.2,
            "weight": 0.5,
            "epochs": 2,
        }
    )
    assert updates_of(grid.trained) == 27 * 90
    assert updates_of(halving.trained) == 27 * 10 + 9 * 20 + 3 * 60
    assert updates_of(halving.trained) < updates_of(grid.trained) / 3
    # A rung is a prefix of the whole run.
    for cell in found.cells:
        for seed, lines in cell.lines.items():
            other = next(c for c in whole.cells if c.name == cell.name)
            assert list(lines) == list(other.lines[seed])[: len(lines)]


def test_the_best_of_a_rung_go_on_and_of_equal_ones_the_earlier():
    assert promoted({0: 0.1, 1: 0.5, 2: 0.5, 3: 0.5, 4: 0.2, 5: 0.0}, 3) == {1, 2}
    assert promoted({0: 0.1, 1: 0.5}, 3) == {1}
    assert promoted({0: 0.1, 1: 0.5, 2: 0.3}, 3, minimize=True) == {0}


def test_less_is_better_where_that_is_asked(config, tmp_path):
    found = search(tmp_path / "s", config, "halving", Runner(), minimize=True, fresh_seeds=0)
    # Far from the best by 0.1, 0.5 * 0.4 and 0.05.
    assert found.value(found.cells[0]) == pytest.approx(0.65)
    assert found.cells[0].values["rate"] in (0.1, 0.3) and found.cells[0].values["weight"] != 0.5


def test_the_best_meets_the_default_on_seeds_that_the_search_has_not_seen(config, tmp_path):
    runner = Runner()
    found = search(tmp_path / "s", config, "halving", runner, fresh_seeds=5)
    seen = {seed for cell in found.cells for seed in cell.lines}
    # Two seeds to a run, as the config has it.
    assert seen == {0, 1} and found.fresh.seeds == (2, 3, 4, 5, 6, 7)
    # At the end the noise is 0: the mean over the last tenth is the value at update 90.
    assert np.allclose(found.fresh.of_best, 1.0) and np.allclose(found.fresh.of_default, 0.85)
    value, interval = found.fresh.difference
    assert np.allclose([value, *interval], 0.15)
    again = Runner()
    search(tmp_path / "s", config, "halving", again, fresh_seeds=5)
    assert not again.trained


def test_fresh_seeds_come_after_those_that_a_space_fixes(config, tmp_path):
    options = {"space": "seed=7;num_seeds=3;rate=0.1,0.2", "fresh_seeds": 3}
    found = search(tmp_path / "s", config, "grid", Runner(), **options)
    assert {seed for cell in found.cells for seed in cell.lines} == {7, 8, 9}
    assert found.fresh.seeds == (10, 11, 12)


def killed(directory, config, kind, at):
    """Searches, each time killed at another step, until it ends; all jobs that were done."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    script = ROOT / "tests" / "support" / "fake_runs.py"
    for step in at:
        done = subprocess.run(
            [sys.executable, str(script), str(directory), str(config), kind, str(step)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
    runner = Runner()
    return search(directory, config, kind, runner), runner


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, at", [("halving", (20, 61, 100, 25)), ("tpe", (3, 30, 61)), ("random", (8, 90))]
)
def test_a_search_killed_at_any_moment_is_the_search_that_was_not(config, tmp_path, kind, at):
    """None of its trials is lost, none is there twice, and what was done is not done again."""
    once = Runner()
    whole = search(tmp_path / "whole", config, kind, once)
    found, last = killed(tmp_path / "killed", config, kind, at)
    text = fake_runs.SPACE if kind == "halving" else fake_runs.RANGES
    trials = trials_of(tmp_path / "whole", config, text)
    assert trials_of(tmp_path / "killed", config, text) == trials
    assert len(trials) == (27 if kind == "halving" else 14)
    assert [c.lines for c in found.cells] == [c.lines for c in whole.cells]
    assert found.about == whole.about
    assert len(last.trained) < len(once.trained)


def test_a_journal_whose_last_line_was_torn_goes_on(config, tmp_path):
    search(tmp_path / "s", config, "halving", Runner())
    before = trials_of(tmp_path / "s", config)
    with (tmp_path / "s" / JOURNAL).open("ab") as file:
        file.write(b'{"op_code":4,"worker_id":"a')
    search(tmp_path / "s", config, "halving", Runner())
    assert trials_of(tmp_path / "s", config) == before


def test_a_cell_that_fails_stops_alone_and_the_next_call_tries_it_again(config, tmp_path, capsys):
    runner = Runner(fails=lambda config: config.epochs == 3)
    found = search(tmp_path / "s", config, "grid", runner, fresh_seeds=0)
    assert len(found.cells) == 18
    assert capsys.readouterr().out.count("failed: ") == 9
    runner = Runner()
    found = search(tmp_path / "s", config, "grid", runner, fresh_seeds=0)
    assert len(found.cells) == 27 and len(runner.trained) == 9
    assert [t.state for t in trials_of(tmp_path / "s", config)].count("complete") == 27


def test_the_sampler_learns_from_the_trials_before(config, tmp_path):
    """TPE's later half comes nearer to the best than random's, in the mean of three searches."""
    later = {"random": [], "tpe": []}
    for kind, found in later.items():
        for seed in (0, 1, 2):
            workdir = tmp_path / f"{kind}{seed}"
            options = {"trials": 40, "rungs": (), "at_once": 1, "fresh_seeds": 0, "seed": seed}
            assert len(search(workdir, config, kind, Runner(), **options).cells) == 40
            trials = trials_of(workdir, config, fake_runs.RANGES)
            found += [trial.scores[90] for trial in trials[20:]]
    assert np.mean(later["tpe"]) > np.mean(later["random"]) + 0.05


def test_numbers_of_a_range_are_what_the_command_says(config, tmp_path):
    found = search(tmp_path / "s", config, "random", Runner(), fresh_seeds=0)
    trials = {t.values["rate"] for t in trials_of(tmp_path / "s", config, fake_runs.RANGES)}
    assert {cell.values["rate"] for cell in found.cells} == trials
    assert all(0.01 <= rate <= 1 and float(f"{rate:.4g}") == rate for rate in trials)


def test_seeds_are_runs_of_their_own(config, tmp_path):
    runner = Runner()
    text = "seed=0,2,4;rate=0.1,0.2"
    found = search(tmp_path / "s", config, "grid", runner, space=text, fresh_seeds=0)
    assert len(runner.trained) == 6 and len(found.cells) == 2
    assert found.axes == ("rate",)
    assert [sorted(cell.lines) for cell in found.cells] == [[0, 1, 2, 3, 4, 5]] * 2
    with (tmp_path / "s" / "search.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12 and {row["seed"] for row in rows} == set("012345")
    best = found.cells[0].name
    mine = [float(row["success_rate"]) for row in rows if row["cell"] == best]
    assert np.allclose(mine, found.scores(found.cells[0]))


def test_scores_are_of_the_last_tenth_before_the_rung():
    lines = {0: [{"update": u, "a": float(u)} for u in range(1, 101)]}
    assert sweeps.scores(lines, "a", 100) == [np.mean(range(91, 101))]
    assert sweeps.scores(lines, "a", 20) == [np.mean([19, 20])]
    rare = {0: [{"update": u, **({"b": float(u)} if u % 30 == 0 else {})} for u in range(1, 101)]}
    assert sweeps.scores(rare, "b", 100) == [90.0]
    with pytest.raises(ValueError, match="no metric 'b' up to update 20; there are b, update"):
        sweeps.scores(rare, "b", 20)


@pytest.mark.parametrize(
    "kind, changes, words",
    [
        ("grid", {"space": "rate=log(0.1,1)"}, "a range has no end of cells; give values"),
        ("halving", {"space": "rate=log(0.1,1)"}, "give --trials=N"),
        ("random", {"trials": None}, "needs --trials=N"),
        ("grid", {"trials": 5}, "leave out --trials"),
        ("halving", {"rungs": (30, 30)}, "expected ascending updates below the end"),
        ("halving", {"rungs": (90,)}, "of config.updates=90"),
        ("grid", {"space": "rat=0.1,0.2"}, "rat"),
        ("grid", {"space": "rate=0.1"}, "the space has one cell"),
        ("grid", {"space": "updates=90,180"}, "updates"),
        ("grid", {"metric": "succes_rate"}, "no metric 'succes_rate'"),
        ("annealing", {}, "expected one of grid, random, tpe, halving"),
    ],
)
def test_one_line_says_why_a_search_cannot_be_made(config, tmp_path, kind, changes, words):
    with pytest.raises(ValueError, match=words) as error:
        search(tmp_path / "s", config, kind, Runner(), **changes)
    assert "\n" not in str(error.value)


def test_a_directory_with_another_search_is_refused(config, tmp_path):
    search(tmp_path / "s", config, "halving", Runner(), fresh_seeds=0)
    with pytest.raises(ValueError, match="holds another search .*eta was 3 and is now 2"):
        search(tmp_path / "s", config, "halving", Runner(), fresh_seeds=0, eta=2, rungs=(10, 30))
    # More trials are the same search.
    search(tmp_path / "r", config, "random", Runner(), fresh_seeds=0)
    runner = Runner()
    found = search(tmp_path / "r", config, "random", runner, fresh_seeds=0, trials=20)
    assert len(found.cells) == 20
    assert json.loads((tmp_path / "r" / "search.json").read_text())["total"] == 20


@pytest.mark.parametrize(
    "text, words",
    [
        ("rate", "'rate' is not an axis"),
        ("rate=log(0,1)", "expected one range"),
        ("rate=log(1,0.1)", "LOW below HIGH"),
        ("rate=int(0.5,2)", "expected one range"),
        ("rate=log(1e-4,1e-2),0.1", "expected one range"),
        ("rate=1,1", "the value '1' twice"),
        ("rate=1,2;rate=3,4", "two axes"),
        ("seed=log(1,5)", "seeds repeat every cell"),
    ],
)
def test_a_space_that_cannot_be_read_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse(["a.py"], text)


def test_cells_are_named_by_what_they_are():
    space = parse(["a/b.py:c", "d.py"], "policy.hidden=(32,32),(64,64);x.rate=log(0.1,1);n=3")
    values = {"config": "a/b.py:c", "policy.hidden": "(32,32)", "x.rate": 0.25}
    assert space.name(values) == "b__c__policy.hidden=(32,32)__x.rate=0.25"
    assert space.arguments(values) == (
        "--config=a/b.py:c",
        "--config.n=3",
        "--config.policy.hidden=(32,32)",
        "--config.x.rate=0.25",
    )
    assert space.arguments({}) == ("--config=a/b.py:c", "--config.n=3")
    # What cannot be a directory's name, or is too long, is told apart by a digest.
    odd = [space.name({"x": text}) for text in ("{'a': 1}", "{'a'; 1}", "y" * 300, "y" * 301)]
    assert len(set(odd)) == 4 and all(len(name) < 200 and "/" not in name for name in odd)
