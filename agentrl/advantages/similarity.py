"""Anchor groups of similar observations: for texts that hardly ever repeat exactly."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from agentrl.checks import check_range


def overlap(one: jax.Array, others: jax.Array) -> jax.Array:
    """Share of tokens that two texts have in common, whatever their order.

    2 sum_v min(a_v, b_v) / (sum_v a_v + sum_v b_v), 1 for two empty texts: `quick_ratio` of
    Python's difflib, an upper bound of its `ratio`, which counts matching blocks in their order.

    Args:
      one: f32[V], how often each token is in one text.
      others: f32[M, V], the same of the texts that it is compared with.

    Returns:
      f32[M] in [0, 1].
    """
    total = jnp.sum(one) + jnp.sum(others, axis=-1)
    shared = 2.0 * jnp.sum(jnp.minimum(one, others), axis=-1)
    return jnp.where(total > 0, shared / jnp.where(total > 0, total, 1.0), 1.0)


def similar_segments(
    counts: jax.Array, include: jax.Array, group: jax.Array, *, threshold: float = 0.95
) -> jax.Array:
    """Leader clusters of texts by `overlap`, within groups.

    One pass in order: an element joins the first leader of its group that it overlaps by
    `threshold` or more, and becomes a leader if there is none. So the result depends on the order,
    and two members of a cluster may be less similar to each other than to their leader.

    Args:
      counts: f32[M, V], how often each token is in each text.
      include: bool[M]. group: i32[M], any ids.
      threshold: in (0, 1].

    Returns:
      i32[M] in [0, M), the leader's index, where included; M elsewhere. M^2 V operations.

    Raises:
      ValueError: a threshold outside of (0, 1].

    References:
      verl-agent 796ed31 (read and executed), `enable_similarity`: the same clusters by difflib's
      `ratio`, with thresholds 0.95 and, for search, 0.9.
    """
    check_range("similar_segments threshold", threshold, 0.0, 1.0, above=True)
    counts = jnp.asarray(counts, jnp.float32)
    return leader_segments(
        lambda i: overlap(counts[i], counts) >= threshold, jnp.asarray(include), jnp.asarray(group)
    )


def leader_segments(
    similar: Callable[[jax.Array], jax.Array], include: jax.Array, group: jax.Array
) -> jax.Array:
    """Leader clusters of M elements, within groups, by any relation.

    Args:
      similar: (i32[]) -> bool[M], the elements that element i may join.
      include, group: as for `similar_segments`.

    Returns:
      i32[M], as `similar_segments`.
    """
    size = include.shape[0]

    def place(leads, i):
        candidates = leads & (group == group[i]) & similar(i)
        found = jnp.any(candidates)
        leader = jnp.where(found, jnp.argmax(candidates), i).astype(jnp.int32)
        leads = leads.at[i].set(include[i] & ~found)
        return leads, jnp.where(include[i], leader, size)

    _, leader = jax.lax.scan(place, jnp.zeros(size, bool), jnp.arange(size, dtype=jnp.int32))
    return leader
