"""Mean entropy of each turn's tokens, as an annotation."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.methods.by_turn import to_turns
from agentrl.streams import PerTurn


def turn_entropy(setup: Setup) -> Component:
    """Supplies `turn_entropy` f32[N, T], nats, for reweighting `uncertain_turns`.

    It is that of the policy that collected, and takes a forward pass.
    """

    def annotate(context, streams, rows):
        entropy = log_probs(
            setup.policy, context.params, rows, setup.microbatch, setup.lengths, field="entropy"
        )
        shape = streams.mask.shape
        count = to_turns(jnp.ones_like(entropy), rows, shape)
        mean = to_turns(entropy, rows, shape) / jnp.maximum(count, 1)
        return {"turn_entropy": PerTurn(mean)}

    return Component(annotate=annotate, fills=("turn_entropy",))
