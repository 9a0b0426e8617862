"""AgentFlow: the mean over rollouts of turns of tokens, and what frozen modules do not get."""

import jax
import jax.numpy as jnp
import numpy as np
from experiments import program_of, same

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, env_section, roles_section, section
from agentrl.config.build import build
from agentrl.methods.rollout_weight import rollout_weight
from agentrl.streams import Streams

MODULES = ("planner", "executor", "verifier", "generator")


def weights(mask, role):
    streams = Streams(
        mask=mask, reward=mask * 0.0, terminated=mask, truncated=mask & False, role=role
    )
    return rollout_weight(None).annotate(None, streams, None)["rollout_weight"].values


def test_each_rollout_counts_the_same():
    """Turns 3, 1 of role 0; 2 of role 1. Rows of turns have 1, 2, 3, 4 tokens of role 0."""
    mask = jnp.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    weight = weights(mask, jnp.array([0, 1, 0, 0]))
    # The mean number of turns is 2 of role 0, where the last stream has none.
    np.testing.assert_allclose(
        weight, [[2 / 3, 2 / 3, 2 / 3], [1, 1, 0], [2, 0, 0], [0, 0, 0]], rtol=1e-6
    )
    # The four rows of role 0, whose tokens have the values 1, 2, 3 and 10.
    tokens = jnp.arange(4) < jnp.array([1, 2, 3, 4])[:, None]
    values = jnp.array([1.0, 2, 3, 10])[:, None] * tokens
    scaled = jnp.array([weight[0, 0], weight[0, 1], weight[0, 2], weight[2, 0]])[:, None] * values
    # (mean of 1, 2 and 3, and 10) / 2; each row the same is 4.
    np.testing.assert_allclose(losses.aggregate(scaled, tokens, "row_mean"), 6.0, rtol=1e-6)
    np.testing.assert_allclose(losses.aggregate(values, tokens, "row_mean"), 4.0, rtol=1e-6)


def test_frozen_modules_have_no_divergence_and_no_gradient():
    """A module that is not trained may differ from the reference: it costs nothing, and stays."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 4, 1
    config.env = env_section("ToolFlow-v1", topics=4, budget=3)
    network = section(policies.mlp, hidden=(4,), critic="none")
    config.policy = roles_section(**dict.fromkeys(MODULES, network))
    config.rollout = section(rollout.episodes, num_groups=2, group_size=4, mask_illegal=True)
    config.advantage = section(advantages.grpo)
    config.filters.of_role = section(advantages.only_roles, roles=(0,))
    config.components.rollout_weight = section(rollout_weight)
    config.objective.policy.weight = 0.0
    config.objective.kl.update(weight=1.0, scale="rollout_weight")
    config.learner.update(minibatches=1, epochs=1, aggregation="row_mean")
    experiment = build(config)
    update, _ = program_of(experiment)
    start = jax.jit(experiment.init)(0)

    def shifted(x):
        return x + 0.3 * jnp.cos(jnp.arange(x.size).reshape(x.shape))

    def moved(*names):
        parts = start.params.items()
        return start.replace(
            params={k: jax.tree.map(shifted, p) if k in names else p for k, p in parts}
        )

    before = moved(*MODULES[1:])
    after, told = update(before)
    assert float(told["loss/kl"][0]) == 0.0
    same(after.params, before.params)
    before = moved(*MODULES)
    after, told = update(before)
    assert float(told["loss/kl"][0]) > 0.01
    same(*({n: s.params[n] for n in MODULES[1:]} for s in (after, before)))
    changed = jax.tree.map(lambda x, y: bool(jnp.any(x != y)), after.params, before.params)
    assert all(jax.tree.leaves(changed["planner"]))
