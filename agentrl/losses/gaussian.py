"""Gaussian distributions of independent components, for continuous actions."""

import chex
import jax
import jax.numpy as jnp
import numpy as np

_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2 * np.pi))


def gaussian_log_prob(mean: jax.Array, log_std: jax.Array, action: jax.Array) -> jax.Array:
    """Log-density of the action, in nats.

    log p(a) = sum_k -((a_k - m_k) / s_k)^2 / 2 - log s_k - log(2 pi) / 2,  s = exp(log_std).

    The action is the one that was drawn. An environment that clips it does so as part of its own
    dynamics. So the density is exact on the whole line, entropy and divergence have closed forms,
    and the gradient at a bound is not 0. thu-uav/HCSP (read) does the same. A tanh in the policy
    would add -sum_k log(1 - tanh(u_k)^2), have no closed entropy, and require storing u_k, since
    inverting a squashed action loses its digits near the bounds.

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
    """Differential entropy in nats, sum_k log s_k + log(2 pi e) / 2.

    It may be negative, and is not comparable with the entropy of discrete actions.

    Args:
      log_std: [..., K].

    Returns:
      f32[...].
    """
    (log_std,) = _floats(log_std)
    return jnp.sum(log_std + (_LOG_ROOT_TWO_PI + 0.5), axis=-1)


def gaussian_kl(
    mean: jax.Array, log_std: jax.Array, reference_mean: jax.Array, reference_log_std: jax.Array
) -> jax.Array:
    """KL(pi || reference) of two such Gaussians.

    sum_k log(r_k / s_k) + (s_k^2 + (m_k - n_k)^2) / (2 r_k^2) - 1 / 2,  reference = N(n, r^2).

    Args:
      mean, log_std: [..., K].
      reference_mean, reference_log_std: [..., K]; no gradient.

    Returns:
      f32[...], at least 0 but for rounding.
    """
    mean, log_std, n, log_r = _floats(mean, log_std, reference_mean, reference_log_std)
    n, log_r = jax.lax.stop_gradient((n, log_r))
    wider = log_std - log_r
    away = (mean - n) * jnp.exp(-log_r)
    # By expm1, since 1 would swallow a small difference of the deviations in float32.
    return jnp.sum(0.5 * (jnp.expm1(2 * wider) + jnp.square(away)) - wider, axis=-1)


def _floats(*arrays: jax.Array) -> tuple[jax.Array, ...]:
    arrays = tuple(jnp.asarray(array, jnp.float32) for array in arrays)
    chex.assert_equal_shape(arrays)
    return arrays
