"""Populations: seeds that copy each other and tune options, in one program."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from own_pieces import bonus_or_none

from agentrl.config import section
from agentrl.config.build import build
from agentrl.run import loop, mesh, metrics, restored
from agentrl.run.population import after_program
from agentrl.run.programs import compile_programs

RATE, GAMMA = "optimizer.learning_rate", "advantage.gamma"
TUNED = {
    "optimizer": {"learning_rate": (1e-4, 1e-1)},
    "advantage": {"gamma": (0.9, 0.999)},
    "objective": {"entropy": {"weight": (1e-3, 0.1)}, "policy": {"clip_high": (0.1, 0.4)}},
}


def config_of(make=tiny.groups_config, tuned=TUNED, **changes):
    """Four members that select every four updates, whoever is ahead however little."""
    changes = {"num_seeds": 4, "population__every": 4, **changes}
    changes.setdefault("population__relative_gap", 0.0)
    config = make(objective__entropy__weight=0.01, optimizer__learning_rate=1e-3)
    config.population.tuned = tuned
    return tiny.changed(config, changes)


def lines(workdir):
    return [
        {k: v for k, v in line.items() if k not in metrics.MACHINE_METRICS}
        for line in metrics.read(workdir / "metrics.jsonl")
    ]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("population") / "run"
    assert loop.run(config_of(population__probability=0.5), workdir, command="test")
    return workdir


def arrays(tree):
    def data(x):
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    return jax.tree.map(lambda x: np.asarray(data(x)), tree)


def test_metrics_say_what_members_are_and_whom_they_copied(uninterrupted):
    records = lines(uninterrupted)
    for record in records:
        due = record["update"] % 4 == 0
        assert ("population/parent" in record) == ("population/fitness" in record) == due
        assert 0.99e-4 < record[f"population/{RATE}"] < 1.01e-1
        assert 0.899 < record[f"population/{GAMMA}"] < 0.9991
    first = [r for r in records if r["update"] == 2]
    # Spread over the range: a member in each quarter of its three decades.
    quarter = np.log10(np.array([r[f"population/{RATE}"] for r in first]) / 1e-4) / 3 * 4
    np.testing.assert_array_equal(np.sort(quarter.astype(int)), range(4))
    for update in (4, 8):
        before = [r for r in records if r["update"] == update]
        mean = [
            np.average(
                [r["success_rate"] for r in records if r["seed"] == s and r["update"] in window],
            )
            for s in range(4)
            for window in [(update - 2, update)]
        ]
        np.testing.assert_allclose([r["population/fitness"] for r in before], mean, rtol=1e-6)
        best = np.argsort(-np.array(mean), kind="stable")[:2]
        copies = {r["seed"]: int(r["population/parent"]) for r in before}
        copied = {s: p for s, p in copies.items() if s != p}
        assert set(copied.values()) <= set(best) and set(copied) <= set(range(4)) - set(best)


def test_resumed_equals_uninterrupted(uninterrupted, tmp_path):
    config = config_of(population__probability=0.5)
    assert loop.run(config, tmp_path / "run", command="test", stop_after=4)
    assert loop.run(config, tmp_path / "run", command="test")
    assert lines(tmp_path / "run") == lines(uninterrupted)
    ours, theirs = (arrays(restored.load(x).state) for x in (tmp_path / "run", uninterrupted))
    chex.assert_trees_all_equal(ours, theirs)


def stepped(config, device_mesh=None, programs=2):
    """(state, metrics of each program) after that many programs."""
    experiment = build(config)
    with mesh.use(device_mesh):
        made = compile_programs(experiment, config, device_mesh)
        state = made.init(jnp.arange(config.num_seeds, dtype=jnp.int32))
        told = []
        for _ in range(programs):
            state, totals = made.train["rl"](state)
            told.append(jax.device_get(totals))
        if device_mesh is None:
            assert made.train["rl"]._cache_size() == 1
        return arrays(state), told


def value_of(state, name):
    """A field of the state, or a component's value."""
    return state.carry[name] if name in state.carry else getattr(state, name)


def test_who_copies_goes_on_from_the_other_in_its_own_episodes():
    """Fitness is given by hand: members 3 and 1 are the best, 0 and 2 the worst."""
    config = config_of(tiny.matches_config, tuned={"objective": {"kl": {"weight": (0.05, 0.2)}}})
    config.population.update(fitness="win_rate/0/pool", probability=1.0)
    experiment = build(config)
    made = compile_programs(experiment, config, None)
    state = made.init(jnp.arange(4, dtype=jnp.int32))
    state = state.replace(
        params=jax.tree.map(lambda x: x + jnp.arange(4.0).reshape(-1, *[1] * (x.ndim - 1)),
                            state.params),
        update=jnp.full(4, 4, jnp.int32),
        carry=state.carry | {"guard": state.carry["guard"].replace(in_a_row=jnp.arange(4))},
    )  # fmt: skip
    before = arrays(state)
    totals = {"win_rate/0/pool": jnp.array([[1.0, 8], [6.0, 8], [2.0, 8], [7.0, 8]])}
    state, told = jax.jit(functools.partial(after_program, experiment.selection))(state, totals)
    after = arrays(state)
    parent = np.asarray(told["population/parent"][:, 0], int)
    np.testing.assert_array_equal(parent[[1, 3]], [1, 3])
    assert set(parent[[0, 2]].tolist()) <= {1, 3}
    inherited = ("params", "opt_state", "reference", "baseline", "pool")
    own = ("rollout", "key", "update", "steps")
    assert {*inherited, *own} >= before.carry.keys() - {"population", "guard", "exploitability"}
    for name in inherited:
        expected = jax.tree.map(lambda x: x[parent], value_of(before, name))
        chex.assert_trees_all_equal(value_of(after, name), expected)
    for name in own:
        chex.assert_trees_all_equal(value_of(after, name), value_of(before, name))
    # A copy is as broken as what it copies; what it would collect again is its own.
    ours, old = after.carry["guard"], before.carry["guard"]
    np.testing.assert_array_equal(ours.in_a_row, old.in_a_row[parent])
    chex.assert_trees_all_equal((ours.rollout, ours.key), (old.rollout, old.key))
    member, previous = after.carry["population"], before.carry["population"]
    old = previous.options["objective.kl.weight"][parent]
    factor = member.options["objective.kl.weight"] / old
    np.testing.assert_array_equal(factor[[1, 3]], 1)
    inside = (factor[[0, 2]] * old[[0, 2]] > 0.0501) & (factor[[0, 2]] * old[[0, 2]] < 0.1999)
    moved = np.maximum(factor[[0, 2]], 1 / factor[[0, 2]])[inside]
    assert ((moved > 1.0999) & (moved < 1.5001)).all()
    np.testing.assert_array_equal(member.fitness, 0)
    assert len(np.unique(previous.key, axis=0)) == 4
    assert not (member.key == previous.key).all(axis=1).any()


def test_options_of_members_are_those_of_runs_alone(uninterrupted):
    """Until the first selection, training with an option is training with it in the config."""
    records = [r for r in lines(uninterrupted) if r["seed"] == 2 and r["update"] <= 4]
    alone = tiny.groups_config(seed=2)
    for path in (RATE, "objective.entropy.weight", GAMMA, "objective.policy.clip_high"):
        tiny.changed(alone, {path.replace(".", "__"): records[0][f"population/{path}"]})
    experiment = build(alone)
    state, train = jax.jit(experiment.init)(2), jax.jit(tiny.train_of(experiment))
    for record in records:
        state, totals = train(state)
        for name, (total, weight) in totals.items():
            if name in record and weight > 0:
                np.testing.assert_allclose(
                    record[name], total / weight, rtol=1e-3, atol=1e-5, err_msg=name
                )


def stepped_apart(config, programs=2):
    """As `stepped`; selection is a program of its own, so that both compile the same updates."""
    experiment = build(config)
    state = jax.jit(jax.vmap(experiment.init))(jnp.arange(config.num_seeds, dtype=jnp.int32))
    train = jax.jit(jax.vmap(tiny.train_of(experiment)))
    across = jax.jit(functools.partial(after_program, experiment.selection))
    told = []
    for _ in range(programs):
        state, totals = across(*train(state))
        told.append(jax.device_get(totals))
    return arrays(state), told


@pytest.mark.long
def test_without_selection_and_exploration_it_is_the_plain_run():
    """Bit by bit, where nothing is tuned. (A number that is an argument of the program and no
    constant in it may round otherwise, and so may updates in one program with a selection.)"""
    changes = {"population__bottom": 0.0, "population__probability": 0.0, "population__every": 2}
    ours, told = stepped_apart(config_of(tuned={}, **changes))
    plain = config_of(tuned={}, population__every=0, population__relative_gap=0.1)
    theirs, plainly = stepped_apart(plain)
    carry = {name: ours.carry[name] for name in ours.carry if name != "population"}
    chex.assert_trees_all_equal(ours.replace(carry=carry), theirs)
    for mine, its in zip(told, plainly, strict=True):
        chex.assert_trees_all_equal({k: mine[k] for k in its}, its)
    together, _ = stepped(config_of(tuned={}, **changes))
    chex.assert_trees_all_close(together.params, theirs.params, rtol=1e-5, atol=1e-8)


@pytest.mark.long
def test_one_device_equals_eight(uninterrupted):
    config = config_of(population__probability=0.5, mesh__data=8)
    state, _ = stepped(config, mesh.make_mesh(config, build(config)), programs=4)
    one = arrays(restored.load(uninterrupted).state)
    both = [
        (x.params, x.carry["population"].options, x.carry["population"].fitness)
        for x in (one, state)
    ]
    chex.assert_trees_all_close(*both, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "tuned", "message"),
    [
        ({"num_seeds": 1}, TUNED, "config.num_seeds=1: the seeds are the members; set num_seeds"),
        ({"population__every": 3}, TUNED, "every=3: expected a multiple of config.log_every=2"),
        ({"population__every": 0, "population__relative_gap": 0.1}, TUNED,
         "config.population.tuned.advantage.gamma is not used by anything"),
        ({"population__every": 0, "population__top": 0.5, "population__relative_gap": 0.1}, {},
         "config.population.top=0.5 is not used by anything: set .*every, or leave it at 0.3"),
        ({"population__top": 0.0}, TUNED, "top=0.0: expected more than 0 and at most 1"),
        ({"population__bottom": 1.5}, TUNED, "bottom=1.5: expected at least 0 and at most 1"),
        ({"population__absolute_gap": -1.0}, TUNED, "absolute_gap=-1.0: expected at least 0"),
        ({"population__fitness": "sucess_rate"}, TUNED, "did you mean 'success_rate'"),
        ({}, {"optimiser": {"learning_rate": (0.1, 1)}}, "did you mean 'optimizer'"),
        ({}, {"optimizer": {"learning": (0.1, 1)}}, "there is no config.optimizer.learning"),
        ({}, {"learner": {"epochs": (1, 2)}}, "config.learner.epochs=1 is not a real number"),
        ({}, {"optimizer": {"learning_rate": 1e-3}}, r"expected \(low, high\) with 0 < low"),
        ({}, {"optimizer": {"learning_rate": (0.0, 1e-3)}}, r"expected \(low, high\)"),
        ({}, {"optimizer": {"learning_rate": (0.1, 1.0)}}, "learning_rate=0.001 is not within"),
        ({"reward__own": section(bonus_or_none, amount=0.1)},
         {**TUNED, "reward": {"own": {"amount": (0.1, 0.2)}}},
         "config.population.tuned.reward.own.amount: .*decides what is computed"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(changes, tuned, message):
    with pytest.raises(ValueError, match=message):
        build(config_of(tuned=tuned, **changes))


def test_environments_in_python_have_no_population():
    config = tiny.host_config(num_seeds=2)
    config.population.update(every=2, fitness="episode_return")
    with pytest.raises(ValueError, match="trains one seed after the other"):
        build(config)
