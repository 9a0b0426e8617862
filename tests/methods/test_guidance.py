"""An expert's rows in the RL loss, with a weight of their own."""

import jax
import numpy as np
import pytest
from experiments import distance, lake, train, train_and_resume

from agentrl import losses
from agentrl.config import term


def config_of(loss, weight):
    config = lake()
    config.expert.update(episodes=8)
    config.objective.guidance = term(loss, source="expert", during="rl", weight=weight)
    return config


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """`train_and_resume`, nearly only on the expert's rows, and the batches of the first update."""
    config = config_of(losses.shaped_imitation, 1.0)
    config.objective.policy.weight = 1e-3
    found = train_and_resume(config, tmp_path_factory.mktemp("guidance"))
    experiment, states, _ = found
    return *found, jax.jit(experiment.batches)(states[0]), jax.jit(experiment.policy.score)


def test_expert_rows_are_learnt_beside_the_policys_own(trained):
    _, states, metrics, batches, score = trained
    assert {"loss/guidance", "loss/policy", "held_out_loss"} <= set(metrics[0])
    assert batches["expert"].credit is None and batches["rollout"].credit is not None
    # The metric is the mean of the term over the expert's positions.
    rows = batches["expert"].rows
    logp = score(states[0].params, rows).logp
    np.testing.assert_allclose(
        metrics[0]["loss/guidance"],
        losses.shaped_imitation(logp, rows.loss_mask).sum() / rows.loss_mask.sum(),
        rtol=1e-4,
    )


def test_the_experts_actions_become_likelier(trained):
    _, states, _, batches, score = trained
    rows = batches["expert"].rows
    before, after = (np.asarray(score(s.params, rows).logp) for s in states[:2])
    there = np.asarray(rows.loss_mask)
    assert np.mean(after[there]) > np.mean(before[there])


def test_a_small_weight_is_close_to_none():
    config = lake()
    config.optimizer.max_grad_norm = 1e6
    _, plain, _ = train(config, 1)
    tiny = config_of(losses.behaviour_cloning, 1e-9)
    tiny.optimizer.max_grad_norm = 1e6
    _, states, _ = train(tiny, 1)
    assert distance(plain[-1].params, states[-1].params) < 1e-3
    full = config_of(losses.behaviour_cloning, 1.0)
    _, states, _ = train(full, 1)
    assert distance(plain[-1].params, states[-1].params) > 1e-3
