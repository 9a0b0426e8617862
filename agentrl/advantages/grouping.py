"""Segments of equal keys and their statistics, as segment arithmetic inside jit."""

from typing import Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.checks import ROUNDING, check_choice, check_range
from agentrl.devices.placement import replicated

Normalize = Literal["std", "mean"]
Singleton = Literal["zero", "raw"]


class Moments(NamedTuple):
    """Statistics of the segment that each element belongs to, all [M].

    mean, std: f32; ddof 1, and 0 for one member. count: f32. extent: f32, largest minus smallest
    member. constant: bool, the extent is no more than float32 rounding of what the members were
    summed from (eight units in the last place): 1e6 and 1e6 + 0.5 are constant, too.
    """

    mean: jax.Array
    std: jax.Array
    count: jax.Array  # type: ignore[assignment]  # not that of tuples
    extent: jax.Array
    constant: jax.Array


def _mix(words: jax.Array) -> jax.Array:
    """One u32 per row of u32[M, K]; a change of one word changes about half of the bits."""
    mixed = jnp.zeros(words.shape[0], jnp.uint32)
    for column in range(words.shape[1]):
        mixed = (mixed ^ words[:, column]) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> 15)) * np.uint32(0xC2B2AE35)
        mixed = mixed ^ (mixed >> 13)
    return mixed


def segment_ids(keys: jax.Array, include: jax.Array) -> jax.Array:
    """Index of the first included element with the same key, which names the segment.

    A hash table with open addressing, filled by all elements at once: in each round every
    undecided element looks at its slot; the lowest index claims an empty one; those whose key is
    that of the slot's element are decided, the others go on to their next slot. Keys are compared
    whole, so the result is exact. Equal keys walk through the same slots, so a segment is decided
    in one round; the table is at most half full, so a few rounds suffice. Once a sixteenth or less
    is undecided, the rounds go over these elements only. Why not a sort: with payload it costs
    several times more on CPU (262,144 keys; `launchers.benchmark --suite=credit`).
    Each device fills the whole table: shared over a mesh, every round would need three sums over
    the devices. On CPUs of several processes they would even fail: XLA runs two loops that do not
    depend on each other at once, so their sums may meet in another order in each process.

    Args:
      keys: integer [M, K]; two keys are equal iff all K words are.
      include: bool[M].

    Returns:
      i32[M] in [0, M) where included, M elsewhere (segment sums drop it).
    """
    chex.assert_rank([keys, include], [2, 1])
    return _segment_ids(jnp.asarray(keys).astype(jnp.uint32), jnp.asarray(include))


@jax.jit  # outside of programs, its operations one by one would take longer than compiling them
def _segment_ids(keys: jax.Array, include: jax.Array) -> jax.Array:
    count = keys.shape[0]
    keys, include = replicated((keys, include))
    size = 1 << max(1, (2 * count - 1).bit_length())
    few = max(count // 16, 1)
    index = jnp.arange(count, dtype=jnp.int32)
    mixed = _mix(keys)
    stride = (_mix(keys[:, ::-1] ^ np.uint32(0x9E3779B9)) | 1).astype(jnp.uint32)

    def rounds(index, segment, slot, pending, table, until):
        at = jnp.minimum(index, count - 1)
        own, step = (keys, stride) if index.size == count else (keys[at], stride[at])

        def probe(carry):
            segment, slot, pending, table = carry
            empty = table[slot] == count
            table = table.at[slot].min(jnp.where(pending & empty, index, count))
            claimed = jnp.minimum(table[slot], count - 1)
            decided = pending & jnp.all(keys[claimed] == own, axis=1)
            segment = jnp.where(decided, claimed, segment)
            return segment, (slot + step) & np.uint32(size - 1), pending & ~decided, table

        carry = replicated((segment, slot, pending, table))
        return jax.lax.while_loop(lambda carry: jnp.sum(carry[2]) > until, probe, carry)

    nowhere = jnp.full(count, count, jnp.int32)
    table = jnp.full(size, count, jnp.int32)
    first = mixed & np.uint32(size - 1)
    segment, slot, pending, table = rounds(index, nowhere, first, include, table, until=few)
    # jnp.cumsum, and so jnp.nonzero, costs as much as a round on CPU.
    place = jax.lax.associative_scan(jnp.add, pending.astype(jnp.int32)) - 1
    left = nowhere[:few].at[jnp.where(pending, place, few)].set(index, mode="drop")
    slot = slot[jnp.minimum(left, count - 1)]
    found, *_ = rounds(left, nowhere[:few], slot, left < count, table, until=0)
    return replicated(segment.at[left].set(found, mode="drop"))


def joint_segments(include: jax.Array, *keys: jax.Array) -> jax.Array:
    """`segment_ids` of elements that agree in all of several ids, each i32[M]."""
    return segment_ids(jnp.stack([jnp.asarray(key) for key in keys], axis=-1), include)


def group_segments(
    group: jax.Array, include: jax.Array, role: jax.Array | None = None
) -> jax.Array:
    """Segments of equal group, and of equal (group, role) where roles are given.

    Args:
      group, role: i32[M], any ids.
      include: bool[M].

    Returns:
      i32[M], as `segment_ids`.
    """
    return joint_segments(include, *(key for key in (group, role) if key is not None))


def turn_segments(include: jax.Array, *keys: jax.Array) -> jax.Array:
    """Segments of turns whose streams agree in all of several ids.

    Args:
      include: bool[N, T].
      keys: i32[N] each, an id per stream; none: one segment.

    Returns:
      i32[N * T] in [0, N) where included, N * T elsewhere: the first stream of the segment.
    """
    ids = keys or (jnp.zeros(include.shape[0], jnp.int32),)
    of_stream = joint_segments(jnp.any(include, axis=1), *ids)
    return jnp.where(include, of_stream[:, None], include.size).reshape(-1)


def number_segments(mask: jax.Array, *keys: jax.Array) -> jax.Array:
    """Segments of turns with the same number, counting a stream's own turns, of streams that agree
    in all of several ids.

    Args:
      mask: bool[N, T], the agent acted.
      keys: i32[N] each, an id per stream; none: all streams agree.

    Returns:
      i32[N * T] in [0, N * T) where mask is True, N * T elsewhere.
    """
    number = (jnp.cumsum(mask, axis=1) - 1).reshape(-1)
    return jnp.where(
        jnp.asarray(mask).reshape(-1),
        turn_segments(mask, *keys) * mask.shape[1] + number,
        mask.size,
    )


def per_turn(stream: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """A value per stream [N], repeated for each of its turns: [N * T]."""
    return jnp.broadcast_to(jnp.asarray(stream)[:, None], shape).reshape(-1)


def moments(
    values: jax.Array,
    segment: jax.Array,
    *,
    frequency: jax.Array | None = None,
    scale: jax.Array | None = None,
) -> Moments:
    """Mean, standard deviation (ddof 1), size and extent of each element's segment.

    Sums of float32 numbers lose digits as they grow: mean and variance are corrected by a second
    pass over what the first one left, so that they are as exact in a segment of a million elements
    as in one of ten. Deviations above 1e19, whose squares overflow float32, become infinite.

    Args:
      values: f32[M]; any type is converted to float32.
      segment: i32[M] as `segment_ids` returns them. Elements outside all segments (M) get the
        statistics of none, and must be masked by the caller.
      frequency: f32[M], how often an element counts (0: it is compared with its segment without
        being part of it). The size is then the sum n of the frequencies, and the variance has the
        factor 1 / (n - 1) of n elements (2 / n where frequencies sum to less than 2).
      scale: f32[M], magnitude of the numbers that each value was summed from (sum_t |r_t| of a
        return), by which `constant` tells rounding from difference; None: |values|.

    Returns:
      `Moments`, gathered for each element.
    """
    count = values.shape[0]
    values = jnp.asarray(values, jnp.float32)
    home = jnp.minimum(segment, count - 1)

    def total(*columns):
        summed = jax.ops.segment_sum(jnp.stack(columns, axis=-1), segment, num_segments=count)
        return tuple(summed[home].T)

    def largest(*columns):
        # On a CPU two columns take half the time of three.
        stacked = jnp.stack(columns, axis=-1)
        if frequency is not None:
            stacked = jnp.where(weight[:, None] > 0, stacked, -jnp.inf)
        return tuple(jax.ops.segment_max(stacked, segment, num_segments=count)[home].T)

    weight = jnp.ones_like(values) if frequency is None else jnp.asarray(frequency, jnp.float32)
    size, mean = total(weight, weight * values)
    divisor = jnp.where(size > 0, size, 1.0)
    mean = mean / divisor
    away = values - mean
    shift, square = total(weight * away, weight * jnp.square(away))
    shift = shift / divisor
    mean, variance = mean + shift, square / divisor - jnp.square(shift)
    (left,) = total(weight * (jnp.square(values - mean) - variance))
    unbiased = size / jnp.where(size > 0, jnp.maximum(size - 1, size / 2), 1.0)
    variance = jnp.maximum(variance + left / divisor, 0.0) * unbiased
    variance = jnp.where(square < jnp.inf, variance, square)
    highest, lowest = largest(values, -values)
    if scale is None:
        scale = jnp.maximum(highest, lowest)
    else:
        (scale,) = largest(jnp.asarray(scale, jnp.float32))
    extent = highest + lowest
    return Moments(mean, jnp.sqrt(variance), size, extent, extent <= ROUNDING * scale)


def relative(
    score: jax.Array,
    segment: Moments,
    *,
    compared: jax.Array | None = None,
    normalize: Normalize,
    epsilon: float,
    leave_one_out: bool = False,
    singleton: Singleton = "zero",
) -> jax.Array:
    """score - mean, divided by std + epsilon with normalize="std": every group baseline.

    In a segment whose elements are equal up to float32 rounding, `compared - mean` is set to
    exactly 0: a division by epsilon would blow up the rounding error. score - compared remains,
    and is not divided either, as there is no deviation to divide it by; with normalize="std" it is
    set to 0, too.

    Args:
      score: f32[M].
      segment: statistics of each element's segment.
      compared: f32[M], the values that the statistics are of, if they are not the scores (a turn's
        score is its stream's return minus the turn's own penalty).
      normalize: "std", or "mean" for no division.
      epsilon: added to the deviation.
      leave_one_out: compare with the mean of the others, which is n / (n - 1) times the same.
      singleton: a segment of one gives "zero", or its "raw" score.

    Returns:
      f32[M].

    Raises:
      ValueError: unknown `normalize` or `singleton`; a negative epsilon.
    """
    check_choice("normalize", normalize, get_args(Normalize))
    check_choice("singleton", singleton, get_args(Singleton))
    check_range("epsilon", epsilon, 0.0)
    compared = score if compared is None else compared
    advantage = jnp.where(segment.constant, 0.0, compared - segment.mean) + (score - compared)
    if normalize == "std":
        advantage = jnp.where(segment.constant, 0.0, advantage / (segment.std + epsilon))
    if leave_one_out:
        advantage = advantage * segment.count / jnp.maximum(segment.count - 1, 1)
    return jnp.where(segment.count == 1, score, advantage) if singleton == "raw" else advantage


def as_advantage(values: jax.Array, mask: jax.Array) -> jax.Array:
    """The values as constants of the loss (gradient stopped), 0 where mask is False."""
    return jax.lax.stop_gradient(jnp.where(mask, values, 0.0))


def runs_of_equals(
    values: jax.Array, segment: jax.Array, *, resolution: float | np.floating = ROUNDING
) -> tuple[jax.Array, jax.Array]:
    """Elements sorted by (segment, value), and where a new value or segment begins among them.

    Values of a segment that differ by no more than `resolution` times the segment's largest
    absolute value are one (neighbours in order, so that a chain of them is one, too): sums of the
    same numbers in another order would otherwise differ. 0 compares exactly.

    Args:
      values: f32[M]; segment: i32[M].

    Returns:
      (order i32[M], begins bool[M]): begins[k] is about element order[k].
    """
    count = values.shape[0]
    order = jnp.lexsort((values, segment))
    sorted_values, sorted_segment = values[order], segment[order]
    scale = jax.ops.segment_max(jnp.abs(values), segment, num_segments=count)
    step = sorted_values - jnp.roll(sorted_values, 1)
    close = step <= resolution * scale[jnp.minimum(sorted_segment, count - 1)]
    same = close & (sorted_segment == jnp.roll(sorted_segment, 1)) & (jnp.arange(count) > 0)
    return order, ~same


def distinct(
    values: jax.Array, segment: jax.Array, *, resolution: float | np.floating = ROUNDING
) -> jax.Array:
    """One representative of each distinct value of each segment, bool[M].

    As a `frequency` of `moments` it counts each distinct value once. Arguments as for
    `runs_of_equals`.
    """
    order, begins = runs_of_equals(values, segment, resolution=resolution)
    inside = segment[order] < values.shape[0]
    return jnp.zeros(values.shape[0], bool).at[order].set(begins & inside)
