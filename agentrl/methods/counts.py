"""Novelty by counting: how often anything like it was met in all of training so far."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.methods.by_turn import ended
from agentrl.rewards.novelty import first_visits, of_next_turn
from agentrl.streams import PerTurn, Shared, Streams


def bucket_of(anchor: jax.Array, buckets: int) -> jax.Array:
    """A number below `buckets` for each fingerprint u32[..., 2], i32[...]."""
    # Products modulo 2^32, whose high bits depend on all bits of the words.
    words = (anchor[..., 0] * jnp.uint32(0x9E3779B1)) ^ (anchor[..., 1] * jnp.uint32(0x85EBCA77))
    return ((words >> jnp.uint32(7)) % jnp.uint32(buckets)).astype(jnp.int32)


def counted(counts: jax.Array, streams: Streams) -> tuple[jax.Array, jax.Array]:
    """(1 / sqrt(N(s)) f32[N, T] of what each turn was acted from, the counts with these turns).

    N(s) counts all of these turns. Places share a bucket, and so a count, where their fingerprints
    do (`bucket_of`): such a place looks better known than it is, never newer.

    Args:
      counts: f32[buckets], visits so far. streams: with anchors.
    """
    place = bucket_of(streams.anchor, counts.shape[0])
    counts = counts.at[jnp.where(streams.mask, place, counts.shape[0])].add(1.0, mode="drop")
    return jax.lax.rsqrt(jnp.maximum(counts[place], 1.0)), counts


def visit_counts(setup: Setup, *, buckets: int = 1 << 16, first_only: bool = True) -> Component:
    """Supplies `novelty` f32[N, T] for reward term `novelty_bonus`: 1 / sqrt(N(s')).

    N(s') is how often what the turn led to has been acted from, in all updates so far and this one
    together, by its anchor: over arrays and in words alike. The last turn of an episode has 0, as
    no turn is acted from its final state.

    Reports novelty (see `curiosity`), too.

    Metrics (Credit):
      places: Places met [places]; so far, at most `buckets`.

    Args:
      buckets: places that are told apart; others share one. A count takes four bytes.
      first_only: a place counts as new at its first visit in an episode alone, so that going to and
        fro pays once.

    Raises:
      ValueError: a rollout without anchors, or no buckets.

    References:
      Strehl and Littman (2008), model-based interval estimation with exploration bonuses (recalled,
      not read), for the root. Henaff et al. (2023), https://arxiv.org/abs/2306.03236, for the
      product with first visits (code facebookresearch/e3b edd2cce read).
    """
    check_range("config.components.visit_counts.buckets", buckets, 1)
    if "anchor" not in setup.rollout.provides:
        raise ValueError(
            "component 'visit_counts' counts anchors, which this rollout does not give: use "
            "config.rollout.name='episodes'"
        )

    def annotate(context, streams, rows):
        mask, ends = streams.mask, ended(streams)
        new, counts = counted(context.value, streams)
        if first_only:
            new = jnp.where(first_visits(streams.anchor, mask, ends), new, 0.0)
        novelty = of_next_turn(new, mask, ends)
        metrics = {
            "novelty": jnp.stack([jnp.sum(novelty), jnp.sum(mask) * 1.0]),
            "places": jnp.stack([jnp.sum(counts > 0) * 1.0, jnp.ones(())]),
        }
        return {"novelty": PerTurn(novelty), "visit_counts": Shared(counts)}, metrics

    def after(counts, outcome):
        return outcome.notes["visit_counts"].values, {}

    return Component(
        init=lambda start: jnp.zeros(buckets),
        annotate=annotate,
        after=after,
        fills=("novelty",),
    )
