"""DeepTravel: turns whose claims are checked against the tools' answers."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.turn_actions import turn_actions
from agentrl.streams import PerTurn


def turn_checks(setup: Setup, *, bonus: float = 0.5) -> Component:
    """Supplies `verified` bool[N, T] for reward term `verified_reward`, and `turn_reward` f32[N, T]
    for `turn_bonus`.

    A turn is verified if it claims nothing, or if the tools confirm what it claims. `turn_reward`
    is `bonus`, shared equally among the stream's claims, for each that is confirmed.

    For environments with `checked(key, state, action i32[T, M], params) -> (claims bool[T],
    confirmed bool[T])` of an episode from its first state, such as Travel-v1.

    Metrics (Episodes):
      unconfirmed: Unconfirmed claims [share]; claims, such as bookings, that the tools do not
        confirm; hallucinations in the paper.
      checks: Streams checked turn by turn [share]; those with a positive return, whose turns alone
        the paper's second check looks at.

    Args:
      bonus: at least 0.

    Raises:
      ValueError: another environment or rollout, or a negative number.

    References:
      DeepTravel (2025), https://arxiv.org/abs/2509.21842, from notes on the paper; no code read.
      `turn_reward` is ours, for comparison: checks of turns without the one of the whole trip.
    """
    check_range("config.components.turn_checks.bonus", bonus, 0.0)
    env, env_params = required(
        setup, "turn_checks", None, "checked", example="Travel-v1", one_environment=True,
        whole_episodes=True,
    )  # fmt: skip
    actions_of = turn_actions(setup, "turn_checks")

    def annotate(context, streams, rows):
        mask = streams.mask
        keys = jax.random.split(context.key, mask.shape[0])
        action = actions_of(streams, rows)
        check = jax.vmap(env.checked, in_axes=(0, 0, 0, None))
        claims, confirmed = check(keys, streams.first_state, action, env_params)
        claims, confirmed = claims & mask, confirmed & mask
        count = jnp.sum(claims, axis=1, keepdims=True)
        reward = jnp.where(confirmed, bonus / jnp.maximum(count, 1), 0.0)
        passed = jnp.sum(jnp.where(mask, streams.reward, 0.0), axis=1) > 0
        streams_there = jnp.sum(jnp.any(mask, axis=1)) * 1.0
        wrong, number = jnp.sum(claims & ~confirmed) * 1.0, jnp.sum(claims) * 1.0
        metrics = {
            "unconfirmed": jnp.stack([wrong, number]),
            "checks": jnp.stack([jnp.sum(passed) * 1.0, streams_there]),
        }
        return {"verified": PerTurn(~claims | confirmed), "turn_reward": PerTurn(reward)}, metrics

    return Component(annotate=annotate, fills=("verified", "turn_reward"))
