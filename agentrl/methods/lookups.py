"""RAPO's steerable reward: which searches and visits of pages were of use, and which redundant."""

import jax.numpy as jnp
import numpy as np

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.turn_actions import turn_actions
from agentrl.streams import PerTurn
from envs.environment import PAGE, SEARCH


def lookups(setup: Setup, *, verifications: int = 1) -> Component:
    """Supplies `lookups` f32[N, T, 4] for reward term `steerable_reward`: of each turn's calls how
    many are useful searches, redundant ones, useful visits of a page, and redundant ones.

    A search is redundant if the stream has made it before. The first visit of a page explores, as
    many as `verifications` more of the same page verify, and those after them are redundant.

    For environments with `call_kind(action) -> i32[...]` (`envs.environment`: NO_CALL, SEARCH or
    PAGE), such as SearchQA-v1 (searches) and SoloResearch-v1 (pages), over arrays and in words.
    Metric lookups/redundant: share of the calls.

    Metrics (Credit):
      lookups/redundant: Redundant calls [share]; of searches and visits of pages.

    Raises:
      ValueError: another environment or rollout, or a negative number.

    References:
      Fathom-DeepResearch (2025), RAPO, https://arxiv.org/abs/2509.24107 (text of version 1 read).
      There a language model labels the calls by what they say; here two calls are the same if they
      are the same action.
    """
    check_range("config.components.lookups.verifications", verifications, 0)
    env, _ = required(
        setup, "lookups", None, "call_kind", example="SearchQA-v1", one_environment=True,
        whole_episodes=True,
    )  # fmt: skip
    actions_of = turn_actions(setup, "lookups")

    def annotate(context, streams, rows):
        actions = actions_of(streams, rows)
        made = actions.reshape(actions.shape[0], -1)
        number = np.arange(made.shape[1])
        same = (made[:, :, None] == made[:, None, :]) & (number[:, None] > number)
        before = jnp.sum(same, axis=2)
        kind = jnp.where(made >= 0, env.call_kind(made), -1)
        useful = jnp.where(kind == SEARCH, before == 0, before <= verifications)
        counted = [(kind == k) & (useful == use) for k in (SEARCH, PAGE) for use in (True, False)]
        each = jnp.stack([jnp.sum(x.reshape(actions.shape), axis=-1) for x in counted], axis=-1)
        calls = each.astype(jnp.float32)
        redundant = jnp.stack([jnp.sum(calls[..., 1::2]), jnp.sum(calls)])
        return {"lookups": PerTurn(calls)}, {"lookups/redundant": redundant}

    return Component(annotate=annotate, fills=("lookups",))
