"""MatchTIR: each tool call's reward, by a matching of the calls made with reference calls."""

from typing import get_args

import jax
import jax.numpy as jnp

from agentrl import rewards
from agentrl.checks import check_choice
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns
from agentrl.rewards.matching import Assignment
from agentrl.streams import PerTurn


def call_matching(
    setup: Setup, *, assignment: Assignment = "optimal", unmatched: float = 0.0
) -> Component:
    """Supplies `turn_reward` f32[N, T] for reward term `turn_bonus`: the reward of the turn's call.

    All calls of a stream are matched with the reference calls of its task, after the stream has
    ended (`agentrl.rewards.call_similarity`, `matched_calls`).

    For environments with `call_of(action) -> (tool, parameters [..., K])`, tool -1 for actions that
    are no call, and `reference_calls(state, params) -> (tools [G], parameters [G, K])`, such as
    ToolCalls-v1, and policies over arrays, whose actions are numbers.

    Metric calls/matched: mean reward of a call.

    Args:
      assignment, unmatched: see `agentrl.rewards.matched_calls`.

    Raises:
      ValueError: another environment, policy or rollout, or an unknown assignment.

    References:
      Qu et al. (2026), MatchTIR, https://arxiv.org/abs/2601.10712; code f614ce1 (read).
    """
    check_choice("config.components.call_matching.assignment", assignment, get_args(Assignment))
    members = "call_of", "reference_calls"
    env, env_params = required(
        setup, "call_matching", "arrays", *members, example="ToolCalls-v1", one_environment=True,
        whole_episodes=True,
    )  # fmt: skip

    def annotate(context, streams, rows):
        mask = streams.mask
        tool, parameters = env.call_of(to_turns(rows.tokens, rows, mask.shape))
        called = mask & (tool >= 0)

        def of_stream(tool, parameters, called, state):
            reference = env.reference_calls(state, env_params)
            similarity = rewards.call_similarity(tool, parameters, *reference)
            there = jnp.ones(reference[0].shape, bool)
            return rewards.matched_calls(
                similarity, called, there, assignment=assignment, unmatched=unmatched
            )

        reward = jax.vmap(of_stream)(tool, parameters, called, streams.first_state)
        total = jnp.stack([jnp.sum(reward), jnp.sum(called) * 1.0])
        return {"turn_reward": PerTurn(reward)}, {"calls/matched": total}

    return Component(annotate=annotate, fills=("turn_reward",))
