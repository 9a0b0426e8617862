"""Categorical distributions given by logits, where illegal actions have the logit -inf."""

import chex
import jax
import jax.numpy as jnp


def entropy(logits: jax.Array) -> jax.Array:
    """Entropy in nats of the distribution over the last axis, -sum_a p_a log p_a.

    Args:
      logits: [..., A]; -inf where an action is illegal, which leaves it out (p log p = 0).

    Returns:
      f32[...], in [0, log of the number of legal actions]; 0 where no action is legal. The
      gradient is finite, and 0 at the illegal actions. NaN logits give NaN.
    """
    shifted, legal, log_sum = _normalized(logits)
    probability = jnp.where(legal, jnp.exp(shifted - log_sum[..., None]), 0.0)
    return log_sum - jnp.sum(probability * shifted, axis=-1)


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
    shifted, legal, log_sum = _normalized(logits)
    index = jnp.asarray(action)[..., None]
    chosen = jnp.take_along_axis(shifted, index, axis=-1)[..., 0]
    possible = jnp.take_along_axis(legal, index, axis=-1)[..., 0]
    return jnp.where(possible, chosen - log_sum, -jnp.inf)


def categorical_kl(logits: jax.Array, ref_logits: jax.Array) -> jax.Array:
    """KL(pi || ref) of softmax(logits) from softmax(ref_logits), sum_a p_a log(p_a / q_a).

    Args:
      logits: [..., A]; -inf where an action is illegal, which leaves it out.
      ref_logits: [..., A], with the same illegal actions; no gradient.

    Returns:
      f32[...], at least 0 but for rounding; 0 where no action is legal.
    """
    chex.assert_equal_shape([logits, ref_logits])
    shifted, legal, log_sum = _normalized(logits)
    reference, _, reference_sum = jax.lax.stop_gradient(_normalized(ref_logits))
    log_p = shifted - log_sum[..., None]
    log_q = reference - reference_sum[..., None]
    return jnp.sum(jnp.where(legal, jnp.exp(log_p) * (log_p - log_q), 0.0), axis=-1)


def _normalized(logits: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(logits less their maximum, 0 if illegal; legal; log of the sum of exponentials).

    The legal ones are those that are not -inf, rather than those that are finite: a NaN has to stay
    visible. -inf is replaced before the arithmetic, since inf - inf and 0 * inf are NaN also in a
    branch that is not selected, and so in the gradient.
    """
    logits = jnp.asarray(logits, jnp.float32)
    legal = ~jnp.isneginf(logits)
    logits = jnp.where(legal, logits, 0.0)
    largest = jnp.max(logits, axis=-1, keepdims=True, where=legal, initial=-jnp.inf)
    # A row without legal actions has no maximum, and a sum of 0.
    largest = jax.lax.stop_gradient(jnp.where(jnp.any(legal, axis=-1, keepdims=True), largest, 0.0))
    shifted = jnp.where(legal, logits - largest, 0.0)
    total = jnp.sum(jnp.where(legal, jnp.exp(shifted), 0.0), axis=-1)
    log_sum = jnp.log(jnp.where(jnp.any(legal, axis=-1), total, 1.0))
    return shifted, legal, log_sum
