"""Random numbers of turns, for filters that draw some of them."""

import jax

from agentrl.learner.component import Component, Setup
from agentrl.streams import PerTurn


def lots(setup: Setup) -> Component:
    """Supplies `lots` f32[N, T], even random numbers in [0, 1), new in each update, for filter
    `sampled_turns`."""
    del setup

    def annotate(context, streams, rows):
        return {"lots": PerTurn(jax.random.uniform(context.key, streams.mask.shape))}

    return Component(annotate=annotate, fills=("lots",))
