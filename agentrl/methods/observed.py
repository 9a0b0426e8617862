"""The tokens that a language policy reads, for a world-model loss."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.streams import OBSERVATION, PerPosition


def observed(setup: Setup) -> Component:
    """Supplies `observed` bool[R, L], the tokens of observations in rows that are trained, for
    `losses.observation_loss`; the first token of a row, which nothing predicts, is not one.

    Raises:
      ValueError: a policy over arrays.
    """
    required(setup, "observed", "language")

    def annotate(context, streams, rows):
        read = (rows.span == OBSERVATION) & (jnp.arange(rows.tokens.shape[1]) > 0)
        read &= jnp.any(rows.loss_mask, axis=1, keepdims=True)
        return {"observed": PerPosition(read)}

    return Component(annotate=annotate, fills=("observed",))
