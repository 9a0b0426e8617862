"""Gaussian distributions of independent components, for continuous actions."""

import chex
import jax
import jax.numpy as jnp
import numpy as np

_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2 * np.pi))


def gaussian_log_prob(mean: jax.Array, log_std: jax.Array, action: jax.Array) -> jax.Array:
    """Log-density of the action, in nats.

    log p(a) = sum_k -((a_k - m_k) / s_k)^2 / 2 - log s_k - log(2 pi) / 2,  s = exp(log_std).

    Of the action as it was drawn: what an environment clips is clipped by the environment, and
    belongs to it as much as the rest of its dynamics. So the density is exact on the whole line,
    entropy and divergence have closed forms, and the gradient at a bound is not 0. thu-uav/HCSP
    (read) does the same. A tanh in the policy would add -sum_k log(1 - tanh(u_k)^2), need the u_k
    kept, as the way back from a squashed action loses its digits near the bounds, and has no closed
    entropy.

    Args:
      mean, log_std: [..., K].
      action: [..., K], not clipped.

    Returns:
      f32[...]. Its gradient to the mean is (a - m) / s^2, to log_std ((a - m) / s)^2 - 1.
    """
    mean, log_std, action = _floats(mean, log_std, action)
    away = (action - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * jnp.square(away) - log_std - _LOG_ROOT_TWO_PI, axis=-1)


def gaussian_entropy(log_std: jax.Array) -> jax.Array:
    """Differential entropy in nats, sum_k log s_k + log(2 pi e) / 2: f32[...] of log_std [..., K].

    It may be negative; no distribution over finitely many actions can be compared with it.
    """
    (log_std,) = _floats(log_std)
    return jnp.sum(log_std + (_LOG_ROOT_TWO_PI + 0.5), axis=-1)


def gaussian_kl(
    mean: jax.Array, log_std: jax.Array, ref_mean: jax.Array, ref_log_std: jax.Array
) -> jax.Array:
    """KL(pi || ref) of two such Gaussians, all [..., K], f32[...]; no gradient to the reference.

    sum_k log(r_k / s_k) + (s_k^2 + (m_k - n_k)^2) / (2 r_k^2) - 1 / 2,  ref = N(n, r^2).
    """
    mean, log_std, ref_mean, ref_log_std = _floats(mean, log_std, ref_mean, ref_log_std)
    ref_mean, ref_log_std = jax.lax.stop_gradient((ref_mean, ref_log_std))
    wider = log_std - ref_log_std
    away = (mean - ref_mean) * jnp.exp(-ref_log_std)
    # By expm1, since 1 would swallow a small difference of the deviations in float32.
    return jnp.sum(0.5 * (jnp.expm1(2 * wider) + jnp.square(away)) - wider, axis=-1)


def _floats(*arrays: jax.Array) -> tuple[jax.Array, ...]:
    arrays = tuple(jnp.asarray(array, jnp.float32) for array in arrays)
    chex.assert_equal_shape(arrays)
    return arrays
