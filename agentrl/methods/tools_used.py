"""HierSearch: which tools each turn used."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.methods.by_turn import its_environment, to_turns


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
    env, _ = its_environment(setup, "tools_used", "tools_of", example="Research-v1")

    def annotate(value, params, streams, rows, key):
        if streams is None:
            return {}
        actions = to_turns(rows.tokens, rows, streams.mask.shape)
        return {"tools_used": env.tools_of(actions) & streams.mask[..., None]}

    def after(value, outcome):
        used = jnp.any(outcome.notes["tools_used"], axis=1)
        any_ = jnp.any(used, axis=1)
        share = jnp.stack([jnp.sum(jnp.mean(used, axis=1)), jnp.sum(any_) * 1.0])
        return value, {"tools/share": jnp.where(outcome.finite, share, 0.0)}

    return Component(
        init=lambda start: (), annotate=annotate, after=after, supplies=("tools_used",)
    )
