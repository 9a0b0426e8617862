import importlib
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantages.grouping import segment_ids
from agentrl.learner.function import Function
from launchers import benchmark, methods_page
from launchers.benchmarks import (
    credit,
    environments,
    learning,
    peers,
    purejaxrl_style,
    simulator,
    startup,
    tables,
    timing,
)

TINY = timing.Plan(rounds=2, sample_seconds=0.0)


def test_contenders_take_turns_and_rates_are_of_medians(monkeypatch):
    order, clock = [], iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(clock)))
    contenders = [
        (name, timing.Ready(lambda name=name: order.append(name), 10.0)) for name in ("a", "b")
    ]
    first, second = timing.interleave(contenders, timing.Plan(rounds=3, sample_seconds=0.0))
    # Two calls of each to warm up, then a, b, a, b, a, b.
    assert "".join(order) == "aabb" + "ababab"
    # Every call takes one tick: 10 units in 1 second.
    assert first.seconds == second.seconds == (1.0, 1.0, 1.0)
    assert first.rate == 10.0 and first.rates == (10.0, 10.0)
    skewed = timing.Timing("c", (1.0, 5.0, 2.0), 10.0, 0.0, {})
    assert skewed.rate == 10.0 / 2.0
    assert skewed.rates == (10.0 / 5.0, 10.0 / 1.0)


def test_random_actions_are_uniform_over_the_legal():
    legal = jnp.array([[True, False], [False, True], [True, True], [True, False]])
    legal = jnp.repeat(legal, 3000, axis=1)
    action = np.asarray(simulator.random_actions(jax.random.key(0), 6000, 4, legal))
    assert np.asarray(legal)[action, np.arange(6000)].all()
    # Three legal actions for the first 3,000, two for the others: 4 standard deviations.
    for part, actions in ((action[:3000], (0, 2, 3)), (action[3000:], (1, 2))):
        expected = 3000 / len(actions)
        for a in actions:
            assert abs((part == a).sum() - expected) < 4 * np.sqrt(expected)
    free = np.asarray(simulator.random_actions(jax.random.key(1), 4000, 4))
    assert np.bincount(free, minlength=4).min() > 1000 - 4 * np.sqrt(1000)


def test_envs_counts_episodes_and_tasks_and_compares_layouts():
    match = environments.Match(
        (environments.Case("lake", "FrozenLake-v1", {"slippery": False}),), None
    )
    result = environments.run(TINY, with_peers=False, batches=[8], matches=[match], length=24)
    first, last = result["rows"]
    assert first["environment"] == "lake" and last["environment"] == "lake (batch last)"
    # Same keys, same episodes, whatever the layout.
    assert first["episodes_ended"] == last["episodes_ended"]
    # The limit is 10 steps: 8 x 24 steps hold at least 8 x 2 ends.
    assert first["episodes_ended"] >= 16
    assert first["mean_episode_steps"] == 8 * 24 / first["episodes_ended"]
    assert first["tasks_drawn"] == 8 and first["work"] == 8 * 24
    np.testing.assert_allclose(first["ratio_to_batch_last"], first["rate"] / last["rate"])
    assert first["tasks_per_second"] > 0
    assert "lake (batch last)" in environments.report(result)


@pytest.mark.long
def test_learning_compares_two_programs_that_learn():
    result = learning.run(TINY, variants=[(4, 16)])
    ours, theirs = result["rows"]
    assert (ours["program"], theirs["program"]) == ("agentrl", "PureJaxRL style")
    assert ours["work"] == theirs["work"] == 16 * 4 * 128
    np.testing.assert_allclose(ours["ratio_to_peer"], ours["rate"] / theirs["rate"])
    # Four calls of 8,192 steps; random play lasts 22 steps.
    assert ours["episode_return"] > 100 and theirs["episode_return"] > 100
    assert "PureJaxRL style" in learning.report(result)


def test_purejaxrl_advantages_by_hand():
    settings = purejaxrl_style.Settings(gamma=0.5, lam=0.5)
    column = jnp.array([[1.0], [2.0]])
    step = purejaxrl_style.Step(
        observation=column,
        action=column,
        logp=column,
        value=jnp.array([[4.0], [6.0]]),
        reward=column,
        done=jnp.array([[0.0], [0.0]]),
        info={},
    )
    # delta_1 = 2 + 0.5 * 8 - 6 = 0, delta_0 = 1 + 0.5 * 6 - 4 = 0, so A = 0 everywhere;
    out = purejaxrl_style._advantages(step, jnp.array([8.0]), settings)
    np.testing.assert_allclose(out[:, 0], [0.0, 0.0])
    # with done at the end, delta_1 = 2 - 6 = -4 and A_0 = 0 + 0.25 * -4 = -1.
    out = purejaxrl_style._advantages(
        step._replace(done=jnp.array([[0.0], [1.0]])), jnp.array([8.0]), settings
    )
    np.testing.assert_allclose(out[:, 0], [-1.0, -4.0])


@pytest.mark.long
def test_credit_times_estimators_and_the_update():
    names = {"estimators": ("gigpo", "gae"), "terms": ("clipped_surrogate",)}
    names["reward_terms"] = ("at_end",)
    result = credit.run(TINY, num_streams=16, turns=4, **names)
    rows = {row["program"]: row for row in result["rows"]}
    assert rows.keys() == {
        "gigpo",
        "gae",
        "rewards.at_end",
        "losses.clipped_surrogate",
        "anchors, hash table",
        "anchors, sort",
        "update, 1 epoch(s)",
        "update, 4 epoch(s)",
        "update in words",
    }
    share = rows["gigpo"]["median_seconds"] / rows["update, 1 epoch(s)"]["median_seconds"]
    np.testing.assert_allclose(rows["gigpo"]["percent_of_1_epochs"], 100 * share)
    # Per turn and per token.
    share = rows["update in words"]["rate"] / rows["gigpo"]["rate"]
    np.testing.assert_allclose(rows["gigpo"]["percent_of_words"], 100 * share)
    assert all(row["milliseconds"] > 0 for row in result["rows"])
    assert "gigpo" in credit.report(result)


@pytest.mark.parametrize("package", ["advantages", "losses", "rewards"])
def test_every_listed_function_is_timed_with_the_arrays_that_it_takes(package):
    """There is no list of functions: a config names any. Ours are timed."""
    all_timed = {"advantages": credit.OPTIONS, "losses": credit.LOSSES, "rewards": credit.REWARDS}
    timed = all_timed[package]
    home = importlib.import_module(f"agentrl.{package}")
    listed = {function.__name__ for function in methods_page.listed(f"agentrl.{package}")}
    assert listed <= timed.keys()
    streams = credit.batch(16, 4)
    rows = credit.rows_of(streams)
    notes, of_losses = credit.annotations(streams, rows), credit.positions(rows)
    for name, options in timed.items():
        called = Function(getattr(home, name), options)
        credited = package != "losses"
        arrays = credit.given(called, streams, rows, notes) if credited else of_losses
        jax.eval_shape(called.__call__, arrays)


def test_sorting_names_the_same_groups_as_the_hash_table():
    rng = np.random.default_rng(0)
    keys = jnp.asarray(rng.integers(-2, 3, (200, 3)), jnp.int32)
    include = jnp.asarray(rng.random(200) < 0.7)
    np.testing.assert_array_equal(
        credit.sorted_occurrence(keys, include), segment_ids(keys, include)
    )


# A training command that imports nothing: half a line, then the rest, then some more time.
TRAIN = """
import json, os, pathlib, sys, time
workdir = pathlib.Path(sys.argv[-1].removeprefix("--workdir="))
workdir.mkdir()
seen = pathlib.Path(os.environ["AGENTRL_CACHE"]) / "starts"
seen.open("a").write(sys.argv[1] + " " + str("JAX_COMPILATION_CACHE_DIR" in os.environ) + "\\n")
numbers = {"seed": 0, "update": 1, "compile_time": 0.25, "peak_memory_gib": 0.5}
line = json.dumps(numbers)
with (workdir / "metrics.jsonl").open("w", buffering=1) as file:
    file.write(line[:5]); file.flush(); time.sleep(0.2); file.write(line[5:] + "\\n")
time.sleep(0.2)
"""


def test_startup_waits_for_the_first_line(tmp_path, monkeypatch):
    monkeypatch.setattr(startup, "_TRAIN", (sys.executable, "-c", TRAIN))
    started = startup.start(["--x"], tmp_path)
    assert started.first_line_seconds >= 0.2
    assert started.exit_seconds >= started.first_line_seconds + 0.15
    assert (started.compile_seconds, started.peak_memory_gib) == (0.25, 0.5)
    assert (tmp_path / "starts").read_text() == "--x False\n"


def test_startup_counts_cold_and_warm(monkeypatch):
    caches = []

    def start(arguments, cache):
        caches.append((cache, any(cache.iterdir())))
        (cache / "compiled").write_text("")
        return startup.Start(float(len(caches)), 9.0, 1.0, 0.5)

    monkeypatch.setattr(startup, "start", start)
    result = startup.run(cold=2, warm=3, commands={"a": ["--config=a"]})
    # Two empty caches, then the second of them three times more.
    assert [filled for _, filled in caches] == [False, False, True, True, True]
    assert caches[0][0] != caches[1][0] == caches[2][0] == caches[4][0]
    cold, warm = result["rows"]
    assert (cold["first_line_seconds"], warm["first_line_seconds"]) == (1.5, 4.0)
    assert (cold["starts"], warm["starts"], cold["range"]) == (2, 3, "1.0-2.0")
    assert "peak_memory_gib" in startup.report(result)


@pytest.mark.long
def test_startup_tells_why_a_command_failed(tmp_path):
    with pytest.raises(RuntimeError, match="config.updates=0"):
        startup.start(("--config=configs/start/cartpole_ppo.py", "--config.updates=0"), tmp_path)


@pytest.mark.parametrize(
    ("peer", "module"),
    [
        ("jumanji Sokoban 10x10", "jumanji.environments.routing.sokoban"),
        ("xminigrid Empty-8x8", "xminigrid"),
        ("gym-sokoban 6x6, 1 box", "gym_sokoban.envs.sokoban_env"),
        ("gymnax CartPole-v1", "gymnax"),
    ],
)
def test_missing_peer_says_how_to_install_it(peer, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(peers.MissingError, match=r"skipped, .* pip install .agentrl\[peers\]"):
        peers.ENVIRONMENTS[peer](2, 4, environments.ready)
    assert "gym" not in sys.modules


def test_missing_peer_is_no_failure(monkeypatch):
    monkeypatch.setitem(sys.modules, "xminigrid", None)
    match = environments.Match(
        (environments.Case("lake", "FrozenLake-v1", {"slippery": False}),), "xminigrid Empty-8x8"
    )
    result = environments.run(TINY, with_peers=True, batches=[8], matches=[match], length=24)
    assert result["rows"][0]["ratio_to_peer"] is None
    (line,) = result["skipped"]
    assert line.startswith("xminigrid Empty-8x8 skipped")


def test_gymnax_peer_runs():
    ready = peers.ENVIRONMENTS["gymnax CartPole-v1"](4, 32, environments.ready)
    ready.call()
    assert ready.work == 4 * 32
    assert ready.facts()["tasks_drawn"] == 0


def test_table_sets_the_first_column_left():
    rows = [{"name": "a", "rate": 1234.5}, {"name": "bcd"}]
    text = tables.table("Title", [("name", ""), ("rate", ",.0f")], rows)
    assert text.splitlines() == ["Title", "name   rate", "a     1,234", "bcd"]


def test_main_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "bench.json"

    def run(suite, *, quick, with_peers):
        assert quick and not with_peers
        return {"rows": [{"rate": 1.0}], "skipped": ["x skipped"]}, f"table of {suite}"

    monkeypatch.setattr(benchmark, "run", run)
    flags = benchmark.flags.FLAGS
    flags(["benchmark", "--suite=envs,credit", "--quick", f"--out={out}"])
    try:
        benchmark.main(["benchmark"])
    finally:
        flags.unparse_flags()
    content = json.loads(out.read_text())
    assert content.keys() == {"provenance", "machine", "quick", "suites"}
    assert content["suites"].keys() == {"envs", "credit"}
    assert {"device", "cores", "processor"} <= content["machine"].keys()
    assert {"command", "git", "packages"} <= content["provenance"].keys()
    printed = capsys.readouterr().out
    assert "table of envs" in printed and "x skipped" in printed and "cores" in printed


def test_unknown_suite_is_an_error(capsys):
    flags = benchmark.flags.FLAGS
    flags(["benchmark", "--suite=env"])
    try:
        with pytest.raises(SystemExit):
            benchmark.main(["benchmark"])
    finally:
        flags.unparse_flags()
    assert "expected some of " + ", ".join(benchmark.SUITES) in capsys.readouterr().err
