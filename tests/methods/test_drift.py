"""The metric of drift, by hand from the reminded log-probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
from by_hand import context
from tiny import talk_config

from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.drift import by_turn, drift


def config_of(**options):
    config = talk_config(updates=8, log_every=1, warm_start__updates=0)
    config.objective.kl.weight = 0.0
    config.components.drift = section(drift, **{"reminder": "||", "turns": (1, 2, 9)} | options)
    return config


def test_it_is_the_mean_divergence_of_a_turns_tokens():
    experiment = build(config_of())
    none = lambda state, agent, params: jnp.zeros(1, jnp.int32)  # noqa: E731
    ours, silent = (
        build(config_of(**options)).components["drift"].annotate
        for options in ({}, {"reminder": none})
    )

    @jax.jit
    def collected(state):
        """The rows, the metrics, and those of a reminder of nothing."""
        batch = experiment.batches(state)["rollout"]
        given = context((), state.params), batch.streams, batch.rows
        return batch.rows, ours(*given)[1], silent(*given)[1]

    rows, reminded, unreminded = collected(jax.jit(experiment.init)(0))
    assert reminded["drift/turn_1"][0] > 1e-6
    noise = jax.random.normal(jax.random.key(1), rows.tokens.shape)
    other = rows.behaviour_logp - noise
    shape = experiment.rollout.num_streams, experiment.rollout.turns
    metrics = jax.jit(lambda rows, other: by_turn(rows, other, shape, (1, 2, 9)))(rows, other)
    assert sorted(metrics) == ["drift/turn_1", "drift/turn_2"]  # episodes have four turns
    rows = jax.tree.map(np.asarray, rows)
    d = rows.behaviour_logp - np.asarray(other)
    for turn in (1, 2):
        here = rows.loss_mask & (rows.turn == turn - 1)
        total, count = metrics[f"drift/turn_{turn}"]
        np.testing.assert_allclose(total, (np.exp(-d) + d - 1)[here].sum(), rtol=1e-4)
        assert count == here.sum() > 0
    # Nothing to remind of: no drift.
    total, count = unreminded["drift/turn_1"]
    assert abs(total / count) < 1e-6
