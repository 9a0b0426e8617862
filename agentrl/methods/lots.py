"""Random numbers of turns, for filters that draw some of them."""

import jax
import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.streams import PerTurn


def lots(setup: Setup) -> Component:
    """Supplies `lots` f32[N, T], even random numbers in [0, 1), new in each update, for filter
    `sampled_turns`.

    A stream's numbers follow from its episode and its role, not from its place in the batch: agents
    of one role in one episode have the same.

    Raises:
      ValueError: a rollout without whole episodes.
    """
    if "episode" not in setup.rollout.provides:
        raise ValueError(
            "component 'lots' draws by episode: use a rollout of whole episodes "
            "(config.rollout.name='episodes')"
        )

    def annotate(context, streams, rows):
        count, turns = streams.mask.shape
        role = jnp.zeros(count, jnp.int32) if streams.role is None else streams.role

        def of(episode, role):
            key = jax.random.fold_in(jax.random.fold_in(context.key, episode), role)
            return jax.random.uniform(key, (turns,))

        return {"lots": PerTurn(jax.vmap(of)(streams.episode, role))}

    return Component(annotate=annotate, fills=("lots",))
