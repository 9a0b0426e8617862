"""Value learning from a fixed set of transitions: V of actions that the data hold, and the policy.

A maximum over actions asks a Q network about actions that nobody has taken. Implicit losses fit V
to a high quantile, or its like, of Q over the data's own actions instead.
"""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.losses.arrays import check_one_shape, masked

Divergence = Literal["chi2", "total_variation", "reverse_kl"]


def expectile_value_loss(
    value: jax.Array, q: jax.Array, mask: jax.Array | None = None, *, expectile: float = 0.7
) -> jax.Array:
    """Regression of V to an expectile of Q over the data's actions (IQL, ILQL).

    l = 0.5 |tau - 1[Q < V]| (Q - V)^2.

    With tau = 0.5 it is half of `value_loss`, regression to the mean; towards 1 V goes to the
    largest Q among the actions that the data hold.

    Args:
      value: [R, L], V(s).
      q: [R, L], Q(s, a) of the data's action, of target networks; no gradient.
      mask: bool[R, L], positions to read; None for all.
      expectile: tau, in (0, 1).

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: an expectile outside (0, 1).

    References:
      Kostrikov et al. (2021), IQL, https://arxiv.org/abs/2110.06169 (recalled). Snell et al.
      (2023), ILQL, https://arxiv.org/abs/2206.11871, as in abdulhaim/LMRL-Gym 911d726 (read), of
      whose losses worked numbers are a test.
    """
    check_range("expectile_value_loss expectile", expectile, 0.0, 1.0, above=True, below=True)
    value, q = masked(mask, value, q)
    error = jax.lax.stop_gradient(q) - value
    return 0.5 * jnp.where(error >= 0, expectile, 1.0 - expectile) * jnp.square(error)


def dual_value_loss(
    value: jax.Array,
    q: jax.Array,
    mask: jax.Array | None = None,
    *,
    divergence: Divergence = "chi2",
    temperature: float = 0.7,
    clip: float = 7.0,
) -> jax.Array:
    """Implicit maximiser of Q over the data's actions, the dual of an f-divergence (f-DVL).

    With d = Q - V and temperature lambda:

        chi2: l = lambda max(d + d^2 / 4, 0) - (1 - lambda) d;
        total_variation: l = lambda max(d, 0) - (1 - lambda) d;
        reverse_kl: l = e^(z - m) - (z + 1) e^-m, z = min(d / lambda, clip), m = max(max z, -1)

    Where d is below -4 the first is positive again. The second is a quantile regression, to the
    quantile (2 lambda - 1) / lambda; with lambda = 0.5 it is 0 below all Q. The third is XQL's
    Gumbel regression; m is a number of the whole batch, without gradient.

    Args:
      value: [R, L], V(s).
      q: [R, L], Q(s, a) of the data's action, the smaller of twin networks; no gradient.
      mask: bool[R, L], positions to read; None for all.
      divergence: as above.
      temperature: lambda; in (0.5, 1) for the first two, above 0 for the third.
      clip: the largest z, above 0.

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: another divergence, a temperature not above 0, of the first two above 1, or a clip
        not above 0.

    References:
      Sikchi et al. (2024), Dual RL, https://arxiv.org/abs/2302.08560; code hari-sikchi/DVL 4b7cf11
      (read and executed). Its maximum of z is over all rows, padding included; here over the mask.
    """
    check_choice("dual_value_loss divergence", divergence, get_args(Divergence))
    highest = float("inf") if divergence == "reverse_kl" else 1.0
    check_range("dual_value_loss temperature", temperature, 0.0, highest, above=True)
    check_range("dual_value_loss clip", clip, 0.0, above=True)
    value, q = masked(mask, value, q)
    d = jax.lax.stop_gradient(q) - value
    if divergence == "reverse_kl":
        z = jnp.minimum(d / temperature, clip)
        there = jnp.ones(z.shape, bool) if mask is None else mask
        m = jax.lax.stop_gradient(jnp.max(z, where=there, initial=-1.0))
        values = jnp.exp(z - m) - (z + 1.0) * jnp.exp(-m)
        return jnp.where(there, values, 0.0)
    inside = d + jnp.square(d) / 4.0 if divergence == "chi2" else d
    return temperature * jnp.maximum(inside, 0.0) - (1.0 - temperature) * d


def weighted_imitation(
    logp: jax.Array, imitation_weight: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """Behaviour cloning of a data set's actions, each with a weight: -w log pi(a | s).

    With `exponential_weight` it is the policy's step of AWAC, IQL and f-DVL; with equal weights
    behaviour cloning. The mean is over all positions, so weights are not normalised.

    Args:
      logp: [R, L], log-probability of the data's action.
      imitation_weight: [R, L], w >= 0, of a component such as
        `agentrl.methods.offline_values`; no gradient.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.

    References:
      Nair et al. (2020), AWAC, https://arxiv.org/abs/2006.09359 (recalled).
    """
    logp, weight = masked(mask, logp, imitation_weight)
    return -jax.lax.stop_gradient(weight) * logp


def exponential_weight(
    q: jax.Array, value: jax.Array, *, beta: float, largest: float = 100.0
) -> jax.Array:
    """min(exp(beta (Q - V)), largest), the weight of an action in `weighted_imitation`.

    Args:
      q, value: of one shape. beta: inverse temperature, >= 0; with 0 all weights are 1.
      largest: bound of the weight, above 0 (100 in IQL's and DVL's code).

    Returns:
      f32 of that shape, without gradient.

    Raises:
      ValueError: a negative beta, a bound not above 0, or arrays of two shapes.
    """
    check_range("exponential_weight beta", beta, 0.0)
    check_range("exponential_weight largest", largest, 0.0, above=True)
    check_one_shape(None, q, value)
    # In the exponent, so that nothing overflows.
    exponent = jnp.minimum(beta * (q - value), jnp.log(largest))
    return jax.lax.stop_gradient(jnp.exp(exponent))
