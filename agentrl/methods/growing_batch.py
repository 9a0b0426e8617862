"""ReST: the policy's own accepted episodes of all rounds are imitated, again and again."""

import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.learner.required import required
from agentrl.methods.by_turn import collected
from agentrl.methods.ring import drawn, empty, put, usable
from agentrl.streams import at_positions


def growing_batch(
    setup: Setup, *, size: int = 4096, rows: int = 256, rounds: int = 0, longest: int = 0
) -> Component:
    """Source "growing_batch": rows of the rollout's solved episodes, of this and earlier updates.

    Each update is a round: what it collects is filtered and joins the rounds before, and the next
    ones learn from all. For `losses.behaviour_cloning` with source="growing_batch", beside a
    filter or none of the rollout's own rows; with rounds=1 it is rejection sampling of the update
    before.

    Metric: growing_batch/rows, that can be drawn.

    Args:
      size: M, places for rows, of which the oldest go first. rows: drawn per update; 0: all M
        places, of which empty ones count nothing.
      rounds: only rows of the last so many rounds are drawn; 0: of all.
      longest: only episodes of at most so many turns are accepted; 0: of any length.

    Raises:
      ValueError: several agents, segments, an environment in Python, or an option outside its
        range.

    References:
      ReST meets ReAct (2023), https://arxiv.org/abs/2312.10003, from notes; no code. There each
      round begins from the base model again and a model ranks several samples of every step
      (`agentrl.methods.rise` takes the best of several by the environment); here the policy goes on
      from where it is, and the environment's success is the filter.
    """
    path = "config.components.growing_batch"
    check_range(f"{path}.size", size, 1)
    for name, value in (("rows", rows), ("rounds", rounds), ("longest", longest)):
        check_range(f"{path}.{name}", value, 0)
    required(setup, "growing_batch", None, one_agent=True, in_graph=True, whole_episodes=True)

    def make(context, sources):
        return None, drawn(context.value, usable(context.value, rounds), rows, context.key)

    def after(ring, outcome):
        streams, own = outcome.streams, outcome.rows
        good = jnp.any(streams.success & streams.mask, axis=1)
        if longest:
            good &= jnp.sum(streams.mask, axis=1) <= longest
        kept = at_positions(streams.mask & good[:, None], own).astype(bool)
        ring = put(ring, own.replace(loss_mask=own.loss_mask & kept))
        count = jnp.sum(usable(ring, rounds), dtype=jnp.float32)
        return ring, {"growing_batch/rows": jnp.stack([count, jnp.ones(())])}

    def init(start):
        _, like = collected(setup.rollout, setup.policy, start.key)
        return empty(like, size)

    return Component(init=init, source=Source(make, reads=("rollout",)), after=after)
