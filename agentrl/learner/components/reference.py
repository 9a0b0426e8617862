"""The reference: earlier parameters that the policy is pulled towards."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.policies.scoring import join, split
from agentrl.streams import PerPosition, Shared


def reference(setup: Setup, *, every: int = 0) -> Component:
    """Supplies `reference_logp` f32[R, L], the log-probability of the rows under the reference.

    For terms that read `reference_kl` of a policy over arrays, its KL divergence from the reference
    in closed form, `reference_params`. Only the trainable parameters are stored
    (with LoRA: the adapters). Under truncated sampling both policies are renormalised on the
    actions that could be sampled, so mass outside them costs nothing.

    Args:
      every: updates after which the parameters become the reference; 0: those at the start of the
        updates after the warm start, for good.
    """
    policy = setup.policy
    check_range("config.reference.every", every, 0)

    def annotate(context, streams, rows):
        params = join(context.value, split(context.params, policy.frozen)[1])
        notes = {"reference_params": Shared(params)} if "reference_kl" in setup.reads else {}
        if "reference_logp" in setup.reads:
            logp = log_probs(policy, params, rows, setup.microbatch, setup.lengths)
            notes["reference_logp"] = PerPosition(logp)
        return notes

    def after(value, outcome):
        if not every:
            return value, {}
        moves = (outcome.before.update + 1) % every == 0
        return jax.tree.map(lambda new, old: jnp.where(moves, new, old), outcome.trained, value), {}

    return Component(
        init=lambda start: jax.tree.map(jnp.copy, start.params),
        restarts=True,
        annotate=annotate,
        after=after,
        fills=("reference_logp", "reference_kl"),
    )
