"""A sampler that lags behind the learner: experience comes from earlier parameters."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Inputs, Setup
from agentrl.policies.scoring import join, split


def sampler(setup: Setup, *, staleness: int = 0) -> Component:
    """Parameters of the last `staleness` updates, oldest first; the oldest ones act.

    Only the trainable parameters are stored. With an environment in Python the next batch is
    collected while the learner works; component "importance" corrects for the lag.
    """
    check_range("config.staleness", staleness, 0)
    policy = setup.policy

    def before(value, params, key):
        return Inputs(params=join(value[0], split(params, policy.frozen)[1]))

    def after(value, outcome):
        return (*value[1:], split(outcome.before.params, policy.frozen)[0]), {}

    return Component(
        init=lambda start: tuple(jax.tree.map(jnp.copy, start.params) for _ in range(staleness)),
        restarts=True,
        before=before,
        after=after,
        counts_rejected=True,
    )
