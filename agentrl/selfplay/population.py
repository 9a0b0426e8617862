"""Population-based training: selection of parents and exploration of hyperparameters.

M members are ranked by their fitness. The best are unchanged. Each of the worst copies a random one
of the best, if that one is ahead by enough (`select`: truncation selection). All but the best then
explore: with some probability a hyperparameter h becomes h f or h / f, where f ~ U(a, b)
(`explore`).

Jaderberg et al. (2017), Population based training of neural networks,
https://arxiv.org/abs/1711.09846 (reconstructed from the description); ranks, gaps and factors as in
Sample Factory, Petrenko et al. (2020), https://arxiv.org/abs/2006.11751, whose code was read. There
member 0 never explores, a value returns to its default with probability 1/100, and values are
unbounded. Here all members explore in the same way, within `low` to `high`.
"""

import math
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class Selection(NamedTuple):
    """Selection among M members.

    parent: i32[M], the member that each one copies, itself if none. explores: bool[M], not among
    the best.
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

    The first ceil(top M) are the best, the last ceil(bottom M) the worst, except those among the
    best; ties are broken by index. Each of the worst, with fitness x, draws one of the best, with
    fitness y, and copies it if

        y - x > absolute_gap  and  y - x > relative_gap |y|

    so a fitness of zero should mean no achievement. NaN is the lowest fitness.

    key: PRNG keys [M], one per member.
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
    """Whether a hyperparameter in this range is parametrised by 1 - h, as discounts are."""
    return 0.5 <= low and high < 1


def spread(key: chex.PRNGKey, members: int, low: float, high: float) -> jax.Array:
    """Initial values f32[M]: one in each M-th of the range, in random order.

    Uniform in log h, or in log(1 - h) if `near_one`. 0 < low <= high.
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
    """Values f32[M] of one hyperparameter after perturbing each with `probability`.

    h f or h / f, f ~ U(1.1, 1.5), clipped to low..high; if `near_one`, 1 - h is perturbed instead,
    by f ~ U(1.01, 1.2). Values that are not perturbed are unchanged bitwise.

    key: PRNG keys [M], one per member.
    """
    chex.assert_equal_shape([value, key])
    gate, factor, coin = jnp.moveaxis(jax.vmap(lambda k: jax.random.uniform(k, (3,)))(key), 1, 0)
    close = near_one(low, high)
    least, most = (1.01, 1.2) if close else (1.1, 1.5)
    factor = least + (most - least) * factor
    factor = jnp.where(coin < 0.5, factor, 1 / factor)
    moved = 1 - (1 - value) * factor if close else value * factor
    return jnp.where(gate < probability, jnp.clip(moved, low, high), value)
