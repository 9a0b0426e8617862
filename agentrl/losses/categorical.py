"""Categorical distributions given by logits, where illegal actions have the logit -inf.

Derivatives are written out. Derivatives of the formulas would read and write the logits, the
largest arrays of a language model, many times more.
"""

import chex
import jax
import jax.numpy as jnp


def categorical_entropy(logits: jax.Array) -> jax.Array:
    """Entropy in nats of the distribution over the last axis, -sum_a p_a log p_a.

    The entropy term of an objective is `negative_entropy`.

    Args:
      logits: [..., A]; -inf where an action is illegal, which leaves it out (p log p = 0).

    Returns:
      f32[...], in [0, log of the number of legal actions]; 0 where no action is legal. The
      gradient is finite, and 0 at the illegal actions. NaN logits give NaN.
    """
    return _entropy(jnp.asarray(logits, jnp.float32))


@jax.custom_jvp
def _entropy(logits):
    shifted, log_sum = _normalized(logits)
    probability = jnp.exp(shifted - log_sum[..., None])
    return log_sum - jnp.sum(_times(probability, shifted), axis=-1)


@_entropy.defjvp
def _entropy_jvp(primals, tangents):
    """dH = -sum_a p_a (log p_a + H) dx_a."""
    (logits,), (change,) = primals, tangents
    value = _entropy(logits)
    shifted, log_sum = _normalized(logits)
    log_p = shifted - log_sum[..., None]
    slope = _times(jnp.exp(log_p), log_p + value[..., None])
    return value, -jnp.sum(slope * change, axis=-1)


def categorical_log_prob(logits: jax.Array, action: jax.Array) -> jax.Array:
    """Log-probability of the action under softmax(logits).

    Args:
      logits: [..., A]; -inf where an action is illegal.
      action: i32[...], in [0, A).

    Returns:
      f32[...]; -inf for an illegal action, with a zero gradient. Elsewhere the gradient, one-hot
      less probabilities, is finite and 0 at the illegal actions.
    """
    chex.assert_shape(action, logits.shape[:-1])
    return _log_prob(jnp.asarray(logits, jnp.float32), jnp.asarray(action))


@jax.custom_jvp
def _log_prob(logits, action):
    shifted, log_sum = _normalized(logits)
    return jnp.take_along_axis(shifted, action[..., None], axis=-1)[..., 0] - log_sum


@_log_prob.defjvp
def _log_prob_jvp(primals, tangents):
    """d log p_a = dx_a - sum_b p_b dx_b."""
    (logits, action), (change, _) = primals, tangents
    value = _log_prob(logits, action)
    shifted, log_sum = _normalized(logits)
    taken = jnp.arange(logits.shape[-1]) == action[..., None]
    slope = taken - jnp.exp(shifted - log_sum[..., None])
    possible = ~jnp.isneginf(value)[..., None]
    return value, jnp.sum(jnp.where(possible, slope, 0.0) * change, axis=-1)


def categorical_kl(logits: jax.Array, reference_logits: jax.Array) -> jax.Array:
    """KL(pi || reference) of the two softmax distributions, sum_a p_a log(p_a / q_a).

    Args:
      logits: [..., A]; -inf where an action is illegal, which leaves it out.
      reference_logits: [..., A], with the same illegal actions; no gradient.

    Returns:
      f32[...], at least 0 but for rounding; 0 where no action is legal.
    """
    chex.assert_equal_shape([logits, reference_logits])
    reference = jax.lax.stop_gradient(jnp.asarray(reference_logits, jnp.float32))
    return _kl(jnp.asarray(logits, jnp.float32), reference)


@jax.custom_jvp
def _kl(logits, reference_logits):
    return jnp.sum(_kl_parts(logits, reference_logits)[1], axis=-1)


@_kl.defjvp
def _kl_jvp(primals, tangents):
    """dKL = sum_a p_a (log(p_a / q_a) - KL) dx_a."""
    change, _ = tangents
    p, parts = _kl_parts(*primals)
    value = jnp.sum(parts, axis=-1)
    return value, jnp.sum((parts - p * value[..., None]) * change, axis=-1)


def _kl_parts(logits, reference_logits):
    """p_a and p_a log(p_a / q_a)."""
    (shifted, log_sum), (reference, reference_sum) = map(_normalized, (logits, reference_logits))
    log_p, log_q = shifted - log_sum[..., None], reference - reference_sum[..., None]
    p = jnp.exp(log_p)
    return p, _times(p, log_p - log_q)


def _times(p: jax.Array, x: jax.Array) -> jax.Array:
    """p x, and 0 where p is: x is infinite or not a number at illegal actions."""
    return jnp.where(p == 0, 0.0, p * x)


def _normalized(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(logits less their maximum, -inf if illegal; log of the sum of their exponentials).

    Of a row without legal actions the log is 0.
    """
    largest = jnp.max(logits, axis=-1, keepdims=True)
    shifted = logits - jnp.where(jnp.isneginf(largest), 0.0, largest)
    total = jnp.sum(jnp.exp(shifted), axis=-1)
    # Not `total > 0`: a NaN has to stay visible.
    return shifted, jnp.log(jnp.where(total == 0, 1.0, total))
