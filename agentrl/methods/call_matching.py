"""MatchTIR: each tool call's reward, by a matching of the calls made with reference calls."""

from typing import get_args

import jax
import jax.numpy as jnp

from agentrl import rewards
from agentrl.checks import check_choice
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.turn_actions import turn_actions
from agentrl.rewards.matching import Assignment
from agentrl.streams import PerTurn


def call_matching(
    setup: Setup, *, assignment: Assignment = "optimal", unmatched: float = 0.0
) -> Component:
    """Supplies `turn_reward` f32[N, T] for reward term `turn_bonus`: the mean of the turn's calls.

    All calls of a stream are matched with the reference calls of its task, after the stream has
    ended (`agentrl.rewards.call_similarity`, `matched_calls`). A turn over arrays is one call or
    none; in words it is as many as the reply has commands (config.policy.max_actions).

    For environments with `call_of(action) -> (tool, parameters [..., K])`, tool -1 for actions that
    are no call, and `reference_calls(state, params) -> (tools [G], parameters [G, K])`, such as
    ToolCalls-v1, which end with the first action that is no call.

    Metric calls/matched: mean reward of a call.

    Metrics (Credit):
      calls/matched: Matched calls; mean reward of a tool call that is compared with the
        reference's.

    Args:
      assignment, unmatched: see `agentrl.rewards.matched_calls`.

    Raises:
      ValueError: another environment or rollout, or an unknown assignment.

    References:
      Qu et al. (2026), MatchTIR, https://arxiv.org/abs/2601.10712; code f614ce1 (read).
    """
    check_choice("config.components.call_matching.assignment", assignment, get_args(Assignment))
    members = "call_of", "reference_calls"
    env, env_params = required(
        setup, "call_matching", None, *members, example="ToolCalls-v1", one_environment=True,
        whole_episodes=True,
    )  # fmt: skip

    actions_of = turn_actions(setup, "call_matching")

    def of_stream(x):
        return x.reshape(x.shape[0], -1, *x.shape[3:])

    def annotate(context, streams, rows):
        actions = actions_of(streams, rows)
        tool, parameters = jax.tree.map(of_stream, env.call_of(actions))
        taken = of_stream(actions) >= 0
        over = jnp.cumsum(taken & (tool < 0), axis=1) > 0
        called = taken & ~over

        def matched(tool, parameters, called, state):
            reference = env.reference_calls(state, env_params)
            similarity = rewards.call_similarity(tool, parameters, *reference)
            there = jnp.ones(reference[0].shape, bool)
            return rewards.matched_calls(
                similarity, called, there, assignment=assignment, unmatched=unmatched
            )

        reward = jax.vmap(matched)(tool, parameters, called, streams.first_state)
        total = jnp.stack([jnp.sum(reward), jnp.sum(called) * 1.0])
        reward, called = reward.reshape(actions.shape), called.reshape(actions.shape)
        mean = jnp.sum(reward, axis=-1) / jnp.maximum(jnp.sum(called, axis=-1), 1)
        return {"turn_reward": PerTurn(mean)}, {"calls/matched": total}

    return Component(annotate=annotate, fills=("turn_reward",))
