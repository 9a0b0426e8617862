"""Neeko: how differently roles weight the blocks of a gated adapter."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.policies import gated


def gates(setup: Setup) -> Component:
    """Reports the gates of role-gated adapters (`config.policy.lora_blocks`).

    Metrics (Episodes):
      gate_entropy/{role}: Entropy of the gate of {role} [nats]; mean over layers and matrices; 0 is
        a collapse.
      gate_distance: Distance of gates; mean over pairs of roles of half the sum of the absolute
        differences of their gates, 0 to 1; 0 is a collapse.
      gate_distance/min: Distance of gates, nearest pair; of the pair that is nearest, 0 to 1.

    Raises:
      ValueError: a policy without gates.

    References:
      Yu et al. (2024), Neeko, https://arxiv.org/abs/2402.13717.
    """
    required(setup, "gates", "language")
    config = setup.policy.config
    if not config.lora_blocks:
        raise ValueError(
            "config.components.gates needs a policy with gates: set config.policy.lora_blocks, "
            "lora_roles and lora_profiles"
        )
    everyone = jnp.arange(config.lora_roles, dtype=jnp.int32)
    pairs = np.triu_indices(config.lora_roles, 1)

    def report(params):
        own = [
            jax.vmap(lambda gate: gated.blocks_of(gate, config, everyone))(gate)
            for gate in jax.tree.leaves(params["lora_gate"])
        ]
        entropy, apart = gated.distances(jnp.stack(own))
        told = {f"gate_entropy/{role}": entropy[role] for role in range(config.lora_roles)}
        if config.lora_roles > 1:
            told |= {"gate_distance": apart[pairs].mean(), "gate_distance/min": apart[pairs].min()}
        return {name: jnp.stack([value, jnp.ones(())]) for name, value in told.items()}

    return Component(report=report)
