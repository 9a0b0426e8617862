"""Truncated importance weights of the learner over the sampler."""

import jax.numpy as jnp

from agentrl import losses
from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.streams import PerPosition


def importance(setup: Setup, *, cap: float, level: str = "token") -> Component:
    """Supplies `importance` and `old_logp`, f32[R, L] each.

    For a sampler that is not the learner before the update (config.staleness, other kernels or
    weights): `old_logp`, which ratios of losses are to, becomes the learner's own before the
    update, at the cost of a forward pass over the rows; terms with scale="importance" are
    multiplied by `losses.truncated_importance_weight` of it over the sampler.

    Reports kl/rollout_train (see `update`) over all rows, too.

    Metrics (Objective and optimizer):
      importance_weight: Importance weight; mean, truncated, of a stale sampler.
      importance_ess: Effective sample [share]; (sum w)^2 / (n sum w^2) of a stale sampler.

    Args:
      cap: largest weight. level: one of `losses.IMPORTANCE_LEVELS`.
    """
    check_range("config.components.importance.cap", cap, 0, above=True)
    check_choice("config.components.importance.level", level, losses.IMPORTANCE_LEVELS)

    def annotate(context, streams, rows):
        old = log_probs(setup.policy, context.params, rows, setup.microbatch, setup.lengths)
        weight = losses.truncated_importance_weight(
            old, rows.behaviour_logp, rows.loss_mask, cap=cap, level=level
        )
        return {"old_logp": PerPosition(old), "importance": PerPosition(weight)}

    def after(value, outcome):
        rows, notes = outcome.rows, outcome.notes
        mask = outcome.credit.of_positions(rows)
        count = jnp.sum(mask, dtype=jnp.float32)
        weight = jnp.where(mask, notes["importance"].values, 0.0)
        total = jnp.sum(weight)
        divergence = losses.approx_kl(notes["old_logp"].values, rows.behaviour_logp, mask)
        return value, {
            "kl/rollout_train": jnp.stack([divergence * count, count]),
            "importance_weight": jnp.stack([total, count]),
            "importance_ess": jnp.stack([total**2, count * jnp.sum(weight**2)]),
        }

    return Component(annotate=annotate, after=after, fills=("importance", "old_logp"))
