"""HierSearch: which tools each turn used."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns
from agentrl.streams import PerTurn


def tools_used(setup: Setup) -> Component:
    """Supplies `tools_used` bool[N, T, K] for reward term `consolation`.

    For environments with `tools_of(actions) -> bool[..., K]`, such as Research-v1, and policies
    over arrays. Metric tools/share: mean share of the tools that a stream used, of streams that
    used any.

    Raises:
      ValueError: another environment, policy or rollout.

    References:
      HierSearch (2025), https://arxiv.org/abs/2508.08088 (code read).
    """
    env, _ = required(
        setup, "tools_used", "arrays", "tools_of", example="Research-v1", one_environment=True,
        whole_episodes=True,
    )  # fmt: skip

    def annotate(context, streams, rows):
        actions = to_turns(rows.tokens, rows, streams.mask.shape)
        used = env.tools_of(actions) & streams.mask[..., None]
        of_stream = jnp.any(used, axis=1)
        some = jnp.sum(jnp.any(of_stream, axis=1)) * 1.0
        share = jnp.stack([jnp.sum(jnp.mean(of_stream, axis=1)), some])
        return {"tools_used": PerTurn(used)}, {"tools/share": share}

    return Component(annotate=annotate, fills=("tools_used",))
