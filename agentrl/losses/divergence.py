"""Estimates of the divergence between two policies from log-probabilities of samples."""

from typing import Literal

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.losses.arrays import WithMetrics, log_ratio, masked, masked_mean

KL_ESTIMATORS = ("k1", "k2", "k3", "k3+")
KLEstimator = Literal["k1", "k2", "k3", "k3+"]


def kl(
    logp: jax.Array,
    reference_logp: jax.Array,
    mask: jax.Array | None = None,
    *,
    estimator: KLEstimator,
) -> WithMetrics:
    """Schulman's estimators of KL(pi || reference), one value per position, from samples of pi.

    With d = logp - reference_logp:

              value             gradient to logp   expected gradient is that of
      k1      d                 1                  a constant (it is 0)
      k2      d^2 / 2           d                  KL(pi || reference)
      k3      exp(-d) + d - 1   1 - exp(-d)        KL(reference || pi)
      k3+     k3's              k2's               KL(pi || reference)

    k1 and k3 are unbiased, k1 with the larger variance and either sign, k3 never negative; k2 is
    biased. As a term of the loss only k2 and k3+ pull towards the minimum of KL(pi || reference);
    k1 is for a term of the reward. All of them are for samples of the current policy: after several
    updates on one batch, multiply by sg(rho).

    The KL is between the distributions that logp and reference_logp are of. With truncated sampling
    (top-k, top-p, min-p, a grammar) both are renormalised over the tokens that the sampler kept, so
    that mass which either policy has outside that set is not part of the KL and has no gradient
    from it.

    The metric `kl_ref` is the mean of this per position, whatever the loss is aggregated by.

    Metrics (Policy):
      kl_ref: KL to the reference [nats]; per token or action.

    Args:
      logp: [R, L], log-probability under the policy.
      reference_logp: [R, L], log-probability under the reference; no gradient.
      mask: bool[R, L], positions to read; None for all.
      estimator: one of `KL_ESTIMATORS`.

    Returns:
      f32[R, L], 0 where mask is False. k3 holds d within +-20 and its value below 10, as verl does:
      a position more than 2.6 nats less likely than under the reference is on the ceiling and has
      no gradient. That of k3+ is never cut.

    Raises:
      ValueError: unknown `estimator`.

    References:
      Schulman (2020), Approximating KL divergence, http://joschu.net/blog/kl-approx.html. verl
      b178a3c (read and executed; its own "k3+" raised there and is composed from its parts here).
    """
    check_choice("kl estimator", estimator, KL_ESTIMATORS)
    logp, reference_logp = masked(mask, logp, reference_logp)
    d = logp - jax.lax.stop_gradient(reference_logp)
    k2 = 0.5 * jnp.square(d)
    values = {"k1": d, "k2": k2}.get(estimator)
    if values is None:
        values = jnp.minimum(_k3(log_ratio(logp, reference_logp)), 10.0)
    if estimator == "k3+":
        # The bracket is exactly 0 and has the gradient of k2.
        values = jax.lax.stop_gradient(values) + (k2 - jax.lax.stop_gradient(k2))
    return values, {"kl_ref": values}


def exact_kl(reference_kl: jax.Array, mask: jax.Array | None = None) -> WithMetrics:
    """KL(pi || reference) in closed form, one value per position; `kl` estimates it from samples.

    Args:
      reference_kl: [R, L], the divergence, with its gradient to the policy.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False. The metric `kl_ref` is the mean of this per position.
    """
    (values,) = masked(mask, reference_kl)
    return values, {"kl_ref": values}


def skill_distillation(
    logp: jax.Array,
    old_logp: jax.Array,
    teacher_logp: jax.Array,
    mask: jax.Array | None = None,
    *,
    largest_ratio: float | None = 5.0,
) -> jax.Array:
    """Skill-SD's distillation on the policy's own tokens: rho k3, with the gradient through both.

    rho (exp(d) - 1 - d),  d = teacher_logp - logp,  rho = exp(logp - old_logp).

    Its mean over samples of the old policy is KL(pi || teacher), and so is its gradient's; k3
    without rho has that of KL(teacher || pi).

    Args:
      logp: [R, L], log-probability under the policy.
      old_logp: [R, L], the same when it was sampled.
      teacher_logp: [R, L], under the teacher; no gradient. Component
        `agentrl.methods.skill_distillation` supplies it.
      mask: bool[R, L], positions to read; None for all.
      largest_ratio: bound of rho, above 1, beyond which it has no gradient; None for none.

    Returns:
      f32[R, L], 0 where mask is False. Log-ratios are held within +-20.

    Raises:
      ValueError: a bound of 1 or less.

    References:
      Skill-SD (2026), https://arxiv.org/abs/2604.10674, from notes on the paper; the gradients were
      checked by enumeration. The bound of rho is ours.
    """
    check_range("skill_distillation largest_ratio", largest_ratio, 1.0, above=True)
    logp, old_logp, teacher_logp = masked(mask, logp, old_logp, teacher_logp)
    ratio = jnp.exp(log_ratio(logp, old_logp))
    if largest_ratio is not None:
        ratio = jnp.minimum(ratio, largest_ratio)
    return ratio * _k3(log_ratio(logp, jax.lax.stop_gradient(teacher_logp)))


def approx_kl(logp: jax.Array, old_logp: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """How far the updates on a batch have moved the policy: an estimate of KL(old || pi), f32[].

    mean(rho - 1 - log rho), rho = exp(logp - old_logp), over the positions where mask is True. The
    samples are of the old policy, so that this is k3 with the roles exchanged; unlike k3 it has no
    ceiling, for a metric should show a blow-up. verl reports the mean of -log rho under this name,
    which is the same in expectation and may be negative.

    Args:
      logp, old_logp: [R, L]; the log-ratio is held within +-20.
      mask: bool[R, L]; None for all.

    Returns:
      f32[], 0 for a mask without a True position.
    """
    return masked_mean(approx_kl_terms(logp, old_logp, mask), mask)


def approx_kl_terms(
    logp: jax.Array, old_logp: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """The values of which `approx_kl` is the mean: exp(d) - 1 - d with d = logp - old_logp.

    Args:
      logp, old_logp: [R, L]; the log-ratio is held within +-20.
      mask: bool[R, L]; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    logp, old_logp = masked(mask, logp, old_logp)
    return _k3(-log_ratio(logp, old_logp))


def _k3(d: jax.Array) -> jax.Array:
    """exp(-d) + d - 1; by expm1, since 1 would swallow a small d in float32."""
    return jnp.expm1(-d) + d
