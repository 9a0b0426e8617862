"""What methods share: values by turn, whole streams and their rows, entropies of batches."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import along_data
from agentrl.policies.protocol import AnyPolicy
from agentrl.rollout.types import Rollout
from agentrl.streams import PerPosition, PerTurn, Rows, Streams

Tree = TypeVar("Tree", bound=chex.ArrayTree)

# Fields that say where a stream stands in its batch; a stream that is replaced keeps them.
PLACE = ("group", "episode", "role", "task", "parent", "call_turn", "prefix", "first_state")
# Fields of rows that are of their positions.
POSITIONS = (
    "tokens", "loss_mask", "turn", "behaviour_logp", "action", "span", "observation", "legal",
    "start", "asked", "answer", "speaker",
)  # fmt: skip


def to_turns(values: jax.Array, rows: Rows, shape: tuple[int, int]) -> jax.Array:
    """Values [R, L, ...] of the trained positions, summed by stream and turn: [N, T, ...]."""
    there = rows.loss_mask & (rows.turn >= 0)
    stream = jnp.broadcast_to(rows.stream[:, None], there.shape)
    stream = jnp.where(there, stream, shape[0])  # dropped
    out = jnp.zeros((*shape, *values.shape[2:]), values.dtype)
    return out.at[stream, jnp.maximum(rows.turn, 0)].add(values, mode="drop")


def turn_means(values: PerTurn | PerPosition, rows: Rows, shape: tuple[int, int]) -> jax.Array:
    """Values of turns, or the means over the trained positions of each turn: f32[N, T]."""
    if isinstance(values, PerTurn):
        return values.values
    count = to_turns(jnp.ones_like(values.values), rows, shape)
    return to_turns(values.values, rows, shape) / jnp.maximum(count, 1.0)


def ended(streams: Streams) -> jax.Array:
    """Whether an episode ended at a turn, bool[N, T]."""
    return (streams.terminated | streams.truncated) & streams.mask


def stream_rows(rows: Rows, streams: Streams) -> Rows:
    """One row per stream, row n that of stream n.

    Rows of one turn each (policies over arrays without memory) become rows [N, T] whose position t
    is turn t; rows of whole streams are put in order.

    Raises:
      ValueError: a stream has several rows of many positions each.
    """
    shape = streams.mask.shape
    count, length = rows.tokens.shape
    if count == shape[0]:
        order = jnp.argsort(rows.stream)
        return jax.tree.map(lambda x: x[order], rows)
    if length != 1:
        raise ValueError(
            f"stream_rows: {count} rows of {length} positions are of {shape[0]} streams; expected "
            "one row per stream (context 'whole'), or one row per turn of one position"
        )
    there = rows.loss_mask[:, 0]
    stream = jnp.where(there, rows.stream, shape[0])  # dropped
    turn = jnp.maximum(rows.turn[:, 0], 0)

    def put(x):
        # Nothing is cut where there was no turn, so that logits stay finite.
        empty = jnp.ones if x.dtype == bool and x.ndim > 2 else jnp.zeros
        return empty((*shape, *x.shape[2:]), x.dtype).at[stream, turn].set(x[:, 0], mode="drop")

    whole = jax.tree.map(put, rows.replace(stream=None, memory=None, role=None))
    there = whole.loss_mask
    acts = None
    if rows.role is not None:
        acts = jnp.zeros(shape[0], rows.role.dtype).at[stream].set(rows.role, mode="drop")
    return whole.replace(
        stream=jnp.arange(shape[0], dtype=jnp.int32),
        turn=jnp.where(there, jnp.arange(shape[1]), -1),
        role=acts,
    )


def rows_of_turns(rows: Rows, shape: tuple[int, int], stream: jax.Array, turn: jax.Array) -> Rows:
    """The rows of M single turns [M, L], row m of turn[m] of stream[m], i32[M] each.

    Of rows of whole streams only the positions of the turn are trained. The streams are numbered
    anew, 0 to M - 1. shape: (N, T) of the streams; one row per stream, or at most one per turn.
    """
    if rows.tokens.shape[0] == shape[0]:
        place = jnp.argsort(rows.stream)[stream]
    else:
        own = jnp.max(jnp.where(rows.loss_mask, rows.turn, -1), axis=1)
        row = jnp.where(own >= 0, rows.stream, shape[0])  # dropped
        number = jnp.arange(rows.stream.shape[0], dtype=jnp.int32)
        place = jnp.zeros(shape, jnp.int32).at[row, own].set(number, mode="drop")[stream, turn]
    rows = jax.tree.map(lambda x: x[place], rows)
    return rows.replace(
        stream=jnp.arange(stream.shape[0], dtype=jnp.int32),
        loss_mask=rows.loss_mask & (rows.turn == turn[:, None]),
    )


def spliced(one: Rows, other: Rows, end: jax.Array, begin: jax.Array) -> Rows:
    """Each row up to position end[r], then the other row from its position begin[r], i32[R] each.

    What does not fit is cut, and there is padding behind the other row's end. Everything but the
    positions is that of `one`; turns keep their numbers.
    """
    length = one.tokens.shape[1]
    index = jnp.broadcast_to(jnp.arange(length), one.tokens.shape)
    own = index < end[:, None]
    source = jnp.where(own, index, index + (begin - end)[:, None])
    there, source = own | (source < length), jnp.minimum(source, length - 1)

    # Nothing is cut where nothing is drawn, so that logits stay finite.
    fills, fields = {"turn": -1, "span": -1, "legal": True}, {}
    for name in POSITIONS:
        if getattr(one, name) is not None:
            put = functools.partial(spliced_leaf, own, source, there, fills.get(name, 0))
            fields[name] = jax.tree.map(put, getattr(one, name), getattr(other, name))
    return one.replace(**fields)


def spliced_leaf(
    own: jax.Array,
    source: jax.Array,
    there: jax.Array,
    fill: int | bool,
    mine: jax.Array,
    others: jax.Array,
) -> jax.Array:
    """`mine` [R, L, ...] where `own`, else `others` from position `source`, and `fill` where none
    of the two is `there`; [R, L] each."""
    wide = (*source.shape, *(1,) * (mine.ndim - 2))
    moved = jnp.take_along_axis(others, source.reshape(wide), axis=1)
    moved = jnp.where(own.reshape(wide), mine, moved)
    return jnp.where(there.reshape(wide), moved, jnp.asarray(fill, mine.dtype))


def entropies(
    policy: AnyPolicy, params: chex.ArrayTree, rows: Rows, microbatch: int | None
) -> jax.Array:
    """Entropy at each position, f32[R, L], without gradients, `microbatch` rows at a time."""
    count = rows.tokens.shape[0]
    if microbatch is None or count % microbatch:
        return policy.score(params, rows).entropy
    parts = jax.tree.map(lambda x: x.reshape(-1, microbatch, *x.shape[1:]), rows)
    out = jax.lax.map(lambda part: policy.score(params, part).entropy, along_data(parts, 1))
    return out.reshape(rows.tokens.shape)


def rows_by_stream(rows: Rows, streams: int) -> Rows:
    """The rows of each stream, leaves [N, R / N, ...], in their order."""
    order = jnp.argsort(rows.stream, stable=True).reshape(streams, -1)
    return jax.tree.map(lambda x: x[order], rows)


def bare(streams: Streams) -> Streams:
    """The streams without the fields that say where they stand in their batch."""
    return streams.replace(**dict.fromkeys(PLACE))


def stream_sums(values: PerTurn | PerPosition, streams: Streams, rows: Rows) -> jax.Array:
    """Values of turns, or of trained positions, summed by stream: [N]."""
    if isinstance(values, PerTurn):
        return jnp.sum(jnp.where(streams.mask, values.values, 0.0), axis=1)
    of_rows = jnp.sum(jnp.where(rows.loss_mask, values.values, 0.0), axis=1)
    return jax.ops.segment_sum(of_rows, rows.stream, num_segments=streams.mask.shape[0])


def returns_of(streams: Streams) -> jax.Array:
    """The sum of each stream's rewards, f32[N]."""
    return jnp.sum(jnp.where(streams.mask, streams.reward, 0.0), axis=1)


def solved(streams: Streams) -> jax.Array:
    """Whether each stream succeeded, bool[N]."""
    return jnp.any(streams.success & streams.mask, axis=1)


def followed(streams: Streams) -> jax.Array:
    """Whether the same episode has a turn right after a turn, bool[N, T]."""
    follows = jnp.pad(streams.mask[:, 1:], ((0, 0), (0, 1)))
    return follows & streams.mask & ~ended(streams)


def collected(rollout: Rollout, policy: AnyPolicy, key: jax.Array) -> tuple[Streams, Rows]:
    """Shapes and types of a batch's streams, `bare`, and rows; nothing is computed."""

    def collect(key):
        zeros = jnp.zeros(rollout.units[0], jnp.int32)
        given = {name: zeros for name in ("tasks", "limits") if name in rollout.needs}
        _, streams, rows, _ = rollout.collect(policy.init(key), rollout.init(key), key, **given)
        return bare(streams), rows

    return jax.eval_shape(collect, key)


def transitions(streams: Streams, rows: Rows) -> dict[str, Any]:
    """The transitions of whole streams of an array policy, by name, [N * T, ...]; 0 where nobody
    acted.

    observation, action, reward, over (terminated), acted; following: the next observation where
    `seen`. What follows an episode's last turn is not known; its reward and its end are. legal:
    the actions that could be drawn, where some were cut.
    """
    rows, mask = stream_rows(rows, streams), streams.mask

    def acted(x):
        # A gradient through padding is 0 times its value, which has to be finite.
        return jnp.where(mask.reshape(*mask.shape, *(1,) * (x.ndim - 2)), x, 0)

    observation = acted(rows.observation)
    found = {
        "observation": observation,
        "action": acted(rows.tokens),
        "following": jnp.roll(observation, -1, axis=1),
        "reward": acted(streams.reward),
        "over": streams.terminated & mask,
        "acted": mask,
        "seen": followed(streams),
    } | ({} if rows.legal is None else {"legal": rows.legal})
    return {name: x.reshape(-1, *x.shape[2:]) for name, x in found.items()}


def alternating(one: Tree, other: Tree) -> Tree:
    """Trees [G, ...] as one [2 G, ...]: first of one, first of the other, second of one, ..."""

    def both(x, y):
        return jnp.stack([x, y], axis=1).reshape(-1, *x.shape[1:])

    return jax.tree.map(both, one, other)


def empty_like(like: Tree, *lead: int) -> Tree:
    """Zeros [*lead, ...] in the place of arrays [M, ...], or of their shapes and types."""
    return jax.tree.map(lambda x: jnp.zeros((*lead, *x.shape[1:]), x.dtype), like)


def put_if(tree: Tree, at: Any, new: chex.ArrayTree, when: jax.Array) -> Tree:
    """The tree with `new` at the index `at` of each leaf, if `when` bool[]."""

    def put(old, one):
        return old.at[at].set(jnp.where(when, one, old[at]))

    return jax.tree.map(put, tree, new)


def done_if(
    when: jax.Array,
    do: Callable[..., tuple[chex.ArrayTree, chex.ArrayTree]],
    kept: chex.ArrayTree,
    *given: chex.ArrayTree,
) -> tuple[chex.ArrayTree, chex.ArrayTree]:
    """do(*given), a pair (value, metrics), if `when` bool[]; else (kept, metrics of 0)."""

    def rest(*given):
        _, metrics = jax.eval_shape(do, *given)
        return kept, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), metrics)

    return jax.lax.cond(when, do, rest, *given)
