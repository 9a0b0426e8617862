"""Mean entropy of each turn's tokens, as an annotation."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.methods.by_turn import to_turns


def turn_entropy(setup: Setup) -> Component:
    """Supplies `turn_entropy` f32[N, T], nats, for reweighting `uncertain_turns`.

    It is that of the policy that collected, and takes a forward pass.
    """

    def annotate(value, params, streams, rows, key):
        if streams is None:
            return {}
        entropy = log_probs(
            setup.policy, params, rows, setup.microbatch, setup.lengths, field="entropy"
        )
        shape = streams.mask.shape
        count = to_turns(jnp.ones_like(entropy), rows, shape)
        return {"turn_entropy": to_turns(entropy, rows, shape) / jnp.maximum(count, 1)}

    return Component(init=lambda start: (), annotate=annotate, supplies=("turn_entropy",))
