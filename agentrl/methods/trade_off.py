"""Cost and quality for each price of a call: the points of a front (AI-SearchPlanner)."""

import jax.numpy as jnp

from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns
from agentrl.rollout.metrics import mean
from agentrl.streams import last_turns


def trade_off(setup: Setup) -> Component:
    """Metrics cost/{price}, calls per episode, and quality/{price}, success, of the questions with
    each price of a call: `python -m launchers.front` reads them.

    For a planner over arrays in Research-v1, with `prices` or without.

    Metrics (Episodes):
      cost/{price}: Calls at price {price} [calls]; per episode.
      quality/{price}: Success at price {price} [share]; of questions with that price.

    Raises:
      ValueError: another environment, policy or rollout.

    References:
      AI-SearchPlanner (2025), https://arxiv.org/abs/2508.20368, from notes: a front of utility and
      cost over the price. One policy that is shown the price is ours.
    """
    env, params = required(
        setup, "trade_off", "arrays", "tools_of", "prices", example="Research-v1",
        one_environment=True, whole_episodes=True,
    )  # fmt: skip
    prices = env.prices or (float(params.call_price),)

    def annotate(context, streams, rows):
        actions = to_turns(rows.tokens, rows, streams.mask.shape)
        planner = streams.mask & (streams.role == 0)[:, None]
        calls = jnp.sum(env.tools_of(actions) & planner[..., None], axis=(1, 2))
        solved = jnp.any(last_turns(planner) & streams.success, axis=1)
        metrics = {}
        for number, price in enumerate(prices):
            here = jnp.any(planner, axis=1) & (streams.first_state.price == number)
            metrics[f"cost/{price}"] = mean(calls, here)
            metrics[f"quality/{price}"] = mean(solved, here)
        return {}, metrics

    return Component(annotate=annotate)
