"""Losses of preferences: sums of log-ratios to a reference, over what the policy wrote."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.declarations import averaged
from agentrl.losses.arrays import WithMetrics, check_one_shape, masked, masked_mean


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
    smoothing: float = 0.0,
) -> jax.Array:
    """Direct preference optimisation over whole trajectories.

      L = -log sigmoid(beta (r_chosen - r_rejected)),   r = sum_t (log pi - log reference).

    Sums, not means: the longer row of a pair can move more.

    Args:
      logp, reference_logp: [R, L] with R even; row 2 i is chosen, row 2 i + 1 rejected.
      mask: bool[R, L], positions that the policy produced; None for all.
      beta: > 0, inverse strength of the tie to the reference (released runs: 0.1).
      smoothing: s in [0, 0.5), how often a label is the wrong way round:
        (1 - s) L(r_chosen - r_rejected) + s L(r_rejected - r_chosen). Matryoshka has 0.1.

    Returns:
      f32[R / 2], one value per pair.

    Raises:
      ValueError: an option outside its range, or an odd number of rows.

    References:
      Rafailov et al. (2023), DPO, https://arxiv.org/abs/2305.18290. Over several turns with masked
      observations: Xiong et al. (2024), Building math agents with multi-turn iterative preference
      learning, https://arxiv.org/abs/2409.02392 (code ae1e642 read).
    """
    check_range("dpo beta", beta, 0.0, above=True)
    check_range("dpo smoothing", smoothing, 0.0, 0.5)
    check_pairs("dpo", logp)
    ratio = row_log_ratio(logp, reference_logp, mask)
    margin = beta * (ratio[0::2] - ratio[1::2])
    right, wrong = jax.nn.log_sigmoid(margin), jax.nn.log_sigmoid(-margin)
    return -((1 - smoothing) * right + smoothing * wrong)


@averaged(unit="pair")
def simpo(
    logp: jax.Array,
    mask: jax.Array | None = None,
    *,
    beta: float = 2.0,
    margin: float = 0.55,
) -> jax.Array:
    """Preference optimisation by mean log-probabilities, without a reference (SimPO).

      L = -log sigmoid(beta (m_chosen - m_rejected - margin)),   m the mean of log pi over a row.

    Args:
      logp: [R, L] with R even; row 2 i is chosen, row 2 i + 1 rejected.
      mask: bool[R, L], positions that the policy produced; None for all.
      beta: > 0. margin: >= 0, by which the chosen row is to be likelier per token, in nats.
        (SimPO's code has the ratio margin / beta; Matryoshka sets 0.55.)

    Returns:
      f32[R / 2], one value per pair; that of a pair without positions has no gradient.

    Raises:
      ValueError: an option outside its range, or an odd number of rows.

    References:
      Meng et al. (2024), SimPO, https://arxiv.org/abs/2405.14734 (recalled).
    """
    check_range("simpo beta", beta, 0.0, above=True)
    check_range("simpo margin", margin, 0.0)
    check_pairs("simpo", logp)
    (logp,) = masked(mask, logp)
    here = jnp.ones(logp.shape, bool) if mask is None else mask
    mean = jnp.sum(logp, axis=1) / jnp.maximum(jnp.sum(here, axis=1), 1)
    return -jax.nn.log_sigmoid(beta * (mean[0::2] - mean[1::2] - margin))


@averaged(unit="pair")
def weighted_dpo(
    logp: jax.Array,
    reference_logp: jax.Array,
    pair_weight: jax.Array,
    mask: jax.Array | None = None,
    *,
    beta: float = 0.1,
    use_reference: bool = True,
) -> jax.Array:
    """DPO of pairs that count unequally (StepORLM).

      L = -w log sigmoid(beta (r_chosen - r_rejected)),   r as in `dpo`.

    StepORLM's w is 1 where the outcomes of the two differ, and the difference of their shares of
    right steps where they do not: `agentrl.methods.pairs.pairs(by="judgement")`. The mean over the
    pairs is not divided by the sum of the weights: a batch of small ones takes a small step.

    Args:
      logp, reference_logp: [R, L] with R even, in pairs as for `dpo`.
      pair_weight: f32[R, L], w >= 0, equal over both rows of a pair; read where mask is True.
      mask: bool[R, L], positions that the policy produced; None for all.
      beta: > 0.
      use_reference: False: r is sum_t log pi alone, as the formula is printed in notes on the
        paper; whether the paper leaves the reference out is not known.

    Returns:
      f32[R / 2], one value per pair.

    Raises:
      ValueError: beta is not above 0, or an odd number of rows.

    References:
      StepORLM (2025), https://arxiv.org/abs/2509.22558, from notes; no code was read.
    """
    check_range("weighted_dpo beta", beta, 0.0, above=True)
    check_pairs("weighted_dpo", logp)
    check_one_shape(mask, logp, pair_weight)
    reference = reference_logp if use_reference else jnp.zeros_like(reference_logp)
    (weight,) = masked(mask, pair_weight)
    weight = jnp.max(weight.reshape(logp.shape[0] // 2, -1), axis=1)
    return jax.lax.stop_gradient(weight) * dpo(logp, reference, mask, beta=beta)


@averaged(unit="pair")
def rpo(
    logp: jax.Array,
    reference_logp: jax.Array,
    mask: jax.Array | None = None,
    *,
    beta: float = 0.1,
    alpha: float = 1.0,
    per_token: bool = True,
) -> jax.Array:
    """DPO plus the negative log-likelihood of what was chosen, against its fall (RPO, IPR).

      L = dpo + alpha mean_t(-log pi(chosen_t)).

    DPO is content if both rows of a pair become unlikelier; the second term is not.

    Args:
      logp, reference_logp: [R, L] with R even, in pairs as for `dpo`.
      mask: bool[R, L], positions that the policy produced; None for all.
      beta: > 0. alpha: >= 0, weight of the likelihood (PAPRIKA, IPR: 1).
      per_token: False: the sum over t, as in IPR's code, where it outweighs the preference.

    Returns:
      f32[R / 2], one value per pair.

    Raises:
      ValueError: beta is not above 0, a negative alpha, or an odd number of rows.

    Deviation: the mean is over the tokens of each chosen row, as in RPO's equation; in PAPRIKA's
    code it is over those of all chosen rows of a batch.

    References:
      Pang et al. (2024), Iterative reasoning preference optimization,
      https://arxiv.org/abs/2404.19733 (recalled, not read). Tajwar et al. (2025), PAPRIKA,
      https://arxiv.org/abs/2502.17543 (code tajwarfahim/paprika 8470461, from notes). Xiong et al.
      (2024), IPR, https://arxiv.org/abs/2406.11176 (code WeiminXiong/IPR 93335a3, from notes).
    """
    check_range("rpo alpha", alpha, 0.0)
    chosen = logp[0::2], None if mask is None else mask[0::2]
    values, where = masked(chosen[1], chosen[0])[0], chosen[1]
    likelihood = jnp.sum(values, axis=1)
    if per_token:
        count = logp.shape[1] if where is None else jnp.maximum(jnp.sum(where, axis=1), 1)
        likelihood = likelihood / count
    return dpo(logp, reference_logp, mask, beta=beta) - alpha * likelihood


@averaged(unit="pair")
def kto(
    logp: jax.Array,
    reference_logp: jax.Array,
    desirable: jax.Array,
    mask: jax.Array | None = None,
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
    balanced: bool = False,
) -> WithMetrics:
    """Kahneman-Tversky optimisation: rows that are good or bad by themselves.

      desirable: w_d (1 - sigmoid(beta (r - z0))), undesirable: w_u (1 - sigmoid(beta (z0 - r))),

    with r as in `dpo`. The reference point z0 = max(0, mean r of mismatched rows) estimates
    KL(pi || reference) by replies that belong to other prompts. It is of the policy under training
    and of the rows at hand, and has no gradient.

    Metrics (Opponents, buffers, tasks):
      kto_baseline: KTO's reference point [nats]; log-ratio of mismatched rows.

    Args:
      logp, reference_logp: [R, L] with R even. Row 2 i is what was sampled; row 2 i + 1, its
        mismatched row, the same prompt with the reply of another one.
      desirable: bool[R, L], row 2 i is good; read where mask is True, equal along a row.
      mask: bool[R, L], positions of replies; None for all. z0 is over pairs in which both rows have
        some.
      beta: > 0. desirable_weight, undesirable_weight: w_d and w_u, >= 0. For unequal numbers the
        authors advise w_d n_d / (w_u n_u) in [1, 4/3] (recalled, not read).
      balanced: w_d and w_u are divided by twice the share of their rows, so that equal weights
        give both kinds the same say whatever their numbers are.

    Returns:
      f32[R / 2], one value per sampled row, and metric `kto_baseline`, z0.

    Raises:
      ValueError: beta is not above 0, a negative weight, or an odd number of rows.

    References:
      Ethayarajh et al. (2024), KTO, https://arxiv.org/abs/2402.01306; over several turns Xiong et
      al. (2024), https://arxiv.org/abs/2409.02392 (code ae1e642 read).
    """
    check_range("kto beta", beta, 0.0, above=True)
    check_range("kto desirable_weight", desirable_weight, 0.0)
    check_range("kto undesirable_weight", undesirable_weight, 0.0)
    check_pairs("kto", logp)
    check_one_shape(mask, logp, desirable)
    where = jnp.ones(logp.shape, bool) if mask is None else jnp.asarray(mask)
    ratio = row_log_ratio(logp, reference_logp, where)
    some = jnp.any(where, axis=1)
    there = some[0::2] & some[1::2]
    z0 = jax.lax.stop_gradient(jnp.maximum(masked_mean(ratio[1::2], there), 0.0))
    good = jnp.any(desirable & where, axis=1)[0::2]
    weight = jnp.where(good, desirable_weight, undesirable_weight)
    if balanced:
        share = masked_mean(good, there)
        share = jnp.where(good, share, 1 - share)
        weight = jnp.where(there, weight / jnp.maximum(2 * share, 1e-9), 0.0)
    sign = jnp.where(good, 1.0, -1.0)
    values = weight * jax.nn.sigmoid(-beta * sign * (ratio[0::2] - z0))
    return values, {"kto_baseline": jnp.where(where, z0, 0.0)}


def check_pairs(name: str, logp: jax.Array) -> None:
    """ValueError unless the rows are in pairs."""
    if logp.shape[0] % 2:
        raise ValueError(f"{name}: {logp.shape[0]} rows; expected an even number, in pairs")


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
