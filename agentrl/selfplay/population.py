"""Population-based training: who goes on from whom, and with which hyper-parameters.

M members are ranked by their fitness. The best stay as they are. One of the worst goes on from a
random one of the best, if that one is ahead by enough (`select`: truncation selection). Everybody
but the best then explores: with some chance a hyper-parameter h becomes h f or h / f, where
f ~ U(a, b) (`explore`).

Jaderberg et al. (2017), Population based training of neural networks,
https://arxiv.org/abs/1711.09846 (reconstructed from the description); ranks, gaps and factors as in
Sample Factory, Petrenko et al. (2020), https://arxiv.org/abs/2006.11751, whose code was read. There
member 0 never explores, a value goes back to its default with chance 1/100, and nothing bounds it.
Here all explore alike, within `low` to `high`.
"""

import math
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class Selection(NamedTuple):
    """Of M members. parent: i32[M], whom each goes on from, itself where nothing is copied.

    explores: bool[M], not among the best.
    """

    parent: jax.Array
    explores: jax.Array


def select(
    fitness: jax.Array,
    key: chex.PRNGKey,
    *,
    top: float = 0.3,
    bottom: float = 0.3,
    absolute_gap: float = 1e-6,
    relative_gap: float = 0.1,
) -> Selection:
    """Truncation selection of M members by their fitness f32[M], the higher the better.

    The ceil(top M) first are the best, the ceil(bottom M) last the worst, but for those who are
    among the best; of equals the one with the lower number comes first. One of the worst, of
    fitness x, draws one of the best, of fitness y, and goes on from it where

        y - x > absolute_gap  and  y - x > relative_gap |y|

    so that zero should mean nothing achieved. Fitness that is not a number is the lowest.

    key: PRNG keys [M], one a member.
    """
    chex.assert_rank([fitness, key], 1)
    members = fitness.shape[0]
    best, worst = (math.ceil(share * members) for share in (top, bottom))
    fitness = jnp.where(jnp.isnan(fitness), -jnp.inf, fitness)
    order = jnp.argsort(-fitness, stable=True).astype(jnp.int32)
    rank = jnp.argsort(order)
    draw = jax.vmap(lambda k: jax.random.randint(k, (), 0, best))(key)
    drawn, explores = order[draw], rank >= best
    ahead = fitness[drawn] - fitness
    enough = (ahead > absolute_gap) & (ahead > relative_gap * jnp.abs(fitness[drawn]))
    copies = explores & (rank >= members - worst) & enough
    return Selection(jnp.where(copies, drawn, jnp.arange(members, dtype=jnp.int32)), explores)


def near_one(low: float, high: float) -> bool:
    """Whether a hyper-parameter between these is measured by its distance from 1, as discounts."""
    return 0.5 <= low and high < 1


def spread(key: chex.PRNGKey, members: int, low: float, high: float) -> jax.Array:
    """Values f32[M] to start from: one in each M-th of the range, in random order.

    Uniform in log h, or in log(1 - h) where `near_one`. 0 < low <= high.
    """
    order_key, place_key = jax.random.split(key)
    place = jax.random.permutation(order_key, members) + jax.random.uniform(place_key, (members,))
    if near_one(low, high):
        value = 1 - (1 - high) * ((1 - low) / (1 - high)) ** (place / members)
    else:
        value = low * (high / low) ** (place / members)
    return jnp.clip(value, low, high)


def explore(
    value: jax.Array,
    key: chex.PRNGKey,
    *,
    low: float,
    high: float,
    probability: float = 0.15,
) -> jax.Array:
    """Values f32[M] of one hyper-parameter after each has been moved with `probability`.

    h f or h / f, f ~ U(1.1, 1.5), kept within low to high; where `near_one`, 1 - h is moved so, by
    f ~ U(1.01, 1.2). A value that is not moved stays as it is, bit for bit.

    key: PRNG keys [M], one a member.
    """
    chex.assert_equal_shape([value, key])
    gate, factor, coin = jnp.moveaxis(jax.vmap(lambda k: jax.random.uniform(k, (3,)))(key), 1, 0)
    close = near_one(low, high)
    least, most = (1.01, 1.2) if close else (1.1, 1.5)
    factor = least + (most - least) * factor
    factor = jnp.where(coin < 0.5, factor, 1 / factor)
    moved = 1 - (1 - value) * factor if close else value * factor
    return jnp.where(gate < probability, jnp.clip(moved, low, high), value)
