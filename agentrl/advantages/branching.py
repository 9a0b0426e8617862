"""Advantages of episodes that share their first turns."""

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import as_advantage
from agentrl.checks import check_streams


def shared_prefix(
    advantage: jax.Array, mask: jax.Array, parent: jax.Array, call_turn: jax.Array
) -> jax.Array:
    """Mean advantage of each turn over the streams that share it (ARPO's hard attribution).

    A stream with a parent has the parent's turns before call_turn, and its own from there on. Four
    episodes earn 1, 0, 0, 1, so that their advantages are .866, -.866, -.866, .866 (`grpo`); a turn
    that the first, the second and the fourth share has .28868, their own turns keep theirs.

    Args:
      advantage: f32[N, T].
      mask: bool[N, T], the agent acted.
      parent: i32[N], the stream that a branch left, -1 for none. Branches may have branches.
      call_turn: i32[N], the first turn of its own; -1 for streams without a parent.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: arrays of other shapes or types; advantages per position, f32[R, L].

    References:
      Dong et al. (2025), ARPO, https://arxiv.org/abs/2507.19849; recalled, the released code has
      the soft form only, in which each descendant trains shared turns with its own advantage.
    """
    ids = {"parent": parent, "call_turn": call_turn}
    check_streams("shared_prefix", mask, numbers={"advantage": advantage}, ids=ids)
    count, turns = mask.shape
    turn = jnp.arange(turns)
    stream = jnp.arange(count)[:, None]
    # The stream that took each turn, by doubling steps from branch to parent.
    taker = jnp.where((parent[:, None] >= 0) & (turn < call_turn[:, None]), parent[:, None], stream)
    for _ in range(max(count - 1, 1).bit_length()):
        taker = taker[taker, turn]
    node = (taker * turns + turn).reshape(-1)
    sums = [
        jax.ops.segment_sum(x.reshape(-1), node, num_segments=count * turns)[node]
        for x in (jnp.where(mask, advantage, 0.0), mask * 1.0)
    ]
    average = (sums[0] / jnp.maximum(sums[1], 1.0)).reshape(mask.shape)
    return as_advantage(average, mask)
