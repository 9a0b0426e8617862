"""Anchors by similarity: GiGPO's anchor groups where observations hardly ever repeat."""

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import group_segments, per_turn
from agentrl.advantages.similarity import similar_segments
from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.streams import OBSERVATION, Rows


def observation_counts(rows: Rows, shape: tuple[int, int], buckets: int) -> jax.Array:
    """How often each token is in the observation of each turn, f32[N * T, buckets].

    The observation is read in the row that trains the turn's reply. Tokens share buckets where
    there are more tokens than buckets.
    """
    row = jnp.broadcast_to(jnp.arange(rows.tokens.shape[0])[:, None], rows.tokens.shape)
    turn = jnp.maximum(rows.turn, 0)
    trained = jnp.zeros((rows.tokens.shape[0], shape[1]), bool)
    trained = trained.at[row, turn].max(rows.loss_mask & (rows.turn >= 0))
    seen = (rows.span == OBSERVATION) & (rows.turn >= 0) & trained[row, turn]
    flat = jnp.where(seen, rows.stream[:, None] * shape[1] + turn, shape[0] * shape[1])  # dropped
    # Spreads neighbouring token ids; the bits are those of a multiplication modulo 2^32.
    bucket = (rows.tokens.astype(jnp.uint32) * jnp.uint32(0x9E3779B1)) >> jnp.uint32(16)
    counts = jnp.zeros((shape[0] * shape[1], buckets))
    return counts.at[flat, bucket % buckets].add(1.0, mode="drop")


def similar_anchors(setup: Setup, *, threshold: float = 0.95, buckets: int = 512) -> Component:
    """Replaces each turn's anchor by that of the first similar observation in its group.

    Observations are similar if they have a share of `threshold` of their tokens in common
    (`agentrl.advantages.overlap`); estimators that read anchors need no change. It costs
    (N T)^2 `buckets` operations, one observation after another: for batches of hundreds of turns.

    Args:
      threshold: in (0, 1]. buckets: for tokens; with fewer than there are tokens, some count as
        equal.

    Raises:
      ValueError: a policy over arrays, a rollout without anchors, or an option outside its range.

    References:
      verl-agent 796ed31 (read), which compares characters in their order; here the order of tokens
      does not matter.
    """
    check_range("config.components.similar_anchors.threshold", threshold, 0.0, 1.0, above=True)
    check_range("config.components.similar_anchors.buckets", buckets, 1)
    required(setup, "similar_anchors", "language", whole_episodes=True)

    def amend(context, streams, rows):
        shape = streams.mask.shape
        counts = observation_counts(rows, shape, buckets)
        mask = streams.mask.reshape(-1)
        group = group_segments(
            per_turn(streams.group, shape),
            mask,
            None if streams.role is None else per_turn(streams.role, shape),
        )
        leader = similar_segments(counts, mask, group, threshold=threshold)
        anchor = streams.anchor.reshape(-1, 2)
        own = anchor[jnp.minimum(leader, mask.shape[0] - 1)]
        return streams.replace(anchor=own.reshape(*shape, 2)), rows, {}

    return Component(amend=amend)
