"""Reading: rows append what they have been given, at a cost that follows the longest of them."""

import jax
import jax.numpy as jnp

from agentrl.devices.placement import devices
from agentrl.policies import decoder
from agentrl.policies.decoder import Cache, DecoderConfig, Params

# Positions of all rows together that are read at once, at least: fewer leave a device idle while
# the weights are fetched.
AT_ONCE = 256


def read(
    params: Params,
    config: DecoderConfig,
    cache: Cache,
    tokens: jax.Array,
    count: jax.Array,
    role: jax.Array | None = None,
    *,
    block: int | None = None,
) -> tuple[jax.Array, Cache]:
    """Appends tokens [B, P] to the rows, as `decoder.extend`: row b takes its first count[b].

    Returns hidden f32[B, D] at each row's last token, 0 where count is 0, and the cache.

    P is the longest text possible; usually all rows take a fraction of it. The positions go in
    blocks, and reading ends with the block that no row reaches. block: positions of each row at a
    time (default: by the number of rows).
    """
    rows, length = tokens.shape
    if block is None:
        block = max(16, -(-AT_ONCE * devices() // rows))
    if block >= length:
        hidden, cache = decoder.extend(params, config, cache, tokens, count, role)
        return jnp.where((count > 0)[:, None], _at(hidden, count - 1), 0.0), cache
    block = -(-length // -(-length // block))
    tokens = jnp.pad(tokens, ((0, 0), (0, -length % block)))
    # Not in every iteration.
    params = decoder.cast(params, config)

    def some_left(carry):
        return carry[0] < jnp.max(count)

    def one(carry):
        start, last, cache = carry
        here = jnp.clip(count - start, 0, block)
        part = jax.lax.dynamic_slice_in_dim(tokens, start, block, axis=1)
        hidden, cache = decoder.extend(params, config, cache, part, here, role)
        last = jnp.where((here > 0)[:, None], _at(hidden, here - 1), last)
        return start + block, last, cache

    nothing = jnp.zeros((rows, config.width), jnp.float32)
    start = jnp.zeros((), count.dtype)
    _, last, cache = jax.lax.while_loop(some_left, one, (start, nothing, cache))
    return last, cache


def _at(hidden, index):
    index = jnp.maximum(index, 0)[:, None, None]
    return jnp.take_along_axis(hidden, index, axis=1)[:, 0]
