"""The reference: earlier parameters that the policy is pulled towards."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.policies.scoring import join, split


def reference(setup: Setup, *, every: int = 0) -> Component:
    """Supplies `reference_logp` [R, L], and `reference_kl` [R, L] for policies over arrays.

    The first is the log-probability of the rows under the reference; the second the KL divergence
    of the policy from it in closed form, with gradients. Only the trainable parameters are stored
    (with LoRA: the adapters). Under truncated sampling both policies are renormalised on the
    actions that could be sampled, so mass outside them costs nothing.

    Args:
      every: updates after which the parameters become the reference; 0: those at the start of the
        updates after the warm start, for good.
    """
    policy = setup.policy
    check_range("config.reference.every", every, 0)

    def whole(value, params):
        return join(value, split(params, policy.frozen)[1])

    def annotate(value, params, streams, rows, key):
        if "reference_logp" not in setup.reads:
            return {}
        return {
            "reference_logp": log_probs(
                policy, whole(value, params), rows, setup.microbatch, setup.lengths
            )
        }

    def in_loss(value, params, rows):
        if "reference_kl" not in setup.reads:
            return {}
        return {"reference_kl": policy.divergence(params, whole(value, params), rows)}

    def after(value, outcome):
        if not every:
            return value, {}
        moves = (outcome.before.update + 1) % every == 0
        return jax.tree.map(lambda new, old: jnp.where(moves, new, old), outcome.trained, value), {}

    return Component(
        init=lambda start: jax.tree.map(jnp.copy, start.params),
        restarts=True,
        annotate=annotate,
        in_loss=in_loss,
        after=after,
        supplies=("reference_logp", "reference_kl"),
    )
