"""The divergence from a reference as a part of the reward (RLHF's PPO, PPO-max)."""

from typing import Literal, get_args

import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.components.reference import reference
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns
from agentrl.streams import PerPosition, PerTurn

Per = Literal["token", "turn"]


def reference_penalty(
    setup: Setup, *, coefficient: float = 0.01, per: Per = "token", every: int = 0
) -> Component:
    """Supplies the penalty coefficient (log pi(a_p) - log pi_ref(a_p)) of what the policy wrote.

    pi is the policy that sampled. per="token": `token_penalty` f32[R, L] for estimators
    `token_gae` and `length_adaptive_token_gae`, which take it from the reward of each token before
    they sum over tokens, so that a token answers for the drift of those after it, too. per="turn":
    `turn_penalty` f32[N, T], the sum over a turn's tokens, for reward term
    `rewards.reference_penalty` and any estimator; over arrays a turn is one token.

    Unlike the term `losses.kl` of the objective it moves the critic's targets, and has no gradient
    of its own. It takes a forward pass of the reference. Metric reward_kl, the mean log-ratio per
    token.

    Metrics (Policy):
      reward_kl: KL in the reward [nats]; per token or action, as sampled.

    Args:
      coefficient: beta, at least 0 (0.01 in PPO-max's script, 0.02 its default).
      per: see above. "token" needs a language policy.
      every: updates after which the parameters become the reference, as in config.reference; 0:
        those at the start of the updates after the warm start, for good.

    Raises:
      ValueError: per="token" of a policy over arrays, or an option outside its range.

    References:
      Ziegler et al. (2019), https://arxiv.org/abs/1909.08593 (recalled); Zheng et al. (2023),
      PPO-max, https://arxiv.org/abs/2307.04964, code OpenLMLab/MOSS-RLHF 4865d82 (read).
    """
    path = "config.components.reference_penalty"
    check_range(f"{path}.coefficient", coefficient, 0.0)
    check_choice(f"{path}.per", per, get_args(Per))
    check_range(f"{path}.every", every, 0)
    if per == "token":
        required(setup, "reference_penalty", "language")
    # The reference itself, whether or not a term of the objective reads it.
    inner = reference(setup._replace(reads=frozenset({"reference_logp"})), every=every)

    def annotate(context, streams, rows):
        of_reference = inner.annotate(context, streams, rows)["reference_logp"].values
        ratio = jnp.where(rows.loss_mask, rows.behaviour_logp - of_reference, 0.0)
        measured = jnp.stack([jnp.sum(ratio), jnp.sum(rows.loss_mask, dtype=jnp.float32)])
        penalty = coefficient * ratio
        if per == "token":
            note = {"token_penalty": PerPosition(penalty)}
        else:
            note = {"turn_penalty": PerTurn(to_turns(penalty, rows, streams.mask.shape))}
        return note, {"reward_kl": measured}

    return Component(
        init=inner.init,
        restarts=True,
        annotate=annotate,
        after=inner.after,
        fills=(f"{per}_penalty",),
    )
