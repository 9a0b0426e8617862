"""Numbers of trade offers of any goods, each with or without accepting the open offer as well.

Of R resources `give` and `ask` are i32[R], what is offered and what is asked for. Numbers from 0 on
are the offers with each resource on one side at most, up to MOST of each: one digit for each
resource, from -MOST (given) to MOST (asked). Then come the offers that have a resource on both
sides: ENTRIES amounts at most, of up to MOST_ON_BOTH each. With five resources more of either would
not fit in 31 bits.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

MOST = 31
ENTRIES, MOST_ON_BOTH = 4, 28
_DIGITS = 2 * MOST + 1


@functools.cache
def _on_both_sides(size: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The forms of offers of `size` resources that have one of them on both sides.

    (bool[n, 2 * size], which amounts there are, those given first; i32[n], the number of each
    form's first offer, counted from 0; the number of such offers).
    """
    rows = np.array(list(itertools.product((False, True), repeat=2 * size)))
    both = np.any(rows[:, :size] & rows[:, size:], axis=1)
    rows = rows[both & (rows.sum(1) <= ENTRIES)]
    ends = np.cumsum(MOST_ON_BOTH ** rows.sum(1))
    return rows, np.append(0, ends[:-1]).astype(np.int32), int(ends[-1])


def _weights(present: jax.Array) -> jax.Array:
    """What each amount's digit is multiplied by, i32[2 * R]."""
    return MOST_ON_BOTH ** jnp.clip(jnp.cumsum(present) - 1, 0, ENTRIES - 1)


def number(give: jax.Array, ask: jax.Array, accept: jax.Array) -> jax.Array:
    """Number of an offer, i32[]; -1 if it has none. An offer of nothing has a number, too."""
    size = give.shape[0]
    base = _DIGITS ** np.arange(size, dtype=np.int32)
    code = jnp.sum((ask - give + MOST) * base, dtype=jnp.int32)
    code = code + jnp.where(accept, _DIGITS**size, 0)
    fits = jnp.all((give >= 0) & (ask >= 0) & (give + ask <= MOST) & ((give == 0) | (ask == 0)))

    forms, firsts, count = _on_both_sides(size)
    amounts = jnp.append(give, ask)
    form = jnp.all((amounts > 0) == forms, axis=1)
    digits = jnp.where(amounts > 0, jnp.minimum(amounts, MOST_ON_BOTH) - 1, 0)
    both_code = jnp.sum(jnp.where(form, firsts, 0)) + jnp.sum(digits * _weights(amounts > 0))
    both_code = 2 * _DIGITS**size + both_code + jnp.where(accept, count, 0)
    both = jnp.any(form) & jnp.all((amounts >= 0) & (amounts <= MOST_ON_BOTH))
    return jnp.where(fits, code, jnp.where(both, both_code, -1)).astype(jnp.int32)


def only_accepting(size: int) -> int:
    """Number of the offer of nothing that accepts."""
    return MOST * (_DIGITS**size // (_DIGITS - 1)) + _DIGITS**size


def offer(number: jax.Array, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(give, ask, accept) of a number; an offer of nothing for those that stand for none."""
    per_half = _DIGITS**size
    plain = (number >= 0) & (number < 2 * per_half)
    base = _DIGITS ** np.arange(size, dtype=np.int32)
    net = jnp.where(plain, number % per_half // base % _DIGITS - MOST, 0)

    forms, firsts, count = _on_both_sides(size)
    code = number - 2 * per_half
    both = (code >= 0) & (code < 2 * count)
    accept = (plain & (number >= per_half)) | (both & (code >= count))
    code = jnp.where(both, code % count, 0)
    form = np.arange(len(firsts)) == jnp.sum(firsts <= code) - 1
    present = jnp.any(form[:, None] & forms, axis=0)
    rest = code - jnp.sum(jnp.where(form, firsts, 0))
    amounts = jnp.where(both & present, rest // _weights(present) % MOST_ON_BOTH + 1, 0)
    return jnp.maximum(-net, 0) + amounts[:size], jnp.maximum(net, 0) + amounts[size:], accept
