"""Losses of the critic, one value per position, and the share of variance that it explains."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.declarations import averaged
from agentrl.losses.arrays import masked, masked_mean


@averaged(over="turn_start")
def value_loss(value: jax.Array, target: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Half the squared error, 0.5 (V - target)^2.

    Args:
      value: [R, L], the critic's value.
      target: [R, L], its target, for example advantage + old value; no gradient.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    value, target = masked(mask, value, target)
    return 0.5 * jnp.square(value - jax.lax.stop_gradient(target))


def token_value_loss(
    value: jax.Array, target: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """`value_loss` of a critic of tokens: averaged over all tokens that the policy wrote.

    Args:
      value, target: as for `value_loss`, with a target of each token (`token_gae`, `bilevel_gae`).
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    return value_loss(value, target, mask)


@averaged(over="decision_start")
def decision_value_loss(
    value: jax.Array, target: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """`value_loss` of a critic that is read where the decisions of a reply begin (`hae_by_span`).

    Averaged over these positions, `decision_start` of component
    `agentrl.methods.decisions.decisions`.

    Args:
      value, target: as for `value_loss`.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    return value_loss(value, target, mask)


def decoupled_value_loss(
    value: jax.Array, critic_target: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """`token_value_loss` with a target of its own instead of the advantage plus the value.

    Averaged over all tokens that the policy wrote, which over arrays are the turns. A target of a
    turn is that of all its tokens: without discount and with lambda 1 the return from there on.

    Args:
      value: [R, L], the critic's value.
      critic_target: [R, L], for example of component `agentrl.methods.lambda_targets`; no gradient.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    return value_loss(value, critic_target, mask)


@averaged(over="turn_start")
def clipped_value_loss(
    value: jax.Array,
    old_value: jax.Array,
    target: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip: float,
    delta: float | None = None,
) -> jax.Array:
    """PPO's clipped value loss: the larger of two squared errors, halved.

    l = 0.5 max((V - target)^2, (clip(V, V_old - clip, V_old + clip) - target)^2).

    Where the value has left the interval and the clipped error is the larger one, the gradient is
    0. The clip is in units of the return: it has to be chosen anew for every scale of rewards.

    Args:
      value: [R, L], the critic's value.
      old_value: [R, L], the same before this batch's updates; no gradient.
      target: [R, L], its target; no gradient.
      mask: bool[R, L], positions to read; None for all.
      clip: half the width of the interval, >= 0 (0.5 in verl and verl-agent).
      delta: from errors e of this size on Huber's loss delta (|e| - delta / 2) in place of e^2 / 2
        (10 in MARFT and MAPPO), above 0. None: squares everywhere.

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: a negative clip, or a delta of 0 or less.

    References:
      In OpenAI baselines' code of PPO, not in the paper (recalled). verl b178a3c (read and
      executed), whose loss is the token mean of this.
    """
    check_range("clipped_value_loss clip", clip, 0.0)
    check_range("clipped_value_loss delta", delta, 0.0, above=True)
    value, old_value, target = masked(mask, value, old_value, target)
    target, old_value = jax.lax.stop_gradient((target, old_value))
    error = value - target
    clipped_error = jax.lax.stop_gradient(jnp.clip(value, old_value - clip, old_value + clip))
    clipped_error = clipped_error - target
    # Inside the interval the two are equal, and the gradient is the unclipped one's: a maximum
    # would share it with the clipped one, which has none.
    larger = jnp.square(clipped_error) > jnp.square(error)
    error = jnp.where(larger, clipped_error, error)
    if delta is None:
        return 0.5 * jnp.square(error)
    inside = jnp.clip(error, -delta, delta)
    return jnp.abs(inside) * (jnp.abs(error) - 0.5 * jnp.abs(inside))


def clipped_token_value_loss(
    value: jax.Array,
    token_value: jax.Array,
    target: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip: float,
    delta: float | None = None,
) -> jax.Array:
    """`clipped_value_loss` of a critic of tokens: averaged over all tokens that the policy wrote.

    Args:
      value, target: [R, L], as for `token_value_loss`.
      token_value: f32[R, L], the value before this batch's updates, of annotation
        `agentrl.methods.token_values.token_values`; no gradient.
      mask: bool[R, L], positions to read; None for all.
      clip, delta: as for `clipped_value_loss`.

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: a negative clip, or a delta of 0 or less.
    """
    return clipped_value_loss(value, token_value, target, mask, clip=clip, delta=delta)


def explained_variance(
    value: jax.Array, target: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """1 - Var[target - V] / Var[target] over the positions where mask is True, f32[].

    1 is a perfect critic, 0 is one that is as good as a constant, and below 0 it is worse.

    Args:
      value, target: [R, L].
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[]. Targets that are all equal leave nothing to explain and give 0 (other libraries report
      NaN, which a check for finite metrics would reject).
    """
    value, target = masked(mask, value, target)
    mask = jnp.ones(target.shape, bool) if mask is None else mask
    residual = _variance(target - value, mask)
    total = _variance(target, mask)
    # Equality, not a variance of 0: the float32 mean of equal numbers is off by a rounding error.
    lowest = jnp.min(target, where=mask, initial=jnp.inf)
    constant = lowest >= jnp.max(target, where=mask, initial=-jnp.inf)
    constant |= total <= 0  # targets so small that their squares are 0
    return jnp.where(constant, 0.0, 1.0 - residual / jnp.where(constant, 1.0, total))


def _variance(values: jax.Array, mask: jax.Array) -> jax.Array:
    return masked_mean(jnp.square(values - masked_mean(values, mask)), mask)
