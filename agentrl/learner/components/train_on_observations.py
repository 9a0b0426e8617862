"""An ablation: a language policy's observations are trained like its replies."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.learner.required import required
from agentrl.streams import OBSERVATION


def train_on_observations(setup: Setup) -> Component:
    """Adds the tokens of observations to the trained positions, at ratios to the parameters before
    the update.

    Raises:
      ValueError: a policy over arrays, whose rows hold actions alone.
    """
    required(setup, "train_on_observations", "language")

    def amend(context, streams, rows):
        # The first position has no prefix, hence no predictive distribution.
        read = (rows.span == OBSERVATION) & (jnp.arange(rows.tokens.shape[1]) > 0)
        read &= jnp.any(rows.loss_mask, axis=1, keepdims=True)
        wide = rows.replace(loss_mask=rows.loss_mask | read)
        logp = log_probs(setup.policy, context.params, wide, setup.microbatch, setup.lengths)
        before = jnp.where(read, logp, rows.behaviour_logp)
        return streams, wide.replace(behaviour_logp=before), {}

    return Component(amend=amend)
