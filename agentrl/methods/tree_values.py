"""Trees of turns: which turns of episodes are the same, and what came of them.

A node is a sequence of turns from the start of a task, in front of which a state is kept; episodes
that have it in common pass through it. Letters: N streams, T turns.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_streams
from agentrl.learner.component import Context
from agentrl.rewards.returns import discounted_return
from agentrl.streams import Note, PerTurn, Rows, Streams


def prefixes(code: jax.Array, acted: jax.Array, size: int) -> jax.Array:
    """`Streams.prefix` i32[N, T] of trees of `size` streams each.

    code: u32[N, T, 2], what was done in the turn and what followed. acted: bool[N, T].
    """
    count, turns = acted.shape
    code, acted = (x.reshape(-1, size, *x.shape[1:]) for x in (code, acted))
    equal = jnp.all(code[:, :, None] == code[:, None], axis=-1)
    equal &= acted[:, :, None] & acted[:, None]
    same = jax.lax.cummin(equal.astype(jnp.int8), axis=3)
    first = jnp.argmax(same, axis=2).astype(jnp.int32)
    tree = jnp.arange(count // size, dtype=jnp.int32)[:, None, None]
    return jnp.where(acted, tree * size + first, -1).reshape(count, turns)


class TreeValues(NamedTuple):
    """Statistics of trees, [N, T] each, 0 where nobody acted.

    turn: f32, mean return to go of the episodes with the turns up to this one. visits: i32, their
    number. node: f32, that of all episodes with the turns before this one. node_visits: i32, their
    number. children: i32, how many different turns they took. first: bool, the stream is the first
    with the turns before this one.
    """

    turn: jax.Array
    visits: jax.Array
    node: jax.Array
    node_visits: jax.Array
    children: jax.Array
    first: jax.Array


def nodes(mask: jax.Array, group: jax.Array, prefix: jax.Array) -> jax.Array:
    """The first stream with the same turns before each turn, i32[N, T].

    At turn 0 it is the first stream of the group. mask: bool[N, T]; group: i32[N], in [0, N).
    """
    number = jnp.arange(mask.shape[0], dtype=jnp.int32)
    root = jax.ops.segment_min(number, group, num_segments=mask.shape[0])[group]
    return jnp.concatenate([root[:, None], prefix[:, :-1]], axis=1)


def tree_values(
    reward: jax.Array, mask: jax.Array, group: jax.Array, prefix: jax.Array, *, gamma: float = 1.0
) -> TreeValues:
    """Visits and mean returns of turns and of the nodes in front of them.

    Args:
      reward, mask: [N, T]. group: i32[N], in [0, N). prefix: i32[N, T], see `Streams`.
      gamma: discount per turn of the returns to go.

    Raises:
      ValueError: gamma outside [0, 1], or arrays of other shapes or types.
    """
    check_range("tree_values gamma", gamma, 0.0, 1.0)
    numbers = {"reward": reward, "prefix": prefix}
    check_streams("tree_values", mask, numbers=numbers, ids={"group": group})
    count, turns = mask.shape
    number = jnp.arange(count, dtype=jnp.int32)[:, None]
    before = nodes(mask, group, prefix)
    goes = discounted_return(reward, mask, gamma=gamma)

    def total(values, key):
        key = jnp.where(mask, key * turns + jnp.arange(turns), count * turns).reshape(-1)
        values = jnp.where(mask, values, 0).reshape(-1)
        sums = jax.ops.segment_sum(values, key, num_segments=count * turns + 1)
        return jnp.where(mask, sums[key].reshape(mask.shape), 0)

    visits, passed = total(mask.astype(jnp.int32), prefix), total(mask.astype(jnp.int32), before)
    return TreeValues(
        turn=total(goes, prefix) / jnp.maximum(visits, 1),
        visits=visits,
        node=total(goes, before) / jnp.maximum(passed, 1),
        node_visits=passed,
        children=total((prefix == number).astype(jnp.int32), before),
        first=mask & (before == number),
    )


def node_values(
    context: Context, streams: Streams, rows: Rows, *, gamma: float = 1.0
) -> dict[str, Note]:
    """Annotation of trees of turns: turn_value and node_value, f32[N, T].

    Mean returns to go of the leaves below a turn, and below the node that it left, with gamma per
    turn. Their difference says how much better the turn was than its siblings on average.
    """
    del context, rows
    assert streams.group is not None  # of every rollout of whole episodes
    if streams.prefix is None:
        raise ValueError(
            "annotation 'node_values' needs trees of turns: set config.rollout to "
            "section(agentrl.methods.trees.trees)"
        )
    found = tree_values(streams.reward, streams.mask, streams.group, streams.prefix, gamma=gamma)
    return {"turn_value": PerTurn(found.turn), "node_value": PerTurn(found.node)}
