"""Masking before arithmetic: float32, and nothing behind the mask is read."""

import jax
import jax.numpy as jnp

# What a loss with diagnostics returns: one value per position, and a number or a bool per position
# for each metric, which is their mean over the mask.
WithMetrics = tuple[jax.Array, dict[str, jax.Array]]


def masked(mask: jax.Array | None, *arrays: jax.Array) -> tuple[jax.Array, ...]:
    """The arrays as float32, all of one shape, 0 where mask is False (None: everywhere True).

    The selection comes before any arithmetic, because a NaN that is only multiplied by 0, or only
    selected away afterwards, still makes the gradient NaN.

    Raises:
      ValueError: arrays of several shapes, or a mask that is not of bools.
    """
    check_one_shape(mask, *arrays)
    arrays = tuple(jnp.asarray(array, jnp.float32) for array in arrays)
    if mask is None:
        return arrays
    return tuple(jnp.where(mask, array, 0.0) for array in arrays)


def check_one_shape(mask: jax.Array | None, *arrays: jax.Array) -> None:
    """ValueError unless the arrays and the mask, bool (None: there is none), have one shape."""
    shapes = [jnp.shape(array) for array in arrays]
    if mask is not None and jnp.asarray(mask).dtype != jnp.bool_:
        raise ValueError(f"a loss got a mask of {jnp.asarray(mask).dtype}; expected bool")
    if len({*shapes, *([] if mask is None else [jnp.shape(mask)])}) > 1:
        where = "" if mask is None else f" and a mask of {jnp.shape(mask)}"
        raise ValueError(
            f"a loss got arrays of shapes {', '.join(map(str, shapes))}{where}; expected one shape "
            "for all, rows and positions"
        )


def masked_mean(values: jax.Array, mask: jax.Array | None) -> jax.Array:
    """Mean of the entries where mask is True, f32[]; 0 if there are none."""
    (values,) = masked(mask, values)
    count = values.size if mask is None else jnp.sum(mask)
    return jnp.sum(values) / jnp.maximum(count, 1)


def log_ratio(logp: jax.Array, old_logp: jax.Array) -> jax.Array:
    """log (pi / old), gradient to logp alone, held within +-20 so that its exponential is finite.

    Beyond the bound the gradient is 0 (verl's convention).
    """
    return jnp.clip(logp - jax.lax.stop_gradient(old_logp), -20.0, 20.0)


def largest(score: jax.Array, candidates: jax.Array, count: jax.Array) -> jax.Array:
    """The `count` candidates of the largest score, bool[R, L]; ties go to the earlier position.

    The smallest score that is taken is found bit by bit, in 32 counts over all positions: a sort of
    262,144 positions takes ten times as long on a CPU.
    """
    # Numbers in the order of the scores, 0 for what is no candidate. -0 is 0 by a selection: what
    # is compiled leaves out a sum with 0.
    score = jnp.asarray(score, jnp.float32)
    bits = jax.lax.bitcast_convert_type(jnp.where(score == 0, 0.0, score), jnp.uint32)
    sign = jnp.uint32(1 << 31)
    number = jnp.where(bits >= sign, ~bits, bits | sign)
    number = jnp.where(candidates, number, 0)
    count = jnp.minimum(jnp.asarray(count, jnp.int32), jnp.sum(candidates))

    def narrow(i, least):
        more = least | (jnp.uint32(1 << 31) >> i.astype(jnp.uint32))
        return jnp.where(jnp.sum(number >= more) >= count, more, least)

    least = jax.lax.fori_loop(0, 32, narrow, jnp.uint32(0))
    above = candidates & (number > least)
    equal = candidates & (number == least)
    place = jnp.cumsum(equal.reshape(-1)).reshape(equal.shape)
    return above | (equal & (place <= count - jnp.sum(above)))
