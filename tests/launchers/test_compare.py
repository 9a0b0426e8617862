"""One protocol for all methods: what is equal, what is chosen, and what the tables say."""

import collections
import json
import pathlib

import numpy as np
import pytest
from in_process import launch

from agentrl.run import loop
from configs._shared.comparison import RETURN, Score, World
from configs.comparison import arrays
from launchers.comparison import drawing, driver, noise, page, rows, suites, tables, tasks

ROOT = pathlib.Path(__file__).parents[2]
SUITE, GAMES, WORDS = (suites.find(name) for name in ("arrays", "games", "words"))
OURS = suites.Method("grpo", "grpo")


def write_run(job, points, *, seeds):
    """A run directory whose evaluations lie on straight lines between these points."""
    job.workdir.mkdir(parents=True)
    (job.workdir / "eval").mkdir()
    first = {str(seed): {"success": [points[seed][0][1]]} for seed in seeds}
    path = job.workdir / "eval" / "update_000000.json"
    path.write_text(json.dumps({"update": 0, "per_seed": first}))
    metric = "evaluation/success_rate"
    lines = []
    for seed in seeds:
        for update, (steps, value) in enumerate(points[seed][1:], start=1):
            record = {"seed": seed, "update": update, "env_steps": steps, metric: value}
            lines.append(json.dumps(record | {"updates_per_second": 4.0, "entropy": 0.5}))
    (job.workdir / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))


def test_every_method_has_the_same_cells_and_seeds_on_seeds_of_its_own(tmp_path):
    counted = set()
    for name in SUITE.methods:
        method = suites.Method(name, name)
        job = suites.tuning_job(SUITE, "coin", method, tmp_path)
        counted.add(tuple(x for x in job.arguments if "seed" in x))
        result = suites.result_job(SUITE, "coin", method, SUITE.cells()[0], tmp_path)
        assert {"--config.seed=0", "--config.num_seeds=10"} <= set(result.arguments)
    ((first, count, values),) = counted
    assert (first, count) == ("--config.seed=1000", "--config.num_seeds=18")
    by_cell = collections.Counter(SUITE.cell_of().values())
    assert set(by_cell) == set(SUITE.cells()) and set(by_cell.values()) == {3}
    rates = [dict(cell)["optimizer.learning_rate"] for cell in SUITE.cell_of().values()]
    assert str(tuple(rates)) in values
    assert not set(SUITE.seeds) & set(SUITE.tuning_seeds) and len(SUITE.seeds) == 10


@pytest.mark.parametrize("method", [m for m in SUITE.methods if m != "grpo"])
def test_methods_differ_in_credit_and_loss_alone(method):
    """Not in the world, the budget, the network, the episodes or the optimizer."""
    if method == "branching":  # which is a rollout, of as many episodes
        keys = suites.differences(SUITE, "coin", method, "grpo")
        assert not {"rollout.num_groups", "rollout.group_size"} & keys.keys()
        return
    free = ("advantage", "objective", "components", "filters", "reweighting", "reward")
    free += ("policy.critic", "rollout.anchor", "learner.normalize_advantage")
    changed = suites.differences(SUITE, "coin", method, "grpo")
    assert changed and not [key for key in changed if not key.startswith(free)]


@pytest.mark.parametrize(
    ("suite", "world"),
    [(suite, world) for suite in (SUITE, GAMES, WORDS) for world in suite.worlds],
    ids=lambda x: getattr(x, "name", x),
)
def test_worlds_are_those_of_the_stored_results(suite, world):
    assert tasks.fingerprint(suite.worlds[world].env) == tasks.stored()[suite.name][world]


@pytest.mark.parametrize("method", [m for m in GAMES.methods if m != "grpo"])
def test_methods_of_games_differ_in_credit_critic_and_whose_network_it_is(method):
    free = ("advantage", "policy", "objective.value")
    for world in ("kuhn", "research"):
        changed = suites.differences(GAMES, world, method, "grpo")
        assert changed and not [key for key in changed if not key.startswith(free)]
        reason = suites.why_not(GAMES, world, suites.Method(method, method))
        assert ("a planner and workers" in reason) == (method == "matpo" and world == "kuhn")


@pytest.mark.parametrize("method", [m for m in WORDS.methods if m not in ("grpo", "branching")])
def test_methods_of_words_differ_in_credit_loss_and_critic(method):
    free = ("advantage", "objective", "components", "filters", "policy.critic")
    changed = suites.differences(WORDS, "coin", method, "grpo")
    assert changed and not [key for key in changed if not key.startswith(free)]


def test_all_methods_of_words_go_on_from_the_same_runs_seed_by_seed(tmp_path, monkeypatch):
    """Which come first, once for each world; in the other suites there are none."""
    done, cell = [], WORDS.cells()[0]
    monkeypatch.setattr(
        driver.reports, "ended", lambda launch, _: done.extend(launch.stages[0].jobs) or []
    )
    monkeypatch.setattr(driver, "chosen", lambda *_: cell)
    pairs = [("coin", suites.Method(name, name)) for name in ("grpo", "ppo")]
    assert driver.run(WORDS, pairs, tmp_path, driver.Machines()) == []
    starts, runs = done[:2], done[2:]
    assert [job.name for job in starts] == ["start.coin.tune", "start.coin.results"]
    assert all(job.arguments[0].endswith("words.py:coin,sft") for job in starts)
    assert [job.name.partition(".")[0] for job in runs] == ["tune", "result"] * 2
    for job in runs:
        start = starts[job.name.startswith("result")]
        assert f"--config.init_from={start.workdir}" in job.arguments
        assert job.arguments[1:3] == start.arguments[1:3]  # the same seeds
    alone = suites.tuning_job(SUITE, "coin", OURS, tmp_path)
    assert not any("init_from" in x for x in alone.arguments)


def test_what_a_world_does_not_give_is_said():
    reason = suites.why_not(SUITE, "coin", suites.Method("match_tir", "match_tir"))
    assert "call_of" in reason and not suites.why_not(SUITE, "coin", OURS)
    assert "call_of" in driver.plan(SUITE, [("coin", suites.Method("match_tir", "match_tir"))])


def test_a_run_that_fails_is_said(tmp_path, monkeypatch):
    """With its reason, and its pair has no results."""
    broken = lambda launch, backend: [  # noqa: E731
        driver.reports.Report(job, driver.State.FAILED, 0, "error: no")
        for stage in launch.stages
        for job in stage.jobs
    ]
    monkeypatch.setattr(driver.reports, "ended", broken)
    failed = driver.run(SUITE, [("coin", OURS)], tmp_path, driver.Machines())
    assert failed == ["tune.coin.grpo: error: no"]


def ends_as(monkeypatch, state):
    """The jobs of each launch that a comparison makes, all of which end in this way."""
    launched = []

    def ended(launch, backend):
        launched.append([job.name for job in launch.jobs])
        return [driver.reports.Report(job, state, 0, "") for job in launch.jobs]

    monkeypatch.setattr(driver.reports, "ended", ended)
    monkeypatch.setattr(driver, "chosen", lambda *_: SUITE.cells()[0])
    return launched


def test_as_many_pairs_at_the_same_time_as_runs_may_be(tmp_path, monkeypatch):
    launched = ends_as(monkeypatch, driver.State.DONE)
    pairs = [("coin", suites.Method(name, name)) for name in ("grpo", "ppo", "rloo")]
    assert driver.run(SUITE, pairs, tmp_path, driver.Machines(at_once=2)) == []
    assert [len(names) for names in launched] == [2, 2, 1, 1]
    assert launched[:2] == [
        [f"{kind}.coin.{m}" for m in ("grpo", "ppo")] for kind in ("tune", "result")
    ]


def test_nothing_begins_after_a_signal(tmp_path, monkeypatch):
    launched = ends_as(monkeypatch, driver.State.STOPPED)
    pairs = [("coin", suites.Method(name, name)) for name in ("grpo", "ppo")]
    with pytest.raises(ValueError, match="tune.coin.grpo was stopped"):
        driver.run(SUITE, pairs, tmp_path, driver.Machines())
    assert launched == [["tune.coin.grpo"]]


def test_the_plan_lists_what_differs():
    methods = OURS, suites.Method("gigpo_state", "gigpo_state")
    plan = driver.plan(SUITE, [(world, one) for world in ("lake", "coin") for one in methods])
    first, second, *_ = plan.splitlines()
    assert first == "grpo differs from grpo in: nothing"
    assert "advantage.name" in second and "rollout.anchor" in second


def test_scores_are_read_off_at_tenths_of_the_budget(tmp_path):
    job = suites.result_job(SUITE, "coin", OURS, SUITE.cells()[0], tmp_path)
    seeds, budget = SUITE.seeds, 1000
    points = {seed: [(0, 0.0), (500, 0.5), (1500, 1.5)] for seed in seeds}
    write_run(job, points, seeds=seeds)
    values = rows.scores(job.workdir, budget)
    assert list(values) == list(seeds)
    assert values[0] == pytest.approx([0.1 * k for k in range(1, 11)])
    with pytest.raises(ValueError, match="1500 turns of the budget of 1600"):
        rows.scores(job.workdir, 1600)
    # Or the return, where tasks are solved in part.
    first = json.loads((job.workdir / "eval" / "update_000000.json").read_text())
    for own in first["per_seed"].values():
        own["episode_return"] = [0.2, 0.4]
    (job.workdir / "eval" / "update_000000.json").write_text(json.dumps(first))
    path = job.workdir / "metrics.jsonl"
    path.write_text(path.read_text().replace("success_rate", "episode_return"))
    assert rows.scores(job.workdir, budget, RETURN)[0][0] == pytest.approx(0.34)
    # Or what falls, as a share of the way, from `low` before the first update.
    path.write_text(path.read_text().replace("evaluation/episode_return", "exploitability"))
    falls = Score("exploitability", low=2.0, high=0.0)
    values = rows.scores(job.workdir, budget, falls)[0]
    assert values[4] == pytest.approx((2.0 - 0.5) / 2) and values[-1] == pytest.approx(0.5)


@pytest.fixture
def small(tmp_path):
    """A suite of two worlds, and the runs of two methods in it: the second is better."""
    world = World(arrays.WORLDS["coin"].env, 1000)
    suite = SUITE._replace(worlds={"a": world, "b": world}, seeds=range(4))
    methods = [OURS, suites.Method("rloo", "rloo")]
    for name in suite.worlds:
        for level, method in enumerate(methods):
            ends = {
                seed: 0.1 * suite.cells().index(cell) + 0.2 * level
                for seed, cell in suite.cell_of().items()
            }
            points = {seed: [(0, 0.0), (1000, end)] for seed, end in ends.items()}
            job = suites.tuning_job(suite, name, method, tmp_path)
            write_run(job, points, seeds=suite.tuning_seeds)
            result = suites.result_job(suite, name, method, suite.cells()[-1], tmp_path)
            points = {s: [(0, 0.0), (2000, 1.0 + level + 0.1 * s)] for s in suite.seeds}
            write_run(result, points, seeds=suite.seeds)
    return suite, methods, tmp_path


def test_the_best_cell_is_chosen_and_its_results_are_ranked(small):
    suite, methods, workdir = small
    assert driver.chosen(suite, "a", OURS, workdir) == suite.cells()[-1]
    found = driver.collect(suite, list(suite.worlds), methods, workdir)
    assert len(found) == 2 * 2 * 4
    # Half of the way at the budget.
    finals = {(r.world, r.method): r.final for r in found if r.seed == 0}
    assert finals == {("a", "grpo"): 0.5, ("a", "rloo"): 1.0, ("b", "grpo"): 0.5} | {
        ("b", "rloo"): 1.0
    }
    rows.write(workdir / "results.csv", found)
    again = rows.read(workdir / "results.csv")
    assert sorted(again) == sorted(found)
    first, second = tables.standings(suite, found)
    assert (first.method, first.rank.value, second.rank.value) == ("rloo", 1.0, 2.0)
    assert first.improves == 1.0 and second.improves == 0.5 and first.seconds == 1.0
    text = "\n".join(tables.text(suite, found))
    assert "| rloo | 1.0 [1.0, 1.0] |" in text and "a, 1,000 turns:" in text
    # The values that were chosen, in one order, whether they were read back or not.
    assert "worst seed | entropy, learning rate |" in text and "| 0.03, 0.01 |" in text
    assert text == "\n".join(tables.text(suite, rows.read(workdir / "results.csv")))


def test_the_figure_names_the_methods_and_is_the_same_for_the_same_rows(small):
    suite, methods, workdir = small
    found = driver.collect(suite, list(suite.worlds), methods, workdir)
    texts = []
    for name in ("one.svg", "two.svg"):
        drawing.draw(suite, found, workdir / name)
        texts.append((workdir / name).read_text())
    assert texts[0] == texts[1] and ">rloo</text>" in texts[0] and ">grpo</text>" in texts[0]
    with pytest.raises(ValueError, match="two methods that have the same worlds"):
        drawing.draw(suite, [row for row in found if row.method == "grpo"], workdir / "no.svg")


def test_methods_that_go_on_from_one_start_are_compared_seed_by_seed(small):
    suite, methods, workdir = small
    found = driver.collect(suite, list(suite.worlds), methods, workdir)
    assert "Seed by seed" not in "\n".join(tables.text(suite, found))
    text = "\n".join(tables.text(suite._replace(start="sft"), found[::-1]))
    assert "| rloo | 0.500 [0.500, 0.500] | 8 | 0 |" in text
    assert "| grpo | 0.000 [0.000, 0.000] | 0 | 0 |" in text


def test_a_missing_run_leaves_its_pair_out(small):
    suite, methods, workdir = small
    (workdir / "tune/a/rloo/metrics.jsonl").unlink()
    found = driver.collect(suite, list(suite.worlds), methods, workdir)
    assert {(row.world, row.method) for row in found} == {
        ("a", "grpo"),
        ("b", "grpo"),
        ("b", "rloo"),
    }
    # A world that misses many methods is not in the table over all worlds.
    assert tables.common(found, suite) == (["grpo", "rloo"], ["b"])
    # Whoever misses a world of that table is not in it.
    others = [one._replace(method=f"m{n}") for n in range(9) for one in found if one[1] == "grpo"]
    methods, worlds = tables.common(found + others, suite)
    assert worlds == ["a", "b"] and "grpo" in methods and "rloo" not in methods


def test_reduced_worlds_rank_nearly_as_all_do(small):
    """Kendall's tau is 1 for the same order, and -1 for the reverse."""
    suite, methods, workdir = small
    found = driver.collect(suite, list(suite.worlds), methods, workdir)
    assert tables.agreement(suite._replace(reduced=("b",)), found) == (1.0, 2)
    worse = [r._replace(scores=(0.0,) * 10) if r[:2] == ("b", "rloo") else r for r in found]
    # In "a" rloo is ahead, in "b" grpo: over both they are level, in "b" they are not.
    tau, _ = tables.agreement(suite._replace(reduced=("b",)), worse)
    assert np.isnan(tau)
    tau, count = tables.agreement(SUITE, rows.read(suites.packaged("arrays")))
    assert tau >= 0.8 and count >= 18


def test_a_method_of_ones_own_takes_the_place_of_the_estimator():
    method = suites.own_method("mine.estimator;learner.epochs=4", SUITE)
    assert (method.name, method.base) == ("estimator", "grpo")
    assert method.flags == (
        "--config.advantage={'name': 'mine.estimator'}",
        "--config.learner.epochs=4",
    )
    with pytest.raises(ValueError, match="expected my_module.my_estimator"):
        suites.own_method("estimator", SUITE)


def test_the_command_says_what_is_wrong():
    for words, message in (
        (["--suite=x"], "expected one of arrays"),
        (["--suite=arrays"], "--workdir is missing"),
        (
            ["--suite=arrays", "--workdir=x", "--method=a.b", "--store"],
            "--store is for the suite's",
        ),
        (["--suite=arrays", "--worlds=mars"], "there is no 'mars'; expected some of coin"),
        (["--suite=arrays", "--worlds=coin", "--reduced"], "give one of them"),
        (["--suite=games", "--reduced"], "'games' has no reduced worlds; give --worlds"),
    ):
        _, _, error = launch(["launchers.compare", *words])
        assert message in error, error


def test_results_are_stored_and_not_asked_for_again(tmp_path, monkeypatch):
    stored = tmp_path / "arrays.csv"
    monkeypatch.setattr(suites, "packaged", lambda name: stored)
    workdir, points = tmp_path / "runs", [(0, 0.0), (100_000, 0.5)]
    tuning = suites.tuning_job(SUITE, "lake", OURS, workdir)
    result = suites.result_job(SUITE, "lake", OURS, SUITE.cells()[0], workdir)
    for job, seeds in ((tuning, SUITE.tuning_seeds), (result, SUITE.seeds)):
        write_run(job, dict.fromkeys(seeds, points), seeds=seeds)
    words = ["launchers.compare", "--suite=arrays", "--worlds=lake", f"--workdir={workdir}"]
    plan = [*words, "--methods=grpo,rloo", "--dry_run", "--missing"]
    assert "\n2 pairs of a world" in launch(plan)[1]
    _, table, error = launch([*words, "--table", "--store"])
    assert not error and "| grpo | 0.500" in table, error
    assert {(row.world, row.method) for row in rows.read(stored)} == {("lake", "grpo")}
    assert "\n1 pairs of a world" in launch(plan)[1]


def test_gradients_are_of_methods_that_are_estimators_alone(small, tmp_path):
    found = noise.estimators(SUITE, "coin")
    assert {"grpo", "rloo", "gigpo", "ppo", "hgpo"} <= set(found)
    # A filter, another anchor, a component, a loss.
    assert not {"dapo", "gigpo_state", "similar_anchors", "aepo", "loop", "ppo_max"} & set(found)
    with pytest.raises(ValueError, match="grpo has no results in coin, whose values"):
        noise.jobs(SUITE, "coin", [], tmp_path)
    tuned = {"optimizer.learning_rate": 0.01, "objective.entropy.weight": 0.003}
    known = [rows.Row("coin", name, 0, (0.0,) * 10, 1.0, tuned, {}) for name in ("grpo", "ppo")]
    arguments = noise.jobs(SUITE, "coin", known, tmp_path)["ppo"].arguments
    assert arguments[0].endswith(":coin,ppo") and arguments[-1] == "--config.env_steps=40000"
    assert "--config.optimizer.learning_rate=0.01" in arguments


def test_signals_are_medians_and_cosines_are_of_all_seeds_together(tmp_path):
    found = [
        noise.Noise("coin", method, seed, signal, along, unbiased)
        for method, values in {
            "rloo": ((1.0, 1.0), (4.0, 4.0), (-1.0, -1.0)),
            "gigpo": ((9.0, 2.0), (0.0, 2.0), (0.0, -1.0)),
            "hgpo": ((-1.0, 0.0), (0.0, 0.0), (0.5, 0.0)),
        }.items()
        for seed, ((signal, along), unbiased) in enumerate(zip(values, (1, 4, -1), strict=True))
    ]
    table = noise.table(SUITE, found)
    # (2 + 2 - 1) / sqrt(9 * 4); a mean that is not seen has no direction.
    assert table[2:] == ["| rloo | 1 (1.00) |", "| gigpo | 0 (0.50) |", "| hgpo | 0 |"]
    noise.write(tmp_path / "noise.csv", found)
    assert noise.read(tmp_path / "noise.csv") == sorted(found)
    assert noise.read(tmp_path / "none.csv") == []
    (tmp_path / "x.csv").write_text("world,method\na,b\n")
    with pytest.raises(ValueError, match="not the gradients of a comparison"):
        noise.read(tmp_path / "x.csv")


@pytest.mark.long
def test_gradients_of_a_run_are_measured_and_stored(tmp_path, monkeypatch):
    suite = SUITE._replace(seeds=range(2))
    monkeypatch.setattr(suites, "find", lambda name: suite)
    monkeypatch.setattr(suites, "packaged", lambda name: tmp_path / f"{name}.csv")
    monkeypatch.setattr(noise, "BATCHES", 2)
    tuned = {"optimizer.learning_rate": 0.01, "objective.entropy.weight": 0.003}
    known = [rows.Row("lake", name, 0, (0.0,) * 10, 1.0, tuned, {}) for name in ("grpo", "ppo")]
    rows.write(suites.packaged("arrays"), known)
    for name in ("grpo", "ppo"):
        config = suites.config(suite, "lake", name)
        config.update({"num_seeds": 2, "env_steps": 100, "log_every": 1})
        config.evaluation.every = 0
        assert loop.run(config, tmp_path / "runs" / "noise" / "lake" / name, command="test")
    monkeypatch.setattr(driver, "carry_out", lambda *_: [])
    words = ["launchers.compare", "--suite=arrays", f"--workdir={tmp_path / 'runs'}"]
    _, printed, error = launch([*words, "--worlds=lake", "--noise", "--store"])
    assert not error and "| method | lake |" in printed, error
    found = noise.read(suites.packaged("arrays_noise"))
    # Returns to go of a task's own turns, and what needs other streams, are there; calls are not.
    assert {"rloo", "ppo", "gigpo", "grpo"} <= {row.method for row in found}
    assert {row.seed for row in found} == {0, 1} and "match_tir" not in {r.method for r in found}
    own = [row for row in found if row.method == "rloo"]
    assert all(np.isfinite([row.signal, row.along]).all() for row in own)


@pytest.mark.parametrize("name", suites.SUITES)
def test_the_page_is_what_the_stored_rows_say(name):
    stale = (ROOT / "configs" / "comparison" / f"{name}.md").read_text() != page.page(name)
    assert not stale, "run python -m launchers.pages"


def test_rows_of_another_file_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("world,method\na,b\n")
    with pytest.raises(ValueError, match="not the results of a comparison"):
        rows.read(tmp_path / "x.csv")
    assert rows.read(tmp_path / "none.csv") == []
    assert np.isclose(rows.Row("a", "b", 0, (0.0, 1.0), 1.0, {}, {}).area, 0.5)
