"""An expert's rows in the RL loss, with a weight of their own; and groups of dynamic rollouts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import distance, lake, program_of, run, states_and_resume, train

from agentrl import losses, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.curriculum import tasks_by_number
from agentrl.methods.dynamic_rollouts import dynamic_rollouts


def plain_config():
    config = lake()
    config.rollout = section(rollout.episodes, num_groups=8, group_size=2)
    config.sampler = section(tasks_by_number)
    config.components.dynamic_rollouts = section(dynamic_rollouts, tasks=6, most=4)
    config.optimizer.max_grad_norm = 1e6
    return config


def config_of(guidance, policy):
    """With weights of the two terms that are in the state."""
    config = plain_config()
    config.expert.update(episodes=8)
    config.objective.guidance = term(losses.shaped_imitation, source="expert", during="rl")
    config.per_seed.objective = {
        "guidance": {"weight": (guidance,)},
        "policy": {"weight": (policy,)},
    }
    return config


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(experiment, its program, states, metrics), nearly only on the expert's rows."""
    experiment = build(config_of(guidance=1.0, policy=1e-3))
    made = program_of(experiment)
    found = states_and_resume(made, experiment, tmp_path_factory.mktemp("guidance"))
    return experiment, made[0], *found


@pytest.fixture(scope="module")
def scored(trained):
    """(the batches of the first update, the log-probabilities of the expert's rows before it and
    after it)."""
    experiment, _, states, _ = trained

    @jax.jit
    def scores(one, other):
        batches = experiment.batches(one)
        rows, score = batches["expert"].rows, experiment.policy.score
        return batches, *(score(state.params, rows).logp for state in (one, other))

    return jax.device_get(scores(*states[:2]))


def test_expert_rows_are_learnt_beside_the_policys_own(trained, scored):
    *_, metrics = trained
    batches, logp, _ = scored
    assert {"loss/guidance", "loss/policy", "held_out_loss"} <= set(metrics[0])
    assert batches["expert"].credit is None and batches["rollout"].credit is not None
    # The metric is the mean of the term over the expert's positions.
    there = batches["expert"].rows.loss_mask
    expected = losses.shaped_imitation(logp, there).sum() / there.sum()
    np.testing.assert_allclose(metrics[0]["loss/guidance"], expected, rtol=1e-4)


def test_the_experts_actions_become_likelier(scored):
    batches, before, after = scored
    there = batches["expert"].rows.loss_mask
    assert np.mean(after[there]) > np.mean(before[there])


def test_a_small_weight_is_close_to_none(trained):
    _, program, states, _ = trained
    _, plain, _ = train(plain_config(), 1)

    def after(guidance):
        weights = {"objective.guidance.weight": guidance, "objective.policy.weight": 1.0}
        carry = states[0].carry | {"per_seed": jax.tree.map(jnp.float32, weights)}
        return run(program, states[0].replace(carry=carry), 1)[0][-1].params

    assert distance(plain[-1].params, after(1e-9)) < 1e-3
    assert distance(plain[-1].params, after(1.0)) > 1e-3


def test_dynamic_rollouts_count_successes(trained):
    """Of a run that resumes, so that there is something to go on with."""
    _, _, states, _ = trained
    first, *_, last = (state.carry["dynamic_rollouts"] for state in states)
    assert not np.any(first.seen) and np.all(last.seen <= 4) and np.any(last.success > 0)
