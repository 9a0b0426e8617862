"""Markets of a trading desk: signals, and the right decision of a day.

The score of a day is z = W[regime] . x for signals x in {-1, 0, 1}; the right decision is BUY for
z >= 2, SELL for z <= -2, else HOLD. All of it is ours.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Name, title, and what signals -1, 0 and 1 mean; kinds: market, fundamental, sentiment, macro.
TOOLS = (
    ("rsi", "RSI", ("overbought", "neutral", "oversold")),
    ("trend", "Trend", ("down", "flat", "up")),
    ("earnings", "Earnings", ("below", "as expected", "above")),
    ("debt", "Debt", ("high", "usual", "low")),
    ("news", "News tone", ("negative", "neutral", "positive")),
    ("rates", "Rates outlook", ("rising", "stable", "falling")),
)
REGIMES = ("high rates", "growth", "crisis")
BUY, HOLD, SELL = 1, 0, -1
THRESHOLD = 2
# Two or three tools matter per regime.
WEIGHTS = ((2, 0, 0, 1, 0, 0), (0, 2, 1, 0, 1, 0), (0, 0, 0, 1, 2, 1))


class Tables(NamedTuple):
    """All signals i8[3^J, J]; per regime their numbers in order of the right decision, i16[3, 3^J];
    first and count i32[3, 3]: where those of SELL, HOLD and BUY are in that order."""

    signals: np.ndarray
    order: np.ndarray
    first: np.ndarray
    count: np.ndarray


def decision(score: jax.Array) -> jax.Array:
    """SELL, HOLD or BUY by score, i32[...]."""
    return (score >= THRESHOLD).astype(jnp.int32) - (score <= -THRESHOLD).astype(jnp.int32)


@functools.cache
def tables(weights: tuple[tuple[int, ...], ...]) -> Tables:
    """ValueError if a regime has no signals for one of the decisions."""
    signals = np.indices((3,) * len(TOOLS)).reshape(len(TOOLS), -1).T - 1
    score = signals @ np.array(weights).T
    right = (score >= THRESHOLD).astype(int) - (score <= -THRESHOLD)
    count = np.stack([(right == choice).sum(axis=0) for choice in (SELL, HOLD, BUY)], axis=1)
    if not count.all():
        raise ValueError(
            f"weights {weights}: in each regime some signals must give BUY, HOLD and SELL; "
            f"expected absolute weights that sum to at least {THRESHOLD} per row"
        )
    order = np.argsort(right, axis=0, kind="stable").T.astype(np.int16)
    first = np.cumsum(count, axis=1) - count
    return Tables(signals.astype(np.int8), order, first.astype(np.int32), count.astype(np.int32))


def draw_signals(
    key: jax.Array, weights: tuple[tuple[int, ...], ...], regime: jax.Array, hold_share: jax.Array
) -> jax.Array:
    """Signals i8[J] of a day. HOLD is right with probability `hold_share`, BUY and SELL are with
    half the rest each; signals are uniform given that."""
    table = tables(weights)
    hold_key, side_key, key = jax.random.split(key, 3)
    side = jnp.where(jax.random.bernoulli(side_key), 2, 0)
    choice = jnp.where(jax.random.bernoulli(hold_key, hold_share), 1, side)
    number = jax.random.randint(key, (), 0, jnp.asarray(table.count)[regime, choice])
    number = number + jnp.asarray(table.first)[regime, choice]
    return jnp.asarray(table.signals)[jnp.asarray(table.order)[regime, number].astype(jnp.int32)]


def next_query(
    weights: jax.Array, signals: jax.Array, asked: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The interval test: (whether the decision can still change, the tool of the largest weight
    that was not asked i32[], the decision if no more is asked i32[]).

    weights, signals: [J]. asked: bool[J].
    """
    size = jnp.abs(weights)
    known = jnp.sum(jnp.where(asked, weights * signals, 0))
    swing = jnp.sum(jnp.where(asked, 0, size))
    open_ = decision(known - swing) != decision(known + swing)
    return open_, jnp.argmax(jnp.where(asked, -1, size)).astype(jnp.int32), decision(known)
