"""HierSearch: which tools each turn used."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns
from agentrl.streams import PerTurn


def tools_used(setup: Setup) -> Component:
    """Supplies `tools_used` bool[N, T, K] and `tools_listed` i32[N, T] for reward terms
    `consolation` and `local_first`.

    For environments with `tools_of(actions) -> bool[..., K]` and `tools_listed`, the number of
    tools in the prompt of each role, such as Research-v1, and policies over arrays.

    Metrics (Credit):
      tools/share: Listed tools used [share]; mean over the streams that used any.

    Raises:
      ValueError: another environment, policy or rollout.

    References:
      HierSearch (2025), https://arxiv.org/abs/2508.08088 (code read).
    """
    env, _ = required(
        setup, "tools_used", "arrays", "tools_of", "tools_listed", example="Research-v1",
        one_environment=True, whole_episodes=True,
    )  # fmt: skip

    def annotate(context, streams, rows):
        actions = to_turns(rows.tokens, rows, streams.mask.shape)
        used = env.tools_of(actions) & streams.mask[..., None]
        of_stream = jnp.any(used, axis=1)
        role = jnp.zeros(of_stream.shape[0], jnp.int32) if streams.role is None else streams.role
        listed = jnp.asarray(env.tools_listed, jnp.int32)[role]
        some = jnp.sum(jnp.any(of_stream, axis=1)) * 1.0
        share = jnp.stack([jnp.sum(jnp.sum(of_stream, axis=1) / listed), some])
        of_turns = jnp.where(streams.mask, listed[:, None], 0)
        notes = {"tools_used": PerTurn(used), "tools_listed": PerTurn(of_turns)}
        return notes, {"tools/share": share}

    return Component(annotate=annotate, fills=("tools_used", "tools_listed"))
