"""G-RA: rewards of turns in levels, each of which counts only where the one above was reached."""

import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.streams import PerTurn


def reward_levels(setup: Setup, *, valid: float = 0.1, submitted: float = 0.1) -> Component:
    """Supplies `reward_levels` f32[N, T, 2] for reward term `gated_accumulation`.

    Level 1: `valid` for each reply that is well formed and legal. Level 2: `submitted` for the turn
    in which the agent ended the episode, whatever came of it; an episode that the time limit cut
    has none. The environment's own reward is the level above, with a threshold of its own.

    For environments that end when the agent says so, as `envs.wrappers.Submission` makes of others.

    Metrics (Credit):
      levels/valid: Level of validity [reward]; sum over an episode, before any gate.
      levels/submitted: Level of submission [reward]; sum over an episode, before any gate.

    Args:
      valid, submitted: at least 0.

    Raises:
      ValueError: segments instead of whole episodes, or a negative number.

    References:
      G-RA (2025), https://arxiv.org/abs/2508.10548, from notes on the paper: stepwise rewards of
      format and tools below those of a submission and of its tests. The amounts are ours.
    """
    check_range("config.components.reward_levels.valid", valid, 0.0)
    check_range("config.components.reward_levels.submitted", submitted, 0.0)
    required(setup, "reward_levels", None, whole_episodes=True)

    def annotate(context, streams, rows):
        mask = streams.mask
        levels = jnp.stack(
            [
                jnp.where(streams.valid & mask, valid, 0.0),
                jnp.where(streams.terminated & mask, submitted, 0.0),
            ],
            axis=-1,
        )
        sums, count = jnp.sum(levels, axis=(0, 1)), jnp.sum(jnp.any(mask, axis=1)) * 1.0
        metrics = {
            f"levels/{name}": jnp.stack([total, count])
            for name, total in zip(("valid", "submitted"), sums, strict=True)
        }
        return {"reward_levels": PerTurn(levels)}, metrics

    return Component(annotate=annotate, fills=("reward_levels",))
