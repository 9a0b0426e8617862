"""Groups of equal keys and their statistics, as segment arithmetic inside jit."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

# Sums of the same float32 numbers in another order differ by a few units in the last place.
ROUNDING = 8 * np.finfo(np.float32).eps


class Moments(NamedTuple):
    """Statistics of the group that each element belongs to, all [M].

    mean, std f32 (ddof 1; 0 for one member), count f32, extent f32 (largest minus smallest member),
    constant bool (the extent is no more than float32 rounding of the members).
    """

    mean: jax.Array
    std: jax.Array
    count: jax.Array
    extent: jax.Array
    constant: jax.Array


def _mix(words: jax.Array) -> jax.Array:
    """One u32 a row of u32[M, K]; a word's change moves about half of the bits."""
    mixed = jnp.zeros(words.shape[0], jnp.uint32)
    for column in range(words.shape[1]):
        mixed = (mixed ^ words[:, column]) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> 15)) * np.uint32(0xC2B2AE35)
        mixed = mixed ^ (mixed >> 13)
    return mixed


def first_occurrence(keys: jax.Array, include: jax.Array) -> jax.Array:
    """Index of the first included element with the same key: a group's name.

    keys: integer [M, K], equal iff all K words are equal. include: bool[M].
    Returns i32[M] in [0, M) where included, M elsewhere (segment sums drop it).

    A hash table with open addressing, filled by all elements at once: in each round every
    undecided element looks at its slot; the lowest index claims an empty one; those whose key is
    the owner's are decided, the others go on to their next slot. Keys are compared whole, so the
    result is exact. Equal keys walk through the same slots, so a group is decided in one round;
    the table is at most half full, so a few rounds do. Why not a sort: with payload it costs
    several times more on CPU (262,144 keys; `launchers.benchmark --suite=credit`).
    """
    chex.assert_rank([keys, include], [2, 1])
    count = keys.shape[0]
    keys, include = jnp.asarray(keys).astype(jnp.uint32), jnp.asarray(include)
    size = 1 << max(1, (2 * count - 1).bit_length())
    index = jnp.arange(count, dtype=jnp.int32)
    mixed = _mix(keys)
    stride = (_mix(keys[:, ::-1] ^ np.uint32(0x9E3779B9)) | 1).astype(jnp.uint32)

    def probe(carry):
        owner, slot, pending, table = carry
        empty = table[slot] == count
        table = table.at[slot].min(jnp.where(pending & empty, index, count))
        claimed = jnp.minimum(table[slot], count - 1)
        decided = pending & jnp.all(keys[claimed] == keys, axis=1)
        owner = jnp.where(decided, claimed, owner)
        return owner, (slot + stride) & np.uint32(size - 1), pending & ~decided, table

    owner, *_ = jax.lax.while_loop(
        lambda carry: jnp.any(carry[2]),
        probe,
        (
            jnp.full(count, count, jnp.int32),
            mixed & np.uint32(size - 1),
            include,
            jnp.full(size, count, jnp.int32),
        ),
    )
    return owner


def moments(values: jax.Array, owner: jax.Array, *, weight: jax.Array | None = None) -> Moments:
    """Mean, standard deviation (ddof 1), size and extent of each element's group.

    values: f32[M]; owner: i32[M] as `first_occurrence` gives it. Elements without a group
    (owner M) get the statistics of nothing and must be masked by the caller. weight: f32[M], how
    often an element counts (0: it is compared with its group without being one of it); the size is
    then the sum of the weights, and n / (n - 1) is of that.
    """
    count = values.shape[0]

    def total(x):
        return jax.ops.segment_sum(x, owner, num_segments=count)

    home = jnp.minimum(owner, count - 1)
    if weight is None:
        weight, lower, upper = jnp.ones_like(values), values, values
    else:
        weight = jnp.asarray(weight).astype(values.dtype)
        lower, upper = (jnp.where(weight > 0, values, limit) for limit in (jnp.inf, -jnp.inf))
    members = total(weight)
    mean = (total(weight * values) / jnp.maximum(members, 1))[home]
    spread = total(weight * jnp.square(values - mean)) / jnp.maximum(members - 1, 1)
    lowest = jax.ops.segment_min(lower, owner, num_segments=count)
    highest = jax.ops.segment_max(upper, owner, num_segments=count)
    extent = highest - lowest
    constant = extent <= ROUNDING * jnp.maximum(jnp.abs(lowest), jnp.abs(highest))
    return Moments(mean, jnp.sqrt(spread)[home], members[home], extent[home], constant[home])


def relative(
    score: jax.Array,
    group: Moments,
    *,
    of: jax.Array | None = None,
    normalize: str,
    epsilon: float,
    leave_one_out: bool = False,
    singleton: str = "zero",
) -> jax.Array:
    """score - mean, over std + epsilon with normalize="std": what all group baselines come to.

    `of` is what the statistics were taken of, if that is not the score (a turn's score is its
    stream's return less the turn's own penalty). Where all of a group is equal up to float32
    rounding, `of - mean` is 0 by decree: what rounding leaves of it would be blown up by the
    division by epsilon. What remains there is score - of, which has no scale to be divided by.

    leave_one_out: against the mean of the others, which is n / (n - 1) times the same. singleton:
    a group of one gives "zero" or its "raw" score. All arrays of one shape.
    """
    choice("normalize", normalize, ("std", "mean"))
    choice("singleton", singleton, ("zero", "raw"))
    of = score if of is None else of
    advantage = jnp.where(group.constant, 0.0, of - group.mean) + (score - of)
    if normalize == "std":
        advantage = jnp.where(group.constant, 0.0, advantage / (group.std + epsilon))
    if leave_one_out:
        advantage = advantage * group.count / jnp.maximum(group.count - 1, 1)
    return jnp.where(group.count == 1, score, advantage) if singleton == "raw" else advantage


def distinct(values: jax.Array, owner: jax.Array, *, resolution: float = ROUNDING) -> jax.Array:
    """One representative of each distinct value of each group, bool[M]: as a weight, 1 a value.

    values f32[M], owner i32[M]. Values of a group that differ by no more than `resolution` times
    the group's largest absolute value are one (neighbours in order, so that a chain of them is one
    too): sums of the same numbers in another order would else count twice. 0 compares exactly.
    """
    count = values.shape[0]
    order = jnp.lexsort((values, owner))
    sorted_values, sorted_owner = values[order], owner[order]
    scale = jax.ops.segment_max(jnp.abs(values), owner, num_segments=count)
    step = sorted_values - jnp.roll(sorted_values, 1)
    close = step <= resolution * scale[jnp.minimum(sorted_owner, count - 1)]
    same = close & (sorted_owner == jnp.roll(sorted_owner, 1)) & (jnp.arange(count) > 0)
    return jnp.zeros(count, bool).at[order].set(~same & (sorted_owner < count))


def choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """ValueError that names the choices if `value` is not one of them."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")


def group_owner(group: jax.Array, include: jax.Array) -> jax.Array:
    """`first_occurrence` of scalar group ids i32[M]."""
    return first_occurrence(jnp.asarray(group)[:, None], include)


def joint_owner(include: jax.Array, *keys: jax.Array) -> jax.Array:
    """`first_occurrence` of elements that agree in all of several ids, each i32[M]."""
    return first_occurrence(jnp.stack([jnp.asarray(key) for key in keys], axis=-1), include)
