"""Deals and solutions of the two card sums, EZPoints and Points24.

Read in gym-cards (`ezpoints.py`, `points.py`): how cards are dealt. The solver is ours.
"""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from envs.points import formula

# A four-card formula needs at most eleven tokens.
SOLUTION_LENGTH = 11

_OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


def deal_ez(key: jax.Array) -> jax.Array:
    """Two cards u8[2] whose sum or product is 12.

    The first is of uniform rank 2..13, capped at 10. If it divides 12 the second is, with
    probability 1/2, 12 / first; else 12 - first. The two are swapped with probability 1/2.
    """
    rank_key, coin_key = jax.random.split(key)
    first = jnp.minimum(jax.random.randint(rank_key, (), 2, 14), 10)
    multiply, swap = jax.random.bernoulli(coin_key, shape=(2,))
    second = jnp.where(multiply & (12 % first == 0), 12 // first, 12 - first)
    cards = jnp.stack([first, second])
    return jnp.where(swap, cards[::-1], cards).astype(jnp.uint8)


def deal_24(key: jax.Array, solvable_only: bool) -> jax.Array:
    """Four cards u8[4] of uniform rank 1..13, capped at 10; optionally conditioned on a formula
    existing."""
    if not solvable_only:
        return jnp.minimum(jax.random.randint(key, (4,), 1, 14), 10).astype(jnp.uint8)
    deals = solvable_deals()
    return jnp.asarray(deals)[jax.random.randint(key, (), 0, len(deals))]


def _trees(leaves: tuple[int, ...]):
    """All binary trees over the leaves in order: nested (operator, left, right)."""
    if len(leaves) == 1:
        yield leaves[0]
    for split in range(1, len(leaves)):
        for left, right in itertools.product(_trees(leaves[:split]), _trees(leaves[split:])):
            for operator in _OPERATIONS:
                yield operator, left, right


def _infix(tree, parent: str = "", on_right: bool = False) -> list:
    """Tokens of a tree, with parentheses only where needed; leaves stay integers."""
    if isinstance(tree, int):
        return [tree]
    operator, left, right = tree
    tokens = [*_infix(left, operator), operator, *_infix(right, operator, True)]
    additive = operator in "+-"
    changes = parent in ("*", "/") if additive else on_right and parent == "/"
    if changes or (on_right and additive and parent == "-"):
        return ["(", *tokens, ")"]
    return tokens


def _evaluated(tree, cards: list[np.ndarray]) -> np.ndarray:
    if isinstance(tree, int):
        return cards[tree]
    operator, left, right = tree
    with np.errstate(divide="ignore", invalid="ignore"):
        return _OPERATIONS[operator](_evaluated(left, cards), _evaluated(right, cards))


@functools.cache
def solutions() -> np.ndarray:
    """A formula for every four cards, u8[10, 10, 10, 10, 11] by card - 1; zeros if there is none.

    The shortest in + - * / and parentheses over the cards in any order. Formulas that float64
    evaluates to exactly 24 are preferred, so that they also count in the reference; if there is
    none, those that are 24 up to rounding are used. Joined digits, powers and floor division, which
    the rules also admit, are left out.
    """
    trees = list(_trees((0, 1, 2, 3)))
    texts = [_infix(tree) for tree in trees]
    order = sorted(range(len(trees)), key=lambda i: len(texts[i]))
    cards = [axis.astype(np.float64) for axis in np.indices((10, 10, 10, 10)) + 1]
    # Distance from 24 by formula (shortest first) and cards.
    error = np.stack([np.abs(_evaluated(trees[i], cards) - 24).reshape(-1) for i in order])
    rank = np.full(10**4, 2 * len(order))
    for tolerance, penalty in ((1e-9, len(order)), (0.0, 0)):
        hit = error <= tolerance
        rank = np.where(hit.any(0), hit.argmax(0) + penalty, rank)
    rank = rank.reshape(10, 10, 10, 10)
    # The best order of the same four cards.
    table = np.zeros((10, 10, 10, 10, SOLUTION_LENGTH), np.uint8)
    for multiset in itertools.combinations_with_replacement(range(10), 4):
        deals = set(itertools.permutations(multiset))
        best = min(sorted(deals), key=lambda deal: rank[deal])
        if rank[best] == 2 * len(order):
            continue
        tokens = [
            best[t] + 1 if isinstance(t, int) else formula.SYMBOLS[t]
            for t in texts[order[rank[best] % len(order)]]
        ]
        for deal in deals:
            table[deal][: len(tokens)] = tokens
    return table


@functools.cache
def solvable_deals() -> np.ndarray:
    """Deals by rank 1..13 that have a formula, capped at 10, u8[deals, 4]; equally likely."""
    ranks = np.indices((13, 13, 13, 13)).reshape(4, -1)
    values = np.minimum(ranks + 1, 10)
    solvable = solutions()[tuple(values - 1)].any(-1)
    return values.T[solvable].astype(np.uint8)
