"""LinUCB: which worker gets the next subtask, learnt from delayed outcomes (Symphony-Coord)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.checks import check_range

FEATURES = ("constant", "match", "load", "latency", "reputation", "available")


class LinUCB(NamedTuple):
    """Ridge regression of outcomes on contexts of d features, shared by all workers.

    precision: f32[d, d], regularization I + sum x x'. total: f32[d], sum of outcome times x.
    count: i32[], outcomes seen.
    """

    precision: jax.Array
    total: jax.Array
    count: jax.Array


def empty(features: int, *, regularization: float = 1.0) -> LinUCB:
    """Before the first outcome.

    Raises:
      ValueError: regularization not above 0, no features.
    """
    check_range("linucb regularization", regularization, 0.0, above=True)
    check_range("linucb features", features, 1)
    zero = jnp.zeros((), jnp.int32)
    return LinUCB(regularization * jnp.eye(features), jnp.zeros(features), zero)


def context(
    match: jax.Array,
    load: jax.Array,
    latency: jax.Array,
    reputation: jax.Array,
    available: jax.Array,
    *,
    longest: float = 2000.0,
) -> jax.Array:
    """The context of each worker, f32[..., 6]: [1, match, load, min(latency / longest, 1),
    reputation, available], over its norm where that is above 1.

    match, load, reputation: in [0, 1]; latency in milliseconds; available: 0 or 1.
    """
    waits = jnp.clip(latency / longest, 0.0, 1.0)
    parts = (jnp.ones_like(waits), match, load, waits, reputation, available)
    x = jnp.stack([jnp.broadcast_to(part, waits.shape) * 1.0 for part in parts], axis=-1)
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1.0)


def upper_bounds(
    state: LinUCB,
    contexts: jax.Array,
    *,
    alpha: float = 1.0,
    delta: float = 0.05,
    bound: float = 1.0,
    regularization: float = 1.0,
) -> jax.Array:
    """Upper confidence bound of the outcome of each context, f32[...].

      x' theta + beta sqrt(x' precision^-1 x),  theta = precision^-1 total,
      beta = alpha sqrt(d log(1 + max(1, count) / regularization) + 2 log(1 / delta))
             + sqrt(regularization) bound.

    Args:
      state: see `LinUCB`.
      contexts: f32[..., d].
      alpha: weight of the bonus, at least 0.
      delta: chance in (0, 1] that the bound fails.
      bound: of the norm of theta.
      regularization: as for `empty`.

    Raises:
      ValueError: a number outside its range.

    References:
      Symphony-Coord (2026): its selector from one file of another code base (read), whose
      provenance could not be verified. The bound is that of Abbasi-Yadkori et al. (2011).
    """
    check_range("linucb alpha", alpha, 0.0)
    check_range("linucb delta", delta, 0.0, 1.0, above=True)
    features = contexts.shape[-1]
    seen = jnp.maximum(state.count, 1)
    radius = features * jnp.log(1 + seen / regularization) + 2 * np.log(1 / delta)
    beta = alpha * jnp.sqrt(radius) + np.sqrt(regularization) * bound
    inverse = jnp.linalg.inv(state.precision)
    spread = jnp.einsum("...i,ij,...j->...", contexts, inverse, contexts)
    return contexts @ (inverse @ state.total) + beta * jnp.sqrt(jnp.maximum(spread, 0.0))


def updated(
    state: LinUCB,
    x: jax.Array,
    outcome: jax.Array,
    seen: jax.Array | bool = True,
    *,
    keep: float = 1.0,
    regularization: float = 1.0,
) -> LinUCB:
    """After outcomes f32[...] of contexts f32[..., d] have arrived, whenever that is.

      precision <- (1 - keep) regularization I + keep precision + sum x x'

    Args:
      state: see `LinUCB`.
      x, outcome: one, or several at once.
      seen: bool[...], those that count.
      keep: in (0, 1], the factor of all earlier outcomes, once a call; below 1 it forgets, which
        the code does not. The regularization stays, as in D-LinUCB: directions that no context has
        would become ever less certain otherwise.
      regularization: as for `empty`.

    Raises:
      ValueError: keep outside its range.

    References:
      Russac et al. (2019), Weighted linear bandits for non-stationary environments,
      https://arxiv.org/abs/1909.09146 (recalled), without the second matrix of its bonus.
    """
    check_range("linucb keep", keep, 0.0, 1.0, above=True)
    features = x.shape[-1]
    weight = jnp.broadcast_to(jnp.asarray(seen) * 1.0, x.shape[:-1]).reshape(-1)
    x, outcome = x.reshape(-1, features), jnp.reshape(outcome, -1)
    ridge = regularization * jnp.eye(features)
    return LinUCB(
        ridge + keep * (state.precision - ridge) + (x * weight[:, None]).T @ x,
        keep * state.total + (weight * outcome) @ x,
        state.count + jnp.sum(weight).astype(jnp.int32),
    )


def route(
    bounds: jax.Array, match: jax.Array, available: jax.Array, *, candidates: int = 3
) -> jax.Array:
    """The worker i32[] with the largest bound among the best-matching available ones.

    The first of equals; the best-matching one if none is available.

    Args:
      bounds, match, available: f32[W], of each worker; see `upper_bounds` and `context`.
      candidates: how many of the best-matching ones are kept, at least 1.

    Raises:
      ValueError: fewer candidates.
    """
    check_range("route candidates", candidates, 1)
    suits = jnp.where(available > 0, match, match - 1e3)
    rank = jnp.argsort(jnp.argsort(-suits, stable=True))
    kept = (rank < candidates) & (available > 0)
    chosen = jnp.argmax(jnp.where(kept, bounds, -jnp.inf))
    return jnp.where(jnp.any(kept), chosen, jnp.argmax(suits)).astype(jnp.int32)
