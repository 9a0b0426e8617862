"""MasHost: what each edit of a team is worth, by leaving out the agent that it added."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.turn_actions import turn_actions
from agentrl.streams import PerTurn


def edit_marginals(setup: Setup, *, exempt: int = 0) -> Component:
    """Supplies `turn_reward` f32[N, T] for estimator `hrpo`: an edit's marginal worth.

    u_t = S(team) - S(team without the agent that edit t added), S the expected reward of the team
    that ran; 0 for agents that were dropped before, for other edits, for replies that are no legal
    command, and in the first `exempt` turns.

    For environments with `edit_marginals(state, params, actions, mask)`, such as AgentGraph-v1 with
    one round, over arrays and in words, where a reply is one edit. Reports
    edits/useless (see `edit_rewards`), additions worth nothing or less, too.

    Metrics (Credit):
      edits/marginal: Worth of an edit [reward]; mean worth of an added agent, left out.

    Args:
      exempt: turns at the start that are not judged.

    Raises:
      ValueError: a number outside its range, another environment or rollout, or replies of several
        commands.

    References:
      MasHost (2025): action-wise rewards and an exemption time, from reviews. Theirs judge whether
      a role is relevant and new; the marginal by execution without the component is ours.
    """
    check_range("config.components.edit_marginals.exempt", exempt, 0)
    env, env_params = required(
        setup, "edit_marginals", None, "edit_marginals", example="AgentGraph-v1",
        one_environment=True, whole_episodes=True,
    )  # fmt: skip
    if setup.policy.reads_text and setup.policy.grammar.max_actions > 1:
        raise ValueError(
            f"component 'edit_marginals' with policy.max_actions={setup.policy.grammar.max_actions}"
            ": a turn is one edit; set policy.max_actions=1"
        )
    actions_of = turn_actions(setup, "edit_marginals")

    def annotate(context, streams, rows):
        mask = streams.mask
        actions = actions_of(streams, rows)[..., 0]
        each = jax.vmap(env.edit_marginals, in_axes=(0, None, 0, 0))
        worth, added = each(streams.first_state, env_params, actions, mask)
        judged = mask & (jnp.cumsum(mask, axis=1) > exempt)
        total = jnp.sum(added).astype(jnp.float32)
        useless = jnp.sum(added & (worth <= 0)).astype(jnp.float32)
        metrics = {
            "edits/useless": jnp.stack([useless, total]),
            "edits/marginal": jnp.stack([jnp.sum(worth), total]),
        }
        return {"turn_reward": PerTurn(jnp.where(judged, worth, 0.0))}, metrics

    return Component(annotate=annotate, fills=("turn_reward",))
