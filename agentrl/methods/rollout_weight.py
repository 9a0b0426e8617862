"""AgentFlow: a mean over rollouts of means over turns of means over tokens."""

import jax
import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.streams import PerTurn


def rollout_weight(setup: Setup) -> Component:
    """Supplies `rollout_weight` f32[N, T], for terms with scale="rollout_weight".

    Mean number of turns of the streams of a role, over the number of turns of a stream itself:

      w_i = (1 / N) sum_j T_j / T_i.

    Where every turn is a row (context `window`, or a policy over arrays without memory) and
    learner.aggregation="row_mean", a term weighted by it is

      1/N sum_i 1/T_i sum_t 1/L_it sum_l ...

    over the batch: each rollout counts the same, in it each turn, in it each token. Without it
    every turn counts the same, and long rollouts more. A row that is a whole stream has no use for
    it. In a minibatch the first two means hold in expectation.

    References:
      Li et al. (2025), AgentFlow, https://arxiv.org/abs/2510.05592, the objective of Flow-GRPO.
    """
    del setup

    def annotate(context, streams, rows):
        del context, rows
        turns = jnp.sum(streams.mask, axis=1) * 1.0
        role = jnp.zeros(turns.shape, jnp.int32) if streams.role is None else streams.role
        # Numbers of roles are below that of streams.
        total, count = (
            jax.ops.segment_sum(x, role, num_segments=turns.shape[0])[role]
            for x in (turns, (turns > 0) * 1.0)
        )
        weight = total / jnp.maximum(count * turns, 1)
        return {"rollout_weight": PerTurn(jnp.where(streams.mask, weight[:, None], 0.0))}

    return Component(annotate=annotate, fills=("rollout_weight",))
