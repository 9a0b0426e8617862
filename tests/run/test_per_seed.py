"""Options that differ between the seeds of one program."""

import jax
import numpy as np
import pytest
import tiny
from own_pieces import bonus_or_none

from agentrl.config import section
from agentrl.config.build import build
from agentrl.run import loop, metrics, restored

VALUES = {
    "optimizer": {"learning_rate": (1e-3, 3e-2, 1e-3)},
    "objective": {"entropy": {"weight": (0.01, 0.01, 0.1)}},
}


def config_of(values=VALUES, make=tiny.groups_config, **changes):
    # Of a term without weight nothing would be left, if seeds had no weights of their own.
    config = make(num_seeds=3, objective__entropy__weight=0.0, optimizer__learning_rate=1e-3)
    config.per_seed = values
    return tiny.changed(config, changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of two programs."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    assert loop.run(config_of(updates=4), workdir, command="test")
    return workdir


def lines(workdir):
    return [
        {k: v for k, v in line.items() if k not in metrics.MACHINE_METRICS}
        for line in metrics.read(workdir / "metrics.jsonl")
    ]


def trained(config):
    """Parameters of a config's only seed after two programs."""
    experiment = build(config)
    state, train = jax.jit(experiment.init)(config.seed), jax.jit(tiny.train_of(experiment))
    for _ in range(2):
        state, _ = train(state)
    return state.params


def test_a_seed_learns_as_a_run_of_its_own_with_its_values(whole):
    together = restored.load(whole).state.params
    for seed in range(3):
        rate = VALUES["optimizer"]["learning_rate"][seed]
        weight = VALUES["objective"]["entropy"]["weight"][seed]
        own = {"optimizer__learning_rate": rate, "objective__entropy__weight": weight}
        alone = trained(config_of({}, num_seeds=1, seed=seed, updates=4, **own))
        for ours, its in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(ours[seed], its, rtol=1e-3, atol=1e-5)
    last = [r["per_seed/optimizer.learning_rate"] for r in lines(whole) if r["update"] == 4]
    np.testing.assert_allclose(last, VALUES["optimizer"]["learning_rate"], rtol=1e-6)


def test_a_run_goes_on_with_its_values(whole, tmp_path):
    config = config_of(updates=4)
    assert loop.run(config, tmp_path / "parts", command="test", stop_after=2)
    assert loop.run(config, tmp_path / "parts", command="test")
    assert lines(tmp_path / "parts") == lines(whole)
    assert lines(whole)[1]["per_seed/optimizer.learning_rate"] == pytest.approx(3e-2)


@pytest.mark.parametrize(
    ("values", "changes", "message"),
    [
        ({"optimizer": {"learning_rate": (1e-3, 1e-2)}}, {}, "expected 3 numbers, one for each"),
        ({"optimizer": {"learning_rate": 1e-3}}, {}, "expected 3 numbers"),
        ({"optimiser": {"learning_rate": (1, 2, 3)}}, {}, "did you mean 'optimizer'"),
        ({"learner": {"epochs": (1, 2, 3)}}, {}, "config.learner.epochs=1 is not a real number"),
        ({"reward": {"own": {"amount": (0.1, 0.2, 0.0)}}},
         {"reward__own": section(bonus_or_none, amount=0.1)},
         "config.per_seed.reward.own.amount: .*decides what is computed"),
        ({"objective": {"kl": {"estimator": (1.0, 2.0, 3.0)}}}, {}, "='k3' is not a real number"),
        ({"objective": {"policy": {"clip_low": (0.1, 0.2, 0.3)}}}, {"objective__policy__weight": 0},
         "config.objective.policy.weight=0 leaves the term out: give it a weight, or seeds"),
        ({"optimizer": {"learning_rate": (1e-3, 1e-3, 1e-3)}},
         {"population__every": 2, "population__tuned": {"optimizer": {"learning_rate": (1e-4, 1)}}},
         "config.population.tuned has it, too"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(values, changes, message):
    with pytest.raises(ValueError, match=message):
        build(config_of(values, **changes))


def test_environments_in_python_have_them_too(tmp_path):
    """Where seeds train one after the other: without a rate nothing moves."""
    config = tiny.host_config(num_seeds=2, updates=2)
    config.per_seed = {"optimizer": {"learning_rate": (1e-2, 0.0)}}
    assert loop.run(config, tmp_path, command="test")
    run = restored.load(tmp_path)
    for seed, moves in ((0, True), (1, False)):
        start = jax.jit(run.experiment.init)(seed).params
        pairs = zip(jax.tree.leaves(run.state.params), jax.tree.leaves(start), strict=True)
        assert any(np.abs(now[seed] - then).max() > 1e-4 for now, then in pairs) == moves
