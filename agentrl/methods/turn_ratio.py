"""How likely the learner is to play the turns that a sampler played which is not the learner."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.losses.arrays import log_ratio
from agentrl.methods.by_turn import to_turns
from agentrl.streams import PerPosition, PerTurn


def turn_ratio(setup: Setup) -> Component:
    """Supplies `turn_ratio` f32[N, T] for estimator `vtrace`, and `old_logp` f32[R, L].

    rho_t = exp(sum over the turn's positions of log pi - log mu),

    pi the policy before the update and mu the sampler, which lags behind it with config.staleness.
    `old_logp`, which ratios of losses are to, becomes the policy's own: what the sampler's were
    worth is in the advantages. It takes a forward pass. Component `importance` weighs positions
    instead.

    Metrics (Credit):
      turn_ratio: Ratio of turns, at most 1; mean of min(1, rho).
      turn_ratio/below: Ratio of turns below 1 [share]; turns with rho < 1.
    """

    def annotate(context, streams, rows):
        old = log_probs(setup.policy, context.params, rows, setup.microbatch, setup.lengths)
        difference = jnp.where(rows.loss_mask, old - rows.behaviour_logp, 0.0)
        total = to_turns(difference, rows, streams.mask.shape)
        ratio = jnp.where(streams.mask, jnp.exp(log_ratio(total, jnp.zeros_like(total))), 0.0)
        count = jnp.sum(streams.mask) * 1.0
        below = jnp.sum(streams.mask & (ratio < 1)) * 1.0
        metrics = {
            "turn_ratio": jnp.stack([jnp.sum(jnp.minimum(ratio, 1.0)), count]),
            "turn_ratio/below": jnp.stack([below, count]),
        }
        return {"old_logp": PerPosition(old), "turn_ratio": PerTurn(ratio)}, metrics

    return Component(annotate=annotate, fills=("old_logp", "turn_ratio"))
