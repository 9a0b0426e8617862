"""Drift: how far the policy is, turn by turn, from itself with the goal fresh in its prompt."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.losses import kl
from agentrl.methods.by_turn import to_turns
from agentrl.methods.prompted import make_prompted
from agentrl.streams import Rows


def drift(
    setup: Setup, *, reminder: str | Callable[..., Any], turns: tuple[int, ...] = (1, 2, 4, 8, 16)
) -> Component:
    """Metrics drift/turn_{t}: mean KL(pi || pi reminded) per token of the replies of turn t.

    It is estimated from the sampled tokens (k3), in a forward pass per update. The reminder stands
    in front of each row: with context "window" in front of what is still shown, with "whole" in
    front of the episode. `agentrl.evaluation.drift.fit_drift` fits a series of turns;
    config.context.inject with inject_every reminds the policy that acts. Later turns are those of
    episodes that got so far.

    Metrics (Policy):
      drift/turn_{k}: Drift, turn {k} [nats]; KL to the policy reminded of its task, per token of
        the k-th turn.

    Args:
      reminder: text, or a function (state, agent, params) -> fragments of the environment's
        lexicon, of the state that the episode started from.
      turns: that are shown, counted from 1.

    Raises:
      ValueError: a policy that does not read text, several environments or agents, or turns that
        are not positive.

    References:
      Drift no more? Context equilibria in multi-turn LLM interactions (2025), from notes on the
      paper, which takes the divergence over the whole vocabulary.
    """
    for turn in turns:
        check_range("config.components.drift.turns", turn, 1)
    prompted = make_prompted(setup, "drift", reminder)

    def annotate(context, streams, rows):
        return {}, by_turn(rows, prompted(context.params, streams, rows), streams.mask.shape, turns)

    return Component(annotate=annotate)


def by_turn(
    rows: Rows, reminded: jax.Array, shape: tuple[int, int], turns: Sequence[int]
) -> dict[str, jax.Array]:
    """The metrics of `drift`.

    Args:
      rows: of streams [N, T] = shape, with the policy's own log-probabilities. reminded: f32[R, L],
        those of the reminded policy. turns: as for `drift`; those beyond T are left out.
    """
    each, _ = kl(rows.behaviour_logp, reminded, rows.loss_mask, estimator="k3")
    total, count = (to_turns(x, rows, shape) for x in (each, jnp.ones_like(each)))
    return {
        f"drift/turn_{turn}": jnp.stack([jnp.sum(x[:, turn - 1]) for x in (total, count)])
        for turn in turns
        if turn <= shape[1]
    }
