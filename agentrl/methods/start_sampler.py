"""Episodes of the policy that training began with, as preference data are collected once."""

import jax
import jax.numpy as jnp

from agentrl.learner.component import Component, Inputs, Setup
from agentrl.policies.scoring import join, split


def start_sampler(setup: Setup) -> Component:
    """The parameters at the start of the updates after the warm start collect, in all updates.

    Pairs of these episodes are those of the published, offline form of DPO: sampled from the policy
    after SFT, which is the reference (config.reference.every=0), and not from what is learnt from
    them. Only the trainable parameters are stored.
    """
    policy = setup.policy

    def before(value, params, key):
        return Inputs(params=join(value, split(params, policy.frozen)[1]))

    return Component(
        init=lambda start: jax.tree.map(jnp.copy, start.params), restarts=True, before=before
    )
