"""The growing batch: solved episodes are kept over rounds, others never."""

import jax
import numpy as np
import pytest
from by_hand import context
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.growing_batch import growing_batch


def config_of(kind, **options):
    config = lake(size=2)
    if kind == "words":
        config = talk_config(log_every=1, warm_start__updates=0, policy__constrained=True)
        config.env.update(size=2, slippery=False)
    config.objective.policy.weight = 0.0
    config.objective.kl.weight = 0.0
    config.learner.minibatches = 1
    config.components.growing_batch = section(growing_batch, **({"size": 64, "rows": 16} | options))
    config.objective.own = term(losses.behaviour_cloning, source="growing_batch", during="rl")
    return config


@pytest.mark.parametrize("kind", ["arrays", pytest.param("words", marks=pytest.mark.long)])
def test_solved_episodes_stay(kind, tmp_path):
    config = config_of(kind)
    experiment, states, metrics = train_and_resume(config, tmp_path)
    counts = [told["growing_batch/rows"] for told in metrics]
    assert counts == sorted(counts) and 0 < counts[0] < counts[-1]
    batch = jax.jit(experiment.batches)(states[0])["rollout"]
    solved = np.asarray(batch.streams.success & batch.streams.mask).any(axis=1)
    rows = np.asarray(batch.rows.loss_mask).any(axis=1)
    assert 0 < solved.sum() < len(solved)
    assert counts[0] == min(64, (rows & solved[np.asarray(batch.rows.stream)]).sum())
    component = build(config_of(kind, rounds=1)).components["growing_batch"]
    ring = states[-1].carry["growing_batch"]
    recent = component.source.make(context(ring, key=jax.random.key(0)), {})[1]
    known = {x.tobytes() for x in np.asarray(ring.rows.tokens)[np.asarray(ring.since) == 3]}
    there = np.asarray(recent.loss_mask).any(axis=1)
    assert all(x.tobytes() in known for x in np.asarray(recent.tokens)[there])
