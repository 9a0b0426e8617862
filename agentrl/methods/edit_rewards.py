"""MasHost: rewards of the single edits that build a team."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns
from agentrl.streams import PerTurn


def edit_rewards(
    setup: Setup,
    *,
    repeated: float = 0.1,
    useless: float = 0.1,
    useful: float = 0.0,
    exempt: int = 0,
) -> Component:
    """Supplies `turn_reward` f32[N, T] for estimator `hrpo`: what an edit of a team is worth.

    u = useful [added, needed, new] - repeated [added, was there] - useless [added, not needed],
    and 0 in the first `exempt` turns, so that a team may be tried out at no cost.

    For environments with `edit_facts(state, actions, mask)`, such as TeamGraph-v1, and policies
    over arrays. Metrics edits/useless, edits/repeated: shares of the additions.

    Metrics (Credit):
      edits/useless: Useless edits [share]; additions that change nothing.
      edits/repeated: Repeated edits [share]; additions that were there before.

    Args:
      repeated, useless, useful: at least 0.
      exempt: turns at the start that are not judged.

    Raises:
      ValueError: a number outside its range, another environment, policy or rollout.

    References:
      MasHost (2025): action-wise rewards and an exemption time, from reviews; the numbers and the
      judge's rule are ours (the task knows which roles it needs).
    """
    path = "config.components.edit_rewards"
    for name, value in (("repeated", repeated), ("useless", useless), ("useful", useful)):
        check_range(f"{path}.{name}", value, 0.0)
    check_range(f"{path}.exempt", exempt, 0)
    env, _ = required(
        setup, "edit_rewards", "arrays", "edit_facts", example="TeamGraph-v1", one_environment=True,
        whole_episodes=True,
    )  # fmt: skip

    def annotate(context, streams, rows):
        mask = streams.mask
        actions = to_turns(rows.tokens, rows, mask.shape)
        facts = jax.vmap(env.edit_facts)(streams.first_state, actions, mask)
        added, twice, idle = facts
        reward = useful * (added & ~twice & ~idle) - repeated * twice - useless * idle
        judged = mask & (jnp.cumsum(mask, axis=1) > exempt)

        def share(which):
            return jnp.stack([jnp.sum(which & mask), jnp.sum(added & mask)]).astype(jnp.float32)

        metrics = {"edits/useless": share(idle), "edits/repeated": share(twice)}
        return {"turn_reward": PerTurn(jnp.where(judged, reward, 0.0))}, metrics

    return Component(annotate=annotate, fills=("turn_reward",))
