"""The metric of drift: by hand from the reminded log-probabilities, and in training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import train_and_resume
from tiny import talk_config

from agentrl.config import section
from agentrl.config.build import build
from agentrl.learner.component import Outcome
from agentrl.methods.drift import drift


def config_of(**options):
    config = talk_config(updates=8, log_every=1, warm_start__updates=0)
    config.objective.kl.weight = 0.0
    config.components.drift = section(drift, **{"reminder": "||", "turns": (1, 2, 9)} | options)
    return config


def test_it_is_the_mean_divergence_of_a_turns_tokens():
    experiment = build(config_of())
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    assert jnp.any(batch.notes["reminded_logp"] != 0)
    shape = batch.rows.tokens.shape
    notes = {
        "reminded_logp": batch.rows.behaviour_logp - jax.random.normal(jax.random.key(1), shape)
    }
    nothing = dict.fromkeys(("before", "params", "trained", "inputs", "credit"))
    given = {"streams": batch.streams, "rows": batch.rows, "notes": notes}
    outcome = Outcome(**nothing, **given, finite=jnp.bool_(True))
    _, metrics = experiment.components["drift"].after((), outcome)
    assert sorted(metrics) == ["drift/turn_1", "drift/turn_2"]  # episodes have four turns
    rows = jax.tree.map(np.asarray, batch.rows)
    d = rows.behaviour_logp - np.asarray(notes["reminded_logp"])
    for turn in (1, 2):
        here = rows.loss_mask & (rows.turn == turn - 1)
        total, count = metrics[f"drift/turn_{turn}"]
        np.testing.assert_allclose(total, (np.exp(-d) + d - 1)[here].sum(), rtol=1e-4)
        assert count == here.sum() > 0
    # Nothing to remind of: no drift.
    none = lambda state, agent, params: jnp.zeros(1, jnp.int32)  # noqa: E731
    experiment = build(config_of(reminder=none))
    _, metrics = train_one(experiment)
    assert abs(metrics["drift/turn_1"]) < 1e-6


def train_one(experiment):
    state, metrics = jax.jit(experiment.phases[-1][1])(jax.jit(experiment.init)(0))
    return state, {k: float(v[0] / v[1]) for k, v in metrics.items() if float(v[1])}


def test_a_run_resumes(tmp_path):
    _, _, metrics = train_and_resume(config_of(), tmp_path)
    assert all(m["drift/turn_1"] > 0 for m in metrics)


def test_turns_are_counted_from_one():
    with pytest.raises(ValueError, match="turns"):
        build(config_of(turns=(0,)))
