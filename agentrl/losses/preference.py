"""Losses of preferences: sums of log-ratios to a reference, over what the policy wrote."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.declarations import averaged
from agentrl.losses.arrays import check_one_shape, masked


def row_log_ratio(
    logp: jax.Array, reference_logp: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """Sum over a row's positions of log pi - log reference, f32[R]; no gradient to the reference.

    Positions that the policy did not produce (observations, prompts) are masked out: with the same
    environment their probabilities cancel between two rows of one task.
    """
    logp, reference_logp = masked(mask, logp, reference_logp)
    return jnp.sum(logp - jax.lax.stop_gradient(reference_logp), axis=1)


@averaged(unit="pair")
def dpo(
    logp: jax.Array,
    reference_logp: jax.Array,
    mask: jax.Array | None = None,
    *,
    beta: float = 0.1,
) -> jax.Array:
    """Direct preference optimisation over whole trajectories.

      L = -log sigmoid(beta (r_chosen - r_rejected)),   r = sum_t (log pi - log reference).

    Sums, not means: the longer row of a pair can move more.

    Args:
      logp, reference_logp: [R, L] with R even; row 2 i is chosen, row 2 i + 1 rejected.
      mask: bool[R, L], positions that the policy produced; None for all.
      beta: > 0, inverse strength of the tie to the reference (released runs: 0.1).

    Returns:
      f32[R / 2], one value per pair.

    Raises:
      ValueError: beta is not above 0, or an odd number of rows.

    References:
      Rafailov et al. (2023), DPO, https://arxiv.org/abs/2305.18290. Over several turns with masked
      observations: Xiong et al. (2024), Building math agents with multi-turn iterative preference
      learning, https://arxiv.org/abs/2409.02392 (code ae1e642 read).
    """
    check_range("dpo beta", beta, 0.0, above=True)
    if logp.shape[0] % 2:
        raise ValueError(f"dpo: {logp.shape[0]} rows; expected an even number, in pairs")
    ratio = row_log_ratio(logp, reference_logp, mask)
    return -jax.nn.log_sigmoid(beta * (ratio[0::2] - ratio[1::2]))


@averaged(unit="pair")
def behaviour_dpo(
    logp: jax.Array,
    behaviour_logp: jax.Array,
    mask: jax.Array | None = None,
    *,
    beta: float = 0.1,
) -> jax.Array:
    """`dpo` with the distribution that was sampled from as the reference (Agent Q).

    The log-probabilities were stored when the pair was sampled, so no reference model is kept, and
    pairs of an older policy are compared with that policy.

    Args:
      logp, behaviour_logp: [R, L] with R even; row 2 i is chosen, row 2 i + 1 rejected.
      mask: bool[R, L], positions that the policy produced; None for all. Of a pair of single turns
        those of these turns.
      beta: > 0, inverse strength of the tie.

    Returns:
      f32[R / 2], one value per pair.

    Raises:
      ValueError: beta is not above 0, or an odd number of rows.

    References:
      Putta et al. (2024), Agent Q, https://arxiv.org/abs/2408.07199 (recalled, no code was read).
    """
    return dpo(logp, behaviour_logp, mask, beta=beta)


@averaged(unit="pair")
def refuel(
    logp: jax.Array,
    behaviour_logp: jax.Array,
    turn_return: jax.Array,
    mask: jax.Array | None = None,
    *,
    eta: float = 1.0,
) -> jax.Array:
    """Regression of the relative future (REFUEL): two turns from one history, no clip, no critic.

      L = ((r - r') / eta - (G - G'))^2,   r = sum_t (log pi - log sampler),

    over the positions of a turn; G its return to go. Equal returns count: they hold the ratio.

    Args:
      logp, behaviour_logp: [R, L] with R even; rows 2 i and 2 i + 1 are two turns from one history.
      turn_return: f32[R, L], G, equal in all positions of a turn.
      mask: bool[R, L], positions of the turns; None for all.
      eta: > 0. The released loss is ((r - r') - eta (G - G'))^2, eta^2 times this one.

    Returns:
      f32[R / 2], one value per pair.

    Raises:
      ValueError: eta is not above 0, or an odd number of rows.

    References:
      Gao et al. (2024), Regressing the relative future, https://arxiv.org/abs/2410.04612 (code
      ZhaolinGao/REFUEL b76c534, from notes).
    """
    check_range("refuel eta", eta, 0.0, above=True)
    check_one_shape(mask, logp, turn_return)
    if logp.shape[0] % 2:
        raise ValueError(f"refuel: {logp.shape[0]} rows; expected an even number, in pairs")
    ratio = row_log_ratio(logp, behaviour_logp, mask)
    there = jnp.ones(logp.shape, bool) if mask is None else mask
    total = jnp.sum(jnp.where(there, turn_return, 0.0), axis=1)
    goes = jax.lax.stop_gradient(total / jnp.maximum(jnp.sum(there, axis=1), 1))
    return ((ratio[0::2] - ratio[1::2]) / eta - (goes[0::2] - goes[1::2])) ** 2


@averaged(unit="row")
def kto(
    logp: jax.Array,
    reference_logp: jax.Array,
    desirable: jax.Array,
    kto_baseline: jax.Array,
    mask: jax.Array | None = None,
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> jax.Array:
    """Kahneman-Tversky optimisation: rows that are good or bad by themselves, without pairs.

      desirable: w_d (1 - sigmoid(beta (r - z0))), undesirable: w_u (1 - sigmoid(beta (z0 - r))),

    with r as in `dpo` and z0 >= 0 an estimate of KL(pi || reference), without gradient.

    Args:
      logp, reference_logp: [R, L].
      desirable: bool[R, L], the row is good; read where mask is True, equal along a row.
      kto_baseline: f32[], z0.
      mask: bool[R, L], positions that the policy produced; None for all.
      beta: > 0. desirable_weight, undesirable_weight: w_d and w_u; for unequal numbers of rows the
        authors advise w_d n_d / (w_u n_u) in [1, 4/3] (recalled, not read).

    Returns:
      f32[R], one value per row.

    Raises:
      ValueError: beta is not above 0, or a negative weight.

    References:
      Ethayarajh et al. (2024), KTO, https://arxiv.org/abs/2402.01306; over several turns as `dpo`.
    """
    check_range("kto beta", beta, 0.0, above=True)
    check_range("kto desirable_weight", desirable_weight, 0.0)
    check_range("kto undesirable_weight", undesirable_weight, 0.0)
    check_one_shape(mask, logp, desirable)
    ratio = row_log_ratio(logp, reference_logp, mask)
    z0 = jax.lax.stop_gradient(jnp.maximum(kto_baseline, 0.0))
    good = jnp.any(desirable if mask is None else desirable & mask, axis=1)
    gain = desirable_weight * (1 - jax.nn.sigmoid(beta * (ratio - z0)))
    loss = undesirable_weight * (1 - jax.nn.sigmoid(beta * (z0 - ratio)))
    return jnp.where(good, gain, loss)
