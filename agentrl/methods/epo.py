"""EPO's history: the mean entropies of all earlier updates, for `losses.epo`."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.losses.smoothing import turn_mean
from agentrl.methods.by_turn import entropies
from agentrl.streams import Shared


def entropy_history(setup: Setup) -> Component:
    """Supplies `entropy_history` f32[2], sum and number of the mean entropies of earlier updates.

    An update's mean entropy is that of the policy before it, over rows, over turns of the row, over
    positions of the turn, as in `losses.epo`. It takes a forward pass over the rows.

    Metric: entropy_reference, the mean of the history.

    Metrics (Policy):
      entropy_reference: Entropy, history [nats]; EPO: mean of the entropies so far.
    """

    def after(value, outcome):
        rows = outcome.rows
        entropy = entropies(setup.policy, outcome.before.params, rows, setup.microbatch)
        some = jnp.any(rows.loss_mask, axis=1)
        means = turn_mean(entropy, rows.loss_mask, rows.turn)
        mean = jnp.sum(means) / jnp.maximum(jnp.sum(some), 1)
        value = value + jnp.where(jnp.any(some), jnp.stack([mean, 1.0]), 0.0)
        reference = value[0] / jnp.maximum(value[1], 1.0)
        return value, {"entropy_reference": jnp.stack([reference, jnp.ones(())])}

    return Component(
        init=lambda start: jnp.zeros(2),
        restarts=True,
        annotate=lambda context, streams, rows: {"entropy_history": Shared(context.value)},
        after=after,
        fills=("entropy_history",),
    )
